"""The stated limits: what they let through, and that they are checked wherever a public parameter enters."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato import PrivateKDE, bandwidth, distances, local, shuffled
from sfumato.central.sketch import RaceSketch
from sfumato.errors import InputError
from sfumato.kernels import L2LSH, Gaussian
from sfumato.methods.request import Request
from sfumato.public.domain import Domain
from sfumato.public.ranges import (
    LARGEST_LENGTH,
    LARGEST_OPTION,
    MOST_COLUMNS,
    MOST_INTEGERS,
    MOST_RECORDS,
    SMALLEST_DELTA,
    SMALLEST_EPSILON,
    SMALLEST_LENGTH,
    check_bounds,
    check_budget,
    check_length,
    check_size,
    check_whole,
    plain_number,
)
from sfumato.published.hrw import OnlineQueries
from sfumato.quantizers import Box

POINTS = np.random.default_rng(0).random((50, 2))
LARGEST = float(np.finfo(np.float64).max)
FACTS: dict[str, Any] = {"kernel": Gaussian(1.0), "dimension": 2, "epsilon": Fraction(1), "n": 100, "feature_seed": 0}
MODEL: dict[str, Any] = {"bandwidth": 1.0, "epsilon": 1, "bounds": (0, 1), "n_hint": 50}


class TestChecks:
    def test_numbers_are_taken_out_of_their_wrapping(self) -> None:
        assert plain_number(np.int64(3)) == check_whole("n", np.array(3), 5) == 3
        for number in (np.float32(0.5), np.longdouble(0.5), np.array(0.5, dtype=np.longdouble), Fraction(1, 2)):
            assert type(plain_number(number)) is float

    @pytest.mark.parametrize(
        "bounds", [(-LARGEST_LENGTH, LARGEST_LENGTH), (0.0, SMALLEST_LENGTH), (1e9, 1e9 + 1), (-1.0, 1e-50)]
    )
    def test_bounds_within_the_limits_pass(self, bounds: tuple[float, float]) -> None:
        check_bounds(bounds[:1], bounds[1:])

    @pytest.mark.parametrize(
        ("bounds", "message"),
        [
            ((0.0, 1.0000001e50), "within 1e\\+50"),
            ((-LARGEST, LARGEST), "within 1e\\+50"),
            ((0.0, 9e-51), "too close"),
            ((0.0, 5e-324), "too close"),
            ((1e15, 1e15 + 1), "too close"),
            ((float("nan"), 1.0), "within"),
        ],
    )
    def test_bounds_beyond_them_are_refused(self, bounds: tuple[float, float], message: str) -> None:
        with pytest.raises(InputError, match=message):
            check_bounds(bounds[:1], bounds[1:])

    @pytest.mark.parametrize("length", [0.0, -1.0, 9e-51, 2e50, float("inf"), float("nan")])
    def test_lengths(self, length: float) -> None:
        with pytest.raises(InputError, match="radius must lie between"):
            check_length("radius", length)

    @pytest.mark.parametrize("value", [0, -1, 11, True, 2.0, "3", None, 10**100, [10**5000]])
    def test_whole_numbers(self, value: Any) -> None:
        assert check_whole("depth", np.int64(10), 10) == 10
        with pytest.raises(InputError, match="depth must be a positive whole number, up to 10"):
            check_whole("depth", value, 10)

    def test_budgets_and_sizes(self) -> None:
        check_budget(SMALLEST_EPSILON, SMALLEST_DELTA)
        with pytest.raises(InputError, match="epsilon must be at least 1e-09"):
            check_budget(SMALLEST_EPSILON / 2, 0.0)
        with pytest.raises(InputError, match="delta must be 0 or at least 1e-100"):
            check_budget(Fraction(1), 5e-324)
        check_size(MOST_INTEGERS)
        with pytest.raises(InputError, match="fit; pass smaller sizes"):
            check_size(MOST_INTEGERS + 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dimension": MOST_COLUMNS + 1}, "dimension"),
        ({"n": MOST_RECORDS + 1}, "n_hint"),
        ({"n": "paid"}, "n_hint"),
        ({"epsilon": Fraction(1, 10**10)}, "epsilon"),
        ({"delta": 1e-200}, "delta"),
        ({"kernel": Gaussian(1e60)}, "bandwidth"),
        ({"kernel": Gaussian([1.0, 1e-60])}, "bandwidth"),
        ({"kernel": Gaussian([[1e-60, 0.0], [0.0, 1.0]])}, "bandwidth"),
        ({"bounds": Box((-1e60, 0.0), (1e60, 1.0))}, "bounds of column 0"),
    ],
)
def test_a_request_keeps_to_the_limits(changes: dict[str, Any], message: str) -> None:
    Request(**FACTS)
    with pytest.raises(InputError, match=message):
        Request(**{**FACTS, **changes})


@pytest.mark.parametrize(
    "enter",
    [
        lambda bounds: PrivateKDE(**{**MODEL, "bounds": bounds}).fit(POINTS),
        lambda bounds: PrivateKDE("inner-product", **{**MODEL, "bounds": bounds}).fit(POINTS),
        lambda bounds: distances.PrivateDistance(epsilon=1, bounds=bounds, n_hint=50).fit(POINTS),
        lambda bounds: sfumato.plan(n_hint=50, dimension=2, epsilon=1, bandwidth=1.0, bounds=bounds),
        lambda bounds: distances.plan(n_hint=50, dimension=2, epsilon=1, bounds=bounds),
        lambda bounds: bandwidth.private(POINTS, epsilon=1, bounds=bounds, n_hint=50),
        lambda bounds: RaceSketch(L2LSH(1.0), dimension=2, rows=3, bounds=bounds),
        lambda bounds: Domain(*(tuple(map(float, side)) for side in zip(bounds, bounds, strict=True))).check_limits(),
        lambda bounds: local.Protocol(L2LSH(1.0), dimension=2, epsilon=1, participants=50, bounds=bounds),
        lambda bounds: shuffled.Protocol(
            Gaussian(1.0), dimension=2, epsilon=1, delta=1e-5, participants=50, bounds=bounds
        ),
    ],
)
@pytest.mark.parametrize("bounds", [(-LARGEST, LARGEST), (0.0, 1e300), (0.0, 5e-324)])
def test_bounds_are_checked_where_they_enter(enter: Callable[[Any], Any], bounds: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="bounds of column 0"):
        enter(bounds)


@pytest.mark.parametrize(
    "enter",
    [
        lambda: PrivateKDE(**MODEL, landmarks=np.full((9, 2), 1e60)).fit(POINTS),
        lambda: PrivateKDE(**MODEL, method="laplace-queries", options={"queries": [[1e60, 0]]}).fit(POINTS),
        lambda: bandwidth.from_public(np.full((9, 2), 1e60)),
        lambda: OnlineQueries(PrivateKDE(**MODEL, delta=1e-6), np.repeat(POINTS, 20, axis=0)).ask([1e60, 0.0]),
        lambda: PrivateKDE(**MODEL).fit(POINTS).query([[1e61, 0.0]]),
    ],
)
def test_public_points_are_checked_where_they_enter(enter: Callable[[], Any]) -> None:
    with pytest.raises(InputError, match="within 1e\\+[56]0 of 0"):
        enter()


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("fourier", {"n_features": LARGEST_OPTION}),
        ("fourier", {"n_features": 10**30}),
        ("race", {"rows": LARGEST_OPTION}),
        ("race", {"rows": 2**28, "width": 2}),
        ("race", {"width": 10**30}),
        ("smalldb", {"points": 65}),
        ("noisy-sample", {"sample": 2**21}),
        ("pmw", {"spacing": 1e-7}),
        ("pmw", {"spacing": float("nan")}),
        ("lsq-rff", {"alpha": 1e-13, "eta": 0.1}),
        ("fourier", {"density": 1e-13}),
        ("fourier", {"count_share": 1e-7}),
    ],
)
def test_options_have_limits(method: str, options: dict[str, Any]) -> None:
    kernel = "l2-lsh" if method == "race" else "gaussian"
    with pytest.raises(InputError):
        PrivateKDE(kernel, **{**MODEL, "n_hint": 2**22}, method=method, options=options).fit(POINTS)


def test_sizes_that_no_machine_holds_are_refused() -> None:
    """784 columns of a tree with 2^20 leaves are 12 GB."""
    with pytest.raises(InputError, match="integers, and 268435456 fit"):
        distances.PrivateDistance("l1", epsilon=1, bounds=(0, 1), n_hint=10**9, method="tree-published").fit(
            np.zeros((2, 784))
        )
    with pytest.raises(InputError, match="fit; pass smaller"):
        RaceSketch(L2LSH(1.0), dimension=2, rows=2**30)


def test_the_page_on_limits_states_these() -> None:
    page = (Path(__file__).parents[2] / "docs" / "limits.md").read_text()
    for text in ("1e50", "1e-50", "1e60", "2^-40", "2^20 columns", "10^15", "1e-9", "1e-100", "2^40", "2^28"):
        assert text in page, f"docs/limits.md does not state {text}"
