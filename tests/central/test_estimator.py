"""What all estimators share: parameters as they were given, the mechanism before the data, and whose each record is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato.central.estimator import PrivateEstimator, ReleaseEstimator
from sfumato.errors import InputError
from sfumato.sources import Source

POINTS = np.random.default_rng(0).uniform(0, 10, (300, 2))
FACTS: dict[str, Any] = {"epsilon": 1, "bounds": (0, 10), "n_hint": 300}


@pytest.mark.parametrize(
    "estimator",
    [
        sfumato.PrivateKDE(bandwidth=1.0, **FACTS),
        sfumato.PrivateDistance(metric="l1", **FACTS),
        sfumato.learn.DensityClassifier(epsilon=1),
        sfumato.learn.AnomalyScore(bandwidth=1.0, **FACTS),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_every_estimator_keeps_its_parameters_as_given(estimator: ReleaseEstimator) -> None:
    assert isinstance(estimator, ReleaseEstimator)
    for name, value in estimator.get_params(deep=False).items():
        assert getattr(estimator, name) is value


def test_a_mechanism_is_built_before_a_row_is_read() -> None:
    def unread(rows: int) -> Iterator[Any]:
        raise AssertionError("a row was read")

    model = sfumato.PrivateKDE(bandwidth=1.0, method="grid", **FACTS)
    assert isinstance(model, PrivateEstimator)
    assert model.mechanism(Source(2, None, unread)).method == "grid"


@pytest.mark.parametrize(("unit", "users"), [("record", np.arange(300)), ("user", None)])
def test_users_and_what_is_protected_belong_together(unit: str, users: Any) -> None:
    options = {"max_records_per_user": 1} if unit == "user" else None
    model = sfumato.PrivateKDE(bandwidth=1.0, unit=unit, options=options, **FACTS)
    with pytest.raises(InputError, match="users"):
        model.fit(POINTS, users=users)
