"""What a public sample says about a kernel: leading directions, and what they leave out of points like it.

With the eigenpairs (w, U) of the kernel matrix of landmarks Z, f_j(x) = k(x, Z) u_j / sqrt(w_j) are the coordinates of
the kernel's feature vector of x along orthonormal directions, so |f(x)|^2 <= k(x, x). Truncated at rank r, f(x).f(y)
misses k(x, y) by the inner product of what the two points have outside those directions.

Completion. For records that resemble the landmarks, the mean of what is missed at a query y can be estimated from the
landmarks themselves. Each landmark z tells how far k(z, y) is from what the r directions give for z, provided that z
is left out of its own directions: leaving it out of all L directions changes its residual to [K^-1 k(Z, y)]_z /
[K^-1]_zz (the leave-one-out formula of Gaussian process regression, here with K + 0.01 I, so that nearly equal
landmarks do no harm). The mean over the landmarks of both parts, the directions beyond r and the left-out residual, is
b.k(Z, y) with weights b that do not depend on y. Without it, answers are too low by about 1/L in many dimensions,
because a record's own feature vector is nearly orthogonal to L others.

What remains of the bias, if records resemble landmarks, is the sampling error of that mean: the variance over the
points of what is missed, divided by L. A fifth of the sample, held out of the rest, measures it in two ways, of which
the larger counts: over pairs of held-out points; and over the landmarks, either part by itself, added as if they were
independent. The second is too little where many directions were fitted to the landmarks, which miss less of them than
of other points; the first where next to nothing is missed and the 0.01 of the left-out residuals remains. Of a few
landmarks every part is held out in turn, and the means over the parts count: two points of a dozen say little.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.public.portable import PublicStream
from sfumato.public.ranges import LARGEST_LENGTH
from sfumato.quantizers.base import Floats, within
from sfumato.quantizers.similarities import VALUE_BITS, Similarities

FEWEST_LANDMARKS, MOST_LANDMARKS = 5, 2000
HELD_OUT = 5  # one in so many points of the sample
FEW, FEWEST_HELD = 200, 4  # landmarks, and points of a part
# Directions of less weight than this in the whole sample carry nothing but rounding.
SMALLEST_WEIGHT = 1e-3
RIDGE = 1e-2


@dataclass(frozen=True, eq=False)
class PublicSample:
    """Public points, in an order that is random but always the same; equal and hashed by their numbers.

    Examples
    --------
    >>> len(PublicSample.of([[0.0], [1.0], [2.0], [3.0], [4.0]], dimension=1).points)
    5
    """

    points: Floats

    @classmethod
    def of(cls, data: Any, dimension: int, names: tuple[str, ...] | None = None) -> PublicSample:
        """Read public points of any kind that `open_source` takes; rows that are not finite numbers are dropped.

        Parameters
        ----------
        data : array, frame, table, path, Source or PublicSample
            The public points; a sample is returned as it is.
        dimension : int
            Columns of a record.
        names : tuple of str, optional
            The records' column names; a table of public points with other names is refused, and one in another order
            is put into theirs.
        """
        from sfumato.sources import open_source  # a plan without public points opens none

        source = open_source(data.points if isinstance(data, PublicSample) else data)
        if source.dimension != dimension:
            raise InputError(
                f"landmarks have {source.dimension} columns and the records {dimension}; pass the same columns"
            )
        if isinstance(data, PublicSample):
            return data
        points = source.whole()
        if names is not None and source.column_names is not None and names != source.column_names:
            if sorted(names) != sorted(source.column_names):
                raise InputError(
                    f"landmarks have the columns {', '.join(source.column_names)} and the records {', '.join(names)}; "
                    "pass the same columns"
                )
            points = points[:, [source.column_names.index(name) for name in names]]
        points = points[np.isfinite(points).all(axis=1)]
        if not (np.abs(points) <= LARGEST_LENGTH).all():
            raise InputError(f"landmarks must lie within {LARGEST_LENGTH:g} of 0; use other units")
        if len(points) < FEWEST_LANDMARKS:
            raise InputError(f"landmarks hold {len(points)} rows of finite numbers; pass {FEWEST_LANDMARKS} or more")
        order = np.argsort(PublicStream(len(points), "landmarks/order").words(len(points)), kind="stable")
        chosen = np.ascontiguousarray(points[order[:MOST_LANDMARKS]])
        chosen.setflags(write=False)
        return cls(chosen)

    @classmethod
    def stored(cls, points: NDArray[Any]) -> PublicSample:
        """Take what a file holds, which `of` could have made; anything else is refused."""
        rows = len(points) if points.ndim == 2 else 0
        if not FEWEST_LANDMARKS <= rows <= MOST_LANDMARKS or not within(points, LARGEST_LENGTH):
            raise ReleaseFileError(
                f"landmarks are a table of {FEWEST_LANDMARKS} to {MOST_LANDMARKS} rows of numbers within "
                f"{LARGEST_LENGTH:g} of 0, not {rows} rows"
            )
        return cls(np.ascontiguousarray(points, dtype=np.float64))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the numbers."""
        return hashlib.sha256(repr(self.points.shape).encode() + self.points.tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicSample) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenpairs of the landmarks' kernel matrix, the largest first, as far as they carry more than rounding.

    Attributes
    ----------
    weights, directions : ndarray
        w and U, shapes (kept,) and (landmarks, kept).
    left_out : ndarray, shape (landmarks, landmarks)
        Maps k(Z, y) to every landmark's left-out residual at y.
    """

    weights: Floats
    directions: Floats
    left_out: Floats

    @classmethod
    def of(cls, matrix: Floats) -> Spectrum:
        """Decompose a kernel matrix, which must be positive semi-definite but for rounding."""
        weights, directions = np.linalg.eigh(matrix)
        if weights[0] < -SMALLEST_WEIGHT:
            raise InputError("the kernel is not positive definite on these landmarks; landmarks need one that is")
        inverse = (directions / (np.maximum(weights, 0.0) + RIDGE)) @ directions.T
        kept = weights[::-1] > SMALLEST_WEIGHT
        left_out = inverse / np.diag(inverse)[:, None]
        return cls(weights[::-1][kept], np.ascontiguousarray(directions[:, ::-1][:, kept]), left_out)

    @property
    def rank(self) -> int:
        """Number of directions kept."""
        return len(self.weights)

    def projection(self, rank: int) -> Floats:
        """Return U_r w_r^(-1/2): k(x, Z) times it is f(x)."""
        return np.asarray(self.directions[:, :rank] / np.sqrt(self.weights[:rank]))

    def beyond(self, rank: int, values: Floats) -> Floats:
        """Return what the first directions miss of every landmark at queries, from k(Z, y) in columns."""
        leading = self.directions[:, :rank]
        return np.asarray(values - leading @ (leading.T @ values))

    def completion(self, rank: int) -> Floats:
        """Weights b: b.k(Z, y) is the mean over the landmarks of `beyond` and of their left-out residuals."""
        leading, size = self.directions[:, :rank], len(self.directions)
        return np.asarray((1 - leading @ leading.sum(axis=0) + self.left_out.sum(axis=0)) / size)

    def reference(self, rank: int) -> Floats:
        """Mean of f over the landmarks."""
        return np.asarray(np.sqrt(self.weights[:rank]) * self.directions[:, :rank].mean(axis=0))

    def spread(self, rank: int) -> float:
        """Squared sampling error of `reference`: the mean of |f|^2 over the landmarks, divided by their number."""
        return float(self.weights[:rank].sum()) / len(self.directions) ** 2


@dataclass(frozen=True)
class Estimate:
    """What held-out public points say about the features of one rank.

    Attributes
    ----------
    rank : int
        r.
    strength : float
        Mean of |g(y)|^2.
    residual, residual_error : float
        Mean of 1 - |g(y)|^2, and its standard error.
    bias : float
        Root mean square of what is left of the bias after completion, for records that resemble the landmarks.
    missed : float
        Root mean square of what completion adds.
    """

    rank: int
    strength: float
    residual: float
    residual_error: float
    bias: float
    missed: float


def estimates(fitted: Similarities, ranks: list[int]) -> list[Estimate]:
    """Hold out a fifth of the landmarks, decompose the others, and see how well they explain it, rank by rank.

    Of fewer than `FEW` landmarks every part is held out in turn, of `FEWEST_HELD` points or half of them at least. A
    part is every fifth landmark by its place, or every second to fourth of a few: they must stand in a random order, as
    those of a `PublicSample` do.
    """
    matrix, places = fitted.matrix(), np.arange(len(fitted.points))
    parts = max(min(HELD_OUT, len(places) // FEWEST_HELD), 2)
    seen = [_held_out(matrix, places % parts == part, ranks) for part in range(parts if len(places) < FEW else 1)]
    return [_estimate(rank, list(found), len(places)) for rank, *found in zip(ranks, *seen, strict=True)]


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """What one held-out part says about one rank: |g(y)|^2 of its points, and what is missed of them."""

    squares: Floats
    among_landmarks: float
    among_held: float
    missed: float


def _held_out(matrix: Floats, held: NDArray[np.bool_], ranks: list[int]) -> list[_HeldOut]:
    spectrum = Spectrum.of(matrix[~held][:, ~held])
    values, among = matrix[~held][:, held], matrix[held][:, held]
    left_out = spectrum.left_out @ values
    found = []
    for rank in ranks:
        taken = min(rank, spectrum.rank)
        features = values.T @ spectrum.projection(taken)
        beyond = spectrum.beyond(taken, values)
        found.append(
            _HeldOut(
                squares=np.square(features).sum(axis=1),
                among_landmarks=float((beyond.var(axis=0) + left_out.var(axis=0)).mean()),
                among_held=_variance_of_pairs(among - features @ features.T),
                missed=float(np.square((beyond + left_out).mean(axis=0)).mean()),
            )
        )
    return found


def _estimate(rank: int, parts: list[_HeldOut], size: int) -> Estimate:
    """Take the mean over the held-out parts."""
    squares = np.concatenate([part.squares for part in parts])
    among_landmarks = sum(part.among_landmarks for part in parts) / len(parts)
    among_held = sum(part.among_held for part in parts) / len(parts)
    missed = sum(part.missed for part in parts) / len(parts)
    return Estimate(
        rank=rank,
        strength=float(squares.mean()),
        residual=float(np.clip(1 - squares, 0.0, 1.0).mean()),
        residual_error=float(squares.std() / np.sqrt(len(squares))),
        bias=math.sqrt(max(among_landmarks, among_held) / size),
        missed=math.sqrt(missed),
    )


def _variance_of_pairs(missed: Floats) -> float:
    """Mean over the columns of the variance of their entries off the diagonal; 0 if there are too few."""
    others = len(missed) - 1
    if others < 2:
        return 0.0
    apart = missed - np.diag(np.diag(missed))
    variances = (np.square(apart).sum(axis=0) - np.square(apart.sum(axis=0)) / others) / (others - 1)
    return float(variances.mean())


def whole_numbers(projection: Floats, limit_bits: int = 52) -> tuple[int, Floats]:
    """Round a projection to whole numbers of 2^-bits so that products with kernel integers stay exact.

    Returns
    -------
    bits, numbers
        With sum_z |numbers_zj| 2^24 < 2^52 for every j, any partial sum of the product is below 2^53.
    """
    widest = float(np.abs(projection).sum(axis=0).max()) + 1
    bits = min(24, limit_bits - VALUE_BITS - int(np.ceil(np.log2(widest + len(projection) * 2.0**-20))))
    return bits, np.rint(np.ldexp(projection, bits))
