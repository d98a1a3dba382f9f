"""Every method at the ends of its public parameters; a script, so that a crash takes no test runner with it.

``python extremes.py central|distances|plans|boxes`` prints one line of JSON for each case: its name, and what became of
it: "released", "refused" (an `InputError`), or what went wrong.
"""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import sfumato
from sfumato.distances import PrivateDistance
from sfumato.distances import plan as distance_plan
from sfumato.distances.hat import HatQuantizer
from sfumato.distances.moments import MomentQuantizer
from sfumato.errors import InputError
from sfumato.kernels import Gaussian, Overlap
from sfumato.kernels.unscaled import Distance
from sfumato.methods.registry import DISTANCES, METHODS
from sfumato.privacy.bits import SecureBits
from sfumato.public.ranges import LARGEST_LENGTH
from sfumato.published.huang_roth import ConvexHypothesis
from sfumato.published.polynomials import BernsteinQuantizer, TrigonometricQuantizer
from sfumato.published.queries import KernelQueries, WhitenedQueries
from sfumato.published.synthetic import GridRecords
from sfumato.published.tree import IntervalTree
from sfumato.published.trees import ConsistentTree
from sfumato.quantizers import Box, InnerProductQuantizer, InnerProductSigns, Quantizer
from sfumato.quantizers.clamping import Ball

LARGEST, SMALLEST = sys.float_info.max, 5e-324
ODD = [0.0, 0.3, 1.0, LARGEST, -LARGEST, 1e308, SMALLEST, 1e-308, 1e50, -1e50, 1e15, np.nan, np.inf, -np.inf, 1e-50]

BOUNDS: list[Any] = [
    (-LARGEST, LARGEST),
    (-1e308, 1e308),
    (0, 1e308),
    (1e308, LARGEST),
    (0, SMALLEST),
    (0, 1e-308),
    (1e15, 1e15 + 1),
    (-1e100, 1e100),
    (-1e50, 1e50),
    (1e49, 1e50),
    (0, 1e-50),
    (-1e50, 1e-50),
    (-1e-50, 1e-9),
]
LENGTHS = [SMALLEST, 1e-308, 1e-100, 1e-50, 1e-9, 1e9, 1e50, 1e100, 1e308]
EPSILONS = [1e-300, 1e-9, 1e-6, 1e-3, 20, 100, 1000, 1e6]
DELTAS = [SMALLEST, 1e-100, 1e-12, 0.999999]
COUNTS = [1, 10**9, 10**15, 2**40, 2**62, 10**40, "paid"]
COLUMNS = [3, 11, 26, 100, 1000]

KERNELS = {
    "race": "l2-lsh",
    "race-published": "l1-lsh",
    "exponential-sums": "rational",
    "exponential-sums-published": "rational",
    "inner-product": "inner-product",
    "inner-product-signs": "inner-product",
}
METRICS = {name: method.metrics[0] for name, method in DISTANCES.items()}


def variations(lengths: bool) -> Iterator[dict[str, Any]]:
    """One parameter after another at its ends, and some together."""
    yield {}
    yield from ({"bounds": bounds} for bounds in BOUNDS)
    yield from ({"epsilon": epsilon, "delta": delta} for epsilon in EPSILONS for delta in (0.0, 1e-6))
    yield from ({"delta": delta} for delta in DELTAS)
    yield from ({"n_hint": count} for count in COUNTS)
    yield from ({"columns": columns, "bounds": (0, 0.4)} for columns in COLUMNS)
    yield {"epsilon": 1e-9, "delta": 1e-100, "n_hint": 10**15}
    if lengths:
        yield from ({"bandwidth": length} for length in LENGTHS)
        yield {"bandwidth": 1e-50, "bounds": (-1e50, 1e50)}
        yield {"bandwidth": 1e50, "bounds": (0, 1e-50)}


def rows(bounds: Any, columns: int) -> np.ndarray:
    """Odd rows, the corners of the box, and what lies next to them."""
    low, high = map(float, bounds)
    edges = [low, high, np.nextafter(high, low), np.nextafter(low, high), low / 2 + high / 2]
    values = np.array([*ODD, *edges])
    mixed = np.random.default_rng(0).choice(values, size=(40, columns))
    return np.vstack([np.repeat(values[:, None], columns, axis=1), mixed])


def broken(quantizer: Quantizer, points: np.ndarray) -> str | None:
    """Say so when a row's integers leave the bound that the noise is calibrated to."""
    bound = quantizer.bound
    for row in quantizer.encode(points, SecureBits()):
        own = [abs(int(value)) for value in row]
        if sum(own) > bound.l1 or sum(value**2 for value in own) > bound.l2_squared or max(own) > bound.largest:
            return f"a row leaves its bound: {max(own)} of {bound.largest}"
    return None


def outcome(run: Callable[[], str | None]) -> str:
    """What became of a case."""
    try:
        return run() or "released"
    except InputError:
        return "refused"
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"


def fitted(make: Callable[..., Any], settings: dict[str, Any]) -> str | None:
    """Fit, query, and check the rows' bound."""
    # Seeded: other runs stop after a count that is far below what was expected.
    settings = {"bounds": (0, 1), "epsilon": 1, "n_hint": 50, "feature_seed": 1, "random_state": 1, **settings}
    columns = settings.pop("columns", 1)
    points = rows(settings["bounds"], columns)
    if "landmarks" in settings:
        settings["landmarks"] = np.random.default_rng(1).random((8, columns))
    listed = "queries" in settings.get("options", {})
    queries = np.repeat([[0.2], [0.9]], columns, axis=1) if listed else points[15:17]
    if listed:
        settings["options"] = {"queries": queries}
    model = make(**settings).fit(points)
    answers, errors = model.query(queries, return_std=True)
    if not np.isfinite(answers).all() or np.isnan(errors).any():
        return f"answers {answers} with errors {errors}"
    for far in (1e308, -1e60):
        with contextlib.suppress(InputError):
            if np.isnan(model.query(np.full((1, columns), far), return_std=True)).any():
                return f"no number as answer to a query at {far}"
    if not isinstance(settings["n_hint"], str):
        source = sfumato.sources.open_source(points, categories=model._parameters().overlaps())
        return broken(model.mechanism(source).encoder, points)
    return None


def central() -> Iterator[tuple[str, str]]:
    """All central methods, and "auto"."""
    for name in (*METHODS, "auto"):
        kernel = KERNELS.get(name, "gaussian")
        for changes in variations(lengths=True):
            own: dict[str, Any] = {"method": name, "bandwidth": 0.5, **changes}
            if name in ("gaussian-queries", "hrw", "fourier-gaussian", "lattice") and "delta" not in changes:
                own["delta"] = 1e-6
            if name in METHODS and "queries" in METHODS[name].options:
                own["options"] = {"queries": ()}
            if name in METHODS and "n_features" in METHODS[name].options and name != "landmarks":
                own["options"] = {"n_features": 6}
            if name == "cells":
                own = {"columns": 2, "categories": {0: Overlap([0.3, 1], 0.25, "other")}, **own}
            if name.startswith("race"):
                own["options"] = {"rows": 6, "width": 8}
            if name == "landmarks":
                own["landmarks"] = ()
            yield f"{name} {changes}", outcome(lambda own=own, kernel=kernel: fitted(partial_kde(kernel), own))


def partial_kde(kernel: str) -> Callable[..., Any]:
    """Make the estimator for a kernel."""
    return lambda **settings: sfumato.PrivateKDE(kernel, **settings)


def distances() -> Iterator[tuple[str, str]]:
    """All methods for distances, and "auto" for every metric."""
    cases = [*METRICS.items(), *(("auto", metric) for metric in ("l1", "l2", "sqeuclidean"))]
    for name, metric in cases:
        for changes in variations(lengths=False):
            own: dict[str, Any] = {"method": name, **changes}
            if "depth" in getattr(DISTANCES.get(name), "options", ()):
                own["options"] = {"depth": 4}
            if "levels" in getattr(DISTANCES.get(name), "options", ()):
                own["options"] = {"levels": 3}
            if name == "auto" and not (changes.get("delta") or ("bounds" in changes and "columns" not in changes)):
                continue  # sizes grow; the methods themselves have these cases

            def make(metric: str = metric, **settings: Any) -> Any:
                return PrivateDistance(metric, p=1.5 if metric == "lpp" else None, **settings)

            yield f"{name} {metric} {changes}", outcome(lambda own=own, make=make: fitted(make, own))


def plans() -> Iterator[tuple[str, str]]:
    """Plans of kernels and of distances."""
    for changes in variations(lengths=True):
        own = {"bounds": (0, 1), "bandwidth": 0.5, "epsilon": 1, "n_hint": 1000, **changes}
        columns = own.pop("columns", 2)
        yield f"kernels {changes}", outcome(lambda own=own, columns=columns: planned(own, columns))
    wide = {"bounds": (0, 1), "bandwidth": 1.0, "epsilon": 1, "n_hint": 1000}
    yield "kernels, 784 columns", outcome(lambda: planned(wide, 784))
    yield "l1, 784 columns", outcome(lambda: distances_planned("l1", {"n_hint": 10**9, "columns": 784}))
    for metric in ("l1", "sqeuclidean"):
        for changes in variations(lengths=False):
            if "n_hint" not in changes and "columns" not in changes:
                yield (
                    f"{metric} {changes}",
                    outcome(lambda metric=metric, changes=changes: distances_planned(metric, changes)),
                )


def planned(own: dict[str, Any], columns: int) -> str | None:
    """Make a plan and read its error."""
    made = sfumato.plan(dimension=columns, **own)
    return None if np.isfinite(made.error) and str(made) else f"error {made.error}"


def distances_planned(metric: str, changes: dict[str, Any]) -> str | None:
    """Make a plan for distances and read its error."""
    own = {"bounds": (0, 1), "epsilon": 1, "n_hint": 100, **changes}
    made = distance_plan(metric, dimension=own.pop("columns", 2), **own)
    return None if np.isfinite(made.error) and str(made) else f"error {made.error}"


def boxes() -> Iterator[tuple[str, str]]:
    """Quantizers over boxes that no caller can declare any more, but an old release may hold: rows keep their bound."""
    ends = [(-LARGEST, LARGEST), (-1e308, 1e308), (0.0, SMALLEST), (0.0, 1e-308), (-1e-308, LARGEST)]
    for low, high in ends:
        box, points = Box((low,), (high,)), rows((low, high), 1)
        for name, make in _makers(box).items():
            yield f"{name} {(low, high)}", outcome(lambda make=make, points=points: broken(make(), points))


def _makers(box: Box) -> dict[str, Callable[[], Quantizer]]:
    kernel, l1 = Gaussian(0.5), Distance("l1")
    listed = np.clip([[box.lower[0]], [box.upper[0]]], -LARGEST_LENGTH, LARGEST_LENGTH)
    small = Ball(box, 0.5, 1000)
    return {
        "interval-tree": lambda: IntervalTree(l1, box, (1, 1, 1, 1)),
        "consistent-tree": lambda: ConsistentTree(l1, box, (1, 1, 1, 1)),
        "hat": lambda: HatQuantizer(l1, box, bins=2, units=(1000,), profile=(1 << 24, 1 << 23, 1 << 22)),
        "moments": lambda: MomentQuantizer(box, (0,), (1000, 1000, 1000)),
        "convex-hypothesis": lambda: ConvexHypothesis(l1, box, 8, 0.1),
        "inner-product": lambda: InnerProductQuantizer(small, None),
        "inner-product clipped": lambda: InnerProductQuantizer(small, 2.5),
        "inner-product-signs": lambda: InnerProductSigns(Ball(box, 1e-50, 100), 3, seed=1),
        "bernstein": lambda: BernsteinQuantizer(kernel, box, 2, 1000, 0.02),
        "even-trig": lambda: TrigonometricQuantizer(kernel, box, 3, 1000, 0.02),
        "grid-records": lambda: GridRecords(kernel, box, (3,), 10),
        "queries": lambda: KernelQueries(kernel, box, listed, 1000),
        "whitened-queries": lambda: WhitenedQueries(kernel, box, listed, 1000),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for case, became in {"central": central, "distances": distances, "plans": plans, "boxes": boxes}[sys.argv[1]]():
        print(json.dumps([case, became]), flush=True)
