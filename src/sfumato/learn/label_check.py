"""How labels match the public classes, for the curator's eyes only: see `central.survey`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from sfumato.central.survey import Findings, share_text
from sfumato.errors import OddDataWarning
from sfumato.learn.labels import labelled
from sfumato.sources.base import BATCH_ROWS


def add_labels(findings: Findings, X: Any, y: Any, classes: Sequence[Any], rows: int | None = None) -> None:
    """Count the records of each class, and warn of labels that are none.

    Parameters
    ----------
    findings : Findings
        What was found so far; added to.
    X, y, classes
        As in `DensityClassifier.fit`; classes that are listed.
    rows : int, optional
        About how many to read; all by default.
    """
    findings.labels, seen = _counts(X, y, classes, rows)
    if seen:
        findings.warnings.extend(_warnings(findings.labels, seen, X, y, rows))


def _counts(X: Any, y: Any, classes: Sequence[Any], rows: int | None) -> tuple[dict[str, int], int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OddDataWarning)
        data = labelled(X, y, classes)
    counts, seen = np.zeros(len(data.classes), dtype=np.int64), 0
    blocks = None if rows is None else -(-rows // BATCH_ROWS)
    for batch in islice(data.coded.batches(BATCH_ROWS), blocks):
        codes = batch[:, -1].astype(np.int64)
        counts += np.bincount(codes[codes >= 0], minlength=len(counts))
        seen += len(codes)
    return dict(zip(map(str, data.classes.tolist()), counts.tolist(), strict=True)), seen


def _warnings(counts: dict[str, int], seen: int, X: Any, y: Any, rows: int | None) -> Iterator[str]:
    missed = seen - sum(counts.values())
    if missed:
        yield f"{share_text(missed, seen)} rows have a label that is no class; a classifier drops them"
        others = sorted({form for name in counts for form in _forms(name)} - set(counts))
        found = [name for name, count in _counts(X, y, others, rows)[0].items() if count] if others else []
        if found:
            yield f"there are labels {', '.join(map(repr, found))}: capital letters count; list the classes as they are"
    for name, count in counts.items():
        if not count:
            yield f"no record has the label {name!r}"


def _forms(name: str) -> tuple[str, ...]:
    return name.lower(), name.upper(), name.title(), name.capitalize()
