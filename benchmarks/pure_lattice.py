"""What a Fourier series on the bounds could do without delta: `python -m benchmarks.pure_lattice`.

A record's pairs of modes lie in a product of m discs, whatever their radii, and noise of density proportional to
exp(-epsilon ||z||) in the norm of that body is the least that is known for it: z = R u with R of the gamma law of shape
2 m + 1 and u even in the body, so every coordinate of a pair of radius r has the variance
r^2 (2 m + 1)(2 m + 2) / (4 epsilon^2), and an answer (2 m + 1)(2 m + 2) / (epsilon n)^2 times the sum of c_j^2: radii
cancel. (In groups of modes, of which a record takes one by chance, noise is less and the coins add 1 / (2 n) and more,
which is above the whole error of a grid.) The number of modes and the periods are the best on this prediction; the
count costs nothing here, so a method would do worse. Beside it stands what the plan predicts for `grid`, count
included.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from sfumato import PrivateKDE
from sfumato.kernels import Gaussian
from sfumato.methods.registry import METHODS
from sfumato.quantizers.series import MARGINS, modes

RECORDS, DENSITY, MOST = 100_000, 0.05, 2000


def main() -> None:
    """Print a table over columns, bounds and epsilon."""
    print("columns, bounds in bandwidths, epsilon: series (pairs), grid")
    for columns, extent, epsilon in product((1, 2, 3), (2.0, 6.0, 20.0), (0.05, 1.0)):
        error, pairs = _series(columns, extent, epsilon)
        print(f"{columns}, {extent:g}, {epsilon:g}: {error:.2e} ({pairs}), {_grid(columns, extent, epsilon):.2e}")


def _series(columns: int, extent: float, epsilon: float) -> tuple[float, int]:
    """Least error over periods and numbers of modes."""
    best = (math.inf, 0)
    for margin in MARGINS:
        found = modes(Gaussian(1.0), (extent,) * columns, margin, MOST)
        absolute, squares = np.cumsum(np.abs(found.coefficients)), np.cumsum(np.square(found.coefficients))
        pairs = np.arange(1, len(absolute) + 1)
        noise = (2 * pairs + 1) * (2 * pairs + 2) / (epsilon * RECORDS) ** 2 * squares
        errors = np.sqrt(noise + found.missed(absolute, squares, DENSITY))
        best = min(best, (float(errors.min()), int(errors.argmin()) + 1))
    return best


def _grid(columns: int, extent: float, epsilon: float) -> float:
    model = PrivateKDE(
        bandwidth=1.0,
        epsilon=str(epsilon),
        bounds=(0.0, extent),
        n_hint=RECORDS,
        options={"density": DENSITY},
        feature_seed=1,
    )
    return METHODS["grid"].prediction(model.request(columns), DENSITY).rmse


if __name__ == "__main__":
    main()
