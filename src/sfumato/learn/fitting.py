"""What `DensityClassifier.fit` runs under a curator: mechanisms from public facts, sums, charges, noise.

Order matters, as in `central.curator`: everything that can be refused is refused first, the account is asked whether
all of it fits, sums run, the charge is made, and only then is noise drawn. The counts of all classes are bought first,
in parallel, for one count's price; their sum is the test that `central.curator` proves to cost no more.

A centre that is taken off the records before they are encoded: a public point, or one that is bought.

Records no longer than r whose mean is m lie, on average, within sqrt(r^2 - |m|^2) of it (root mean square), and noise
is in proportion to the radius. So a classifier of inner products subtracts the centre from records and queries alike
and takes that radius (a tenth of r at least); records farther from the centre are brought to it. Nearest means stay
nearest means: |x - m_k| does not change when a point is taken off both. A public centre costs nothing.

Guarantee of a bought centre. A tenth of epsilon and delta buys the noisy mean of the records of all classes together,
by the method for inner products; the classes then have the rest. Both hold for one record that comes or goes, and the
second runs with public numbers from the first: they add up to (epsilon, delta). Every class's release states the sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.central.curator import check_expected, noisy_count, publish
from sfumato.central.kde import PrivateKDE
from sfumato.engines import Engine, Progress
from sfumato.errors import InputError
from sfumato.kernels import InnerProduct, Kernel, get_kernel
from sfumato.learn import linear, rules, squared_distance
from sfumato.learn.labels import ClassSums, LabelledSource, label_conditions
from sfumato.learn.softmax import MOST_COLUMNS, Features, LinearModel
from sfumato.methods.method import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.guarantee import Guarantee, checked_delta
from sfumato.public.arguments import checked_options, says
from sfumato.public.codec import brief
from sfumato.public.ranges import LARGEST_LENGTH
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Box
from sfumato.release import Count, Release
from sfumato.sources import Source

AUTO, NONE, PRIVATE = "auto", "none", "private"
SHARE = Fraction(1, 10)
SHORTEST = 0.1  # of the radius
BOUGHT = "a part of the budget bought the centre that is taken off all records; it is public"


def checked_center(center: Any, kernel: Kernel, trust: str, dimension: int) -> str | Floats:
    """Return "none", "private" or a public centre, or refuse."""
    if isinstance(center, str):
        if center not in (AUTO, NONE, PRIVATE):
            raise InputError(f"center must be 'auto', 'none', 'private' or one number a column, got {brief(center)}")
        if center != PRIVATE:
            return NONE
    if not isinstance(kernel, InnerProduct) or trust != "central":
        raise InputError("center is for kernel='inner-product' and trust='central': pass center='none'")
    return PRIVATE if isinstance(center, str) else public_center(center, dimension)


def public_center(center: Any, dimension: int) -> Floats:
    """Return a public centre, one finite number a column."""
    try:
        numbers = np.asarray(center, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"center must be 'auto', 'none', 'private' or one number a column, got {brief(center)}"
        ) from None
    if numbers.shape != (dimension,) or not (np.abs(numbers) <= LARGEST_LENGTH).all():
        raise InputError(f"center must be {dimension} finite numbers, one a column, got shape {numbers.shape}")
    return numbers


def around(kernel: InnerProduct, center: Floats) -> InnerProduct:
    """Return the inner product of centred points.

    Examples
    --------
    >>> around(InnerProduct(5.0), np.array([3.0, 0.0])).radius
    4.0
    """
    radius = kernel.radius
    length = min(float(np.linalg.norm(center)) / radius, 1.0)
    return InnerProduct(radius * max(math.sqrt(1 - length**2), SHORTEST))


def moved_bounds(bounds: Any, center: Floats, outside: str) -> Any:
    """Return the bounds of centred points."""
    if bounds is None:
        return None
    box = Box.from_bounds(bounds, len(center), outside)
    return np.column_stack([np.array(box.lower) - center, np.array(box.upper) - center])


def bought_center(release: Release) -> Floats:
    """Read the noisy mean off a release of inner products; no coordinate is farther than the radius."""
    assert isinstance(release.kernel, InnerProduct)
    radius = release.kernel.radius
    return np.asarray(np.clip(release.axis_totals(radius)[0] / release.count.value, -1.0, 1.0) * radius)


Settings = Mapping[str, Any]


def rule_of(settings: Settings, source: Source, classes: int) -> Any:
    """Return the rule that is asked for, or that "auto" stands for; of the source only its kind is looked at."""
    possible = (
        settings["trust"] == "central"
        and bool(checked_delta(settings["delta"]))
        and says(settings["method"], "auto")
        and settings["landmarks"] is None
        and set(checked_options(settings["options"])) <= set(linear.OPTIONS)
        and source.repeatable
        and source.dimension <= MOST_COLUMNS
        and classes > 1
    )
    kernel = get_kernel(settings["kernel"], settings["bandwidth"])
    return rules.chosen(settings["rule"], kernel, settings["priors"], linear=possible)


def class_mechanism(
    settings: Settings, source: Source, classes: int, rule: str, center: str | Floats = NONE
) -> Mechanism:
    """Build the one mechanism that every class is released by; of the source only the columns are looked at.

    With center "private" it has what the centre leaves of the budget.
    """
    bought = isinstance(center, str) and center == PRIVATE
    share = 1 - SHARE if bought else Fraction(1)
    request = _request(settings, source, _each_class(settings["n_hint"], classes), share)
    if not isinstance(center, str):
        assert isinstance(request.kernel, InnerProduct)
        bounds = moved_bounds(request.bounds, center, request.outside)
        request = replace(request, kernel=around(request.kernel, center), bounds=bounds)
    build = squared_distance.build if rule == rules.DISTANCE else METHODS.build
    return _about_labels(build(settings["method"], request), settings)


def _request(settings: Settings, source: Source, n: int | None, share: Fraction) -> Request:
    """Gather the facts of a release with a share of the budget."""
    names = ("epsilon", "delta", "bounds", "landmarks", "options", "feature_seed", "random_state")
    model = PrivateKDE(
        get_kernel(settings["kernel"], settings["bandwidth"]), n_hint=n, **{name: settings[name] for name in names}
    )
    request = model.request(source.dimension, column_names=source.column_names)
    if share == 1:
        return request
    # Rounded down, so that shares of one delta never add up to more.
    delta = math.nextafter(request.delta * float(share), 0.0)
    return replace(request, epsilon=request.epsilon * share, delta=delta)


def _about_labels(mechanism: Mechanism, settings: Settings) -> Mechanism:
    guarantee = mechanism.guarantee
    conditions = (*guarantee.conditions, *label_conditions(guarantee, settings["classes"]))
    return replace(mechanism, guarantee=replace(guarantee, conditions=conditions))


@dataclass(frozen=True)
class Fitting:
    """One run over labelled records.

    Attributes
    ----------
    settings : mapping
        The classifier's parameters.
    data : LabelledSource
        The records.
    rule : str
        What will decide.
    bits, engine, progress
        As in `central.curator.Curator`.
    """

    settings: Settings
    data: LabelledSource
    rule: str
    bits: SecureBits
    engine: Engine
    progress: Progress | None = None

    def releases(self, center: str | Floats) -> tuple[list[Release], Floats | None]:
        """Release every class, around a centre that is bought first if it is to be."""
        if isinstance(center, str) and center == PRIVATE:
            return self._around_bought()
        mechanism = self._mechanism(center)
        public = None if isinstance(center, str) else center
        if (ledger := self.settings["ledger"]) is not None:
            epsilon, loss = mechanism.cost(count_is_bought=False)
            ledger.check(epsilon, mechanism.guarantee.delta, loss=loss)
        return self._classes(mechanism, mechanism.guarantee, public), public

    def _mechanism(self, center: str | Floats) -> Mechanism:
        return class_mechanism(self.settings, self.data.source, len(self.data.classes), self.rule, center)

    def _around_bought(self) -> tuple[list[Release], Floats]:
        """Buy the mean of all records, and release every class around it; all must be able to read twice."""
        if not self.data.coded.repeatable:
            raise InputError("a bought centre reads the data twice, and this source can be read once: pass center=")
        ledger, first, second = self.settings["ledger"], self._center_mechanism(), self._mechanism(PRIVATE)
        costs = [each.cost(count_is_bought=False) for each in (first, second)]
        delta = first.guarantee.delta + second.guarantee.delta
        epsilon = costs[0][0] + costs[1][0]
        if ledger is not None:
            ledger.check(epsilon, delta, loss=costs[0][1] + costs[1][1])
        table = self._sums(first, None)
        sums, kept = table[:, :-1].sum(axis=0), int(table[:, -1].sum())
        (count,) = self._counts(first, [kept])
        self._charge(first, "center")
        center = bought_center(publish(first, sums, kept, kept, self.bits, count))
        mechanism = class_mechanism(
            {**self.settings, "epsilon": costs[1][0], "delta": second.guarantee.delta},
            self.data.source,
            len(self.data.classes),
            self.rule,
            center,
        )
        whole = replace(first.guarantee, epsilon=epsilon, delta=delta)
        conditions = (*mechanism.guarantee.conditions[:-2], BOUGHT)
        conditions += label_conditions(whole, self.settings["classes"])
        return self._classes(mechanism, replace(whole, conditions=conditions), center), center

    def _center_mechanism(self) -> Mechanism:
        """Build the mean of all records with its share of the budget."""
        n = _each_class(self.settings["n_hint"], 1)
        plain = {**self.settings, "options": None, "landmarks": None}
        return METHODS.build("inner-product", _request(plain, self.data.source, n, SHARE))

    def _sums(self, mechanism: Mechanism, center: Floats | None) -> Integers:
        """Sum every class, one row each, the number of its records last."""
        summand = ClassSums(mechanism.encoder, len(self.data.classes), center)
        flat, _, _ = self.engine.sum(self.data.coded, summand, self.bits.child(0), self.progress)
        return flat.reshape(len(self.data.classes), -1)

    def _counts(self, mechanism: Mechanism, kept: Sequence[int]) -> list[Count | None]:
        """Buy the numbers of records of disjoint classes, and stop if all together are far fewer than expected."""
        law = mechanism.count_law
        if law is None:
            return [None] * len(kept)
        if (ledger := self.settings["ledger"]) is not None:
            ledger.charge("classifier/count", law.epsilon)
        counts = [noisy_count(each, law, self.bits) for each in kept]
        total, variance = sum(count.value for count in counts), len(counts) * law.variance
        check_expected(total, variance, int(self.settings["n_hint"]), law.epsilon, self.bits)
        return [*counts]

    def _charge(self, mechanism: Mechanism, name: str) -> None:
        """Charge for all but the counts, which `_counts` has charged."""
        if (ledger := self.settings["ledger"]) is not None:
            epsilon, loss = mechanism.cost(count_is_bought=mechanism.count_law is not None)
            ledger.charge(f"classifier/{name}", epsilon, mechanism.guarantee.delta, loss=loss)

    def _classes(self, mechanism: Mechanism, promise: Guarantee, center: Floats | None) -> list[Release]:
        """Sum every class, buy all counts, charge the rest once, and then draw the noise of all."""
        table = self._sums(mechanism, center)
        counts = self._counts(mechanism, table[:, -1].tolist())
        self._charge(mechanism, mechanism.method)
        stated = replace(mechanism, guarantee=promise)
        columns = self.data.source.column_names
        return [
            replace(publish(stated, row[:-1].copy(), int(row[-1]), int(row[-1]), self.bits, count), columns=columns)
            for row, count in zip(table, counts, strict=True)
        ]

    def linear(self) -> LinearModel:
        """Train a linear classifier."""
        training = linear_training(self.settings, self.data.source, len(self.data.classes))
        names = self.data.source.column_names
        return training.run(self.data.coded, self.settings["ledger"], self.bits, self.engine, self.progress, names)


def linear_training(settings: Settings, source: Source, classes: int) -> linear.Training:
    """Check all parameters of rule "linear" and plan its training; of the source only the columns are looked at."""
    kernel = get_kernel(settings["kernel"], settings["bandwidth"])
    if settings["trust"] != "central" or not says(settings["method"], "auto") or settings["landmarks"] is not None:
        raise InputError("rule 'linear' is for trust='central' and has no methods and no landmarks: leave them out")
    assert isinstance(kernel, InnerProduct)
    given = settings["center"]
    given = PRIVATE if isinstance(given, str) and given == AUTO else given
    center = checked_center(given, kernel, "central", source.dimension)
    plan = linear.Plan.of(
        epsilon=settings["epsilon"],
        delta=settings["delta"],
        n=settings["n_hint"],
        dimension=source.dimension,
        classes=classes,
        buys_center=isinstance(center, str) and center == PRIVATE,
        options=settings["options"],
    )
    plan.check()
    box = None if settings["bounds"] is None else Box.from_bounds(settings["bounds"], source.dimension)
    middle = np.zeros(source.dimension) if isinstance(center, str) else center
    radius = kernel.radius if isinstance(center, str) else around(kernel, center).radius
    features = Features.within(box, middle, radius)
    return linear.Training(plan, features, _linear_promise(plan, features, settings))


def _linear_promise(plan: linear.Plan, features: Features, settings: Settings) -> Guarantee:
    promise = Guarantee(
        trust="central",
        neighbours="add-remove",
        unit="record",
        epsilon=plan.epsilon,
        delta=plan.delta,
        private=settings["random_state"] is None,
    )
    farther = "records farther from the centre than the radius are brought to that distance"
    said: tuple[str, ...] = (features.box.condition(), farther)
    if plan.center_share:
        said = (*said, BOUGHT)
    return replace(promise, conditions=(*said, *label_conditions(promise, settings["classes"])))


def _each_class(hint: Any, classes: int) -> int | None:
    """Share of one class in the public guess of the number of records."""
    if hint is None:
        return None
    if isinstance(hint, bool) or not isinstance(hint, int | np.integer) or hint < 1:
        raise InputError(f"n_hint must be a whole number above 0, the number of records in all; got {brief(hint)}")
    return max(1, int(hint) // classes)
