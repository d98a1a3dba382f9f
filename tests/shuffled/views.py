"""What an analyzer sees, enumerated from what every user does: the oracle for all curves.

Laws are arrays indexed by (ones, zeros), cut at `size`: counts only add up, so that the entries kept are exact, and
what is cut off makes an enumerated delta smaller, never larger.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.signal import fftconvolve

from sfumato.shuffled.bitsum.bit_sum import BitSum
from sfumato.shuffled.bitsum.rr import RandomisedResponse, SampledResponse
from sfumato.shuffled.bitsum.signed import Pure, ThreeNegativeBinomials
from sfumato.shuffled.bitsum.unsigned import NegativeBinomialNoise, PoissonNoise

Law = NDArray[np.float64]


def delta_of(first: Law, second: Law, epsilon: float) -> float:
    """Exact delta of one pair of laws in one order."""
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def negative_binomial_law(shape: float, rate: float, size: int) -> Law:
    """Probabilities of the counts below `size`."""
    return np.asarray(stats.nbinom.pmf(np.arange(size), shape, -math.expm1(-rate)))


def user_law(protocol: BitSum, bit: int, size: int) -> Law:
    """Law of the messages of one user."""
    if isinstance(protocol, PoissonNoise):
        return _shift(stats.poisson.pmf(np.arange(size), float(protocol.mean) / protocol.n), bit)[:, None]
    if isinstance(protocol, NegativeBinomialNoise):
        noise = negative_binomial_law(protocol.shape / protocol.n, float(protocol.rate), size)
        return _shift(noise, bit)[:, None]
    law = np.zeros((size, size))
    if isinstance(protocol, RandomisedResponse | SampledResponse):
        send = float(protocol.send) if isinstance(protocol, SampledResponse) else 1.0
        law[0, 0] = 1 - send
        law[bit, 1 - bit] = send * (1 - float(protocol.flip))
        law[1 - bit, bit] = send * float(protocol.flip)
        return law
    if isinstance(protocol, ThreeNegativeBinomials):
        share = negative_binomial_law(1 / protocol.n, float(protocol.rate), size)
        flood = negative_binomial_law(protocol.flood_shape / protocol.n, float(protocol.flood_rate), size)
        return _flooded(np.outer(_shift(share, bit), share), flood)
    raise TypeError(type(protocol))


def _shift(law: Law, by: int) -> Law:
    return np.concatenate([np.zeros(by), law[: law.size - by]])


def _flooded(law: Law, flood: Law) -> Law:
    """Add the same number of pairs to both counts."""
    total = np.zeros_like(law)
    for pairs, probability in enumerate(flood):
        total[pairs:, pairs:] += probability * law[: len(law) - pairs, : len(law) - pairs]
    return total


def views(protocol: BitSum, size: int) -> Iterator[tuple[Law, Law]]:
    """Laws of the view for the last user's bits 0 and 1, for all bits of the others (the order does not matter)."""
    laws = [user_law(protocol, bit, size) for bit in (0, 1)]
    for others in combinations_with_replacement((0, 1), protocol.n - 1):
        rest = reduce(lambda a, b: _joined(a, b), [laws[bit] for bit in others]) if others else None
        yield tuple(law if rest is None else _joined(rest, law) for law in laws)  # type: ignore[misc]


def _joined(first: Law, second: Law) -> Law:
    return np.asarray(fftconvolve(first, second)[: first.shape[0], : first.shape[1]])


def worst_delta(protocol: BitSum, size: int, epsilon: float, instances: int = 1) -> float:
    """Largest delta over all bits of the others and all directions in which the user's bits move, per instance."""
    pairs = [order for pair in views(protocol, size) for order in (pair, pair[::-1])]
    if instances == 1:
        return max(delta_of(first, second, epsilon) for first, second in pairs)
    assert instances == 2
    flat = [(first.ravel(), second.ravel()) for first, second in pairs]
    return max(
        delta_of(np.outer(a, c), np.outer(b, d), epsilon) for (a, b), (c, d) in combinations_with_replacement(flat, 2)
    )


def pure_noise(protocol: Pure, size: int) -> Law:
    """Law of noise and flood of all users together: sums of positive terms, accurate everywhere."""
    counts = negative_binomial_law(1, float(protocol.rate), size)
    flood = negative_binomial_law(protocol.flood_shape, float(protocol.flood_rate), size)
    return _flooded(np.outer(counts, counts), flood)


def largest_pure_loss(protocol: Pure, size: int) -> float:
    """Largest |ln(P / Q)| over all views below `size` and all bits of the others."""
    noise, drop, copies, largest = pure_noise(protocol, size), float(protocol.drop), protocol.copies, 0.0

    def view(bits: tuple[int, ...]) -> Law:
        law = noise
        for bit in bits:
            kept = np.zeros_like(law)
            kept[copies + bit :, copies:] = law[: size - copies - bit, : size - copies]
            law = drop * law + (1 - drop) * kept
        return law

    for others in combinations_with_replacement((0, 1), protocol.n - 1):
        first, second = view((*others, 0)), view((*others, 1))
        known = np.minimum(first, second) > 1e-280
        assert np.array_equal(known, np.maximum(first, second) > 1e-280) or size > 300
        largest = max(largest, float(np.abs(np.log(first[known] / second[known])).max()))
    return largest
