"""`select`: choose rows of a public pool by their similarity to the private records.

A pool of millions of rows streams through in blocks: what is kept is the best k so far, so memory grows with k and not
with the pool. Top-k keeps the rows of the highest scores. Sampling draws k rows without replacement, each draw in
proportion to the scores of the rows left: a row's key is log(score) + G with G from the standard Gumbel law, and the
rows of the k highest keys are such a sample. Rows whose score is not positive, in which there is nothing but noise,
are never drawn.

Scores. Rows of a pool are public and their scores are post-processing, so nothing here has to be exact: Fourier
features are computed in single precision, a matrix product and one pass of cosines for each block of rows. A row's
score then differs from `Release.query` by about 1e-6 of the size of the terms, far below the noise. Other releases are
asked by `Release.query`.

Everything here is post-processing of a release: it costs no privacy, however often it is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.engines import Progress
from sfumato.errors import InputError
from sfumato.kernels import Distance
from sfumato.public.arguments import checked_entropy, checked_progress
from sfumato.public.codec import brief
from sfumato.quantizers import FourierQuantizer, ShardedFourier
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.cosines import pair_amplitudes
from sfumato.release import Release
from sfumato.sources import Source, open_source
from sfumato.sources.selection import Columns
from sfumato.threads import one_blas_thread, workers_of

BLOCK_VALUES = 1 << 21  # of one block of rows
FEWEST_ROWS = 1024
ROW_BLOCK = 256  # of rows that are scored at once
LARGEST_TURNS = 64.0  # beyond, single precision loses the phase
Scorer = Callable[[NDArray[Any]], Floats]


@dataclass(frozen=True, eq=False)
class Selection:
    """Rows that were selected.

    Attributes
    ----------
    positions : ndarray of int64
        Their positions in the pool, from 0; those of the highest scores (or, when sampling, keys) first.
    scores : ndarray
        Mean similarity of each to the private records (minus the mean distance, for a release of distances).
    """

    positions: Integers
    scores: Floats

    def __len__(self) -> int:
        return len(self.positions)


@dataclass
class _Best:
    """The rows of the k highest keys so far; of equal keys the first rows."""

    k: int
    keys: Floats = field(default_factory=lambda: np.empty(0))
    positions: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    scores: Floats = field(default_factory=lambda: np.empty(0))
    threshold: float = -np.inf

    def add(self, keys: Floats, scores: Floats, first: int) -> None:
        """Take in rows from position `first` on; a key of minus infinity is out."""
        good = np.flatnonzero(keys > self.threshold)
        self.keys = np.concatenate([self.keys, keys[good]])
        self.positions = np.concatenate([self.positions, good + first])
        self.scores = np.concatenate([self.scores, scores[good]])
        if len(self.keys) > 2 * self.k + FEWEST_ROWS:
            self.shrink()

    def shrink(self) -> None:
        """Keep the best k, in order."""
        order = np.lexsort((self.positions, -self.keys))[: self.k]
        self.keys, self.positions, self.scores = self.keys[order], self.positions[order], self.scores[order]
        if len(self.keys) == self.k:
            self.threshold = float(self.keys[-1])


def select(
    release: Release,
    pool: Any,
    k: int | float,
    *,
    columns: Columns | None = None,
    sample: bool = False,
    random_state: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Selection:
    """Select the rows of a public pool that are most similar to the private records.

    Parameters
    ----------
    release : Release
        The private records' release.
    pool : array, frame, table, path, Source or iterator of batches
        The public rows, with the release's columns; read once, in blocks. A folder of parquet files is one pool.
    k : int, or float below 1
        How many rows, or which share of the pool, where its length is known (arrays and parquet files).
    columns : list, optional
        Which of the pool's columns make up a point.
    sample : bool
        Draw rows at random in proportion to their scores instead of taking the highest.
    random_state : int, optional
        Seed of the drawing, which is no secret.
    threads : int, optional
        Workers; all available cores by default.
    progress : callable, optional
        Told about rows done.

    Returns
    -------
    Selection
        Fewer than k rows if the pool has fewer that are finite numbers (and have positive scores, when sampling).

    Examples
    --------
    >>> from sfumato import PrivateKDE
    >>> random = np.random.default_rng(0)
    >>> release = PrivateKDE(bandwidth=1.0, epsilon=2.0, n_hint=1000).fit(random.normal(size=(1000, 2))).release_
    >>> pool = np.vstack([random.normal(size=(50, 2)) + 20, random.normal(size=(50, 2))])
    >>> bool((select(release, pool, 10).positions >= 50).all())
    True
    """
    if not isinstance(release, Release):
        raise InputError(f"select reads a release, got {brief(release)}")
    source = open_source(pool, columns)
    if source.dimension != release.dimension:
        raise InputError(
            f"the pool has {source.dimension} columns and the release has {release.dimension}; pass columns= to select"
        )
    if sample and isinstance(release.kernel, Distance):
        raise InputError("sampling needs similarities, and this is a release of distances: pass sample=False")
    best, progress = _Best(_size(k, source)), checked_progress(progress)
    seed = np.random.SeedSequence(checked_entropy(random_state))
    first = 0
    for scores in _scores(release, source, threads):
        keys = _drawn(scores, seed, first) if sample else scores
        best.add(keys, scores, first)
        first += len(scores)
        if progress is not None:
            progress(len(scores))
    best.shrink()
    return Selection(best.positions, best.scores)


def _size(k: int | float, source: Source) -> int:
    if isinstance(k, float) and 0 < k < 1:
        if source.expected_rows is None:
            raise InputError("this pool's length is not known beforehand: pass k as a number of rows, not as a share")
        return max(1, round(k * source.expected_rows))
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k must be a positive number of rows, or a share of the pool between 0 and 1; got {brief(k)}")
    return int(k)


def _scores(release: Release, source: Source, threads: int | None) -> Iterator[Floats]:
    """Scores of the rows, block by block in their order; as many blocks in memory as there are workers, and two."""
    workers = workers_of(threads)
    score, rows = scorer(release), max(FEWEST_ROWS, BLOCK_VALUES // source.dimension)
    pending: deque[Future[Floats]] = deque()
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        try:
            for block in source.batches(rows):
                pending.append(pool.submit(score, block))
                if len(pending) > workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _drawn(scores: Floats, seed: np.random.SeedSequence, first: int) -> NDArray[np.float64]:
    """Keys of a weighted sample; the same for the same rows, whatever the number of threads."""
    random = np.random.default_rng([first, *seed.generate_state(4)])
    positive = scores > 0
    keys = np.full(len(scores), -np.inf)
    keys[positive] = np.log(scores[positive]) + random.gumbel(size=int(positive.sum()))
    return keys


def scorer(release: Release) -> Scorer:
    """Return the function that scores rows: the mean similarity to the records, or minus the mean distance.

    A row that is not made of finite numbers has the score minus infinity.

    Examples
    --------
    >>> from sfumato import PrivateKDE
    >>> points = np.random.default_rng(0).normal(size=(1000, 2))
    >>> release = PrivateKDE(bandwidth=1.0, epsilon=5.0, n_hint=1000, method="lsq-rff").fit(points).release_
    >>> near, far, odd = scorer(release)(np.array([[0.0, 0.0], [9.0, 9.0], [np.nan, 0.0]]))
    >>> bool(near > far > odd)
    True
    """
    sign = -1.0 if isinstance(release.kernel, Distance) else 1.0

    def ask(rows: NDArray[Any]) -> Floats:
        return sign * release.query(rows)

    quick = _fourier(release)

    def score(rows: NDArray[Any]) -> Floats:
        # One pass: a sum of squares is finite only if all are; it is cheaper than asking every number.
        if np.isfinite(np.einsum("ij,ij->", rows, rows)):
            return quick(rows) if quick is not None else ask(rows)
        finite = np.isfinite(rows).all(axis=1)
        if finite.all():
            return ask(rows)
        scores = np.full(len(rows), -np.inf)
        if finite.any():
            scores[finite] = score(rows[finite])
        return scores

    return score


def _fourier(release: Release) -> Scorer | None:
    """Quick way for Fourier features, where the release has them."""
    quantizer, sums = release.reader, release.values.astype(np.float64)
    if not isinstance(quantizer, FourierQuantizer | ShardedFourier) or release.groups > 1:
        return None
    if isinstance(quantizer, FourierQuantizer) and quantizer.layout == "phase":
        lengths, shifts = 2 * sums, np.zeros(quantizer.terms)
    else:
        lengths, shifts = pair_amplitudes(sums)
    if isinstance(quantizer, ShardedFourier):
        lengths = lengths * quantizer.groups
    phases = quantizer.phases
    unit = 2.0**-phases.bits
    turns = phases.frequencies * (unit / phases.lattice.steps[:, None])
    # The lattice's centre goes into the offsets: rows are taken as they are.
    centre = phases.lattice.centre * phases.lattice.steps
    offsets = phases.offsets * unit - shifts - centre @ turns
    single = turns.astype(np.float32)
    heights = (lengths / (quantizer.gain * quantizer.terms * release.count.value)).astype(np.float32)
    offsets32 = (offsets - np.rint(offsets)).astype(np.float32)
    longest = float(np.sqrt(np.square(turns).sum(axis=0).max()))

    def score(rows: NDArray[Any]) -> Floats:
        if np.sqrt(np.einsum("ij,ij->i", rows, rows).max(initial=0.0)) * longest > LARGEST_TURNS:
            return release.query(rows)
        scores, space = np.empty(len(rows)), np.empty((ROW_BLOCK, len(heights)), dtype=np.float32)
        for start in range(0, len(rows), ROW_BLOCK):
            block = rows[start : start + ROW_BLOCK].astype(np.float32, copy=False)
            product = np.dot(block, single, out=space[: len(block)])
            weigh_cosines(product, offsets32, heights, scores[start : start + len(block)])
        return scores

    return score


@njit(nogil=True, cache=True, fastmath=True)
def weigh_cosines(turns, offsets, heights, scores):  # type: ignore[no-untyped-def]
    """Sum over j of heights[j] cos(2 pi (turns[i, j] + offsets[j])), for each row."""
    for i in range(turns.shape[0]):
        total = np.float32(0.0)
        for j in range(turns.shape[1]):
            t = turns[i, j] + offsets[j]
            t = abs(t - np.rint(t))
            # cos(2 pi t) = sin(2 pi (1/4 - t)), an odd series on a quarter turn each way
            u = np.float32(6.2831855) * (np.float32(0.25) - t)
            s = u * u
            sine = s * np.float32(-2.5052108e-08) + np.float32(2.7557319e-06)
            sine = s * sine - np.float32(1.9841270e-04)
            sine = s * sine + np.float32(8.3333333e-03)
            sine = s * sine - np.float32(1.6666667e-01)
            total += heights[j] * (u + u * s * sine)
        scores[i] = total
