"""Integers of a point as bits: each coordinate of a quantizer is rounded at random to one end of its range.

Source: the randomizer of Algorithm 1 in Wagner (2025). A coordinate v from -L to L becomes 1 with
probability (v + L) / (2 L), a rational number, tossed exactly; counters of hash functions, 0 or 1, are bits already.
The guarantee of the bit sums covers the rounding: the view is a mixture over the coins of the rounding, and (epsilon,
delta) is jointly convex.

Number of bits in which two points differ at most, which is the number of instances that compose: all coordinates, or
two of every row of hash counters, the one that is left and the one that is entered.

Variance of a rounded sum of n points: the sum of L^2 - v^2, at most n L^2. For the pairs of a Fourier series, which
weigh as much as their cosines in rounding and in the rest of the error, n L^2 / 2 on average over both.

`RotatedLandmarks`: features turned by a public random rotation and clipped, so that all coordinates have the same small
range.

Under shuffling every coordinate is rounded to a bit and pays for its own range. Features f(x) in a ball of radius s,
such as those of landmarks, have a few large coordinates and many small ones; after a random rotation all of them are
like normal numbers of deviation |f(x)| / sqrt(r), and few exceed clip s / sqrt(r): of the longest vectors a share of
erfc(clip / sqrt(2)) is lost, 1.2 % at the usual 2.5.

Integers of one record: rint(f Q) clipped at C = floor(clip s / sqrt(r)), products exact in any order. Rotating back is
post-processing of the sums, and leaves noise that is alike in all coordinates as it is.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import Field, Many, Schema, Text, Whole, brief, refuse
from sfumato.quantizers import HashingQuantizer, LatticeQuantizer, Quantizer
from sfumato.quantizers.base import Bound, Floats, Integers, Known, LinearQuantizer, Reading
from sfumato.quantizers.box import Box
from sfumato.quantizers.inner_product import CLIP
from sfumato.quantizers.landmarks import LandmarkQuantizer
from sfumato.quantizers.rotation import MOST_ROTATED, ROTATION_BITS, rotation

BLOCK_BITS = 1 << 21


@dataclass(frozen=True, eq=False)
class BitFeatures:
    """A quantizer whose coordinates are sent as bits.

    Attributes
    ----------
    quantizer : Quantizer
        The integers.

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> from sfumato.quantizers import FourierQuantizer
    >>> features = BitFeatures(FourierQuantizer.draw(Gaussian(1.0), dimension=2, terms=3, seed=7))
    >>> features.bits(np.zeros((1, 2)), SecureBits.seeded(1))
    array([[0, 1, 0, 0, 0, 0]])
    """

    quantizer: Quantizer

    @property
    def instances(self) -> int:
        """Bits of one point."""
        return self.quantizer.size

    @property
    def binary(self) -> bool:
        """Whether the coordinates are bits already."""
        return isinstance(self.quantizer, HashingQuantizer)

    @property
    def largest(self) -> int:
        """L, or what a bit stands for where coordinates are bits."""
        return self.quantizer.bound.largest

    @property
    def changed(self) -> int:
        """Bits in which two points may differ."""
        if self.binary:
            assert self.quantizer.bound.touched is not None
            return 2 * self.quantizer.bound.touched
        return self.instances

    @property
    def ones(self) -> int:
        """Bits of a point that may be 1."""
        return self.changed // 2 if self.binary else self.instances

    def points(self, X: Any) -> NDArray[np.float64]:
        """Return points inside the public box: finite values are clipped to it, others count as its middle."""
        try:
            points = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("points must be numbers, one row per participant") from None
        box = self.quantizer.box
        if points.ndim != 2 or points.shape[1] != box.dimension:
            raise InputError(f"points must have shape (participants, {box.dimension}), got {points.shape}")
        return np.clip(np.where(np.isfinite(points), points, box.centre), np.array(box.lower), np.array(box.upper))

    def bits(self, points: NDArray[np.float64], secure: SecureBits) -> Integers:
        """Round the coordinates of points from `points`, one row each."""
        encoded = self.quantizer.encode(points)
        if self.binary:
            return encoded // self.largest
        uniform = secure.below(2 * self.largest, encoded.size).reshape(encoded.shape)
        return (uniform < encoded + self.largest).astype(np.int64)

    def blocks(self, points: NDArray[np.float64], secure: SecureBits) -> Iterator[Integers]:
        """Give the bits of many points, some at a time."""
        rows = max(1, BLOCK_BITS // self.instances)
        for start in range(0, len(points), rows):
            yield self.bits(points[start : start + rows], secure)

    def sums(self, bit_sums: Floats, participants: int) -> Integers:
        """Turn (estimated) sums of bits into sums of the coordinates, as whole numbers."""
        if self.binary:
            return np.rint(self.largest * bit_sums).astype(np.int64)
        return np.rint(self.largest * (2 * bit_sums - participants)).astype(np.int64)

    @property
    def rounded(self) -> float:
        """Mean of 1 - (v / L)^2 over a point's coordinates, at most: a half for a cosine and its sine."""
        return 0.5 if isinstance(self.quantizer, LatticeQuantizer) else 1.0

    def variance(self, bit_sum_variance: float, participants: float, rounded: float | None = None) -> float:
        """Variance of a published sum; `rounded` is the mean of 1 - (v / L)^2 over points and coordinates."""
        rounded = self.rounded if rounded is None else rounded
        if self.binary:
            return self.largest**2 * bit_sum_variance
        return self.largest**2 * (4 * bit_sum_variance + participants * rounded)


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
            raise InputError(f"clip must be a positive number that leaves something, got {brief(self.clip)}")

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


class Array(Field[NDArray[Any]]):
    """An array in a document: its kind, shape and little-endian bytes as base64."""

    _schema = Schema(kind=Text("<i8", "<f8"), shape=Many(Whole(0, 2**40), most=8), base64=Text(longest=2**25))

    def read(self, value: Any, path: str) -> NDArray[Any]:
        """Return the array."""
        entry = self._schema.read(value, path)
        try:
            content = base64.b64decode(entry["base64"], validate=True)
        except (ValueError, binascii.Error):
            content = b""
        if len(content) != 8 * math.prod(entry["shape"]):
            raise refuse(f"{path}.base64", f"the bytes of an array of shape {entry['shape']}", entry["base64"])
        return np.frombuffer(content, dtype=entry["kind"]).reshape(entry["shape"]).copy()

    def write(self, value: NDArray[Any]) -> dict[str, Any]:
        """Return kind, shape and content."""
        kind = "<f8" if value.dtype.kind == "f" else "<i8"
        content = base64.b64encode(np.ascontiguousarray(value, dtype=kind).tobytes()).decode()
        return {"kind": kind, "shape": list(value.shape), "base64": content}


def arrays_from_document(document: Any, path: str) -> dict[str, NDArray[Any]]:
    """Read arrays by their names."""
    if not isinstance(document, Mapping) or len(document) > 100:
        raise refuse(path, "an object of arrays", document)
    return {str(name): Array().read(entry, f"{path}.{name!s:.40}") for name, entry in document.items()}
