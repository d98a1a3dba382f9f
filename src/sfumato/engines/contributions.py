"""How much a user, or a record, may contribute: limits on records, and weights as coins.

A user keeps at most k of their records, chosen uniformly by secret coins. Every row that can count (its values are
finite and it belongs to somebody) draws its own 64-bit word, and a user keeps the rows with their k smallest words: a
uniformly random subset, but for ties, which have probability 2^-64 a pair. Rows that belong to nobody are dropped.

Guarantee. Fix the coins of all rows, which are independent of each other and of the data: the words here, the groups
of `quantizers.fourier`, the coins of weights. Which rows of a user are kept depends on that user's rows and words
alone, so adding or removing a user changes the sums by the integers of at most k records and nothing else. With B the
body that one record's integers lie in, the change lies in k B, for a norm of a sum is at most the sum of the norms:

- l1 and l2 sensitivities are k times those of one record, which is all that `lsq-rff` and `fourier-gaussian` use;
- disc noise: if the coins put k_g of the records into group g, the sums of that group change by at most k_g s in the
  norm of its discs. At rate e_f / (k s) group g costs e_f k_g / k, the groups' noises are independent, and the costs
  add up to at most e_f, because the k_g add up to at most k. So every record may have a group of its own;
- the count changes by at most k, hence noise of rate e_c / k.

For every choice of the coins no output is more than exp(epsilon) times as likely as without the user (with delta:
epsilon and delta hold for every choice), and an average over the coins keeps that (joint convexity).

The limit per user rests on keys that do not collide; see `sources.keys`. It does not rest on rows that come in the
same order twice: the second reading checks that the kept rows still belong to the users they were chosen for, so no
user can have more than k. Replacing a user is not offered: two users may have different numbers of records, so that
the number of records, which would be public, could not stay the same.

What is estimated. A user with m_u records counts with weight min(k, m_u) in all, spread evenly over their records:
sum_u min(k, m_u) / m_u sum_i k(x_ui, y) over n = sum_u min(k, m_u). With c_u = min(k, m_u) and S_u^2 the variance of
k(x_ui, y) among the user's records (denominator m_u - 1), the choice adds the variance sum_u c_u (1 - c_u / m_u) S_u^2
/ n^2 to an answer, which is at most A (1 - A) / n for an answer A: nothing for users with k records or fewer. It falls
as 1 / n, the noise as 1 / n^2: error bars and predictions include it.

Weights. A record of weight w in [0, 1] is kept with probability w, by its own coin: a word below floor(w 2^64). The
weight is a part of the record, like its coordinates; given the coins, a record of weight w < 1 is either there or not,
so the sums change by at most one record's integers, and the guarantee is that of records without weights (the same
average over coins). Answers estimate sum_i w_i k(x_i, y) / sum_i w_i. With W = sum_i w_i and A the answer, the coins
add a variance of about sum_i w_i (1 - w_i) (k(x_i, y) - A)^2 / W^2, which is at most A (1 - A) / W.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits, Words
from sfumato.sources import Source
from sfumato.sources.base import BATCH_ROWS, Rows, Weights, reblock
from sfumato.sources.keys import KEY_WORDS, Keys

Positions = npt.NDArray[np.int64]
Held = npt.NDArray[Any]
WEIGHTS_CONDITION = "weights outside [0, 1] are clipped to it; records without a weight are dropped"


def limit_condition(limit: int) -> str:
    """Say what the limit does, for the guarantee.

    Examples
    --------
    >>> limit_condition(1)
    'at most 1 record per user, chosen at random; records without a user are dropped'
    """
    return (
        f"at most {limit} record{'s' if limit > 1 else ''} per user, chosen at random; records without a user are "
        "dropped"
    )


@dataclass
class Choice:
    """Rows that the users keep: for each user those with the smallest words, in memory that follows the users.

    Rows are gathered, and whenever there are twice as many as after the last cut (or a batch's worth, if that is more)
    every user is cut down to `limit`.

    Attributes
    ----------
    limit
        Most rows of one user.
    keys, words, rows
        Key, word, and position or coordinates of each row gathered so far.
    """

    limit: int
    keys: Keys = field(default_factory=lambda: np.empty((0, KEY_WORDS), np.uint64))
    words: Words = field(default_factory=lambda: np.empty(0, np.uint64))
    rows: Held = field(default_factory=lambda: np.empty(0, np.int64))
    _waiting: list[tuple[Keys, Words, Held]] = field(default_factory=list)

    @property
    def gathered(self) -> int:
        """How many rows are held in memory."""
        return len(self.rows) + sum(len(rows) for _, _, rows in self._waiting)

    def add(self, keys: Keys, words: Words, rows: Held) -> None:
        """Offer rows."""
        self._waiting.append((keys, words, rows))
        if self.gathered > 2 * max(len(self.rows), BATCH_ROWS):
            self.cut()

    def cut(self) -> None:
        """Leave every user the rows with their smallest words."""
        gathered = [(self.keys, self.words, self.rows), *self._waiting]
        keys, words, rows = (np.concatenate(parts) for parts in zip(*gathered, strict=True))
        order = np.lexsort((words, *keys.T))
        keys = keys[order]
        begins = np.ones(len(keys), dtype=bool)
        begins[1:] = (keys[1:] != keys[:-1]).any(axis=1)
        places = np.arange(len(keys))
        ranks = places - np.maximum.accumulate(np.where(begins, places, 0))
        kept = order[ranks < self.limit]
        self.keys, self.words, self.rows = keys[ranks < self.limit], words[kept], rows[kept]
        self._waiting = []


def bounded(source: Source, limit: int, bits: SecureBits) -> Source:
    """Return a source of at most `limit` rows of each user, chosen at random.

    The users' rows are chosen once, when the result is first read; every reading gives the same rows. Memory follows
    the number of users times the limit, not the number of rows.

    Parameters
    ----------
    source : Source
        Rows with users, which can be read again: once to choose, and once for each reading of the result.
    limit : int
        Most rows of one user.
    bits : SecureBits
        Secret coins.

    Returns
    -------
    Source
        Without users; weights stay.

    Raises
    ------
    InputError
        If the source has no users, can be read only once, or (while reading) gives other rows the second time.

    Examples
    --------
    >>> from sfumato.sources import open_source
    >>> source = open_source([["ada", 1], ["ada", 2], ["bob", 3], ["ada", 4]], key=0)
    >>> [batch] = bounded(source, 1, SecureBits()).batches()
    >>> batch.shape, 3.0 in batch
    ((2, 1), True)
    """
    if not source.keyed:
        raise InputError("a limit for each user needs rows with users: open the source with key=, or attach users")
    if not source.repeatable:
        raise InputError(
            "a limit for each user reads the data twice, and this source can be read only once. "
            "Pass an array, a table or a file."
        )

    @cache
    def choice() -> tuple[Positions, Keys]:
        return _choose(source, limit, bits)

    def kept() -> Iterator[Rows]:
        rows, keys = choice()
        start = first = 0
        for piece in source.pieces():
            stop = start + len(piece)
            last = int(np.searchsorted(rows, stop))
            here = rows[first:last] - start
            if not np.array_equal(piece.users[here], keys[first:last]):
                raise _changed()
            yield replace(piece, keys=None)[here]
            start, first = stop, last
        if first < len(rows):
            raise _changed()

    return _part(source, kept, keyed=False, weighted=source.weighted)


def _choose(source: Source, limit: int, bits: SecureBits) -> tuple[Positions, Keys]:
    """Positions of the kept rows, in order, and whose they are."""
    choice, start = Choice(limit), 0
    for piece in source.pieces():
        words = bits.words(len(piece))
        counts = piece.users.any(axis=1) & np.isfinite(piece.block).all(axis=1)
        choice.add(piece.users[counts], words[counts], start + np.flatnonzero(counts))
        start += len(piece)
    choice.cut()
    order = np.argsort(choice.rows)
    return choice.rows[order], choice.keys[order]


def one_pass(pieces: Iterator[Rows], limit: int, bits: SecureBits) -> Iterator[Rows]:
    """Choose at most `limit` rows of each user, as `bounded` does, of rows that are read once and hold all of a user's.

    The same words choose the same rows. What is kept is in memory, and given at the end.

    Examples
    --------
    >>> from sfumato.sources import open_source
    >>> source = open_source([["ada", 1], ["ada", 2], ["bob", 3], ["ada", 4]], key=0)
    >>> [rows] = one_pass(source.pieces(), 1, SecureBits())
    >>> rows.block.shape, 3.0 in rows.block
    ((2, 1), True)
    """
    choice = None
    for piece in pieces:
        counts = piece.users.any(axis=1) & np.isfinite(piece.block).all(axis=1)
        words = bits.words(len(piece))
        choice = choice or Choice(limit, rows=piece.block[:0])
        choice.add(piece.users[counts], words[counts], piece.block[counts])
    if choice is not None:
        choice.cut()
        yield Rows(choice.rows)


@dataclass(frozen=True)
class Limited:
    """The step that leaves each user at most `limit` rows; see `one_pass`."""

    limit: int

    def __call__(self, pieces: Iterator[Rows], bits: SecureBits) -> Iterator[Rows]:
        """Choose."""
        return one_pass(pieces, self.limit, bits)


@dataclass(frozen=True)
class Thinned:
    """The step that keeps each row with the probability that its weight says; see `thinned`."""

    def __call__(self, pieces: Iterator[Rows], bits: SecureBits) -> Iterator[Rows]:
        """Toss the coins."""
        return _tossed(pieces, bits)


def _changed() -> InputError:
    return InputError(
        "the source gave other rows when it was read again, so the limit for each user cannot be kept. "
        "Pass a source that repeats its rows: an array, a table or a file that nobody writes to."
    )


def thinned(source: Source, bits: SecureBits) -> Source:
    """Return a source in which each row is there with the probability that its weight says.

    Every reading gives the same rows: their coins come from a seed that is drawn from the secret bits here, stays in
    memory, and is never written or shown.

    Parameters
    ----------
    source : Source
        Rows with weights: a weight above 1 counts as 1, one below 0 as 0; a row without one is dropped.
    bits : SecureBits
        Secret coins.

    Returns
    -------
    Source
        Without weights; users stay.

    Examples
    --------
    >>> from sfumato.sources import open_source
    >>> source = open_source([[5, 1.0], [6, 0.0], [7, None]], weight=1)
    >>> [batch] = thinned(source, SecureBits()).batches()
    >>> batch
    array([[5.]])
    """
    if not source.weighted:
        raise InputError("coins for weights need rows with weights: open the source with weight=, or attach weights")
    seed = bits.words(4).tobytes()

    def kept() -> Iterator[Rows]:
        return _tossed(source.pieces(), SecureBits.seeded(seed))

    return _part(source, kept, keyed=source.keyed, weighted=False)


def _tossed(pieces: Iterator[Rows], coins: SecureBits) -> Iterator[Rows]:
    for piece in pieces:
        assert piece.weights is not None
        yield replace(piece, weights=None)[keeps(piece.weights, coins.words(len(piece)))]


def keeps(weights: Weights, words: Words) -> npt.NDArray[np.bool_]:
    """Toss a coin of probability `weights` for each row: exactly floor(w 2^64) of the 2^64 words keep it.

    Examples
    --------
    >>> keeps(np.array([0.0, 0.5, 0.5, 1.0, np.nan]), np.array([0, 2**63 - 1, 2**63, 2**64 - 1, 0], np.uint64))
    array([False,  True, False,  True, False])
    """
    clipped = np.clip(np.nan_to_num(weights, nan=0.0), 0.0, 1.0)
    certain = clipped == 1.0
    # Scaling by a power of two is exact, and the largest double below 1 gives 2^64 - 2^11.
    thresholds = np.floor(np.where(certain, 0.0, clipped) * 2.0**64).astype(np.uint64)
    return np.asarray(certain | (words < thresholds))


def _part(source: Source, kept: Callable[[], Iterator[Rows]], *, keyed: bool, weighted: bool) -> Source:
    return Source(
        dimension=source.dimension,
        column_names=source.column_names,
        read=lambda rows: reblock(kept(), rows),
        repeatable=source.repeatable,
        keyed=keyed,
        weighted=weighted,
    )
