"""Classifiers without a curator: simulated local and shuffled collections, and releases collected elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import InputError, Ledger, shuffled
from sfumato.kernels import Gaussian, InnerProduct
from sfumato.learn import DensityClassifier

from .conftest import CLASSES, texts

POINTS, LABELS = texts(6000, 1)
TESTS, ANSWERS = texts(500, 2)
MEANS = np.array([POINTS[name == LABELS].mean(axis=0) for name in CLASSES])
BEST = float((np.array(CLASSES)[(TESTS @ MEANS.T).argmax(axis=1)] == ANSWERS).mean())
SEEDED: dict[str, Any] = {"classes": CLASSES, "n_hint": 6000, "random_state": 3, "feature_seed": 4}
SHUFFLED: dict[str, Any] = {**SEEDED, "trust": "shuffled", "epsilon": 4, "delta": 1e-5}
LOCAL: dict[str, Any] = {**SEEDED, "trust": "local", "epsilon": 6}


@pytest.mark.parametrize(
    ("arguments", "lost"),
    [
        (SHUFFLED, 0.05),
        ({**SHUFFLED, "rule": "nearest-mean", "method": "3nb"}, 0.05),
        ({**SHUFFLED, "options": {"label_epsilon": 4}}, 0.06),
        (LOCAL, 0.1),
        ({**LOCAL, "options": {"label_epsilon": 4}, "rule": "nearest-mean"}, 0.12),
    ],
    ids=["shuffled", "shuffled 3nb, nearest mean", "shuffled, private labels", "local", "local, private labels"],
)
def test_accuracy_is_close_to_that_without_privacy(arguments: dict[str, Any], lost: float, tmp_path: Path) -> None:
    model = DensityClassifier(**arguments).fit(POINTS, LABELS)
    assert BEST > 0.75
    assert model.score(TESTS, ANSWERS) > BEST - lost
    model.save(tmp_path / "texts.sfm")
    loaded = DensityClassifier.load(tmp_path / "texts.sfm")
    assert loaded.trust == arguments["trust"]
    assert np.array_equal(loaded.decision_function(TESTS), model.decision_function(TESTS))


@pytest.mark.parametrize("arguments", [SHUFFLED, LOCAL], ids=["shuffled", "local"])
def test_the_guarantee_is_that_of_the_model_and_says_what_labels_cost(arguments: dict[str, Any]) -> None:
    public = DensityClassifier(**arguments).fit(POINTS, LABELS).guarantee_
    assert (public.trust, public.epsilon, public.neighbours) == (arguments["trust"], arguments["epsilon"], "replace")
    assert "classes are public and not protected" in str(public) and "simulated: one party held" in str(public)
    assert not public.private
    private = DensityClassifier(**{**arguments, "options": {"label_epsilon": 3}}).fit(POINTS, LABELS).guarantee_
    assert private.epsilon == arguments["epsilon"] + 3
    assert "this covers a change of point and class" in str(private)


def test_randomised_labels_are_those_of_the_response() -> None:
    """With label epsilon 1 a class keeps 57.6 % of its members: 2,000 of each give 2,000 reports, +- 5 deviations."""
    labels = np.array(CLASSES)[np.repeat([0, 0, 0, 0, 1, 2], 1000)]
    model = DensityClassifier(**{**LOCAL, "options": {"label_epsilon": 1}}).fit(POINTS, labels)
    counts = np.array([release.count.value for release in model.releases_.values()])
    keep = np.e / (np.e + 2)
    expected = [4000 * keep + 2000 * (1 - keep) / 2, *[1000 * keep + 5000 * (1 - keep) / 2] * 2]
    assert counts.sum() == 6000
    assert (np.abs(counts - expected) < 5 * np.sqrt(6000 * 0.25)).all()


def test_labels_outside_the_list_do_not_take_part() -> None:
    labels = LABELS.astype(object)
    labels[:300] = "war"
    points = POINTS.copy()
    points[400, 3] = np.nan
    model = DensityClassifier(**LOCAL).fit(points, labels)
    assert sum(release.count.value for release in model.releases_.values()) == 5699


def test_noise_is_fresh_without_a_seed() -> None:
    first, second = (DensityClassifier(**{**LOCAL, "random_state": None}).fit(POINTS, LABELS) for _ in range(2))
    assert not np.array_equal(first.releases_["art"].values, second.releases_["art"].values)
    assert first.guarantee_.private


def test_collected_releases_make_a_classifier() -> None:
    protocol = shuffled.Protocol(
        InnerProduct(), dimension=30, epsilon=4, delta=1e-5, participants=1500, classes=CLASSES, seed=4
    )
    releases = protocol.simulate(POINTS, LABELS, random_state=3)
    model = DensityClassifier.of(releases, priors="private")
    assert list(model.classes_) == list(CLASSES) and model.guarantee_ == releases["art"].guarantee
    assert model.score(TESTS, ANSWERS) > BEST - 0.05
    fitted = DensityClassifier(**SHUFFLED, options={"participants": 1500}).fit(POINTS, LABELS)
    assert np.array_equal(model.densities(TESTS), fitted.densities(TESTS))
    with pytest.raises(InputError, match="one class or more"):
        DensityClassifier.of({})
    other = DensityClassifier(Gaussian(1.0), epsilon=1, **SEEDED).fit(POINTS, LABELS).releases_["art"]
    with pytest.raises(InputError, match="the same kernel"):
        DensityClassifier.of({**releases, "art": other})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({**LOCAL, "delta": 1e-6}, "pure model"),
        ({**LOCAL, "landmarks": POINTS[:50]}, "knows no landmarks"),
        ({**LOCAL, "rule": "squared-distance"}, "is for trust='central'"),
        ({**LOCAL, "ledger": Ledger().account("texts")}, "devices keep their own"),
        ({**LOCAL, "epsilon": None}, "pass epsilon="),
        ({**LOCAL, "n_hint": None}, "n_hint="),
        ({**LOCAL, "classes": (*CLASSES, "zoo")}, "nobody reports the class 'zoo'"),
        ({**LOCAL, "classes": (0.5, 1.5)}, "whole numbers or texts"),
        ({**SHUFFLED, "options": {"clip": 1}}, "unknown option 'clip'"),
        ({**SHUFFLED, "options": {"participants": 5000}}, "participants in class 'art'"),
        ({**SHUFFLED, "method": "magic"}, "magic"),
    ],
)
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DensityClassifier(**arguments).fit(POINTS, LABELS)
