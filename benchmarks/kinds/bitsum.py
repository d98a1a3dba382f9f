"""Sums of bits from anonymous messages: predicted and measured error, messages, and the time of a calibration.

Settings: `n`, `instances`, `epsilons`, `delta`, `names`, `budgets` (messages for `rr`), `repetitions`, `seed`. Every
protocol sums bits that are all ones, the worst case of `pure` and of the number of messages, and is compared with
Gaussian noise that a trusted curator would add to these sums, and with the published calibration where there is one.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.kinds import Measurement, Settings, Unit
from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.shuffled.bitsum import Calibration, calibrate, calibration, central_gaussian_rmse

COLUMNS = {
    "n": "n",
    "instances": "I",
    "epsilon": "epsilon",
    "delta": "certified delta",
    "predicted": "predicted RMSE",
    "rmse": "RMSE",
    "ratio": "measured / predicted",
    "over_central": "predicted / central Gaussian",
    "over_published": "predicted / published",
    "messages": "messages a user",
    "messages_ratio": "measured / predicted messages",
    "bits": "bits a user",
    "seconds": "calibration s",
    "again": "from the cache s",
}
PUBLISHED = {"rr": "rr-published", "3nb": "3nb-published"}


def units(settings: Settings) -> Sequence[Unit]:
    return [{"instances": settings["instances"], "epsilon": epsilon} for epsilon in settings["epsilons"]]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    with _own_cache():
        calibrate("rr", n=10, instances=2, epsilon=1, delta=1e-3)  # compiles
        for name in settings["names"]:
            yield from _rows(settings, unit, name, {})
        for budget in settings["budgets"]:
            yield from _rows(settings, unit, "rr", {"messages": budget})


@contextmanager
def _own_cache() -> Iterator[None]:
    """Begin with an empty folder for calibrations."""
    before = os.environ.get("SFUMATO_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SFUMATO_CACHE"] = folder
        try:
            yield
        finally:
            del os.environ["SFUMATO_CACHE"]
            if before is not None:
                os.environ["SFUMATO_CACHE"] = before


def _rows(settings: Settings, unit: Unit, name: str, options: dict[str, Any]) -> Iterator[Measurement]:
    delta = 0.0 if name == "pure" else settings["delta"]
    question = {"n": settings["n"], **unit, "delta": delta, **options}
    try:
        item, seconds = _timed(name, question)
    except InputError:  # "pure" leaves out every bit if epsilon is too small
        return
    _, again = _timed(name, question)
    measured, sent = _simulate(item, settings["repetitions"], settings["seed"])
    central = central_gaussian_rmse(unit["instances"], unit["epsilon"], settings["delta"])
    values = {
        "n": item.n,
        **unit,
        "delta": item.delta,
        "predicted": item.rmse,
        "rmse": measured,
        "ratio": measured / item.rmse,
        "over_central": item.rmse / central,
        "messages": item.messages,
        "messages_ratio": sent / item.protocol.messages(1.0),
        "bits": item.bits,
        "seconds": seconds,
        "again": again,
    }
    if name in PUBLISHED and not options:
        values["over_published"] = item.rmse / calibrate(PUBLISHED[name], **question).rmse
    label = f"{name}, {options['messages']} messages" if options else name
    yield Measurement(label=label, values=values, data={}, seeds=[settings["seed"]])


def _timed(name: str, question: dict[str, Any]) -> tuple[Calibration, float]:
    calibration._calibrated.cache_clear()  # as in a new process
    start = time.perf_counter()
    item = calibrate(name, **question)
    return item, time.perf_counter() - start


def _simulate(item: Calibration, repetitions: int, seed: int) -> tuple[float, float]:
    """Root mean square error over all instances and repetitions, and messages of a user in an instance."""
    secure, sums = SecureBits.seeded(seed), np.full(item.instances, item.n)
    squares, messages = [], []
    for _ in range(repetitions):
        counts = item.protocol.totals(sums, secure)
        squares.append(float(((item.protocol.estimate(counts) - sums) ** 2).mean()))
        messages.append(float((counts.ones + counts.zeros).mean()) / item.n)
    return math.sqrt(np.mean(squares)), float(np.mean(messages))
