"""`even-trig`: noisy moments of even trigonometric polynomials.

Source: Z. Wang et al., "Differentially Private Data Releasing for Smooth Queries", JMLR 17, 2016; table 1 of
Wagner et al. (2023). Corrected: sums instead of means, and the count is paid for.

The box becomes [-1, 1]^d; with x_j = cos(theta_j) a smooth function of x is even and periodic in theta, and has an
expansion in prod_j cos(r_j theta_j) = prod_j T_{r_j}(x_j), Chebyshev's polynomials. f_r(x) is that product for the
orders r_j < t; a query is answered with the expansion's coefficients of k(., y), found by numerical integration (a
cosine transform at Chebyshev's points). The source damps the coefficients with a generalised Jackson kernel, which its
rate for functions with few derivatives needs; for the smooth kernels here the plain series is closer, and it is used.

Guarantee. A record adds to each of the t^d moments an integer of absolute value at most s: l1 = s t^d. Replacing one
leaves the moment of order 0 as it is, and changes the others by l1 = 2 s (t^d - 1) at most. Discrete Laplace noise of
rate e_f / l1 multiplies the probability of any output by at most exp(e_f); the count at e_c composes to epsilon.

Error of one answer: 2 (l1 / (s e_f n))^2 prod_j sum_r c_r(y_j)^2 of noise, c_r the coefficients of the kernel, and the
misfit of the truncated series, P |k - f.g| / |k| in L2 over x. t by default is the best by this formula.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.fft import dct

from sfumato.methods.method import Method
from sfumato.methods.request import Request
from sfumato.published.polynomials import OPTIONS, Polynomials
from sfumato.published.separable import SeparableQuantizer
from sfumato.quantizers.base import Floats
from sfumato.quantizers.portable_kernels import axis_lengths

NAME = "even-trig"
FEWEST_NODES, MOST_NODES = 64, 4096
# Nodes for each bandwidth of the box's extent: the transform then resolves the kernel to about 1e-8.
NODES_PER_BANDWIDTH = 16


@dataclass(frozen=True, eq=False)
class TrigonometricQuantizer(SeparableQuantizer):
    """Products of Chebyshev polynomials of orders below `degree`; see `SeparableQuantizer` for the attributes.

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> from sfumato.quantizers import Box
    >>> quantizer = TrigonometricQuantizer(Gaussian(1.0), Box((-1.0,), (1.0,)), degree=3, scale=1000, density=0.02)
    >>> quantizer.encode(np.array([[0.5]]))
    array([[1000,  500, -500]])
    """

    name: ClassVar[str] = NAME

    @property
    def axis_width(self) -> int:
        """Orders of one column."""
        return self.degree

    def factors(self, column: int, x: Floats) -> Floats:
        """Chebyshev polynomials by their recurrence, held to [-1, 1] against rounding."""
        low, high = self.bounds.lower[column], self.bounds.upper[column]
        place = np.clip(((x - low) - (high - x)) / (high - low), -1.0, 1.0)
        orders = np.empty((len(x), self.degree))
        orders[:, 0] = 1.0
        if self.degree > 1:
            orders[:, 1] = place
        for order in range(2, self.degree):
            orders[:, order] = np.clip(2.0 * place * orders[:, order - 1] - orders[:, order - 2], -1.0, 1.0)
        return orders

    def axis_weights(self, column: int, y: Floats) -> Floats:
        """Coefficients of the kernel at each query."""
        values = self.portable.axis(column, self.dimension, self._nodes[column], y)
        count = len(self._nodes[column])
        coefficients = dct(values, axis=0)[: self.degree] / count
        coefficients[0] /= 2
        return np.asarray(coefficients.T)

    @cached_property
    def _nodes(self) -> list[Floats]:
        lengths = axis_lengths(self.kernel, self.dimension)
        nodes = []
        for low, high, length in zip(self.bounds.lower, self.bounds.upper, lengths, strict=True):
            wanted = max(FEWEST_NODES, 2 * self.degree, int(min(NODES_PER_BANDWIDTH * (high - low) / length, 1e6)))
            count = min(MOST_NODES, wanted)
            place = np.cos(np.pi * (np.arange(count) + 0.5) / count)
            nodes.append((low + high) / 2 + (high - low) / 2 * place)
        return nodes


def changed(request: Request, size: int) -> int:
    """How many moments neighbours may differ in, each by the scale."""
    return 2 * max(1, size - 1) if request.neighbours == "replace" else request.factor * size


_MECHANISM = Polynomials(NAME, TrigonometricQuantizer, 0, changed)
METHOD = Method(
    NAME,
    "moments of even trigonometric polynomials",
    OPTIONS,
    _MECHANISM.refuse,
    _MECHANISM.predict,
    _MECHANISM.build,
    baseline=True,
    pure=True,
)
