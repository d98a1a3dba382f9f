"""Audits of the private bandwidth: its two histograms on worst-case neighbours. Importing this registers them.

The attacker sees the noisy integers and computes the likelihood ratio over the cells that differ; the others tell
nothing. All records fall into one group of pairs (n = 1), so that no coin hides what one more record does.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.bandwidth.private import MECHANISM, Purchase
from sfumato.bandwidth.statistics import Statistic
from sfumato.privacy.audit import AuditCase, Case, EpsilonClaim, ExactCase, log_weights, register_audit
from sfumato.privacy.audit.claims import Samples
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Box

EPSILON = Fraction(1)
EXACT_REACH = 25


def differing_counts(statistic: Statistic, inside: Any, outside: Any) -> tuple[Integers, Integers]:
    """Exact integers of two data sets, in the cells in which they differ."""
    coins = SecureBits.seeded(0)  # all records are in one group: the coins decide nothing
    first, second = (statistic.count([np.asarray(rows, dtype=np.float64)], coins) for rows in (inside, outside))
    differ = first != second
    return first[differ], second[differ]


def sampled_case(name: str, counts: tuple[Integers, Integers], law: DiscreteLaplace) -> AuditCase:
    """Attack noisy counts by their likelihood ratio."""

    def sample(trials: int, bits: SecureBits) -> Samples:
        return _ratios(counts, counts[0], law, trials, bits), _ratios(counts, counts[1], law, trials, bits)

    return AuditCase(name, EpsilonClaim(float(EPSILON)), sample)


def _ratios(
    counts: tuple[Integers, Integers], true: Integers, law: DiscreteLaplace, trials: int, bits: SecureBits
) -> Floats:
    noisy = true + law.sample(bits, trials * true.size).reshape(trials, -1)
    return np.asarray(log_weights(law, noisy - counts[0]) - log_weights(law, noisy - counts[1]))


def exact_case(name: str, counts: tuple[Integers, Integers], law: DiscreteLaplace) -> ExactCase:
    """Compare all outputs near the counts, with their exact probabilities."""
    reach = np.arange(-EXACT_REACH, EXACT_REACH + 1)
    outputs = np.stack(np.meshgrid(*(reach for _ in counts[0]), indexing="ij"), axis=-1).reshape(-1, counts[0].size)

    def log_probabilities() -> Samples:
        return log_weights(law, outputs - counts[0]), log_weights(law, outputs - counts[1])

    return ExactCase(f"{name}, exact", EpsilonClaim(float(EPSILON)), log_probabilities)


def purchases() -> dict[str, tuple[tuple[Integers, Integers], DiscreteLaplace]]:
    """Return the counts of worst-case neighbours, and the noise that is to hide the difference."""
    here, there = [[-1.0, -1.0]], [[1.0, 1.0]]
    nobody = np.empty((0, 2))
    return {
        "columns, 0 or 1 records": _bought("scott", "add-remove", here, nobody),
        "columns, a record or its opposite": _bought("scott", "replace", here, there),
        "pairs, 1 or 2 records": _bought(None, "add-remove", here + there, here),
        "pairs, 2 or 3 records": _bought(None, "add-remove", here + there + here, here + there),
        "pairs, a record or its opposite": _bought(None, "replace", here + there, here + here),
    }


def _bought(
    rule: str | None, neighbours: str, inside: Any, outside: Any
) -> tuple[tuple[Integers, Integers], DiscreteLaplace]:
    box, target = Box.from_bounds((-1, 1), 2), 0.02 if rule is None else None
    purchase = Purchase(box, 1, target, rule, "gaussian", EPSILON, neighbours)
    return differing_counts(purchase.first, inside, outside), purchase.law(purchase.first)


def _cases() -> list[Case]:
    cases: list[Case] = []
    for name, (counts, law) in purchases().items():
        cases.append(sampled_case(name, counts, law))
        if counts[0].size <= 2:
            cases.append(exact_case(name, counts, law))
    return cases


register_audit(MECHANISM, _cases)
