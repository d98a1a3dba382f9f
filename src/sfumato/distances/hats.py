"""`hat` and `hat-gaussian`: the hat structure with Laplace or Gaussian noise, the default for l1, l_p^p and l2.

Source: this library; it replaces the binary tree of appendix B of 003_8abe5b5ce9db92a1.txt, with which it shares the
reduction to columns (Algorithm 4) and the embedding of l2 (Corollary D.2).

Guarantee. `hat` and `projection` bound the integers of one record, `design` splits them. f records differ between
neighbours (add/remove 1, replace 2, times the records of a user).
`hat`: discrete Laplace noise of rate e / (f l1) on every sum is e-DP, in any number of columns (Theorem B.3's part).
`hat-gaussian`: discrete Gaussian noise calibrated to the l2 norm over all columns together, as in
`central.fourier_gaussian` (the distance from the rounded Gaussian counts only the sums that differ), is (e,
delta)-DP (Theorem B.4's part). A replaced record moves the sums by at most sqrt(2) l2, because no integer is negative.
The count is read off the nodes and costs nothing, or is bought first at e_c, and e = epsilon - e_c.

Error. Unbiased up to the last level (`hat`) and, for l2, up to clipping (`projection`). For d columns of width R the
noise of a sum of l1 distances is 2.27 d^1.5 R / e, and 0.92 c d R with Gaussian noise of multiplier c.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from sfumato.central.fourier_gaussian import LARGEST_SIGMA, calibrate, gaussian_multiplier, lattice_distance
from sfumato.central.mechanism import Mechanism
from sfumato.distances import design
from sfumato.distances.counting import count_reader
from sfumato.distances.hat import LARGEST_UNIT, MOST_LEVELS, HatQuantizer
from sfumato.distances.method import DistanceMethod, Forecast, forecast_by_reading
from sfumato.distances.projection import BETA, CLIP, EMBEDDING_VARIANCE, MOST_PROJECTIONS, Projection, ProjectedQuantizer
from sfumato.distances.request import DistanceRequest
from sfumato.errors import InputError
from sfumato.kernels.distance import Distance
from sfumato.privacy.laws import NoiseLaw
from sfumato.privacy.loss import Loss
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace
from sfumato.quantizers.base import Floats, LinearQuantizer
from sfumato.quantizers.box import Box

METRICS = ("l1", "l2", "lpp")
OPTIONS = ("levels", "projections", "clip")
FEWEST_PROJECTIONS = 8
# Share of the worst embedding error that is left in a sum over records that lie around the query (measured: about 1/4).
DIRECTIONS = 0.25
EMBEDDING_SHARE = 0.3  # of the noise, where more projections cost no privacy

Noise = Callable[[float, Floats], float]  # noise of an answer for a power and columns' widths
Hats = Callable[[Distance, Box, int], HatQuantizer]  # the structure with so many levels over a box
