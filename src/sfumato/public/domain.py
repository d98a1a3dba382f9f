"""The public box in which the points of a collection live, for devices: the standard library only."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from sfumato.errors import InputError
from sfumato.public.canonical_json import exact, plain
from sfumato.public.ranges import LARGEST_DEFAULT, LARGEST_LENGTH, check_bounds

# Of radii and other numbers of a document: within them no arithmetic overflows, or loses all of its digits.
SMALLEST, LARGEST = 1e-100, 1e100


@dataclass(frozen=True)
class Domain:
    """The public box of the points. Encoding is total: whatever numbers a device holds, it has something to report.

    A finite value outside the bounds is clipped to the nearer one. A value that is not a finite number counts as the
    middle of its column's bounds. Both are post-processing of one's own point, before the randomness, so they change
    no guarantee.

    Attributes
    ----------
    lower, upper : tuple of float
        The bounds, one for each column.
    declared : bool
        Whether the organiser gave them; else they are a default around the origin.

    Examples
    --------
    >>> Domain((0.0, 0.0), (1.0, 1.0)).clip([0.25, 7.0])
    [0.25, 1.0]
    >>> Domain((0.0,), (1.0,)).clip([float("nan")])
    [0.5]
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    declared: bool = True

    def __post_init__(self) -> None:
        if len(self.lower) != len(self.upper) or not self.lower:
            raise InputError("a domain needs one lower and one upper bound for each column")
        for column, (low, high) in enumerate(zip(self.lower, self.upper, strict=True)):
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise InputError(f"bounds of column {column} must be finite with lower < upper, got ({low}, {high})")

    @property
    def dimension(self) -> int:
        """Number of columns."""
        return len(self.lower)

    @property
    def middle(self) -> tuple[float, ...]:
        """Middle of every column, ``lower + (upper - lower) / 2`` in binary64."""
        return tuple(low + (high - low) / 2 for low, high in zip(self.lower, self.upper, strict=True))

    def clip(self, point: Sequence[float]) -> list[float]:
        """Return the point as it is reported; raise `InputError` for what is not a list of `dimension` numbers."""
        return [
            value if low <= value <= high else _moved(value, low, high)
            for value, low, high in zip(self.numbers(point), self.lower, self.upper, strict=True)
        ]

    def numbers(self, point: Sequence[float]) -> list[float]:
        """Return the point in binary64, unclipped; a whole number beyond binary64 becomes the largest one there is."""
        try:
            values = [_binary64(value) for value in point]
        except (TypeError, ValueError, OverflowError):
            raise InputError("a point must be a list of numbers, one for each column") from None
        if len(values) != self.dimension:
            raise InputError(f"a point must have {self.dimension} columns, got {len(values)}")
        return values

    def check_limits(self) -> None:
        """Raise `InputError` for bounds beyond the stated limits; not for those of a release, which are read.

        A default box, which only keeps numbers finite, may be wider than one that is declared.
        """
        check_bounds(self.lower, self.upper, LARGEST_LENGTH if self.declared else LARGEST_DEFAULT)

    def condition(self) -> str:
        """Say what happens to odd points, for the guarantee."""
        return "values outside the protocol's bounds are clipped to them; what is no finite number counts as the middle"

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "lower": exact(self.lower),
            "upper": exact(self.upper),
            "outside": "clip",
            "nonfinite": "middle",
            "declared": self.declared,
        }

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """Read back what `to_document` wrote."""
        try:
            lower, upper = (tuple(map(_real, plain(document[side]))) for side in ("lower", "upper"))
            domain = cls(lower, upper, document["declared"])
        except (KeyError, TypeError):
            raise InputError("the protocol's domain is damaged; ask the organiser for the file again") from None
        if domain.to_document() != document or type(domain.declared) is not bool:
            raise InputError("the protocol's domain says something that this version of sfumato does not know")
        return domain


def _moved(value: float, low: float, high: float) -> float:
    if not math.isfinite(value):
        return low + (high - low) / 2
    return low if value < low else high


def _binary64(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return sys.float_info.max if value > 0 else -sys.float_info.max


def _real(value: object) -> float:
    if not isinstance(value, float):
        raise InputError("bounds of a protocol are decimals")
    return value
