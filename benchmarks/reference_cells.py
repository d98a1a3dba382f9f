"""What `reference` could do inside the cells of a table with categories: `python -m benchmarks.reference_cells`.

A floating-point bound. Moments are bought as by `reference`, landmarks drawn from their normal law, and every cell has
sums of the landmarks' features with ball noise (pure) or Gaussian noise (delta = 1e-6). There is no check, nothing is
rounded, and the rank is the best on the truth: a method would do worse. The last column is what the plan predicts for
`cells`, which is within a tenth of what is measured (case `categories`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import datasets
from benchmarks.kinds.categories import Mixed, _codrna
from sfumato import PrivateKDE
from sfumato.kernels import Gaussian, Overlap, Product
from sfumato.methods.ranking import choose
from sfumato.methods.registry import METHODS
from sfumato.privacy.gaussian import gaussian_multiplier

Floats = NDArray[np.float64]
QUERIES, RECORDS, LANDMARKS, MISMATCH, DELTA, REPEATS = 200, 100_000, 800, 0.1, 1e-6, 3
RANKS = (4, 8, 16, 32, 64, 128, 256, 512)
random = np.random.default_rng(0)


def main() -> None:
    """Print a table of both sets."""
    codrna = _codrna()
    order = np.random.default_rng(datasets.SPLIT_SEED).permutation(len(codrna.numbers))[: QUERIES + RECORDS]
    sets = {
        "codrna-binned": (Mixed(codrna.numbers[order], codrna.bounds, codrna.codes[order], codrna.sizes), 0.144),
        "ten numbers": (_ten_numbers(), 0.35),
    }
    print("set, epsilon, delta: best of reference in cells (rank), cells by its plan")
    for name, (mixed, bandwidth) in sets.items():
        for epsilon in (0.05, 0.5, 1.0):
            for delta, (error, rank), planned in _compared(mixed, bandwidth, epsilon):
                print(f"{name}, {epsilon:g}, {delta:g}: {error:.6f} ({rank}), {planned:.6f}", flush=True)


def _ten_numbers() -> Mixed:
    """Correlated normal numbers whose mean goes by the first of two categories."""
    draw = np.random.default_rng(5)
    rows = QUERIES + RECORDS
    codes = np.column_stack([draw.choice(6, rows, p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04]), draw.choice(4, rows)])
    places, mixing = draw.normal(0, 0.1, size=(6, 10)), draw.normal(size=(10, 10)) * 0.35 + np.eye(10)
    numbers = 0.5 + places[codes[:, 0]] + 0.09 * draw.normal(size=(rows, 10)) @ mixing.T
    return Mixed(numbers.clip(0, 1), (0.0, 1.0), codes, (6, 4))


def _compared(mixed: Mixed, bandwidth: float, epsilon: float) -> Any:
    columns, kernel = mixed.numbers.shape[1], Gaussian(bandwidth)
    whole = Product(kernel, {columns + place: Overlap(range(size), MISMATCH) for place, size in enumerate(mixed.sizes)})
    rows = np.column_stack([mixed.numbers, mixed.codes])
    truth = whole.exact_density(rows[QUERIES:], rows[:QUERIES])
    cells = np.ravel_multi_index(tuple(mixed.codes.T), mixed.sizes)
    similar: Floats = np.ones((1, 1))
    for size in mixed.sizes:
        similar = np.kron(similar, np.full((size, size), MISMATCH) + (1 - MISMATCH) * np.eye(size))
    records, count = mixed.numbers[QUERIES:], RECORDS + random.laplace(0, 1 / (0.05 * epsilon))
    around = _landmarks(records, 0.1 * epsilon, count)
    weights, directions = np.linalg.eigh(kernel.value(around, around))
    projection = directions[:, ::-1][:, : max(RANKS)] / np.sqrt(np.maximum(weights[::-1][: max(RANKS)], 1e-3))
    sums = np.zeros((len(similar), projection.shape[1]))
    for start in range(0, RECORDS, 5000):
        part = slice(start, start + 5000)
        np.add.at(sums, cells[QUERIES:][part], kernel.value(records[part], around) @ projection)
    features = kernel.value(mixed.numbers[:QUERIES], around) @ projection
    for delta in (0.0, DELTA):
        errors = []
        for rank in RANKS:
            square = 0.0
            for _ in range(REPEATS):
                noisy = sums[:, :rank] + _noise(rank, len(sums), 0.85 * epsilon, delta)
                answers = ((similar[cells[:QUERIES]] @ noisy) * features[:, :rank]).sum(axis=1) / count
                square += float(np.square(answers - truth).mean()) / REPEATS
            errors.append((math.sqrt(square), rank))
        model = PrivateKDE(
            whole,
            epsilon=str(epsilon),
            delta=delta,
            bounds=mixed.bounds,
            n_hint=RECORDS,
            options={"density": float(truth.mean())},
            feature_seed=1,
        )
        yield delta, min(errors), choose(METHODS.values(), model.request(rows.shape[1])).predicted.rmse


def _noise(rank: int, cells: int, epsilon: float, delta: float) -> Floats:
    if delta:
        return random.normal(0, gaussian_multiplier(epsilon, delta), size=(cells, rank))
    return _ball(random.normal(size=(cells, rank)), epsilon)


def _ball(directions: Floats, rate: float) -> Floats:
    """Noise of density proportional to exp(-rate |z|), from normal directions."""
    lengths = random.gamma(directions.shape[1], 1 / rate, size=(len(directions), 1))
    return np.asarray(directions / np.linalg.norm(directions, axis=1, keepdims=True) * lengths)


def _landmarks(records: Floats, epsilon: float, count: float) -> Floats:
    """Points of the normal law that noisy moments describe, for columns in [0, 1] (see `central.covariances`)."""
    columns = records.shape[1]
    places, reach = 2 * records - 1, columns / 4
    places = places * np.sqrt(np.minimum(1, reach / np.maximum(np.square(places).sum(axis=1), 1e-12)))[:, None]
    first, second = np.triu_indices(columns)
    own = np.where(first == second, 5, 7)
    moments = np.concatenate([2 * math.sqrt(reach) * places.sum(axis=0), own * (places.T @ places)[first, second]])
    moments = moments + _ball(random.normal(size=(1, len(moments))), epsilon / (math.sqrt(29) * reach))[0]
    means, products = moments[:columns] / (2 * math.sqrt(reach) * count), np.zeros((columns, columns))
    products[first, second] = products[second, first] = moments[columns:] / own / count
    spread, axes = np.linalg.eigh(products - np.outer(means, means))
    drawn = random.normal(size=(LANDMARKS, columns)) @ (axes * np.sqrt(np.maximum(spread, 1e-4))).T
    return np.asarray((np.clip(means + drawn, -1, 1) + 1) / 2)


if __name__ == "__main__":
    main()
