"""Several blocks of cube noise side by side: sums in groups, each hidden by its own K-norm noise (pure epsilon).

Guarantee. Block b hides a vector that one unit of privacy moves by at most s_b in every coordinate, with cube noise of
rate e_b / s_b, which is e_b-DP (`privacy.body`). The blocks' noises are independent, so all together are (sum of the
e_b)-DP.

Variance of a coordinate of block b: (D_b + 1)(D_b + 2) / (3 rate_b^2). A release has one number for it, so blocks
should be scaled to the same variance; the largest is stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.privacy.body import CubeNoise


@dataclass(frozen=True)
class StackedCubes:
    """Independent blocks of cube noise, one after the other.

    Parameters
    ----------
    parts : tuple of CubeNoise
        The blocks.

    Examples
    --------
    >>> from fractions import Fraction
    >>> law = StackedCubes((CubeNoise(3, Fraction(1, 100)), CubeNoise(2, Fraction(1, 60))))
    >>> law.block, law.sample(SecureBits.seeded(7), 10).shape
    (5, (10,))
    """

    parts: tuple[CubeNoise, ...]
    name: ClassVar[str] = "stacked-cubes"

    def __post_init__(self) -> None:
        if not isinstance(self.parts, tuple) or not self.parts:
            raise InputError("stacked noise needs at least one block")

    @property
    def block(self) -> int:
        """Integers in one draw of all blocks."""
        return sum(part.size for part in self.parts)

    def sample(self, bits: SecureBits, count: int) -> Integers:
        """Return `count` integers: whole draws of all blocks."""
        draws, rest = divmod(count, self.block)
        if rest:
            raise InputError(f"stacked noise comes in whole draws of {self.block} integers, {count} were asked for")
        columns = [part.sample(bits, draws * part.size).reshape(draws, part.size) for part in self.parts]
        return np.concatenate(columns, axis=1).reshape(-1)

    @property
    def variance(self) -> float:
        """Largest variance of a coordinate."""
        return max(part.variance for part in self.parts)

    def to_document(self) -> dict[str, Any]:
        """Return the law as JSON-safe values."""
        return {"law": self.name, "parts": [part.to_document() for part in self.parts]}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> StackedCubes:
        """Read what `to_document` wrote."""
        parts = document["parts"]
        if not isinstance(parts, list) or not all(part.get("law") == CubeNoise.name for part in parts):
            raise InputError("the parts of stacked noise must be a list of cube noises")
        return cls(tuple(map(CubeNoise.from_document, parts)))
