"""Labels are compared one by one with the public classes; what equals none drops its record, and nothing else."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import InputError
from sfumato.learn import DensityClassifier
from sfumato.learn.labels import labelled
from tests.sources.odd_cells import CELLS, objects

LONG = 2**60
CLASSES: dict[str, list[Any]] = {
    "whole numbers": [LONG, LONG + 1, 0, 1],
    "numbers": [0.5, 1.0, 2.0],
    "truths": [False, True],
    "texts": ["a", "1", " a", "True"],
}
WAYS: dict[str, Callable[[list[Any]], Any]] = {
    "list": lambda labels: labels,
    "tuple": tuple,
    "deque": deque,
    "array": objects,
    "series": lambda labels: pd.Series(objects(labels), dtype=object),
}


def codes(labels: Any, classes: Any, count: int) -> list[int]:
    data = labelled(np.zeros((count, 1)), labels, classes)
    return data.coded.whole()[:, -1].astype(int).tolist()


LABELS = CELLS | st.sampled_from([LONG, LONG + 1, float(LONG), 0.5, "a", " a", "1", "True", b"a", Decimal("0.5")])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", CLASSES)
@settings(deadline=None, max_examples=60)
@given(labels=st.lists(LABELS, min_size=1, max_size=8))
def test_each_label_is_read_as_if_it_were_alone(way: str, kind: str, labels: list[Any]) -> None:
    make, classes = WAYS[way], CLASSES[kind]
    alone = [codes(make([label]), classes, 1)[0] for label in labels]
    assert codes(make(labels), classes, len(labels)) == alone


@pytest.mark.parametrize(
    ("classes", "label", "equal"),
    [
        ([LONG, LONG + 1], LONG + 1, LONG + 1),
        ([LONG, LONG + 1], float(LONG), LONG),
        ([LONG, LONG + 1], np.int64(LONG + 1), LONG + 1),
        ([1, 2], 1.0, 1),
        ([1, 2], True, 1),
        ([1, 2], np.True_, 1),
        ([1, 2], Decimal("2.0"), 2),
        ([0.5, 2], Fraction(1, 2), 0.5),
        ([False, True], 1, True),
        ([0.1, 0.2], np.float32(0.1), None),
        ([1, 2], "1", None),
        (["1", "2"], 1, None),
        (["a", "b"], np.str_("a"), "a"),
        (["a", "b"], "a ", None),
        (["a", "b"], b"a", None),
        (["a", "b"], ["a"], None),
        ([1, 2], None, None),
        ([1, 2], float("nan"), None),
        ([1, 2], pd.NA, None),
        ([1, 2], np.ma.masked, None),
        ([1, 2], Decimal("snan"), None),
        ([1, 2], 1 + 0j, None),
        ([1, 2], np.timedelta64(1, "s"), None),
        ([1, 2], [1], None),
    ],
    ids=repr,
)
def test_texts_are_equal_by_letters_and_numbers_by_value(classes: list[Any], label: Any, equal: Any) -> None:
    expected = -1 if equal is None else sorted(classes).index(equal)
    assert codes([label, classes[0]], classes, 2) == [expected, sorted(classes).index(classes[0])]


RANDOM = np.random.default_rng(0)
POINTS = RANDOM.normal(size=(300, 3)) / 4
PLACES = RANDOM.integers(2, size=300).tolist()
SEEDED: dict[str, Any] = {"epsilon": 1, "n_hint": 300, "random_state": 1, "feature_seed": 2}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("classes", [[LONG, LONG + 1], [0, 1], [False, True], ["a", "b"], [0.5, 2.0]], ids=str)
def test_one_more_odd_label_changes_nothing_that_is_released(classes: list[Any]) -> None:
    labels = [classes[place] for place in PLACES]
    # With a twentieth of the budget, 150 records are counted as fewer than 100 in one of 25 releases.
    model = DensityClassifier(classes=classes, options={"count_share": "1/2"}, **SEEDED)
    expected = model.fit(POINTS, labels).releases_
    assert all(release.count.value > 100 for release in expected.values())
    for odd in (None, float("nan"), 0.25, "x", 7, np.datetime64("2024"), [0], pd.NA, Decimal("1e400")):
        found = model.fit(np.vstack([POINTS[:1], POINTS]), [odd, *labels]).releases_
        for name in classes:
            assert np.array_equal(found[name].values, expected[name].values)
            assert found[name].count == expected[name].count


@pytest.mark.parametrize(
    "labels",
    [
        np.ma.array([LONG, 5, LONG + 1], mask=[False, True, False]),
        pd.Series([LONG, None, LONG + 1], dtype="Int64"),
        pd.Series([LONG, None, LONG + 1], dtype=object),
        pa.array([LONG, None, LONG + 1]),
        pa.chunked_array([[LONG], [None, LONG + 1]]),
        [LONG, None, LONG + 1],
        pd.Series(pd.array([LONG, None, LONG + 1], dtype="Int64")).astype("category"),
    ],
    ids=lambda labels: type(labels).__name__,
)
def test_a_missing_label_leaves_the_others_exact(labels: Any) -> None:
    assert codes(labels, [LONG, LONG + 1], 3) == [0, -1, 1]


def test_observed_classes_are_the_labels_that_are_not_missing() -> None:
    for labels in (
        [1, None, 3, float("nan"), 1],
        np.array([1.0, np.nan, 3.0, np.nan, 1.0]),
        pd.Series([1, None, 3, None, 1]),
    ):
        data = labelled(np.zeros((5, 1)), labels, "observed")
        assert data.classes.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([1, "a"], "all be texts or all be numbers"),
        ([None, 1], "all be texts or all be numbers"),
        ([[1], [2]], "all be texts or all be numbers"),
        ([1, float("nan")], "all be texts or all be numbers"),
        ([LONG + 1, 0.5], "lose digits"),
        (["a\0", "a"], "lose digits or letters"),
        ([], "classes is empty"),
        (np.ones((2, 2)), "must be a list of classes"),
        (5, "must be a list"),
    ],
)
def test_classes_that_cannot_be_kept_apart_are_refused(classes: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        labelled(np.zeros((1, 1)), [1], classes)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(2, "datetime64[s]"), "labels are text or numbers"),
        (np.zeros(2, complex), "labels are text or numbers"),
        (np.zeros((2, 2)), "1d array"),
        (np.array(["a", "b"]), "pass both in the same form"),
    ],
)
def test_a_declared_type_that_names_no_class_is_refused(labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        labelled(np.zeros((2, 1)), labels, [1, 2])


def test_the_curator_is_told_when_no_label_is_a_class() -> None:
    with pytest.warns(UserWarning, match="No label is one of the classes"):
        assert codes(["1", "2"], [1, 2], 2) == [-1, -1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert codes(["1", 2], [1, 2], 2) == [-1, 1]


def test_classes_that_a_column_cannot_tell_apart_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("y,x\na,1\n,2\n")
    for classes in (["a", " a"], ["a", ""]):
        with pytest.raises(InputError, match="differ by more than blanks"):
            labelled(path, "y", classes)
    assert labelled(path, "y", ["a", "b"]).coded.whole()[:, -1].tolist() == [0, -1]
