"""The benchmark of distances: a tiny case through its kind."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.case import FOLDER, load_cases
from benchmarks.kinds import load_kind

TINY: dict[str, Any] = {
    "metric": "l1",
    "dimension": 1,
    "neighbours": "add-remove",
    "epsilons": ["1"],
    "trials": 4,
    "queries": 21,
    "data": [{"set": "beta", "n": 200}],
    "methods": [{"name": "tree-published", "label": "tree"}, {"name": "hat", "label": "hat"}],
}


def test_a_tiny_case() -> None:
    kind = load_kind("distance")
    [unit] = kind.units(TINY)
    tree, hat = kind.measure(TINY, unit)
    assert (tree.label, hat.label) == ("tree", "hat") and hat.data["n"] == 200
    assert hat.values["over_baseline"] < 0.2 and "over_baseline" not in tree.values
    assert hat.values["ratio"] == pytest.approx(hat.values["rmse"] / hat.values["predicted"])
    assert hat.values["zeros"] == 0.0 and set(kind.COLUMNS) <= {*hat.values, *tree.values}


@pytest.mark.parametrize("full", [True, False])
def test_expectations_name_what_is_measured(full: bool) -> None:
    kind = load_kind("distance")
    cases = [case for case in load_cases(FOLDER, full) if case.kind == "distance"]
    assert len(cases) >= 5
    for case in cases:
        labels = {method["label"] for method in case.settings["methods"]}
        for expectation in case.expectations:
            assert expectation.value in kind.COLUMNS
            assert expectation.where.get("label", next(iter(labels))) in labels
