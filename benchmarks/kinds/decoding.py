"""Words of decoded classes of AG News: how many of the best belong to the class, and which they are.

Settings: `epsilon`, `delta`, `seeds` (how many), `top`, `methods` (tables with `label`, `method` and, where no curator
is trusted, `trust`).

A word belongs to the class whose exact mean, without privacy, it is most similar to. Counts are over seeds of noise and
features; the words are those of the first seed, a mark (?) behind those that the library says may be noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.datasets import labelled_agnews, worded
from benchmarks.kinds import Measurement, Settings, Unit
from benchmarks.kinds.classification import CLASSES
from sfumato.learn import DensityClassifier, Word, decode

COLUMNS = {
    "epsilon": "epsilon",
    "own_least": "own words, worst seed",
    "own": "own words, mean",
    "error": "standard error of a word",
    "marked": "marked as noise, mean",
    "words": "words",
}


def units(settings: Settings) -> Sequence[Unit]:
    return [{"label": table["label"]} for table in settings["methods"]]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    method = next(table for table in settings["methods"] if table["label"] == unit["label"])
    trust = method.get("trust", "central")
    points, labels, _, _ = labelled_agnews()
    vocabulary, words = worded()
    means = np.array([points[labels == c].mean(axis=0, dtype=np.float64) for c in range(len(CLASSES))])
    own = dict(zip(words, (vocabulary @ means.T).argmax(axis=1).tolist(), strict=True))
    seeds = list(range(1, settings["seeds"] + 1))
    found: list[list[list[Word]]] = []
    for seed in seeds:
        model = DensityClassifier(
            trust=trust,
            epsilon=settings["epsilon"],
            delta=settings["delta"],
            classes=list(range(len(CLASSES))),
            n_hint=len(points),
            method=method["method"],
            feature_seed=seed,
            random_state=seed,
        ).fit(points, labels)
        found.append([decode(release, vocabulary, words, settings["top"]) for release in model.releases_.values()])
    for place, name in enumerate(CLASSES):
        lists = [run[place] for run in found]
        counts = [sum(own[word.word] == place for word in best) for best in lists]
        yield Measurement(
            label=f"{method['label']}, {name}",
            values={
                "epsilon": settings["epsilon"],
                "own_least": min(counts),
                "own": float(np.mean(counts)),
                "error": float(np.mean([word.std for best in lists for word in best])),
                "marked": float(np.mean([sum(word.noise for word in best) for best in lists])),
                "words": ", ".join(word.word + " (?)" * word.noise for word in lists[0]),
            },
            data={"set": "agnews", "n": len(points), "d": points.shape[1]},
            seeds=seeds,
            neighbours="add-remove" if trust == "central" else "replace",
            count_share="1/20" if trust == "central" else None,
        )
