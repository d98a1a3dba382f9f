"""Broken twins of the classifier and its projected moments, as (mechanism, mistake, case), for `benchmarks.twins`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from sfumato.audit import Case
from sfumato.audit.attacks import Outputs, run
from sfumato.audit.cases.distances import every_place
from sfumato.audit.cases.learn import CLASSIFIER, PURE, Classes, classifier_cases, small
from sfumato.audit.cases.linear import LINEAR, step_cases
from sfumato.learn.softmax import Gradient
from sfumato.learn.squared_distance import ProjectedSquares
from sfumato.methods.mechanism import Mechanism
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteGaussian


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


class NotClipped(ProjectedSquares):
    def encode(self, rows: Any, coins: Any = None) -> Any:
        images, inner = self._images(rows), self.inner
        halves = inner.bounds.half_widths
        columns = np.rint(images / halves * np.array(inner.scales[:-2])).astype(np.int64)
        return np.column_stack([columns, super().encode(rows)[:, -2:]])


def _unclipped() -> Case:
    """Leave the projected coordinates as they are."""
    mechanism = small(PURE, 1)
    quantizer: Any = mechanism.encoder
    broken = NotClipped(*(getattr(quantizer, field.name) for field in fields(quantizer)))
    return every_place(mechanism.on(broken), np.linspace(-2, 2, 41)[:, None])


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


TWINS: tuple[tuple[str, str, Callable[[], Case]], ...] = (
    (CLASSIFIER, "records counted in every class", _shared_records),
    (CLASSIFIER, "empty classes left out", _observed_classes),
    (LINEAR, "noise 30 % low", _little_noise),
    (LINEAR, "residuals not cut", _residual_not_cut),
    (PURE, "projections not clipped", _unclipped),
)
