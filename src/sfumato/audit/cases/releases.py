"""Calibration checks of what is published, where no mechanism is at hand: sketches, merged ones, online sessions.

Two releases of neighbouring data sets under the same seed hold the same noise, so that their integers differ by exactly
what the one record changes. The noise law stands in the release; the law of a bought count follows from its variance,
which for Laplace noise of rate r is 1 / (2 sinh(r / 2)^2). Importing this module registers the checks.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product

import numpy as np

from sfumato import RaceSketch
from sfumato.audit import CalibrationCase, EpsilonClaim, Revealed, register_calibrations, revealed
from sfumato.central.kde import PrivateKDE
from sfumato.central.merging import merge_releases
from sfumato.kernels import Gaussian, Laplacian
from sfumato.privacy.guarantee import NEIGHBOURS
from sfumato.privacy.laws import NoiseLaw, SummedNoise
from sfumato.published.hrw import OnlineQueries
from sfumato.quantizers.base import Floats
from sfumato.release import Release

SKETCHES, MERGED, ONLINE = "sketch", "merged-sketches", "hrw-online"
EPSILON, DELTA = Fraction(1), 1e-6
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
                [site.release(epsilon=paid, delta=delta, neighbours=relation, random_state=1) for site in sites]
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
