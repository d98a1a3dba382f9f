"""Raw sketches: exact under insertion, deletion and merging, and released once unless paid again; merged releases."""

from __future__ import annotations

import copy
import math
import multiprocessing
import pickle
import threading
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import (
    BudgetError,
    InputError,
    Ledger,
    PrivateKDE,
    RaceSketch,
    Release,
    ReleaseFileError,
    load,
    merge_releases,
)
from sfumato.central.merging import Receipts
from sfumato.kernels import L2LSH, Angular, Gaussian, Jaccard, Laplacian
from sfumato.privacy import noise
from sfumato.release import format as container

POINTS = np.random.default_rng(0).normal(size=(3000, 2))
QUERIES = np.random.default_rng(1).normal(size=(20, 2))
KERNEL = L2LSH(0.7)


def _sketch(**arguments: Any) -> RaceSketch:
    settings: dict[str, Any] = {"kernel": KERNEL, "dimension": 2, "rows": 60, "width": 16, "feature_seed": 3}
    return RaceSketch(**{**settings, **arguments})


def _table(sketch: RaceSketch) -> list[int]:
    return [*sketch._counters.tolist(), sketch._kept, sketch._seen]


class TestRaw:
    @pytest.mark.parametrize("kernel", [KERNEL, Laplacian([0.5, 1.0]), Angular(3)], ids=repr)
    def test_shards_add_up_to_one_pass_bit_for_bit(self, kernel: Any) -> None:
        odd = np.vstack([POINTS, [[np.nan, 1.0], [np.inf, 0.0]]])
        whole = _sketch(kernel=kernel).add(odd)
        shards = [_sketch(kernel=kernel).add(part, threads=1 + i % 2) for i, part in enumerate(np.array_split(odd, 7))]
        merged = shards[0].merge(*shards[1:])
        assert _table(merged) == _table(whole)
        assert (merged._kept, merged._seen) == (3000, 3002)

    def test_streams_add_up(self) -> None:
        batches = (POINTS[i : i + 100] for i in range(0, 3000, 100))
        assert _table(_sketch().add(batches)) == _table(_sketch().add(POINTS[1000:]).add(POINTS[:1000]))

    def test_deletion_is_exact(self) -> None:
        sketch = _sketch().add(POINTS).remove(POINTS[500:2000])
        assert _table(sketch) == _table(_sketch().add(np.delete(POINTS, np.s_[500:2000], axis=0)))
        assert sum(_table(sketch.remove(POINTS[:500]).remove(POINTS[2000:]))) == 0

    def test_rows_that_were_never_added_cannot_be_removed(self) -> None:
        sketch = _sketch().add(POINTS[:100])
        before = _table(sketch)
        with pytest.raises(InputError, match="not in the sketch; nothing was removed"):
            sketch.remove(POINTS[:101])
        assert _table(sketch) == before

    def test_merging_leaves_the_parts_alone(self) -> None:
        first, second = _sketch().add(POINTS[:10]), _sketch().add(POINTS[10:30])
        before = _table(first), _table(second)
        first.merge(second).add(POINTS)
        assert (_table(first), _table(second)) == before

    def test_a_shard_is_merged_once(self) -> None:
        """Twice in one sketch, a record would move every counter by two, with noise for one."""
        first, second = _sketch().add(POINTS[:10]), _sketch().add(POINTS[10:30])
        merged = first.merge(second)
        for parts in ((first, first), (merged, second), (second, first.merge(second)), (merged, merged)):
            with pytest.raises(InputError, match="rows of the same shard"):
                parts[0].merge(*parts[1:])
        third = _sketch().add(POINTS[30:40])
        assert _table(merged.merge(third)) == _table(_sketch().add(POINTS[:40]))

    @pytest.mark.parametrize(
        "other",
        [
            {"feature_seed": 4},
            {"rows": 61},
            {"width": 32},
            {"kernel": L2LSH(0.8)},
            {"bounds": (-4, 4)},
            {"outside": "drop"},
        ],
        ids=str,
    )
    def test_sketches_of_other_parameters_do_not_merge(self, other: dict[str, Any]) -> None:
        with pytest.raises(InputError, match="different public parameters"):
            _sketch().merge(_sketch(**other))
        assert _sketch().fingerprint != _sketch(**other).fingerprint == _sketch(**other).fingerprint

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"kernel": Gaussian(1.0)}, "no hash family"),
            ({"kernel": "l2-lsh"}, "needs a bandwidth"),
            ({"rows": 0}, "rows must be a positive"),
            ({"dimension": 2.5}, "dimension must be a positive"),
            ({"width": 1}, "number of buckets"),
            ({"bounds": (1, 0)}, "lower < upper"),
        ],
    )
    def test_refusals(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            _sketch(**arguments)

    def test_rows_of_another_dimension_are_refused(self) -> None:
        with pytest.raises(InputError, match="of 2 columns, the rows have 3"):
            _sketch().add(np.zeros((4, 3)))

    @pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps])
    def test_copies_are_refused(self, copying: Any) -> None:
        with pytest.raises(TypeError, match="could be released unpaid"):
            copying(_sketch())

    def test_it_says_that_it_is_private(self) -> None:
        text = repr(_sketch().add(POINTS))
        assert "raw: PRIVATE" in text and "3000" not in text

    def test_files(self, tmp_path: Path) -> None:
        ledger = Ledger().account("people")
        sketch = _sketch(bounds=(-4, 4)).add(POINTS)
        sketch.release(epsilon=1, ledger=ledger)
        sketch.save(tmp_path / "shard")
        again = RaceSketch.load(tmp_path / "shard")
        assert _table(again) == _table(sketch) and again.fingerprint == sketch.fingerprint
        with pytest.raises(InputError, match="rows of the same shard"):
            again.merge(sketch)
        other = _sketch(bounds=(-4, 4)).add(POINTS)
        assert _table(again.merge(other)) == (2 * np.array(_table(sketch))).tolist()
        with pytest.raises(BudgetError, match="released before"):
            again.release(epsilon=1)
        with pytest.raises(ReleaseFileError, match="holds a raw sketch, which is PRIVATE"):
            load(tmp_path / "shard")
        again.release(epsilon=1, ledger=ledger).save(tmp_path / "public.sfm")
        with pytest.raises(ReleaseFileError, match="not a raw sketch"):
            RaceSketch.load(tmp_path / "public.sfm")

    def test_planned_sizes_are_those_of_the_method(self) -> None:
        facts: dict[str, Any] = {"n_hint": 20_000, "epsilon": 1, "bounds": (-4, 4)}
        sketch = RaceSketch.planned("l2-lsh", bandwidth=0.7, dimension=2, density=0.2, **facts)
        options = {"density": 0.2, "own_count": False}
        model = PrivateKDE(KERNEL, options=options, random_state=1, method="race", **facts).fit(POINTS)
        assert (sketch.quantizer.terms, sketch.quantizer.width) == (
            model.release_.parameters["rows"],
            model.release_.parameters["width"],
        )
        with pytest.raises(InputError, match="does not apply"):
            RaceSketch.planned(Gaussian(1.0), dimension=2, **facts)


class TestRelease:
    @pytest.mark.parametrize(
        "arguments",
        [{}, {"own_count": True}, {"delta": 1e-6}, {"neighbours": "replace"}, {"delta": 1e-6, "own_count": True}],
        ids=str,
    )
    def test_it_is_the_release_of_the_method(self, arguments: dict[str, Any], tmp_path: Path) -> None:
        """The same records, hash functions and noise seed give the same release as `PrivateKDE`."""
        release = _sketch(bounds=(-4, 4)).add(POINTS).release(epsilon="1/2", random_state=5, **arguments)
        options = {"rows": 60, "width": 16}
        if arguments.get("neighbours") != "replace":
            options["own_count"] = arguments.get("own_count", False)
        others = {name: value for name, value in arguments.items() if name != "own_count"}
        model = PrivateKDE(
            KERNEL, epsilon="1/2", n_hint=9, method="race", bounds=(-4, 4), options=options, feature_seed=3,
            random_state=5, **others,
        )  # fmt: skip
        expected = model.fit(POINTS).release_
        assert np.array_equal(release.values, expected.values)
        assert (release.count, release.guarantee, release.noise) == (expected.count, expected.guarantee, expected.noise)
        release.save(tmp_path / "release.sfm")
        assert np.array_equal(load(tmp_path / "release.sfm").query(QUERIES), expected.query(QUERIES))

    def test_answers_are_close_to_the_truth(self) -> None:
        release = _sketch(rows=200, width=64).add(POINTS).release(epsilon=4)
        answers, bars = release.query(QUERIES, return_std=True)
        scores = (answers - KERNEL.exact_density(POINTS, QUERIES)) / bars
        assert release.guarantee.private
        assert math.sqrt(np.mean(scores**2)) < 3  # the errors share their noise; a rough check of the real generator

    def test_a_second_release_must_be_paid(self) -> None:
        sketch = _sketch().add(POINTS)
        sketch.release(epsilon=1)
        for account in (None, Ledger().account("people")):
            with pytest.raises(BudgetError, match="released before") as refusal:
                sketch.release(epsilon="1/2", ledger=account)
            assert (refusal.value.requested, refusal.value.remaining) == (Fraction(1, 2), 0)

    def test_a_ledger_pays_until_it_is_empty(self) -> None:
        account = Ledger().account("people")
        account.set_budget(2)
        sketch = _sketch().add(POINTS)
        sketch.release(epsilon=1, ledger=account)
        sketch.add(POINTS[:5]).release(epsilon="1/2", ledger=account)
        with pytest.raises(BudgetError, match="released before"):
            sketch.release(epsilon="1/4")
        with pytest.raises(BudgetError, match="released before"):
            sketch.release(epsilon="1/4", ledger=Ledger().account("people"))
        with pytest.raises(BudgetError, match=r"epsilon = 0\.5"):
            sketch.release(epsilon=1, ledger=account)
        assert account.spent[0] == Fraction(3, 2)

    def test_parts_and_wholes_know_of_each_other(self) -> None:
        first, second = _sketch().add(POINTS[:10]), _sketch().add(POINTS[10:])
        merged = first.merge(second)
        second.release(epsilon=1)
        with pytest.raises(BudgetError, match="released before"):
            merged.release(epsilon=1)
        first.release(epsilon=1)
        third = _sketch().add(POINTS)
        both = third.merge(_sketch().add(POINTS))
        both.release(epsilon=1)
        with pytest.raises(BudgetError, match="released before"):
            third.release(epsilon=1)

    def test_the_charge_is_made_before_any_noise(self, monkeypatch: pytest.MonkeyPatch) -> None:
        account, seen = Ledger().account("people"), []

        def sample(self: Any, bits: Any, count: int) -> Any:
            seen.append(account.spent[0])
            raise KeyboardInterrupt

        monkeypatch.setattr(noise.DiscreteLaplace, "sample", sample)
        sketch = _sketch().add(POINTS)
        with pytest.raises(KeyboardInterrupt):
            sketch.release(epsilon=1, ledger=account)
        assert seen == [1]
        with pytest.raises(BudgetError, match="released before"):
            sketch.release(epsilon=1)

    def test_an_overdrawn_account_leaves_the_sketch_unreleased(self) -> None:
        account = Ledger().account("people")
        account.set_budget("1/2")
        sketch = _sketch().add(POINTS)
        with pytest.raises(BudgetError):
            sketch.release(epsilon=1, ledger=account)
        sketch.release(epsilon="1/2", ledger=account)

    @pytest.mark.parametrize("epsilon", [0, -1, "x", None])
    def test_epsilon_is_checked(self, epsilon: Any) -> None:
        with pytest.raises(InputError, match="epsilon"):
            _sketch().release(epsilon=epsilon)


class TestMergedReleases:
    sites = tuple(np.array_split(POINTS, 3))

    def _published(self, epsilons: tuple[Any, ...] = (1, 1, 1), **arguments: Any) -> list[Release]:
        return [
            _sketch().add(points).release(epsilon=epsilon, random_state=i, **arguments)
            for i, (points, epsilon) in enumerate(zip(self.sites, epsilons, strict=True))
        ]

    @pytest.mark.parametrize("arguments", [{}, {"delta": 1e-6}, {"neighbours": "replace"}], ids=str)
    def test_tables_counts_and_variances_add_up(self, arguments: dict[str, Any], tmp_path: Path) -> None:
        releases = self._published(**arguments)
        merged = merge_releases(releases)
        assert np.array_equal(merged.values, sum(release.values for release in releases))
        assert merged.count.value == sum(release.count.value for release in releases)
        assert merged.count.variance == pytest.approx(3 * releases[0].count.variance)
        assert merged.noise.variance == pytest.approx(3 * releases[0].noise.variance)
        assert merged.parameters["sites"] == 3
        merged.save(tmp_path / "merged.sfm")
        again = load(tmp_path / "merged.sfm")
        assert again.describe() == merged.describe()
        assert np.array_equal(again.query(QUERIES), merged.query(QUERIES))

    def test_answers_are_those_of_all_records(self) -> None:
        merged = merge_releases(self._published((20, 20, 20)))
        answers, bars = merged.query(QUERIES, return_std=True)
        scores = (answers - KERNEL.exact_density(POINTS, QUERIES)) / bars
        assert math.sqrt(np.mean(scores**2)) < 2
        assert np.mean(bars) < 0.05

    def test_the_promise_is_that_of_the_worst_site(self) -> None:
        merged = merge_releases(self._published((1, "1/2", 2)))
        assert merged.guarantee.epsilon == 2
        assert "each record is with one of 3 sites" in merged.statement()
        assert "NOT PRIVATE" in str(merged.guarantee)
        secret = [_sketch().add(points).release(epsilon=1) for points in self.sites]
        assert merge_releases(secret).guarantee.private
        assert not merge_releases([*secret, *self._published()]).guarantee.private

    def test_what_does_not_add_up_is_refused(self) -> None:
        releases = self._published()
        other_seed = _sketch(feature_seed=9).add(POINTS).release(epsilon=1)
        fourier = PrivateKDE(Gaussian(1.0), epsilon=1, n_hint=9, method="fourier").fit(POINTS).release_
        for odd, message in [
            (other_seed, "different public parameters"),
            (fourier, "different public parameters"),
            (self._published(delta=1e-6)[0], "delta at all or none"),
            (self._published(neighbours="replace")[0], "hide different things"),
            (merge_releases(releases), "merge all sites at once"),
        ]:
            with pytest.raises(InputError, match=message):
                merge_releases([*releases, odd])
        with pytest.raises(InputError, match="nothing to merge"):
            merge_releases([])

    def test_a_release_counts_once(self, tmp_path: Path) -> None:
        """Twice the same noise is not the noise of two sites, and the error bar would be too short."""
        releases = self._published()
        releases[2].save(tmp_path / "copy.sfm")
        for twice in (releases[2], load(tmp_path / "copy.sfm")):
            with pytest.raises(InputError, match="every site once"):
                merge_releases([*releases, twice])

    def test_few_integers_with_little_noise_may_be_the_same(self) -> None:
        sketches = [RaceSketch(KERNEL, dimension=2, rows=1, width=2, feature_seed=1) for _ in range(2)]
        empty = [sketch.release(epsilon=100) for sketch in sketches]
        same = [replace(empty[0], values=empty[1].values, count=empty[1].count), empty[1]]
        assert merge_releases(same).parameters["sites"] == 2


@pytest.mark.parametrize("deviation", [0.05, 0.3, 1.0, 3.0, 50.0])
def test_noise_repeats_no_more_often_than_is_said(deviation: float) -> None:
    rate = Fraction(2 * math.asinh(1 / (math.sqrt(2) * deviation))).limit_denominator(1000)
    law, decay = noise.DiscreteLaplace(rate), math.exp(-rate)
    assert math.sqrt(law.variance) == pytest.approx(deviation, rel=0.1)
    chances = [(1 - decay) / (1 + decay) * decay ** abs(value) for value in range(-2000, 2001)]
    spread = math.sqrt(law.variance)
    assert math.fsum(chance**2 for chance in chances) <= 1 / (1 + min(spread, spread**2))


def test_sets_can_be_sketched() -> None:
    sets = (np.random.default_rng(4).random((2000, 15)) < 0.3).astype(float)
    release = RaceSketch(Jaccard(), dimension=15, rows=100, width=32).add(sets).release(epsilon=5)
    errors = release.query(sets[:20]) - Jaccard().exact_density(sets, sets[:20])
    assert np.abs(errors).mean() < 0.05


class TestThreads:
    """Two threads meet between the check that nothing was released and the charge, unless they are kept apart."""

    @pytest.mark.parametrize("related", ["itself", "merged"])
    def test_records_are_released_once(self, monkeypatch: pytest.MonkeyPatch, related: str) -> None:
        sketch = _sketch(rows=4).add(POINTS[:50])
        other = sketch if related == "itself" else sketch.merge(_sketch(rows=4).add(POINTS[50:60]))
        meeting, check, outcomes = threading.Barrier(2), Receipts.check, []

        def check_and_wait(self: Receipts, *arguments: Any) -> None:
            check(self, *arguments)
            with suppress(threading.BrokenBarrierError):  # the other one waits for its turn, as it should
                meeting.wait(timeout=0.5)

        monkeypatch.setattr(Receipts, "check", check_and_wait)

        def release(part: RaceSketch) -> None:
            try:
                outcomes.append(part.release(epsilon=1))
            except BudgetError as refusal:
                outcomes.append(refusal)

        threads = [threading.Thread(target=release, args=(part,)) for part in (sketch, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["BudgetError", "Release"]

    def test_rows_added_by_many_threads_all_count(self) -> None:
        sketch, parts = _sketch(), np.array_split(POINTS, 60)
        threads = [threading.Thread(target=sketch.add, args=(part, 1)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert _table(sketch) == _table(_sketch().add(POINTS))

    def test_a_forked_copy_is_not_released_unpaid(self, tmp_path: Path) -> None:
        sketch, fork = _sketch(rows=4).add(POINTS[:50]), multiprocessing.get_context("fork")
        answers = fork.SimpleQueue()

        def child() -> None:
            for copied in (sketch, sketch.merge()):
                try:
                    copied.release(epsilon=1)
                    answers.put("released")
                except BudgetError as refusal:
                    answers.put(str(refusal))
            sketch.release(epsilon=1, ledger=Ledger(tmp_path / "ledger.jsonl").account("people"))

        process = fork.Process(target=child)
        process.start()
        process.join()
        assert all("a fork copied this sketch" in answers.get() for _ in range(2)) and process.exitcode == 0
        assert len(Ledger(tmp_path / "ledger.jsonl").account("people").charges) == 1


@pytest.mark.parametrize(
    "harm",
    [
        lambda header, arrays: header.pop("kernel"),
        lambda header, arrays: header.update(kernel={"kernel": "gaussian"}),
        lambda header, arrays: header.update(kernel=7),
        lambda header, arrays: header.update(quantizer=[]),
        lambda header, arrays: header["quantizer"].popitem(),
        lambda header, arrays: header["quantizer"].update(value=1000),  # rows added then would have noise for one each
        lambda header, arrays: header.update(kept=-1),
        lambda header, arrays: header.update(kept=1e300),
        lambda header, arrays: header.update(seen=None),
        lambda header, arrays: header.update(seen=3),
        lambda header, arrays: header.update(charges={}),
        lambda header, arrays: header.update(charges={"a": 3}),
        lambda header, arrays: header.update(charges={"a": [3]}),
        lambda header, arrays: header.update(extra=1),
        lambda header, arrays: arrays.pop("counters"),
        lambda header, arrays: arrays.update(counters=arrays["counters"] + 1),
        lambda header, arrays: arrays.update(counters=-arrays["counters"]),
        lambda header, arrays: arrays.update(counters=arrays["counters"] * 1.5),
        lambda header, arrays: arrays.update(counters=arrays["counters"][:-1]),
        lambda header, arrays: arrays.update(counters=arrays["counters"].reshape(-1, 2)),
    ],
)
def test_hostile_sketches_are_refused(tmp_path: Path, harm: Any) -> None:
    path = tmp_path / "shard"
    RaceSketch(L2LSH(1.0), dimension=2, rows=4, width=8, feature_seed=1).add(POINTS).save(path)
    assert RaceSketch.load(path).release(epsilon=1).dimension == 2
    header, arrays = container.decode(path)
    harm(header, arrays)
    path.write_bytes(container.encode(header, arrays))
    with pytest.raises(ReleaseFileError):
        RaceSketch.load(path)
