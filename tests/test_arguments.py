"""Arguments of any type and size: only a `SfumatoError` comes out, and what is accepted is written and read again.

Every parameter of the public names is tried on its own, the others at good values: texts for numbers, numbers for
texts, lists for both, whole numbers that Python does not even write down, and objects that mean nothing here.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato import bandwidth, kernels, learn, local, maps, shuffled
from sfumato.errors import InputError, SfumatoError
from sfumato.public.portable import LARGEST_SEED
from tests.fuzz.case import signature

HUGE = 10**5000  # Python refuses to write it in decimal digits
DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]
POINTS = np.random.default_rng(0).uniform(size=(40, 2))
LABELS = ["a", "b"] * 20


class Wordless:
    """What cannot even be shown."""

    def __repr__(self) -> str:
        raise OSError("no")


ODD: tuple[Any, ...] = (
    *(HUGE, -HUGE, 2**1024, 2**256, 2**64, -1, 0, 1, True, 0.5, np.float64(np.inf), np.nan, 1j, Fraction(1, HUGE)),
    *("", "abc", "1e5000", "1/0", "9" * 5000, "a" * 5000, "a\0b", "\ud800", "\x1b[31m", b"", b"abc"),
    *([], (), {}, set(), [HUGE], (0, HUGE), [[HUGE, HUGE]], [[]], [[[]]], [None], [np.nan], ["abc"], {HUGE: HUGE}),
    *({"abc": HUGE}, {0: HUGE}, {0: []}, {(0, 1): 1}, {None: None}, [{}], range(3), object()),
    *(DEEP, Wordless(), [Wordless()], Decimal("nan"), np.float32(3.5)),
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


def released(sketch: Any, folder: Path) -> None:
    assert np.isfinite(sketch.query(POINTS[:3])).all()


def collected(model: Any, folder: Path) -> None:
    learned = model.fit(POINTS, LABELS)
    assert len(learned.predict(POINTS[:3, : learned.n_features_in_])) == 3


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
CLASSES = {**GOOD, "kernel": "gaussian", "classes": ["a", "b"], "random_state": 1}
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
    **{
        f"{trust} classifier": Call(learn.DensityClassifier, {**CLASSES, **more, "trust": trust}, collected)
        for trust, more in (("local", {}), ("shuffled", {"delta": 1e-5, "options": {"instances": 16}}))
    },
    "plan": Call(sfumato.plan, GOOD | {"dimension": 2}, lambda made, folder: str(made)),
    "sketch": Call(sfumato.RaceSketch, {"kernel": "l2-lsh", "bandwidth": 1.0, "dimension": 2, "rows": 5}, summed),
    "sketch release": Call(
        lambda **given: sfumato.RaceSketch("l2-lsh", bandwidth=1.0, dimension=2, rows=5).add(POINTS).release(**given),
        {"epsilon": 1, "delta": 0.0, "neighbours": "add-remove", "own_count": False, "random_state": None},
        released,
    ),
    "merged": Call(lambda published: sfumato.merge_releases(published), {"published": [MADE]}),
    "parts": Call(lambda sites: sfumato.merge_parts(sites), {"sites": []}),
    "local protocol": Call(local.Protocol.load, {"path": "nowhere.json"}),
    "shuffled protocol": Call(shuffled.Protocol.load, {"path": "nowhere.json"}),
    "key": Call(shuffled.AnalyzerKey.load, {"path": "nowhere.pem"}),
    "collector": Call(
        lambda state: local.Collector(local.Protocol(**COLLECTED), state).close(),
        {"state": None},
    ),
    "shuffler": Call(
        lambda folder: shuffled.Shuffler(folder, shuffled.Protocol(**SHUFFLED)).close(),
        {"folder": "state"},
    ),
    "account of data": Call(sfumato.Ledger().account_of, {"data": "points.csv"}),
    "calibrated": Call(
        shuffled.bitsum.calibrate, {"name": "rr", "n": 1000, "instances": 16, "epsilon": 1, "delta": 1e-5}
    ),
    "selected": Call(
        lambda **given: learn.select(MADE, POINTS, **given), {"k": 3, "threads": 1, "random_state": 1, "columns": None}
    ),
    "exact": Call(kernels.Gaussian(1.0).exact_density, {"X": POINTS, "Y": POINTS, "threads": 1}),
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


# What has no good arguments here: files that are not there.
MISSING = {"load", "parts", "local protocol", "shuffled protocol", "key"}


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
    if name not in MISSING:
        call.function(**call.good)
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


def test_nothing_is_paid_for_before_what_cannot_be_called_is_refused() -> None:
    account = sfumato.Ledger().account("people")
    model = sfumato.PrivateKDE(epsilon=20, bandwidth=0.2, bounds=(0, 1), n_hint="paid", method="grid", ledger=account)
    with pytest.raises(InputError, match="progress must be a function"):
        model.fit(np.tile(POINTS, (50, 1)), progress=True)  # type: ignore[arg-type]
    assert account.spent == (0, 0)


def test_a_protocol_is_not_read_from_a_descriptor() -> None:
    """As open does, which closes it afterwards: 0 is the standard input."""
    reader, writer = os.pipe()
    os.write(writer, b"{}")
    os.close(writer)
    with pytest.raises(InputError, match="the file to read must be a text or a Path"):
        local.Protocol.load(reader)  # type: ignore[arg-type]
    os.close(reader)  # which is still open


def test_messages_are_short() -> None:
    long = "x" * 1_000_000
    for refused in (
        lambda: sfumato.plan(dimension=2, epsilon=long, bandwidth=0.2, n_hint=1000, bounds=(0, 1)),
        lambda: kernels.get_kernel(long, 1.0),
        lambda: shuffled.bitsum.calibrate(long, n=1000, instances=16, epsilon=1),
        lambda: sfumato.PrivateKDE(**{**GRID, "delta": [long]}).fit(POINTS),
    ):
        with pytest.raises(InputError) as caught:
            refused()
        assert len(str(caught.value)) < 1000


def test_numbers_in_numpys_wrapping_are_numbers() -> None:
    given = {"n": 1000, "instances": 16, "epsilon": 1, "delta": 1e-5}
    plain = shuffled.bitsum.calibrate("rr", messages=4, **given)
    assert shuffled.bitsum.calibrate("rr", messages=np.int64(4), **given) == plain  # type: ignore[arg-type]
    assert kernels.Overlap([10**100, 1e100, "a"][::2]).size == 2
    assert kernels.Gaussian(1.0).exact_density(POINTS, POINTS, threads=np.int64(1)).shape == (40,)  # type: ignore[arg-type]
