"""Classifiers without a curator: simulated local and shuffled collections, and releases collected elsewhere."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import InputError, Ledger, shuffled
from sfumato.kernels import Gaussian, InnerProduct
from sfumato.learn import DensityClassifier
from sfumato.learn.collecting import gathered
from sfumato.learn.labels import labelled

from .conftest import CLASSES, texts

POINTS, LABELS = texts(6000, 1)
TESTS, ANSWERS = texts(500, 2)
MEANS = np.array([POINTS[name == LABELS].mean(axis=0) for name in CLASSES])
BEST = float((np.array(CLASSES)[(TESTS @ MEANS.T).argmax(axis=1)] == ANSWERS).mean())
SEEDED: dict[str, Any] = {"classes": CLASSES, "n_hint": 6000, "random_state": 3, "feature_seed": 4}
SHUFFLED: dict[str, Any] = {**SEEDED, "trust": "shuffled", "epsilon": 4, "delta": 1e-5}
LOCAL: dict[str, Any] = {**SEEDED, "trust": "local", "epsilon": 6}


MODELS: dict[str, dict[str, Any]] = {
    "shuffled": SHUFFLED,
    "shuffled 3nb": {**SHUFFLED, "rule": "nearest-mean", "method": "3nb"},
    "shuffled, labels": {**SHUFFLED, "options": {"label_epsilon": 3}},
    "local": LOCAL,
    "local, labels": {**LOCAL, "options": {"label_epsilon": 3}, "rule": "nearest-mean"},
}
LOST = {"shuffled": 0.05, "shuffled 3nb": 0.05, "shuffled, labels": 0.06, "local": 0.1, "local, labels": 0.12}


@cache
def fitted(name: str) -> DensityClassifier:
    return DensityClassifier(**MODELS[name]).fit(POINTS, LABELS)


@pytest.mark.parametrize("name", MODELS)
def test_accuracy_is_close_to_that_without_privacy(name: str, tmp_path: Path) -> None:
    model = fitted(name)
    assert BEST > 0.75
    assert model.score(TESTS, ANSWERS) > BEST - LOST[name]
    model.save(tmp_path / "texts.sfm")
    loaded = DensityClassifier.load(tmp_path / "texts.sfm")
    assert loaded.trust == MODELS[name]["trust"]
    assert np.array_equal(loaded.decision_function(TESTS), model.decision_function(TESTS))


@pytest.mark.parametrize("trust", ["shuffled", "local"])
def test_the_guarantee_is_that_of_the_model_and_says_what_labels_cost(trust: str) -> None:
    public, private = fitted(trust).guarantee_, fitted(f"{trust}, labels").guarantee_
    epsilon = MODELS[trust]["epsilon"]
    assert (public.trust, public.epsilon, public.neighbours) == (trust, epsilon, "replace")
    assert "classes are public and not protected" in str(public) and not public.private
    assert str(public).count("simulated: one party held all points") == 1
    assert private.epsilon == epsilon + 3
    assert "this covers a change of point and class" in str(private)


def test_randomised_labels_are_those_of_the_response() -> None:
    """With label epsilon 1 a class keeps 57.6 % of its members; counts are within 5 deviations.

    People of other classes, or without a finite point, take part too: how many there are is public.
    """
    labels = np.array([*CLASSES, "war"])[np.repeat([0, 0, 0, 0, 1, 2, 3], [1000] * 6 + [300])]
    points = np.vstack([POINTS, POINTS[:300]])
    points[6001] = np.nan
    model = DensityClassifier(**{**LOCAL, "options": {"label_epsilon": 1}}).fit(points, labels)
    counts = np.array([release.count.value for release in model.releases_.values()])
    keep = np.e / (np.e + 2)
    expected = [100 + 4000 * keep + 2000 * (1 - keep) / 2, *[100 + 1000 * keep + 5000 * (1 - keep) / 2] * 2]
    assert counts.sum() == 6300
    assert (np.abs(counts - expected) < 5 * np.sqrt(6000 * 0.25)).all()


def test_noise_is_fresh_without_a_seed() -> None:
    first, second = (DensityClassifier(**{**SHUFFLED, "random_state": None}).fit(POINTS, LABELS) for _ in range(2))
    assert not np.array_equal(first.releases_["art"].values, second.releases_["art"].values)
    assert first.guarantee_.private


def test_collected_releases_make_a_classifier() -> None:
    protocol = shuffled.Protocol(
        InnerProduct(), dimension=30, epsilon=4, delta=1e-5, participants=1500, classes=CLASSES, seed=4
    )
    releases = protocol.simulate(POINTS, LABELS, random_state=3)
    model = DensityClassifier.of(releases, priors="private", disjoint=True)
    promise = releases["art"].guarantee
    assert list(model.classes_) == list(CLASSES)
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (promise.epsilon, promise.delta)
    assert "no record is in the data of more than one class, as declared" in str(model.guarantee_)
    assert "the number of records of every class is public" in model.guarantee_.conditions
    assert model.score(TESTS, ANSWERS) > BEST - 0.05
    again = DensityClassifier(**SHUFFLED, options={"participants": 1500}).fit(POINTS, LABELS)
    assert np.array_equal(model.densities(TESTS), again.densities(TESTS))
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
        ({**LOCAL, "classes": (0.5, 1.5)}, "pass both in the same form"),
        ({**SHUFFLED, "options": {"clip": 1}}, "unknown option 'clip'"),
        ({**SHUFFLED, "options": {"participants": 5000}}, "participants in class 'art'"),
        ({**SHUFFLED, "method": "magic"}, "magic"),
    ],
)
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DensityClassifier(**arguments).fit(POINTS, LABELS)


def test_nobody_is_left_out_for_a_label_that_is_no_class() -> None:
    labels = ["a", "b", "odd", "a"]
    points, codes = gathered(labelled(np.arange(8.0).reshape(4, 2), labels, ["a", "b"]), random_state=1)
    assert len(points) == 4 and codes[[0, 1, 3]].tolist() == [0, 1, 0] and codes[2] in (0, 1)
