"""The plan turned round: the epsilon and the n that an error takes, and its picture."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import InputError
from sfumato.kernels import Gaussian
from sfumato.methods import Plan, draw, epsilon_for, n_for, plan

N, DIMENSION, RUNS = 4000, 6, 200
KERNEL = Gaussian(1.22)
POINTS = np.random.default_rng(0).normal(size=(N, DIMENSION))
QUERIES = np.random.default_rng(1).normal(size=(60, DIMENSION))
EXACT = KERNEL.exact_density(POINTS, QUERIES)
DENSITY = float(KERNEL.exact_density(POINTS, POINTS).mean())
FACTS: dict[str, Any] = {"dimension": DIMENSION, "kernel": KERNEL}


def _squares(made: Plan) -> np.ndarray:
    """Mean square errors of independent releases."""
    squares = []
    for seed in range(RUNS):
        model = made.estimator(random_state=seed, feature_seed=seed).fit(POINTS)
        squares.append(((model.query(QUERIES) - EXACT) ** 2).mean())
    return np.array(squares)


@pytest.mark.parametrize("target", [0.01, 0.03])
def test_the_epsilon_for_an_error_reaches_it(target: float) -> None:
    epsilon = epsilon_for(target, n_hint=N, density=DENSITY, **FACTS)
    made = plan(n_hint=N, epsilon=epsilon, density=DENSITY, **FACTS)
    assert made.error <= target
    # A t statistic of 5: a false alarm below 1e-6, as squares are skewed to the right. One run's vary by 80 %.
    excess = _squares(made) - (1.03 * target) ** 2
    assert excess.mean() <= 5 * excess.std(ddof=1) / math.sqrt(RUNS)
    assert len(str(float(epsilon)).strip("0.")) <= 4
    assert plan(n_hint=N, epsilon=epsilon * Fraction(95, 100), density=DENSITY, **FACTS).error > target


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_n_for_an_error_is_the_smallest(delta: float) -> None:
    found = n_for(0.004, epsilon=0.3, delta=delta, **FACTS)
    assert plan(n_hint=found, epsilon=0.3, delta=delta, **FACTS).error <= 0.004
    assert plan(n_hint=round(0.98 * found), epsilon=0.3, delta=delta, **FACTS).error > 0.004


def test_the_inverse_respects_budgets_and_promises() -> None:
    plain = n_for(0.02, epsilon=0.3, **FACTS)
    assert n_for(0.02, epsilon=0.3, file_size=3800, **FACTS) > plain
    work = 8 * DIMENSION * plain
    assert n_for(0.02, epsilon=0.3, work=work, **FACTS) * DIMENSION <= work
    found = n_for(0.02, epsilon=0.3, alpha=0.2, eta=0.1, **FACTS)
    with pytest.raises(InputError, match="too few"):
        plan(n_hint=round(0.9 * found), epsilon=0.3, alpha=0.2, eta=0.1, **FACTS)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: epsilon_for(1e-6, n_hint=100, **FACTS), "cannot be reached with 100 records; pass a larger n_hint="),
        (lambda: n_for(1e-7, epsilon=1, **FACTS), "pass a larger epsilon= or options= with more features"),
        (lambda: n_for(0.001, epsilon=1, work=1e4, **FACTS), "at best"),
        (lambda: n_for(0.001, epsilon=1, **FACTS | {"dimension": 0}), "dimension must be"),
        (lambda: epsilon_for(0, n_hint=100, **FACTS), "between 0 and 1"),
        (lambda: n_for(1.5, epsilon=1, **FACTS), "between 0 and 1"),
    ],
)
def test_an_error_out_of_reach_is_refused(ask: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ask()


@pytest.mark.once
@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_pictures_are_the_same_every_time(tmp_path: Path, suffix: str) -> None:
    made = plan(n_hint=N, epsilon=1, **FACTS)
    first, second = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    draw(made, first)
    draw(made, second)
    assert first.read_bytes() == second.read_bytes()
    with pytest.raises(InputError, match="exists"):
        draw(made, first)


def test_a_picture_needs_a_known_kind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in \.png"):
        draw(plan(n_hint=N, epsilon=1, **FACTS), tmp_path / "picture.docx")
