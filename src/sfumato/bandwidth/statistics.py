"""What a private bandwidth is read off: two integer histograms, each with its sensitivity and its reading.

Columns. Every record adds 1 to one cell of each column's histogram over the public bounds. Adding or removing a record
changes d cells by 1: l1 = d. The spread of a column is its interquartile range over 1.349, which ignores outliers.

Pairs. Every record falls, by a secret coin of its own, into one of n_hint groups. A group of exactly two records adds 1
to the cell of their distance; any other group adds nothing. Given the coins, adding a record changes one group only:
its size goes from 1 to 2 (one cell grows by 1), from 2 to 3 (the same cell falls by 1), or nothing changes. So l1 = 1,
in any number of columns, and averaging over the coins keeps the bound. About n / (2 e) pairs are found; groups beyond
65,536 are not kept, so that memory does not grow with n.

Replacing a record removes one and adds another: twice the l1, for both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from sfumato.bandwidth.public import rule_factor
from sfumato.compiled import njit
from sfumato.deferred import brought_by
from sfumato.engines import Engine
from sfumato.errors import InputError
from sfumato.kernels import Gaussian, Laplacian
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import brief
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import whole_within
from sfumato.sources import Source

with brought_by("curator"):
    from sklearn.isotonic import isotonic_regression

COLUMN_CELLS = 256
NORMAL_QUARTILES = 1.349  # distance between the quartiles of a normal law, in standard deviations
PAIR_CELLS = 32
SHORTEST = 1e-3  # of the box's diameter: all shorter distances share one cell
MOST_GROUPS = 2**16
PAIRS_PER_RECORD = 1 / (2 * math.e)
REPLICAS, LARGEST_LOG = 60, 50.0
POWERS = {Gaussian.name: 2, Laplacian.name: 1}


class Statistic(Protocol):
    """Integers of a data set that one record changes by at most `l1`, and how a bandwidth is read off them."""

    @property
    def l1(self) -> int:
        """Largest change of the integers, summed, when a record is added or removed."""
        ...

    def count(self, engine: Engine, source: Source, bits: SecureBits) -> Integers:
        """Exact integers of the rows."""
        ...

    def error(self, noise: float) -> float:
        """Relative error of the bandwidth that noise of this standard deviation makes, at three deviations."""
        ...

    def read(self, noisy: Integers, noise: float) -> Floats:
        """Read the bandwidth off the noisy integers; total, whatever they are."""
        ...

    def masses(self, noisy: Integers) -> Floats:
        """Numbers in the cells, not negative, as the noisy integers tell them."""
        ...

    def rounding(self, noisy: Integers, noise: float) -> float:
        """Relative error of the bandwidth that cells of some width can make."""
        ...


@dataclass(frozen=True)
class ColumnSpreads:
    """One histogram a column; reads a rule of thumb's lengths."""

    box: Box
    rule: str
    n: int

    @property
    def l1(self) -> int:
        """One cell a column."""
        return self.box.dimension

    @property
    def size(self) -> int:
        """Cells of all columns."""
        return self.box.dimension * COLUMN_CELLS

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Count the rows in every cell of every column."""
        rows = placed(rows, self.box)
        cells = whole_within((rows - np.array(self.box.lower)) / self._widths, 0, COLUMN_CELLS - 1)
        for counts, line in zip(sums.reshape(-1, COLUMN_CELLS), cells.T, strict=True):
            counts += np.bincount(line, minlength=COLUMN_CELLS)
        return len(rows)

    def count(self, engine: Engine, source: Source, bits: SecureBits) -> Integers:
        """Sum over the rows."""
        return engine.sum(source, self)[0]

    @property
    def _widths(self) -> Floats:
        return 2 * self.box.half_widths / COLUMN_CELLS

    def error(self, noise: float) -> float:
        """Quartiles move by the noise of half of the cells, over the density there, which is 0.318 / spread."""
        moved = noise * math.sqrt(COLUMN_CELLS / 2) / self.n
        return 3 * math.sqrt(2) * moved / (0.318 * NORMAL_QUARTILES)

    def read(self, noisy: Integers, noise: float) -> Floats:
        """Rule of thumb with the spreads between the noisy quartiles, at least one cell wide."""
        lower, widths = np.array(self.box.lower), self._widths
        spreads = np.empty(self.box.dimension)
        for column, line in enumerate(noisy.reshape(self.box.dimension, COLUMN_CELLS)):
            below = np.concatenate([[0.0], _growing(line)])
            edges = lower[column] + widths[column] * np.arange(COLUMN_CELLS + 1)
            low, high = np.interp([0.25 * below[-1], 0.75 * below[-1]], below, edges)
            spreads[column] = max(high - low, widths[column]) / NORMAL_QUARTILES
        return spreads * rule_factor(self.rule, self.n, self.box.dimension)

    def masses(self, noisy: Integers) -> Floats:
        """Numbers in the cells, column by column."""
        lines = [np.diff(_growing(line), prepend=0.0) for line in noisy.reshape(self.box.dimension, COLUMN_CELLS)]
        return np.concatenate(lines)

    def rounding(self, noisy: Integers, noise: float) -> float:
        """Each quartile lies anywhere in its cell: half a cell off, and two of them."""
        spreads = self.read(noisy, noise) / rule_factor(self.rule, self.n, self.box.dimension)
        return float(np.max(self._widths / (NORMAL_QUARTILES * spreads))) / math.sqrt(2)


@dataclass(frozen=True)
class PairDistances:
    """Histogram of the distances of secretly drawn pairs; reads the bandwidth of a target density.

    Attributes
    ----------
    box : Box
        Public bounds.
    kernel : {"gaussian", "laplacian"}
        Its distance is measured: Euclidean, or the sum of absolute differences.
    target : float
        Wanted mean kernel value.
    n : int
        Public guess of the number of records.
    lengths : tuple of float
        Units in which the columns are measured.
    """

    box: Box
    kernel: str
    target: float
    n: int
    lengths: tuple[float, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, str) or self.kernel not in POWERS:
            raise InputError(
                f"a private target density needs the kernel gaussian or laplacian, not {brief(self.kernel)}"
            )

    @property
    def l1(self) -> int:
        """One pair, whatever the number of columns."""
        return 1

    @property
    def _edges(self) -> Floats:
        """Upper ends of the cells: geometric, up to the box's diameter."""
        power = POWERS[self.kernel]
        longest = float((2 * self.box.half_widths / np.array(self.lengths)) ** power @ np.ones(self.box.dimension))
        return np.asarray(longest ** (1 / power) * np.geomspace(SHORTEST, 1.0, PAIR_CELLS))

    @property
    def _centres(self) -> Floats:
        ends = np.concatenate([[SHORTEST * self._edges[-1] / 2], self._edges])
        return np.asarray(np.sqrt(ends[1:] * ends[:-1]))

    def count(self, engine: Engine, source: Source, bits: SecureBits) -> Integers:
        """Count the pairs in every cell of distances."""
        kept = min(self.n, MOST_GROUPS)
        sizes, cells = np.zeros(kept, dtype=np.int64), np.zeros(kept, dtype=np.int64)
        first = np.zeros((kept, self.box.dimension))
        for batch in engine.rows(source):
            rows = placed(batch, self.box) / np.array(self.lengths)
            groups = bits.below(self.n, len(rows))
            _pair_up(rows, groups, sizes, first, cells, self._edges, POWERS[self.kernel])
        return np.bincount(cells[sizes == 2], minlength=PAIR_CELLS)

    @property
    def pairs(self) -> float:
        """Expected number of pairs."""
        return PAIRS_PER_RECORD * min(self.n, MOST_GROUPS)

    def error(self, noise: float) -> float:
        """Near pairs, a share P of all, are found up to their noise, and their number grows as length^d."""
        below = noise * math.sqrt(PAIR_CELLS / 2)
        if 10 * below > self.pairs:
            return math.inf
        return math.pow(1 + 3 * below / (self.target * self.pairs), 1 / self.box.dimension) - 1

    def read(self, noisy: Integers, noise: float) -> Floats:
        """Bandwidth, in every column, at which the pairs have the target's mean kernel value."""
        below = _growing(noisy)
        # Numbers of near pairs that noise alone could make are taken for none: they would shrink the bandwidth a lot.
        # So are those of nearer cells, or fewer pairs would be within a distance than within a shorter one.
        doubtful = below < 3 * noise * np.sqrt(np.arange(1, PAIR_CELLS + 1))
        masses = np.diff(np.where(np.logical_or.accumulate(doubtful[::-1])[::-1], 0.0, below), prepend=0.0)
        if masses.sum() <= 0:
            masses[-1] = 1.0
        shares, centres, power = masses / masses.sum(), self._centres, POWERS[self.kernel]

        def excess(log_bandwidth: float) -> float:
            return float(shares @ np.exp(-((centres / math.exp(log_bandwidth)) ** power))) - self.target

        found = math.exp(brentq(excess, math.log(1e-3 * centres[0]), math.log(1e9 * centres[-1]), xtol=1e-6))
        return found * np.array(self.lengths)

    def masses(self, noisy: Integers) -> Floats:
        """Numbers in the cells."""
        return np.diff(_growing(noisy), prepend=0.0)

    def rounding(self, noisy: Integers, noise: float) -> float:
        """Distances lie anywhere in their cells, so that each cell moves the bandwidth by half its width at most.

        A cell counts by its part in the change of the mean kernel value with the bandwidth. Cells err one by one: three
        deviations of evenly spread errors, and never more than if all erred alike.
        """
        length, power = float(self.read(noisy, noise)[0]) / self.lengths[0], POWERS[self.kernel]
        scaled = (self._centres / length) ** power
        parts = self.masses(noisy) * scaled * np.exp(-scaled)
        half = math.log(1 / SHORTEST) / (PAIR_CELLS - 1) / 2
        total = float(parts.sum())
        return half if total <= 0 else half * min(1.0, math.sqrt(3 * float(np.square(parts / total).sum())))


def reading_error(statistic: Statistic, noisy: Integers, noise: float) -> float:
    """Relative error of a bandwidth at three deviations, as the noisy integers themselves tell it.

    They were paid for, so this is post-processing. The records are a sample and the noise is known: integers like these
    are drawn again, a multinomial sample with Laplace noise, and read; rounding is added.
    """
    masses, random = statistic.masses(noisy), np.random.default_rng(0)
    blocks = masses.reshape(-1, PAIR_CELLS if isinstance(statistic, PairDistances) else COLUMN_CELLS)
    readings = []
    for _ in range(REPLICAS):
        drawn = np.concatenate([_resampled(block, random) for block in blocks])
        again = np.rint(drawn + random.laplace(scale=noise / math.sqrt(2), size=drawn.size)).astype(np.int64)
        readings.append(np.log(statistic.read(again, noise)))
    spread = float(np.std(readings, axis=0, ddof=1).max())
    return math.expm1(min(3 * spread + statistic.rounding(noisy, noise), LARGEST_LOG))


def _resampled(masses: Floats, random: np.random.Generator) -> Floats:
    total = float(masses.sum())
    if total < 1:
        return masses
    return random.multinomial(round(total), masses / total).astype(np.float64)


def placed(batch: NDArray[Any], box: Box) -> Floats:
    """Rows of finite numbers, clipped to the box or dropped as it says; each row by itself."""
    kept = np.isfinite(batch).all(axis=1) if box.outside == "clip" else box.holds(batch)
    return np.clip(batch[kept].astype(np.float64), np.array(box.lower), np.array(box.upper))


def _growing(noisy: Integers) -> Floats:
    """Cumulative counts, made to grow from at least 0, as true ones do."""
    total = np.cumsum(noisy.astype(np.float64))
    return np.asarray(np.maximum(isotonic_regression(total), 0.0))


@njit(nogil=True, cache=True)
def _pair_up(rows, groups, sizes, first, cells, edges, power):  # type: ignore[no-untyped-def]
    """Put rows into groups; the cell of a pair is a function of its two rows alone, the same in either order."""
    for i in range(rows.shape[0]):
        group = groups[i]
        if group >= sizes.size:
            continue
        sizes[group] += 1
        if sizes[group] == 1:
            first[group] = rows[i]
        elif sizes[group] == 2:
            total = 0.0
            for j in range(rows.shape[1]):
                total += abs(rows[i, j] - first[group, j]) ** power
            distance = total ** (1.0 / power)
            cells[group] = min(np.searchsorted(edges, distance), edges.size - 1)
