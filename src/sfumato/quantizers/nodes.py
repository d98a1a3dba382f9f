"""Where the products of per-axis weights go: the nodes of a tensor grid, each its own sum or hashed into buckets.

Every axis gives each of its nodes a key. A grid node's place is the sum of its keys (strides). Hashed, its keys are
random words, and its bucket is the leading bits of their mixed exclusive or. Two different nodes differ in an axis, so
their exclusive ors are independent and uniform; the mixing is a bijection of 64-bit words, which keeps both. Without
it two rows of nodes would share either all of their buckets or none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.public.portable import PublicStream
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.clamping import held
from sfumato.quantizers.splines import POSITION_BITS, POSITIONS, Dual

LITTLE = 4096  # nodes that are read in all; more are read by compiled code


@dataclass(frozen=True, eq=False)
class Nodes:
    """Places of a tensor grid's nodes.

    Attributes
    ----------
    keys : ndarray of uint64
        Keys of all axes' nodes, axis after axis.
    starts : ndarray of int
        Where each axis' keys begin.
    shift : int
        Bits of the hash that do not choose the bucket; 0 for a grid that is kept whole.
    size : int
        Number of sums.
    """

    keys: NDArray[np.uint64]
    starts: Integers
    shift: int
    size: int

    @classmethod
    def kept(cls, lengths: Sequence[int]) -> Nodes:
        """Keep every node of a grid, the last axis running fastest."""
        strides = [math.prod(lengths[axis + 1 :]) for axis in range(len(lengths))]
        keys = [np.arange(nodes) * stride for nodes, stride in zip(lengths, strides, strict=True)]
        return cls(_joined(keys), np.cumsum([0, *lengths]), 0, math.prod(lengths))

    @classmethod
    def hashed(cls, lengths: Sequence[int], buckets: int, seed: int) -> Nodes:
        """Hash the nodes into a power of two of buckets by a public seed."""
        keys = [PublicStream(seed, f"grid-{axis}").words(nodes) for axis, nodes in enumerate(lengths)]
        return cls(_joined(keys), np.cumsum([0, *lengths]), 65 - buckets.bit_length(), buckets)

    def profiles(self, duals: Sequence[Dual], sums: Floats, queries: int) -> tuple[Floats, list[Floats]]:
        """For each query, the sum over its windows' nodes of weight times sum, and the same along each axis by itself.

        An axis' profile holds, for each of its nodes, the sum over the other axes' nodes of their weights times the
        sums: what the other columns of the kernel leave of the records, as a grid of one column.
        """
        total = np.empty(queries)
        weights, first, lengths = _windows(duals, queries)
        profiles = np.zeros_like(weights)
        # What compiled code saves on a few numbers is less than Numba takes to load.
        little = not self.shift and queries * int(np.prod(lengths)) <= LITTLE
        gather = _gather.py_func if little else _gather
        gather(sums, weights, first, lengths, self.keys, self.starts, self.shift, total, profiles)
        return total, [profile[:, :length] for profile, length in zip(profiles, lengths, strict=True)]

    def spread(self, duals: Sequence[Dual], coefficients: Floats) -> Floats:
        """Weights of all sums in the sum over queries of coefficient times answer: the transpose of `gather`."""
        result = np.zeros(self.size)
        _spread(coefficients, *_windows(duals, len(coefficients)), self.keys, self.starts, self.shift, result)
        return result

    def layout(self, duals: Sequence[Dual], query: int) -> Floats:
        """Weights of one query, laid out like the sums."""
        place, weight = np.zeros(1, dtype=np.uint64), np.ones(1)
        for start, dual in zip(self.starts, duals, strict=False):
            begin = start + dual.first[query]
            own = self.keys[begin : begin + dual.weights.shape[1]]
            place = (place[:, None] ^ own if self.shift else place[:, None] + own).ravel()
            weight = (weight[:, None] * dual.weights[query]).ravel()
        index = _bucket.py_func(place, self.shift) if self.shift else place
        return np.asarray(np.bincount(index.astype(np.int64), weights=weight, minlength=self.size), dtype=np.float64)


def _joined(keys: Sequence[NDArray[np.generic]]) -> NDArray[np.uint64]:
    return np.concatenate([np.zeros(0, dtype=np.uint64), *(own.astype(np.uint64) for own in keys)])


def _windows(duals: Sequence[Dual], queries: int) -> tuple[Floats, Integers, Integers]:
    """Weights of all axes, shape (axes, queries, longest window), their first nodes, and the windows' lengths."""
    lengths = np.array([dual.weights.shape[1] for dual in duals], dtype=np.int64)
    weights = np.zeros((len(duals), queries, int(lengths.max(initial=1))))
    first = np.zeros((len(duals), queries), dtype=np.int64)
    for axis, dual in enumerate(duals):
        weights[axis, :, : lengths[axis]] = dual.weights
        first[axis] = dual.first
    return weights, first, lengths


@njit(reads=True, nogil=True, cache=True)
def _bucket(word, shift):  # type: ignore[no-untyped-def]
    """Mix the bits of a word by a bijection (the finaliser of SplitMix64) and take the leading ones."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (word ^ (word >> np.uint64(31))) >> np.uint64(shift)


@njit(nogil=True, cache=True)
def scatter(rows, edges, cells, table, keys, starts, shift, sums):  # type: ignore[no-untyped-def]
    """Add the integers of the rows that the box keeps to `sums`, and return how many those were.

    `edges` are the box' lower and upper ones and whether it drops; `cells` the columns of the axes, their origins,
    their positions per unit of length and their last positions; `table` the integers at every position in a cell.
    """
    lower, upper, drop = edges
    columns, origin, inverse, last = cells
    axes, touched = len(columns), table.shape[1]
    place = np.empty(touched ** max(axes - 1, 0), np.uint64)
    weight = np.empty(len(place), np.int64)
    spot = np.empty(axes, np.float64)
    kept = 0
    for i in range(rows.shape[0]):
        if not keep(rows[i], lower, upper, drop, columns, spot):
            continue
        kept += 1
        if axes == 0:
            sums[0] += 1
            continue
        count = 1
        place[0] = 0
        weight[0] = 1
        for axis in range(axes):
            # One subtraction and one product, each rounded once: the same position on every machine.
            position = held((spot[axis] - origin[axis]) * inverse[axis], 0, last[axis])
            own = table[position & (POSITIONS - 1)]
            begin = starts[axis] + (position >> POSITION_BITS)
            if axis == axes - 1:
                for k in range(count):
                    for m in range(touched):
                        key = keys[begin + m]
                        target = _bucket(place[k] ^ key, shift) if shift else place[k] + key
                        sums[np.int64(target)] += weight[k] * own[m]
            else:
                for k in range(count - 1, -1, -1):  # backwards, because the products take the place of their factors
                    before, factor = place[k], weight[k]
                    for m in range(touched):
                        key = keys[begin + m]
                        place[k * touched + m] = before ^ key if shift else before + key
                        weight[k * touched + m] = factor * own[m]
                count *= touched
    return kept


@njit(nogil=True, cache=True)
def scatter_each(rows, edges, cells, table, keys, starts, shift, encoded):  # type: ignore[no-untyped-def]
    """Write the integers of each kept row to a row of its own of `encoded`, and return how many those were."""
    kept = 0
    for i in range(rows.shape[0]):
        kept += scatter(rows[i : i + 1], edges, cells, table, keys, starts, shift, encoded[kept])
    return kept


@njit(nogil=True, cache=True)
def keep(row, lower, upper, drop, columns, spot):  # type: ignore[no-untyped-def]
    """Whether the box keeps the row; its clipped values in the axes' columns go to `spot`."""
    axis = 0
    for j in range(len(row)):
        value = np.float64(row[j])
        if not np.isfinite(value):
            return False
        if value < lower[j] or value > upper[j]:
            if drop:
                return False
            value = lower[j] if value < lower[j] else upper[j]
        if axis < len(columns) and columns[axis] == j:
            spot[axis] = value
            axis += 1
    return True


@njit(reads=True, nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _gather(sums, weights, first, lengths, keys, starts, shift, total, profiles):  # type: ignore[no-untyped-def]
    axes = len(lengths)
    outer = 1
    for axis in range(axes - 1):
        outer *= lengths[axis]
    last = max(axes - 1, 0)
    step = np.empty(axes, np.int64)
    for query in range(len(total)):
        if axes == 0:
            total[query] = sums[0]
            continue
        begin = starts[last] + first[last, query]
        own, profile = weights[last, query], profiles[last, query]
        for combination in range(outer):
            rest, factor, place = combination, 1.0, np.uint64(0)
            for axis in range(last - 1, -1, -1):
                step[axis] = rest % lengths[axis]
                rest //= lengths[axis]
                factor *= weights[axis, query, step[axis]]
                key = keys[starts[axis] + first[axis, query] + step[axis]]
                place = place ^ key if shift else place + key
            inner = 0.0
            if shift:
                for m in range(lengths[last]):
                    value = sums[np.int64(_bucket(place ^ keys[begin + m], shift))]
                    profile[m] += factor * value
                    inner += own[m] * value
            else:
                offset = np.int64(place + keys[begin])
                for m in range(lengths[last]):
                    value = sums[offset + m]
                    profile[m] += factor * value
                    inner += own[m] * value
            for axis in range(last):
                others = inner
                for other in range(last):
                    if other != axis:
                        others *= weights[other, query, step[other]]
                profiles[axis, query, step[axis]] += others
        answer = 0.0
        for m in range(lengths[last]):
            answer += own[m] * profile[m]
        total[query] = answer


@njit(reads=True, nogil=True, cache=True)
def _spread(coefficients, weights, first, lengths, keys, starts, shift, result):  # type: ignore[no-untyped-def]
    axes = len(lengths)
    outer = 1
    for axis in range(axes - 1):
        outer *= lengths[axis]
    for query in range(len(coefficients)):
        if axes == 0:
            result[0] += coefficients[query]
            continue
        begin = starts[axes - 1] + first[axes - 1, query]
        for combination in range(outer):
            rest, factor, place = combination, coefficients[query], np.uint64(0)
            for axis in range(axes - 2, -1, -1):
                step = rest % lengths[axis]
                rest //= lengths[axis]
                factor *= weights[axis, query, step]
                key = keys[starts[axis] + first[axis, query] + step]
                place = place ^ key if shift else place + key
            for m in range(lengths[axes - 1]):
                key = keys[begin + m]
                target = _bucket(place ^ key, shift) if shift else place + key
                result[np.int64(target)] += factor * weights[axes - 1, query, m]
