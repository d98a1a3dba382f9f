"""Requests for distances on which calibrations are checked, and what the algorithms of two methods give away.

Importing this module registers the checks. Every distance and every option that a method knows is in one request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any, cast

import numpy as np

from sfumato.audit import Revealed, revealed
from sfumato.audit.cases.algorithms import PRICES
from sfumato.audit.cases.places import places, worst_change
from sfumato.audit.cases.variants import Subject, register_subjects
from sfumato.distances import hats, moments
from sfumato.distances.request import DistanceRequest
from sfumato.kernels.distance import Distance
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.registry import DISTANCES
from sfumato.privacy.bits import SecureBits
from sfumato.published import huang_roth, trees
from sfumato.published import moments as published_moments
from sfumato.published.huang_roth import ConvexHypothesis
from sfumato.published.moments import Halves, squares_around_mean
from sfumato.quantizers.base import Integers
from sfumato.release import Count

COUNT = Count(50, 0.0, public=True)
CROWD = 10**9


def price_halves(mechanism: Mechanism, records: int, replaced: bool) -> Revealed:
    """Price `sqeuclidean-published`: the sums, and V of data sets with one record more, or with another one."""
    algorithm, quantizer = mechanism.algorithm, mechanism.quantizer
    assert isinstance(algorithm, Halves)
    encoded = quantizer.encode(places(quantizer.box)[:200])
    moved = 0
    for others, beside in product((0, 1, COUNT.value), (encoded[0], encoded[len(encoded) // 2])):
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
    quantizer, algorithm = mechanism.quantizer, mechanism.algorithm
    assert isinstance(quantizer, ConvexHypothesis) and algorithm is not None
    points, coins = np.arange(quantizer.column_size), Recorded()
    distances = np.abs(points[:, None] - points)
    moved = int(np.abs(distances[:, :, None] - distances[:, None, :]).max() if replaced else distances.max())
    crowd = np.full(quantizer.size, CROWD, dtype=np.int64)
    algorithm(crowd, COUNT, cast(SecureBits, coins))
    rounds = [coins.rates[start : start + 3] for start in range(0, len(coins.rates), 3)]
    assert len(rounds) == quantizer.dimension * mechanism.parameters["anchors"], "the crowd must take every anchor"
    each = sum((limit + 2 * compare + answer for (_, limit), (_, compare), (_, answer) in rounds), Fraction(0))
    return Revealed(pure=records * moved * each)


def _asked(method: str, name: str, metric: str, dimension: int = 1, **options: Any) -> Subject:
    power = 1.5 if metric == "lpp" else None
    facts = {"kernel": Distance(metric, power), "dimension": dimension, "bounds": (0, 1)}
    return Subject(method, f"{metric}, {name}", facts, options, DISTANCES.build, DistanceRequest)


PRICES |= {published_moments.NAME: price_halves, huang_roth.NAME: price_learner}
BOUGHT: dict[str, Any] = {"count_share": Fraction(1, 4)}
register_subjects(
    *(
        subject
        for method in (hats.LAPLACE, hats.GAUSSIAN)
        for subject in (
            _asked(method, "2 levels", "l1", levels=2),
            _asked(method, "bought count", "l1", levels=2, **BOUGHT),
            _asked(method, "default", "l1", 3),
            _asked(method, "2 columns", "lpp", 2, levels=2),
            _asked(method, "3 projections", "l2", 2, levels=2, projections=3, clip=1.5),
        )
    ),
    *(
        subject
        for method in (moments.LAPLACE, moments.GAUSSIAN)
        for subject in (
            _asked(method, "1 column", "sqeuclidean"),
            _asked(method, "bought count", "sqeuclidean", **BOUGHT),
            _asked(method, "3 columns", "sqeuclidean", 3),
        )
    ),
    _asked(trees.PUBLISHED, "1 column", "l1", depth=3),
    _asked(trees.PUBLISHED, "64 columns", "l1", 64, depth=1, alpha=0.2),
    _asked(trees.PUBLISHED, "2 columns", "lpp", 2, depth=3),
    _asked(trees.PUBLISHED, "3 projections", "l2", 2, depth=3, projections=3),
    _asked(trees.CONSISTENT, "1 column", "l1", depth=3),
    _asked(trees.CONSISTENT, "bought count", "l1", depth=3, **BOUGHT),
    _asked(trees.CONSISTENT, "64 columns", "l1", 64, depth=1),
    _asked(published_moments.NAME, "2 columns", "sqeuclidean", 2),
    _asked(huang_roth.NAME, "2 columns", "l1", 2),
)
