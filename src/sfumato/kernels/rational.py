r"""The kernel ``1 / (1 + h)^power``: smooth kernels, whose tails are heavy.

With ``u = A^-1 (x - y)``, ``h`` is ``|u|_2`` ("l2"), ``|u|_2^2`` ("sqeuclidean") or ``|u|_1`` ("l1"): the smooth
kernels of Backurs et al. (2024) (Table 1, section 3). With T of the Gamma law of shape `power`,

    (1 + h)^-power = E exp(-T h),

a mixture of Exponential, Gaussian or Laplacian kernels over bandwidths. So a frequency of the mixture is a frequency of
`exp(-h)`, times T (or sqrt(T) for the square): one draw is unbiased for the whole kernel.

T comes from Marsaglia and Tsang's rejection (2000), a = power (or power + 1 below 1, times U^(1 / power)): with
d = a - 1/3 and c = 1 / sqrt(9 d), a normal x and a uniform u give d v, v = (1 + c x)^3, if v > 0 and
log u < x^2 / 2 + d - d v + d log v. Candidates are tried in the order of their streams, so the first m of a longer draw
are the draw of m.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from sfumato.errors import InputError
from sfumato.kernels.base import ShiftInvariantKernel
from sfumato.kernels.exponential import Exponential
from sfumato.kernels.gaussian import Gaussian
from sfumato.kernels.laplacian import Laplacian
from sfumato.kernels.pairwise import squared_distances
from sfumato.kernels.registry import register
from sfumato.kernels.scale import Bandwidth
from sfumato.public import portable
from sfumato.public.portable import FloatArray
from sfumato.public.streams import PublicStream

SMALLEST_POWER, LARGEST_POWER = 0.125, 64.0
CANDIDATES = 1024

# The kernel exp(-h) of each distance, and by which power of T its bandwidth shrinks.
MIXED: dict[str, tuple[type[ShiftInvariantKernel], float]] = {
    "l2": (Exponential, 1.0),
    "sqeuclidean": (Gaussian, 0.5),
    "l1": (Laplacian, 1.0),
}
_DISTANCES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "l2": cdist,
    "sqeuclidean": squared_distances,
    "l1": lambda U, V: np.asarray(cdist(U, V, "cityblock")),
}


@register
@dataclass(frozen=True, init=False, repr=False)
class Rational(ShiftInvariantKernel):
    """``k(x, y) = 1 / (1 + h(A^-1 (x - y)))^power``.

    Parameters
    ----------
    bandwidth : float, vector or matrix
        ``A``, a length in data units.
    distance : {"l2", "sqeuclidean", "l1"}
        ``h``: the Euclidean distance, its square, or the sum of absolute values.
    power : float
        From 1/8 to 64.

    Examples
    --------
    >>> Rational(5.0).value([[0.0, 0.0]], [[3.0, 4.0]])
    array([[0.5]])
    >>> Rational(1.0, "sqeuclidean", power=2).value([[0.0]], [[3.0]])
    array([[0.01]])
    """

    distance: str
    power: float
    name = "rational"

    def __init__(self, bandwidth: Bandwidth, distance: str = "l2", power: float = 1.0) -> None:
        super().__init__(bandwidth)
        if distance not in MIXED:
            raise InputError(f"distance must be one of {', '.join(MIXED)}; got {distance!r}")
        number = isinstance(power, int | float | np.number) and not isinstance(power, bool)
        if not number or not SMALLEST_POWER <= power <= LARGEST_POWER:
            raise InputError(f"power must be a number from {SMALLEST_POWER:g} to {LARGEST_POWER:g}; got {power!r}")
        object.__setattr__(self, "distance", distance)
        object.__setattr__(self, "power", float(power))

    def to_document(self) -> dict[str, Any]:
        """Plain JSON values, with the fields ``distance`` and ``power``."""
        return {**super().to_document(), "distance": self.distance, "power": self.power}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Rational:
        """Rebuild what `to_document` wrote."""
        return cls(document["bandwidth"], document["distance"], document["power"])

    def term(self, rate: float) -> ShiftInvariantKernel:
        """Return the kernel ``exp(-rate h)``: a Laplacian, Gaussian or Exponential kernel of another bandwidth.

        Examples
        --------
        >>> Rational(6.0, "sqeuclidean").term(4.0)
        Gaussian(bandwidth=3.0)
        """
        family, shrink = MIXED[self.distance]
        return family(self.scale.multiply(rate**-shrink))

    def _unit_pairwise(self, U: FloatArray, V: FloatArray) -> FloatArray:
        values = _DISTANCES[self.distance](U, V)
        values += 1.0
        return np.asarray(values**-self.power)

    def _unit_frequencies(self, stream: PublicStream, count: int, dimension: int) -> FloatArray:
        # The scales come from a stream of their own, so that the first m of a longer draw are the draw of m.
        scales = gammas(PublicStream(int(stream.words(1)[0]), "rational/scales"), count, self.power)
        family, shrink = MIXED[self.distance]
        unit = family(1.0)._unit_frequencies(stream, count, dimension)
        return unit * (scales if shrink == 1.0 else np.sqrt(scales))

    def _unit_log_integral(self, dimension: int) -> float:
        # E over T of the integral of exp(-T h), which is T^-(shrink d) times that of exp(-h).
        family, shrink = MIXED[self.distance]
        left = self.power - shrink * dimension
        if left <= 0:
            raise InputError(
                f"{self!r} has no finite integral in {dimension} column(s), so there is no normalised density; use "
                f"query, or a power above {shrink * dimension:g}"
            )
        return family(1.0)._unit_log_integral(dimension) + math.lgamma(left) - math.lgamma(self.power)

    def __repr__(self) -> str:
        power = "" if self.power == 1.0 else f", power={self.power:g}"
        return f"Rational(bandwidth={self.scale!r}, distance={self.distance!r}{power})"


def gammas(stream: PublicStream, count: int, shape: float) -> FloatArray:
    """Draw numbers of the Gamma law, the same on every machine; see the module's text.

    Examples
    --------
    >>> float(gammas(PublicStream(1, "example"), 10_000, 2.5).mean().round(1))
    2.5
    """
    normals, uniforms, powers = (PublicStream(int(word), "rational/gamma") for word in stream.words(3))
    d = (shape if shape >= 1.0 else shape + 1.0) - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    drawn: list[FloatArray] = []
    missing = count
    while missing > 0:
        x, u = normals.normals(CANDIDATES), uniforms.uniforms(CANDIDATES)
        root = 1.0 + c * x
        cube = np.where(root > 0.0, root * root * root, 1.0)
        accepted = (root > 0.0) & (portable.log(u) < 0.5 * x * x + d - d * cube + d * portable.log(cube))
        drawn.append(d * cube[accepted])
        missing -= len(drawn[-1])
    result = np.concatenate(drawn or [np.empty(0)])[:count]
    if shape >= 1.0:
        return result
    return result * portable.exp(portable.log(powers.uniforms(count)) / shape)
