"""The gradient descent that classifiers are measured against is as private as it says, and learns."""

from __future__ import annotations

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

from benchmarks.descent import Descent, one_multiplier, train

from .conftest import CLASSES, texts


@pytest.mark.parametrize(("epsilon", "steps"), [(0.5, 10), (3.0, 40)])
def test_steps_compose_to_the_budget(epsilon: float, steps: int) -> None:
    noise = one_multiplier(epsilon, 1e-5) * np.sqrt(steps)
    accountant = PLDAccountant()
    accountant.compose(dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(noise), steps))
    assert 0.98 * epsilon < accountant.get_epsilon(1e-5) < 1.01 * epsilon


def test_it_learns_and_noise_follows_the_budget() -> None:
    points, names = texts(3000, 1)
    tests, answers = texts(500, 2)
    places = {name: place for place, name in enumerate(CLASSES)}
    labels, wanted = (np.array([places[name] for name in each]) for each in (names, answers))
    settings = Descent(steps=10, rate=3.0, clip=1.0)
    accuracies = []
    for epsilon in (10.0, 0.005):
        weights = train(points.astype(np.float32), labels, 3, settings, epsilon, 1e-5, seed=1)
        accuracies.append(((tests @ weights).argmax(axis=1) == wanted).mean())
    assert accuracies[0] > 0.8 > accuracies[1]
