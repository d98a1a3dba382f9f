"""Noise that participants added themselves: known by its variance, drawn by nobody here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits


@dataclass(frozen=True)
class ReportNoise:
    """Noise of the local and the shuffled model, already in the counts that a collector or analyzer publishes.

    Parameters
    ----------
    variance : float
        Of one published integer, or the largest of them where they differ.

    Examples
    --------
    >>> ReportNoise(2.5).to_document()
    {'law': 'reported', 'variance': 2.5}
    """

    variance: float
    name: ClassVar[str] = "reported"

    def __post_init__(self) -> None:
        if isinstance(self.variance, bool) or not isinstance(self.variance, int | float):
            raise InputError(f"a variance must be a number, got {self.variance!r}")
        if not 0 <= self.variance < math.inf:
            raise InputError(f"a variance must be finite and at least 0, got {self.variance}")

    def sample(self, bits: SecureBits, count: int) -> NoReturn:
        """Refuse: the participants drew it."""
        raise InputError("the participants added this noise on their own devices; it cannot be drawn again")

    def to_document(self) -> dict[str, Any]:
        """Return the law as JSON-safe values."""
        return {"law": self.name, "variance": self.variance}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ReportNoise:
        """Read what `to_document` wrote."""
        if set(document) != {"law", "variance"}:
            raise InputError("noise of reports must have exactly the fields law and variance")
        return cls(document["variance"])
