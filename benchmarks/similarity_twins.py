"""Broken twins of `landmarks` and the inner products, as (mechanism, mistake, case), for `benchmarks.twins`.

Their twins with 30 % less noise come from their audits' own cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.audit import Case
from sfumato.audit.cases.published import every_record
from sfumato.audit.cases.similarities import small
from sfumato.central import inner_product, landmarks
from sfumato.methods.mechanism import Mechanism
from sfumato.quantizers import InnerProductQuantizer, LandmarkQuantizer


def _with_rate(mechanism: Mechanism, factor: Fraction) -> Mechanism:
    law: Any = mechanism.noise
    return replace(mechanism, noise=replace(law, rate=law.rate * factor))


def _residual_for_free() -> Case:
    """Pay for the features alone where the residual is not free: rank 1, l1 of 5/4 in all."""
    return every_record(_with_rate(small(landmarks.NAME, 1, n_features=1), Fraction(5, 4)))


class CountsItself(LandmarkQuantizer):
    def encode(self, rows: Any, coins: Any = None) -> Any:
        encoded = super().encode(rows)
        encoded[:, -1] = self.scale
        return encoded


def _residual_of_one() -> Case:
    """Publish 1 in the residual's place: a second count, which is not paid for."""
    mechanism = small(landmarks.NAME, 1, n_features=4)
    quantizer: Any = mechanism.encoder
    broken = CountsItself(*(getattr(quantizer, field.name) for field in fields(quantizer)))
    return every_record(mechanism.on(broken))


class NotScaledDown(InnerProductQuantizer):
    def encode(self, rows: Any, coins: Any = None) -> Any:
        return np.rint(np.asarray(rows) * self.ball.amplitude).astype(np.int64)


def _long_records() -> Case:
    """Take records as they come, however long."""
    mechanism = small(inner_product.NAME, 1)
    quantizer: Any = mechanism.encoder
    return every_record(mechanism.on(NotScaledDown(quantizer.ball, quantizer.clip, quantizer.seed)))


def _off_by_one() -> Case:
    """Let integers reach 4 with noise for 3."""
    mechanism = small(inner_product.NAME, 1)
    quantizer: Any = mechanism.encoder
    few = replace(quantizer, ball=replace(quantizer.ball, scale=6))
    assert few.ball.amplitude == 4
    return every_record(_with_rate(mechanism.on(few), Fraction(quantizer.ball.scale, 3)))


def _added_not_replaced() -> Case:
    """Use the noise for one record more where one is replaced."""
    return every_record(_with_rate(small(inner_product.SIGNS, 1, "replace", n_features=2), Fraction(2)))


TWINS: tuple[tuple[str, str, Callable[[], Case]], ...] = (
    (landmarks.NAME, "residual not paid for below rank 4", _residual_for_free),
    (landmarks.NAME, "count in the residual's place", _residual_of_one),
    (inner_product.NAME, "long records not scaled down", _long_records),
    (inner_product.NAME, "sensitivity off by one", _off_by_one),
    (inner_product.SIGNS, "replacing counted as adding", _added_not_replaced),
)
