"""A shuffled collection message by message: clients, a shuffler process, the analyzer; against the law of simulations.

Settings: `participants`, `dimension`, `epsilon` (text), `delta`, `memory` (MB of the shuffler), `workers` (processes of
clients and analyzer), `seed` of the points. Points are random directions around a common one, the kernel is the inner
product, every column is one instance, and everybody's every bit is sealed, shuffled on disk and opened.

The shuffler is the command `sfumato shuffled shuffle`; its memory is the peak over that of the same command with
nothing to shuffle. `ratio` is the measured error of the bit sums over the predicted one, and `p_value` that of the
counts under the law of the simulation, both sides.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress
from scipy import stats

from benchmarks.kinds import Measurement, Settings, Skipped, Unit
from benchmarks.kinds.memory import MEGABYTE, peak_of
from benchmarks.peak import STATUS
from sfumato.shuffled import AnalyzerKey, Protocol, Shuffler, Submission
from sfumato.shuffled.bitsum import Counts
from sfumato.shuffled.bitsum.rr import RandomisedResponse

COLUMNS = {
    "messages": "messages",
    "batch_mb": "batch MB",
    "memory_mb": "memory setting MB",
    "peak_mb": "shuffler's peak MB",
    "client_ms": "ms a client",
    "shuffle_s": "shuffle s",
    "analyze_s": "analyze s",
    "ratio": "measured / predicted RMSE",
    "p_value": "p-value of the law",
}
CHUNK = 40
Points = NDArray[np.float64]
_made: dict[str, Protocol] = {}


def units(settings: Settings) -> Sequence[Unit]:
    return [{}]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    if not STATUS.exists():
        raise Skipped(f"this system has no {STATUS}")
    points, key = _points(settings), AnalyzerKey.generate()
    protocol = Protocol(
        "inner-product",
        dimension=settings["dimension"],
        epsilon=settings["epsilon"],
        delta=settings["delta"],
        participants=settings["participants"],
        key=key,
    )
    with tempfile.TemporaryDirectory() as name, Progress() as bar:
        folder = Path(name)
        protocol.save(folder / "protocol.json")
        client = _send(settings, protocol, points, folder, bar)
        shuffle, peak = _shuffle(settings, folder, bar)
        counts, analyze = _analyze(settings, protocol, key, folder, bar)
        size = (folder / "batch").stat().st_size
    ratio, p_value = _law(protocol, counts, points)
    yield Measurement(
        label="rr, every message sealed",
        values={
            "messages": int(counts.ones.sum() + counts.zeros.sum()),
            "batch_mb": size / MEGABYTE,
            "memory_mb": settings["memory"] * 2**20 / MEGABYTE,
            "peak_mb": peak / MEGABYTE,
            "client_ms": 1000 * client / len(points),
            "shuffle_s": shuffle,
            "analyze_s": analyze,
            "ratio": ratio,
            "p_value": p_value,
        },
        data={"set": "directions", "n": len(points), "d": settings["dimension"]},
        seeds=[settings["seed"]],
        neighbours="replace",
    )


def _points(settings: Settings) -> Points:
    random = np.random.default_rng(settings["seed"])
    points = random.standard_normal((settings["participants"], settings["dimension"]))
    points[:, 0] += 5.0
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def _submissions(path: str, points: Points) -> tuple[list[Submission], float]:
    """Run clients in a worker, and tell how long they took; the document is read once by each worker."""
    if path not in _made:
        _made[path] = Protocol.load(path)
    start = time.perf_counter()
    sent = [_made[path].client().messages(point) for point in points]
    return sent, time.perf_counter() - start


def _send(settings: Settings, protocol: Protocol, points: Points, folder: Path, bar: Progress) -> float:
    task, busy = bar.add_task("clients", total=len(points)), 0.0
    chunks = [points[start : start + CHUNK] for start in range(0, len(points), CHUNK)]
    with (
        Shuffler(folder / "inbox", protocol) as shuffler,
        ProcessPoolExecutor(settings["workers"], mp_context=get_context("spawn")) as pool,
    ):
        waiting: list[Any] = []
        for chunk in [*chunks, *[None] * (2 * settings["workers"])]:
            if chunk is not None:
                waiting.append(pool.submit(_submissions, str(folder / "protocol.json"), chunk))
            if waiting and (chunk is None or len(waiting) > 2 * settings["workers"]):
                sent, seconds = waiting.pop(0).result()
                shuffler.receive(*sent)
                bar.update(task, advance=len(sent))
                busy += seconds
    return busy


def _shuffle(settings: Settings, folder: Path, bar: Progress) -> tuple[float, int]:
    task = bar.add_task("shuffler", total=1)
    command = ("shuffled", "shuffle", str(folder / "protocol.json"), "--memory", str(settings["memory"]))
    idle, _ = peak_of(*command, "--state", str(folder / "nothing"))
    start = time.perf_counter()
    peak, _ = peak_of(*command, "--state", str(folder / "inbox"), "-o", str(folder / "batch"))
    bar.update(task, advance=1)
    return time.perf_counter() - start, peak - idle


def _analyze(
    settings: Settings, protocol: Protocol, key: AnalyzerKey, folder: Path, bar: Progress
) -> tuple[Counts, float]:
    task, start = bar.add_task("analyzer", total=None), time.perf_counter()
    counts, _ = protocol.analyzer(key).counts(
        folder / "batch",
        workers=settings["workers"],
        progress=lambda done, total: bar.update(task, completed=done, total=total),
    )
    return counts, time.perf_counter() - start


def _law(protocol: Protocol, counts: Counts, points: Points) -> tuple[float, float]:
    """Error of the bit sums against the predicted one, and the p-value of the numbers of ones, both sides."""
    bitsum, features = protocol.groups[0].bitsum, protocol.features
    assert isinstance(bitsum, RandomisedResponse)
    flip = float(bitsum.flip)
    chance = (features.quantizer.encode(points) / features.largest + 1) / 2
    sent = flip + (1 - 2 * flip) * chance
    variance = (sent * (1 - sent)).sum(axis=0)
    squares = float(((counts.ones - sent.sum(axis=0)) ** 2 / variance).sum())
    tail = float(stats.chi2.cdf(squares, counts.ones.size))
    errors = bitsum.estimate(counts) - chance.sum(axis=0)
    predicted = bitsum.variance + (chance * (1 - chance)).sum(axis=0).mean()
    return float(np.sqrt(np.mean(errors**2) / predicted)), 2 * min(tail, 1 - tail)
