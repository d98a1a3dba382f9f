"""`metric-rows`, server half.

Estimate. Let I(u) say whether part u of a row lies in the query's cell, and q = e^-share. The noise has the generating
function (1 - q)^2 / ((1 - q z)(1 - q / z)), whose inverse is 1 - c (z - 2 + 1 / z) with c = q / (1 - q)^2. So

    f(u) = I(u) - c (I(u + 1) - 2 I(u) + I(u - 1))

of the noisy part has the mean I of the true one, exactly and for every point. f is 1 inside the cell and 1 + c in its
first and last part (1 + 2 c where that is one and the same), -c in the last part of the cell before and the first of
the cell after, and 0 elsewhere: bucket and place tell, up to cells that share a bucket. Over the keys of the rehash
distinct cells do with probability p, and f sums to 1 over all cells at any place in them, so the sum g of f over the
cells that share the reported bucket has the mean (1 - p) f + p, and (g - p) / (1 - p) has the mean I, whose mean over
hash functions is the kernel. Rows of randomised response are read as those of `rows`. The answer is the mean over all
reports, the Monte Carlo mean of the pool's rows, whose spread gives the error bar.

Variance. With u = p + (1 - p) K at density K and V = 1 + 4 (c + c^2) / M (one part: 1 + 4 c + 6 c^2), the mean of f^2
over that of I for projections that are spread evenly over parts, one answer has (u V - u^2) / (1 - p)^2; of all n s
answers the (n s)-th part, and (A + B / (R - 1)) / D as for `rows`. V tends to 1 as the radius tends to 0: then nothing
is left but the hash functions' own variance.

A row whose cells would have fewer than `least` parts takes randomised response: there V is too large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.kernels import L1LSH, L2LSH, Kernel
from sfumato.local.device import Device
from sfumato.local.hashing import LABEL
from sfumato.local.metric_phases_server import PREDICTION_ROWS, coarse_all
from sfumato.local.metric_rows import FIRST, LAST, MOST_PARTS, NEITHER, PLACES, MetricRows
from sfumato.local.pool import HashPool, by_blocks, held_numbers, numbers, row_table
from sfumato.local.pool_server import PointGrid, PoolReader, respond
from sfumato.local.pooled import NORM_ERROR
from sfumato.local.rows_server import (
    RowAnswer,
    RowsServer,
    Sizes,
    best_sizes,
    hash_family,
    pool_design,
    pool_variance,
    row_answer,
    row_sizes,
)
from sfumato.local.server import Design, Tally
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.public.rows import CAUCHY, NORMAL
from sfumato.quantizers.base import Floats, Integers

NOISELESS = 300.0  # half of a share of epsilon beyond which squares of hyperbolic sines are no doubles


@dataclass(frozen=True)
class NoisyRow:
    """What a noisy part says: `share` of epsilon a row, and the rehash's collision probability p."""

    share: float
    collision: float

    @property
    def correction(self) -> float:
        """c: what is taken off the neighbours of a cell's edges."""
        return 0.25 / math.sinh(min(self.share / 2, NOISELESS)) ** 2

    def growth(self, parts: Floats) -> Floats:
        """V, for so many parts a cell."""
        c = self.correction
        return np.where(parts > 1, 1 + 4 * (c + c**2) / np.maximum(parts, 1), 1 + 4 * c + 6 * c**2)

    def variance(self, density: float, growth: Floats) -> Floats:
        """Variance of one answer."""
        matched = self.collision + (1 - self.collision) * density
        return np.asarray((matched * growth - matched**2) / (1 - self.collision) ** 2)

    def least(self, density: float, other: float) -> int:
        """Fewest parts with which an answer has less than another variance, at least 1."""
        matched = self.collision + (1 - self.collision) * density
        growth = other * (1 - self.collision) ** 2 / matched + matched
        if self.growth(np.ones(1))[0] < growth:
            return 1
        c = self.correction
        return min(max(2, math.floor(4 * (c + c**2) / (growth - 1)) + 1), MOST_PARTS) if growth > 1 else MOST_PARTS


def part_lengths(
    directions: Integers, scales: Floats, radius: float, euclidean: bool, steps_apart: float = 1.0
) -> Integers:
    """Lengths D of many directions, as `MetricRows.length` has them; shape (rows,)."""
    steps = directions * scales
    size = np.sqrt(np.square(steps).sum(axis=1)) if euclidean else np.abs(steps).max(axis=1)
    return coarse_all((radius * size + steps_apart * np.abs(directions).sum(axis=1)) * (1 + NORM_ERROR))


class MetricRowsServer(RowsServer):
    """Counts of (row, bucket, place); see the module's text."""

    name = "metric-rows"
    device: MetricRows

    def __init__(self, device: Device, kernel: Kernel) -> None:
        super().__init__(device, kernel)
        self.parts = Parts(self.device, self.pool)

    @classmethod
    def refuse(cls, request: Request) -> str | None:
        """Ask for a radius, and for one projection a row."""
        if not isinstance(request.kernel, L1LSH | L2LSH):
            return f"{request.kernel!r} is not hashed by projections; metric-rows takes l1-lsh, l2-lsh"
        return "it needs radius=, a distance of the kernel" if request.radius is None else super().refuse(request)

    @classmethod
    def design(cls, request: Request) -> Design:
        """Minimise the predicted variance over rows a person and buckets a row."""
        family, grid = hash_family(request)
        parts = typical_parts(request, grid)

        def sizes(rows_each: int, buckets: int) -> Sizes | None:
            made = row_sizes(request, family, rows_each, buckets)
            if made is None:
                return None
            parameters = made[1]
            answer = row_answer(family, parameters, request.dimension)
            plain = answer.variance(request.density)
            noisy = NoisyRow(float(request.epsilon) / rows_each, answer.collision)
            least = noisy.least(request.density, plain)
            each = np.where(parts < least, plain, noisy.variance(request.density, noisy.growth(parts)))
            variance = float(each.mean()) / (request.n * rows_each) + pool_variance(request, parameters, answer)
            return variance, {**parameters, "radius": float(request.radius or 0.0), "least": least}

        variance, parameters = best_sizes(request, PLACES, sizes)
        return pool_design(family, grid, parameters, variance, PLACES * parameters["buckets"], pure=False)

    def noise_variance(self, reports: int) -> float:
        """Of the most uncertain counter, at most, at the mean number of reports a row."""
        return reports * self.device.rows_each / self.rows / 4

    def influence(self) -> float:
        """One report moves each of its rows' terms between two values."""
        lowest, highest = (pick(self.parts.own, axis=1) for pick in (np.min, np.max))
        lowest = np.minimum(lowest, (self.parts.before + self.parts.after).min(axis=1))
        return float(((highest - np.minimum(lowest, 0.0)) * self.parts.factors).max())

    def random_digits(self, X: Integers, rows: Integers, bits: SecureBits) -> Integers:
        """Move parts at random, or answer by randomised response."""
        shift, everybody = self.device.hash.shift, np.arange(len(X))
        projections = self.pool.projections(X, everybody, rows)
        cells, lengths, parts = projections >> shift, self.parts.lengths[rows], self.parts.counts[rows]
        noisy = parts >= self.device.least
        numbered = np.minimum((projections - (cells << shift)) // lengths, parts - 1)
        numbered[noisy] += cells[noisy] * parts[noisy]
        numbered[noisy] += DiscreteLaplace(self.device.share).sample(bits, int(noisy.sum()))
        cells[noisy], within = np.divmod(numbered[noisy], parts[noisy])
        digits = PLACES * self.pool.named(cells[:, None], rows).astype(np.int64)
        digits[~noisy] = PLACES * respond(self.device.response, digits[~noisy] // PLACES, bits) + NEITHER
        edge = np.where(within == 0, FIRST, np.where(within == parts[noisy] - 1, LAST, NEITHER))
        digits[noisy] += np.where(parts[noisy] == 1, NEITHER, edge)
        return digits

    def quantizer(self, tally: Tally) -> MetricReportedRows:
        """Read counters."""
        return MetricReportedRows(self.device, self.pool, self.parts)


def typical_parts(request: Request, grid: PointGrid) -> Floats:
    """Parts a cell of rows that nobody uses, for predictions."""
    euclidean = isinstance(request.kernel, L2LSH)
    law = NORMAL if euclidean else CAUCHY
    _, words = row_table(bytes(32), LABEL, PREDICTION_ROWS, 0, request.dimension)
    lengths = part_lengths(numbers(law, words), np.array(grid.scales), float(request.radius or 0.0), euclidean)
    return np.asarray((1 << grid.point_bits + law.fraction_bits) // lengths, dtype=np.float64)


class Parts:
    """How all rows of a pool cut their cells, and what their reports are worth.

    A row's answer is ``factor (g - shift)``, see the module's text.
    """

    def __init__(self, device: MetricRows, pool: HashPool) -> None:
        self.device = device
        self.pool = pool

    @cached_property
    def lengths(self) -> Integers:
        """Length D of every row's parts."""
        made = self.device
        scales = np.array(made.scales)
        return by_blocks(
            self.pool.directions, lambda part: part_lengths(part, scales, made.radius, made.euclidean, made.steps_apart)
        )

    @cached_property
    def counts(self) -> Integers:
        """Parts M of every row's cells."""
        return np.asarray((1 << self.device.hash.shift) // self.lengths)

    @cached_property
    def _noisy(self) -> NoisyRow:
        return NoisyRow(float(self.device.share), float(self.device.hash.collision))

    def _values(self, several: list[float], single: float, response: float) -> Floats:
        """Choose by the row: several parts, one part, or randomised response."""
        noisy, one = self.counts >= self.device.least, self.counts == 1
        values = np.where(one[:, None], single, np.array(several))
        return np.where(noisy[:, None], values, response)

    @cached_property
    def own(self) -> Floats:
        """Return f at the places of the query's cell."""
        c = self._noisy.correction
        return self._values([1 + c, 1.0, 1 + c], 1 + 2 * c, 1.0)

    @cached_property
    def before(self) -> Floats:
        """Return f at the places of the cell before it."""
        c = self._noisy.correction
        return self._values([0.0, 0.0, -c], -c, 0.0)

    @cached_property
    def after(self) -> Floats:
        """Return f at the places of the cell after it."""
        c = self._noisy.correction
        return self._values([-c, 0.0, 0.0], -c, 0.0)

    @cached_property
    def _answer(self) -> RowAnswer:
        return RowAnswer(self.device.response, float(self.device.hash.collision))

    @cached_property
    def factors(self) -> Floats:
        """Return 1 / (1 - p), or what randomised response takes."""
        noisy = self.counts >= self.device.least
        return np.where(noisy, 1 / (1 - self._noisy.collision), self._answer.range)

    @cached_property
    def shifts(self) -> Floats:
        """Return p, or the chance with which an unrelated response names a bucket."""
        return np.where(self.counts >= self.device.least, self._noisy.collision, self._answer.shift)


class MetricReportedRows(PoolReader):
    """Counts of the query's cell and its neighbours, weighed row by row."""

    name = "local-metric-rows"
    kind = MetricRows
    device: MetricRows

    def __init__(self, device: MetricRows, pool: HashPool | None = None, parts: Parts | None = None) -> None:
        super().__init__(device)
        self.pool = pool or HashPool(device.hash, self.terms)
        self.parts = parts or Parts(device, self.pool)

    @property
    def width(self) -> int:
        """Buckets and places a row."""
        return self.device.outcomes

    @classmethod
    def held(cls, device: MetricRows) -> int:
        """Directions and keys of a row."""
        return held_numbers(device.hash)

    def _near(self, x: Integers) -> tuple[tuple[Integers, Floats], ...]:
        """Buckets of a query's cell and of its neighbours in every row, each with f at its places."""
        rows, parts = np.arange(self.terms), self.parts
        cells = self.pool.projections(x[None], np.zeros_like(rows), rows) >> self.device.hash.shift
        beside = ((0, parts.own), (-1, parts.before), (1, parts.after))
        return tuple((self.pool.named(cells[:, None] + step, rows).astype(np.int64), f) for step, f in beside)

    def term_values(self, Y: Floats, sums: Floats) -> Floats:
        """Gather the counters of three buckets a row; the mean over rows estimates the sum over people."""
        table = sums.reshape(self.terms, self.device.hash.buckets, PLACES)
        answered, rows = table.sum(axis=(1, 2)), np.arange(self.terms)
        values = np.empty((len(Y), self.terms))
        for value, x in zip(values, self.lattice(Y, self.pool.farthest), strict=True):
            value[:] = sum((table[rows, buckets] * f).sum(axis=1) for buckets, f in self._near(x))
        values = (values - self.parts.shifts * answered) * (self.parts.factors * self.device.groups)
        return self.steadied(values, answered)

    def weights(self, Y: Floats) -> Floats:
        """Weights g(y), dense; `term_values` does without them."""
        rows, shape = np.arange(self.terms), (len(Y), self.terms, self.device.hash.buckets, PLACES)
        weights = np.broadcast_to(-self.parts.shifts[:, None, None], shape).copy()
        for weight, x in zip(weights, self.lattice(Y, self.pool.farthest), strict=True):
            for buckets, f in self._near(x):
                weight[rows, buckets] += f
        weights *= (self.parts.factors * self.device.groups)[:, None, None]
        return weights.reshape(len(Y), self.size)


METRIC_ROWS = MetricRowsServer.method("hash buckets with noise that hides points within a radius")
