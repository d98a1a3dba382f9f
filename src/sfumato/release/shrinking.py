"""Shrunk answers: less squared error where noise is as large as what is asked for, at the price of a bias.

A plain answer a is the truth A plus an error of known deviation s (its bar). Over the queries that a release is for,
the truths have a spread of their own, and where s is not small beside it, the answer of least expected squared error is
the mean of A given a under that spread. The spread comes from the release alone, so the answer to a query never
depends on the other queries; it is post-processing and costs no privacy.

**In few columns** (public bounds of at most `MOST_CELLS` bandwidths to the power of the columns) the release is read at
`PLACES` fixed places spread evenly over the bounds. The law G of A / s there is what makes their answers most likely
(the first steps of the EM algorithm for a mixture of unit normals, Kiefer and Wolfowitz 1956; Laird 1978). Queries on
a map follow G; queries like the records are found at a place in proportion to A, so they follow z G(z) / mean(z). The
spread that is used is a quarter of one and three quarters of the other.

**In many columns** such places are empty. Features of unit length show P, the mean kernel value between two records:
the mean square of their sums is P plus known noise (`Reader.similarity`). Queries like the records have mean P, and a
spread that is public: A / P is taken to follow a gamma law of deviation `SPREAD` (measured 0.55 to 0.8 on the papers'
data sets), or the largest that P allows, sqrt(P^-1/2 - 1) (`methods.ranking`), where that is smaller.

**Limited translation** (Efron and Morris 1971): an answer more than `PLAIN` bars above zero is left as it is, and
from `FULL` bars on the change fades, so that a few large densities lose nothing to the many small ones. A release that
shows no spread is read plainly.

**Bars.** The deviation of A given a, which holds both the noise that is left and the bias: on average over queries of
that spread its square is the mean square error. Where P is an estimate, its own error is added in the share in which it
enters. At a single query that is unlike the others the bias can be larger, up to the change itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import Distance, InnerProduct, ShiftInvariantKernel
from sfumato.quantizers.answer import Floats

if TYPE_CHECKING:
    from sfumato.release.release import Release

READINGS = ("plain", "shrunk")
SPREAD = 0.75
FULL, PLAIN = 6.0, 8.0
FARTHEST = 14.0  # bars from zero up to which truths are weighed: an answer of `PLAIN` bars is far below it
NODES = 224
PLACES, FEWEST_PLACES = 4096, 512
MOST_CELLS = 4 * PLACES
MOST_PRODUCTS = 1 << 27  # for reading all places
STEPS = 60
RECORDS = 0.75  # share of queries like the records in the spread that is used, the others being spread evenly
BLOCK = 4096


class Spread(Protocol):
    """What a release shows of the truths at queries: their law, before a query is answered."""

    @property
    def words(self) -> str:
        """One line for people."""

    @property
    def uncertainty(self) -> float:
        """Standard error of the law's centre; 0 where the law was not reduced to one number."""

    def reach(self, errors: Floats) -> Floats:
        """Largest truth worth weighing at answers with these bars."""

    def log_weights(self, truths: Floats, errors: Floats) -> Floats:
        """Log density of truths (a row an answer), up to a constant."""


@dataclass(frozen=True)
class GammaSpread:
    """Truths at queries like the records, from P and its standard error."""

    similarity: float
    uncertainty: float

    @property
    def mean(self) -> float:
        """P, or its standard error where P is not above it."""
        return min(max(self.similarity, self.uncertainty), 1.0)

    @property
    def words(self) -> str:
        """One line for people."""
        return f"queries like the records, P = {self.similarity:.3g} +- {self.uncertainty:.1g} from the release"

    def reach(self, errors: Floats) -> Floats:
        """Return twelve means, which hold all but 1e-8 of the law."""
        return np.minimum(FARTHEST * errors, 12 * self.mean)

    def log_weights(self, truths: Floats, errors: Floats) -> Floats:
        """Log density of the gamma law."""
        largest = math.sqrt(max(self.mean**-0.5 - 1, 1e-4))
        shape = min(SPREAD, largest) ** -2
        return np.asarray((shape - 1) * np.log(truths) - shape * truths / self.mean)


@dataclass(frozen=True, eq=False)
class PlacesSpread:
    """Truths in units of their bars at places in the bounds: masses on `NODES` cells from 0 to `FARTHEST`."""

    masses: Floats
    uncertainty: float = 0.0

    @property
    def words(self) -> str:
        """One line for people."""
        return "places in the bounds and queries like the records, from the release's own answers"

    def reach(self, errors: Floats) -> Floats:
        """Return where the law ends."""
        return FARTHEST * errors

    def log_weights(self, truths: Floats, errors: Floats) -> Floats:
        """Log masses of the cells, which are the same for every answer."""
        return np.broadcast_to(np.log(self.masses), truths.shape)


def spread_of(release: Release) -> Spread | None:
    """Learn the spread of the truths from a release; None where it shows none."""
    if release.kernel is None or isinstance(release.kernel, Distance | InnerProduct):
        return None
    if (places := _places(release)) is not None:
        try:
            return _spread_of_places(*release.query(places, return_std=True))
        except InputError:  # a release that answers a fixed list of queries and no others
            return None
    found = release.reader.similarity(release.values.astype(np.float64), release.known)
    return None if found is None or not found[1] > 0 else GammaSpread(*found)


def _places(release: Release) -> Floats | None:
    """Return public places spread evenly over the bounds, if these are not too wide to be covered."""
    box, kernel = release.reader.box, release.kernel
    if not isinstance(kernel, ShiftInvariantKernel) or not box.declared:
        return None
    widths = 2 * box.half_widths / kernel.column_scales(release.dimension)
    if np.log(np.maximum(widths, 1.0)).sum() > math.log(MOST_CELLS):
        return None
    count = min(PLACES, max(FEWEST_PLACES, MOST_PRODUCTS // max(release.reader.query_products, 1)))
    # Multiples of powers of one irrational number fill a cube evenly; it solves x^(d + 1) = x + 1.
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (release.dimension + 1))
    turns = np.modf(np.outer(np.arange(1, count + 1), root ** -np.arange(1.0, release.dimension + 1)))[0]
    return np.asarray(np.asarray(box.lower) + turns * 2 * box.half_widths)


def _spread_of_places(values: Floats, errors: Floats) -> PlacesSpread | None:
    """Estimate the law of A / s from answers at places, see the module's text."""
    clear = np.isfinite(errors) & (errors > 0)
    if not clear.any():
        return None
    scores = values[clear] / errors[clear]
    near = scores[scores < FARTHEST - 2]
    cells = (np.arange(NODES) + 0.5) * (FARTHEST / NODES)
    cells[0] = 0.0  # the first cell stands for empty places
    likelihood = np.exp(-0.5 * np.square(np.maximum(near, -FARTHEST)[:, None] - cells))
    masses = np.full(NODES, 1 / NODES)
    for _ in range(STEPS if len(near) else 0):
        masses = masses * (likelihood / (likelihood @ masses)[:, None]).mean(axis=0)
    average = max(float(scores.mean()), 1e-3)
    mixed = masses * (1 - RECORDS + RECORDS * cells / average)
    # A little of every size: a truth that no place shows is unlikely, and not impossible.
    return PlacesSpread(0.99 * mixed / mixed.sum() + 0.01 / NODES)


def shrink(spread: Spread | None, values: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """Replace answers and bars by the mean and deviation of the truth given the answer.

    Examples
    --------
    >>> spread = GammaSpread(0.01, 0.0005)
    >>> values, errors = shrink(spread, np.array([0.004, 0.5]), np.array([0.01, 0.01]))
    >>> bool(0.004 < values[0] < 0.01 and errors[0] < 0.01), float(values[1])
    (True, 0.5)
    """
    answers, bars = values.copy(), errors.copy()
    if spread is None:
        return answers, bars
    moved = np.flatnonzero(np.isfinite(errors) & (errors > 0) & (values < PLAIN * errors))
    for part in _blocks(len(moved)):
        chosen = moved[part]
        answers[chosen], bars[chosen] = _given(spread, values[chosen], errors[chosen])
    return answers, bars


def _given(spread: Spread, values: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """Mean and deviation of the truth given answers, faded out as the module's text says."""
    truths = spread.reach(errors)[:, None] * ((np.arange(NODES) + 0.5) / NODES)
    logs = spread.log_weights(truths, errors) - 0.5 * np.square((values[:, None] - truths) / errors[:, None])
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    mean = np.einsum("ij,ij->i", weights, truths)
    variance = np.maximum(np.einsum("ij,ij->i", weights, np.square(truths)) - mean**2, 0.0)
    kept = np.minimum(variance / errors**2, 1.0)  # the part of a change of the answer that reaches the mean
    variance += np.square((1 - kept) * spread.uncertainty)
    share = np.clip((PLAIN - values / errors) / (PLAIN - FULL), 0.0, 1.0)
    faded = share * variance + (1 - share) * errors**2
    return values + share * (mean - values), np.sqrt(faded)


def _blocks(count: int) -> Iterator[slice]:
    return (slice(start, start + BLOCK) for start in range(0, count, BLOCK))
