"""Inner products on integers: exact, in the ball, unbiased where they say so; public rotations and signs."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sfumato import PrivateKDE
from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import Gaussian, InnerProduct, get_kernel, kernel_from_document
from sfumato.quantizers import InnerProductQuantizer, InnerProductSigns, Quantizer, quantizer_from_document
from sfumato.quantizers.base import Known
from sfumato.quantizers.clamping import Ball
from sfumato.quantizers.rotation import ROTATION_BITS, rotation

DIMENSION = 24
RANDOM = np.random.default_rng(0)


def on_the_sphere(count: int, dimension: int = DIMENSION) -> np.ndarray:
    points = RANDOM.normal(size=(count, dimension))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


POINTS, QUERIES = on_the_sphere(300), on_the_sphere(20)


def ball(radius: float = 1.0, dimension: int = DIMENSION, scale: int = 2**18) -> Ball:
    return Ball.around(InnerProduct(radius), dimension, scale)


class TestKernel:
    def test_value_and_names(self) -> None:
        assert get_kernel("inner-product") == InnerProduct(1.0)
        assert (
            get_kernel("inner-product", 2.0)
            == InnerProduct(2.0)
            == kernel_from_document(InnerProduct(2.0).to_document())
        )
        assert np.allclose(InnerProduct(2.0).value(POINTS, QUERIES), POINTS @ QUERIES.T / 4)
        assert np.allclose(InnerProduct().exact_density(POINTS, QUERIES), POINTS.mean(axis=0) @ QUERIES.T)

    @pytest.mark.parametrize("radius", [0, -1.0, math.inf, True, "1"])
    def test_a_radius_is_a_positive_length(self, radius: object) -> None:
        with pytest.raises(InputError, match="radius must (be a positive length|lie between)"):
            InnerProduct(radius)  # type: ignore[arg-type]

    def test_one_number_for_all_columns(self) -> None:
        with pytest.raises(InputError, match="one number"):
            get_kernel("inner-product", [1.0, 2.0])


class TestCoordinates:
    def test_products_are_exact_to_rounding(self) -> None:
        quantizer = InnerProductQuantizer(ball(3.0), clip=None)
        found = quantizer.encode(3 * POINTS) @ quantizer.weights(QUERIES).T
        assert np.abs(found - InnerProduct(3.0).value(3 * POINTS, QUERIES)).max() < 1e-5

    def test_long_records_keep_their_direction_and_lose_their_length(self) -> None:
        quantizer = InnerProductQuantizer(ball(), clip=None)
        long = quantizer.encode(POINTS * np.geomspace(1.001, 1e80, 300)[:, None])
        assert np.abs(long / quantizer.ball.scale - POINTS).max() < 1e-4
        short = quantizer.encode(POINTS * 0.25)
        assert np.abs(short / quantizer.ball.amplitude - 0.25 * POINTS).max() < 1e-5

    @settings(max_examples=200, deadline=None)
    @given(
        rows=hnp.arrays(np.float64, (3, 7), elements=st.floats(allow_nan=True, allow_infinity=True)),
        clip=st.sampled_from([None, 0.3, 2.5]),
        scale=st.sampled_from([40, 1000, 2**20]),
    )
    def test_nothing_leaves_the_bounds(self, rows: np.ndarray, clip: float | None, scale: int) -> None:
        quantizer = InnerProductQuantizer(ball(2.0, 7, scale), clip, seed=3)
        encoded = quantizer.encode(rows)
        assert len(encoded) == np.isfinite(rows).all(axis=1).sum()
        for row in encoded.tolist():
            assert sum(map(abs, row)) <= quantizer.bound.l1
            assert sum(value**2 for value in row) <= quantizer.bound.l2_squared
            assert max(map(abs, row)) <= quantizer.bound.largest

    def test_bounds_are_those_of_the_ball_and_of_the_cube(self) -> None:
        assert InnerProductQuantizer(ball(), None).bound.l1 == math.isqrt(DIMENSION * 2**36)
        tight = InnerProductQuantizer(ball(), clip=0.5)
        assert tight.bound.l1 == DIMENSION * tight.largest < math.isqrt(DIMENSION * 2**36)
        assert tight.bound.l2_squared == DIMENSION * tight.largest**2 < 2**36

    @pytest.mark.parametrize("clip", [1.0, 2.5])
    def test_clipping_loses_the_stated_share_over_rotations(self, clip: float) -> None:
        """The mean over 60 rotations of 300 unit records, known to 0.5 %: see the spread in the assertion."""
        shares = []
        for seed in range(60):
            quantizer = InnerProductQuantizer(ball(dimension=DIMENSION), clip, seed)
            found = quantizer.encode(POINTS) @ quantizer.weights(POINTS).T
            shares.append(np.trace(found) / len(POINTS))
        # Coordinates of a vector on a sphere of 24 dimensions have slightly lighter tails than normal numbers.
        error = 5 * np.std(shares) / math.sqrt(60) + 0.01
        assert abs(np.mean(shares) - math.erf(clip / math.sqrt(2))) < error < 0.02
        sums = np.full(DIMENSION, 1e6)
        reading = quantizer.reading(QUERIES, sums, Known(1.0, count=100.0))
        assert np.allclose(reading.bias, math.erfc(clip / math.sqrt(2)) * np.abs(reading.total) / 100)

    def test_only_rounding_is_lost_without_clipping(self) -> None:
        quantizer = InnerProductQuantizer(ball(), clip=None)
        sums = quantizer.encode(POINTS).sum(axis=0).astype(float)
        errors = np.abs(quantizer.weigh(QUERIES, sums).total / 300 - InnerProduct().exact_density(POINTS, QUERIES))
        assert (errors <= quantizer.bias_bound(QUERIES, sums, Known(1.0, 300.0))).all()
        with pytest.raises(InputError, match="no limit"):
            InnerProductQuantizer(ball()).bias_bound(QUERIES, sums, Known(1.0, 300.0))

    @pytest.mark.parametrize("clip", [None, 2.5])
    def test_one_number_of_every_column_is_read_at_once(
        self, clip: float | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As unit vectors would be, which are as many numbers as the columns' square."""
        fitted = PrivateKDE(
            InnerProduct(), epsilon=5, n_hint=300, method="inner-product", options={"clip": clip}, random_state=1
        )
        release = fitted.fit(POINTS).release_
        totals, errors = release.axis_totals(0.5)
        expected = release.total(0.5 * np.eye(DIMENSION), return_std=True)
        assert np.allclose(totals, expected[0], rtol=1e-12) and np.allclose(errors, expected[1], rtol=1e-12)
        signed = PrivateKDE(InnerProduct(), epsilon=5, n_hint=300, method="inner-product-signs", random_state=1)
        signs = signed.fit(POINTS).release_
        whole = signs.axis_totals(0.5)
        monkeypatch.setattr("sfumato.release.release.AXES_AT_ONCE", 5 * DIMENSION)
        assert np.allclose(signs.axis_totals(0.5), whole, rtol=1e-12)
        assert np.allclose(whole, signs.total(0.5 * np.eye(DIMENSION), return_std=True), rtol=1e-12)

    @pytest.mark.parametrize(
        ("clip", "dimension", "message"),
        [
            (0.0, 5, "positive number or None"),
            ("2", 5, "positive number"),
            (2.5, 3000, "up to 2048 columns"),
            (2.5, 2000, "first takes 3.2e[+]10 products.*fewer columns"),
        ],
    )
    def test_what_cannot_be_clipped_is_refused(self, clip: object, dimension: int, message: str) -> None:
        with pytest.raises(InputError, match=message):
            InnerProductQuantizer(ball(dimension=dimension), clip)  # type: ignore[arg-type]


class TestRotation:
    @pytest.mark.parametrize("dimension", [1, 2, 24, 130])
    def test_it_is_a_rotation_on_whole_numbers(self, dimension: int) -> None:
        turn = rotation(dimension, seed=5)
        assert np.array_equal(turn, np.rint(turn))
        unit = np.ldexp(turn, -ROTATION_BITS)
        assert np.abs(unit @ unit.T - np.eye(dimension)).max() < 1e-5
        assert not np.array_equal(turn, rotation(dimension, seed=7)) or dimension == 1

    @pytest.mark.exact
    def test_it_is_the_same_everywhere(self) -> None:
        digest = hashlib.sha256(rotation(16, seed=1).astype("<i8").tobytes()).hexdigest()
        assert digest == "c7827b0e8ee05400b27a27385d03badad81b5123c86e5a2653bf899e0f457a44"


class TestSigns:
    def test_terms_are_unbiased_with_the_stated_variance(self) -> None:
        """100,000 draws for one pair of points: mean and variance within 5 deviations."""
        x, y = POINTS[0] * 0.8, QUERIES[0]
        signs = InnerProductSigns(ball(), draws=100_000, seed=2)
        terms = (signs.encode(x[None]) * signs.weights(y[None]))[0]
        variance = (x @ x) * (y @ y) + (x @ y) ** 2 - 2 * np.square(x) @ np.square(y)
        assert abs(terms.mean() - x @ y) < 5 * math.sqrt(variance / 100_000)
        assert terms.var() == pytest.approx(variance, rel=0.05)

    def test_more_signs_than_fit_are_refused(self) -> None:
        with pytest.raises(InputError, match="2\\*\\*26 signs"):
            InnerProductSigns(ball(), draws=10**8, seed=1)


@pytest.mark.parametrize(
    "quantizer",
    [
        InnerProductQuantizer(ball(2.0), None),
        InnerProductQuantizer(ball(2.0), 2.5, seed=9),
        InnerProductSigns(ball(2.0), 50, seed=9),
    ],
    ids=["plain", "rotated", "signs"],
)
def test_documents_keep_everything(quantizer: Quantizer) -> None:
    document, arrays = quantizer.to_document()
    assert not arrays
    again = quantizer_from_document(document, {}, InnerProduct(2.0), quantizer.size)
    assert np.array_equal(again.encode(POINTS), quantizer.encode(POINTS))
    assert np.array_equal(again.weights(QUERIES), quantizer.weights(QUERIES))
    for kernel, size in ((Gaussian(1.0), quantizer.size), (InnerProduct(1.0), quantizer.size), (InnerProduct(2.0), 7)):
        with pytest.raises(ReleaseFileError):
            quantizer_from_document(document, {}, kernel, size)
