"""Spark in local mode: the sums of `threads` bit for bit, the same law with coins, failures, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import chi2
from typer.testing import CliRunner

from sfumato import InputError, Ledger, PrivateDistance, PrivateKDE, RaceSketch, bandwidth
from sfumato.cli import app
from sfumato.engines import Threads, shipping, spark
from sfumato.engines.base import Presence
from sfumato.engines.shipping import Work
from sfumato.engines.spark import SparkEngine
from sfumato.errors import EngineError
from sfumato.kernels import L2LSH, Gaussian
from sfumato.learn import AnomalyScore, DensityClassifier
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers import FourierQuantizer
from sfumato.sources import attach, open_source
from sfumato.sources.remote import Files
from tests.engines.missing import needs_spark
from tests.engines.workers import (
    GROUPS,
    LIMIT,
    PEOPLE,
    RECORDS,
    ROWS,
    Failing,
    Groups,
    Searched,
    Subsets,
    free_port,
    run_apart,
    start_local,
    write_points,
)  # fmt: skip

pytestmark = [needs_spark, pytest.mark.filterwarnings("ignore::FutureWarning")]
SETTINGS: dict[str, Any] = {"epsilon": 1.0, "random_state": 3, "feature_seed": 1}
ENCODER = FourierQuantizer.draw(Gaussian(1.0), 2, 20, 1, layout="pair")


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_points(tmp_path_factory.mktemp("points"))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """Spark in local mode, where every row group is a task, and which serves Connect too."""
    connect = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(free_port()),
    }
    made = start_local(tmp_path_factory.mktemp("spark"), **connect)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shipping, "TASK_NUMBERS", 1)
        yield made
    made.session.stop()


@pytest.fixture(scope="module")
def frame(engine: SparkEngine, points: Path) -> Any:
    return engine.session.read.parquet(str(points))


def test_sums_are_those_of_threads_bit_for_bit(engine: SparkEngine, points: Path, frame: Any) -> None:
    source = open_source(points, ["x", "y"])
    sums, kept, seen = Threads(1).sum(source, ENCODER)
    assert (kept, seen) == (ROWS - 2, ROWS)
    told: list[int] = []
    for data in (source, open_source(frame, ["x", "y"]), open_source([points, str(points)], ["x", "y"])):
        times = 2 if data.expected_rows == 2 * ROWS else 1
        found = engine.sum(data, ENCODER, progress=told.append)
        assert np.array_equal(found[0], times * sums) and found[1:] == (times * kept, times * seen)
        assert engine.count(data) == times * (ROWS - 2)
    assert sum(told) == 4 * ROWS


def test_arrays_have_the_length_that_is_declared(engine: SparkEngine, points: Path, frame: Any) -> None:
    """Lists of another length are rows without a number: no task fails for them, and no record decides the length."""
    cases = "CASE WHEN number < 10 THEN array(x) WHEN number < 20 THEN NULL ELSE array(x, y) END AS e"
    arrays = frame.selectExpr(cases)
    with pytest.raises(InputError, match="length of a column of lists is public"):
        open_source(arrays)
    found = engine.sum(open_source(arrays, ["e[2]"]), ENCODER)
    table = pq.read_table(points, columns=["x", "y"], filters=[("number", ">=", 20)])
    sums, kept, _ = Threads(1).sum(open_source(table), ENCODER)
    assert np.array_equal(found[0], sums) and found[1:] == (kept, ROWS)


def test_connect_gives_the_same(engine: SparkEngine, tmp_path: Path) -> None:
    port = engine.session.conf.get("spark.connect.grpc.binding.port")
    found = run_apart("on_connect", tmp_path, f"sc://127.0.0.1:{port}")
    assert found == {"files": True, "frame": True, "release": True, "users": True, "remote": True}


def test_first_attempts_that_fail_after_their_work_count_once(engine: SparkEngine, points: Path, frame: Any) -> None:
    sums = Threads(1).sum(open_source(points, ["x", "y"]), ENCODER)[0]
    for data in (points, frame):
        assert np.array_equal(engine.sum(open_source(data, ["x", "y"]), Failing(ENCODER))[0], sums)
        counts = engine.sum(open_source(data, ["number"]), Failing(Groups()), SecureBits())[0]
        # Every record is in one group, whichever attempt drew its coin.
        assert counts[:GROUPS].sum() == ROWS and np.array_equal(counts[GROUPS:], np.full(GROUPS, ROWS // GROUPS))
        assert chi2.sf(((counts[:GROUPS] - ROWS / GROUPS) ** 2 / (ROWS / GROUPS)).sum(), GROUPS - 1) > 1e-6


def subsets_are_uniform(counts: np.ndarray) -> bool:
    """Whether every user kept LIMIT records, each subset as often as chance has it (false alarms: 1e-6)."""
    sized = [mask for mask in range(2**RECORDS) if mask.bit_count() == LIMIT]
    expected = PEOPLE / len(sized)
    right = counts[sized]
    fits = chi2.sf(((right - expected) ** 2 / expected).sum(), len(sized) - 1) > 1e-6
    return bool(right.sum() == counts.sum() == PEOPLE and fits)


def test_users_are_chosen_by_the_law_of_one_machine(engine: SparkEngine, points: Path, frame: Any) -> None:
    for data in (points, frame):
        source = engine.counted(open_source(data, ["number", "bit"], key="person"), LIMIT, SecureBits())
        for encoder in (Subsets(), Failing(Subsets())):
            counts, kept, _ = engine.sum(source, encoder)
            assert kept == LIMIT * PEOPLE and subsets_are_uniform(counts)
    single = Threads(1)
    here = single.counted(open_source(points, ["number", "bit"], key="person"), LIMIT, SecureBits())
    whole = np.concatenate(list(here.batches()))
    sums = np.zeros(2**RECORDS, dtype=np.int64)
    Subsets().accumulate(whole, sums)
    assert subsets_are_uniform(sums)


def test_users_that_are_not_brought_together_are_found(engine: SparkEngine, points: Path) -> None:
    """The broken twin: rows go round, so that parts of one user are chosen from apart."""
    source = engine.counted(open_source(points, ["number", "bit"], key="person"), LIMIT, SecureBits())
    assert isinstance(source.read, Files)
    counts, kept = np.zeros(2**RECORDS, dtype=np.int64), 0
    work = Work(Subsets(), source.read.steps, 2)
    for hand in source.read.shards():  # as if each of them were a task
        partial = work.sum(work.read([hand]))
        counts, kept = counts + partial.sums, kept + partial.kept
    assert kept > LIMIT * PEOPLE and not subsets_are_uniform(counts)


def shuffled_after_python(planned: Any) -> bool:
    """Whether something is moved between tasks after the last step that may draw coins."""
    plan = planned._jdf.queryExecution().sparkPlan().toString().splitlines()
    return any("Exchange" in line or "Repartition" in line for line in plan[: _line(plan, "MapInArrow")])


def _line(plan: list[str], word: str) -> int:
    return next(place for place, line in enumerate(plan) if word in line)


def test_nothing_is_moved_after_a_coin(engine: SparkEngine, points: Path, frame: Any) -> None:
    for data in (points, frame):
        plain = open_source(data, ["number", "bit"])
        limited = engine.counted(open_source(data, ["number", "bit"], key="person"), LIMIT, SecureBits())
        for source, moves in ((plain, 0), (limited, 1)):
            read: Any = source.read
            work = Work(Subsets(), read.steps, 2)
            job = work.hands(read.shards()) if isinstance(read, Files) else read.frame
            planned = engine._planned(engine.session, read, work, job)
            text = planned._jdf.queryExecution().optimizedPlan().toString()
            assert text.count("Repartition") - text.count("Repartition 256, false") == moves
            assert not shuffled_after_python(planned)
            assert shuffled_after_python(planned.repartition(2))  # the broken twin


def test_weights_are_coins(engine: SparkEngine, points: Path, frame: Any) -> None:
    for data in (points, frame):
        source = engine.counted(open_source(data, ["number"], weight="weight"), 1, SecureBits())
        kept = engine.sum(source, Groups(), SecureBits())[1]
        assert abs(kept - ROWS / 4) < 5 * (ROWS * 3 / 16) ** 0.5
        assert not source.repeatable
        with pytest.raises(InputError, match="paid count reads the data twice"):
            PrivateKDE(L2LSH(1.0), method="race", n_hint="paid", engine=engine, **SETTINGS).fit(
                open_source(data, ["x", "y"], weight="weight")
            )


@pytest.mark.parametrize(
    "make",
    [
        lambda X, y, engine: (
            PrivateKDE(L2LSH(1.0), method="race", n_hint="paid", engine=engine, **SETTINGS).fit(X).release_
        ),
        lambda X, y, engine: PrivateDistance(bounds=(-5, 5), n_hint=ROWS, engine=engine, **SETTINGS).fit(X).release_,
        lambda X, y, engine: (
            PrivateKDE(
                bandwidth=1.0, method="lattice", delta=1e-6, bounds=(-4, 4), n_hint=ROWS, engine=engine, **SETTINGS
            )
            .fit(X)
            .release_
        ),
        lambda X, y, engine: (
            AnomalyScore(L2LSH(1.0), method="race", n_hint=ROWS, engine=engine, **SETTINGS).fit(X).release_
        ),
        lambda X, y, engine: (
            DensityClassifier(
                L2LSH(1.0), method="race", classes=["east", "west"], n_hint=ROWS, engine=engine, **SETTINGS
            )
            .fit(y, "label")
            .releases_["west"]
        ),
        lambda X, y, engine: (
            RaceSketch(L2LSH(1.0), dimension=2, rows=20, width=16, feature_seed=1)
            .add(X, engine=engine)
            .remove(X, engine=engine)
            .add(X, engine=engine)
            .release(epsilon=1, random_state=1)
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:NOT PRIVATE")
def test_every_estimator_gives_the_bytes_of_threads(engine: SparkEngine, points: Path, frame: Any, make: Any) -> None:
    def data(kind: Any) -> Any:
        return open_source(kind, ["x", "y"]), open_source(kind, ["x", "y"], key="label")

    expected = make(*data(points), "threads").to_bytes()
    assert make(*data(points), engine).to_bytes() == expected
    assert make(*data(frame), None).to_bytes() == expected  # a Spark DataFrame takes Spark by itself


@pytest.mark.filterwarnings("ignore:NOT PRIVATE")
@pytest.mark.parametrize("choice", [{"rule": "scott"}, {"target_density": 0.05}])
def test_bandwidths_are_bought_on_spark(engine: SparkEngine, points: Path, frame: Any, choice: dict[str, Any]) -> None:
    asked = {"epsilon": 5, "bounds": (-5, 5), "n_hint": ROWS, "random_state": 1, **choice}
    expected = bandwidth.private(open_source(points, ["x", "y"]), **asked).bandwidth
    assert bandwidth.private(open_source(points, ["x", "y"]), engine=engine, **asked).bandwidth == expected
    if "rule" in choice:  # pairs depend on the order of the rows
        assert bandwidth.private(frame.select("x", "y"), **asked).bandwidth == expected


@pytest.mark.filterwarnings("ignore:NOT PRIVATE")
def test_steps_pairs_and_categories_are_the_same_on_spark(engine: SparkEngine, points: Path, frame: Any) -> None:
    kinds = {"label": ["east", "west"]}
    asked: dict[str, Any] = {"bounds": (-5, 5), "n_hint": ROWS, "random_state": 3}

    def linear(data: Any, where: Any) -> Any:
        options = {"steps": 2}
        model = DensityClassifier(
            rule="linear", classes=kinds["label"], epsilon=2.0, delta=1e-6, options=options, engine=where, **asked
        )
        return model.fit(open_source(data, ["x", "y"], key="label"), "label").to_bytes()

    def search(data: Any, where: Any) -> Any:
        return bandwidth.search(
            open_source(data, ["x", "y"]), [0.1, 0.5], epsilon=5, engine=where, **asked
        ).to_document()

    def cells(data: Any, where: Any) -> Any:
        model = PrivateKDE(bandwidth=1.0, epsilon=1.0, feature_seed=1, categories=kinds, engine=where, **asked)
        return model.fit(data).release_.to_bytes()

    for make in (linear, search):
        assert make(points, engine) == make(points, "threads")
    assert linear(frame, None) == linear(points, "threads")
    one = pq.read_table(points, columns=["x", "label"])
    assert cells(frame.select("x", "label"), None) == cells(one, "threads")


def test_a_dataframe_takes_spark_by_itself(frame: Any, tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger").account("points")
    model = PrivateKDE(
        bandwidth=1.0, epsilon=500, n_hint="paid", unit="user", options={"max_records_per_user": 2}, ledger=account
    )
    release = model.fit(frame.select("x", "y", "person"), users="person").release_
    assert release.columns == ("x", "y") and release.guarantee.private
    assert abs(release.count.value - LIMIT * PEOPLE) <= 3
    assert [charge.unit for charge in account.charges] == ["user", "user"]


def test_the_command_line_takes_spark(engine: SparkEngine, points: Path, tmp_path: Path) -> None:
    for name, more in (("threads", []), ("spark", ["--master", "local[2,4]"])):
        words = ["release", str(points), "-o", str(tmp_path / f"{name}.sfm"), "--columns", "x,y", "--bandwidth", "1"]
        words += ["--epsilon", "1", "--n-hint", str(ROWS), "--method", "lsq-rff", "--feature-seed", "1"]
        result = CliRunner().invoke(app, [*words, "--seed-noise-not-private", "3", "--engine", name, *more])
        assert result.exit_code == 0, result.output
    assert (tmp_path / "threads.sfm").read_bytes() == (tmp_path / "spark.sfm").read_bytes()


def test_what_is_refused(engine: SparkEngine, points: Path, frame: Any) -> None:
    model = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=10, engine=engine)
    with pytest.raises(InputError, match="the engine spark reads files.*engine='threads'"):
        model.fit(np.eye(3))
    with pytest.raises(InputError, match="columns that are named"):
        engine.sum(attach(open_source(points, ["x"]), np.arange(ROWS)), Presence())
    dropping = {"max_records_per_user": 2, "outside": "drop"}
    paid = PrivateKDE(
        bandwidth=1.0, epsilon=1, n_hint="paid", unit="user", bounds=(-1, 1), options=dropping, engine=engine
    )
    with pytest.raises(InputError, match="chooses users' records anew"):
        paid.fit(open_source(points, ["x", "y"], key="person"))
    with pytest.raises(InputError, match="not numeric: 'label'"):
        open_source(frame, ["x", "label"])


class Odd:
    """A shard whose file is gone when a worker looks for it."""

    rows = None

    def pieces(self, rows: int) -> Any:
        return open_source("/nowhere/points.parquet").pieces(rows)


def test_a_job_that_fails_is_told_and_costs_nothing(engine: SparkEngine, points: Path, tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger").account("points")
    source = open_source(points, ["x", "y"])
    source.read = Files(shards=lambda: [Odd()], read=source.read)
    with pytest.raises(EngineError, match="no such file"):
        PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=10, ledger=account, engine=engine).fit(source)
    assert not account.charges


def test_results_are_counted_once() -> None:
    class Twice:
        """What accumulators and mixed attempts would give: one task's result, two times."""

        def toArrow(self) -> pa.Table:  # noqa: N802
            return pa.table({"task": [0, 1, 0], "kept": [1, 1, 1], "seen": [1, 1, 1], "sums": [bytes(8)] * 3})

    with pytest.raises(EngineError, match="twice"):
        spark._results(Twice())


def test_the_driver_holds_few_results() -> None:
    for size in (0, 100, 10**4, 10**6, 10**8):
        tasks = spark.most_tasks(size)
        assert tasks == 1 or tasks * 8 * size <= spark.RESULT_BYTES
    assert spark.most_tasks(4000) == spark.MOST_TASKS


def test_many_shards_are_several_jobs(monkeypatch: pytest.MonkeyPatch, engine: SparkEngine, points: Path) -> None:
    monkeypatch.setattr(spark, "MOST_TASKS", 3)
    source, told = open_source(points, ["x", "y"]), list[int]()
    sums = Threads(1).sum(source, ENCODER)
    found = engine.sum(source, ENCODER, progress=told.append)
    assert np.array_equal(found[0], sums[0]) and found[1:] == sums[1:] and sum(told) == ROWS and len(told) == 8


def test_garbage_is_searched_for_in_two_tasks_at_most(engine: SparkEngine, points: Path) -> None:
    """PySpark does after each: that takes as long as 250,000 rows do, once a worker has loaded what it needs."""
    searched = engine.sum(open_source(points, ["x", "y"]), Searched())[0][0]
    assert searched <= 2  # a first task in each worker


def test_an_old_spark_is_refused() -> None:
    class Session:
        version = "4.0.2"

    with pytest.raises(InputError, match="SPARK-51756.*4.1 or newer"):
        spark._check_version(Session())
