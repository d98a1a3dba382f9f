"""Calibration checks of central mechanisms: every request in every variant that its method offers.

A `Subject` is a method and the public facts of a request. Its variants are all combinations of delta, neighbouring
relation, unit and weights that neither `Request` nor the method refuses; each is built as a release would build it. How
many records of one unit reach the sums is measured by running the stage that limits them (`engines.contributions`),
and what they change by searching among `places`; mechanisms with an algorithm of their own are priced in `prices`.

Importing this module registers the checks of the central methods, on several requests each. Every option that a method
knows is used in one of its requests. Sizes are small, so that some record is as bad as the mechanism must fear; the
requests named "default" leave the sizes to the method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from sfumato.audit import CalibrationCase, EpsilonClaim, Revealed, register_calibrations, revealed
from sfumato.audit.cases.prices import places, price, worst_change
from sfumato.central import exponential_sums, fourier, fourier_gaussian, grid, inner_product, landmarks, lattice, race
from sfumato.engines.contributions import bounded, thinned
from sfumato.errors import InputError
from sfumato.kernels import Gaussian, InnerProduct, Laplacian, Rational
from sfumato.methods.method import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.methods.request import LIMIT, Request
from sfumato.privacy.bits import SecureBits
from sfumato.published import (
    as_published,
    histogram,
    hrw,
    learners,
    listed_queries,
    lsq_fgt,
    lsq_rff,
    noisy_sample,
    polynomials,
)
from sfumato.quantizers.nystrom import PublicSample
from sfumato.sources import attach, open_source

EPSILON, DELTA, RECORDS_PER_USER = Fraction(1), 1e-6, 3
RECORDS = 1000

Build = Callable[[str, Any], Mechanism]
Mistake = Callable[[Request], Request | None]


@dataclass(frozen=True)
class Variant:
    """What a caller may ask of any mechanism.

    Examples
    --------
    >>> print(Variant(True, "replace", "record", False))
    delta, replace
    >>> print(Variant(False, "add-remove", "user", True))
    pure, add-remove, users, weights
    """

    approximate: bool
    neighbours: str
    unit: str
    weighted: bool

    def facts(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the variant adds to a request."""
        limit = {LIMIT: RECORDS_PER_USER} if self.unit == "user" else {}
        return {
            "delta": DELTA if self.approximate else 0.0,
            "neighbours": self.neighbours,
            "unit": self.unit,
            "weighted": self.weighted,
            "options": {**options, **limit},
        }

    def __str__(self) -> str:
        named = ["delta" if self.approximate else "pure", self.neighbours]
        return ", ".join([*named, *["users"] * (self.unit == "user"), *["weights"] * self.weighted])


VARIANTS = tuple(
    Variant(*each) for each in product((False, True), ("add-remove", "replace"), ("record", "user"), (False, True))
)


@dataclass(frozen=True)
class Built:
    """A mechanism as a release would build it for a subject's request in one variant."""

    subject: Subject
    variant: Variant
    request: Request
    mechanism: Mechanism

    @property
    def name(self) -> str:
        """The case's name: the variant, and the request."""
        return f"{self.variant}; {self.subject.name}"

    def case(self) -> CalibrationCase:
        """Check the calibration."""
        return self._checked(self.mechanism)

    def twin(self, mistake: Mistake) -> CalibrationCase | None:
        """Check what a mistaken request builds under the promise of this one; None if the mistake is none here."""
        mistaken = mistake(self.request)
        if mistaken is None:
            return None
        try:
            broken = self.subject.build(self.subject.method, mistaken)
        except InputError:
            return None
        return self._checked(replace(broken, guarantee=self.mechanism.guarantee))

    def _checked(self, mechanism: Mechanism) -> CalibrationCase:
        promise = mechanism.guarantee
        claim = EpsilonClaim(float(promise.epsilon), promise.delta)
        return CalibrationCase(self.name, claim, lambda: reveal(mechanism, contributed(self.request)))


@dataclass(frozen=True)
class Subject:
    """A method, and the public facts of a request that suits it.

    Attributes
    ----------
    method : str
        The method's name.
    name : str
        What is special about the request.
    facts : mapping
        Kernel, dimension, bounds and such.
    options : mapping
        Options of the request.
    build : callable
        From a method's name and a request to a mechanism.
    """

    method: str
    name: str
    facts: Mapping[str, Any]
    options: Mapping[str, Any]
    build: Build

    def request(self, variant: Variant) -> Request:
        """Return the request of a variant; `InputError` where no request can ask for it."""
        public = {"epsilon": EPSILON, "n": RECORDS, "feature_seed": 7}
        return Request(**{**public, **self.facts, **variant.facts(self.options)})

    def offered(self) -> Iterator[Built]:
        """Build every variant that is not refused; a delta that is left unspent is no variant of its own."""
        for variant in VARIANTS:
            try:
                request = self.request(variant)
                mechanism = self.build(self.method, request)
            except InputError:
                continue
            if mechanism.guarantee.delta or not variant.approximate:
                yield Built(self, variant, request, mechanism)


def contributed(request: Request) -> int:
    """Count how many of the records of one unit of privacy reach the sums, whatever it has and weighs."""
    many = 2 * RECORDS_PER_USER + 1 if request.unit == "user" else 1
    users = np.zeros(many, dtype=np.int64) if request.unit == "user" else None
    weights = np.full(many, 9.0) if request.weighted else None
    source, bits = open_source(np.zeros((many, request.dimension))), SecureBits.seeded(0)
    if users is not None or weights is not None:
        source = attach(source, users, weights)
    if request.weighted:
        source = thinned(source, bits)
    if request.unit == "user":
        source = bounded(source, request.records_per_user, bits)
    return sum(map(len, source.batches()))


def reveal(mechanism: Mechanism, records: int) -> tuple[Revealed, int]:
    """Return what a mechanism gives away about a unit of so many records, its count included, and how many were tried.

    Parameters
    ----------
    mechanism : Mechanism
        As built for a request.
    records : int
        Records of one unit that reach the sums.
    """
    replaced = mechanism.guarantee.neighbours == "replace"
    law = mechanism.count_law
    count = Revealed() if law is None or replaced else Revealed(pure=law.rate * records)
    if mechanism.algorithm is not None:
        return count + price(mechanism, records, replaced), len(places(mechanism.encoder.box))
    change, looked = worst_change(mechanism.encoder, mechanism.noise, replaced)
    return count + revealed(mechanism.noise, records * change), looked


def register_subjects(*subjects: Subject) -> None:
    """Register the calibration checks of methods, one or more requests each."""
    for method in dict.fromkeys(subject.method for subject in subjects):
        SUBJECTS[method] = [subject for subject in subjects if subject.method == method]
        register_calibrations(method, partial(_cases, method))


def _cases(method: str) -> list[CalibrationCase]:
    return [built.case() for subject in SUBJECTS[method] for built in subject.offered()]


SUBJECTS: dict[str, list[Subject]] = {}


PUBLIC = PublicSample.of([[-1.0], [-0.5], [0.0], [0.5], [1.0]], dimension=1)
SMOOTH: dict[str, Any] = {"kernel": Gaussian(1.0), "dimension": 1, "bounds": (-8, 8)}
PLANE: dict[str, Any] = {"kernel": Gaussian(1.0), "dimension": 2, "bounds": (-2, 2)}
HASHED: dict[str, Any] = {"kernel": Laplacian(1.0), "dimension": 1, "bounds": (-8, 8)}
DIRECTED: dict[str, Any] = {"kernel": InnerProduct(1.0), "dimension": 2, "bounds": (-1, 1)}
SUMMED: dict[str, Any] = {"kernel": Rational(1.0, "sqeuclidean"), "dimension": 1, "bounds": (-1000, 1000)}
NEAR: dict[str, Any] = {"kernel": Gaussian(1.0), "dimension": 1, "bounds": (0, 24)}
RESEMBLED = {**SMOOTH, "landmarks": PUBLIC}


def _asked(method: str, name: str, facts: dict[str, Any], **options: Any) -> Subject:
    return Subject(method, name, facts, options, METHODS.build)


HALF = {"count_share": Fraction(1, 2)}
register_subjects(
    _asked(lsq_rff.NAME, "2 features", SMOOTH, n_features=2),
    _asked(lsq_rff.NAME, "half for the count", SMOOTH, n_features=2, **HALF),
    _asked(lsq_rff.NAME, "dropped outside, 6 features in 3 groups", SMOOTH, n_features=6, groups=3, outside="drop"),
    _asked(lsq_rff.NAME, "sizes for an error", {**SMOOTH, "n": 10**6}, alpha=0.5, eta=0.1, all_queries=True),
    _asked(lsq_rff.NAME, "projected", PLANE, n_features=2, project="dense", project_to=1),
    _asked(lsq_rff.NAME, "projected fast", PLANE, n_features=2, project="fast", project_to=1),
    _asked(lsq_rff.NAME, "default", PLANE),
    _asked(fourier.NAME, "1 feature", SMOOTH, n_features=1),
    _asked(fourier.NAME, "4 features in groups of 2", SMOOTH, n_features=4, per_group=2),
    _asked(fourier.NAME, "default", PLANE),
    _asked(fourier_gaussian.NAME, "2 features", SMOOTH, n_features=2),
    _asked(fourier_gaussian.NAME, "4 features in groups of 2", SMOOTH, n_features=4, per_group=2),
    _asked(fourier_gaussian.NAME, "default", PLANE),
    _asked(lattice.NAME, "1 feature", SMOOTH, n_features=1),
    _asked(lattice.NAME, "2 features, half for the count", SMOOTH, n_features=2, **HALF),
    _asked(lattice.NAME, "default", PLANE),
    _asked(grid.NAME, "steps", {**SMOOTH, "bounds": (-1, 1)}, degree=0, spacing=0.8),
    _asked(grid.NAME, "cubes in buckets", PLANE, degree=3, spacing=0.8, buckets=16),
    _asked(grid.NAME, "default", PLANE),
    _asked(histogram.NAME, "few cells", {**SMOOTH, "bounds": (-1, 1)}, spacing=0.8),
    _asked(histogram.NAME, "default", PLANE),
    _asked(exponential_sums.NAME, "2 features each", SUMMED, tolerance=0.1, n_features=2),
    _asked(exponential_sums.NAME, "even split", SUMMED, tolerance=0.1, n_features=2, split="even", density=0.3),
    _asked(as_published.EXPONENTIAL_SUMS, "1 feature each", SUMMED, tolerance=0.1, n_features=1),
    _asked(landmarks.NAME, "1 direction", RESEMBLED, n_features=1, check_share=0),
    _asked(landmarks.NAME, "1 direction, 2 pairs", RESEMBLED, n_features=1, check_features=2),
    _asked(landmarks.NAME, "8 pairs at a third", RESEMBLED, check_features=8, check_share="1/3"),
    _asked(landmarks.NAME, "default", RESEMBLED),
    _asked(inner_product.NAME, "plain", DIRECTED),
    _asked(inner_product.NAME, "clipped", DIRECTED, clip=0.5),
    _asked(inner_product.SIGNS, "2 features", DIRECTED, n_features=2),
    _asked(race.NAME, "2 rows of 2", HASHED, rows=2, width=2, own_count=False),
    _asked(race.NAME, "2 rows of 2, own count", HASHED, rows=2, width=2, own_count=True),
    _asked(race.NAME, "4 rows in 2 groups", HASHED, rows=4, width=4, groups=2),
    _asked(race.NAME, "default", {**HASHED, "dimension": 2}),
    _asked(as_published.RACE, "2 rows of 2", HASHED, rows=2, width=2, groups=1),
    _asked(lsq_fgt.NAME, "3 orders", {**SMOOTH, "bounds": (0, 2)}, rho=3),
    _asked(lsq_fgt.NAME, "2 groups, fixed cut-off", {**SMOOTH, "bounds": (0, 2)}, rho=2, groups=2, cutoff="fixed"),
    _asked(polynomials.BERNSTEIN, "a narrow box", {**SMOOTH, "bounds": (0, 0.1)}, degree=1),
    _asked(polynomials.BERNSTEIN, "a wide box", {**SMOOTH, "bounds": (0, 8)}, degree=1),
    _asked(polynomials.EVEN_TRIG, "degree 1", {**SMOOTH, "bounds": (-1, 1)}, degree=1),
    _asked(polynomials.EVEN_TRIG, "degree 4", {**SMOOTH, "bounds": (-1, 1)}, degree=4),
    _asked(listed_queries.LAPLACE, "2 queries", SMOOTH, queries=[[0.0], [0.1]]),
    _asked(listed_queries.GAUSSIAN, "2 queries", SMOOTH, queries=[[0.0], [0.1]]),
    _asked(hrw.NAME, "2 queries", SMOOTH, queries=[[0.0], [1.0]]),
    _asked(hrw.NAME, "2 queries far apart", SMOOTH, queries=[[-7.0], [7.0]]),
    _asked(learners.PMW, "3 nodes, 1 round", NEAR, spacing=8.0, rounds=1),
    _asked(learners.PMW, "default", PLANE),
    _asked(learners.SMALLDB, "sets of 2 of 3 nodes", NEAR, spacing=8.0, points=2),
    _asked(noisy_sample.NAME, "10 of 100", {**NEAR, "n": 100}, spacing=8.0, sample=10),
)
