"""Error and messages of shuffled densities on declared bounds, quantizer by quantizer.

Settings: `bandwidth` of a Gaussian kernel, `data` (one table), `epsilon` (text), `delta`, `quantizers`, `seeds` (how
many) and `queries`. Run s takes s as public seed and as the seed of the coins. The first quantizer is the baseline.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.datasets import load_split
from benchmarks.kinds import Measurement, Settings, Unit
from sfumato.kernels import Gaussian
from sfumato.shuffled import Protocol

COLUMNS = {
    "messages": "messages a person",
    "rmse": "RMSE",
    "predicted": "predicted RMSE",
    "bar_ratio": "error bar / measured",
    "over_baseline": "RMSE / baseline's",
}


def units(settings: Settings) -> Sequence[Unit]:
    return [{}]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    split = load_split(settings["data"], settings["queries"])
    kernel = Gaussian(settings["bandwidth"])
    truth = kernel.exact_density(split.points, split.held_out)
    seeds = list(range(1, settings["seeds"] + 1))
    baseline = math.nan
    for quantizer in settings["quantizers"]:
        squares, bars = [], []
        for seed in seeds:
            protocol = Protocol(
                kernel,
                dimension=split.points.shape[1],
                epsilon=settings["epsilon"],
                delta=settings["delta"],
                participants=len(split.points),
                bounds=split.bounds,
                quantizer=quantizer,
                seed=seed,
            )
            release = protocol.simulate(split.points, random_state=seed)
            answers, errors = release.query(split.held_out, return_std=True)
            squares.append(float(np.mean(np.square(answers - truth))))
            bars.append(float(np.mean(np.square(errors))))
        plan, rmse = protocol.plan(float(truth.mean())), math.sqrt(float(np.mean(squares)))
        baseline = rmse if math.isnan(baseline) else baseline
        values = {
            "messages": plan.messages,
            "rmse": rmse,
            "predicted": plan.accuracy.rmse,
            "bar_ratio": math.sqrt(float(np.mean(bars))) / rmse,
            "over_baseline": rmse / baseline,
        }
        yield Measurement(quantizer, values, split.facts, seeds, neighbours="replace")
