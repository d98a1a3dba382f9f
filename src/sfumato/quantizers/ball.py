"""Records no longer than a public radius, as integers: what inner products and signs are computed from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels.inner_product import InnerProduct
from sfumato.quantizers.base import Integers
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import round_into_ball
from sfumato.quantizers.columns import kept_rows

LARGEST_SCALE = 2**20
LARGEST_NUMBER = 2.0**300


@dataclass(frozen=True, eq=False)
class Ball:
    """Records no longer than a radius, as integers no longer than a scale.

    Attributes
    ----------
    box : Box
        Where values may lie before a record is scaled; see `Ball.around`.
    radius : float
        Public length of the longest records.
    scale : int
        s.
    """

    box: Box
    radius: float
    scale: int

    def __post_init__(self) -> None:
        InnerProduct(self.radius)
        if not 1 <= self.scale <= LARGEST_SCALE:
            raise InputError(f"scale must lie between 1 and {LARGEST_SCALE}, got {self.scale}")

    @classmethod
    def around(
        cls, kernel: InnerProduct, dimension: int, scale: int, bounds: Any = None, outside: str = "clip"
    ) -> Ball:
        """Take the ball of a kernel's radius, within bounds if there are any."""
        if bounds is None:
            return cls(Box.centred([LARGEST_NUMBER] * dimension, outside), kernel.radius, scale)
        return cls(Box.from_bounds(bounds, dimension, outside), kernel.radius, scale)

    @property
    def dimension(self) -> int:
        """Number of columns."""
        return self.box.dimension

    @property
    def amplitude(self) -> float:
        """What stands for the radius: less than the scale by as much as two roundings can add to the length."""
        return float(max(1, self.scale - 1 - math.ceil(math.sqrt(self.dimension))))

    @property
    def l1(self) -> int:
        """Largest l1 norm of a vector in the ball."""
        return math.isqrt(self.dimension * self.scale**2)

    def condition(self) -> str:
        """Say what happens to long records, for the guarantee."""
        return f"records longer than {self.radius:g} are scaled down to that length"

    def integers(self, rows: NDArray[Any]) -> Integers:
        """Integers of the kept rows."""
        kept = kept_rows(self.box, rows)
        encoded = np.empty(kept.shape, dtype=np.int64)
        _into_ball(kept / self.radius, self.amplitude, self.scale, encoded)
        return encoded

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"box": self.box.to_document(), "radius": self.radius, "scale": self.scale}

    @classmethod
    def from_document(cls, document: dict[str, Any], kernel: Any) -> Ball:
        """Rebuild from the JSON form."""
        if not isinstance(kernel, InnerProduct) or kernel.radius != document["radius"]:
            raise ReleaseFileError("inner products need their kernel, of the same radius")
        return cls(Box.from_document(document["box"]), float(document["radius"]), int(document["scale"]))


@njit(nogil=True, cache=True)
def _into_ball(rows, amplitude, scale, encoded):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        largest = 1.0
        for j in range(rows.shape[1]):
            if abs(rows[i, j]) > largest:
                largest = abs(rows[i, j])
        for j in range(rows.shape[1]):
            rows[i, j] /= largest  # so that no coordinate is cut, and a long record keeps its direction
        round_into_ball(rows[i], amplitude, scale, encoded[i])
