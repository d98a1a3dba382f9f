"""Labels of records: which class each record counts in, and what a promise to records says about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.guarantee import Guarantee, amount_text
from sfumato.quantizers.base import Integers, Quantizer
from sfumato.sources import Source, open_source
from sfumato.sources.keys import keys_of

OBSERVED = "observed"
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class LabelledRows:
    """Some rows, and the place of each one's label in the list of classes; -1 for labels that are not in it."""

    rows: NDArray[Any]
    codes: Codes

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class LabelledSource:
    """Records with their labels.

    Attributes
    ----------
    source : Source
        The points.
    classes : ndarray
        The public list of classes, sorted.
    batches : callable
        Gives the rows with their codes, in order.
    """

    source: Source
    classes: NDArray[Any]
    batches: Callable[[], Iterator[LabelledRows]]


@dataclass(frozen=True)
class ClassSums:
    """The sums of every class apart, in one pass over the rows: what `stream_sum` takes in the place of a quantizer.

    Behind each class's sums stands the number of its rows that were kept.

    Attributes
    ----------
    quantizer : Quantizer
        Turns rows into integers.
    classes : int
        How many classes.
    """

    quantizer: Quantizer
    classes: int

    @property
    def size(self) -> int:
        """Integers of all classes."""
        return self.classes * (self.quantizer.size + 1)

    def accumulate(self, batch: LabelledRows, sums: Integers, coins: SecureBits) -> int:
        """Add each row's integers to the sums of its class."""
        table, total = sums.reshape(self.classes, -1), 0
        for code in range(self.classes):
            rows = np.ascontiguousarray(batch.rows[batch.codes == code])
            if len(rows):
                kept = self.quantizer.accumulate(rows, table[code, :-1], coins.child(code))
                table[code, -1] += kept
                total += kept
        return total


def labelled(X: Any, y: Any, classes: Any) -> LabelledSource:
    """Open points with their labels.

    Parameters
    ----------
    X : array, frame, table, path, Source or iterator of batches
        The points.
    y : array, or str
        The labels, or the name of the column of X that holds them.
    classes : sequence, or "observed"
        The public list of classes.
    """
    if isinstance(y, str):
        return _labelled_by_column(X, y, classes)
    source, labels = open_source(X), checked_labels(y)
    known = public_classes(classes, labels)
    codes = class_codes(labels, known)
    return LabelledSource(source, known, lambda: _with_codes(source, codes))


def _labelled_by_column(X: Any, column: str, classes: Any) -> LabelledSource:
    if isinstance(classes, str):
        raise InputError("classes must be listed where y names a column: pass classes=, the public list of classes")
    if isinstance(X, Source) and not X.keyed:
        raise InputError(f"open the source with key={column!r}, the column of the labels, to pass its name as y")
    source = X if isinstance(X, Source) else open_source(X, key=column)
    known = public_classes(classes, np.empty(0))
    return LabelledSource(source, known, lambda: _keyed_codes(source, known))


def _keyed_codes(source: Source, classes: NDArray[Any]) -> Iterator[LabelledRows]:
    """Rows of a source that was opened with the labels as its key."""
    names = keys_of(classes)
    for rows, keys in source.keyed_batches():
        codes = np.full(len(rows), -1, dtype=np.int64)
        for code, name in enumerate(names):
            codes[(keys == name).all(axis=1)] = code
        yield LabelledRows(rows, codes)


def _with_codes(source: Source, codes: Codes) -> Iterator[LabelledRows]:
    start = 0
    for batch in source.batches():
        here = codes[start : start + len(batch)]
        start += len(batch)
        if len(here) < len(batch):
            raise InputError("y must hold one label for each row of X, and it is shorter")
        yield LabelledRows(batch, here)
    if start < len(codes):
        raise InputError("y must hold one label for each row of X, and it is longer")


def checked_labels(y: Any) -> NDArray[Any]:
    """Return labels as an array, one for each record."""
    if y is None:
        raise InputError("requires y to be passed, but the target y is None: pass y=, one label for each record")
    return np.asarray(column_or_1d(y, warn=True))


def class_codes(labels: NDArray[Any], classes: NDArray[Any]) -> Codes:
    """Place of each label in the list of classes; -1 for labels that are not in it."""
    kinds = ["text" if array.dtype.kind in "US" else "numbers" for array in (labels, classes)]
    if "O" not in (labels.dtype.kind, classes.dtype.kind) and kinds[0] != kinds[1] and len(labels):
        raise InputError(f"the labels are {kinds[0]} and the classes are {kinds[1]}: pass both in the same form")
    places = {name: place for place, name in enumerate(classes.tolist())}
    return np.array([places.get(label, -1) for label in labels.tolist()], dtype=np.int64)


def label_conditions(guarantee: Guarantee, classes: Any) -> tuple[str, ...]:
    """Say what the promise means for labels."""
    twice = f"epsilon = {amount_text(2 * guarantee.epsilon)}"
    if guarantee.delta:
        twice += f", delta = {(1 + math.exp(guarantee.epsilon)) * guarantee.delta:.3g}"
    known = "it is public which labels occur" if isinstance(classes, str) else "records with other labels are dropped"
    return (
        f"the list of classes is public; {known}",
        "a record is a point with its label; to change a label is to remove one record and add another, for which "
        f"{twice} holds",
    )


def public_classes(classes: Any, labels: NDArray[Any]) -> NDArray[Any]:
    """Return the public list of classes, sorted; it is read off the labels only where that is declared public."""
    if classes is None:
        raise InputError(
            "classes is missing: pass classes=, the public list of classes, or classes='observed' if it is public "
            "which labels occur"
        )
    if isinstance(classes, str):
        if classes != OBSERVED:
            raise InputError(f"classes must be a list or 'observed', got {classes!r}")
        check_classification_targets(labels)
        return np.unique(labels)
    known = np.unique(column_or_1d(np.asarray(classes)))
    if not len(known):
        raise InputError("classes is empty: pass one class or more")
    return np.asarray(known)
