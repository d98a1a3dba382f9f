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
from sfumato.audit.cases import planes
from sfumato.audit.cases.published import every_record
from sfumato.audit.cases.similarities import small
from sfumato.central import inner_product, landmarks
from sfumato.methods.mechanism import Mechanism
from sfumato.quantizers import InnerProductQuantizer, LandmarkQuantizer


def _with_rate(mechanism: Mechanism, factor: Fraction) -> Mechanism:
    law: Any = mechanism.noise
    return replace(mechanism, noise=replace(law, rate=law.rate * factor))


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


def _norm_before_rounding() -> Case:
    """Pay for the length before rounding, 4, where rounding takes a record to (3, 3)."""
    mechanism = planes.at_scale(planes.plane(1), planes.SMALL_SCALE, paid=4)
    return planes.exact_plane(mechanism, reach=12)


def _norm_before_rounding_replaced() -> Case:
    """Do the same where one record replaces another."""
    mechanism = planes.at_scale(planes.plane(1, "replace"), planes.SMALL_SCALE, paid=4)
    return planes.exact_plane(mechanism, reach=12)


def _added_not_replaced() -> Case:
    """Use the noise for one record more where one is replaced."""
    return every_record(_with_rate(small(inner_product.SIGNS, 1, "replace", n_features=2), Fraction(2)))


TWINS: tuple[tuple[str, str, Callable[[], Case]], ...] = (
    (landmarks.NAME, "count in the residual's place", _residual_of_one),
    (inner_product.NAME, "long records not scaled down", _long_records),
    (inner_product.NAME, "sensitivity off by one", _off_by_one),
    (inner_product.NAME, "ball noise: length taken before rounding", _norm_before_rounding),
    (inner_product.NAME, "ball noise: length before rounding, n public", _norm_before_rounding_replaced),
    (inner_product.SIGNS, "replacing counted as adding", _added_not_replaced),
)
