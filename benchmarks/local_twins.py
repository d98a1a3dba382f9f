"""Broken twins of the local mechanisms `rows` and `phases`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sfumato.audit import Case
from sfumato.audit.cases.enumeration import enumerated_case
from sfumato.audit.cases.local import POINTS, small_protocol
from sfumato.kernels import L2LSH, Gaussian
from sfumato.local.coins import Coins
from sfumato.local.pooled import POSITIONS, Phases, Rows


class RowsForBuckets(Rows):
    """Takes the number of rows for the number of buckets in the chance of keeping a bucket."""

    def digit(self, row: int, X: Sequence[int], coins: Coins) -> int:
        bucket = self.hash.bucket(row, X)
        draw = coins.below(self.same + (self.rows_each - 1) * self.other)
        if draw < self.same:
            return bucket
        return (bucket + 1 + coins.below(self.hash.buckets - 1)) % self.hash.buckets


class WholeEpsilonEach(Rows):
    """Spends the whole epsilon on every row."""

    def digit(self, row: int, X: Sequence[int], coins: Coins) -> int:
        same = self.same**self.rows_each // self.other ** (self.rows_each - 1)
        draw = coins.below(same + (self.hash.buckets - 1) * self.other)
        steps = 0 if draw < same else 1 + (draw - same) // self.other
        return (self.hash.bucket(row, X) + steps) % self.hash.buckets


class OddsOfTheArc(Phases):
    """Gives odds of e^epsilon to the arc as a whole, whatever its length."""

    def digit(self, row: int, X: Sequence[int], coins: Coins) -> int:
        start = self.position(row, X) - self.inside // 2
        if coins.below(self.same + self.other) < self.same:
            return (start + coins.below(self.inside)) % POSITIONS
        return (start + self.inside + coins.below(POSITIONS - self.inside)) % POSITIONS


def _rows_for_buckets() -> Case:
    document = small_protocol(L2LSH(0.2), "rows", 1, 2, 1, buckets=3)
    return enumerated_case("l2-lsh, 2 rows", RowsForBuckets(document), POINTS)


def _whole_epsilon() -> Case:
    document = small_protocol(L2LSH(0.2), "rows", 1, 2, 1, buckets=3)
    return enumerated_case("l2-lsh, 2 rows", WholeEpsilonEach(document), POINTS)


def _odds_of_the_arc() -> Case:
    document = small_protocol(Gaussian(0.3), "phases", 1, 1, 1)
    return enumerated_case("gaussian, 1 row", OddsOfTheArc(document), POINTS)


TWINS: tuple[tuple[str, str, Callable[[], Case]], ...] = (
    ("rows", "the number of rows for that of buckets", _rows_for_buckets),
    ("rows", "the whole epsilon on every row", _whole_epsilon),
    ("phases", "odds of the arc as a whole", _odds_of_the_arc),
)
