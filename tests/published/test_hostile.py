"""Releases whose descriptions were tampered with: refused by name, or answered with numbers, and at once."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.errors import SfumatoError
from sfumato.release import format as container
from sfumato.release import from_content

GOLDEN = Path(__file__).parents[1] / "corpus" / "golden"
RELEASES = (
    *(f"central/{name}" for name in ("bernstein", "even-trig", "lsq-fgt", "pmw", "noisy-sample", "smalldb")),
    *(f"central/{name}" for name in ("laplace-queries", "gaussian-queries", "hrw")),
    *(f"distances/{name}" for name in ("tree-published", "tree-consistent", "sqeuclidean-published", "huang-roth")),
    *(f"distances/{name}" for name in ("hat", "hat_l2", "hat_lpp", "moments")),
    *(f"local/{name}" for name in ("dm", "gi", "fkm-ll", "mldp-kde", "race")),
)
NUMBERS = (
    0,
    -1,
    1,
    2,
    2**31,
    2**63,
    2**200,
    0.0,
    -0.5,
    1e-10,
    5e-324,
    1e-50,
    0.999999,
    1e50,
    1e308,
    math.nan,
    math.inf,
)
OTHERS = (True, None, "x", "1", [], {}, [[]], {"decimal": "nan"})


def _leaves(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Places of all parts of a description; of long lists the first and the last."""
    if path:
        yield path
    if isinstance(document, dict):
        for name in document:
            yield from _leaves(document[name], (*path, name))
    elif isinstance(document, list):
        for index in sorted({0, len(document) - 1} - {-1}):
            yield from _leaves(document[index], (*path, index))


def _changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    part = changed
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return changed


def _answer(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Load and query: only errors of the library, and only numbers; how long that may take is asked by the fuzzer."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            release = from_content(header, arrays)
            box = release.reader.box
            middle = box.centre[None]
            far = np.full((2, box.dimension), 1e60) * [[1.0], [-1.0]]
            listed = getattr(release.reader, "queries", None)
            for places in (middle, far) if listed is None else (listed[:2],):
                for answers in release.query(places, return_std=True):
                    assert not np.isnan(answers).any(), header["quantizer"]
    except SfumatoError:
        pass


def _compiled(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Ask once beforehand: the first query may have to compile."""
    release = from_content(header, arrays)
    release.query(getattr(release.reader, "queries", release.reader.box.centre[None]))


@pytest.mark.parametrize("name", RELEASES)
def test_a_description_that_was_changed_is_refused_or_answers_in_numbers(name: str) -> None:
    """One part of the description at a time: other numbers, other kinds, missing and unknown fields."""
    header, arrays = container.decode(GOLDEN / f"{name}.seeded.sfm")
    _compiled(header, arrays)
    described = header["quantizer"]
    for path in _leaves(described):
        for value in (*NUMBERS, *OTHERS):
            _answer({**header, "quantizer": _changed(described, path, value)}, arrays)
    for field in described:
        rest = {name: part for name, part in described.items() if name != field}
        with pytest.raises(SfumatoError):
            from_content({**header, "quantizer": rest}, arrays)
    with pytest.raises(SfumatoError):
        from_content({**header, "quantizer": {**described, "more": 1}}, arrays)


@pytest.mark.parametrize("name", RELEASES)
def test_integers_that_were_changed_answer_in_numbers(name: str) -> None:
    """Released integers at the ends of their range, and too many or too few of them."""
    header, arrays = container.decode(GOLDEN / f"{name}.seeded.sfm")
    _compiled(header, arrays)
    values = arrays["values"]
    for extreme in (0, 2**63 - 1, -(2**63)):
        _answer(header, {**arrays, "values": np.full_like(values, extreme, dtype=np.int64)})
    for wrong in (values[:-1], values[:1], np.append(values, 1)):
        _answer(header, {**arrays, "values": wrong})


@pytest.mark.parametrize("field", ["alpha", "error", "noise_weight", "variances"])
def test_a_number_out_of_range_is_refused_by_its_path(field: str) -> None:
    """The message names the field."""
    names = {"alpha": "tree-published", "error": "huang-roth", "variances": "sqeuclidean-published"}
    folder = "central/noisy-sample" if field == "noise_weight" else f"distances/{names[field]}"
    header, arrays = container.decode(GOLDEN / f"{folder}.seeded.sfm")
    value = [math.nan, 0.0] if field == "variances" else 1e300 if field != "alpha" else 1e-10
    with pytest.raises(SfumatoError, match=rf"quantizer\.{field}"):
        from_content({**header, "quantizer": {**header["quantizer"], field: value}}, arrays)
