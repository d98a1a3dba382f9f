"""Documents from fields: what a value is written as, and the one place where what was written is checked.

A `Schema` names the fields of a document, each with its kind and its range. `Schema.write` reads them off an object;
`Schema.read` takes a document from anywhere and returns exactly those fields, or raises an `InputError` that says
where: an unknown, missing, mistyped or far-off field is refused by its path, such as ``noise.parts[2].rate``. A class
whose fields are its constructor's arguments becomes `Documented` by stating a schema.

The standard library only: devices check documents too. Real numbers are floats here; protocols write them as decimals
(`canonical_json.exact` and `plain`), which is a matter of the file and not of the field.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Generic, Self, TypeVar

from sfumato.errors import InputError
from sfumato.public.shown import shown

T = TypeVar("T")
_RATIO = re.compile(r"[0-9]{1,1100}(/[1-9][0-9]{0,1099})?")


def refuse(path: str, wanted: str, value: object) -> InputError:
    """Return the error for a field that is not what it should be.

    Examples
    --------
    >>> print(refuse("noise.rate", "text", 3))
    noise.rate must be text, got 3
    """
    return InputError(f"{path or 'the document'} must be {wanted}, got {brief(value)}")


def brief(value: object) -> str:
    """Show a value in a message, whatever it is and however long.

    Examples
    --------
    >>> brief(10**5000), brief("größe"), brief("a" * 100)
    ('an int of too many digits', "'größe'", "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...")
    """
    try:
        text = repr(value)
    except ValueError:  # Python does not write integers of more than 4,300 digits, on their own or in a list
        return f"{'an int' if isinstance(value, int) else f'a {type(value).__name__} with a number'} of too many digits"
    except Exception:  # of lists within lists without end, and of anybody's class
        return f"an object of type {type(value).__name__}"
    return shown(text) if len(text) <= 40 else f"{shown(text[:40])}..."


class Field(ABC, Generic[T]):
    """One kind of value in a document."""

    @abstractmethod
    def read(self, value: Any, path: str) -> T:
        """Return the checked value, or raise `InputError` with the path."""

    def write(self, value: T) -> Any:
        """Return the JSON form."""
        return value


@dataclass(frozen=True)
class Whole(Field[int]):
    """A whole number within a range.

    Examples
    --------
    >>> Whole(1, 2**24).read(3, "size")
    3
    """

    least: int
    most: int

    def read(self, value: Any, path: str) -> int:
        """Return the number; True is none."""
        if type(value) is not int or not self.least <= value <= self.most:
            raise refuse(path, f"a whole number from {self.least} to {self.most}", value)
        return value

    def write(self, value: int) -> int:
        """Return a plain integer."""
        return int(value)


@dataclass(frozen=True)
class Real(Field[float]):
    """A finite number within a range.

    Examples
    --------
    >>> Real(0.0, 1.0).read(2, "noise.alpha")
    Traceback (most recent call last):
    sfumato.errors.InputError: noise.alpha must be a number from 0 to 1, got 2
    """

    least: float = -math.inf
    most: float = math.inf

    def read(self, value: Any, path: str) -> float:
        """Return the number as a float."""
        good = type(value) in (int, float) and self.least <= value <= self.most
        if not good or (isinstance(value, float) and not math.isfinite(value)) or abs(value) > 1e308:
            raise refuse(path, f"a number from {self.least:g} to {self.most:g}", value)
        return float(value)

    def write(self, value: float) -> float:
        """Return a plain float."""
        return float(value)


@dataclass(frozen=True)
class Reals(Field[tuple[float, ...]]):
    """A list of finite numbers within a range, which may be long.

    Examples
    --------
    >>> Reals(0.0, 1.0, longest=3).read([0.5, 2.0], "lower")
    Traceback (most recent call last):
    sfumato.errors.InputError: lower[1] must be a number from 0 to 1, got 2.0
    """

    least: float
    most: float
    longest: int

    def read(self, value: Any, path: str) -> tuple[float, ...]:
        """Return a tuple of floats; only what is refused is looked at one by one."""
        if not isinstance(value, list) or not 1 <= len(value) <= self.longest:
            raise refuse(
                path, f"a list of 1 to {self.longest} numbers", len(value) if isinstance(value, list) else value
            )
        if set(map(type, value)) <= {int, float} and self.least <= min(value) and max(value) <= self.most:
            return tuple(map(float, value))
        return Many(Real(self.least, self.most), self.longest).read(value, path)

    def write(self, value: tuple[float, ...]) -> list[float]:
        """Return a list of plain floats."""
        return [float(part) for part in value]


@dataclass(frozen=True)
class Ratio(Field[Fraction]):
    """A non-negative fraction as text, so that no digit is lost.

    Examples
    --------
    >>> Ratio().read("1/3", "epsilon")
    Fraction(1, 3)
    """

    largest_term: int | None = None
    positive: bool = False
    slash: bool = False  # whether whole numbers are written "3/1"

    def read(self, value: Any, path: str) -> Fraction:
        """Return the fraction; only the text that `write` gives is taken."""
        ratio = None
        if isinstance(value, str) and _RATIO.fullmatch(value):
            ratio = Fraction(value)
        if ratio is None or self.write(ratio) != value or (self.positive and not ratio):
            raise refuse(
                path, f"{'a positive' if self.positive else 'a'} fraction's text in lowest terms, such as '1/3'", value
            )
        if self.largest_term is not None and max(ratio.numerator, ratio.denominator) > self.largest_term:
            raise refuse(path, f"a fraction with terms up to {self.largest_term}", value)
        return ratio

    def write(self, value: Fraction) -> str:
        """Return the text in lowest terms."""
        return f"{value.numerator}/{value.denominator}" if self.slash else str(value)


@dataclass(frozen=True)
class Digits(Field[int]):
    """A whole number from 0 on as text, for seeds that are longer than other programs' integers.

    Examples
    --------
    >>> Digits(2**256 - 1).read("7", "seed")
    7
    """

    most: int

    def read(self, value: Any, path: str) -> int:
        """Return the number; only the text that `write` gives is taken."""
        digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(self.most))
        if not digits or str(int(value)) != value or int(value) > self.most:
            raise refuse(path, "the digits of a whole number", value)
        return int(value)

    def write(self, value: int) -> str:
        """Return the digits."""
        return str(int(value))


@dataclass(frozen=True)
class Text(Field[str]):
    """Printable text on one line, or one of a few words.

    Examples
    --------
    >>> Text("clip", "drop").read("keep", "box.outside")
    Traceback (most recent call last):
    sfumato.errors.InputError: box.outside must be one of 'clip', 'drop', got 'keep'
    """

    choices: tuple[str, ...]
    longest: int

    def __init__(self, *choices: str, longest: int = 1000) -> None:
        object.__setattr__(self, "choices", choices)
        object.__setattr__(self, "longest", longest)

    def read(self, value: Any, path: str) -> str:
        """Return the text."""
        if self.choices:
            if not isinstance(value, str) or value not in self.choices:
                raise refuse(path, f"one of {', '.join(map(repr, self.choices))}", value)
        elif not isinstance(value, str) or not value.isprintable() or len(value) > self.longest:
            raise refuse(path, f"one line of printable text, of up to {self.longest} characters", value)
        return value


class Flag(Field[bool]):
    """True or false."""

    def read(self, value: Any, path: str) -> bool:
        """Return the flag."""
        if not isinstance(value, bool):
            raise refuse(path, "true or false", value)
        return value

    def write(self, value: bool) -> bool:
        """Return a plain flag."""
        return bool(value)


@dataclass(frozen=True)
class Optional(Field[T | None]):
    """Null, or a value of another kind."""

    of: Field[T]

    def read(self, value: Any, path: str) -> T | None:
        """Return None for null."""
        return None if value is None else self.of.read(value, path)

    def write(self, value: T | None) -> Any:
        """Return null for None."""
        return None if value is None else self.of.write(value)


@dataclass(frozen=True)
class Many(Field[tuple[T, ...]]):
    """A list of values of one kind.

    Examples
    --------
    >>> Many(Whole(0, 9), most=3).read([1, 10], "nodes")
    Traceback (most recent call last):
    sfumato.errors.InputError: nodes[1] must be a whole number from 0 to 9, got 10
    """

    of: Field[T]
    most: int
    least: int = 0

    def read(self, value: Any, path: str) -> tuple[T, ...]:
        """Return a tuple."""
        if not isinstance(value, list) or not self.least <= len(value) <= self.most:
            length = len(value) if isinstance(value, list) else value
            raise refuse(path, f"a list of {self.least} to {self.most} values", length)
        return tuple(self.of.read(part, f"{path}[{index}]") for index, part in enumerate(value))

    def write(self, value: tuple[T, ...]) -> list[Any]:
        """Return a list."""
        return [self.of.write(part) for part in value]


@dataclass(frozen=True)
class Nested(Field[T]):
    """A value with a document of its own: `read` is given the part and its path, and the value has `to_document`.

    Examples
    --------
    >>> class Point(Documented):
    ...     schema = Schema(x=Real())
    ...     def __init__(self, x): self.x = x
    >>> Nested(Point.from_document).read({"x": "1"}, "centre")
    Traceback (most recent call last):
    sfumato.errors.InputError: centre.x must be a number from -inf to inf, got '1'
    """

    reader: Callable[[Any, str], T]

    def read(self, value: Any, path: str) -> T:
        """Return what the value's own reader makes of it."""
        return self.reader(value, path)

    def write(self, value: T) -> Any:
        """Return the value's own document."""
        return value.to_document()  # type: ignore[attr-defined]


class Object(Field[Mapping[str, Any]]):
    """A document that is read later, by whoever knows what it depends on; values write their own."""

    def read(self, value: Any, path: str) -> Mapping[str, Any]:
        """Return the object as it is."""
        if not isinstance(value, Mapping):
            raise refuse(path, "an object", value)
        return value

    def write(self, value: Any) -> Any:
        """Return the value's own document, without arrays that are stored beside it."""
        made = value.to_document()
        return made[0] if isinstance(made, tuple) else made


class Schema:
    """The fields of a document.

    Parameters
    ----------
    fixed : mapping
        Fields that have one value, such as the name of a family.
    **fields : Field
        The others, by the names of the attributes that hold them.

    Examples
    --------
    >>> schema = Schema({"law": "disc"}, pairs=Whole(1, 2**24), rate=Ratio())
    >>> schema.read({"law": "disc", "pairs": 2}, "noise")
    Traceback (most recent call last):
    sfumato.errors.InputError: noise lacks the field 'rate'
    """

    def __init__(self, fixed: Mapping[str, Any] | None = None, /, **fields: Field[Any]) -> None:
        self.fixed = dict(fixed or {})
        self.fields = fields

    def extended(self, fixed: Mapping[str, Any] | None = None, /, **fields: Field[Any]) -> Schema:
        """Return a schema with more fields, for a class that adds some."""
        return Schema({**self.fixed, **(fixed or {})}, **{**self.fields, **fields})

    def write(self, owner: Any) -> dict[str, Any]:
        """Return the document of an object that has the fields as attributes."""
        return {**self.fixed, **{name: field.write(getattr(owner, name)) for name, field in self.fields.items()}}

    def read(self, document: Any, path: str = "") -> dict[str, Any]:
        """Return the checked fields, without the fixed ones."""
        if not isinstance(document, Mapping):
            raise refuse(path, "an object", document)
        place = path or "the document"
        for name in (*self.fixed, *self.fields):
            if name not in document:
                raise InputError(f"{place} lacks the field {name!r}")
        for name in document:
            if name not in self.fixed and name not in self.fields:
                raise InputError(f"{place} has a field {ascii(name)[:40]} that is not known here")
        dotted = f"{path}." if path else ""
        for name, value in self.fixed.items():
            if document[name] != value or type(document[name]) is not type(value):
                raise refuse(f"{dotted}{name}", repr(value), document[name])
        return {name: field.read(document[name], f"{dotted}{name}") for name, field in self.fields.items()}


class Documented:
    """A value that is written by its schema and made again from the same fields."""

    schema: ClassVar[Schema]

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form."""
        return self.schema.write(self)

    @classmethod
    def from_document(cls, document: Any, path: str = "") -> Self:
        """Read back what `to_document` wrote; anything else is refused with its path."""
        return cls(**cls.schema.read(document, path))
