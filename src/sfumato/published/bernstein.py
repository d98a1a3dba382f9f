"""`bernstein`: noisy kernel sums on a lattice, read by Bernstein polynomials.

Source: F. Alda and B. Rubinstein, "The Bernstein Mechanism", AAAI 2017, as in appendix E.2 of Wagner et al. (2023).
Corrected: sums instead of means, and the count is paid for.

The box becomes [0, 1]^d; f_p(x) = k(x, p / K) for the (K + 1)^d nodes p, each in [0, 1], and a query is answered by the
polynomial sum_p f_p prod_j C(K, p_j) y_j^p_j (1 - y_j)^(K - p_j), which converges to the density like
(1 / 2K) sum_j y_j (1 - y_j) d2/dy_j2. Outside the box the polynomial means nothing: queries there are refused.

Guarantee. A record adds to each of the (K + 1)^d nodes an integer from 0 to s, so adding, removing or replacing one
changes the sums by at most l1 = s (K + 1)^d. Discrete Laplace noise of rate e_f / l1 multiplies the probability of any
output by at most exp(e_f); the count at e_c composes to epsilon.

Error of one answer: 2 ((K + 1)^d / (e_f n))^2 prod_j sum_p B_p(y_j)^2 of noise, and the misfit of the polynomial, P |k
- f.g| / |k| in L2 over x. K by default is the best by this formula.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.stats import binom

from sfumato.errors import InputError
from sfumato.methods.method import Method
from sfumato.published.polynomials import OPTIONS, Polynomials
from sfumato.published.separable import SeparableQuantizer
from sfumato.quantizers.base import Floats

NAME = "bernstein"
# Queries that rounding put beside the box are still in it.
EDGE = 1e-9


@dataclass(frozen=True, eq=False)
class BernsteinQuantizer(SeparableQuantizer):
    """Kernel values at the (degree + 1)^d nodes of the box; see `SeparableQuantizer` for the attributes.

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> from sfumato.quantizers import Box
    >>> quantizer = BernsteinQuantizer(Gaussian(1.0), Box((0.0,), (1.0,)), degree=2, scale=1000, density=0.02)
    >>> quantizer.encode(np.array([[0.5]]))
    array([[ 779, 1000,  779]])
    """

    name: ClassVar[str] = NAME

    @property
    def axis_width(self) -> int:
        """Nodes of one column."""
        return self.degree + 1

    def factors(self, column: int, x: Floats) -> Floats:
        """Kernel values at the nodes of a column."""
        low, high = self.bounds.lower[column], self.bounds.upper[column]
        nodes = low + (high - low) * (np.arange(self.degree + 1) / self.degree)
        return self.portable.axis(column, self.dimension, x, nodes)

    def axis_weights(self, column: int, y: Floats) -> Floats:
        """Bernstein polynomials of a column."""
        low, high = self.bounds.lower[column], self.bounds.upper[column]
        place = (y - low) / (high - low)
        if ((place < -EDGE) | (place > 1 + EDGE)).any():
            raise InputError(
                f"a bernstein release answers queries within its bounds only: column {column} has one outside "
                f"({low:g}, {high:g}); pass queries inside, or use another method"
            )
        return np.asarray(binom.pmf(np.arange(self.degree + 1), self.degree, np.clip(place, 0.0, 1.0)[:, None]))


_MECHANISM = Polynomials(NAME, BernsteinQuantizer, 1, lambda request, size: request.records_per_user * size)
METHOD = Method(
    NAME,
    "kernel sums on a lattice, read by Bernstein polynomials",
    OPTIONS,
    _MECHANISM.refuse,
    _MECHANISM.predict,
    _MECHANISM.build,
    baseline=True,
    pure=True,
)
