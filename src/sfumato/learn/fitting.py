"""What `DensityClassifier.fit` runs under a curator: mechanisms from public facts, sums, charges, noise.

Order matters, as in `central.curator`: everything that can be refused is refused first, the account is asked whether
all of it fits, sums run, the charge is made, and only then is noise drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.central.curator import publish
from sfumato.central.kde import PrivateKDE
from sfumato.engines import Engine, Progress
from sfumato.errors import InputError
from sfumato.kernels import InnerProduct, get_kernel
from sfumato.learn import centring, linear, rules, squared_distance
from sfumato.learn.labels import ClassSums, LabelledSource, label_conditions
from sfumato.learn.linear_file import LinearModel
from sfumato.learn.softmax import MOST_COLUMNS, Features
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.guarantee import Guarantee
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Box
from sfumato.release import Release
from sfumato.sources import Source

Settings = Mapping[str, Any]


def rule_of(settings: Settings, source: Source, classes: int) -> Any:
    """Return the rule that is asked for, or that "auto" stands for; of the source only its kind is looked at."""
    possible = (
        bool(settings["delta"])
        and settings["trust"] == "central"
        and settings["method"] == "auto"
        and settings["landmarks"] is None
        and set(settings["options"] or {}) <= set(linear.OPTIONS)
        and source.repeatable
        and source.dimension <= MOST_COLUMNS
        and classes > 1
    )
    kernel = get_kernel(settings["kernel"], settings["bandwidth"])
    return rules.chosen(settings["rule"], kernel, settings["priors"], linear=possible)


def class_mechanism(
    settings: Settings, source: Source, classes: int, rule: str, center: str | Floats = centring.NONE
) -> Mechanism:
    """Build the one mechanism that every class is released by; of the source only the columns are looked at.

    With center "private" it has what the centre leaves of the budget.
    """
    bought = isinstance(center, str) and center == centring.PRIVATE
    share = 1 - centring.SHARE if bought else Fraction(1)
    request = _request(settings, source, _each_class(settings["n_hint"], classes), share)
    if not isinstance(center, str):
        assert isinstance(request.kernel, InnerProduct)
        bounds = centring.moved_bounds(request.bounds, center, request.outside)
        request = replace(request, kernel=centring.around(request.kernel, center), bounds=bounds)
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
        if isinstance(center, str) and center == centring.PRIVATE:
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
        ledger, first, second = self.settings["ledger"], self._center_mechanism(), self._mechanism(centring.PRIVATE)
        costs = [each.cost(count_is_bought=False) for each in (first, second)]
        delta = first.guarantee.delta + second.guarantee.delta
        epsilon = costs[0][0] + costs[1][0]
        if ledger is not None:
            ledger.check(epsilon, delta, loss=costs[0][1] + costs[1][1])
        table = self._sums(first, None)
        self._charge(first, "center")
        sums, kept = table[:, :-1].sum(axis=0), int(table[:, -1].sum())
        center = centring.bought_center(publish(first, sums, kept, kept, self.bits))
        mechanism = class_mechanism(
            {**self.settings, "epsilon": costs[1][0], "delta": second.guarantee.delta},
            self.data.source,
            len(self.data.classes),
            self.rule,
            center,
        )
        whole = replace(first.guarantee, epsilon=epsilon, delta=delta)
        conditions = (*mechanism.guarantee.conditions[:-2], centring.BOUGHT)
        conditions += label_conditions(whole, self.settings["classes"])
        return self._classes(mechanism, replace(whole, conditions=conditions), center), center

    def _center_mechanism(self) -> Mechanism:
        """Build the mean of all records with its share of the budget."""
        n = _each_class(self.settings["n_hint"], 1)
        plain = {**self.settings, "options": None, "landmarks": None}
        return METHODS.build("inner-product", _request(plain, self.data.source, n, centring.SHARE))

    def _sums(self, mechanism: Mechanism, center: Floats | None) -> Integers:
        """Sum every class, one row each, the number of its records last."""
        summand = ClassSums(mechanism.encoder, len(self.data.classes), center)
        flat, _, _ = self.engine.sum(self.data.coded, summand, self.bits.child(0), self.progress)
        return flat.reshape(len(self.data.classes), -1)

    def _charge(self, mechanism: Mechanism, name: str) -> None:
        if (ledger := self.settings["ledger"]) is not None:
            epsilon, loss = mechanism.cost(count_is_bought=False)
            ledger.charge(f"classifier/{name}", epsilon, mechanism.guarantee.delta, loss=loss)

    def _classes(self, mechanism: Mechanism, promise: Guarantee, center: Floats | None) -> list[Release]:
        """Sum every class, charge once, and then draw the noise of all."""
        table = self._sums(mechanism, center)
        self._charge(mechanism, mechanism.method)
        stated = replace(mechanism, guarantee=promise)
        columns = self.data.source.column_names
        return [
            replace(publish(stated, row[:-1].copy(), int(row[-1]), int(row[-1]), self.bits), columns=columns)
            for row in table
        ]

    def linear(self) -> LinearModel:
        """Train a linear classifier."""
        training = linear_training(self.settings, self.data.source, len(self.data.classes))
        names = self.data.source.column_names
        return training.run(self.data.coded, self.settings["ledger"], self.bits, self.engine, self.progress, names)


def linear_training(settings: Settings, source: Source, classes: int) -> linear.Training:
    """Check all parameters of rule "linear" and plan its training; of the source only the columns are looked at."""
    kernel = get_kernel(settings["kernel"], settings["bandwidth"])
    if settings["trust"] != "central" or settings["method"] != "auto" or settings["landmarks"] is not None:
        raise InputError("rule 'linear' is for trust='central' and has no methods and no landmarks: leave them out")
    assert isinstance(kernel, InnerProduct)
    given = settings["center"]
    given = centring.PRIVATE if isinstance(given, str) and given == centring.AUTO else given
    center = centring.checked_center(given, kernel, "central", source.dimension)
    plan = linear.Plan.of(
        epsilon=settings["epsilon"],
        delta=settings["delta"],
        n=settings["n_hint"],
        dimension=source.dimension,
        classes=classes,
        buys_center=isinstance(center, str) and center == centring.PRIVATE,
        options=settings["options"],
    )
    plan.check()
    box = None if settings["bounds"] is None else Box.from_bounds(settings["bounds"], source.dimension)
    middle = np.zeros(source.dimension) if isinstance(center, str) else center
    radius = kernel.radius if isinstance(center, str) else centring.around(kernel, center).radius
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
        said = (*said, centring.BOUGHT)
    return replace(promise, conditions=(*said, *label_conditions(promise, settings["classes"])))


def _each_class(hint: Any, classes: int) -> int | None:
    """Share of one class in the public guess of the number of records."""
    if hint is None:
        return None
    if isinstance(hint, bool) or not isinstance(hint, int | np.integer) or hint < 1:
        raise InputError(f"n_hint must be a whole number above 0, the number of records in all; got {hint!r}")
    return max(1, int(hint) // classes)
