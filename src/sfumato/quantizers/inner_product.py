"""Inner products on integers: a record's coordinates, as they are or rotated and clipped, and the random-sign family.

A record x with |x| <= radius becomes integers v = rint(a x / radius) in the ball of radius s (`clamping`: a longer
record is scaled down to it). Every row is treated alone, and a rotation or a sum with signs is a product of integers
whose partial sums stay below 2^53, exact in any order.

`InnerProductQuantizer`: v itself, or, with `clip`, v rotated by a public random rotation and every coordinate clipped
at clip / sqrt(d) times the radius. Rotated coordinates of a record are like normal numbers of deviation |x| / sqrt(d),
so at the usual 2.5 few are clipped: the mean of f(x).g(y) over rotations is erf(clip / sqrt(2)) x.y for the longest
records (1.2 % is lost at 2.5) and more for shorter ones. Clipping is for models in which each coordinate is published
apart, bit by bit, and pays for its own range. Where noise follows the norms of the whole vector it gains nothing: the
ball already gives l1 <= s sqrt(d).

Bound of one record: l2 <= s, so l1 <= s sqrt(d); clipped coordinates are at most C = floor(clip a / sqrt(d)), so l1 is
at most d C as well.

`InnerProductSigns`, as published (Wagner 2025, A.3): I terms f_i(x) = sigma_i.x with random signs, g_i the
same map, E f_i(x) g_i(y) = x.y. |f_i(x)| <= sqrt(d) |x|, so largest and l1 are floor(s sqrt(d)) and I times that.
Variance of one term over the signs: |x|^2 |y|^2 + (x.y)^2 - 2 sum_j x_j^2 y_j^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import InnerProduct
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import Digits, Object, Optional, Real, Schema, Whole, brief
from sfumato.public.portable import LARGEST_SEED, PublicStream
from sfumato.public.ranges import check_reader_cost
from sfumato.quantizers.answer import Answer
from sfumato.quantizers.base import Bound, Floats, Integers, Known, LinearQuantizer, Reading, TermQuantizer
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import Ball, round_into_ball
from sfumato.quantizers.rotation import MOST_ROTATED, ROTATION_BITS, check_rotation, rotation

CLIP = 2.5
BLOCK_NUMBERS = 1 << 19  # signs that are drawn at once
MOST_SIGNS = 2**26


@dataclass(frozen=True, eq=False)
class InnerProductQuantizer(LinearQuantizer):
    """Coordinates of records in a ball, as they are or rotated and clipped.

    Attributes
    ----------
    ball : Ball
        The records' integers.
    clip : float or None
        Largest coordinate after rotation, in units of radius / sqrt(d); None for neither rotation nor clipping.
    seed : int
        Public seed of the rotation.

    Examples
    --------
    >>> from sfumato.kernels import InnerProduct
    >>> ball = Ball.around(InnerProduct(), dimension=3, scale=1000)
    >>> InnerProductQuantizer(ball, clip=None).encode(np.array([[0.6, 0.0, 0.8], [0.0, -3.0, 4.0]]))
    array([[ 598,    0,  798],
           [   0, -599,  799]])
    """

    ball: Ball
    clip: float | None = CLIP
    seed: int = 0

    name: ClassVar[str] = "inner-product"
    kernels = InnerProduct
    schema = Schema({"quantizer": name}, ball=Object(), clip=Optional(Real(1e-9, 1e9)), seed=Digits(LARGEST_SEED))

    def __post_init__(self) -> None:
        if self.clip is None:
            return
        if isinstance(self.clip, bool) or not isinstance(self.clip, int | float) or not 0 < self.clip < math.inf:
            raise InputError(f"clip must be a positive number or None, got {brief(self.clip)}")
        if self.dimension > MOST_ROTATED:
            raise InputError(f"clip takes a rotation, which is for up to {MOST_ROTATED} columns; leave clip out")
        check_rotation(self.dimension)
        if self.largest < 1:
            raise InputError(
                f"clip {self.clip:g} leaves nothing of integers up to {self.ball.scale}; pass a larger one"
            )

    @property
    def box(self) -> Box:
        """Where values may lie."""
        return self.ball.box

    @property
    def width(self) -> int:
        """One integer a column."""
        return self.ball.dimension

    @property
    def largest(self) -> int:
        """Largest integer of a record."""
        if self.clip is None:
            return self.ball.scale
        return min(self.ball.scale, math.floor(self.clip * self.ball.amplitude / math.sqrt(self.dimension)))

    @property
    def bound(self) -> Bound:
        """Bounds of one record, see the module's text."""
        largest, size, scale = self.largest, self.width, self.ball.scale
        return Bound(min(self.ball.l1, size * largest), min(scale**2, size * largest**2), largest)

    @property
    def _rotation(self) -> Floats:
        return rotation(self.dimension, self.seed)

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows."""
        whole = self.ball.integers(rows)
        if self.clip is None:
            return whole
        turned = whole.astype(np.float64) @ self._rotation
        encoded = np.empty_like(whole)
        _into_cube(turned, 2.0**-ROTATION_BITS, self.ball.scale, self.largest, encoded)
        return encoded

    def weights(self, Y: Floats) -> Floats:
        """Coordinates of queries over the amplitude, rotated as the records are."""
        weights = Y / (self.ball.radius * self.ball.amplitude)
        return weights if self.clip is None else np.asarray(weights @ np.ldexp(self._rotation, -ROTATION_BITS))

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Multiply; without the count, what clipping loses is not stated."""
        weights = self.weights(Y)
        return Reading(weights @ sums, np.square(weights).sum(axis=1), np.zeros(len(Y)))

    def reading(self, Y: Floats, sums: Floats, known: Known) -> Reading:
        """Multiply, and state what clipping loses of records as long as the radius."""
        return self._stated(self.weigh(Y, sums), known)

    def read_axes(self, length: float, sums: Floats, known: Known) -> Answer:
        """Read one sum a column where nothing is rotated: as many unit vectors would be the columns' square."""
        weight, size = length / (self.ball.radius * self.ball.amplitude), self.dimension
        if self.clip is None:
            reading = Reading(weight * sums, np.full(size, weight**2), np.zeros(size))
        else:
            weights = weight * np.ldexp(self._rotation, -ROTATION_BITS)
            reading = Reading(weights @ sums, np.square(weights).sum(axis=1), np.zeros(size))
        return self._stated(reading, known).answer(known.noise_variance)

    def _stated(self, reading: Reading, known: Known) -> Reading:
        if self.clip is None:
            return reading
        lost = math.erfc(self.clip / math.sqrt(2))
        return Reading(reading.total, reading.weight_squares, lost * np.abs(reading.total) / known.count)

    def bias_bound(self, Y: Floats, sums: Floats, known: Known) -> Floats:
        """Return the limit of rounding, where nothing is clipped."""
        if self.clip is not None:
            return super().bias_bound(Y, sums, known)
        rounding = (math.sqrt(self.dimension) + 2) / self.ball.amplitude
        return np.asarray(rounding * np.linalg.norm(Y, axis=1) / self.ball.radius)

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild the ball; there is one integer a column."""
        ball = Ball.for_kernel(fields["ball"], kernel)
        if ball.dimension != size:
            raise ReleaseFileError(f"the release claims {ball.dimension} columns and holds {size} sums")
        return cls(ball, fields["clip"], fields["seed"])


@dataclass(frozen=True, eq=False)
class InnerProductSigns(TermQuantizer):
    """Random signs, as published; see the module's text.

    Attributes
    ----------
    ball : Ball
        The records' integers.
    draws : int
        I.
    seed : int
        Public seed of the signs.

    Examples
    --------
    >>> from sfumato.kernels import InnerProduct
    >>> signs = InnerProductSigns(Ball.around(InnerProduct(), dimension=2, scale=100), draws=3, seed=5)
    >>> signs.encode(np.array([[1.0, 0.0]]))
    array([[97, 97, 97]])
    """

    ball: Ball
    draws: int
    seed: int

    name: ClassVar[str] = "inner-product-signs"
    kernels = InnerProduct
    schema = Schema({"quantizer": name}, ball=Object(), draws=Whole(1, MOST_SIGNS), seed=Digits(LARGEST_SEED))

    def __post_init__(self) -> None:
        if self.draws < 1 or self.draws * self.ball.dimension > MOST_SIGNS:
            raise InputError(f"{self.draws} features of {self.ball.dimension} columns are more than 2**26 signs")

    @property
    def box(self) -> Box:
        """Where values may lie."""
        return self.ball.box

    @property
    def terms(self) -> int:
        """I."""
        return self.draws

    @property
    def width(self) -> int:
        """One coordinate a term."""
        return 1

    @property
    def bound(self) -> Bound:
        """Every term is at most s sqrt(d)."""
        largest = self.ball.l1
        return Bound(self.draws * largest, self.draws * largest**2, largest)

    @cached_property
    def _signs(self) -> Floats:
        stream, signs = PublicStream(self.seed, "inner-product/signs"), np.empty((self.ball.dimension, self.draws))
        block = max(1, BLOCK_NUMBERS // self.ball.dimension)
        for first in range(0, self.draws, block):  # the words of all draws at once would take three times as much
            part = signs[:, first : first + block].T
            part[:] = 1.0 - 2.0 * (stream.words(part.size) >> np.uint64(63)).reshape(part.shape)
        return signs

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Signed sums of the kept rows' integers."""
        return np.asarray(self.ball.integers(rows).astype(np.float64) @ self._signs).astype(np.int64)

    def weights(self, Y: Floats) -> Floats:
        """Signed sums of the queries."""
        return np.asarray(Y @ self._signs / (self.ball.radius * self.ball.amplitude))

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild the ball; there is one integer a draw."""
        if fields["draws"] != size:
            raise ReleaseFileError(f"the release claims {fields['draws']} features and holds {size} sums")
        ball = Ball.for_kernel(fields["ball"], kernel)
        check_reader_cost(size * ball.dimension)
        return cls(ball, size, fields["seed"])


@njit(nogil=True, cache=True)
def _into_cube(rows, unit, scale, largest, encoded):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        round_into_ball(rows[i], unit, scale, encoded[i])
        for j in range(rows.shape[1]):
            encoded[i, j] = min(max(encoded[i, j], -largest), largest)
