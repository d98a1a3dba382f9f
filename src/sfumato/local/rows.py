"""`rows`, device half: few rows of a large public pool, each bucket through generalised randomised response.

Guarantee: epsilon for every two points, without exceptions. The group of rows is drawn independently of the point; in
each of its `rows_each` rows the bucket of the point is kept with weight `same` and replaced by each other bucket with
weight `other`, ``same <= other e^(epsilon / rows_each)``. For two points every report therefore has probabilities whose
ratio is at most ``(same / other)^rows_each <= e^epsilon``, whatever the hash functions are.

`rows_server` has the estimate and its variance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.errors import InputError
from sfumato.local.coins import Coins
from sfumato.local.hashing import row_hash
from sfumato.local.pool_device import CODE_BYTES, PoolDevice
from sfumato.privacy.response import Response


class Rows(PoolDevice):
    """Generalised randomised response on buckets of hash functions; see the module's text."""

    name = "rows"

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.hash = row_hash(self.parameters, self.seed, self.domain.dimension)
        if self.hash.buckets**self.rows_each > 1 << 8 * CODE_BYTES:
            raise InputError("the protocol's reports do not fit their length")
        self.response = Response(self.same, self.other, self.hash.buckets)
        self.total = self.response.total

    @property
    def outcomes(self) -> int:
        """Buckets of a row."""
        return self.hash.buckets

    def digit(self, row: int, X: Sequence[int], coins: Coins) -> int:
        """Keep the bucket, or take one of the others."""
        return self.response.draw(self.hash.bucket(row, X), coins)
