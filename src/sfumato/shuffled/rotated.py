"""Features turned by a public random rotation and clipped, so that every coordinate has the same small range.

Under shuffling every coordinate is rounded to a bit and pays for its own range. Features f(x) in a ball of radius s,
such as those of landmarks, have a few large coordinates and many small ones; after a random rotation all of them are
like normal numbers of deviation |f(x)| / sqrt(r), and few exceed clip s / sqrt(r): of the longest vectors a share of
erfc(clip / sqrt(2)) is lost, 1.2 % at the usual 2.5.

Integers of one record: rint(f Q) clipped at C = floor(clip s / sqrt(r)), products exact in any order. Rotating back is
post-processing of the sums, and leaves noise that is alike in all coordinates as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers.base import Bound, Floats, Integers, Known, LinearQuantizer, Reading
from sfumato.quantizers.box import Box
from sfumato.quantizers.inner_product import CLIP
from sfumato.quantizers.landmarks import LandmarkQuantizer
from sfumato.quantizers.rotation import MOST_ROTATED, ROTATION_BITS, rotation


@dataclass(frozen=True, eq=False)
class RotatedLandmarks(LinearQuantizer):
    """Features of landmarks, rotated and clipped.

    Attributes
    ----------
    inner : LandmarkQuantizer
        The features.
    seed : int
        Public seed of the rotation.
    clip : float
        Largest coordinate in units of s / sqrt(r).

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> from sfumato.quantizers.nystrom import estimates
    >>> from sfumato.quantizers.similarities import similarities
    >>> fitted = similarities(Gaussian(1.0), np.linspace(-1, 1, 9)[:, None])
    >>> inner = LandmarkQuantizer.fit(fitted, estimates(fitted, [4])[0], scale=1000)
    >>> rotated = RotatedLandmarks(inner, seed=1)
    >>> plain, turned = inner.encode(np.array([[0.3]])), rotated.encode(np.array([[0.3]]))
    >>> int((plain**2).sum()), int((turned**2).sum())
    (995186, 993811)
    """

    inner: LandmarkQuantizer
    seed: int
    clip: float = CLIP

    name: ClassVar[str] = "rotated-landmarks"

    def __post_init__(self) -> None:
        if self.inner.size > MOST_ROTATED:
            raise InputError(f"a rotation is for up to {MOST_ROTATED} features; got {self.inner.size}")
        if not 0 < self.clip < math.inf or self.largest < 1:
            raise InputError(f"clip must be a positive number that leaves something, got {self.clip!r}")

    @property
    def box(self) -> Box:
        """Where records may live."""
        return self.inner.box

    @property
    def width(self) -> int:
        """The features and the residual."""
        return self.inner.width

    @property
    def largest(self) -> int:
        """Largest integer of a record."""
        return min(self.inner.scale, math.floor(self.clip * self.inner.scale / math.sqrt(self.width)))

    @property
    def bound(self) -> Bound:
        """Every coordinate lies in the clipped range; rounding may add half a unit to each before."""
        largest, size = self.largest, self.width
        return Bound(size * largest, size * largest**2, largest)

    @property
    def _rotation(self) -> Floats:
        return rotation(self.width, self.seed)

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Rotated and clipped integers of the kept rows."""
        turned = np.rint(np.ldexp(self.inner.encode(rows).astype(np.float64) @ self._rotation, -ROTATION_BITS))
        return np.clip(turned, -self.largest, self.largest).astype(np.int64)

    def _back(self, sums: Floats) -> Floats:
        return np.asarray(np.ldexp(self._rotation @ sums, -ROTATION_BITS))

    def weights(self, Y: Floats) -> Floats:
        """Weights of the features, rotated."""
        return np.asarray(np.ldexp(self.inner.weights(Y) @ self._rotation, -ROTATION_BITS))

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Rotate back and read."""
        return self.inner.weigh(Y, self._back(sums))

    def reading(self, Y: Floats, sums: Floats, known: Known) -> Reading:
        """Rotate back and read, and state what clipping loses of the longest features."""
        reading = self.inner.reading(Y, self._back(sums), known)
        lost = math.erfc(self.clip / math.sqrt(2)) * np.abs(reading.total) / known.count
        return replace(reading, bias=np.hypot(reading.bias, lost))

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the public description."""
        inner, stored = self.inner.to_document()
        return {"quantizer": self.name, "inner": inner, "seed": str(self.seed), "clip": self.clip}, stored

    @classmethod
    def from_document(cls, document: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild from a release."""
        if document["inner"]["quantizer"] != LandmarkQuantizer.name:
            raise ReleaseFileError("rotated features are those of landmarks")
        inner = LandmarkQuantizer.from_document(document["inner"], arrays, kernel, size)
        return cls(inner, int(document["seed"]), document["clip"])
