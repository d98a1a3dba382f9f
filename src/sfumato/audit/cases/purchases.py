"""Audits of what is bought by no request: bandwidths, sketches, merged ones, online sessions. Importing registers them.

Bandwidths: two histograms on worst-case neighbours. The attacker sees the noisy integers and computes the likelihood
ratio over the cells that differ; the others tell nothing. All records fall into one group of pairs (n = 1), so that no
coin hides what one more record does.

Sketches and sessions: two releases of neighbouring data sets under the same seed hold the same noise, so that their
integers differ by exactly what the one record changes. The noise law stands in the release; the law of a bought count
follows from its variance, which for Laplace noise of rate r is 1 / (2 sinh(r / 2)^2). Importing this module registers
the checks.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from sfumato import RaceSketch
from sfumato.audit import (
    AuditCase,
    CalibrationCase,
    Case,
    EpsilonClaim,
    ExactCase,
    Revealed,
    log_weights,
    register_audit,
    register_calibrations,
    revealed,
)
from sfumato.audit.case import Samples
from sfumato.bandwidth.private import MECHANISM, Purchase
from sfumato.bandwidth.statistics import Statistic
from sfumato.central.kde import PrivateKDE
from sfumato.central.merging import merge_releases
from sfumato.engines import Threads
from sfumato.kernels import Gaussian, Laplacian
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.guarantee import NEIGHBOURS
from sfumato.privacy.laws import NoiseLaw, SummedNoise
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.published.hrw import OnlineQueries
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Box
from sfumato.release import Release
from sfumato.sources import open_source

EPSILON = Fraction(1)
EXACT_REACH = 25


def differing_counts(statistic: Statistic, inside: Any, outside: Any) -> tuple[Integers, Integers]:
    """Exact integers of two data sets, in the cells in which they differ."""
    coins = SecureBits.seeded(0)  # all records are in one group: the coins decide nothing
    first, second = (
        statistic.count(Threads(1), open_source(np.asarray(rows, dtype=np.float64)), coins)
        for rows in (inside, outside)
    )
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


# Corners of the box, a place outside it, its middle, and what is no number.
PLACES = np.array([[-1.0, -1.0], [1.0, 1.0], [1.0, -1.0], [9.0, -9.0], [0.0, 0.0], [np.nan, 0.0]])
DATA_SETS = [chosen for size in range(4) for chosen in product(range(len(PLACES)), repeat=size)]


@cache
def worst_counts(statistic: Statistic, replaced: bool) -> Integers:
    """Return the largest change of a histogram's integers by a record more, or another one in its place."""

    @cache
    def counted(*chosen: int) -> Integers:
        return statistic.count(Threads(1), open_source(PLACES[list(chosen)]), SecureBits.seeded(0))

    worst = np.zeros(1, dtype=np.int64)
    for chosen in DATA_SETS[1:] if replaced else DATA_SETS:
        for other in range(len(PLACES)):
            change = np.subtract(counted(*chosen), counted(*(chosen[:-1] if replaced else chosen), other))
            worst = max(worst, change, key=lambda each: int(np.abs(each).sum()))
    return worst


def calibration(
    rule: str | None, kernel: str, target: float | None, neighbours: str, paid: Fraction
) -> CalibrationCase:
    """Check one choice of a bandwidth, whose noise was chosen for the epsilon `paid`."""
    box = Box.from_bounds((-1, 1), 2)
    purchase = Purchase(box, 1, target, rule, kernel, paid, neighbours)

    def reveal() -> tuple[Revealed, int]:
        parts = [purchase.first] if purchase.parts == 1 else [purchase.first, purchase.pairs(np.ones(2))]
        changes = [
            (purchase.law(part), worst_counts(part, neighbours == "replace"))  # type: ignore[arg-type]  # it is frozen
            for part in parts
        ]
        return sum((revealed(law, change) for law, change in changes), Revealed()), len(PLACES) * len(DATA_SETS)

    bought = " and ".join([*([rule] if rule else []), *([f"density, {kernel}"] if target else [])])
    return CalibrationCase(f"pure, {neighbours}; {bought}", EpsilonClaim(float(EPSILON)), reveal)


CHOICES: list[tuple[str | None, str, float | None]] = [
    ("scott", "gaussian", None),
    ("silverman", "gaussian", None),
    ("scott", "gaussian", 0.02),
    (None, "gaussian", 0.02),
    (None, "laplacian", 0.02),
]


def calibrations(paid: Fraction = EPSILON) -> list[CalibrationCase]:
    """Check every choice under both relations; noise for more than `EPSILON` is a broken twin."""
    return [calibration(*choice, neighbours, paid) for choice in CHOICES for neighbours in NEIGHBOURS]


register_audit(MECHANISM, _cases)
register_calibrations(MECHANISM, calibrations)


SKETCHES, MERGED, ONLINE = "sketch", "merged-sketches", "hrw-online"
DELTA = 1e-6
OTHERS = np.tile([[0.5], [-3.0], [2.0]], (200, 1))  # enough for no noisy count to be raised to 1
RECORDS = np.array([[-8.0], [-5.0], [-0.01], [0.0], [0.3], [4.0], [8.0], [1e9]])

Publish = Callable[[Floats], Release]


def laplace_rate(variance: float) -> Fraction:
    """Return the rate of Laplace noise of a variance.

    Examples
    --------
    >>> from sfumato.privacy.noise import DiscreteLaplace
    >>> round(float(laplace_rate(DiscreteLaplace(Fraction(1, 20)).variance)), 12)
    0.05
    """
    return Fraction(2 * math.asinh(1 / math.sqrt(2 * variance)))


def neighbours_of(relation: str) -> Iterator[tuple[Floats, Floats]]:
    """Give pairs of data sets: one record more, or another one in its place."""
    for record in RECORDS:
        if relation == "add-remove":
            yield np.vstack([OTHERS, record]), OTHERS
        else:
            for other in RECORDS[:2]:
                yield np.vstack([OTHERS, record]), np.vstack([OTHERS, other])


def published_case(name: str, publish: Publish, relation: str, delta: float, bought: int) -> CalibrationCase:
    """Check releases of neighbours, of whose count so many parts were each paid for apart."""

    def reveal() -> tuple[Revealed, int]:
        worst, looked = Revealed(), 0
        for inside, outside in neighbours_of(relation):
            with warnings.catch_warnings():  # a seed voids the privacy of a release, which is what is wanted here
                warnings.simplefilter("ignore")
                first, second = publish(inside), publish(outside)
            found = _law(first, first.values - second.values)
            if bought:
                rate = laplace_rate(first.count.variance / bought)
                found += Revealed(pure=rate * abs(first.count.value - second.count.value))
            worst, looked = max(worst, found, key=lambda each: each.epsilon(delta)), looked + 1
        return worst, looked

    return CalibrationCase(name, EpsilonClaim(float(EPSILON), delta), reveal)


def _law(release: Release, change: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Revealed:
    """Return what the noise gives away; of the noises of several sites, that of the record's own site alone."""
    laws: tuple[NoiseLaw, ...] = release.noise.parts if isinstance(release.noise, SummedNoise) else (release.noise,)
    return max((revealed(law, change) for law in laws), key=lambda each: each.epsilon(release.guarantee.delta))


def sketch_cases(paid: Fraction = EPSILON) -> list[CalibrationCase]:
    """Raw sketches of two shards that are merged before they are released, with noise for the epsilon `paid`."""
    cases = []
    for delta, relation, own in product((0.0, DELTA), NEIGHBOURS, (False, True)):
        if own and relation == "replace":
            continue  # n is public

        def publish(rows: Floats, delta: float = delta, relation: str = relation, own: bool = own) -> Release:
            shards = [_sketch().add(rows[:300]), _sketch().add(rows[300:])]
            whole = shards[0].merge(shards[1])
            return whole.release(epsilon=paid, delta=delta, neighbours=relation, own_count=own, random_state=1)

        bought = int(relation == "add-remove" and not own)
        count = "bought count" if bought else "own count" if own else "public count"
        name = f"{'delta' if delta else 'pure'}, {relation}; {count}"
        cases.append(published_case(name, publish, relation, delta, bought))
    return cases


def merged_cases(paid: Fraction = EPSILON) -> list[CalibrationCase]:
    """Noisy sketches of two sites, added up; the record is with the second."""
    cases = []
    for delta, relation in product((0.0, DELTA), NEIGHBOURS):

        def publish(rows: Floats, delta: float = delta, relation: str = relation) -> Release:
            sites = [_sketch().add(part) for part in (rows[:300], rows[300:])]
            return merge_releases(
                [
                    site.release(epsilon=paid, delta=delta, neighbours=relation, random_state=seed)
                    for seed, site in enumerate(sites)  # of one seed and alike they would be one release, given twice
                ]
            )

        name = f"{'delta' if delta else 'pure'}, {relation}; two sites"
        cases.append(published_case(name, publish, relation, delta, 2 if relation == "add-remove" else 0))
    return cases


def _sketch() -> RaceSketch:
    return RaceSketch(Laplacian(1.0), dimension=1, rows=6, width=8, bounds=(-8, 8), feature_seed=3)


def online_cases(paid: Fraction = EPSILON) -> list[CalibrationCase]:
    """Sessions that ask at the others, at the records, and at one place again."""
    cases = []
    for relation in NEIGHBOURS:

        def publish(rows: Floats, relation: str = relation) -> Release:
            model = PrivateKDE(
                Gaussian(1.0),
                epsilon=paid,
                delta=DELTA,
                bounds=(-8, 8),
                n_hint=600,
                neighbours=relation,
                random_state=1,
            )
            session = OnlineQueries(model, rows, most=20)
            for query in (*RECORDS[:-1], *OTHERS[:3], RECORDS[0]):
                session.ask(query)
            return session.release()

        bought = int(relation == "add-remove")
        cases.append(published_case(f"delta, {relation}; asked", publish, relation, DELTA, bought))
    return cases


register_calibrations(SKETCHES, sketch_cases)
register_calibrations(MERGED, merged_cases)
register_calibrations(ONLINE, online_cases)
