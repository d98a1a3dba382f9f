"""How the budget of hats is split: between nodes and levels, between columns, and how deep the levels go.

Laplace noise. Nodes get a share e_0 of a column's budget and level l the share (1 - e_0) rho^l / K, with K the bound
of sum_l rho^l u_l (`hat`). With C the mean over queries of the nodes' squared weights and V_l that of level l, the
noise variance of an answer over 2 / epsilon^2 is C / e_0^2 + K^2 sum_l V_l rho^(-2l) / (1 - e_0)^2, least where both
shares are proportional to the cube roots of their terms. For |x - y| with four bins that is e_0 = 0.74 and rho = 5/8,
and the variance is 5.16 / epsilon^2 on average and 7.43 / epsilon^2 for the worst query, whatever n and the data are
(in units of the column's squared width). Other powers of |x - y| have their own rho.

Gaussian noise. The hats are free in the l2 norm up to the scales 2^(-(l+1)/2) (`hat`); with two bins the variance is
0.84 c^2 on average and 1.25 c^2 for the worst query, c the noise multiplier of (epsilon, delta).

Columns of widths R_j: the errors R_j^p / e_j add up in squares. Shares of epsilon in proportion to R_j^(2p/3) leave
the least sum under Laplace noise, scales in proportion to R_j^(p/2) under Gaussian noise.

Depth. Levels go on until the worst bias, all records in the last cell of a query, is a quarter of the noise, or until
the release holds 2^20 integers. Further levels add hardly any noise. This takes n, which is public or bought.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sfumato.distances.hat import MOST_LEVELS, PROFILE_BITS, kinks
from sfumato.quantizers.base import Floats

BINS = {"laplace": 4, "gaussian": 2}
MOST_SUMS = 1 << 20
MOST_CELLS = 1 << 13  # of a column where a query weighs every cell, i.e. for powers above 1
BIAS_SHARE = 0.25
SMALLEST_UNIT = 1 << 16
_SEARCHED_LEVELS = 10
_QUERIES = (np.arange(240) + 0.5) / 240
_ONE = 1 << PROFILE_BITS


@dataclass(frozen=True)
class Split:
    """A split of a column's budget.

    Attributes
    ----------
    bins : int
        Bins of a column.
    ratio : Fraction or None
        rho, for Laplace noise; None for the scales that are free under Gaussian noise.
    nodes : Fraction
        The nodes' share.
    variance : float
        Mean noise variance of an answer for a column of width 1 and a unit of noise: times (1 / epsilon)^2 for Laplace
        noise, times the squared noise multiplier for Gaussian noise.
    """

    bins: int
    ratio: Fraction | None
    nodes: Fraction
    variance: float

    def profile(self, levels: int) -> tuple[int, ...]:
        """Scales of nodes and levels in units of 2^-24, rounded down."""
        if self.ratio is None:
            return (_ONE, *(math.isqrt(_ONE**2 >> (level + 1)) for level in range(levels)))
        first = (1 - self.nodes) * (1 - self.ratio) * Fraction(3, 2)  # over K = (2/3) / (1 - rho), safe at every depth
        shares = (self.nodes, *(first * self.ratio**level for level in range(levels)))
        return tuple(math.floor(share * _ONE) for share in shares)


@lru_cache(maxsize=64)
def laplace_split(power: float) -> Split:
    """Find the split for |x - y|^power under Laplace noise."""
    bins = BINS["laplace"]
    nodes, levels = _figures(power, bins)
    candidates = []
    for ratio in (Fraction(k, 40) for k in range(20, 32)):
        bound = float(Fraction(2, 3) / (1 - ratio))
        hats = float((levels * (bound / float(ratio) ** np.arange(len(levels))) ** 2).sum())
        share = nodes ** (1 / 3) / (nodes ** (1 / 3) + hats ** (1 / 3))
        exact = Fraction(round(100 * share), 100)
        variance = 2 * (nodes / float(exact) ** 2 + hats / float(1 - exact) ** 2)
        candidates.append(Split(bins, ratio, exact, variance))
    return min(candidates, key=lambda split: split.variance)


@lru_cache(maxsize=64)
def gaussian_split(power: float) -> Split:
    """Return the split for |x - y|^power under Gaussian noise."""
    bins = BINS["gaussian"]
    nodes, levels = _figures(power, bins)
    variance = nodes + float((levels * 2.0 ** (1 + np.arange(len(levels)))).sum())
    return Split(bins, None, Fraction(1), variance)


def _figures(power: float, bins: int) -> tuple[float, Floats]:
    """Mean squared weights of the nodes, and of each level, for queries spread evenly over a column of width 1."""
    nodes = np.abs(_QUERIES[:, None] - np.arange(bins + 1) / bins) ** power
    levels = [np.square(kinks(_QUERIES, bins << level, power)).sum() for level in range(_SEARCHED_LEVELS)]
    return float(np.square(nodes).sum() / len(_QUERIES)), np.array(levels) / len(_QUERIES)


def levels_for(power: float, bins: int, lengths: Floats, n: int, noise: float) -> int:
    """Return the number of levels at which the worst bias of n records is small beside the noise of an answer."""
    columns = len(lengths)
    room = MOST_SUMS // (columns * bins) if power == 1 else min(MOST_SUMS // (columns * bins), MOST_CELLS // bins)
    most = min(MOST_LEVELS, max(1, room.bit_length() - 1))
    worst = n * float(((lengths / (2 * bins)) ** power).sum())  # without levels
    needed = math.log2(max(worst / (BIAS_SHARE * noise), 1.0)) / power
    return max(1, min(most, math.ceil(needed)))


def laplace_units(power: float, lengths: Floats, total: int) -> tuple[int, ...]:
    """Split `total` between the columns under Laplace noise."""
    return _proportional(lengths ** (2 * power / 3), total)


def gaussian_units(power: float, lengths: Floats, length: float) -> tuple[int, ...]:
    """Split a squared length between the columns' squared units under Gaussian noise."""
    shares = lengths**power / (lengths**power).sum()
    return tuple(max(1, math.floor(length * math.sqrt(share))) for share in shares)


def laplace_noise(power: float, lengths: Floats, scale: float) -> float:
    """Predict the root mean square noise of an answer: `scale` is the noise of a count, 1 / epsilon."""
    return scale * math.sqrt(laplace_split(power).variance * float((lengths ** (2 * power / 3)).sum()) ** 3)


def gaussian_noise(power: float, lengths: Floats, multiplier: float) -> float:
    """Predict the root mean square noise of an answer under Gaussian noise."""
    return multiplier * math.sqrt(gaussian_split(power).variance) * float((lengths**power).sum())


def _proportional(weights: Floats, total: int) -> tuple[int, ...]:
    return tuple(max(SMALLEST_UNIT, math.floor(total * share)) for share in weights / weights.sum())
