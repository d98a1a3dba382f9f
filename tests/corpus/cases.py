"""Small releases and protocols of every registered mechanism, from points that every machine gets to the last bit.

A case makes a release from a seed, or with secret noise if the seed is None. `PARTS` lists all of them by their names,
which are also the names of their files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sfumato import PrivateDistance, PrivateKDE, RaceSketch, merge_releases
from sfumato.bandwidth import private as private_bandwidth
from sfumato.kernels import (
    L1LSH,
    L2LSH,
    Angular,
    Cauchy,
    Erfc,
    Exponential,
    Gaussian,
    Hat,
    InnerProduct,
    Jaccard,
    Laplacian,
    Overlap,
    Rational,
    StableExponential,
)
from sfumato.learn import DensityClassifier
from sfumato.local import Protocol as LocalProtocol
from sfumato.published.hrw import OnlineQueries
from sfumato.shuffled import Protocol as ShuffledProtocol
from sfumato.shuffled import SecureAggregation
from sfumato.shuffled.bitsum.calibration import NAMES as BIT_SUMS

FEATURE_SEED = 7
PEOPLE = 40
DELTA = 1 / 128
Making = Callable[[int | None], Any]


def points(dimension: int, count: int = PEOPLE) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Rows of 64ths between 0 and 1, most of them in the lower half."""
    numbers = np.arange(count * dimension).reshape(count, dimension)
    return (numbers * 29 % 47) * (1 + numbers % 3 // 2) / 64 % 1


def queries(dimension: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Three queries."""
    return np.array([[0.25] * dimension, [0.5] * dimension, [0.75 - column / 8 for column in range(dimension)]])


def labels(count: int = PEOPLE) -> list[str]:
    """Two classes."""
    return ["even" if number % 2 == 0 else "odd" for number in range(count)]


def _density(method: str, kernel: Any = None, dimension: int = 2, fit: Mapping[str, Any] = {}, **facts: Any) -> Making:
    usual: dict[str, Any] = {"epsilon": 8, "bounds": (0, 1), "n_hint": PEOPLE, "feature_seed": FEATURE_SEED}

    def make(seed: int | None) -> Any:
        model = PrivateKDE(kernel or Gaussian(0.5), method=method, random_state=seed, **{**usual, **facts})
        return model.fit(points(dimension), **fit).release_

    return make


def _distance(method: str, metric: str = "l1", dimension: int = 2, **facts: Any) -> Making:
    usual: dict[str, Any] = {"epsilon": 8, "bounds": (0, 1), "n_hint": PEOPLE, "feature_seed": FEATURE_SEED}

    def make(seed: int | None) -> Any:
        model = PrivateDistance(metric, method=method, random_state=seed, **{**usual, **facts})
        return model.fit(points(dimension)).release_

    return make


def _classifier(dimension: int = 3, **facts: Any) -> Making:
    usual: dict[str, Any] = {"epsilon": 8, "classes": ["even", "odd"], "n_hint": PEOPLE, "feature_seed": FEATURE_SEED}

    def make(seed: int | None) -> Any:
        return DensityClassifier(random_state=seed, **{**usual, **facts}).fit(points(dimension) / 2, labels())

    return make


FEW = {"n_features": 6}
ALONE = {"check_share": 0}  # landmarks as 0.1.0 made them
USERS: dict[str, Any] = {
    "unit": "user",
    "options": {**FEW, "max_records_per_user": 2},
    "fit": {"users": [number // 3 for number in range(PEOPLE)]},
}
LISTED = {"queries": queries(2).tolist()}
COARSE = {"spacing": 0.5}
NARROW = {"rows": 6, "width": 4}
FAR_APART = [[32, 32], [0, 32], [32, 0], [16, 16], [0, 0]]  # kernel values of 0: their eigenvectors are exact

# Of the values of the points only these are named; they are those of the queries.
KINDS = {1: Overlap([0.25, 0.5, 0.625, 0.75], mismatch=0.25, unseen="other")}

CENTRAL: dict[str, Making] = {
    "fourier": _density("fourier", options={"n_features": 6, "per_group": 3}),
    "fourier replace": _density("fourier", Laplacian(0.5), neighbours="replace", options=FEW),
    "fourier users": _density("fourier", Cauchy(0.5), **USERS),
    "fourier weights": _density("fourier", Exponential(0.5), fit={"sample_weight": [0.5] * PEOPLE}, options=FEW),
    "fourier stable": _density("fourier", StableExponential(0.5, 1.5), options=FEW),
    "fourier paid": _density("fourier", n_hint="paid", options=FEW),
    "fourier projected": _density("fourier", dimension=8, options={"project": "fast", "project_to": 3, **FEW}),
    "fourier-gaussian": _density("fourier-gaussian", delta=DELTA, options=FEW),
    "fourier-gaussian replace": _density(
        "fourier-gaussian", Gaussian([0.5, 1.0]), delta=DELTA, neighbours="replace", options=FEW
    ),
    "fourier-gaussian groups": _density("fourier-gaussian", delta=DELTA, options={**FEW, "per_group": 3}),
    "lattice": _density("lattice", delta=DELTA, options=FEW),
    "lattice replace": _density("lattice", Laplacian(0.5), delta=DELTA, neighbours="replace", options=FEW),
    "lattice bought count": _density("lattice", delta=DELTA, options={**FEW, "count_share": "1/4"}),
    "grid": _density("grid", options=COARSE),
    "grid hashed": _density("grid", options={**COARSE, "buckets": 8}),
    "grid dropping": _density("grid", bounds=(0, 0.5), options={**COARSE, "degree": 0, "outside": "drop"}),
    "exponential-sums": _density("exponential-sums", Rational(0.5), options={"n_features": 12, "tolerance": 0.1}),
    "landmarks": _density("landmarks", landmarks=FAR_APART, bounds=(0, 33), options=ALONE),
    "landmarks delta": _density("landmarks", landmarks=FAR_APART, bounds=(0, 33), delta=DELTA, options=ALONE),
    "landmarks near": _density("landmarks", landmarks=points(2, 8) / 2, options={**FEW, **ALONE}),
    "landmarks checked": _density("landmarks", landmarks=FAR_APART, bounds=(0, 33)),
    "landmarks checked delta": _density(
        "landmarks", landmarks=FAR_APART, bounds=(0, 33), delta=DELTA, options={"check_features": 30}
    ),
    "inner-product": _density("inner-product", InnerProduct(2.0), dimension=3, bounds=None),
    "inner-product delta": _density("inner-product", InnerProduct(2.0), dimension=3, bounds=None, delta=DELTA),
    "cells": _density("cells", dimension=3, categories=KINDS, options={"n_features": 6, "per_group": 3}),
    "cells grid": _density("cells", categories=KINDS, options=COARSE),
    "cells delta": _density(
        "cells", dimension=3, delta=DELTA, categories=KINDS, options={**FEW, "inner": "fourier-gaussian"}
    ),
    "cells table": _density("cells", bounds=None, categories={**KINDS, 0: KINDS[1]}),
    "race": _density("race", L2LSH(0.5), options=NARROW),
    "race delta": _density("race", L1LSH(0.5), delta=DELTA, options=NARROW),
    "race replace": _density("race", Hat(0.5), neighbours="replace", options=NARROW),
    "race laplacian": _density("race", Laplacian(0.5), options={**NARROW, "own_count": True}),
    "race angular": _density("race", Angular(), bounds=None, options={"rows": 6}),
    "race erfc": _density("race", Erfc(0.5), options=NARROW),
    "race jaccard": _density("race", Jaccard(), dimension=6, bounds=None, options=NARROW),
    "lsq-rff": _density("lsq-rff", options=FEW),
    "lsq-rff medians": _density("lsq-rff", options={"n_features": 9, "groups": 3}),
    "lsq-fgt": _density("lsq-fgt", options={"rho": 2}),
    "race-published": _density("race-published", L2LSH(0.5), options=NARROW),
    "exponential-sums-published": _density(
        "exponential-sums-published", Rational(0.5), options={"n_features": 12, "tolerance": 0.1}
    ),
    "inner-product-signs": _density("inner-product-signs", InnerProduct(2.0), dimension=3, bounds=None, options=FEW),
    "histogram": _density("histogram", options=COARSE),
    "bernstein": _density("bernstein", options={"degree": 3}),
    "even-trig": _density("even-trig", options={"degree": 3}),
    "pmw": _density("pmw", options=COARSE),
    "pmw delta": _density("pmw", delta=DELTA, options={**COARSE, "rounds": 3}),
    "smalldb": _density("smalldb", options={**COARSE, "points": 2}),
    "noisy-sample": _density("noisy-sample", options={**COARSE, "sample": 4}),
    "laplace-queries": _density("laplace-queries", options=LISTED),
    "gaussian-queries": _density("gaussian-queries", delta=DELTA, options=LISTED),
    "hrw": _density("hrw", delta=DELTA, options=LISTED),
}

DISTANCES: dict[str, Making] = {
    "hat": _distance("hat", options={"levels": 2}),
    "hat l2": _distance("hat", "l2", options={"levels": 2, "projections": 3}),
    "hat lpp": _distance("hat", "lpp", p=1.5, options={"levels": 2}),
    "hat replace": _distance("hat", neighbours="replace", options={"levels": 2}),
    "hat-gaussian": _distance("hat-gaussian", delta=DELTA, options={"levels": 2}),
    "moments": _distance("moments", "sqeuclidean"),
    "moments-gaussian": _distance("moments-gaussian", "sqeuclidean", delta=DELTA),
    "tree-published": _distance("tree-published", options={"depth": 2}),
    "tree-consistent": _distance("tree-consistent", options={"depth": 2}),
    "sqeuclidean-published": _distance("sqeuclidean-published", "sqeuclidean"),
    "huang-roth": _distance("huang-roth", dimension=1),
}

SMALL_POOL = {"pool": 6, "rows_each": 1}
SMALL_SKETCH: dict[str, Any] = {"radius": 0.1, "eta": 0.05, "options": {"rows": 6}}


def _local(mechanism: str, kernel: Any, **facts: Any) -> Callable[[], LocalProtocol]:
    usual = {"dimension": 2, "epsilon": 4, "participants": PEOPLE, "bounds": (0, 1), "seed": FEATURE_SEED}
    return lambda: LocalProtocol(kernel, mechanism=mechanism, **{**usual, **facts})


LOCAL: dict[str, Callable[[], LocalProtocol]] = {
    "rows": _local("rows", L2LSH(0.5), options={**SMALL_POOL, "buckets": 4}),
    "rows angular": _local("rows", Angular(), options=SMALL_POOL, bounds=None),
    "rows laplacian": _local("rows", Laplacian(0.5), options={**SMALL_POOL, "buckets": 4}),
    "phases": _local("phases", Gaussian(0.5), options=SMALL_POOL),
    "phases cauchy": _local("phases", Cauchy(0.5), options=SMALL_POOL),
    "metric-phases": _local("metric-phases", Gaussian(0.5), radius=0.25, options=SMALL_POOL),
    "metric-rows": _local("metric-rows", L2LSH(0.5), radius=0.05, options={**SMALL_POOL, "buckets": 4}),
    "metric-rows l1": _local("metric-rows", L1LSH(0.5), radius=0.05, options={**SMALL_POOL, "buckets": 4}),
    "vector": _local("vector", InnerProduct(2.0), options={"randomiser": "codebook"}),
    "vector coordinate": _local("vector", InnerProduct(2.0), options={"randomiser": "coordinate"}),
    "mldp-kde": _local("mldp-kde", L2LSH(0.5), **SMALL_SKETCH),
    "mldp-kde l1": _local("mldp-kde", L1LSH(0.5), **SMALL_SKETCH),
    "fkm-lr": _local("fkm-lr", Angular(), **SMALL_SKETCH),
    "fkm-ll": _local("fkm-ll", Angular(), radius=0.3, bounds=(-1, 1), options={"rows": 6}),
    "race": _local("race", L2LSH(0.5), options={"rows": 6, "not_private": True}),
    "dm": _local("dm", Gaussian(0.5)),
    "pm": _local("pm", Gaussian(0.5)),
    "sw": _local("sw", Gaussian(0.5)),
    "gi": _local("gi", Gaussian(0.5), radius=0.25),
}


def _shuffled(bitsum: str, kernel: Any = None, **facts: Any) -> Callable[[], ShuffledProtocol]:
    usual = {"dimension": 2, "epsilon": 4, "delta": 0.0 if bitsum == "pure" else DELTA, "participants": PEOPLE}
    usual |= {"instances": 4, "bounds": (0, 1), "seed": FEATURE_SEED}
    if kernel is None:
        usual["quantizer"] = "fourier"
    return lambda: ShuffledProtocol(kernel or Gaussian(0.5), bitsum=bitsum, **{**usual, **facts})


SHUFFLED: dict[str, Callable[[], ShuffledProtocol]] = {
    **{name: _shuffled(name) for name in BIT_SUMS},
    "rr inner-product": _shuffled("rr", InnerProduct(2.0), instances="auto", bounds=None),
    "rr signs": _shuffled("rr", InnerProduct(2.0), bounds=None, quantizer="inner-product-signs"),
    "rr hashing": _shuffled("rr", L2LSH(0.5), instances=16, quantizer="hashing"),
    "rr landmarks": _shuffled("rr", landmarks=FAR_APART, bounds=(0, 33), quantizer="landmarks"),
    "rr landmarks near": _shuffled("rr", landmarks=points(2, 8) / 2, quantizer="landmarks"),
    "rr lattice": _shuffled("rr", instances=24, quantizer="lattice"),
    "3nb lattice": _shuffled("3nb", Laplacian(0.5), instances=12, quantizer="lattice"),
    "rr messages": _shuffled("rr", instances=8, messages=4),
}
CLASSES = _shuffled("rr", classes=["even", "odd"], label_epsilon=2, participants=PEOPLE // 4)


def _classes(seed: int | None) -> Any:
    return CLASSES().simulate(points(2), labels(), random_state=seed)["even"]


def _aggregated(noise: str) -> Making:
    def make(seed: int | None) -> Any:
        protocol = SecureAggregation(
            InnerProduct(2.0), dimension=2, epsilon=4, delta=DELTA, participants=PEOPLE, noise=noise, seed=FEATURE_SEED
        )
        return protocol.simulate(points(2), random_state=seed)

    return make


def sketch(count: int = PEOPLE) -> RaceSketch:
    """A raw sketch."""
    made = RaceSketch(L2LSH(0.5), dimension=2, rows=6, width=4, bounds=(0, 1), feature_seed=FEATURE_SEED)
    return made.add(points(2, count))


def _sketch(seed: int | None) -> Any:
    return sketch().release(epsilon=8, random_state=seed)


def _merged(seed: int | None) -> Any:
    seeds = (None, None) if seed is None else (seed, seed + 1)
    return merge_releases([sketch().release(epsilon=8, random_state=each) for each in seeds])


def _simulated(protocol: Callable[[], Any]) -> Making:
    return lambda seed: protocol().simulate(points(2), random_state=seed)


RELEASES: dict[str, Making] = {
    **{f"central/{name}": make for name, make in CENTRAL.items()},
    **{f"distances/{name}": make for name, make in DISTANCES.items()},
    **{f"local/{name}": _simulated(protocol) for name, protocol in LOCAL.items()},
    **{f"shuffled/{name}": _simulated(protocol) for name, protocol in SHUFFLED.items()},
    "shuffled/rr classes": _classes,
    "shuffled/secure-aggregation": _aggregated("discrete-gaussian"),
    "shuffled/secure-aggregation skellam": _aggregated("skellam"),
    "sketch/race": _sketch,
    "sketch/merged": _merged,
}
CLASSIFIERS: dict[str, Making] = {
    "classifier/highest-density": _classifier(rule="highest-density"),
    "classifier/gaussian": _classifier(
        kernel=Gaussian(0.5), bounds=(0, 1), priors="private", method="fourier", options=FEW
    ),
    "classifier/nearest-mean": _classifier(rule="nearest-mean"),
    "classifier/centred": _classifier(center="private"),
    "classifier/linear": _classifier(rule="linear", delta=DELTA, options={"steps": 5}),
    "classifier/squared-distance": _classifier(rule="squared-distance", options={"projections": 2}),
    "classifier/local": _classifier(trust="local", method="vector", rule="highest-density"),
    "classifier/shuffled": _classifier(
        trust="shuffled", delta=DELTA, options={"participants": PEOPLE // 4}, rule="highest-density"
    ),
}
PROTOCOLS: dict[str, Callable[[], Any]] = {
    **{f"local/{name}": protocol for name, protocol in LOCAL.items()},
    **{f"shuffled/{name}": protocol for name, protocol in SHUFFLED.items()},
    "shuffled/rr classes": CLASSES,
}
# The last bits of what these publish about landmarks depend on the machine's linear algebra.
INEXACT = ("central/landmarks near", "shuffled/rr landmarks near")


def bandwidth(seed: int | None) -> list[float]:
    """A bandwidth that was bought."""
    bought = private_bandwidth(points(2), epsilon=50, bounds=(0, 1), n_hint=PEOPLE, random_state=seed)
    return [float(np.max(bought.bandwidth))]


def session(seed: int | None) -> list[float]:
    """Answers of a session."""
    model = PrivateKDE(Gaussian(0.5), epsilon=8, delta=DELTA, bounds=[(0, 1)] * 2, n_hint=PEOPLE, random_state=seed)
    online = OnlineQueries(model, points(2), most=3)
    return [number for query in queries(2) for number in online.ask(query)]


NUMBERS: dict[str, Callable[[int | None], list[float]]] = {"bandwidth": bandwidth, "hrw, one query at a time": session}
