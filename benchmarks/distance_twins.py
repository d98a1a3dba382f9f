"""Broken twins of the mechanisms for distances, as (mechanism, mistake, case), for `benchmarks.twins`.

Their twins with 30 % less noise come from their audits' own cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from sfumato.audit import Case, ExactCase
from sfumato.audit.cases import distances as audits
from sfumato.audit.cases.distances import LEVELS, every_place, small, worst_places
from sfumato.distances import hats, moments
from sfumato.distances.design import laplace_split
from sfumato.distances.hat import PROFILE_BITS, HatQuantizer
from sfumato.methods.mechanism import Mechanism
from sfumato.privacy.stacked import StackedCubes
from sfumato.published import huang_roth
from sfumato.published import moments as published_moments
from sfumato.published.moments import Halves


def _with_profile(mechanism: Mechanism, shares: list[Fraction]) -> Mechanism:
    """Give the levels other budgets, and leave the noise as it is."""
    quantizer = mechanism.quantizer
    assert isinstance(quantizer, HatQuantizer)
    profile = tuple(int(share * (1 << PROFILE_BITS)) for share in shares)
    return replace(mechanism, quantizer=replace(quantizer, profile=profile))


def _levels(bound: Fraction) -> list[Fraction]:
    """Shares of nodes and levels for a wrong bound of the sum of the hats' heights."""
    split = laplace_split(1.0)
    assert split.ratio is not None
    return [split.nodes, *((1 - split.nodes) * split.ratio**level / bound for level in range(LEVELS))]


def _too_much() -> ExactCase:
    """Give every level its share of the whole budget, as if the nodes had cost nothing."""
    split = laplace_split(1.0)
    shares = [split.nodes, *(share / (1 - split.nodes) for share in _levels(Fraction(16, 9))[1:])]
    return every_place(_with_profile(small(hats.LAPLACE, 1, levels=LEVELS), shares), worst_places())


def _small_bound() -> ExactCase:
    """Take the heights' sum to be at most that of one level, K = 1."""
    return every_place(_with_profile(small(hats.LAPLACE, 1, levels=LEVELS), _levels(Fraction(1))), worst_places())


def _costly_hats() -> Case:
    """Take hats of full height to be free in the l2 norm."""
    case = audits.gaussian_hat_cases()["one more"]
    quantizer = case.mechanism.quantizer
    assert isinstance(quantizer, HatQuantizer)
    shares = [Fraction(1)] * (quantizer.levels + 1)
    return audits.one_more(_with_profile(case.mechanism, shares)).case()


def _every_block_pays_nothing() -> ExactCase:
    """Spend the whole budget on each block of moments."""
    mechanism = small(moments.LAPLACE, 1, metric="sqeuclidean")
    law = mechanism.noise
    assert isinstance(law, StackedCubes)
    doubled = StackedCubes(tuple(replace(part, rate=2 * part.rate) for part in law.parts))
    return every_place(replace(mechanism, noise=doubled), worst_places())


def _half_squares() -> ExactCase:
    """Take a record to be no farther from the mean than half of the diagonal."""
    algorithm = small(published_moments.NAME, 1, metric="sqeuclidean", dimension=2).algorithm
    assert isinstance(algorithm, Halves)
    law = replace(algorithm.square_law, rate=4 * algorithm.square_law.rate)
    return audits.exact_halves(replace(algorithm, square_law=law))


def _eager_learner() -> Case:
    """Run the learner with a tenth of its noise."""
    learner = audits.LEARNER
    return audits.learner_case(replace(learner, epsilon=10 * learner.epsilon))


TWINS: tuple[tuple[str, str, Callable[[], Case]], ...] = (
    (hats.LAPLACE, "levels' budgets sum to more than epsilon", _too_much),
    (hats.LAPLACE, "bound of the hats too small", _small_bound),
    (hats.GAUSSIAN, "hats of full height taken to be free", _costly_hats),
    (moments.LAPLACE, "every block spends the whole budget", _every_block_pays_nothing),
    (published_moments.NAME, "squares of half the distance", _half_squares),
    (huang_roth.NAME, "a tenth of the noise", _eager_learner),
)
