"""What mechanisms with an algorithm of their own give away: their steps as they run, their queries as they answer.

`price` looks a mechanism up by its method's name; one that is not there fails the tests. The algorithms that learn are
run once with steps that write down which noise each one takes (`Ledger`), so that the number of steps and their rates
are those of the algorithm's own code. How far one record moves the numbers beneath is measured on the queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.audit import Revealed, revealed
from sfumato.errors import InputError
from sfumato.methods.mechanism import Mechanism
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.laws import NoiseLaw
from sfumato.privacy.noise import DiscreteGaussian
from sfumato.published import noisy_sample, pmw, smalldb
from sfumato.published.gridded import NodeQueries
from sfumato.quantizers.base import Integers

Price = Callable[[Mechanism, int, bool], Revealed]
PRICES: dict[str, Price] = {}
COUNT = 50  # a published number of records


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
    assert isinstance(algorithm, pmw.MultiplicativeWeights)
    answers, steps = single_answers(algorithm.queries), Ledger()
    algorithm.learn(answers[0] * COUNT, COUNT, steps)
    return steps.revealed(records * moved(answers, replaced))


def price_small(mechanism: Mechanism, records: int, replaced: bool) -> Revealed:
    """Price `smalldb`: scores are compared between data sets that differ in one record at every node."""
    algorithm: Any = mechanism.algorithm
    assert isinstance(algorithm, smalldb.SmallDatabase)
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


PRICES |= {pmw.NAME: price_weights, smalldb.NAME: price_small, noisy_sample.NAME: price_sample}
