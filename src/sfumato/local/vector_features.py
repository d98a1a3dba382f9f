"""Bounded feature vectors on a device: the point itself for inner products, Nystroem features for a public sample.

A vector of length at most 1 becomes integers in units of 2**-15; a longer one is scaled down to length 1. Floats decide
the integers of one's own point only; the randomness afterwards is exact, so no guarantee rests on them.

- ``inner-product``: x / radius.
- ``landmarks``: f(x) = sum_z k(x, z) M_z for public landmarks z and rows M_z of the protocol's projection
  (`quantizers.nystrom`), for Gaussian, Laplacian, exponential and Cauchy kernels.

The standard library only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.errors import InputError
from sfumato.local.promises import check_magnitude
from sfumato.public.document import plain
from sfumato.public.domain import LARGEST

UNIT = 1 << 15
MOST_FEATURES = 1 << 12
FARTHEST = 1e100  # bandwidths; kernels are 0 long before, and squares of it are finite
KERNELS = ("gaussian", "laplacian", "exponential", "cauchy")


class Features(ABC):
    """Feature vectors of one protocol."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many features."""

    @abstractmethod
    def values(self, point: Sequence[float]) -> list[float]:
        """Features of a point, of any length."""

    def integers(self, point: Sequence[float]) -> list[int]:
        """Features in units of 2**-15, scaled into the ball of length 1."""
        return into_ball(self.values(point))


def into_ball(values: Sequence[float]) -> list[int]:
    """Round features to units, scaled down to length 1 if they are longer; what is not finite counts as 0.

    Examples
    --------
    >>> into_ball([3.0, 4.0]), into_ball([0.5]), into_ball([1.0, math.inf])
    ([19661, 26214], [16384], [32768, 0])
    """
    finite = [value if abs(value) <= LARGEST else 0.0 for value in values]
    shrink = UNIT / max(1.0, math.sqrt(math.fsum(value * value for value in finite)))
    return [round(value * shrink) for value in finite]


class InnerProductFeatures(Features):
    """The point over the kernel's radius."""

    def __init__(self, kernel: Mapping[str, Any], dimension: int) -> None:
        self.radius = check_magnitude("radius", kernel["radius"])
        self.dimension = dimension

    @property
    def size(self) -> int:
        """One for each column."""
        return self.dimension

    def values(self, point: Sequence[float]) -> list[float]:
        """Coordinates."""
        return [x / self.radius for x in point]


class LandmarkFeatures(Features):
    """Kernel values at landmarks, projected."""

    def __init__(self, kernel: Mapping[str, Any], parameters: Mapping[str, Any], dimension: int) -> None:
        self.name = kernel["kernel"]
        widths = kernel["bandwidth"]
        self.widths = [widths] * dimension if isinstance(widths, float) else list(widths)
        for width in self.widths:
            check_magnitude("bandwidth", width)
        self.landmarks = _table(parameters.get("landmarks"), dimension)
        self.projection = _table(parameters.get("projection"), None)
        if self.name not in KERNELS or kernel.get("p", 2.0) != 2.0 or len(self.widths) != dimension:
            raise InputError(f"landmarks on devices take the kernels {', '.join(KERNELS)}, without a matrix bandwidth")
        if len(self.projection) != len(self.landmarks):
            raise InputError("the protocol's projection does not fit its landmarks")

    @property
    def size(self) -> int:
        """Columns of the projection."""
        return len(self.projection[0])

    def similarity(self, x: Sequence[float], z: Sequence[float]) -> float:
        """Kernel value."""
        u = [min(max((a - b) / width, -FARTHEST), FARTHEST) for a, b, width in zip(x, z, self.widths, strict=True)]
        if self.name == "laplacian":
            return math.exp(-math.fsum(map(abs, u)))
        if self.name == "cauchy":
            return 1 / math.prod(1 + value * value for value in u)
        square = math.fsum(value * value for value in u)
        return math.exp(-square if self.name == "gaussian" else -math.sqrt(square))

    def values(self, point: Sequence[float]) -> list[float]:
        """Project the similarities."""
        similarities = [self.similarity(point, z) for z in self.landmarks]
        columns = zip(*self.projection, strict=True)
        return [math.fsum(k * m for k, m in zip(similarities, column, strict=True)) for column in columns]


def _table(value: Any, width: int | None) -> list[list[float]]:
    table = plain(value)
    if not isinstance(table, list) or not 1 <= len(table) <= MOST_FEATURES:
        raise InputError("the protocol's landmarks are damaged; ask the organiser for the file again")
    for row in table:
        good = isinstance(row, list) and len(row) == (len(table[0]) if width is None else width) and row
        if not good or not all(isinstance(number, float) and abs(number) <= LARGEST for number in row):
            raise InputError("the protocol's landmarks are damaged; ask the organiser for the file again")
    return table


def features_of(document: Mapping[str, Any], dimension: int) -> Features:
    """Build the features that a protocol names."""
    kernel, parameters = plain(document["kernel"]), document["mechanism"]
    if kernel.get("kernel") == "inner-product":
        return InnerProductFeatures(kernel, dimension)
    return LandmarkFeatures(kernel, parameters, dimension)
