"""Labels of records: which class each record counts in, and what a promise to records says about them.

Each label is compared alone with the public classes. Texts are equal letter by letter, numbers by their exact value,
whatever their types: 1.0 is 1, True is 1, and 2**60 is not 2**60 + 1. A text is never a number. What equals no class
(another label, None, NaN, a list) drops its record. Only a declared type, an array's, decides for all labels together.

A column that is named belongs to a file or table, which may hold numbers as text; it is read as columns of users are
(`sfumato.sources.keys`): there the whole number 7 is also the text "7", and blanks around a text do not count.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.deferred import brought_by
from sfumato.errors import InputError, OddDataWarning
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.guarantee import Guarantee, amount_text
from sfumato.public.arguments import listed
from sfumato.public.codec import brief
from sfumato.quantizers.base import Encoder, Integers
from sfumato.sources import Columns, Source, arguments_named, open_source
from sfumato.sources.base import Rows
from sfumato.sources.beside import is_untyped
from sfumato.sources.cells import is_real, scalar_of
from sfumato.sources.keys import keys_of
from sfumato.sources.remote import Remote

with brought_by("curator"):
    from sklearn.exceptions import DataConversionWarning
    from sklearn.utils.multiclass import check_classification_targets

OBSERVED = "observed"
LABEL_CONDITION = "a record is a point with its label"
Codes = NDArray[np.int64]
Labels = NDArray[Any] | list[Any]


@dataclass(frozen=True)
class LabelledSource:
    """Records with their labels.

    Attributes
    ----------
    source : Source
        The points.
    classes : ndarray
        The public list of classes, sorted.
    coded : Source
        The points with one column more: the place of each one's label in the list of classes, -1 if it is not there.
    """

    source: Source
    classes: NDArray[Any]
    coded: Source


@dataclass(frozen=True)
class ClassSums:
    """The sums of every class apart, in one pass over coded rows.

    Behind each class's sums stands the number of its rows that were kept.

    Attributes
    ----------
    encoder : Encoder
        Turns rows into integers.
    classes : int
        How many classes.
    center : ndarray, optional
        Public point that is taken off every row.
    """

    encoder: Encoder
    classes: int
    center: NDArray[np.float64] | None = None

    @property
    def size(self) -> int:
        """Integers of all classes."""
        return self.classes * (self.encoder.size + 1)

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add each row's integers to the sums of its class."""
        table, total = sums.reshape(self.classes, -1), 0
        for code in range(self.classes):
            own = np.ascontiguousarray(rows[rows[:, -1] == code, :-1])
            if self.center is not None:
                own = own - self.center
            if len(own):
                kept = self.encoder.accumulate(own, table[code, :-1], None if coins is None else coins.child(code))
                table[code, -1] += kept
                total += kept
        return total


def labelled(X: Any, y: Any, classes: Any, columns: Columns | None = None) -> LabelledSource:
    """Open points with their labels.

    Parameters
    ----------
    X : array, frame, table, path, Source or iterator of batches
        The points.
    y : array, or str
        The labels, or the name of the column of X that holds them.
    classes : sequence, or "observed"
        The public list of classes.
    columns : list of str or int, optional
        Columns of X that make up a point.
    """
    if isinstance(y, str):
        return _labelled_by_column(X, y, classes, columns)
    source, labels = open_source(X, columns), checked_labels(y)
    known = public_classes(classes, labels)
    codes = class_codes(labels, known)
    if len(codes) and (codes < 0).all():
        warnings.warn("No label is one of the classes: all records are dropped.", OddDataWarning, stacklevel=3)
    return LabelledSource(source, known, _coded(source, lambda pieces: _with_codes(pieces, codes)))


def _labelled_by_column(X: Any, column: str, classes: Any, columns: Columns | None) -> LabelledSource:
    if isinstance(classes, str):
        raise InputError("classes must be listed where y names a column: pass classes=, the public list of classes")
    if isinstance(X, Source) and not X.keyed:
        raise InputError(f"open the source with key={column!r}, the column of the labels, to pass its name as y")
    with arguments_named(key="y"):
        source = X if isinstance(X, Source) else open_source(X, columns, key=column)
    known = public_classes(classes, [])
    names = keys_of(known)
    if len(np.unique(names, axis=0)) < len(names) or not names.any(axis=1).all():
        raise InputError("classes in a column must differ by more than blanks around them, and have a letter or digit")
    codes = KeyedCodes(tuple(known.tolist()))
    if isinstance(source.read, Remote):
        coded = replace(source, dimension=source.dimension + 1, column_names=None, read=source.read.then(codes))
        return LabelledSource(source, known, replace(coded, keyed=False, expected_rows=None))
    return LabelledSource(source, known, _coded(source, codes.of))


def _appended(piece: Rows, codes: Codes) -> Rows:
    """Append the codes, which single precision holds exactly."""
    return Rows(np.column_stack([piece.block, codes.astype(piece.block.dtype)]))


def _coded(source: Source, code: Callable[[Iterator[Rows]], Iterator[tuple[Rows, Codes]]]) -> Source:
    """Append the codes to the rows."""

    def read(rows: int) -> Iterator[Rows]:
        for piece, codes in code(source.pieces(rows)):
            yield _appended(piece, codes)

    return Source(source.dimension + 1, None, read, repeatable=source.repeatable)


@dataclass(frozen=True)
class KeyedCodes:
    """Codes rows of a source that was opened with the labels as its key, in this process or another one.

    Attributes
    ----------
    classes : tuple
        The public list of classes; their keys are those of the process that reads.
    """

    classes: tuple[Any, ...]

    def of(self, pieces: Iterator[Rows]) -> Iterator[tuple[Rows, Codes]]:
        """Give rows with their codes."""
        for piece in pieces:
            names, codes = keys_of(self.classes), np.full(len(piece), -1, dtype=np.int64)
            for code, name in enumerate(names):
                codes[(piece.users == name).all(axis=1)] = code
            yield piece, codes

    def __call__(self, pieces: Iterator[Rows], bits: SecureBits) -> Iterator[Rows]:
        """Append the codes to the rows."""
        return (_appended(piece, codes) for piece, codes in self.of(pieces))


def _with_codes(pieces: Iterator[Rows], codes: Codes) -> Iterator[tuple[Rows, Codes]]:
    start = 0
    for piece in pieces:
        here = codes[start : start + len(piece)]
        start += len(piece)
        if len(here) < len(piece):
            raise InputError("y must hold one label for each row of X, and it is shorter")
        yield piece, here
    if start < len(codes):
        raise InputError("y must hold one label for each row of X, and it is longer")


def checked_labels(y: Any) -> Labels:
    """Return labels, one for each record: in an array where they have a declared type, else in a list."""
    if y is None:
        raise InputError("requires y to be passed, but the target y is None: pass y=, one label for each record")
    if hasattr(y, "to_pylist"):
        return list(y.to_pylist())
    if is_untyped(y):
        return list(y)
    labels = _flat(y if hasattr(y, "iloc") else np.ma.asanyarray(y))
    if not isinstance(labels.dtype, np.dtype) or labels.dtype.kind == "O":
        return list(labels)
    if labels.dtype.kind not in "biufSU":
        raise InputError(f"y has type {labels.dtype}, and labels are text or numbers: convert it first")
    typed: NDArray[Any] = np.ma.asanyarray(labels)
    return typed


def _flat(y: Any) -> Any:
    """Return a column, be it of a table that has no other one."""
    if len(y.shape) == 2 and y.shape[1] == 1:
        text = "A column-vector y was passed when a 1d array was expected: it is taken as one label for each record."
        warnings.warn(text, DataConversionWarning, stacklevel=4)
        return y.iloc[:, 0] if hasattr(y, "iloc") else y[:, 0]
    if len(y.shape) != 1:
        raise InputError(f"y should be a 1d array, got an array of shape {y.shape}: pass one label for each record")
    return y


def class_codes(labels: Labels, classes: NDArray[Any]) -> Codes:
    """Place of each label in the list of classes; -1 for labels that are not in it.

    Examples
    --------
    >>> class_codes([1, 1.0, "1", None, 2], np.array([1, 2]))
    array([ 0,  0, -1, -1,  1])
    """
    places = {name: place for place, name in enumerate(classes.tolist())}
    if isinstance(labels, list):
        return np.array([_place(label, places) for label in labels], dtype=np.int64)
    kinds = ["text" if array.dtype.kind in "US" else "numbers" for array in (labels, classes)]
    if classes.dtype.kind != "O" and kinds[0] != kinds[1] and len(labels):
        raise InputError(f"the labels are {kinds[0]} and the classes are {kinds[1]}: pass both in the same form")
    codes = np.array([places.get(label, -1) for label in np.ma.getdata(labels).tolist()], dtype=np.int64)
    return np.where(np.ma.getmaskarray(labels), -1, codes)


def _place(label: object, places: Mapping[Any, int]) -> int:
    scalar = label if type(label) in (str, int) else _plain(label)
    return -1 if scalar is None else places.get(scalar, -1)


def _plain(label: object) -> Any:
    """Return a text or a number out of NumPy's wrapping; None for all else, NaN included."""
    scalar = scalar_of(label)
    if isinstance(scalar, Decimal):
        return None if scalar.is_nan() else scalar
    if not (isinstance(scalar, str | bytes) or (is_real(scalar) and scalar == scalar)):
        return None
    return scalar.item() if isinstance(scalar, np.generic) else scalar


def label_conditions(guarantee: Guarantee, classes: Any) -> tuple[str, ...]:
    """Say what the promise means for labels."""
    twice = f"epsilon = {amount_text(2 * guarantee.epsilon)}"
    if guarantee.delta:
        twice += f", delta = {(1 + math.exp(guarantee.epsilon)) * guarantee.delta:.3g}"
    known = "it is public which labels occur" if isinstance(classes, str) else "records with other labels are dropped"
    return (
        f"the list of classes is public; {known}",
        f"{LABEL_CONDITION}; to change a label is to remove one record and add another, for which {twice} holds",
    )


def public_classes(classes: Any, labels: Labels) -> NDArray[Any]:
    """Return the public list of classes, sorted; it is read off the labels only where that is declared public."""
    if classes is None:
        raise InputError(
            "classes is missing: pass classes=, the public list of classes, or classes='observed' if it is public "
            "which labels occur"
        )
    if isinstance(classes, str):
        if classes != OBSERVED:
            raise InputError(f"classes must be a list or 'observed', got {brief(classes)}")
        return _observed(labels)
    return one_type(classes)


def _observed(labels: Labels) -> NDArray[Any]:
    """Return the labels that occur, but for those that are missing."""
    if isinstance(labels, list):
        known = one_type({name: None for name in map(_plain, labels) if name is not None})
    else:
        values = np.unique(np.ma.compressed(labels))
        known = one_type(values[values == values])
    try:
        check_classification_targets(np.repeat(known, 3))
    except ValueError as problem:
        raise InputError(f"{problem}") from None
    return known


def one_type(classes: Any) -> NDArray[Any]:
    """Return classes in one array, sorted, each with the value that it has.

    Examples
    --------
    >>> one_type(["sea", "art", "sea"])
    array(['art', 'sea'], dtype='<U3')
    """
    if len(getattr(classes, "shape", ())) > 1:
        raise InputError(f"classes must be a list of classes, got {brief(classes)}")
    names = [_plain(name) for name in listed("classes", classes)]
    kinds = {type(name) if isinstance(name, str | bytes) else None if name is None else float for name in names}
    if not names:
        raise InputError("classes is empty: pass one class or more")
    if len(kinds) > 1 or None in kinds:
        raise InputError(f"classes must all be texts or all be numbers, got {names[:10]}")
    known = np.unique(classes if isinstance(classes, np.ndarray) else np.array(names))
    if set(known.tolist()) != set(names):
        raise InputError("classes lose digits or letters when they are put into one array: write them in another way")
    return np.asarray(known)
