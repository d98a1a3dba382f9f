"""The pre-flight: what is odd is told to the curator before the charge, who is asked; nothing else changes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from sfumato import InputError, Ledger, PrivateDistance, PrivateKDE, bandwidth
from sfumato.central.survey import answered_yes, survey
from sfumato.kernels import Gaussian
from sfumato.learn import DensityClassifier
from sfumato.quantizers.box import Box
from sfumato.sources import open_source

pytestmark = pytest.mark.once

N = 3000
GOOD = np.random.default_rng(0).normal(size=(N, 2))
FAR = GOOD + np.array([50.0, -50.0])
LABELS = np.where(GOOD[:, 0] > 0, "World", "Sports")
TERMS: dict[str, Any] = {"epsilon": 1, "bounds": (-5, 5), "n_hint": N}


def _said(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))


RUNS = {
    "density": lambda points, account: PrivateKDE(bandwidth=1.0, ledger=account, **TERMS).fit(points, look=True),
    "distance": lambda points, account: PrivateDistance("l1", ledger=account, **TERMS).fit(points, look=True),
    "classifier": lambda points, account: DensityClassifier(
        "gaussian", bandwidth=1.0, classes=["World", "Sports"], ledger=account, **TERMS
    ).fit(points, LABELS, look=True),
    "bandwidth": lambda points, account: bandwidth.private(points, ledger=account, look=True, **TERMS),
    "search": lambda points, account: bandwidth.search(points, [1.0, 2.0], ledger=account, look=True, **TERMS),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
class TestEveryRun:
    @pytest.mark.parametrize("answer", ["n\n", "\n", ""])
    def test_no_leaves_the_ledger_untouched(self, run: Any, answer: str, monkeypatch: Any, capsys: Any) -> None:
        account = Ledger().account("people")
        _said(monkeypatch, answer)
        with pytest.raises(InputError, match="stopped before anything was charged"):
            run(FAR, account)
        assert account.charges == ()
        told = capsys.readouterr()
        assert "no value lies within the bounds" in told.err and "eyes only" in told.err and not told.out

    def test_yes_goes_on(self, run: Any, monkeypatch: Any) -> None:
        account = Ledger().account("people")
        _said(monkeypatch, "y\n")
        run(FAR, account)
        assert account.spent[0] == 1

    def test_nobody_is_asked_about_good_points(self, run: Any, monkeypatch: Any, capsys: Any) -> None:
        _said(monkeypatch, "n\n")
        run(np.clip(GOOD, -4.9, 4.9), Ledger().account("people"))
        assert "Go on" not in capsys.readouterr().err

    def test_what_can_be_read_once_is_refused_unpaid(self, run: Any) -> None:
        account = Ledger().account("people")
        with pytest.raises(InputError, match="read only once"):
            run(iter([GOOD]), account)
        assert account.charges == ()


def test_a_look_changes_nothing_that_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    _said(monkeypatch, "y\n")
    made = [
        PrivateKDE(bandwidth=1.0, random_state=1, feature_seed=2, **TERMS).fit(FAR, look=look).release_
        for look in (True, False)
    ]
    assert made[0].to_bytes() == made[1].to_bytes()


def test_labels_that_match_no_class_are_told(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    _said(monkeypatch, "n\n")
    model = DensityClassifier("gaussian", bandwidth=1.0, classes=["world", "sports"], **TERMS)
    with pytest.raises(InputError, match="stopped before"):
        model.fit(GOOD, LABELS, look=True)
    told = capsys.readouterr().err
    assert "3000 of 3000 (100.00%) rows have a label that is no class" in told
    assert "there are labels 'Sports', 'World'" in told


def test_findings_never_come_on_standard_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is no standard error `print` takes standard output, which may be published."""
    _said(monkeypatch, "n\n")
    with monkeypatch.context() as without:
        without.setattr(sys, "stderr", None)
        with pytest.raises(InputError, match="stopped before"):
            DensityClassifier("gaussian", bandwidth=1.0, classes=["world", "sports"], **TERMS).fit(
                GOOD, LABELS, look=True
            )
    assert capsys.readouterr().out == ""


def test_silence_through_a_pipe_is_a_no_and_does_not_hang() -> None:
    code = "from sfumato.central.survey import answered_yes; print(answered_yes('Go on? '))"
    reading, writing = os.pipe()  # open, and nobody writes
    with subprocess.Popen([sys.executable, "-c", code], stdin=reading, stdout=subprocess.PIPE) as process:
        out, _ = process.communicate(timeout=120)
    os.close(reading)
    os.close(writing)
    assert out == b"False\n"


@pytest.mark.parametrize(("answer", "yes"), [("y", True), ("YES\n", True), ("no\n", False), ("yesterday\n", False)])
def test_only_a_yes_is_one(answer: str, yes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    _said(monkeypatch, answer)
    assert answered_yes("Go on? ") is yes


def test_a_bandwidth_is_judged_over_all_columns_as_a_plan_does() -> None:
    digits = np.random.default_rng(0).random((300, 784))
    box = Box.from_bounds((0, 1), 784)
    judged = {length: survey(open_source(digits), box, Gaussian(length)).warnings for length in (4.85, 1.0, 0.2, 1e3)}
    assert judged[4.85] == []
    assert "two points are about 11 bandwidths apart" in judged[1.0][0]
    assert "too small for these points: two points are about 57 bandwidths apart" in judged[0.2][0]
    assert "will look flat" in judged[1e3][0]
