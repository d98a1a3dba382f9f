"""The plan: predictions against simulation, budgets, the inverse, the constant answer, texts and pictures."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from sfumato import InputError, PrivateKDE
from sfumato.kernels import Gaussian, ShiftInvariant
from sfumato.methods import Plan, plan
from sfumato.methods.registry import BOUGHT, METHODS

N, DIMENSION, RUNS = 4000, 6, 120  # one run's square varies by half: 15 % are five deviations of the root
KERNEL = Gaussian(1.22)
POINTS = np.random.default_rng(0).normal(size=(N, DIMENSION))
QUERIES = np.random.default_rng(1).normal(size=(60, DIMENSION))
EXACT = KERNEL.exact_density(POINTS, QUERIES)
DENSITY = float(KERNEL.exact_density(POINTS, POINTS).mean())
FACTS: dict[str, Any] = {"dimension": DIMENSION, "kernel": KERNEL}


def _measured(made: Plan) -> float:
    """Root mean square error over independent releases."""
    squares = []
    for seed in range(RUNS):
        model = made.estimator(random_state=seed, feature_seed=seed).fit(POINTS)
        squares.append(((model.query(QUERIES) - EXACT) ** 2).mean())
    return math.sqrt(np.mean(squares))


CASES = [
    pytest.param({"epsilon": "1/2"}, "fourier", id="fourier"),
    pytest.param({"epsilon": 1, "neighbours": "replace"}, "fourier", id="fourier, replace"),
    pytest.param({"epsilon": "1/2", "options": {"groups": 1}}, "lsq-rff", id="lsq-rff"),
    pytest.param({"epsilon": "1/10", "delta": 1e-6, "options": {"n_features": 500}}, "fourier-gaussian", id="gaussian"),
]


@pytest.mark.parametrize(("facts", "method"), CASES)
def test_measured_error_is_the_predicted_one_and_lies_in_the_interval(facts: dict[str, Any], method: str) -> None:
    made = plan(n_hint=N, density=DENSITY, **FACTS, **facts)
    assert made.method == method
    assert made.interval == (made.error, made.error)
    measured = _measured(made)
    assert made.error == pytest.approx(measured, rel=0.15)
    low, high = plan(n_hint=N, **FACTS, **facts).interval
    assert low < measured < high


def test_the_counts_part_goes_by_the_squares_of_the_answers() -> None:
    """Over queries like the records; a count bought with little of the budget is most of the error here."""
    facts: dict[str, Any] = {"n_hint": N, "epsilon": 20, "options": {"count_share": "1/8000"}, **FACTS}
    made = plan(density=DENSITY, **facts)
    count = made.request.count_law
    assert count is not None
    answers = KERNEL.exact_density(POINTS, np.random.default_rng(2).normal(size=(4000, DIMENSION)))
    exact = count.variance * float(np.square(answers).mean()) / N**2
    assert exact > 0.5 * made.error**2
    assert made.request.typical_count_error(DENSITY) == pytest.approx(exact, rel=0.15)
    assert made.request.count_error(DENSITY) < 0.75 * exact
    assert made.request.typical_count_error(0.9) <= count.variance * 0.9**1.5 / N**2 * (1 + 1e-9)


@pytest.mark.once
def test_the_assumed_density_stands_beside_every_prediction() -> None:
    facts: dict[str, Any] = {"n_hint": N, "epsilon": 1, **FACTS}
    blind, told = plan(**facts), plan(density=0.07, **facts)
    assert "0.02 (typical" in " ".join(blind.title().split()) and "0.07 (given)" in " ".join(told.title().split())
    assert all(f"at P = {p}" in " ".join(str(made).split()) for made, p in ((blind, 0.02), (told, 0.07)))
    assert "queries like the records" in " ".join(str(blind).split())
    assert blind.to_document()["assumed_density"] == 0.02 and told.to_document()["assumed_density"] == 0.07


@pytest.mark.once
@pytest.mark.parametrize("kernel", [KERNEL, Gaussian(np.linspace(1, 2, DIMENSION)), "own"])
@pytest.mark.parametrize(
    "budgets",
    [{}, {"file_size": 6000}, {"work": 5 * DIMENSION * N}, {"query_work": 700}, {"file_size": 8000, "work": 3e5}],
    ids=str,
)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_budgets_are_respected_by_every_method_and_by_the_release(
    kernel: Any, budgets: dict[str, float], delta: float
) -> None:
    if kernel == "own":
        kernel = ShiftInvariant(lambda u: np.exp(-(u**2).sum(-1)), lambda s, m, d: s.normals(m * d).reshape(d, m), 1.0)
    if kernel is not KERNEL and not budgets:
        return
    made = plan(n_hint=N, dimension=DIMENSION, kernel=kernel, epsilon=1, delta=delta, bounds=(-9, 9), **budgets)
    for row in made.rows:
        if row.applies:
            assert row.predicted.file_size <= budgets.get("file_size", math.inf)
            assert row.work <= budgets.get("work", math.inf)
            assert row.predicted.work_per_query <= budgets.get("query_work", math.inf)
    release = made.estimator(random_state=1).fit(POINTS[:50]).release_
    assert len(release.to_bytes()) <= made.chosen.predicted.file_size
    assert {name: release.parameters[name] for name in made.chosen.sizes} == made.chosen.sizes


@pytest.mark.once
def test_a_budget_costs_error_but_less_work_only_shrinks_the_groups() -> None:
    free = plan(n_hint=N, epsilon=1, **FACTS)
    small = plan(n_hint=N, epsilon=1, file_size=5000, **FACTS)
    quick = plan(n_hint=N, epsilon=1, work=5 * DIMENSION * N, **FACTS)
    assert small.error > free.error
    assert small.chosen.sizes["n_features"] < free.chosen.sizes["n_features"]
    assert quick.chosen.sizes["n_features"] == pytest.approx(free.chosen.sizes["n_features"], rel=0.05)
    assert (free.chosen.sizes["per_group"], quick.chosen.sizes["per_group"]) == (20, 5)
    assert free.error < quick.error < 1.3 * free.error


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"file_size": 1000}, "no method applies .*no room for a single feature"),
        ({"work": 0}, "work must be a positive number"),
        ({"query_work": "much"}, "query_work must be a positive number"),
        ({"file_size": 6000, "options": {"n_features": 5000}}, "n_features is 5000, and the budgets .* allow"),
        ({"density": 0}, "density must be a number above 0"),
        ({"density": 1.5}, "density must be a number above 0"),
        ({"dimension": 0}, "dimension must be a positive whole number"),
        ({"bounds": (1, 0)}, "lower < upper"),
        ({"kernel": "gaussian"}, "bandwidth is missing"),
        ({"options": {"colour": 3}}, "unknown option 'colour'"),
        ({"alpha": 0.1}, "pass both, or neither"),
        ({"all_queries": True}, "needs alpha and eta"),
        ({"alpha": 0.1, "eta": 0.1}, r"it takes \d+"),
        ({"alpha": 2, "eta": 0.1}, "between 0 and 1"),
    ],
    ids=str,
)
def test_refusals_name_the_problem(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan(**{"n_hint": N, "epsilon": 1, **FACTS, **arguments})


@pytest.mark.once
def test_a_public_density_sets_the_sizes_of_the_estimator_too() -> None:
    sizes = []
    for density in (0.02, 0.08):
        made = plan(n_hint=N, epsilon=1, density=density, **FACTS)
        model = PrivateKDE(KERNEL, epsilon=1, n_hint=N, options={"density": density}, random_state=1).fit(POINTS[:20])
        assert model.release_.parameters["n_features"] == made.chosen.sizes["n_features"]
        sizes.append(made.chosen.sizes["n_features"])
    assert sizes[1] == pytest.approx(2 * sizes[0], rel=0.1)


@pytest.mark.once
def test_users_with_several_records_need_more_noise() -> None:
    alone = plan(n_hint=N, epsilon=1, **FACTS)
    users = plan(n_hint=N, epsilon=1, unit="user", options={"max_records_per_user": 4}, **FACTS)
    same = plan(n_hint=N, epsilon="1/4", **FACTS)
    coins = 0.02 * 0.98 / N  # variance of choosing four records of each
    assert alone.error < users.error == pytest.approx(math.hypot(same.error, math.sqrt(coins)), rel=1e-3)
    assert users.estimator().unit == "user"
    assert "one user" in str(users)


@pytest.mark.once
def test_an_option_of_one_method_leaves_the_others_out() -> None:
    made = plan(n_hint=N, epsilon=1, options={"groups": 3}, **FACTS)
    assert made.method == "lsq-rff"
    assert made.chosen.sizes["groups"] == 3
    assert {row.method: row.reason for row in made.rows}["fourier"] == "it has no option 'groups'"


@pytest.mark.once
def test_a_promise_is_planned_and_released() -> None:
    made = plan(n_hint=10**6, epsilon=1, alpha=0.2, eta=0.05, **FACTS)
    assert made.method == "lsq-rff"
    assert "at most 0.2 with probability 1 - 0.05, for each query, with 1000000 records or more" in " ".join(
        str(made).split()
    )
    release = made.estimator(random_state=1).fit(POINTS[:10]).release_
    assert release.groups == made.chosen.sizes["groups"] > 5
    assert {"alpha": 0.2, "eta": 0.05, **made.chosen.sizes}.items() <= release.parameters.items()
    auto = PrivateKDE(KERNEL, epsilon=1, n_hint=10**6, options={"alpha": 0.2, "eta": 0.05}, random_state=1)
    assert auto.fit(POINTS[:10]).release_.method == "lsq-rff"


@pytest.mark.once
def test_a_plan_says_when_a_constant_would_do() -> None:
    poor, rich = (plan(n_hint=n, epsilon=0.1, **FACTS) for n in (300, 10**6))
    assert (poor.useful, rich.useful) == (False, True)
    assert (poor.verdict, rich.verdict) == ("noise", "useful")
    assert "verdict: noise" in str(poor) and "verdict: useful" in str(rich)


@pytest.mark.once
def test_a_plan_prints_every_method_and_its_document_is_json() -> None:
    made = plan(n_hint=N, epsilon="1/3", **FACTS)
    text = str(made)
    for word in ("fourier", "lsq-rff", "constant", "chosen: fourier", "does not apply: fourier-gaussian", "P = 0.02"):
        assert word in text
    assert made.reasons["fourier-gaussian"] == "it needs delta > 0"
    document = json.loads(json.dumps(made.to_document(), allow_nan=False))
    assert document["chosen"] == "fourier"
    assert document["epsilon"] == "1/3"
    assert {row["method"] for row in document["methods"]} == {*METHODS, *BOUGHT}
    assert (
        document["methods"][0]["interval"][0] < document["methods"][0]["error"] < document["methods"][0]["interval"][1]
    )
