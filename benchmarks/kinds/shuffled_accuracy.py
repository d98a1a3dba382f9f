"""Error of densities from shuffled bits at held-out queries, against the exact density and the predicted error.

Settings: `bandwidth` of a Gaussian kernel, `set`, `participants`, `instances`, `delta`, `epsilons` (texts), `bitsums`,
`seeds` (how many) and `queries`. Run s takes s as public seed and as the seed of the coins. A bit sum that refuses an
epsilon has no row there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.datasets import load_split
from benchmarks.kinds import Measurement, Settings, Unit
from sfumato.errors import InputError
from sfumato.kernels import Gaussian
from sfumato.shuffled import Protocol

COLUMNS = {
    "epsilon": "epsilon",
    "rmse": "RMSE",
    "predicted": "predicted RMSE",
    "ratio": "measured / predicted",
    "published": "published bound",
    "bar_ratio": "error bar / measured",
    "constant_ratio": "RMSE / sd of the truth",
}


def units(settings: Settings) -> Sequence[Unit]:
    return [{"epsilon": epsilon} for epsilon in settings["epsilons"]]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    split = load_split({"set": settings["set"], "rows": settings["participants"]}, settings["queries"])
    kernel = Gaussian(settings["bandwidth"])
    truth = kernel.exact_density(split.points, split.held_out)
    seeds = list(range(1, settings["seeds"] + 1))
    for bitsum in settings["bitsums"]:
        squares, bars = [], []
        try:
            for seed in seeds:
                protocol = Protocol(
                    kernel,
                    dimension=split.points.shape[1],
                    epsilon=unit["epsilon"],
                    delta=0.0 if bitsum == "pure" else settings["delta"],
                    participants=len(split.points),
                    instances=settings["instances"],
                    bitsum=bitsum,
                    seed=seed,
                )
                answers, errors = protocol.simulate(split.points, random_state=seed).query(
                    split.held_out, return_std=True
                )
                squares.append(float(np.mean((answers - truth) ** 2)))
                bars.append(float(np.mean(errors**2)))
        except InputError:
            continue
        accuracy = protocol.plan(density=float(truth.mean())).accuracy
        rmse = math.sqrt(float(np.mean(squares)))
        values = {
            "epsilon": unit["epsilon"],
            "rmse": rmse,
            "predicted": accuracy.rmse,
            "ratio": rmse / accuracy.rmse,
            "published": accuracy.published,
            "bar_ratio": math.sqrt(float(np.mean(bars))) / rmse,
            "constant_ratio": rmse / float(truth.std()),
        }
        yield Measurement(bitsum, values, split.facts, seeds, neighbours="replace")
