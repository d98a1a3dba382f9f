"""Error and time of projected releases against the number of columns, on synthetic embeddings.

Settings: `n`, `d`, `queries`, `epsilon` (text), `method`, `neighbours`, `seeds` (how many), `repeats` of a timing, and
`columns` (to project to). Embeddings are unit normals plus forty common directions; the bandwidth makes the kernel 0.05
at the mean squared distance. Each number of columns is a unit: the dense projection, and the fast one to the columns
at which its variance of squared distances is the dense one's (k with 1 / k = 1 / columns + 1 / d), both in one run. The
unit without columns does not project.

Times are CPU seconds: of the projection of all points alone, of the whole release, and of all queries.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.kinds import Measurement, Settings, Unit
from sfumato import PrivateKDE, plan
from sfumato.kernels import Gaussian
from sfumato.quantizers import ProjectedPoints
from sfumato.threads import one_blas_thread

COLUMNS = {
    "columns": "columns",
    "rmse": "RMSE",
    "relative": "mean relative error",
    "predicted": "predicted RMSE",
    "ratio": "measured / predicted",
    "bar_ratio": "error bar / measured",
    "projection_seconds": "projection CPU s",
    "seconds": "construction CPU s",
    "query_seconds": "queries CPU s",
    "faster": "dense projection / this one, CPU",
    "construction_faster": "dense construction / this one, CPU",
}
DATA_SEED, COMMON = 1, 40
Points = NDArray[np.float32]


@lru_cache(maxsize=1)
def embeddings(n: int, d: int) -> Points:
    """Synthetic embeddings: common directions and noise of about the same length."""
    random = np.random.default_rng(DATA_SEED)
    common = random.standard_normal((COMMON, d), dtype=np.float32) * 0.16
    return random.standard_normal((n, COMMON), dtype=np.float32) @ common + random.standard_normal(
        (n, d), dtype=np.float32
    )


def units(settings: Settings) -> Sequence[Unit]:
    return [{"columns": 0}, *({"columns": columns} for columns in settings["columns"])]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    table = embeddings(settings["n"] + settings["queries"], settings["d"])
    points, queries = table[: settings["n"]], table[settings["n"] :].astype(np.float64)
    apart = float(np.square(points[:500] - points[500:1000]).sum(axis=1).mean())
    kernel = Gaussian(math.sqrt(apart / -math.log(0.05)))
    exact = kernel.exact_density(points, queries)
    columns, d = unit["columns"], settings["d"]
    variants: list[tuple[str, dict[str, Any]]] = [("no projection", {})]
    if columns:
        equal = round(1 / (1 / columns + 1 / d))
        variants = [
            ("dense", {"project": "dense", "project_to": columns}),
            ("fast, equal error", {"project": "fast", "project_to": equal}),
        ]
    dense: dict[str, Any] | None = None
    for label, options in variants:
        values = _measure(settings, kernel, points, queries, exact, options)
        if dense is not None:
            values["faster"] = dense["projection_seconds"] / values["projection_seconds"]
            values["construction_faster"] = dense["seconds"] / values["seconds"]
        dense = dense or values
        data = {"set": "embeddings", "n": len(points), "d": d, "queries": len(queries), "data_seed": DATA_SEED}
        seeds = list(range(1, settings["seeds"] + 1))
        yield Measurement(label, values, data, seeds, settings["neighbours"])


def _measure(
    settings: Settings,
    kernel: Gaussian,
    points: Points,
    queries: NDArray[np.float64],
    exact: NDArray[np.float64],
    options: dict[str, Any],
) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "epsilon": settings["epsilon"],
        "neighbours": settings["neighbours"],
        "bounds": (-8, 8),
        "n_hint": len(points),
        "options": {**options, "density": float(exact.mean())},
    }
    errors, bars, seconds, answering = [], [], [], []
    for seed in range(1, settings["seeds"] + 1):
        model = PrivateKDE(kernel, method=settings["method"], feature_seed=seed, random_state=seed, **facts)
        seconds.append(_timed(lambda model=model: model.fit(points, threads=1)))  # type: ignore[misc]
        start = time.process_time()
        answers, stated = model.query(queries, return_std=True)
        answering.append(time.process_time() - start)
        errors.append(answers - exact)
        bars.append(stated)
    rmse = math.sqrt(float(np.mean(np.square(errors))))
    made = plan(kernel=kernel, dimension=points.shape[1], **facts)
    predicted = next(row.error for row in made.rows if row.method == settings["method"])
    assert predicted is not None
    values = {
        "columns": int(options.get("project_to", points.shape[1])),
        "rmse": rmse,
        "relative": float(np.mean(np.abs(errors) / exact)),
        "predicted": predicted,
        "ratio": rmse / predicted,
        "bar_ratio": math.sqrt(float(np.mean(np.square(bars)))) / rmse,
        "seconds": float(np.median(seconds)),
        "query_seconds": float(np.median(answering)),
    }
    quantizer = model.release_.reader
    if isinstance(quantizer, ProjectedPoints):
        with one_blas_thread():
            quantizer.projection.place(points[:10])
            times = [_timed(lambda: quantizer.projection.place(points)) for _ in range(settings["repeats"])]
        values["projection_seconds"] = min(times)
    return values


def _timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
