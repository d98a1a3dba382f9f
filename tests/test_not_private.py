"""A seed in place of secret noise warns: once a call, at the caller's line, in everything that takes one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato import NotPrivateWarning, PrivateDistance, PrivateKDE, RaceSketch
from sfumato.bandwidth import private as private_bandwidth
from sfumato.kernels import L2LSH, Gaussian, InnerProduct
from sfumato.learn import AnomalyScore, DensityClassifier
from sfumato.local import Protocol as LocalProtocol
from sfumato.published.hrw import OnlineQueries
from sfumato.shuffled import Protocol as ShuffledProtocol
from sfumato.shuffled import SecureAggregation

POINTS = np.arange(120).reshape(60, 2) % 7 / 8
LABELS = ["a", "b"] * 30
FACTS: dict[str, Any] = {"epsilon": 8, "bounds": (0, 1), "n_hint": 60}


def classifier(seed: int | None, **settings: Any) -> DensityClassifier:
    facts = {"epsilon": 8, "n_hint": 60, "classes": ["a", "b"], **settings}
    return DensityClassifier(InnerProduct(2.0), random_state=seed, **facts).fit(POINTS, LABELS)


def aggregation() -> SecureAggregation:
    return SecureAggregation(InnerProduct(2.0), dimension=2, epsilon=4, delta=1e-2, participants=60)


def shuffled(**settings: Any) -> ShuffledProtocol:
    facts = {"dimension": 2, "epsilon": 4, "delta": 1e-2, "participants": 60, "instances": 4, **settings}
    return ShuffledProtocol(Gaussian(1.0), **facts)


KDE: dict[str, Any] = {**FACTS, "bandwidth": 1.0, "method": "fourier", "options": {"n_features": 4}}

CALLS: dict[str, Callable[[int | None], Any]] = {
    "kde": lambda seed: PrivateKDE(random_state=seed, **KDE).fit(POINTS),
    "kde, paid count": lambda seed: PrivateKDE(random_state=seed, **{**KDE, "n_hint": "paid"}).fit(POINTS),
    "distance": lambda seed: PrivateDistance(random_state=seed, **FACTS).fit(POINTS),
    "anomaly": lambda seed: AnomalyScore(random_state=seed, **KDE).fit(POINTS),
    "classifier": classifier,
    "classifier, local": lambda seed: classifier(seed, trust="local", method="vector", options={"label_epsilon": 2}),
    "classifier, shuffled": lambda seed: classifier(seed, trust="shuffled", delta=1e-2, options={"participants": 20}),
    "bandwidth": lambda seed: private_bandwidth(POINTS, **{**FACTS, "epsilon": 50}, random_state=seed),
    "session": lambda seed: OnlineQueries(PrivateKDE(bandwidth=1.0, delta=1e-2, random_state=seed, **FACTS), POINTS),
    "sketch": lambda seed: (
        RaceSketch(L2LSH(1.0), dimension=2, rows=4, width=4).add(POINTS).release(epsilon=1, random_state=seed)
    ),
    "local": lambda seed: LocalProtocol(L2LSH(0.5), 2, 4, 60, bounds=(0, 1)).simulate(POINTS, random_state=seed),
    "shuffled": lambda seed: shuffled().simulate(POINTS, random_state=seed),
    "shuffled classes": lambda seed: shuffled(classes=["a", "b"], participants=20).simulate(
        POINTS, LABELS, random_state=seed
    ),
    "secure aggregation": lambda seed: aggregation().simulate(POINTS, random_state=seed),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_seed_for_the_noise_warns_once_a_call(name: str) -> None:
    for _ in range(2):  # again for the next call
        with pytest.warns(NotPrivateWarning, match="NOT PRIVATE: random_state seeds the noise") as caught:
            CALLS[name](3)
        assert len(caught) == 1
        assert caught[0].filename == __file__


@pytest.mark.parametrize("name", CALLS)
def test_secret_noise_does_not_warn(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotPrivateWarning)
        CALLS[name](None)


@pytest.mark.parametrize("name", ["kde", "classifier"])
def test_saving_warns_once_and_only_what_is_not_private(name: str, tmp_path: Path) -> None:
    seeded, secret = CALLS[name](3), CALLS[name](None)
    seeded, secret = (getattr(model, "release_", model) for model in (seeded, secret))
    with pytest.warns(NotPrivateWarning, match="Do not publish") as caught:
        seeded.save(tmp_path / "seeded.sfm")
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotPrivateWarning)
        secret.save(tmp_path / "secret.sfm")


def test_a_release_that_was_loaded_warns_when_it_is_saved_again(tmp_path: Path) -> None:
    CALLS["kde"](3).release_.save(tmp_path / "first.sfm")
    with pytest.warns(NotPrivateWarning, match="Do not publish"):
        sfumato.load(tmp_path / "first.sfm").save(tmp_path / "second.sfm")


def test_there_is_no_other_door() -> None:
    """Only `privacy.bits` turns a seed of the caller's into noise; beside it, the coins of simulated labels."""
    package = Path(sfumato.__file__).parent
    doors = {path.name for path in package.rglob("*.py") if "seeded(random_state" in path.read_text()}
    assert doors == {"bits.py"}


def test_the_command_line_says_it_in_its_own_words(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from sfumato.cli import app

    np.save(tmp_path / "points.npy", POINTS)
    arguments = ["release", tmp_path / "points.npy", "-o", tmp_path / "out.sfm", "--bandwidth", "1", "--epsilon", "8"]
    arguments += ["--n-hint", "60", "--bounds", "0,1", "--ledger", tmp_path / "ledger", "--seed-noise-not-private", "3"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotPrivateWarning)
        result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    assert "NOT PRIVATE: the noise came from a seed" in result.output
