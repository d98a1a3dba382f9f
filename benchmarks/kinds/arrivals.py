"""A shuffler at the scale of the internet: how long devices wait for a crowd of a given size. Nothing is timed.

Settings: `devices` (submissions a day), `swing` (how far the busiest hour is above the mean), `groups` (least sizes of
a crowd), `shufflers`, `every` (seconds between two looks of a server), `epsilon`, `delta`, `instances`, `seed`.

Devices arrive by a Poisson process whose rate follows the hours of the day, and go to one of several shufflers that do
not share their crowds; all are alike, so one is simulated, for two days. A group closes by the server's own rule
(`services.shuffler.Policy`) when the server looks and enough are there; then the next one opens. Waits are those of the
first day's devices, until the close; the anonymity set of a device is its group. The error is that of the day's mean of
one bit, from the exact calibration of `rr`: every group pays for its own noise, so small groups cost accuracy.

Without the swing a device waits for half a group, (group / 2) / (arrivals a second). With it the mean over devices is
the same as long as groups fill faster than the rate changes, for devices are many when waits are short; `over_even` is
the ratio. What the swing costs shows in the last hundredth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.kinds import Measurement, Settings, Unit
from sfumato.services.shuffler import Policy
from sfumato.shuffled.bitsum import calibrate

DAY = 86_400
COLUMNS = {
    "group": "least group",
    "shufflers": "shufflers",
    "smallest": "smallest anonymity set",
    "typical": "typical anonymity set",
    "median_s": "median wait s",
    "late_s": "99th percentile s",
    "over_even": "mean wait / even flow",
    "groups": "groups a day",
    "error": "error of the day's mean",
}
Arrivals = NDArray[np.int64]


def units(settings: Settings) -> Sequence[Unit]:
    return [{"group": group, "shufflers": count} for count in settings["shufflers"] for group in settings["groups"]]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    rate = settings["devices"] / (DAY * unit["shufflers"])
    arrivals = arrivals_of(rate, settings["swing"], settings["every"], settings["seed"])
    sizes, closed = groups_of(arrivals, Policy(participants=unit["group"]), settings["every"])
    sets, waits, weights = first_day(arrivals, sizes, closed, settings["every"])
    groups = unit["shufflers"] * len(np.unique(closed[: len(weights)]))
    facts = {"instances": settings["instances"], "epsilon": settings["epsilon"], "delta": settings["delta"]}
    noise = calibrate("rr", n=unit["group"], **facts).rmse * math.sqrt(groups) / settings["devices"]
    mean = np.average(waits, weights=weights)
    values = {
        **unit,
        "smallest": int(sets.min()),
        "typical": quantile(sets, weights, 0.5),
        "median_s": quantile(waits, weights, 0.5),
        "late_s": quantile(waits, weights, 0.99),
        "over_even": float(mean / (np.average(sets, weights=weights) / (2 * rate))),
        "groups": groups,
        "error": noise,
    }
    yield Measurement("rr", values, {}, seeds=[settings["seed"]])


def arrivals_of(rate: float, swing: float, every: float, seed: int) -> Arrivals:
    """Devices between two looks, over two days."""
    looks = (np.arange(round(2 * DAY / every)) + 0.5) * every
    expected = rate * every * (1 + swing * np.sin(2 * math.pi * looks / DAY))
    return np.random.default_rng(seed).poisson(expected).astype(np.int64)


def groups_of(arrivals: Arrivals, policy: Policy, every: float) -> tuple[Arrivals, Arrivals]:
    """Size of the group of each interval's devices, and the look that closes it; -1 where none does in time."""
    sizes, closed = np.zeros_like(arrivals), np.full_like(arrivals, -1)
    first, waiting = 0, 0
    for look, came in enumerate(arrivals.tolist()):
        waiting += came
        if policy.due(waiting, (look + 1 - first) * every):
            sizes[first : look + 1], closed[first : look + 1] = waiting, look
            first, waiting = look + 1, 0
    return sizes, closed


def first_day(
    arrivals: Arrivals, sizes: Arrivals, closed: Arrivals, every: float
) -> tuple[Arrivals, NDArray[np.float64], Arrivals]:
    """Sets, waits and numbers of the first day's devices, by the interval in which they came, at its middle."""
    looks = np.arange(round(DAY / every))
    if (closed[looks] < 0).any():
        raise ValueError("a group does not fill within two days: ask for smaller groups or fewer shufflers")
    return sizes[looks], (closed[looks] - looks + 0.5) * every, arrivals[looks]


def quantile(values: NDArray[np.generic], weights: Arrivals, level: float) -> float:
    """Quantile over devices."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, level * reached[-1])])  # type: ignore[arg-type]
