"""Arguments of other types that say the same are taken; of those that say nothing, none comes out raw."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato
from sfumato import bandwidth, fast, kernels, learn, local, maps, shuffled
from sfumato.distances.hats import interval_counts
from sfumato.engines import Threads
from sfumato.errors import InputError, ReleaseFileError
from sfumato.maps.table import count_region

POINTS = np.random.default_rng(0).uniform(size=(40, 2))
LABELS = ["a", "b"] * 20
GRID: dict[str, Any] = {"bandwidth": 0.2, "epsilon": 1, "n_hint": 40, "bounds": (0, 1), "method": "grid"}
BOUGHT: dict[str, Any] = {"epsilon": 20, "bounds": (0, 1), "n_hint": 40}
MADE = sfumato.PrivateKDE(**GRID).fit(POINTS).release_
DISTANCES = sfumato.PrivateDistance("l1", epsilon=1, n_hint=40, bounds=(0, 1)).fit(POINTS).release_
COLLECTED: dict[str, Any] = {"kernel": "gaussian", "bandwidth": 0.5, "dimension": 2, "epsilon": 1, "bounds": (0, 1)}
SHUFFLED = {**COLLECTED, "delta": 1e-5, "participants": 15, "instances": 16}
CLASSIFIER: dict[str, Any] = {**BOUGHT, "kernel": "gaussian", "bandwidth": 0.5, "classes": ["a", "b"]}


class Place(os.PathLike[str]):
    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


def test_a_release_is_read_from_what_holds_its_bytes_or_names_its_file(tmp_path: Path) -> None:
    path = MADE.save(tmp_path / "made.sfm")
    content = path.read_bytes()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        for source in (content, mapped, pa.py_buffer(content), np.frombuffer(content, np.uint8), Place(path)):
            assert sfumato.load(source).to_bytes() == content
    for odd in (5, None, [1], np.datetime64("2026-01-01"), np.array(["a"]), object()):
        with pytest.raises((InputError, ReleaseFileError)):
            sfumato.load(odd)


@pytest.mark.parametrize("random_state", [1, "seven", b"seven", -1, 2**300])
@pytest.mark.parametrize("trust", ["central", "local"])
def test_every_trust_takes_the_same_seeds(trust: str, random_state: Any) -> None:
    learn.DensityClassifier(**CLASSIFIER, trust=trust, random_state=random_state).fit(POINTS, LABELS)


@pytest.mark.parametrize("delta", [0, None, np.int64(0), np.float32(0), Fraction(0)])
def test_no_delta_is_no_delta_in_the_local_model(delta: Any) -> None:
    learn.DensityClassifier(**CLASSIFIER, trust="local", delta=delta).fit(POINTS, LABELS)


@pytest.mark.parametrize("delta", [0, None, np.int64(0), np.float32(0), Fraction(0), Decimal(0)])
def test_pure_takes_every_zero(delta: Any) -> None:
    assert shuffled.bitsum.calibrate("pure", n=1000, instances=4, epsilon=1, delta=delta).rmse > 0


def test_numbers_of_every_type() -> None:
    assert kernels.Circle(Fraction(24)) == kernels.Circle(Decimal(24)) == kernels.Circle(24.0)
    given = {"n": 1000, "instances": 16, "epsilon": 1, "delta": 1e-5}
    plain = shuffled.bitsum.calibrate("rr", messages=4, **given)
    assert shuffled.bitsum.calibrate("rr", messages=Fraction(4), **given) == plain
    sketch = sfumato.RaceSketch("l2-lsh", bandwidth=1.0, dimension=2, rows=5).add(POINTS)
    sketch.release(epsilon=1, own_count=np.True_)
    made = MADE.sample(3, random_state=np.random.default_rng(1))
    np.testing.assert_array_equal(made, MADE.sample(3, random_state=1))
    assert kernels.Circle(np.longdouble(24)) == kernels.Circle(24.0)
    assert kernels.Sphere(np.longdouble(24)) == kernels.Sphere(24.0)


@pytest.mark.parametrize(
    "make", [np.random.RandomState, np.random.PCG64, lambda seed: [seed, 2], lambda s: np.array([s, 2])]
)
def test_public_drawing_takes_the_seeds_of_numpy_and_scikit_learn(make: Callable[[int], Any]) -> None:
    drawn = [MADE.sample(3, random_state=make(seed)) for seed in (1, 1, 3)]
    assert (drawn[0] == drawn[1]).all() and (drawn[0] != drawn[2]).any()
    assert (MADE.sample(3, random_state=make(1)) == MADE.sample(3, random_state=_default(make(1)))).all()


def _default(seed: Any) -> np.random.Generator:
    return np.random.default_rng(getattr(seed, "_bit_generator", seed))


def test_selections_take_several_seeds() -> None:
    chosen = [
        learn.select(MADE, POINTS, 5, sample=True, random_state=seed).positions.tolist() for seed in ([1, 2], (1, 2))
    ]
    assert chosen[0] == chosen[1]


def test_numbers_in_arrays_without_a_dimension() -> None:
    two, seven = np.array(2), np.array(7)
    made = sfumato.PrivateKDE(**{**GRID, "n_hint": np.array(40)}, random_state=seven, feature_seed=seven)
    plain = sfumato.PrivateKDE(**GRID, random_state=7, feature_seed=7).fit(POINTS).release_
    assert made.fit(POINTS, threads=two).release_.to_bytes() == plain.to_bytes()
    protocol = local.Protocol(**{**COLLECTED, "dimension": two}, participants=np.array(500))
    assert protocol.client() is not None
    people = [shuffled.Protocol(**{**SHUFFLED, "participants": n}) for n in (15, np.int64(15), np.array(15))]
    assert {each.groups[0].participants for each in people} == {15} and people[1].document
    sizes = {"kernel": "l2-lsh", "bandwidth": 1.0, "dimension": 2, "rows": 5, "width": 8, "feature_seed": 7}
    sketches = [sfumato.RaceSketch(**{**sizes, name: np.array(size)}) for name, size in list(sizes.items())[2:]]
    assert {each.fingerprint for each in sketches} == {sfumato.RaceSketch(**sizes).fingerprint}
    plans = [sfumato.plan(n_hint=n, dimension=d, epsilon=1, bandwidth=0.2) for n, d in ((40, 2), (np.array(40), two))]
    assert str(plans[0]) == str(plans[1])
    assert Threads(two, batch=two) == Threads(2, batch=2)


def _collect(options: dict[str, Any]) -> Any:
    return local.Protocol(**COLLECTED, participants=500, mechanism="vector", options=options)


def _fit(**changed: Any) -> Any:
    return sfumato.PrivateKDE(**{**GRID, **changed}).fit(POINTS)


def _in_metres(**changed: Any) -> Any:
    settings = {"bandwidth": None, "bandwidth_metres": 500, "bounds": [(4, 5), (52, 53)], "method": "grid"}
    return _fit(**{**settings, **changed})


DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "odd",
    [10**5000, DEEP, [], np.array([]), {0: 1}, "abc", 1j, Decimal("nan")],
    ids=["huge", "deep", "list", "array", "dict", "text", "complex", "nan"],
)
@pytest.mark.parametrize(
    "call",
    [
        lambda odd: bandwidth.private(POINTS, **BOUGHT, target_density=0.1, kernel=odd),
        lambda odd: bandwidth.private(POINTS, **BOUGHT, rule=odd),
        lambda odd: sfumato.RaceSketch("l2-lsh", bandwidth=1.0, dimension=2, rows=5).merge(odd),
        lambda odd: learn.decode(odd, POINTS[:2], ["a", "b"]),
        lambda odd: learn.decode(MADE, POINTS[:2], odd),
        lambda odd: learn.select(odd, POINTS, 3),
        lambda odd: _collect({"landmarks": odd}),
        lambda odd: _fit(options={"outside": odd}),
        lambda odd: _fit(options={"degree": odd}),
        lambda odd: _fit(method="lsq-fgt", options={"cutoff": odd}),
        lambda odd: _fit(method="lsq-rff", options={"alpha": odd, "eta": 0.1}),
        lambda odd: _fit(method="laplace-queries", options={"queries": odd}),
        lambda odd: _fit(method="landmarks", landmarks=POINTS, options={"check_share": odd}),
        lambda odd: _fit(bandwidth=odd, kinds={0: kernels.Circle(1.0)}),
        lambda odd: _in_metres(bandwidth_metres=odd),
        lambda odd: _in_metres(latitude=odd),
        lambda odd: _in_metres(bounds=odd),
        lambda odd: maps.evaluate(MADE, quantity=odd),
        lambda odd: maps.evaluate(MADE, minus=odd),
        lambda odd: count_region(MADE, [(0, 1), (0, 1)], quantity=odd),
        lambda odd: count_region(MADE, [(0, 1), (0, 1)], minus=odd),
        lambda odd: shuffled.Protocol(**{**SHUFFLED, "participants": odd}, classes=["a", "b"]),
        lambda odd: shuffled.Protocol(**{**SHUFFLED, "participants": [odd, odd]}, classes=["a", "b"]),
        lambda odd: shuffled.Protocol(**{**SHUFFLED, "participants": {"a": odd, "b": 15}}, classes=["a", "b"]),
        lambda odd: shuffled.Protocol(**SHUFFLED).plan(density=odd),
        lambda odd: shuffled.Protocol(**SHUFFLED, classes=["a", "b"]).simulate(POINTS, odd),
        lambda odd: interval_counts(DISTANCES, odd, 0.4),
        lambda odd: MADE.axis_totals(odd),
        lambda odd: Threads(batch=odd),
        lambda odd: fast.FastKDE(bandwidth=1.0, error=odd),
        lambda odd: fast.FastKDE(bandwidth=1.0, seed=odd),
        lambda odd: fast.FastKDE(bandwidth=1.0, quantizer=odd),
        lambda odd: fast.HashingKDE(bandwidth=1.0, smallest=odd),
    ],
)
def test_what_is_of_no_use_is_refused(call: Callable[[Any], Any], odd: Any) -> None:
    with pytest.raises(InputError):
        call(odd)


@pytest.mark.parametrize("participants", [["15", 15], [None, None], [500j, 500j], [Decimal("nan"), 15], [[], 15]])
def test_participants_are_counted_one_by_one(participants: Any) -> None:
    with pytest.raises(InputError, match="participants"):
        shuffled.Protocol(**{**SHUFFLED, "participants": participants}, classes=["a", "b"])


@pytest.mark.parametrize("trust", ["local", "shuffled"])
def test_a_label_epsilon_of_too_many_digits(trust: str) -> None:
    delta, options = (1e-5, {"instances": 16}) if trust == "shuffled" else (0, {})
    settings = {**CLASSIFIER, "delta": delta, "options": {**options, "label_epsilon": Fraction(1, 10**5000)}}
    with pytest.raises(InputError, match="epsilon"):
        learn.DensityClassifier(**settings, trust=trust).fit(POINTS, LABELS)


def test_labels_may_be_an_iterator_and_words_a_view() -> None:
    protocol = shuffled.Protocol(**SHUFFLED, classes=["a", "b"])
    made = [protocol.simulate(POINTS, labels, random_state=1) for labels in (LABELS, iter(LABELS))]
    assert made[0]["a"].to_bytes() == made[1]["a"].to_bytes()
    words = {"sea": 1, "ship": 2}
    assert learn.decode(MADE, POINTS[:2], words.keys()) == learn.decode(MADE, POINTS[:2], ["sea", "ship"])
    with pytest.raises(InputError, match="in the order of the rows"):
        learn.decode(MADE, POINTS[:2], set(words))


@pytest.mark.parametrize("far", [10**400, 10**5000], ids=["400", "5000"])
def test_queries_beyond_all_doubles(far: int) -> None:
    classifier = learn.DensityClassifier(**CLASSIFIER).fit(POINTS, LABELS)
    scorer = learn.AnomalyScore(epsilon=1, bandwidth=0.2, n_hint=40, bounds=(0, 1)).fit(POINTS)
    for predict in (classifier.predict, scorer.predict, MADE.query, lambda rows: MADE.axis_totals(rows[0][0])):
        with pytest.raises(InputError):
            predict([[far, 1]])


def test_a_truth_value_is_no_column() -> None:
    with pytest.raises(InputError, match="column must be"):
        interval_counts(DISTANCES, 0.1, 0.4, column=True)
