"""`bernstein` and `even-trig`: dense products over columns with one Laplace law, and a degree to choose.

`bernstein`: noisy kernel sums on a lattice, read by Bernstein polynomials.

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

`even-trig`: noisy moments of even trigonometric polynomials.

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

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import Kernel
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.public.codec import Schema
from sfumato.published.common import best_size, dense_prediction, probes, public_box, refuse_bounds, shown
from sfumato.published.separable import SeparableQuantizer
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import Box
from sfumato.quantizers.portable_kernels import axis_lengths, refuse_columns

OPTIONS = ("degree",)
SCALE = 2**15
# Every record touches every integer.
MOST_INTEGERS = 2**16


@dataclass(frozen=True)
class Polynomials:
    """One of the two: factors of a column are the degree plus `extra`; `changed` integers differ between neighbours."""

    name: str
    family: type[SeparableQuantizer]
    extra: int
    changed: Callable[[Request, int], int]

    def refuse(self, request: Request) -> str | None:
        """Why this method does not apply."""
        reason = refuse_columns(request.kernel) or refuse_bounds(request)
        # One factor a column is a constant, which tells nothing of the records.
        least = max(2, 1 + self.extra) ** request.dimension
        if reason is None and least > MOST_INTEGERS:
            reason = (
                f"its smallest degree takes {shown(least)} integers of every record, and {MOST_INTEGERS} are allowed"
            )
        return reason

    def _size(self, request: Request, degree: int) -> int:
        return int((degree + self.extra) ** request.dimension)

    def _degree(self, request: Request) -> int:
        request.check_options(*OPTIONS)
        most = math.floor(MOST_INTEGERS ** (1 / request.dimension) + 1e-9) - self.extra
        if "degree" not in request.options:
            return best_size(lambda degree: self._variance(request, degree, request.density), most)
        degree = request.positive_option("degree", 1)
        if degree > most:
            raise InputError(
                f"degree {degree} takes {self._size(request, degree):.3g} integers of every record, and "
                f"{MOST_INTEGERS} are allowed; pass a degree of at most {most}"
            )
        return degree

    def _quantizer(self, request: Request, degree: int) -> SeparableQuantizer:
        return self.family(request.kernel, public_box(request), degree, SCALE, request.density)

    def _variance(self, request: Request, degree: int, density: float) -> float:
        squares, misfit = _averages(self.family, request.kernel, public_box(request), degree)
        sensitivity = self.changed(request, self._size(request, degree))
        noise = 2 * (sensitivity / (float(request.feature_epsilon) * request.n)) ** 2 * squares
        return noise + misfit * density**2

    def predict(self, request: Request, density: float) -> Prediction:
        """Predict error and cost."""
        degree = self._degree(request)
        size = self._size(request, degree)
        variance = self._variance(request, degree, density)
        return dense_prediction(request, variance, size, float(size), {"degree": degree}, density)

    def build(self, request: Request) -> Mechanism:
        """Choose the degree from the request."""
        degree = self._degree(request)
        quantizer = self._quantizer(request, degree)
        return Mechanism.of(
            request,
            self.name,
            quantizer,
            DiscreteLaplace.at_most(request.feature_epsilon / (SCALE * self.changed(request, quantizer.size))),
            parameters={"degree": degree},
        )


def bernstein_polynomials(degree: int, places: Floats) -> Floats:
    """Bernstein polynomials of a degree at places in [0, 1], shape (places, degree + 1).

    Examples
    --------
    >>> bernstein_polynomials(2, np.array([0.5, 1.0])).round(12)
    array([[0.25, 0.5 , 0.25],
           [0.  , 0.  , 1.  ]])
    """
    order, logs = np.arange(degree + 1), np.array([math.lgamma(k + 1) for k in range(degree + 1)])
    with np.errstate(divide="ignore", invalid="ignore"):  # 0 log 0 is 0
        left = np.where(order == 0, 0.0, order * np.log(places)[:, None])
        right = np.where(order == degree, 0.0, (degree - order) * np.log1p(-places)[:, None])
    return np.asarray(np.exp(logs[-1] - logs - logs[::-1] + left + right))


@lru_cache(maxsize=1024)
def _averages(family: type[SeparableQuantizer], kernel: Kernel, box: Box, degree: int) -> tuple[float, float]:
    """Mean squares of |g(y)| and of the misfit over the box, in units of 1."""
    quantizer = family(kernel, box, degree, 1, 1.0)
    places = probes(box)
    squares = np.ones(len(places))
    for column in range(box.dimension):
        squares *= np.square(quantizer.axis_weights(column, places[:, column])).sum(axis=1)
    return float(squares.mean()), float(np.square(quantizer.misfit(places)).mean())


BERNSTEIN = "bernstein"
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

    name: ClassVar[str] = BERNSTEIN
    schema: ClassVar[Schema] = SeparableQuantizer.schema.extended({"quantizer": name})

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
        return bernstein_polynomials(self.degree, np.clip(place, 0.0, 1.0))


_BERNSTEIN = Polynomials(BERNSTEIN, BernsteinQuantizer, 1, lambda request, size: request.records_per_user * size)
BERNSTEIN_METHOD = Method(
    BERNSTEIN,
    "kernel sums on a lattice, read by Bernstein polynomials",
    OPTIONS,
    _BERNSTEIN.refuse,
    _BERNSTEIN.predict,
    _BERNSTEIN.build,
    baseline=True,
    pure=True,
)


EVEN_TRIG = "even-trig"
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

    name: ClassVar[str] = EVEN_TRIG
    schema: ClassVar[Schema] = SeparableQuantizer.schema.extended({"quantizer": name})

    @property
    def axis_width(self) -> int:
        """Orders of one column."""
        return self.degree

    @property
    def query_products(self) -> int:
        """The sums, and the kernel's values at all nodes, which take as long as some thirty products each."""
        return self.size + 32 * sum(map(len, self._nodes))

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
        coefficients = _cosine_sums(values)[: self.degree] / count
        coefficients[0] /= 2
        return np.asarray(coefficients.T)

    @cached_property
    def _nodes(self) -> list[Floats]:
        lengths = axis_lengths(self.kernel, self.dimension)
        nodes = []
        for low, high, length in zip(self.bounds.lower, self.bounds.upper, lengths, strict=True):
            wanted = max(FEWEST_NODES, 2 * self.degree, int(min(NODES_PER_BANDWIDTH * (high - low) / length, 1e6)))
            count = min(MOST_NODES if self.degree <= MOST_NODES else 2 * self.degree, wanted)  # no order without a node
            place = np.cos(np.pi * (np.arange(count) + 0.5) / count)
            nodes.append((low + high) / 2 + (high - low) / 2 * place)
        return nodes


def _cosine_sums(values: Floats) -> Floats:
    """Sum over the first axis as 2 sum_n values_n cos(pi k (n + 1/2) / N), for k below N.

    Examples
    --------
    >>> _cosine_sums(np.array([[1.0], [1.0]])).round(12).tolist()
    [[4.0], [0.0]]
    """
    count = len(values)
    turned = np.fft.rfft(np.concatenate([values, values[::-1]]), axis=0)[:count]
    return np.asarray((turned * np.exp(-0.5j * np.pi / count * np.arange(count))[:, None]).real)


def changed(request: Request, size: int) -> int:
    """How many moments neighbours may differ in, each by the scale."""
    return 2 * max(1, size - 1) if request.neighbours == "replace" else request.factor * size


_EVEN_TRIG = Polynomials(EVEN_TRIG, TrigonometricQuantizer, 0, changed)
EVEN_TRIG_METHOD = Method(
    EVEN_TRIG,
    "moments of even trigonometric polynomials",
    OPTIONS,
    _EVEN_TRIG.refuse,
    _EVEN_TRIG.predict,
    _EVEN_TRIG.build,
    baseline=True,
    pure=True,
)
