"""What a shared sketch of L rows and R buckets will err, and the best (L, R), without a look at the data.

Every participant reports all L rows, so that the hash functions' own randomness does not fall with n. With q the
rehash's collision probability, P and Q the probabilities of the true and of one other bucket, K the density at the
query, a = 1 / ((P - Q)(1 - q)) and p = q + (1 - q) K the chance of a shared bucket, the mean of L rows has variance

    (1 / L) { A + B q / (1 - q) + (a^2 / n) (p P (1 - P) + (1 - p) Q (1 - Q)) }

A is the variance over hash functions of the share of people in the query's bucket, B the mean sum of the squared
shares of all other buckets. They depend on the data; for the choice, and for predictions, A = 0.09, B = 0.1 and
K = 0.1 stand for them. A median of several groups' means has about pi / 2 times the variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from sfumato.privacy.response import Window
from sfumato.published.local.calibration import Calibration, calibrate, tail

# The assumptions of the published choice: K, A and B.
TYPICAL_DENSITY, TYPICAL_SPREAD, TYPICAL_OTHERS = 0.1, 0.09, 0.1
WIDTHS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
MOST_ROWS = 2048
LADDER = 120
STEPS_OF_J = 40


@dataclass(frozen=True)
class Typical:
    """What is assumed of the data.

    Attributes
    ----------
    density : float
        K.
    spread, others : float
        A and B.
    """

    density: float = TYPICAL_DENSITY
    spread: float = TYPICAL_SPREAD
    others: float = TYPICAL_OTHERS


def sketch_variance(
    law: Window, rows: int, participants: int, collision: float, groups: int = 1, typical: Typical | None = None
) -> float:
    """Predict the mean squared error of an answer, see the module's text.

    Examples
    --------
    >>> law = Window.of(Fraction(1), 4)
    >>> round(sketch_variance(law, 20, 100_000, 0.25), 5)
    0.00617
    """
    typical = typical or Typical()
    truth, other, q = law.truth, law.other, collision
    shared = q + (1 - q) * typical.density
    noise = shared * truth * (1 - truth) + (1 - shared) * other * (1 - other)
    blow_up = 1 / ((truth - other) * (1 - q))
    inflation = 1.0 if groups == 1 else math.pi / 2
    return inflation * (typical.spread + typical.others * q / (1 - q) + blow_up**2 * noise / participants) / rows


@dataclass(frozen=True)
class Size:
    """A size of the sketch, its calibration and its predicted error."""

    rows: int
    buckets: int
    calibration: Calibration
    variance: float


def best_size(
    epsilon: Fraction,
    participants: int,
    eta: float,
    difference: Callable[[int], tuple[float, float]],
    collision: Callable[[int], float],
    *,
    rule: str = "exact",
    rows: int | None = None,
    widths: Iterable[int] = WIDTHS,
    groups: int = 1,
    grinding: int = 0,
) -> Size:
    """Find the rows and buckets of least predicted error.

    Parameters
    ----------
    epsilon, participants, eta, rule, grinding
        See `calibrate`.
    difference : callable
        From R to the chance that a row tells points at the radius apart, and the paper's bound of it.
    collision : callable
        From R to q.
    rows : int, optional
        L, if it is given.
    widths : iterable of int
        Candidates for R.
    groups : int
        L'.
    """

    def size(count: int, buckets: int) -> Size:
        chance, line = difference(buckets)
        found = calibrate(epsilon, count, chance, eta, rule, line, grinding)
        law = Window.of(found.gamma, buckets)
        return Size(count, buckets, found, sketch_variance(law, count, participants, collision(buckets), groups))

    about = math.ldexp(eta, -grinding)
    sizes = (
        size(count, buckets)
        for buckets in widths
        for count in ([rows] if rows is not None else _candidates(difference(buckets)[0], about, groups))
    )
    return min(sizes, key=lambda found: found.variance)


def _candidates(difference: float, eta: float, groups: int) -> list[int]:
    """Numbers of rows worth trying: a ladder, and the most rows for each small number that may differ."""
    found = {round(MOST_ROWS ** (i / LADDER)) for i in range(LADDER + 1)}
    for j in range(1, STEPS_OF_J):
        low, high = j, MOST_ROWS + 1  # Pr[X > j] <= eta at `low`, not at `high`
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if tail(middle, difference, j) <= eta else (low, middle)
        found.add(low)
    return sorted({max(groups, count // groups * groups) for count in found})
