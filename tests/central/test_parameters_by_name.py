"""Columns, bounds and lengths as people name them, and errors that say the caller's own parameters."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sfumato import PrivateDistance, PrivateKDE
from sfumato.errors import InputError
from sfumato.learn import AnomalyScore, DensityClassifier

FRAME = pd.DataFrame({"lat": [52.1, 52.9] * 250, "lon": [4.2, 4.8] * 250, "who": ["a", "b"] * 250})
KDE = {"epsilon": 1, "n_hint": 500, "columns": ["lon", "lat"], "bounds": {"lat": (52, 53), "lon": (4, 5)}}


@pytest.mark.parametrize(
    "model",
    [
        PrivateKDE(bandwidth=0.1, **KDE),
        PrivateDistance("manhattan", **KDE),
        PrivateDistance("euclidean", **KDE),
        AnomalyScore(bandwidth=0.1, **KDE),
        DensityClassifier("gaussian", bandwidth=0.1, classes=["a", "b"], **KDE),
    ],
    ids=lambda model: type(model).__name__,
)
def test_columns_and_bounds_by_name(model: Any, tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "points.csv", index=False)
    for data in (FRAME, tmp_path / "points.csv"):
        made = model.fit(data, "who") if isinstance(model, DensityClassifier) else model.fit(data)
        assert list(made.feature_names_in_) == ["lon", "lat"]
        assert made.guarantee_.epsilon == 1
        release = next(iter(made.releases_.values())) if isinstance(model, DensityClassifier) else made.release_
        assert release.columns == ("lon", "lat")


def test_a_frame_like_the_fitted_one_is_asked_for_the_fitted_columns() -> None:
    points = np.random.default_rng(0).random((500, 2))
    frame = pd.DataFrame({"pair": list(points), "who": ["a", "b"] * 250, "x": points[:, 0]})
    terms: dict[str, Any] = {"epsilon": 1, "n_hint": 500, "bounds": (0, 1)}
    density = PrivateKDE(bandwidth=0.5, columns=["pair[2]"], **terms).fit(frame)
    classes = DensityClassifier("gaussian", bandwidth=0.5, columns=["pair[2]"], classes=["a", "b"], **terms)
    classes.fit(frame, "who")
    for answers in (density.query, classes.predict, density.density):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # bare rows have no names
            np.testing.assert_array_equal(answers(frame), answers(points))
            np.testing.assert_array_equal(answers(pa.table({"pair": points.tolist()})), answers(points))
    with pytest.raises(InputError, match="no column 'pair'"):
        density.query(frame[["x"]])


def test_bounds_go_to_the_columns_that_they_name() -> None:
    model = PrivateKDE(bandwidth=0.1, **KDE)
    request = model.request(2, column_names=("lon", "lat"))
    assert list(map(tuple, request.bounds)) == [(4, 5), (52, 53)]
    wrong = [({"lat": (52, 53)}, "leaves out the column 'lon'"), ({"x": (0, 1)}, "names the column 'x'")]
    for bounds, problem in wrong:
        with pytest.raises(InputError, match=problem):
            PrivateKDE(bandwidth=0.1, **KDE | {"bounds": bounds}).fit(FRAME)
    assert PrivateKDE(bandwidth=0.1, epsilon=1, n_hint=9, bounds={1: (0, 1), 0: (2, 3)}).request(2).bounds[0] == (2, 3)


def test_metres_at_the_middle_of_the_bounds() -> None:
    model = PrivateKDE(bandwidth_metres=500, **KDE)
    assert model.fit(FRAME).release_.kernel.bandwidth == pytest.approx([500 / 67_900, 500 / 111_270], rel=1e-2)
    exact = PrivateKDE(bandwidth_metres=500, latitude=52.5, **KDE).fit(FRAME)
    np.testing.assert_array_equal(exact.release_.kernel.bandwidth, model.fit(FRAME).release_.kernel.bandwidth)
    with pytest.raises(InputError, match="latitude is missing"):
        PrivateKDE(bandwidth_metres=500, **KDE | {"bounds": None}).fit(FRAME)
    with pytest.raises(InputError, match="longitude comes first"):
        PrivateKDE(bandwidth_metres=500, **KDE | {"columns": ["lat", "lon"]}).fit(FRAME)
    with pytest.raises(InputError, match="pass one of them"):
        PrivateKDE(bandwidth_metres=500, bandwidth=1.0, **KDE).fit(FRAME)


def test_errors_name_the_callers_parameters() -> None:
    model = PrivateKDE(bandwidth=0.1, unit="user", options={"max_records_per_user": 1}, **KDE)
    with pytest.raises(InputError, match=r"Pass users= with these"):
        model.fit(FRAME, users="whose")
    with pytest.raises(InputError, match=r"Pass sample_weight= with these"):
        PrivateKDE(bandwidth=0.1, **KDE).fit(FRAME, sample_weight="heavy")
    with pytest.raises(InputError, match=r"Pass y= with these"):
        DensityClassifier("gaussian", bandwidth=0.1, classes=["a"], **KDE).fit(FRAME, "whose")
    with pytest.raises(InputError, match=r"ledger must be an account, a ledger or its path"):
        PrivateKDE(bandwidth=0.1, ledger=7, **KDE).fit(FRAME)


def test_queries_are_typed() -> None:
    model = PrivateKDE(bandwidth=0.1, **KDE).fit(FRAME)
    assert isinstance(model.query(FRAME[["lon", "lat"]]), np.ndarray)
    assert len(model.query(FRAME[["lon", "lat"]], return_std=True)) == 2
