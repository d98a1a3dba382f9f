"""`vector`, device half: one random number about a feature vector of length at most 1, for inner products or landmarks.

Two randomisers; the design takes the one of less predicted variance.

- ``codebook``: PrivUnit (A. Bhowmick and others, "Protection against reconstruction and its applications in private
  federated learning", 2018) on a finite public codebook. The vector gets one more coordinate, which makes its length 1.
  A block of the pool holds h normal vectors v_1 ... v_h, drawn independently of the point; the outputs are these and
  their opposites. Let T be the k of the 2 h outputs with the largest inner products with the vector: v_j or -v_j,
  whichever is positive, for the k largest absolute values, the first of equals. An output in T has weight `same`,
  every other one `other`. T always has k members, so the total weight does not depend on the point.
- ``coordinate``: a random coordinate of the vector turned by a public rotation (random signs, then Hadamard's matrix of
  the next power of two), clipped at `clip` over the root of their number, rounded at random to the sign of that range,
  and randomised response on the sign with weights `same` and `other`.

Guarantee: epsilon for every two points, without exceptions. Block or coordinate do not depend on the point, and given
them every output has one of two weights out of the same total, ``same <= other e^epsilon``.

A payload is the block or coordinate as 16 bits and the output as 8 bits, 2 j for v_j and 2 j + 1 for its opposite. The
standard library only; `vector_server` has the estimates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.errors import InputError
from sfumato.local.coins import Coins
from sfumato.local.hashing import little_endian
from sfumato.local.mechanism import Device
from sfumato.local.pool_device import positive_integer
from sfumato.local.vector_features import UNIT, features_of
from sfumato.privacy.response import check_weights
from sfumato.public.rows import NORMAL, WORD_BYTES, row_bytes

LABEL, SIGN_LABEL = "local/vector", "local/vector/signs"
INDEX_BYTES, OUTPUT_BYTES = 2, 1
MOST_BLOCKS, MOST_VECTORS = 1 << 16, 128


class Vector(Device):
    """The randomisers of `vector`; see the module's text."""

    name = "vector"

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.features = features_of(document, self.domain.dimension)
        self.randomiser = self.parameters.get("randomiser")
        self.same, self.other = check_weights(self.parameters.get("same"), self.parameters.get("other"), self.epsilon)
        if self.randomiser == "codebook":
            self.blocks = positive_integer(self.parameters, "blocks")
            self.vectors = positive_integer(self.parameters, "vectors")
            self.likely = positive_integer(self.parameters, "likely")
            if self.blocks > MOST_BLOCKS or self.vectors > MOST_VECTORS or self.likely > self.vectors:
                raise InputError("the protocol's codebook is out of range")
        elif self.randomiser == "coordinate":
            self.range = positive_integer(self.parameters, "range")
            if self.turned > MOST_BLOCKS:
                raise InputError(f"the randomiser coordinate takes at most {MOST_BLOCKS} features; use the codebook")
        else:
            raise InputError("the protocol's randomiser is not known; update sfumato")

    @property
    def payload_bytes(self) -> int:
        """An index and an output."""
        return INDEX_BYTES + OUTPUT_BYTES

    @property
    def turned(self) -> int:
        """Coordinates after the rotation: the next power of two."""
        return 1 << (self.features.size - 1).bit_length()

    @property
    def total(self) -> int:
        """Sum of the weights of a block's outputs."""
        return self.likely * self.same + (2 * self.vectors - self.likely) * self.other

    def encode(self, point: Sequence[float], coins: Coins) -> bytes:
        """Draw a block or coordinate, then an output."""
        F = self.features.integers(point)
        if self.randomiser == "codebook":
            index = coins.below(self.blocks)
            output = self.draw(self.likely_outputs(index, F), coins)
        else:
            index = coins.below(self.turned)
            output = self.draw_sign(self.coordinate(index, F), coins)
        return index.to_bytes(INDEX_BYTES, "little") + output.to_bytes(OUTPUT_BYTES, "little")

    def likely_outputs(self, block: int, F: Sequence[int]) -> list[int]:
        """Return the outputs T of a block for a vector, in increasing order."""
        whole = [*F, padding(F)]
        size = WORD_BYTES * len(whole)
        products = []
        for j in range(self.vectors):
            vector = NORMAL.numbers(little_endian(row_bytes(self.seed, LABEL, block * self.vectors + j, size)))
            products.append(sum(map(int.__mul__, vector, whole)))
        order = sorted(range(self.vectors), key=lambda j: (-abs(products[j]), j))
        return sorted(2 * j + (products[j] < 0) for j in order[: self.likely])

    def draw(self, likely: Sequence[int], coins: Coins) -> int:
        """Draw an output, given those of weight `same`."""
        number = coins.below(self.total)
        if number < self.likely * self.same:
            return likely[number // self.same]
        output = (number - self.likely * self.same) // self.other
        for member in likely:  # skip the likely ones
            output += member <= output
        return output

    def coordinate(self, index: int, F: Sequence[int]) -> int:
        """Coordinate of the turned vector in units of 2**-15 over the root of their number, clipped."""
        signs = row_bytes(self.seed, SIGN_LABEL, 0, len(F))
        total = sum(-f if ((i & index).bit_count() + signs[i]) & 1 else f for i, f in enumerate(F))
        return min(max(total, -self.range), self.range)

    def draw_sign(self, value: int, coins: Coins) -> int:
        """Round a coordinate to the sign of its range at random, then keep the sign or turn it; 0 is plus."""
        minus = coins.below(2 * self.range) >= self.range + value
        return int(minus ^ (coins.below(self.same + self.other) < self.other))


def padding(F: Sequence[int]) -> int:
    """Return the coordinate that makes the length 1.

    Examples
    --------
    >>> padding([UNIT]), padding([0]) == UNIT
    (0, True)
    """
    return math.isqrt(max(0, UNIT**2 - sum(f * f for f in F)))
