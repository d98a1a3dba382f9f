"""`metric-rows`, device half: hash buckets with noise in proportion to how far a radius can move a projection.

Source: geo-indistinguishability (M. Andres and others, CCS 2013) on the p-stable rows of `rows` (`L2LSH`, `L1LSH`).
A row's projection t = a . X + offset is an exact integer in units of 2**-shift cells. Between points within a distance
r it moves by at most S = r |a s| + c |a|_1: s are the grid's steps per data unit, |a s| is the Euclidean norm for
`L2LSH`, whose radius is Euclidean, and the largest entry for `L1LSH`, whose radius is in l1; rounding to the grid moves
either point by half a step in every column, and binary64 by 2^-52 of a coordinate, so that c = 1 + 2^-50 (1 + largest
coordinate) steps cover both. D >= S is a whole number of six significant bits.

Law. Every cell, 2**shift units wide, is cut into M = 2**shift // D parts of D units, the last one longer. Parts are
numbered through all cells. Noise z with Pr[z] proportional to exp(-share |z|), share = epsilon / rows_each, is added to
the number of the point's part; it is drawn exactly. Reported are the bucket of the cell of that noisy part (a keyed
universal rehash, as for `rows`), and whether the part is the cell's first, its last or neither (one part: neither).
A row with M below `least` says more by randomised response: it reports its bucket as `rows` does, and "neither".

Guarantee, for every two points, all hash functions and every report (no eta, and nothing to gain by trying seeds).
Every part is at least D units long, so a projection that moves by T <= k D units moves by k parts at most: within r by
one, at t r by ceil(t). Noise makes two parts that lie k apart look alike up to k share; bucket and place are functions
of the noisy part and of public keys. Randomised response keeps the share for all points. The group of rows does not
depend on the point. So the loss is at most epsilon within r, and ceil(t) epsilon at t r; below r nothing less than
epsilon is promised.

A report has the form of `rows`, with digits 3 bucket + place, base 3 times the buckets.

The standard library only; `metric_rows_server` has the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.errors import InputError
from sfumato.local.coins import Coins, laplace
from sfumato.local.hashing import PStable
from sfumato.local.pooled import NORM_ERROR, Rows, coarse
from sfumato.local.promises import LENGTH, check_radius_in, near, rows_condition
from sfumato.public.codec import Field, Whole

PLACES = 3
FIRST, NEITHER, LAST = range(PLACES)
MOST_PARTS = (1 << 62) - 1


class MetricRows(Rows):
    """Noisy parts of cells, or randomised response; see the module's text."""

    name = "metric-rows"
    hash: PStable

    def fields(self) -> dict[str, Field[Any]]:
        """Add the radius and the fewest parts of a cell."""
        return {**super().fields(), "radius": LENGTH, "least": Whole(1, MOST_PARTS)}

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        if not isinstance(self.hash, PStable):
            raise InputError(f"{self.name} needs projections; the protocol's hash functions are others")
        self.radius: float = self.given["radius"]
        self.least: int = self.given["least"]
        self.share = self.epsilon / self.rows_each
        self.steps_apart = 1 + 2.0**-50 * (1 + self.reach)

    @property
    def outcomes(self) -> int:
        """Buckets of a row, and places of a part in its cell."""
        return PLACES * self.hash.buckets

    def certify(self) -> None:
        """Check the radius: below a millionth of the width, or of a length, the noise is none."""
        super().certify()
        check_radius_in(self.radius, self.domain, self.hash.point_bits, self.scales)

    @property
    def euclidean(self) -> bool:
        """Whether the radius is Euclidean, else in l1."""
        return self.hash.law.name == "normal"

    def conditions(self) -> tuple[str, ...]:
        """Return the radius."""
        return (rows_condition(self.radius, "a Euclidean" if self.euclidean else "an l1"),)

    @property
    def within(self) -> str:
        """The radius."""
        return near(self.radius)

    def length(self, direction: Sequence[int]) -> int:
        """Length D of a part: what a projection on this direction moves by at most within the radius."""
        steps = [a * s for a, s in zip(direction, self.scales, strict=True)]
        size = math.sqrt(math.fsum(a * a for a in steps)) if self.euclidean else max(map(abs, steps))
        return coarse((self.radius * size + self.steps_apart * sum(map(abs, direction))) * (1 + NORM_ERROR))

    def digit(self, row: int, X: Sequence[int], coins: Coins) -> int:
        """Move the part at random, and name the bucket of its cell and its place there."""
        keys, words = self.hash.drawn(row)
        projection, shift = self.hash.projection(words, X), self.hash.shift
        length = self.length(self.hash.law.numbers(words[1:]))
        cell, parts = projection >> shift, (1 << shift) // length
        if parts < self.least:
            return PLACES * self.response.draw(self.hash.named(keys, (cell,)), coins) + NEITHER
        part = min((projection - (cell << shift)) // length, parts - 1)
        cell, part = divmod(cell * parts + part + laplace(self.share, coins), parts)
        return PLACES * self.hash.named(keys, (cell,)) + place(part, parts)


def place(part: int, parts: int) -> int:
    """Say whether a part is the first of its cell, the last or neither.

    Examples
    --------
    >>> [place(part, 3) for part in range(3)], place(0, 1)
    ([0, 1, 2], 1)
    """
    if parts == 1 or 0 < part < parts - 1:
        return NEITHER
    return LAST if part else FIRST
