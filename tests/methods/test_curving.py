"""Releases of tables with columns on circles and spheres."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import sfumato
from sfumato import PrivateKDE
from sfumato.cli import app
from sfumato.errors import InputError
from sfumato.kernels import Circle, Curved, Gaussian, Sphere
from sfumato.methods.curving import straighten
from sfumato.methods.request import Request

RANDOM = np.random.default_rng(4)
TABLE = np.column_stack([RANDOM.normal(23.5, 2, 5000) % 24, RANDOM.normal(0, 1, 5000)])
QUERIES = [[0.0, 0.0], [23.9, 0.5], [12.0, 0.0]]


def model(**changes: Any) -> PrivateKDE:
    given: dict[str, Any] = {
        **{"bandwidth": [2.0, 1.0], "epsilon": 1, "n_hint": 5000, "bounds": (-4, 4), "kinds": {0: Circle(24)}},
        **{"feature_seed": 1, "random_state": 1},
    }
    return PrivateKDE(**{**given, **changes})


@pytest.mark.parametrize("method", ["auto", "grid", "fourier", "lattice"])
def test_answers_are_those_of_chords(method: str) -> None:
    """Seven bars: of a grid's, 0.64 are the count's Laplace noise, which exceeds them with 8e-7; others are normal."""
    fitted = model(method=method, delta=1e-6 if method == "lattice" else 0.0).fit(TABLE)
    answers, errors = fitted.query(QUERIES, return_std=True)
    truth = Curved(Gaussian([2.0, 2.0, 1.0]), {0: Circle(24)}).exact_density(TABLE, QUERIES)
    assert (np.abs(answers - truth) < 7 * errors).all()
    assert answers[0] > 0.2
    assert fitted.query([[24.0, 0.0]])[0] == pytest.approx(answers[0])  # midnight is midnight


def test_a_release_lasts_and_says_what_it_did(tmp_path: Path) -> None:
    release = model().fit(TABLE).release_
    release.save(tmp_path / "hours.sfm")
    loaded = sfumato.load(tmp_path / "hours.sfm")
    assert loaded.query(QUERIES) == pytest.approx(release.query(QUERIES))
    assert loaded.kernel == release.kernel
    assert "circles and spheres" in loaded.statement()
    assert loaded.dimension == 2


def test_places_on_earth_need_no_bounds() -> None:
    places = np.column_stack([RANDOM.normal(48, 2, 4000), RANDOM.normal(179, 3, 4000)])
    fitted = model(bandwidth=300.0, bounds=None, kinds={(0, 1): Sphere()}).fit(places)
    answers, errors = fitted.query([[48.0, -179.0], [48.0, 181.0]], return_std=True)
    truth = Curved(Gaussian(300.0), {(0, 1): Sphere()}).exact_density(places, [[48.0, -179.0]])
    assert answers[0] == pytest.approx(answers[1])
    assert abs(answers[0] - truth[0]) < 6 * errors[0]


def test_odd_rows_are_dropped_and_nothing_else_changes() -> None:
    odd = np.vstack([TABLE, [[np.nan, 0.0], [np.inf, 0.0], [1.0, np.nan]]])
    assert (model().fit(odd).release_.values == model().fit(TABLE).release_.values).all()


def test_columns_go_by_name() -> None:
    import pandas as pd

    frame = pd.DataFrame(TABLE, columns=["hour", "size"])
    named = model(kinds={"hour": Circle(24)}).fit(frame).release_
    assert (named.values == model().fit(TABLE).release_.values).all()
    with pytest.raises(InputError, match="no column 'minute'"):
        model(kinds={"minute": Circle(60)}).fit(frame)


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(InputError, match="without categories"):
        model(categories={1: [1, 2]}).fit(TABLE)
    with pytest.raises(InputError, match="landmarks"):
        model(landmarks=TABLE[:5]).fit(TABLE)
    with pytest.raises(InputError, match="beyond"):
        model(kinds={7: Circle(24)}).fit(TABLE)


def test_the_command_line_states_kinds(tmp_path: Path) -> None:
    path, made = tmp_path / "t.csv", tmp_path / "t.sfm"
    lines = "\n".join(f"{hour!r},{size!r}" for hour, size in TABLE[:500].tolist())
    path.write_text("hour,size\n" + lines + "\n")
    common = ["release", str(path), "-o", str(made), "--epsilon", "1", "--n-hint", "500", "--bandwidth", "2,1"]
    common += ["--bounds", "-4,4", "--no-ledger"]
    done = CliRunner().invoke(app, [*common, "--circle", "hour=24"])
    assert done.exit_code == 0, done.output
    answers = sfumato.load(made).query([[0.0, 0.0], [24.0, 0.0]])
    assert answers[0] == pytest.approx(answers[1])
    for wrong in (["--circle", "hour"], ["--circle", "hour=-3"], ["--sphere", "hour"], ["--circle", "day=7"]):
        assert CliRunner().invoke(app, [*common, "--force", *wrong]).exit_code != 0


def test_a_request_for_a_circle_becomes_one_for_two_columns_within_its_reach() -> None:
    kernel = Curved(Gaussian([2.0, 2.0, 1.0]), {0: Circle(24)})
    request = Request(kernel, dimension=2, epsilon=Fraction(1), n=100, bounds=[(0, 24), (-4, 4)])
    images = straighten(request).request
    assert (images.dimension, images.kernel) == (3, kernel.images)
    low, high = images.bounds[0]
    assert low == -high and images.bounds[2] == (-4, 4)
