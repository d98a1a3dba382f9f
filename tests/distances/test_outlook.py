"""Plans for distances: what is chosen, what the papers promise, and what is said."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from sfumato.distances import plan
from sfumato.distances.outlook import earlier_error, lower_bound, published_error
from sfumato.errors import InputError
from tests.distances.runs import request


def test_the_plan_for_one_column() -> None:
    made = plan("l1", n_hint=1000, dimension=1, epsilon=1, bounds=(0, 1))
    assert [row.method for row in made.rows] == [
        "hat",
        "tree-consistent",
        "tree-published",
        "huang-roth",
        "hat-gaussian",
    ]
    assert made.error == pytest.approx(2.26, rel=0.03) and made.typical == pytest.approx(333, rel=0.1)
    text = str(made)
    for words in (
        "Theorem B.3",
        "(1 + 0.1, 3.16)",
        "Theorem 2.2",
        "Theorems C.1 and C.2",
        "chosen: hat",
        "does not apply: hat-gaussian",
    ):
        assert words in text
    document = json.loads(json.dumps(made.to_document()))
    assert document["chosen"] == "hat" and document["lower_bound"] == 0.02


def test_a_planned_estimator_does_what_was_planned() -> None:
    made = plan("l2", n_hint=300, dimension=3, epsilon="1/2", bounds=(-1, 1), options={"levels": 4})
    model = made.estimator(random_state=1).fit(np.random.default_rng(0).uniform(-1, 1, size=(300, 3)))
    assert model.release_.method == made.method == "hat"
    assert model.release_.parameters["levels"] == 4 and model.release_.guarantee.epsilon == made.request.epsilon


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_errors_grow_with_the_columns_as_the_theorems_say(delta: float) -> None:
    errors = [plan("l1", n_hint=10_000, dimension=d, epsilon=1, delta=delta, bounds=(0, 1)) for d in (16, 64)]
    growth = math.log(errors[1].error / errors[0].error) / math.log(4)
    assert growth == pytest.approx(1.0 if delta else 1.5, abs=0.05)
    promised = math.log(errors[1].published.additive / errors[0].published.additive) / math.log(4)
    assert promised == pytest.approx(1.0 if delta else 1.5)


def test_errors_do_not_grow_with_n() -> None:
    errors = [plan("l1", n_hint=n, dimension=1, epsilon=1, bounds=(0, 1)).error for n in (1000, 100_000)]
    assert errors[1] == pytest.approx(errors[0], rel=0.05)


def test_predictions_stay_above_the_lower_bound() -> None:
    for dimension in (1, 10):
        made = plan("l1", n_hint=1000, dimension=dimension, epsilon="1/5", bounds=(0, 3))
        assert made.lower == pytest.approx(0.02 * 3 * dimension * 5) and made.error > made.lower


@pytest.mark.parametrize(
    ("metric", "p", "source", "additive"),
    [
        ("l1", None, "Theorem B.3", 8 / math.sqrt(0.1)),
        ("l2", None, "Corollary D.2", 2 / 0.1**1.5),
        ("sqeuclidean", None, "Corollary D.5", 4.0),
        ("lpp", 1.5, "Corollary D.4", 8 / math.sqrt(0.1)),
    ],
)
def test_what_the_paper_promises(metric: str, p: float | None, source: str, additive: float) -> None:
    error = published_error(request(metric, 4, p=p), 0.1)
    assert (error.source, error.additive) == (source, pytest.approx(additive))
    assert error.relative == (0.0 if metric == "sqeuclidean" else 0.1)


def test_what_came_before() -> None:
    before = earlier_error(request("l1", 2, n=1000))
    assert before is not None and before.additive == pytest.approx((1000 * 2**7) ** (1 / 3))
    assert earlier_error(request("l2", 2)) is not None and earlier_error(request("sqeuclidean", 2)) is None
    assert lower_bound(request("l2", 2)) is None and lower_bound(request("l1", 2, delta=1e-6)) is None


def test_impossible_plans_are_refused() -> None:
    with pytest.raises(InputError, match="no method applies"):
        plan("l1", n_hint=100, dimension=1, epsilon=1, bounds=(0, 1), options={"alpha": 0.1})
    with pytest.raises(InputError, match="bounds are missing"):
        plan("l1", n_hint=100, dimension=1, epsilon=1, bounds=None)
