"""Parts of sites: exact sums that add up to those of all rows, merged once, charged every time, and nobody else's."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato import (
    BudgetError,
    InputError,
    Ledger,
    Part,
    PrivateDistance,
    PrivateKDE,
    RaceSketch,
    merge_parts,
    merge_releases,
)
from sfumato.central.merging import Receipts
from sfumato.central.parts import SITE_CONDITION
from sfumato.errors import ReleaseFileError
from sfumato.kernels import L2LSH, Gaussian, InnerProduct
from sfumato.methods.method import Registry
from sfumato.release import format as container

POINTS = np.random.default_rng(0).normal(size=(3000, 2))
SITES = [POINTS[:500], POINTS[500:1700], POINTS[1700:]]
SETTINGS: dict[str, Any] = {"epsilon": 1, "n_hint": 3000, "feature_seed": 1}
QUERIES = np.random.default_rng(1).normal(size=(10, 2))

# One of every kind of encoder; without coins releases are the same bit for bit.
COINS = {"landmarks"}
MODELS = {
    "race": lambda **more: PrivateKDE(L2LSH(1.0), method="race", **SETTINGS, **more),
    "fourier-gaussian": lambda **more: PrivateKDE(
        bandwidth=1.0, method="fourier-gaussian", delta=1e-6, **SETTINGS, **more
    ),
    "grid": lambda **more: PrivateKDE(bandwidth=1.0, method="grid", bounds=(-4, 4), **SETTINGS, **more),
    "lattice": lambda **more: PrivateKDE(
        bandwidth=1.0, method="lattice", delta=1e-6, bounds=(-4, 4), **SETTINGS, **more
    ),
    "landmarks": lambda **more: PrivateKDE(
        bandwidth=1.0, method="landmarks", landmarks=POINTS[:40], bounds=(-4, 4), **SETTINGS, **more
    ),
    "inner-product": lambda **more: PrivateKDE(InnerProduct(3.0), method="inner-product", **SETTINGS, **more),
    "replace": lambda **more: PrivateKDE(L2LSH(1.0), method="race", neighbours="replace", **SETTINGS, **more),
    "distance": lambda **more: PrivateDistance(bounds=(-4, 4), **SETTINGS, **more),
}


def sums_of(model: PrivateKDE | PrivateDistance, **more: Any) -> list[Part]:
    return [Part.of(model, rows, site=f"site {i}", **more) for i, rows in enumerate(SITES)]


@pytest.mark.filterwarnings("ignore:NOT PRIVATE")
@pytest.mark.parametrize("name", MODELS)
def test_merged_parts_are_the_release_of_all_rows(name: str, tmp_path: Path) -> None:
    make = MODELS[name]
    parts = sums_of(make())
    for place, part in enumerate(parts):
        part.save(tmp_path / f"{place}.part")
        assert os.stat(tmp_path / f"{place}.part").st_mode & 0o777 == 0o600
    loaded = [Part.load(tmp_path / f"{place}.part") for place in range(3)]
    assert [part.public for part in loaded] == [part.public for part in parts]
    whole = make(random_state=4).fit(POINTS).release_
    for each in (parts, loaded):
        merged = merge_parts(each, random_state=4)
        assert merged.values.shape == whole.values.shape and merged.count == whole.count
        assert merged.noise == whole.noise and merged.parameters == {**whole.parameters, "sites": 3}
        assert merged.guarantee.conditions == (*whole.guarantee.conditions, SITE_CONDITION.format(3))
        if name not in COINS:
            assert np.array_equal(merged.values, whole.values)
            assert np.array_equal(merged.query(QUERIES), whole.query(QUERIES))


def test_users_and_weights_are_chosen_at_their_sites() -> None:
    options = {"max_records_per_user": 2, "count_share": "1/2"}
    model = PrivateKDE(L2LSH(1.0), method="race", unit="user", options=options, **{**SETTINGS, "epsilon": 500})
    users = [np.arange(len(rows)) // 5 + 1000 * site for site, rows in enumerate(SITES)]
    parts = [
        Part.of(model, rows, users=names, sample_weight=np.ones(len(rows)))
        for rows, names in zip(SITES, users, strict=True)
    ]
    release = merge_parts(parts)
    assert release.sampled and abs(release.count.value - 2 * 600) <= 3
    assert any("each person's records are all at one" in said for said in release.guarantee.conditions)


def test_a_part_is_merged_once_and_so_is_a_site(tmp_path: Path) -> None:
    model = MODELS["race"]()
    parts = sums_of(model)
    parts[0].save(tmp_path / "a.part")
    copied = Part.load(tmp_path / "a.part")
    with pytest.raises(InputError, match="copies of one"):
        merge_parts([*parts, copied])
    with pytest.raises(InputError, match="the same site"):
        merge_parts([*parts, Part.of(model, SITES[0], site="site 0")])
    with pytest.raises(InputError, match="nothing to merge"):
        merge_parts([])


def test_parts_of_other_parameters_are_refused() -> None:
    part = Part.of(MODELS["race"](), SITES[0])
    for change in ({"epsilon": 2}, {"feature_seed": 2}, {"n_hint": 40_000}, {"delta": 1e-6}, {"neighbours": "replace"}):
        other = PrivateKDE(L2LSH(1.0), method="race", **{**SETTINGS, **change})
        with pytest.raises(InputError, match="different public parameters"):
            merge_parts([part, Part.of(other, SITES[1])])
    named = pa.table({"x": SITES[1][:, 0], "y": SITES[1][:, 1]})
    with pytest.raises(InputError, match="columns and feature_seed"):
        merge_parts([part, Part.of(MODELS["race"](), named)])


def test_every_release_of_a_part_is_charged(tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger").account("all sites")
    account.set_budget(2)
    parts = sums_of(MODELS["race"](ledger=account))
    assert not account.charges
    merge_parts(parts, ledger=account)
    merge_parts(parts[:2], ledger=account)
    assert account.spent[0] == Fraction(2) and len(account.charges) == 2
    with pytest.raises(BudgetError):
        merge_parts(parts, ledger=account)
    with pytest.raises(BudgetError, match="released before"):
        merge_parts(parts)
    assert len(account.charges) == 2
    fresh = sums_of(MODELS["race"]())
    merge_parts(fresh)
    with pytest.raises(BudgetError, match="released before"):
        merge_parts(fresh[:1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feature_seed": None}, "feature_seed is missing"),
        ({"n_hint": "paid"}, "cannot be bought before"),
        ({"random_state": 1}, "no use in a part"),
        ({"kernel": Gaussian(1.0), "bounds": None, "method": "grid"}, "bounds"),
    ],
)
@pytest.mark.filterwarnings("ignore:NOT PRIVATE")
def test_what_a_part_needs(change: dict[str, Any], message: str) -> None:
    settings = {"kernel": L2LSH(1.0), "method": "race", **SETTINGS, **change}
    with pytest.raises(InputError, match=message):
        Part.of(PrivateKDE(settings.pop("kernel"), **settings), SITES[0])


def test_altered_files_are_refused(tmp_path: Path) -> None:
    part = Part.of(MODELS["race"](), SITES[0])
    header, arrays = container.decode(part.to_bytes())

    def file(name: str, **change: Any) -> Path:
        sums = change.pop("sums", arrays["sums"])
        path = tmp_path / name
        path.write_bytes(container.encode({**header, **change}, {"sums": sums}))
        return path

    assert np.array_equal(Part.load(file("same.part")).sums, part.sums)
    for name, change in {
        "kept": {"kept": 10**18},
        "more": {"kept": header["seen"] + 1},
        "huge": {"sums": arrays["sums"] * 10**6},
        "short": {"sums": arrays["sums"][:-1]},
        "request": {"request": {**header["request"], "epsilon": "2"}},
        "method": {"method": "lattice"},
        "wide": {"method": "auto", "request": {**header["request"], "dimension": 2**20}},  # was: minutes of planning
        "wider": {"request": {**header["request"], "dimension": 2**62}},
        "lists": {"request": []},
        "content": {"content": "a release"},
    }.items():
        with pytest.raises(ReleaseFileError):
            Part.load(file(f"{name}.part", **change))
    damaged = bytearray(part.to_bytes())
    damaged[-40] ^= 1
    (tmp_path / "damaged.part").write_bytes(damaged)
    with pytest.raises(ReleaseFileError, match="checksum"):
        Part.load(tmp_path / "damaged.part")


def test_a_part_that_claims_more_sums_than_it_holds_is_refused_before_any_feature_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = PrivateKDE(bandwidth=0.5, method="fourier", bounds=(0, 1), **SETTINGS)
    header, arrays = container.decode(Part.of(model, SITES[0]).to_bytes())
    request = {**header["request"], "dimension": 50, "bounds": [0.0, 1.0], "options": {"n_features": 2**21}}
    (tmp_path / "part").write_bytes(container.encode({**header, "request": {**request, "n": 10**12}}, arrays))
    monkeypatch.setattr(Registry, "build", None)  # nothing is built
    with pytest.raises(ReleaseFileError, match="sums, and its request takes more"):
        Part.load(tmp_path / "part")


def test_landmarks_that_no_site_would_take_are_refused_before_they_are_decomposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = Part.of(MODELS["landmarks"](), SITES[0])
    header, arrays = container.decode(part.to_bytes())
    points = np.random.default_rng(2).normal(size=(2001, 2))
    monkeypatch.setattr(Registry, "build", None)  # nothing is built
    for landmarks in (points, points[:4], points[:, 0], points[:40] * 1e60, points[:40] + np.nan):
        (tmp_path / "part").write_bytes(container.encode(header, {**arrays, "landmarks": landmarks}))
        with pytest.raises(ReleaseFileError, match="5 to 2000 rows"):
            Part.load(tmp_path / "part")


def test_sites_with_different_processors_sum_the_same_features_of_landmarks() -> None:
    """What several threads of BLAS decompose is rounded in another order."""
    program = (
        "import numpy as np; from sfumato import Part, PrivateKDE\n"
        "points = np.random.default_rng(0).normal(size=(400, 2))\n"
        "for count in (100, 400):\n"
        "    landmarks = {'method': 'landmarks', 'landmarks': points[:count], 'bounds': (-4, 4)}\n"
        "    model = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=3000, feature_seed=1, **landmarks)\n"
        "    print(Part.of(model, points).public)\n"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for threads in "12"
    ]
    assert printed[0] == printed[1] and len(printed[0].split()) == 2


def test_parts_of_many_columns_are_refused_before_anything_is_summed() -> None:
    with pytest.raises(InputError, match="at most 1024 columns, not 1025; name a method"):
        Part.of(PrivateKDE(bandwidth=1.0, **SETTINGS), np.zeros((10, 1025)))
    with pytest.raises(InputError, match="at most 4096 columns"):
        Part.of(MODELS["race"](), np.zeros((10, 4097)))


def test_two_threads_release_parts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They meet between the check that nothing was released and the note of it, unless they are kept apart."""
    parts = sums_of(MODELS["race"]())
    meeting, check, outcomes = threading.Barrier(2), Receipts.check, []

    def check_and_wait(self: Receipts, *arguments: Any) -> None:
        check(self, *arguments)
        with suppress(threading.BrokenBarrierError):  # the other one waits for its turn, as it should
            meeting.wait(timeout=0.5)

    monkeypatch.setattr(Receipts, "check", check_and_wait)

    def merge() -> None:
        try:
            outcomes.append(merge_parts(parts))
        except BudgetError as refusal:
            outcomes.append(refusal)

    threads = [threading.Thread(target=merge) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["BudgetError", "Release"]


def test_a_ledger_is_an_account_that_names_the_data(tmp_path: Path) -> None:
    part, account = Part.of(MODELS["race"](), SITES[0]), Ledger(tmp_path / "ledger.jsonl").account("north")
    sketch = RaceSketch(L2LSH(1.0), dimension=2, rows=20, width=8).add(SITES[0])
    for wrong in (tmp_path / "ledger.jsonl", str(tmp_path / "other.jsonl"), account.ledger):
        with pytest.raises(InputError, match="ledger must be an account here"):
            merge_parts([part], ledger=wrong)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="ledger must be an account here"):
            sketch.release(epsilon=1, ledger=wrong)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
    for release in (merge_parts([part], ledger=account), sketch.release(epsilon=1, ledger=account)):
        assert release.guarantee.epsilon == 1


def test_parts_are_not_copied() -> None:
    part = Part.of(MODELS["race"](), SITES[0])
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="released unpaid"):
            copying(part)
    assert "sums" not in repr(part) and str(part.kept) not in repr(part).replace("3000", "").replace(part.site, "")


@pytest.mark.filterwarnings("ignore:NOT PRIVATE")
@pytest.mark.parametrize("name", [name for name in MODELS if name != "replace"])
def test_releases_of_sites_that_trust_nobody_add_up_with_their_noise(name: str) -> None:
    releases = [MODELS[name](random_state=seed).fit(rows).release_ for seed, rows in enumerate(SITES)]
    merged = merge_releases(releases)
    assert np.array_equal(merged.values, sum(release.values for release in releases))
    assert merged.noise.variance == pytest.approx(3 * releases[0].noise.variance)
    assert merged.guarantee.epsilon == 1 and merged.parameters["sites"] == 3
    answers, bars = merged.query(QUERIES, return_std=True)
    assert np.isfinite(answers).all() and (bars > 0).all()


@pytest.mark.parametrize(("unit", "whole"), [("record", "each record is"), ("user", "each user's records are all")])
def test_merged_promises_say_that_nobody_is_at_two_sites(unit: str, whole: str) -> None:
    """A user at two sites has the noise of two releases around them, and the sum of their epsilons."""
    more = {"unit": unit, "options": {"max_records_per_user": 2}} if unit == "user" else {}
    model = PrivateKDE(L2LSH(1.0), method="race", **SETTINGS, **more)
    users = None if unit == "record" else np.arange(len(POINTS)) // 2
    merged = merge_releases([model.fit(POINTS, users=users).release_ for _ in range(2)])
    assert merged.guarantee.conditions[-1].startswith(f"{whole} with one of 2 sites")


def test_merged_answers_are_those_of_all_rows_within_their_bars() -> None:
    loud = {**SETTINGS, "epsilon": 20, "n_hint": 900}
    releases = [PrivateKDE(bandwidth=1.0, method="fourier", **loud).fit(rows).release_ for rows in SITES]
    merged = merge_releases(releases)
    answers, bars = merged.query(QUERIES, return_std=True)
    scores = (answers - Gaussian(1.0).exact_density(POINTS, QUERIES)) / bars
    assert (np.abs(scores) < 6).all()
