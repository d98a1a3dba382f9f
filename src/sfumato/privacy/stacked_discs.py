"""Several structures side by side, each a number of blocks of disc noise at its own rate (pure epsilon).

Guarantee. Structure j hides sums of which one record moves a single block, by a vector whose pairs lie in discs of
radius s_j; disc noise of rate e_j / s_j makes structure j e_j-DP (`privacy.body`). The structures' noises are
independent, so all together are (sum of the e_j)-DP.

Variance of a coordinate of structure j: that of its disc noise. A release has one number for it, the largest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.privacy.body import DiscNoise


@dataclass(frozen=True)
class StackedDiscs:
    """Disc noises one after the other.

    Parameters
    ----------
    parts : tuple of DiscNoise
        The noise of each structure.
    blocks : tuple of int
        How many blocks of it each structure has.

    Examples
    --------
    >>> from fractions import Fraction
    >>> law = StackedDiscs((DiscNoise(2, Fraction(1, 100)), DiscNoise(3, Fraction(1, 60))), blocks=(5, 1))
    >>> law.block, law.sample(SecureBits.seeded(7), 52).shape
    (26, (52,))
    """

    parts: tuple[DiscNoise, ...]
    blocks: tuple[int, ...]
    name: ClassVar[str] = "stacked-discs"

    def __post_init__(self) -> None:
        whole = all(type(count) is int and count >= 1 for count in self.blocks)
        if not self.parts or len(self.parts) != len(self.blocks) or not whole:
            raise InputError("stacked discs need at least one structure, each of a positive number of blocks")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Integers of each structure."""
        return tuple(part.block * count for part, count in zip(self.parts, self.blocks, strict=True))

    @property
    def block(self) -> int:
        """Integers in one draw of all structures."""
        return sum(self.sizes)

    def sample(self, bits: SecureBits, count: int) -> Integers:
        """Return `count` integers: whole draws of all structures."""
        draws, rest = divmod(count, self.block)
        if rest:
            raise InputError(f"stacked noise comes in whole draws of {self.block} integers, {count} were asked for")
        columns = [
            part.sample(bits, draws * size).reshape(draws, size)
            for part, size in zip(self.parts, self.sizes, strict=True)
        ]
        return np.concatenate(columns, axis=1).reshape(-1)

    @property
    def variance(self) -> float:
        """Largest variance of a coordinate."""
        return max(part.variance for part in self.parts)

    def to_document(self) -> dict[str, Any]:
        """Return the law as JSON-safe values."""
        return {"law": self.name, "parts": [part.to_document() for part in self.parts], "blocks": list(self.blocks)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> StackedDiscs:
        """Read what `to_document` wrote."""
        parts, blocks = document["parts"], document["blocks"]
        if not isinstance(parts, list) or not all(part.get("law") == DiscNoise.name for part in parts):
            raise InputError("the parts of stacked discs must be a list of disc noises")
        return cls(tuple(map(DiscNoise.from_document, parts)), tuple(blocks))
