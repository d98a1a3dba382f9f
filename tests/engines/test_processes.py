"""Processes: the second engine behind the same door, and the files and lists of files that it is given."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato import EngineError, InputError, Ledger, PrivateKDE
from sfumato.engines import Threads, shipping
from sfumato.engines.contributions import bounded, one_pass
from sfumato.engines.processes import Processes
from sfumato.kernels import L2LSH, Gaussian
from sfumato.learn import DensityClassifier
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers import FourierQuantizer
from sfumato.sources import attach, open_source
from sfumato.sources.remote import Files
from tests.engines.workers import LIMIT, PEOPLE, ROWS, Waiting, begun, write_points

ENCODER = FourierQuantizer.draw(Gaussian(1.0), 2, 20, 1, layout="pair")


def test_sums_are_those_of_threads_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "TASK_NUMBERS", 1)  # every row group is a task
    points = write_points(tmp_path)
    table = pq.read_table(points, columns=["x", "y"])
    np.save(tmp_path / "points.npy", np.column_stack([table["x"], table["y"]]))
    expected, told = Threads(1).sum(open_source(points, ["x", "y"]), ENCODER), list[int]()
    for workers, data in ((2, open_source(points, ["x", "y"])), (1, open_source(tmp_path / "points.npy"))):
        sums, kept, seen = Processes(workers).sum(data, ENCODER, progress=told.append)
        assert np.array_equal(sums, expected[0]) and (kept, seen) == expected[1:]
    assert sum(told) == 2 * ROWS and len(told) == 9


@pytest.mark.filterwarnings("ignore:NOT PRIVATE")
def test_labels_and_users_reach_the_processes(tmp_path: Path) -> None:
    points = write_points(tmp_path)
    settings = {"method": "race", "epsilon": 1.0, "random_state": 3, "feature_seed": 1, "n_hint": ROWS}
    labelled = open_source(points, ["x", "y"], key="label")
    here, there = (
        DensityClassifier(L2LSH(1.0), classes=["east", "west"], engine=engine, **settings).fit(labelled, "label")
        for engine in ("threads", "processes")
    )
    assert here.releases_["west"].to_bytes() == there.releases_["west"].to_bytes()
    model = PrivateKDE(
        L2LSH(1.0), unit="user", engine=Processes(1), **{**settings, "epsilon": 500, "n_hint": "paid"},
        options={"max_records_per_user": LIMIT},
    )  # fmt: skip
    counted = model.fit(open_source(points, ["x", "y"], key="person")).release_.count.value
    assert abs(counted - LIMIT * PEOPLE) <= 3


def test_one_pass_chooses_what_two_passes_choose() -> None:
    random = np.random.default_rng(3)
    source = attach(open_source(np.arange(1000.0)[:, None]), random.integers(0, 40, 1000))
    [rows] = one_pass(source.pieces(64), 3, SecureBits.seeded(5))
    twice = np.concatenate(list(bounded(source, 3, SecureBits.seeded(5)).batches()))
    assert np.array_equal(np.sort(rows.block, axis=0), twice)


def test_what_was_done_to_the_rows_is_never_missed(tmp_path: Path) -> None:
    """A source with users put beside its rows must not be read from its files as if it had none."""
    source = open_source(write_points(tmp_path), ["x", "y"])
    assert isinstance(source.read, Files)
    for changed in (
        attach(source, np.arange(ROWS)),
        attach(source, weights=np.zeros(ROWS)),
        Threads().counted(attach(source, np.arange(ROWS)), 1, SecureBits()),
    ):
        with pytest.raises(InputError, match="columns that are named"):
            Processes(1).sum(changed, ENCODER)


def test_lists_of_files(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(100, 2))
    pq.write_table(pa.table({"x": rows[:40, 0].astype("f4"), "y": rows[:40, 1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": rows[40:, 0], "y": rows[40:, 1]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"y": rows[:, 0], "x": rows[:, 1]}), tmp_path / "c.parquet")
    (tmp_path / "d.csv").write_text("x,y\n1,2\n")
    whole = open_source([tmp_path / "a.parquet", str(tmp_path / "b.parquet"), tmp_path / "d.csv"])
    read = np.concatenate(list(whole.batches(7)))
    assert read.shape == (101, 2) and np.array_equal(read[40:100], rows[40:]) and read[100].tolist() == [1.0, 2.0]
    sums = [engine.sum(whole, ENCODER)[0] for engine in (Threads(1), Processes(1))]
    assert np.array_equal(*sums)
    assert open_source([tmp_path / "a.parquet", tmp_path / "b.parquet"]).expected_rows == 100
    with pytest.raises(InputError, match="Pass columns= with those that all files have"):
        open_source([tmp_path / "a.parquet", tmp_path / "c.parquet"])


def test_a_process_that_is_killed_costs_nothing(tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger").account("points")

    class Slow(Processes):
        def run(self, read: Any, work: Any, take: Any) -> None:
            from dataclasses import replace

            super().run(read, replace(work, encoder=Waiting(work.encoder, str(tmp_path))), take)

    killed: list[int] = []

    def kill() -> None:
        if begun(tmp_path):
            killed.append(int(next(tmp_path.glob("begun-*")).name.partition("-")[2]))
            os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    model = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=10, ledger=account, engine=Slow(1))
    with pytest.raises(EngineError, match="ended from outside"):
        model.fit(open_source(write_points(tmp_path), ["x", "y"]))
    thread.join()
    assert killed and not account.charges
