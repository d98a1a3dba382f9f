"""`select`: choose rows of a public pool by their similarity to the private records.

A pool of millions of rows streams through in blocks: what is kept is the best k so far, so memory grows with k and not
with the pool. Top-k keeps the rows of the highest scores. Sampling draws k rows without replacement, each draw in
proportion to the scores of the rows left: a row's key is log(score) + G with G from the standard Gumbel law, and the
rows of the k highest keys are such a sample. Rows whose score is not positive, in which there is nothing but noise,
are never drawn.

Everything here is post-processing of a release: it costs no privacy, however often it is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engines import Progress
from sfumato.engines.threads import default_threads
from sfumato.errors import InputError
from sfumato.kernels import Distance
from sfumato.kernels.exact import one_blas_thread
from sfumato.learn.scoring import scorer
from sfumato.quantizers.base import Floats, Integers
from sfumato.release import Release
from sfumato.sources import Source, open_source
from sfumato.sources.selection import Columns

BLOCK_VALUES = 1 << 21  # of one block of rows
FEWEST_ROWS = 1024


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
    source = open_source(pool, columns)
    if source.dimension != release.dimension:
        raise InputError(
            f"the pool has {source.dimension} columns and the release has {release.dimension}; pass columns= to select"
        )
    if sample and isinstance(release.kernel, Distance):
        raise InputError("sampling needs similarities, and this is a release of distances: pass sample=False")
    best = _Best(_size(k, source))
    seed = np.random.SeedSequence(random_state)
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
        raise InputError(f"k must be a positive number of rows, or a share of the pool between 0 and 1; got {k!r}")
    return int(k)


def _scores(release: Release, source: Source, threads: int | None) -> Iterator[Floats]:
    """Scores of the rows, block by block in their order; as many blocks in memory as there are workers, and two."""
    workers = default_threads() if threads is None else threads
    if workers < 1:
        raise InputError(f"threads must be 1 or more, got {threads}")
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
