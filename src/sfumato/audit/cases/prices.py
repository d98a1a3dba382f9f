"""The worst records, and what mechanisms with an algorithm of their own give away about them.

A search for the worst change of a mechanism's integers looks at corners and edges of the box, its middle, zero, evenly
spread places, values far outside, numbers at the ends of the float range, and rows that are no numbers. Under "replace"
pairs are searched: from several records, the one farthest from it, then the one farthest from that. A record that is
dropped adds nothing, which is one of the pair's choices.

`price` looks a mechanism up by its method's name; one that is not there fails the tests. The algorithms that learn are
run once with steps that write down which noise each one takes (`Ledger`), so that the number of steps and their rates
are those of the algorithm's own code. How far one record moves the numbers beneath is measured on the queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any, cast

import numpy as np

from sfumato.audit import Revealed, revealed
from sfumato.audit.losses import norms
from sfumato.errors import InputError
from sfumato.methods.method import Mechanism
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.laws import NoiseLaw
from sfumato.privacy.noise import DiscreteGaussian
from sfumato.published import huang_roth, learners, noisy_sample
from sfumato.published import moments as published_moments
from sfumato.published.gridded import NodeQueries
from sfumato.published.huang_roth import ConvexHypothesis
from sfumato.published.moments import Halves, squares_around_mean
from sfumato.quantizers.base import Encoder, Floats, Integers
from sfumato.quantizers.box import Box
from sfumato.release import Count

PLACES = 2000
MOST_CORNERS = 8  # columns, of which all corners are listed
STARTS, TURNS = 8, 3
MOST_NUMBERS = 1 << 20  # that are compared at once


def places(box: Box) -> Floats:
    """Return the records to try."""
    dimension, random = box.dimension, np.random.default_rng(7)
    low, high, middle = np.array(box.lower), np.array(box.upper), box.centre
    if dimension <= MOST_CORNERS:
        corners = np.array(list(product((0.0, 0.5, 1.0) if dimension <= 4 else (0.0, 1.0), repeat=dimension)))
    else:
        corners = random.integers(0, 2, (1 << MOST_CORNERS, dimension)).astype(np.float64)
        corners[:3] = [[0.0], [0.5], [1.0]]
    even = np.linspace(0.0, 1.0, PLACES)[:, None] if dimension == 1 else random.random((PLACES, dimension))
    edges = np.where(random.random(even.shape) < 0.5, even, np.rint(even))
    inside = low + np.concatenate([corners, even, edges]) * (high - low)
    odd = np.array([0.0, 1e9, -1e9, 1e300, -1e300, math.nan, math.inf, -math.inf])
    return np.concatenate([inside, middle + 3 * (inside - middle), np.repeat(odd[:, None], dimension, axis=1)])


def worst_change(quantizer: Encoder, law: NoiseLaw, replaced: bool) -> tuple[Integers, int]:
    """Return the change of the sums by one record that the law hides the least, and how many changes were looked at.

    Parameters
    ----------
    quantizer : Encoder
        What encodes the records.
    law : NoiseLaw
        The noise, which says how changes compare.
    replaced : bool
        Whether a record is replaced, not added.
    """
    rows = places(quantizer.box)
    fewer = -(-len(rows) * quantizer.size // MOST_NUMBERS)
    encoded = quantizer.encode(rows[::fewer], SecureBits.seeded(0))
    sizes = norms(law, encoded)
    if not replaced:
        return encoded[int(np.argmax(sizes))], len(encoded)
    choices = np.vstack([encoded, np.zeros_like(encoded[:1])])
    spread = np.linspace(0, len(choices) - 1, STARTS).astype(np.int64)
    best, largest = choices[0] - choices[0], -1.0
    for start in (int(np.argmax(sizes)), *spread.tolist()):
        here = start
        for _ in range(TURNS):
            away = norms(law, choices - choices[here])
            there = int(np.argmax(away))
            if away[there] > largest:
                best, largest = choices[there] - choices[here], float(away[there])
            here = there
    return best, (STARTS + 1) * TURNS * len(choices)


Price = Callable[[Mechanism, int, bool], Revealed]
PRICES: dict[str, Price] = {}
COUNT = 50  # a published number of records
PUBLIC_COUNT = Count(COUNT, 0.0, public=True)
CROWD = 10**9


def price(mechanism: Mechanism, records: int, replaced: bool) -> Revealed:
    """Return what the algorithm of a mechanism gives away about a unit of so many records, the count apart."""
    if mechanism.method not in PRICES:
        raise InputError(f"{mechanism.method} runs an algorithm of its own: say in PRICES what that gives away")
    return PRICES[mechanism.method](mechanism, records, replaced)


@dataclass
class Ledger:
    """Steps that are as if there were no noise, and that write down what each would have used."""

    choices: list[Fraction] = field(default_factory=list)
    laws: list[NoiseLaw] = field(default_factory=list)

    def choose(self, scores: Integers, rate: Fraction) -> int:
        """Choose the best."""
        self.choices.append(rate)
        return int(np.argmax(scores))

    def measure(self, value: int, law: NoiseLaw) -> int:
        """Measure exactly."""
        self.laws.append(law)
        return value

    def revealed(self, change: int) -> Revealed:
        """Return what all steps give away if a unit moves every number beneath them by at most `change`.

        A choice among scores that move by D either way has log ratios of 2 rate D at most, and that range bounds them
        as a whole: it is (2 rate D)^2 / 8-zCDP. Beside Gaussian noise, which is D^2 / (2 sigma^2)-zCDP, that is used.
        """
        if any(isinstance(law, DiscreteGaussian) for law in self.laws):
            rhos = [float(2 * rate * change) ** 2 / 8 for rate in self.choices]
            rhos += [float(revealed(law, np.array([change])).mu_squared) / 2 for law in self.laws]
            return Revealed(rho=math.fsum(rhos))
        total = Revealed(pure=sum((2 * rate * change for rate in self.choices), Fraction(0)))
        return sum((revealed(law, np.array([change])) for law in self.laws), total)


def moved(answers: Integers, replaced: bool) -> int:
    """Return how far a record moves any answer, from the answers of every single record (one a row)."""
    most = answers.max(axis=0)
    return int((most - np.minimum(answers.min(axis=0), 0) if replaced else np.abs(answers).max(axis=0)).max())


def single_answers(queries: NodeQueries) -> Integers:
    """Answers of one record at each node of the grid."""
    return np.stack([queries.answers(one) for one in np.eye(queries.grid.cells, dtype=np.int64)])


def price_weights(mechanism: Mechanism, records: int, replaced: bool) -> Revealed:
    """Price `pmw`: scores |answer - estimate| move as the answers do."""
    algorithm: Any = mechanism.algorithm
    assert isinstance(algorithm, learners.MultiplicativeWeights)
    answers, steps = single_answers(algorithm.queries), Ledger()
    algorithm.learn(answers[0] * COUNT, COUNT, steps)
    return steps.revealed(records * moved(answers, replaced))


def price_small(mechanism: Mechanism, records: int, replaced: bool) -> Revealed:
    """Price `smalldb`: scores are compared between data sets that differ in one record at every node."""
    algorithm: Any = mechanism.algorithm
    assert isinstance(algorithm, learners.SmallDatabase)
    answers, steps = single_answers(algorithm.queries), Ledger()
    algorithm.choose(answers[0] * COUNT, COUNT, steps)
    change = 0
    for others in (0, COUNT):
        before = others * answers[-1] + (answers[0] if replaced else 0)
        scores = algorithm.errors(before, COUNT)
        for one in answers:
            after = others * answers[-1] + one
            change = max(change, int(np.abs(algorithm.errors(after, COUNT) - scores).max()))
    return steps.revealed(records * change)


def price_sample(mechanism: Mechanism, records: int, replaced: bool) -> Revealed:
    """Price `noisy-sample`: a record moves the densities of the sampled ones, and may be sampled itself.

    With M the most that are sampled, q the chance of a record, D what it adds to a density and T the largest density:
    rate M D + log(1 + q (exp(rate T) - 1)) for each record of a unit. M and T are what a crowd of records shows.
    """
    algorithm: Any = mechanism.algorithm
    assert isinstance(algorithm, noisy_sample.SecretSample)
    crowd = np.zeros(algorithm.queries.grid.cells, dtype=np.int64)
    crowd[0] = 40 * algorithm.records
    most = len(algorithm.draw(crowd, SecureBits.seeded(0)))
    rate, change = float(algorithm.law.rate), moved(single_answers(algorithm.queries), replaced)
    largest = algorithm.total(crowd, np.zeros(1, dtype=np.int64))
    chance = algorithm.sample / algorithm.records
    each = rate * most * change + math.log1p(chance * math.expm1(rate * largest))
    return Revealed(pure=records * Fraction(each))


def price_halves(mechanism: Mechanism, records: int, replaced: bool) -> Revealed:
    """Price `sqeuclidean-published`: the sums, and V of data sets with one record more, or with another one."""
    algorithm, quantizer = mechanism.algorithm, mechanism.encoder
    assert isinstance(algorithm, Halves)
    encoded = quantizer.encode(places(quantizer.box)[:200])
    moved = 0
    for others, beside in product((0, 1, PUBLIC_COUNT.value), (encoded[0], encoded[len(encoded) // 2])):
        rest = others * beside
        after = [squares_around_mean(rest + one) for one in encoded]
        before = after[:2] if replaced else [squares_around_mean(rest)]
        moved = max(moved, *(abs(later - earlier) for later in after for earlier in before))
    sums, _ = worst_change(quantizer, algorithm.sums_law, replaced)
    squares = revealed(algorithm.square_law, np.array([records * moved]))
    return revealed(algorithm.sums_law, records * sums[:-2]) + squares


@dataclass
class Recorded:
    """Bits that write down which noise is drawn, and draw none."""

    rates: list[tuple[int, Fraction]] = field(default_factory=list)

    def draw(self, fill: object, count: int, words: float, *terms: Any) -> Integers:
        """Note how many numbers of which rate are drawn."""
        numerator, denominator = map(int, terms)
        self.rates.append((count, Fraction(numerator, denominator)))
        return np.zeros(count, dtype=np.int64)


def price_learner(mechanism: Mechanism, records: int, replaced: bool) -> Revealed:
    """Price `huang-roth`: for every anchor one noisy threshold, comparisons with it, and a noisy value.

    With D what a unit adds to a sum of distances, comparisons at rate c with a threshold at rate t give away D t + 2 D
    c until one is above it, and the anchor's value at rate a gives away D a. The rates are those that a crowd makes the
    learner draw, which takes every anchor that it may.
    """
    quantizer, algorithm = mechanism.encoder, mechanism.algorithm
    assert isinstance(quantizer, ConvexHypothesis) and algorithm is not None
    points, coins = np.arange(quantizer.column_size), Recorded()
    distances = np.abs(points[:, None] - points)
    moved = int(np.abs(distances[:, :, None] - distances[:, None, :]).max() if replaced else distances.max())
    crowd = np.full(quantizer.size, CROWD, dtype=np.int64)
    algorithm(crowd, PUBLIC_COUNT, cast(SecureBits, coins))
    rounds = [coins.rates[start : start + 3] for start in range(0, len(coins.rates), 3)]
    assert len(rounds) == quantizer.dimension * mechanism.parameters["anchors"], "the crowd must take every anchor"
    each = sum((limit + 2 * compare + answer for (_, limit), (_, compare), (_, answer) in rounds), Fraction(0))
    return Revealed(pure=records * moved * each)


PRICES |= {
    learners.PMW: price_weights,
    learners.SMALLDB: price_small,
    noisy_sample.NAME: price_sample,
    published_moments.NAME: price_halves,
    huang_roth.NAME: price_learner,
}
