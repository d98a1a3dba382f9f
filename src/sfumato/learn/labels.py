"""Labels of records: which class each record counts in, and what a promise to records says about them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from sfumato.errors import InputError
from sfumato.privacy.guarantee import Guarantee, amount_text
from sfumato.sources import Source

OBSERVED = "observed"
Codes = NDArray[np.int64]


def checked_labels(y: Any) -> NDArray[Any]:
    """Return labels as an array, one for each record."""
    if y is None:
        raise InputError("requires y to be passed, but the target y is None: pass y=, one label for each record")
    return np.asarray(column_or_1d(y, warn=True))


def class_codes(labels: NDArray[Any], classes: NDArray[Any]) -> Codes:
    """Place of each label in the list of classes; -1 for labels that are not in it."""
    places = {name: place for place, name in enumerate(classes.tolist())}
    return np.array([places.get(label, -1) for label in labels.tolist()], dtype=np.int64)


def rows_of_class(source: Source, codes: Codes, code: int) -> Iterator[NDArray[Any]]:
    """Rows of one class."""
    start = 0
    for batch in source.batches():
        here = codes[start : start + len(batch)]
        start += len(batch)
        if len(here) < len(batch):
            raise InputError("y must hold one label for each row of X, and it is shorter")
        yield np.ascontiguousarray(batch[here == code])
    if start < len(codes):
        raise InputError("y must hold one label for each row of X, and it is longer")


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
