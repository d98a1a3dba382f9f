"""The check of `landmarks`: unbiased Fourier sums of the same records, for a stated share of the budget.

A public sample may lack a kind of record, and the landmarks' own sums hardly show it. Fourier sums do not depend on the
sample: the difference between them and what the landmarks' answer explains of them is measured, corrected where it is
clear, and in every error bar (`quantizers.checked`).

Guarantee. Pure: the landmarks' sums at (1 - c) e_f and the Fourier sums at c e_f (`central.landmarks`,
`central.fourier`, each with its proof) compose to e_f. delta > 0: a record's integers of both parts together have a
squared l2 norm of at most s^2 + m_g r^2, s the landmarks' scale and r the radius of one of its m_g pairs, and one
discrete Gaussian noise on all sums covers that. The scales give the pairs the share c of it, so that the landmarks'
noise grows by 1 / sqrt(1 - c).

Error. v(y) of `quantizers.checked` is (H / (2 m) + noise) (1 - |g(y)|^2), H the squared length of what the landmarks
miss of the records' mean, noise that of `fourier` or `fourier-gaussian` at the share. A public sample of L points like
the records misses H = (1 - |f|^2) / L by chance. Sizes are chosen for H = P / 4: records of which a quarter is unlike
the sample have the error that Fourier sums alone would have with half of the budget each, and records like the sample
lose a quarter to a third of what landmarks alone would give.

What is left of a bias after the correction (`remaining`). Over queries and frequencies the bias is taken as normal with
the mean square b^2, so the measured difference D is normal with b^2 + v, and of D the part s = b^2 / (b^2 + v) is bias.
With the weight l of `quantizers.checked`, b^2 v / (b^2 + v) + E[D^2 (s - l)^2] is left. Its second weight depends on
the measured H: m pairs give that an error of (H + 2 m noise) / sqrt(m) = 2 sqrt(m) v / (1 - |g|^2), and H itself
varies from one public sample to another, with the variance 2 b^2 / L: with the eigenvalues e of what landmarks miss,
b^2 = sum e^2 / L, and H is a sum of squares with the means e / L.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Number

import numpy as np

from sfumato.central import fourier, fourier_gaussian
from sfumato.errors import InputError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.methods.request import GENERAL_OPTIONS, INTEGER_BYTES, SMALLEST_SHARE, Limits, Request
from sfumato.privacy.body import DiscNoise
from sfumato.privacy.guarantee import exact_epsilon
from sfumato.public.arguments import says
from sfumato.quantizers import FourierQuantizer, ShardedFourier, checked
from sfumato.quantizers.base import Floats
from sfumato.quantizers.phases import Phases

OPTION, SIZE_OPTION = "check_share", "check_features"
SHARE = Fraction(1, 2)
MISSED = 0.25  # of P, for which sizes are chosen
LEAST_PAIRS, MOST_PAIRS = 8, 2**14
SMALLEST_RADIUS = 16
# Places of a normal law, in deviations, and their weights: of differences, and of a measured H.
FINE, COARSE = np.linspace(-8.0, 8.0, 641), np.linspace(-4.0, 4.0, 65)


@dataclass(frozen=True)
class Missed:
    """What is expected of the part that landmarks miss.

    Attributes
    ----------
    square : float
        Mean square of it at queries, before the correction.
    like : float
        What the reader expects of that for records like the sample.
    energy, by_chance : float
        H, and what a public sample misses by chance.
    spread : float
        Deviation of H from one public sample to another.
    reach : float
        Mean of 1 - |g(y)|^2.
    """

    square: float
    like: float
    energy: float
    by_chance: float
    spread: float
    reach: float


@dataclass(frozen=True)
class Check:
    """Sizes of the check.

    Attributes
    ----------
    share : Fraction
        Its part c of the budget.
    pairs, per_group : int
        Fourier pairs in all, and of one record.
    request : Request
        What the check alone asks for.
    """

    share: Fraction
    pairs: int
    per_group: int
    request: Request

    @property
    def integers(self) -> int:
        """Sums of the check."""
        return 2 * self.pairs

    @property
    def file_size(self) -> int:
        """Bytes of its sums."""
        return INTEGER_BYTES * self.integers

    @property
    def work_per_record(self) -> float:
        """Multiplications for a record."""
        return float(self.per_group * self.request.dimension)

    @property
    def work_per_query(self) -> float:
        """Multiplications for a query, but for those by the rank."""
        return float(self.pairs * self.request.dimension)

    def variance(self, missed: float) -> float:
        """Predict v where the landmarks reach nothing and miss so much, as a squared length."""
        method = fourier_gaussian.METHOD if self.request.delta else fourier.METHOD
        # With Gaussian noise the share is one of squared lengths.
        request = self.request
        if request.delta:
            request = replace(request, n=max(1, round(request.n * math.sqrt(self.share))))
        return max(method.predict(request, missed).rmse ** 2 - request.typical_count_error(missed), 0.0)

    def remaining(self, missed: Missed, density: float) -> float:
        """Predict what is left of the mean square of a bias, where P is the density; see the module's text."""
        own = self.variance(missed.energy)
        variance = max(missed.reach * own, 1e-300)
        error = 2 * math.sqrt(self.pairs) * own
        clear = missed.energy - missed.by_chance - checked.SURE * error
        measured = clear + math.hypot(error, missed.spread) * COARSE
        expected = missed.like + np.maximum(density * missed.reach * measured, 0.0)
        share, total = missed.square / (missed.square + variance), missed.square + variance
        squares = total * np.square(FINE)
        own_weight = np.maximum(1 - checked.CLEAR**2 * variance / np.maximum(squares, 1e-300), 0.0)
        weight = np.maximum(own_weight, (expected / (expected + variance))[:, None])
        left = _of_normal(COARSE) @ np.square(share - weight) @ (_of_normal(FINE) * squares)
        return float(share * variance + left)


def _of_normal(places: Floats) -> Floats:
    """Weights of a normal law at places."""
    weights = np.exp(-np.square(places) / 2)
    return np.asarray(weights / weights.sum())


def share_of(request: Request) -> Fraction:
    """Return the check's part of the budget: 0 for kernels without Fourier features, or where none is wanted."""
    value = request.options.get(OPTION, SHARE)
    if says(value, "0") or (isinstance(value, Number) and not value):
        return Fraction(0)
    share = value if isinstance(value, Fraction) else exact_epsilon(value)
    if not SMALLEST_SHARE <= share <= 1 - SMALLEST_SHARE:
        raise InputError(f"{OPTION} must be 0, for no check, or a number below 1, got {float(share):g}")
    return share if isinstance(request.kernel, ShiftInvariantKernel) else Fraction(0)


def landmarks_part(request: Request, share: Fraction) -> Request:
    """Return what is asked of the landmarks' own sums; with a delta, the scales share the noise."""
    return request if request.delta or not share else replace(request, epsilon=request.epsilon * (1 - share))


def design(request: Request) -> Check | None:
    """Choose the sizes of the check from public facts; None where there is none."""
    share = share_of(request)
    if not share:
        return None
    general = {name: value for name, value in request.options.items() if name in GENERAL_OPTIONS["central"]}
    asked = replace(
        request,
        epsilon=request.epsilon if request.delta else request.epsilon * share,
        options={**general, "density": MISSED * request.density},
        limits=_limits(request),
        landmarks=None,
    )
    if asked.most_terms(width=2) < LEAST_PAIRS or asked.most_terms_of_a_record < 1:
        raise InputError("the budgets for time and space leave no room for the check of landmarks; pass larger ones")
    method, most = fourier_gaussian.METHOD if request.delta else fourier.METHOD, asked.most_terms(width=2)
    if SIZE_OPTION in request.options:
        asked = asked.with_options(n_features=request.size_option(SIZE_OPTION, 1, most))
    elif not request.delta:
        best = fourier.best_pairs(float(asked.feature_epsilon), asked.n, asked.density, asked.factor)
        asked = asked.with_options(n_features=min(max(best, LEAST_PAIRS), most))
    sizes = method.predict(asked, asked.density).parameters
    asked = asked.with_options(n_features=sizes["n_features"], per_group=sizes["per_group"])
    return Check(share, sizes["n_features"], sizes["per_group"], asked)


def _limits(request: Request) -> Limits:
    """Give the check half of the room for time and space, and never more pairs than the most."""
    limits = request.limits
    return Limits(
        work_per_record=limits.work_per_record / 2,
        work_per_query=min(limits.work_per_query / 2, float(MOST_PAIRS * request.dimension)),
        file_size=limits.file_size / 2,
    )


def pure_pairs(check: Check) -> tuple[ShardedFourier, DiscNoise]:
    """Draw the pairs of a pure check, with their noise."""
    made = fourier.build(check.request)
    assert isinstance(made.encoder, ShardedFourier) and isinstance(made.noise, DiscNoise)
    return made.encoder, made.noise


def gaussian_pairs(check: Check, scale: int) -> FourierQuantizer | ShardedFourier:
    """Draw the pairs of a check with Gaussian noise, whose scale goes by that of the landmarks."""
    request, per_group = check.request, check.per_group
    radius = math.floor(scale * math.sqrt(check.share / (1 - check.share) / per_group))
    if radius < SMALLEST_RADIUS:
        raise InputError("so little budget does not fit 64-bit noise; pass a larger epsilon or fewer records per user")
    assert isinstance(request.kernel, ShiftInvariantKernel)
    phases = Phases.draw(
        request.kernel, request.dimension, check.pairs, request.feature_seed, request.bounds, request.outside
    )
    if check.pairs > per_group:
        return ShardedFourier(phases, per_group, radius)
    return FourierQuantizer(phases, "pair", radius)
