"""Arguments of any type and size: only a `SfumatoError` comes out, and what is accepted is written and read again.

Every parameter of the public names is tried on its own, the others at good values: texts for numbers, numbers for
texts, lists for both, whole numbers that Python does not even write down, and objects that mean nothing here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato import bandwidth, kernels, learn, local, maps, shuffled
from sfumato.errors import InputError, SfumatoError
from sfumato.public.arguments import LARGEST_SEED, checked_mapping, checked_options, checked_seed, listed, says
from tests.fuzz.case import signature

HUGE = 10**5000  # Python refuses to write it in decimal digits
POINTS = np.random.default_rng(0).uniform(size=(40, 2))
LABELS = ["a", "b"] * 20
ODD: tuple[Any, ...] = (
    *(HUGE, -HUGE, 2**1024, 2**256, 2**64, -1, 0, 1, True, 0.5, np.float64(np.inf), np.nan, 1j, Fraction(1, HUGE)),
    *("", "abc", "1e5000", "1/0", "9" * 5000, "a" * 5000, "a\0b", "\ud800", "\x1b[31m", b"", b"abc"),
    *([], (), {}, set(), [HUGE], (0, HUGE), [[HUGE, HUGE]], [[]], [[[]]], [None], [np.nan], ["abc"], {HUGE: HUGE}),
    *({"abc": HUGE}, {0: HUGE}, {0: []}, {(0, 1): 1}, {None: None}, [{}], range(3), object()),
    *(np.array([]), np.array(3), np.array([1, np.nan]), np.array([HUGE]), np.array([[1, 2], [3, 4]]), np.array("abc")),
    *(np.array(["abc"]), np.zeros((0, 2)), np.datetime64("2026-01-01"), np.int64(-1), np.bool_(True)),
)
# What is not tried: objects of the library, the data, and whatever Python takes for true or false.
OTHERS = {
    *("X", "y", "releases", "parts", "ax"),
    *("all_queries", "overwrite", "return_std", "permanent", "unchecked", "not_private"),
    *("contours", "uncertainty", "longitude_latitude", "look"),
}


@dataclass(frozen=True)
class Call:
    """Something public to be called: with which good arguments, and what is then done with what it makes."""

    function: Callable[..., Any]
    good: dict[str, Any]
    use: Callable[[Any, Path], Any] = lambda made, folder: made

    def parameters(self) -> list[str]:
        named = inspect.signature(self.function).parameters.values()
        own = [each.name for each in named if each.kind is not each.VAR_KEYWORD]
        return [name for name in dict.fromkeys([*own, *self.good]) if name not in OTHERS]


def fitted(model: Any, folder: Path) -> None:
    made = model.fit(POINTS).release_
    assert np.isfinite(sfumato.load(made.save(folder / "made.sfm")).query(POINTS[:3])).all()


def classified(model: Any, folder: Path) -> None:
    learned = model.fit(POINTS, LABELS)
    learned.save(folder / "made.sfm")
    known = learn.DensityClassifier.load(folder / "made.sfm")
    assert len(known.predict(POINTS[:3, : known.n_features_in_])) == 3


def written(protocol: Any, folder: Path) -> None:
    protocol.save(folder / "protocol.json")
    assert type(protocol).load(folder / "protocol.json").document == protocol.document


def summed(sketch: Any, folder: Path) -> None:
    sketch.add(POINTS).save(folder / "sketch.sfm")
    assert sfumato.RaceSketch.load(folder / "sketch.sfm").fingerprint == sketch.fingerprint


def valued(kernel: Any, folder: Path) -> None:
    assert not np.isnan(kernel.value(POINTS[:3], POINTS[:3])).any()
    assert kernels.kernel_from_document(kernel.to_document()) == kernel


def charged(ledger: Any, folder: Path) -> None:
    ledger.account("people").charge("test", 0.5)


GOOD: dict[str, Any] = {"bandwidth": 0.2, "epsilon": 1, "n_hint": 40, "bounds": (0, 1)}
GRID = GOOD | {"method": "grid"}
COLLECTED = {
    "kernel": "gaussian",
    "bandwidth": 0.5,
    "dimension": 2,
    "epsilon": 1,
    "participants": 500,
    "bounds": (0, 1),
}
SHUFFLED = COLLECTED | {"delta": 1e-5, "instances": 16}
MADE = sfumato.PrivateKDE(**GRID).fit(POINTS).release_
KERNELS: dict[Any, dict[str, Any]] = {
    kernels.Angular: {},
    kernels.Distance: {"metric": "l1"},
    kernels.Exponential: {"bandwidth": 1.0},
    kernels.InnerProduct: {},
    kernels.Rational: {"bandwidth": 1.0},
    kernels.StableExponential: {"bandwidth": 1.0, "p": 1.5},
    kernels.Product: {"numbers": None, "categories": {0: ["a"], 1: ["b"]}},
    kernels.Curved: {"images": kernels.Gaussian(1.0), "curves": {0: kernels.Circle(1.0)}},
}
CALLS = {
    "kde": Call(sfumato.PrivateKDE, GRID, fitted),
    "kde-auto": Call(sfumato.PrivateKDE, GOOD, fitted),
    "distance": Call(sfumato.PrivateDistance, {"epsilon": 1, "n_hint": 40, "bounds": (0, 1)}, fitted),
    "anomaly": Call(learn.AnomalyScore, GOOD, lambda model, folder: model.fit(POINTS)),
    "classifier": Call(learn.DensityClassifier, GRID | {"kernel": "gaussian", "classes": ["a", "b"]}, classified),
    "means": Call(
        learn.DensityClassifier, {"epsilon": 1, "delta": 1e-6, "n_hint": 40, "classes": ["a", "b"]}, classified
    ),
    "plan": Call(sfumato.plan, GOOD | {"dimension": 2}, lambda made, folder: str(made)),
    "sketch": Call(sfumato.RaceSketch, {"kernel": "l2-lsh", "bandwidth": 1.0, "dimension": 2, "rows": 5}, summed),
    "local": Call(local.Protocol, COLLECTED, written),
    "shuffled": Call(shuffled.Protocol, SHUFFLED, written),
    "device": Call(local.Protocol(**COLLECTED).client, {}),
    "shuffled device": Call(shuffled.Protocol(**SHUFFLED).client, {}),
    "epsilon_for": Call(sfumato.epsilon_for, {"error": 0.1, "n_hint": 1000, "dimension": 2, "bandwidth": 0.2}),
    "n_for": Call(sfumato.n_for, {"error": 0.1, "epsilon": 1, "dimension": 2, "bandwidth": 0.2}),
    "load": Call(sfumato.load, {"path": "nowhere.sfm"}),
    "ledger": Call(sfumato.Ledger, {}, charged),
    "account": Call(sfumato.Ledger().account, {"dataset": "people"}),
    "charge": Call(
        lambda **given: sfumato.Ledger().account("people").charge(**given),
        {"mechanism": "test", "epsilon": 1, "delta": 0.0, "neighbours": "add-remove"},
    ),
    "budget": Call(lambda **given: sfumato.Ledger().account("people").set_budget(**given), {"epsilon": 1, "delta": 0}),
    "search": Call(
        lambda **given: bandwidth.search(POINTS, **given),
        {"candidates": [0.1, 0.2], "epsilon": 20, "bounds": (0, 1), "n_hint": 40},
    ),
    "private bandwidth": Call(
        lambda **given: bandwidth.private(POINTS, **given),
        {"epsilon": 20, "bounds": (0, 1), "n_hint": 40, "target_density": 0.1, "outside": "clip"},
    ),
    "public bandwidth": Call(
        lambda **given: bandwidth.from_public(POINTS, **given), {"target_density": 0.1, "kernel": "gaussian"}
    ),
    **{name: Call(getattr(MADE, name), {"Y": POINTS}) for name in ("query", "total", "density", "log_density")},
    "save": Call(MADE.save, {"path": "made.sfm"}),
    "sample": Call(MADE.sample, {"count": 3}),
    "plot": Call(MADE.plot, {"size": 8}),
    "people": Call(lambda **given: maps.people(MADE, **given), {"region": [(0.1, 0.4), (0.2, 0.3)], "level": 0.95}),
    "kernel": Call(kernels.get_kernel, {"kernel": "gaussian", "bandwidth": 1.0}, valued),
    "circle": Call(kernels.Circle, {"period": 24.0}),
    "sphere": Call(kernels.Sphere, {}),
    "category": Call(kernels.Overlap, {"values": ["a", "b"]}),
    **{f"kernel {made.name}": Call(made, good, valued) for made, good in KERNELS.items()},
}


def problems(call: Call, folder: Path) -> Iterator[str]:
    """Try all that is odd for every parameter, and name the exceptions that are not ours."""
    for name in call.parameters():
        for place, value in enumerate(ODD):
            inside = folder / f"{name}-{place}"
            inside.mkdir()
            try:
                call.use(call.function(**{**call.good, name: value}), inside)
            except SfumatoError:
                continue
            except Exception as problem:
                yield f"{name}, value {place}: {signature(problem)}"


@pytest.mark.once
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_only_our_errors_come_out(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call = CALLS[name]
    call.function(**call.good) if name != "load" else None
    assert list(problems(call, tmp_path)) == []


@pytest.mark.once
def test_what_is_not_ours_is_found(tmp_path: Path) -> None:
    naive = Call(lambda seed: int(seed), {"seed": 1})
    found = list(problems(naive, tmp_path))
    assert any("OverflowError" in each for each in found) and any("TypeError" in each for each in found)


@pytest.mark.parametrize("seed", [-1, LARGEST_SEED + 1, pytest.param(HUGE, id="huge"), 1.0, True, "7", None])
def test_no_release_is_paid_for_with_a_seed_that_no_file_holds(seed: Any) -> None:
    account = sfumato.Ledger().account("people")
    if seed is None:
        sfumato.PrivateKDE(**GRID, ledger=account, feature_seed=LARGEST_SEED).fit(POINTS)
        assert account.spent == (1, 0)
    else:
        with pytest.raises(InputError, match="feature_seed"):
            sfumato.PrivateKDE(**GRID, ledger=account, feature_seed=seed).fit(POINTS)
        assert account.spent == (0, 0)


def test_what_is_accepted_is_returned() -> None:
    assert checked_seed(np.int64(3)) == 3 and checked_seed(LARGEST_SEED) == LARGEST_SEED
    assert checked_mapping("kinds", None) == {} and checked_options({"a": 1}) == {"a": 1}
    assert listed("columns", np.arange(2)) == [0, 1]
    assert says("auto", "auto") and not says(np.array(["auto"]), "auto")
