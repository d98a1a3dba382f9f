"""CPU time of `learn.select` on a parquet file against the release's features alone, and its peak memory.

Settings: `rows`, `columns`, `features` (of the release), `share` (of the pool that is selected), `row_group`,
`repetitions`.

The limit of scoring is one single-precision matrix product and one cosine for each row and feature; both are timed
alone, on a block of rows in the cache, as often as the pool has blocks. Selecting reads the file, scores and keeps the
best. Everything runs on one thread, in turn, and the least CPU time counts. Memory is the peak of `sfumato select` in a
process of its own, over that of the imported library, for this pool and for a quarter of it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.kinds import Measurement, Settings, Skipped, Unit
from benchmarks.kinds.memory import MEGABYTE, peak_of, write_parquet
from benchmarks.peak import STATUS
from benchmarks.timing import least_cpu_seconds
from sfumato import PrivateKDE, Release
from sfumato.learn import select
from sfumato.learn.selection import ROW_BLOCK, weigh_cosines

SEED = 1
PRODUCTS, COSINES = "matrix products alone", "cosines alone"
SELECT, SCORE = "select, from parquet", "Release.query on the same rows in memory, with error bars"
COLUMNS = {
    "m": "features",
    "chosen": "selected",
    "cpu_seconds": "CPU s",
    "over_parts": "/ (products + cosines)",
    "file_mb": "file MB",
    "over_import_mb": "peak over the import, MB",
    "quarter_mb": "for a quarter of the pool, MB",
}


def units(settings: Settings) -> Sequence[Unit]:
    return [{}]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    if not STATUS.exists():
        raise Skipped(f"this system has no {STATUS}")
    rows, columns, features = settings["rows"], settings["columns"], settings["features"]
    release = _release(columns, features)
    chosen = round(settings["share"] * rows)
    with tempfile.TemporaryDirectory() as folder:
        pool, quarter = Path(folder) / "pool.parquet", Path(folder) / "quarter.parquet"
        write_parquet(pool, rows, columns, settings["row_group"])
        write_parquet(quarter, rows // 4, columns, settings["row_group"])
        release.save(Path(folder) / "release.sfm")
        block = np.random.default_rng(SEED).standard_normal((ROW_BLOCK, columns), dtype=np.float32)
        actions: dict[str, Callable[[], object]] = {
            SELECT: lambda: select(release, pool, chosen, threads=1),
            **_parts(block, features, -(-rows // ROW_BLOCK)),
        }
        select(release, block, 10)
        with threadpool_limits(limits=1, user_api="blas"):
            seconds = least_cpu_seconds(actions, settings["repetitions"])
            few = np.tile(block, (64, 1))
            seconds[SCORE] = least_cpu_seconds({SCORE: lambda: release.query(few, return_std=True)}, 2)[SCORE]
            seconds[SCORE] *= rows / len(few)
        imported, peak, small = (peak_of(*command)[0] for command in _commands(Path(folder), pool, quarter, chosen))
        size = pool.stat().st_size
    parts = seconds[PRODUCTS] + seconds[COSINES]
    for label, cpu_seconds in seconds.items():
        values = {"m": features, "cpu_seconds": cpu_seconds}
        if label in (SELECT, SCORE):
            values["over_parts"] = cpu_seconds / parts
        if label == SELECT:
            values |= {"chosen": chosen, "file_mb": size / MEGABYTE}
            values |= {"over_import_mb": (peak - imported) / MEGABYTE, "quarter_mb": (small - imported) / MEGABYTE}
        yield Measurement(label, values, {"set": "normal, float32", "n": rows, "d": columns}, seeds=[SEED])


def _release(columns: int, features: int) -> Release:
    points = np.random.default_rng(SEED).standard_normal((5000, columns), dtype=np.float32)
    model = PrivateKDE(
        bandwidth=np.sqrt(columns),
        epsilon=1,
        method="lsq-rff",
        n_hint=5000,
        options={"n_features": features},
        feature_seed=SEED,
        random_state=SEED,
    )
    release: Release = model.fit(points).release_
    return release


def _parts(block: np.ndarray, features: int, blocks: int) -> dict[str, Callable[[], object]]:
    random = np.random.default_rng(SEED)
    weights = random.standard_normal((block.shape[1], features), dtype=np.float32)
    space, scores = np.empty((len(block), features), dtype=np.float32), np.empty(len(block))
    turns, offsets = random.standard_normal(space.shape, dtype=np.float32), np.zeros(features, dtype=np.float32)
    weigh_cosines(turns, offsets, offsets, scores)

    def products() -> None:
        for _ in range(blocks):
            np.dot(block, weights, out=space)

    def cosines() -> None:
        for _ in range(blocks):
            weigh_cosines(turns, offsets, offsets, scores)

    return {PRODUCTS: products, COSINES: cosines}


def _commands(folder: Path, pool: Path, quarter: Path, chosen: int) -> list[tuple[str, ...]]:
    release, out = str(folder / "release.sfm"), str(folder / "chosen.csv")
    arguments = ("-o", out, "--force")
    return [
        (),
        ("select", release, str(pool), "-k", str(chosen), *arguments),
        ("select", release, str(quarter), "-k", str(chosen), *arguments),
    ]
