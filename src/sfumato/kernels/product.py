"""Kernels of tables with several kinds of columns: a kernel of the numbers times an overlap for each category.

A category's values are public and come from the caller. In a table of numbers a category stands as a code: its place in
the list of values, and one more for "other" where values that are not in the list count as one value of their own.
Overlap kernels are positive definite (they are lambda + (1 - lambda) [x = y]), and so is their product with a kernel of
the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels.base import Kernel, kernel_from_document, register
from sfumato.public.arguments import checked_mapping, listed, says
from sfumato.public.codec import Documented, Many, Nested, Optional, Real, Schema, Text, Whole, brief
from sfumato.public.portable import FloatArray
from sfumato.public.ranges import MOST_COLUMNS

UNSEEN = ("drop", "other")
MOST_VALUES, LONGEST_VALUE = 2**16, 200
LARGEST_MISMATCH = 0.999
MOST_CATEGORIES = 64


def value_text(value: Any) -> str:
    """Text of a category's value: text without blanks around it, a whole number's digits, or any other number's.

    Examples
    --------
    >>> value_text(" Kent "), value_text(7.0), value_text(0.5)
    ('Kent', '7', '0.5')
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, np.timedelta64):  # a whole number to NumPy
        raise InputError(f"a category's values must be text or finite numbers, got {brief(value)}")
    if isinstance(value, int | np.integer | np.bool_):
        if int(value).bit_length() > 4 * LONGEST_VALUE:  # which is quick to tell; the schema counts digits
            raise InputError(f"a category's values have up to {LONGEST_VALUE} characters, got {brief(value)}")
        return str(int(value))
    if isinstance(value, float | np.floating) and math.isfinite(value):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    raise InputError(f"a category's values must be text or finite numbers, got {brief(value)}")


@dataclass(frozen=True, init=False)
class Overlap(Documented):
    """A category: ``k(x, y)`` is 1 for equal values and `mismatch` for different ones.

    Parameters
    ----------
    values : iterable of str or number
        All values, from public knowledge, never read off the data.
    mismatch : float, default=0.0
        Similarity of two different values, public, at least 0 and below 1.
    unseen : {"drop", "other"}, default="drop"
        What happens to records with a value that is not in the list: their rows are dropped, or they share the value
        "other".

    Examples
    --------
    >>> Overlap(["north", "south"], mismatch=0.25).size
    2
    """

    values: tuple[str, ...]
    mismatch: float
    unseen: str

    schema = Schema(
        values=Many(Text(longest=LONGEST_VALUE), MOST_VALUES, least=1),
        mismatch=Real(0.0, LARGEST_MISMATCH),
        unseen=Text(*UNSEEN),
    )

    def __init__(self, values: Iterable[Any], mismatch: float = 0.0, unseen: str = "drop") -> None:
        if isinstance(values, str | bytes):
            raise InputError("a category needs a list of its values, not one text")
        texts = [value_text(value) for value in listed("the values of a category", values, MOST_VALUES)]
        written = {"values": texts, "mismatch": mismatch, "unseen": unseen}
        for name, value in self.schema.read(written, "category").items():
            object.__setattr__(self, name, value)
        if says(unseen, "other") and "other" in texts:
            raise InputError("the value 'other' stands for all that are not in the list: leave it out, or drop those")
        if len(set(texts)) < len(texts) or "" in texts:
            raise InputError("a category's values must be different from one another, and none may be blank")

    @property
    def size(self) -> int:
        """Number of codes: the values, and "other" where it is one."""
        return len(self.values) + (1 if self.unseen == "other" else 0)

    def similarities(self, code: int) -> FloatArray:
        """``k(value, .)`` to all codes."""
        row = np.full(self.size, self.mismatch)
        row[code] = 1.0
        return row

    def value(self, code: int) -> str:
        """Value of a code."""
        return self.values[code] if code < len(self.values) else "other"

    @classmethod
    def of(cls, category: Any) -> Overlap:
        """Read what callers pass: a list of values, or the kernel itself."""
        return category if isinstance(category, Overlap) else cls(category)


def _kernel_of_numbers(document: Any, path: str) -> Kernel:
    kernel = kernel_from_document(document)
    if isinstance(kernel, Product):
        raise InputError(f"{path} must be a kernel of numbers")
    return kernel


@register
@dataclass(frozen=True, init=False, repr=False)
class Product(Kernel):
    """A kernel of tables with categories: the product over its columns.

    Parameters
    ----------
    numbers : Kernel or None
        Kernel of the columns that hold numbers, together; None where there are none.
    categories : mapping of int to Overlap or list
        The category columns by their positions among all columns.

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> kernel = Product(Gaussian(1.0), {1: Overlap(["a", "b"], mismatch=0.5)})
    >>> kernel.value([[0.0, 0]], [[0.0, 0], [0.0, 1]])
    array([[1. , 0.5]])
    """

    numbers: Kernel | None
    places: tuple[int, ...]
    categories: tuple[Overlap, ...]

    name = "product"
    schema = Schema(
        numbers=Optional(Nested(_kernel_of_numbers)),
        places=Many(Whole(0, MOST_COLUMNS - 1), MOST_CATEGORIES, least=1),
        categories=Many(Nested(Overlap.from_document), MOST_CATEGORIES, least=1),
    )

    def __init__(self, numbers: Kernel | None, categories: Mapping[int, Any]) -> None:
        if isinstance(numbers, Product) or not isinstance(numbers, Kernel | None):
            raise InputError(f"a product needs a kernel of its columns of numbers, or None; got {brief(numbers)}")
        if numbers is not None and not numbers.portable:
            raise InputError(f"a product needs a kernel by name, not {numbers!r}")
        categories = checked_mapping("categories", categories)
        if not categories:
            raise InputError("a product without categories is the kernel of its numbers: pass that")
        if len(categories) > MOST_CATEGORIES:
            raise InputError(f"a table may have up to {MOST_CATEGORIES} categories, got {len(categories)}")
        if not all(type(place) is int and 0 <= place < MOST_COLUMNS for place in categories):
            raise InputError(f"categories are given by their positions from 0, got {brief(list(categories))}")
        places = tuple(sorted(categories))
        object.__setattr__(self, "numbers", numbers)
        object.__setattr__(self, "places", places)
        object.__setattr__(self, "categories", tuple(Overlap.of(categories[place]) for place in places))

    @classmethod
    def from_document(cls, document: Any, path: str = "") -> Product:
        """Read back what `to_document` wrote."""
        fields = cls.schema.read(document, path)
        places, categories = fields["places"], fields["categories"]
        if len(places) != len(categories) or list(places) != sorted(set(places)):
            raise InputError(f"{path}.places must be as many as the categories, in order")
        return cls(fields["numbers"], dict(zip(places, categories, strict=True)))

    @classmethod
    def with_bandwidth(cls, bandwidth: Any) -> NoReturn:
        """Refuse: the columns' kinds are needed."""
        raise InputError("the kernel 'product' needs its columns: pass categories=, or a kernels.Product object")

    @property
    def bandwidth(self) -> float | FloatArray | None:
        """The bandwidth of the numbers."""
        return None if self.numbers is None else self.numbers.bandwidth

    @property
    def cells(self) -> int:
        """Number of combinations of the categories' values."""
        return math.prod(category.size for category in self.categories)

    def of_numbers(self, dimension: int) -> tuple[int, ...]:
        """Positions of the columns of numbers, of all `dimension` columns."""
        if self.places[-1] >= dimension or (len(self.places) < dimension) != (self.numbers is not None):
            raise InputError(
                f"a table of {dimension} columns does not suit a product with categories at {list(self.places)} and "
                f"{'a' if self.numbers is not None else 'no'} kernel of numbers"
            )
        return tuple(column for column in range(dimension) if column not in self.places)

    def _pairwise(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        numbers = list(self.of_numbers(X.shape[1]))
        values = np.ones((len(X), len(Y)))
        if self.numbers is not None:
            values = self.numbers.value(X[:, numbers], Y[:, numbers])
        for place, category in zip(self.places, self.categories, strict=True):
            values = values * np.where(X[:, place, None] == Y[:, place], 1.0, category.mismatch)
        return values

    def condition(self) -> str:
        """Say what happens to values that are not in the lists, for the guarantee."""
        actions = {category.unseen for category in self.categories}
        dropped = "are dropped" if "drop" in actions else ""
        other = 'count as "other"' if "other" in actions else ""
        which = " or, where so declared, ".join(filter(None, (dropped, other)))
        return f"records with a category's value that is not in its public list {which}"

    def __repr__(self) -> str:
        sizes = ", ".join(
            f"{place}: {category.size}" for place, category in zip(self.places, self.categories, strict=True)
        )
        return f"Product({self.numbers!r}, categories of sizes {{{sizes}}})"
