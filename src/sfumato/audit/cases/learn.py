"""Audits of the classifier and of its projected moments; importing this module registers them.

`classifier`: two classes and one record, which is there or not, or bears one label or the other. The attacker sees the
outputs of both classes and asks for the likelihood ratio. One record more is worth epsilon, another label twice that.

`linear`: one step of a training in one column with two classes, at weights that misjudge the record most: its gradient
is as long as it can be. The attacker knows the gradient and looks along it, which is the best test of Gaussian noise.
The claim is the mu of one step; steps compose by the sum of squares, which is a theorem and not a measurement.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from sfumato.audit import AuditCase, Case, EpsilonClaim, MuClaim, register_audit
from sfumato.audit.attacks import CentralCase, Outputs, extremes, likelihood_ratio, run
from sfumato.audit.case import Samples
from sfumato.audit.cases.central import one_more, register_central, small_request
from sfumato.audit.cases.distances import every_place
from sfumato.audit.cases.variants import Subject, register_subjects
from sfumato.errors import InputError
from sfumato.kernels import Gaussian, InnerProduct
from sfumato.learn import DensityClassifier, rules, squared_distance
from sfumato.learn.linear import Plan
from sfumato.learn.softmax import LARGEST_WEIGHT, Features, Gradient
from sfumato.learn.squared_distance import ProjectedSquares
from sfumato.methods.method import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteGaussian
from sfumato.quantizers.base import Floats, Integers
from sfumato.sources import open_source

CLASSIFIER, PURE, GAUSSIAN = "classifier", "projected-moments", "projected-moments-gaussian"
Classes = tuple[Floats, ...]  # the rows of each class
RunClasses = Callable[[Mechanism, Classes, int, SecureBits], list[Outputs]]


def small(method: str, *asked: Any, **options: Any) -> Mechanism:
    """Build a mechanism of one column: projected moments, or the inner product of the classifier's default."""
    request = small_request(*asked, kernel=InnerProduct(1.0), **options)
    if method == CLASSIFIER:
        return METHODS.build("inner-product", request)
    return squared_distance.build(method.removeprefix("projected-"), request)


@cache
def projected_cases() -> dict[str, CentralCase]:
    """Cases of `projected-moments`."""
    return {
        "one more": one_more(small(PURE, 2)),
        "second": one_more(small(PURE, 1), already=1),
        "wide": one_more(small(PURE, 2, clip=3.0)),
    }


@cache
def gaussian_cases() -> dict[str, CentralCase]:
    """Cases of `projected-moments-gaussian`."""
    return {"one more": one_more(small(GAUSSIAN, 1, delta=0.05))}


def run_classes(mechanism: Mechanism, classes: Classes, runs: int, bits: SecureBits) -> list[Outputs]:
    """Run the classifier's mechanism on every class, as `DensityClassifier` does: a record counts in its own alone."""
    return [run(mechanism, rows, runs, bits) for rows in classes]


@dataclass(frozen=True)
class ClassifierCase:
    """Two labelled data sets that the outputs of all classes must not tell apart."""

    name: str
    mechanism: Mechanism
    inside: Classes
    outside: Classes
    claim: EpsilonClaim
    run: RunClasses = run_classes

    def sample(self, trials: int, bits: SecureBits) -> Samples:
        """Log likelihood ratios of runs on either data set."""
        pairs = zip(self.inside, self.outside, strict=True)
        attacks = [likelihood_ratio(self.mechanism, first, second) for first, second in pairs]

        def statistics(classes: Classes) -> Floats:
            outputs = self.run(self.mechanism, classes, trials, bits)
            return np.asarray(sum(attack(each) for attack, each in zip(attacks, outputs, strict=True)))

        return statistics(self.inside), statistics(self.outside)

    def case(self) -> AuditCase:
        """Return the case as `sfumato.audit` takes it."""
        return AuditCase(self.name, self.claim, self.sample)


@cache
def classifier_cases() -> dict[str, ClassifierCase]:
    """Cases of the classifier."""
    mechanism = small(CLASSIFIER, 1)
    row, _ = extremes(mechanism.encoder)
    nobody = row[:0]
    epsilon = float(mechanism.guarantee.epsilon)
    more = ClassifierCase("0 or 1 records", mechanism, (row, nobody), (nobody, nobody), EpsilonClaim(epsilon))
    other = replace(more, name="a record's label changed", outside=(nobody, row), claim=EpsilonClaim(2 * epsilon))
    return {"one more": more, "other label": other}


def build(method: str, request: Request) -> Mechanism:
    """Build what `DensityClassifier` releases each class by; it protects single records that come or go."""
    if request.neighbours != "add-remove" or request.unit != "record" or request.weighted:
        raise InputError("the classifier protects single records that come or go")
    model = DensityClassifier(
        request.kernel,
        epsilon=request.epsilon,
        delta=request.delta,
        classes=[0, 1],
        n_hint=2 * request.n,
        method="auto" if method == CLASSIFIER else method.removeprefix("projected-"),
        bounds=request.bounds,
        rule=rules.DENSITY if method == CLASSIFIER else rules.DISTANCE,
        options=dict(request.options),
        feature_seed=request.feature_seed,
    )
    return model.mechanism(open_source(np.zeros((1, request.dimension))), 2)


PROJECTED: dict[str, dict[str, Any]] = {
    "default": {},
    "one direction": {"projections": 1, "clip": 0.5},
    "bought count": {"count_share": Fraction(1, 4)},
}
DIRECTIONS: dict[str, Any] = {"kernel": InnerProduct(1.0), "dimension": 2, "bounds": (-1, 1)}
register_subjects(
    Subject(CLASSIFIER, "inner product", DIRECTIONS, {}, build),
    Subject(CLASSIFIER, "gaussian", {**DIRECTIONS, "kernel": Gaussian(1.0)}, {}, build),
    *(
        Subject(method, name, DIRECTIONS, options, build)
        for method in (PURE, GAUSSIAN)
        for name, options in PROJECTED.items()
    ),
)
register_central(PURE, projected_cases, lambda: [every_place(small(PURE, 1), np.linspace(-2, 2, 41)[:, None])])
register_central(GAUSSIAN, gaussian_cases)
register_audit(CLASSIFIER, lambda: [case.case() for case in classifier_cases().values()])


def _shared_records() -> Case:
    """Count a record in every class, as one against the rest does, and pay for one."""
    case = classifier_cases()["one more"]
    return replace(case, inside=(case.inside[0],) * 2).case()


def _empty_left_out(mechanism: Mechanism, classes: Classes, runs: int, bits: SecureBits) -> list[Outputs]:
    made = [run(mechanism, rows, runs, bits) for rows in classes]
    return [
        each if len(rows) else Outputs(np.zeros_like(each.values), np.zeros(runs, dtype=np.int64))
        for each, rows in zip(made, classes, strict=True)
    ]


def _observed_classes() -> Case:
    """Release only the classes that have records."""
    return replace(classifier_cases()["one more"], run=_empty_left_out).case()


class _NotClipped(ProjectedSquares):
    def encode(self, rows: Any, coins: Any = None) -> Any:
        images, inner = self._images(rows), self.inner
        halves = inner.bounds.half_widths
        columns = np.rint(images / halves * np.array(inner.scales[:-2])).astype(np.int64)
        return np.column_stack([columns, super().encode(rows)[:, -2:]])


def _unclipped() -> Case:
    """Leave the projected coordinates as they are."""
    mechanism = small(PURE, 1)
    quantizer: Any = mechanism.encoder
    broken = _NotClipped(*(getattr(quantizer, field.name) for field in fields(quantizer)))
    return every_place(mechanism.on(broken), np.linspace(-2, 2, 41)[:, None])


TWINS: tuple[tuple[str, str, Callable[[], Case]], ...] = (
    (CLASSIFIER, "records counted in every class", _shared_records),
    (CLASSIFIER, "empty classes left out", _observed_classes),
    (PURE, "projections not clipped", _unclipped),
)


LINEAR = "classifier-linear"
Encode = Callable[[Gradient, Floats], Integers]


@dataclass(frozen=True)
class StepCase:
    """One record more or less in a noisy gradient; a broken twin has another `noise` or `encode`."""

    name: str
    gradient: Gradient
    noise: DiscreteGaussian
    claim: MuClaim
    row: Floats
    encode: Encode = Gradient.encode

    def sample(self, trials: int, bits: SecureBits) -> Samples:
        """Run with and without the record, and look along its gradient."""
        shift = self.encode(self.gradient, self.row)[0].astype(np.float64)
        along = shift / np.linalg.norm(shift)
        noise = self.noise.sample(bits, 2 * trials * len(shift)).reshape(2, trials, len(shift))
        return (noise[0] + shift) @ along, noise[1] @ along

    def case(self) -> AuditCase:
        """Return the case as `sfumato.audit` takes it."""
        return AuditCase(self.name, self.claim, self.sample)


@cache
def step_cases() -> dict[str, StepCase]:
    """Cases of one step, with and without a large weight against the record."""
    plan = Plan.of(epsilon=4, delta=1e-3, n=100, dimension=1, classes=2, buys_center=False, options={"steps": 1})
    weights = np.array([[-LARGEST_WEIGHT, LARGEST_WEIGHT], [0, 0]])
    gradient = Gradient(Features.within(None, np.zeros(1), 1.0), weights, plan.share)
    claim = MuClaim(math.sqrt(gradient.l2_squared) / plan.noise.sigma)
    worst = StepCase("a record misjudged", gradient, plan.noise, claim, np.array([[1.0, 0.0]]))
    far = StepCase("a record far outside", gradient, plan.noise, claim, np.array([[1e200, 0.0]]))
    return {"worst": worst, "far": far}


register_audit(LINEAR, lambda: [case.case() for case in step_cases().values()])


def _little_noise() -> Case:
    """Add noise that is 30 % too low."""
    case = step_cases()["worst"]
    return replace(case, noise=DiscreteGaussian(round(0.7 * case.noise.sigma))).case()


def _not_cut(gradient: Gradient, rows: Any) -> Any:
    points = gradient.features.integers(rows[:, :-1])
    return (points[:, :, None] * np.array([-gradient.share, gradient.share])).reshape(len(points), -1)


def _residual_not_cut() -> Case:
    """Leave the residual of a misjudged record as long as it is, the root of two."""
    return replace(step_cases()["worst"], encode=_not_cut).case()


LINEAR_TWINS: tuple[tuple[str, str, Callable[[], Case]], ...] = (
    (LINEAR, "noise 30 % low", _little_noise),
    (LINEAR, "residuals not cut", _residual_not_cut),
)
