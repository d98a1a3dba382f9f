"""Every published mechanism: releases that travel, refusals that say why, and never the choice of "auto"."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato import InputError, Ledger, PrivateKDE, TooFewError
from sfumato.kernels import Gaussian, Laplacian
from sfumato.methods import plan
from sfumato.methods.registry import METHODS
from sfumato.methods.request import COUNT_SHARE, Limits
from sfumato.published import lsq_fgt
from tests.published.requests import (
    ALL,
    BOUNDS,
    GAUSSIAN,
    KERNEL,
    LISTS,
    POINTS,
    QUERIES,
    TRUTH,
    N,
    facts,
    request,
)

# Largest error at a large epsilon, where approximation is nearly all that is left.
CLOSE = {
    "lsq-fgt": 0.02,
    "histogram": 0.02,
    "bernstein": 0.1,
    "even-trig": 0.005,
    "pmw": 0.03,
    "smalldb": 0.25,
    "noisy-sample": 0.4,
}


def _model(name: str, **arguments: Any) -> PrivateKDE:
    settings = {"bandwidth": 1.0, "epsilon": 1, "method": name, "bounds": BOUNDS, "n_hint": N, **facts(name)}
    return PrivateKDE(**{**settings, **arguments})


@pytest.mark.parametrize("name", ALL)
def test_answers_approach_the_exact_density(name: str) -> None:
    model = _model(name, epsilon=4 if name in GAUSSIAN else 50, random_state=1).fit(POINTS)
    answers, bars = model.query(QUERIES, return_std=True)
    assert np.abs(answers - TRUTH).max() < CLOSE.get(name, 0.05)
    assert np.isfinite(bars).all() and (bars > 0).all()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.once
def test_a_release_survives_its_file(name: str, tmp_path: Path) -> None:
    release = _model(name, random_state=1).fit(POINTS).release_
    release.save(tmp_path / "a.sfm")
    again = sfumato.load(tmp_path / "a.sfm")
    for ours, theirs in zip(
        release.query(QUERIES, return_std=True), again.query(QUERIES, return_std=True), strict=True
    ):
        assert np.array_equal(ours, theirs)
    assert again.describe() == release.describe() and again.to_bytes() == release.to_bytes()
    predicted = METHODS[name].predict(request(**facts(name)), 0.05)
    extra = QUERIES.nbytes if name in LISTS else 0
    assert len(release.to_bytes()) <= predicted.file_size + extra
    assert predicted.integers == len(release.values)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.once
def test_a_paid_count_and_the_ledger(name: str) -> None:
    account = Ledger().account("people")
    model = _model(name, n_hint="paid", epsilon=2, ledger=account).fit(POINTS)
    assert [charge.mechanism for charge in account.charges] == ["count", name]
    assert account.spent[0] == 2
    assert abs(model.release_.count.value - N) < 300


@pytest.mark.parametrize("name", ALL)
@pytest.mark.once
def test_no_rows_at_all_still_release(name: str) -> None:
    release = _model(name, n_hint=1).fit(np.empty((0, 2))).release_  # no count is far below one
    assert np.isfinite(release.query(QUERIES)).all()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.once
def test_no_rows_where_many_are_expected_cost_the_count_alone(name: str) -> None:
    """The count's noise has scale 20, and reaches half of n_hint once in e^50 runs."""
    account = Ledger().account("people")
    model = _model(name, ledger=account)
    with pytest.raises(TooFewError, match="stopped after the count"):
        model.fit(np.empty((0, 2)))
    assert [(charge.mechanism, charge.epsilon) for charge in account.charges] == [("count", COUNT_SHARE)]
    assert not hasattr(model, "release_")


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.once
def test_a_list_answers_only_its_queries(name: str) -> None:
    model = _model(name).fit(POINTS)
    assert model.query(QUERIES[5:6]).shape == (1,)
    with pytest.raises(InputError, match="made for and no others"):
        model.query(QUERIES + 0.5)


@pytest.mark.once
def test_auto_never_takes_a_baseline() -> None:
    for arguments in ({}, {"delta": 1e-6}, {"epsilon": Fraction(1, 100)}):
        assert not METHODS[METHODS.choose(request(**arguments))].baseline
    assert {name for name, method in METHODS.items() if method.baseline} >= set(ALL)
    with pytest.raises(InputError, match="unknown option 'rho'"):
        METHODS.build("auto", request(options={"rho": 4}))


@pytest.mark.once
def test_plans_list_baselines_after_the_choice() -> None:
    made = plan(n_hint=N, dimension=2, epsilon=1, bandwidth=1.0, bounds=BOUNDS)
    applicable = [row for row in made.rows if row.applies]
    baseline = [METHODS[row.method].baseline for row in applicable]
    assert not baseline[0] and baseline == sorted(baseline)
    listed = {row.method for row in applicable}
    assert {"lsq-fgt", "histogram", "bernstein", "even-trig", "pmw", "smalldb", "noisy-sample"} <= listed
    reasons = {row.method: row.reason for row in made.rows if not row.applies}
    assert "list of queries" in reasons["hrw"]
    asked = plan(n_hint=N, dimension=2, epsilon=1, bandwidth=1.0, bounds=BOUNDS, options={"queries": QUERIES.tolist()})
    assert asked.method == "laplace-queries"
    assert asked.estimator(random_state=1).fit(POINTS).query(QUERIES).shape == (40,)


@pytest.mark.parametrize("name", [name for name in ALL if name not in LISTS])
@pytest.mark.once
def test_a_plans_options_build_what_was_planned(name: str) -> None:
    predicted = METHODS[name].predict(request(), 0.05)
    again = METHODS[name].predict(request(options=dict(predicted.parameters)), 0.05)
    assert again == predicted


@pytest.mark.parametrize("name", ALL)
@pytest.mark.once
def test_budgets_for_time_and_space_are_respected(name: str) -> None:
    for limits in (Limits(file_size=100), Limits(work_per_record=1e-9), Limits(work_per_query=1e-9)):
        with pytest.raises(InputError, match="budgets allow"):
            METHODS[name].predict(request(limits=limits, **facts(name)), 0.05)


NO_BOUNDS = {"bounds": None}
MATRIX = {"kernel": Gaussian([[1.0, 0.2], [0.0, 1.0]])}


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        *((name, NO_BOUNDS, "needs bounds=") for name in ALL if name not in LISTS),
        *((name, MATRIX, "one for each column") for name in ALL if name not in LISTS),
        ("lsq-fgt", {"kernel": Laplacian(1.0)}, "gaussian kernel"),
        ("lsq-fgt", {"options": {"rho": 33}}, "at most 32"),
        ("lsq-fgt", {"options": {"rho": 0}}, "positive whole number"),
        ("lsq-fgt", {"options": {"cutoff": "none"}}, "one of 'published', 'fixed'"),
        ("lsq-fgt", {"bounds": (0, 1e5)}, r"1e\+10 cells"),
        ("lsq-fgt", {"bounds": (0, 1e3), "options": {"rho": 20}}, r"20\^2 orders = 4e\+08 integers"),
        ("bernstein", {"options": {"degree": 256}}, r"6.6e\+04 integers of every record.*at most 255"),
        ("bernstein", {"dimension": 17, "bounds": (0, 1)}, r"1.31e\+05 integers"),
        ("pmw", {"bounds": (0, 1e4)}, r"4e\+08 nodes, and 16384 are allowed"),
        ("pmw", {"options": {"spacing": 0}}, "must be a number from"),
        ("pmw", {"options": {"rounds": 1000}}, "at most 200"),
        ("pmw", {"delta": 1e-6, "epsilon": Fraction(1, 10**5), "options": {"rounds": 200}}, "fewer rounds"),
        ("smalldb", {"options": {"points": 9, "spacing": 0.5}}, "sets, each of which is looked at"),
        ("noisy-sample", {"bounds": (0, 1e4)}, r"4e\+08 nodes"),
        ("laplace-queries", {}, "given list of queries"),
        ("laplace-queries", {"options": {"queries": [[1.0]]}}, r"shape \(m, 2\), got \(1, 1\)"),
        ("laplace-queries", {"options": {"queries": "all"}}, "must be numbers"),
        ("laplace-queries", {"options": {"queries": [[np.inf, 1.0]]}}, "finite"),
        ("laplace-queries", {"options": {"queries": np.zeros((70_000, 2))}}, "too many"),
        ("gaussian-queries", {"options": {"queries": QUERIES}}, "delta > 0"),
        ("hrw", {"options": {"queries": QUERIES}}, "delta > 0"),
        ("hrw", {"options": {"queries": np.zeros((5000, 2))}, "delta": 1e-6}, "5000 queries take"),
        ("lsq-fgt", {"options": {"degree": 3}}, "unknown option 'degree'"),
    ],
)
@pytest.mark.once
def test_refusals_name_the_problem(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        METHODS.build(name, request(**arguments))


@pytest.mark.once
def test_the_default_rho_is_the_sources_rule() -> None:
    assert [lsq_fgt.rule(epsilon, 1e5, 2) for epsilon in (0.02, 0.05, 0.5, 1)] == [4, 4, 6, 7]
    assert [lsq_fgt.rule(0.5, 1e5, dimension) for dimension in (1, 3, 9)] == [8, 4, 1]
    wide = request(bounds=(0, 1000), n=10**15)
    assert METHODS.build("lsq-fgt", wide).parameters["rho"] == 4  # as much as fits


@pytest.mark.parametrize("name", ["lsq-fgt", "bernstein", "even-trig", "pmw"])
def test_one_and_three_columns(name: str) -> None:
    points = np.random.default_rng(3).uniform(0, 2, size=(1500, 3))
    for dimension in (1, 3):
        rows, queries = points[:, :dimension], points[:20, :dimension]
        model = _model(name, epsilon=40, bounds=(0, 2), n_hint=1500, random_state=2).fit(rows)
        errors = np.abs(model.query(queries) - KERNEL.exact_density(rows, queries))
        assert errors.max() < (0.12 if name == "bernstein" else 0.08)
