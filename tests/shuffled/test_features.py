"""Features as bits: bounds, rounding, and the predicted error of every quantizer against the measured one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import sfumato
from sfumato.errors import InputError
from sfumato.kernels import L2LSH, Gaussian, InnerProduct, Kernel
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.shuffled import Protocol
from sfumato.shuffled.accuracy import accuracy, published_error
from sfumato.shuffled.bitsum import rr
from sfumato.shuffled.features import BitFeatures, RotatedLandmarks
from sfumato.shuffled.methods import make, request_for
from tests.shuffled.collections_for_tests import points

Points = NDArray[np.float64]
PUBLIC = points(60, 4, seed=9)
BOUNDS = {"lattice": (-4, 4)}


def sphere(count: int, dimension: int, seed: int = 0) -> Points:
    X = points(count, dimension, seed) + np.eye(dimension)[0]
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def evenly(count: int, seed: int) -> Points:
    return np.random.default_rng(seed).uniform(-4, 4, size=(count, 2))


# kernel, quantizer, instances, points, queries; few different numbers of instances, each of which is calibrated for
CASES: dict[str, tuple[Kernel, str, int, Points, Points]] = {
    "fourier": (Gaussian(0.7), "fourier", 96, points(600, 4), points(30, 4, 1)),
    # Evenly spread: rounding has less error near the middle of the box, and the prediction is for all of it.
    "lattice": (Gaussian(2.0), "lattice", 96, evenly(600, seed=0), evenly(30, seed=1)),
    "inner-product": (InnerProduct(), "inner-product", 32, sphere(600, 32), sphere(30, 32, 1)),
    "signs": (InnerProduct(), "inner-product-signs", 96, sphere(600, 32), sphere(30, 32, 1)),
    "landmarks": (Gaussian(2.0), "landmarks", 32, points(600, 4), points(30, 4, 1)),
    "hashing": (L2LSH(1.0), "hashing", 256, points(600, 4), points(30, 4, 1)),
}


def _request(name: str, seed: int = 3) -> Request:
    kernel, quantizer, _, X, _ = CASES[name]
    landmarks = PUBLIC if quantizer == "landmarks" else None
    return request_for(kernel, X.shape[1], seed, delta=1e-4, n=600, bounds=BOUNDS.get(name), landmarks=landmarks)


def _binomial(secure: SecureBits, trials: NDArray[np.int64], chance: Fraction) -> NDArray[np.int64]:
    seed = int(secure.below(2**62, 1)[0])
    return np.random.default_rng(seed).binomial(trials, float(chance))


@pytest.fixture(scope="module")
def _many_collections() -> Iterator[None]:
    """Coins by the law that `bitsum.test_accuracy` and `test_messages` hold the exact ones to, in less time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rr, "binomial", _binomial)
        yield


def errors_of(name: str, bitsum: str, epsilon: float, runs: int) -> tuple[Points, Protocol, float]:
    """Mean square errors over the queries, for each draw of features and coins; a protocol; the mean kernel value."""
    kernel, quantizer, instances, X, Y = CASES[name]
    exact, squares = kernel.exact_density(X, Y), []
    protocol = Protocol(
        kernel,
        dimension=X.shape[1],
        epsilon=epsilon,
        delta=1e-4,
        participants=len(X),
        bitsum=bitsum,
        instances=instances,
        quantizer=quantizer,
        landmarks=PUBLIC if quantizer == "landmarks" else None,
        bounds=BOUNDS.get(name),
        seed=0,
    )
    for seed in range(runs):
        drawn = copy(protocol)  # whose noise is the same for all features
        drawn.features = BitFeatures(make(quantizer, _request(name, seed), instances))
        release = drawn.simulate(X, random_state=seed)
        squares.append(np.mean((release.query(Y) - exact) ** 2))
    return np.array(squares), protocol, float(kernel.exact_density(X, X).mean())


class TestPrediction:
    @pytest.mark.usefixtures("_many_collections")
    @pytest.mark.parametrize("name", CASES)
    @pytest.mark.parametrize(("bitsum", "epsilon"), [("rr", 1), ("rr", 8), ("3nb", 2)])
    def test_predicted_is_measured(self, name: str, bitsum: str, epsilon: float) -> None:
        """Within 20 %, and five deviations of what the draws of features and coins measure (false alarms below 1e-6).

        Predictions were .95 to 1.14 of the errors of 200 draws. Answers of one draw go together: the mean square error
        of one has a deviation of .36 to .85 of its mean, and of 1 with a long tail for the few pairs of "fourier".
        """
        squares, protocol, density = errors_of(name, bitsum, epsilon, 200 if name == "fourier" else 100)
        plan, measured = protocol.plan(density).accuracy, math.sqrt(squares.mean())
        chance = 5 * squares.std(ddof=1) / math.sqrt(len(squares)) / (2 * squares.mean())
        assert chance < 0.4
        assert plan.rmse == pytest.approx(measured, rel=0.2 + chance)
        assert measured < plan.published

    @pytest.mark.once
    def test_published_formula(self) -> None:
        """Theorem 3.2 with R = sqrt(2), S = 1, b = 0: sqrt(64 (1 + (E/n)^2) / I)."""
        bound = published_error(radius=math.sqrt(2), sparsity=1, draws=100, rmse=50, n=100)
        assert bound == pytest.approx(math.sqrt(64 * 1.25 / 100))
        assert published_error(radius=1, sparsity=1, draws=10**9, rmse=0, n=1, bias=0.1) == pytest.approx(0.2, rel=1e-6)

    @pytest.mark.once
    def test_more_pairs_leave_the_noise_alone(self) -> None:
        """The noise of an answer does not grow with the number of pairs; rounding and approximation fall."""
        plans = [
            Protocol(
                "gaussian", bandwidth=1.0, dimension=2, epsilon=1, delta=1e-4, participants=600, instances=size, seed=1
            ).plan()
            for size in (64, 256)
        ]
        assert plans[0].accuracy.noise == pytest.approx(plans[1].accuracy.noise, rel=0.1)
        assert plans[0].accuracy.approximation == pytest.approx(4 * plans[1].accuracy.approximation)
        assert plans[0].accuracy.rounding == pytest.approx(4 * plans[1].accuracy.rounding)

    @pytest.mark.once
    def test_plan_document(self) -> None:
        protocol = Protocol("inner-product", dimension=3, epsilon=9, participants=50, bitsum="pure", seed=1)
        document = protocol.plan().to_document()
        assert document["central_rmse"] is None and document["messages"] > 100 and document["rmse"] > 0
        assert "of a mean similarity, for P = 0.02" in str(protocol.plan()) and "curator" not in str(protocol.plan())
        with pytest.raises(InputError, match="density must be"):
            protocol.plan(density=2)


class TestBits:
    @pytest.mark.parametrize("name", CASES)
    @pytest.mark.once
    def test_coordinates_stay_in_their_range(self, name: str) -> None:
        _, quantizer, instances, X, _ = CASES[name]
        request = _request(name)
        features = BitFeatures(make(quantizer, request, instances))
        wild = np.vstack([X[:20], 1e3 * X[:20], np.full((1, X.shape[1]), np.nan), np.zeros((1, X.shape[1]))])
        encoded = features.quantizer.encode(features.points(wild))
        assert len(encoded) == 42  # nobody is left out: that would show
        assert np.abs(encoded).max() <= features.largest
        if features.binary:
            assert (encoded.reshape(42, -1, features.quantizer.width).sum(axis=2) == 1).all()
            assert np.abs(encoded[0] - encoded[1]).sum() <= features.changed
        else:
            assert features.changed == features.instances == encoded.shape[1]

    @pytest.mark.parametrize("name", ["fourier", "lattice", "inner-product", "landmarks"])
    def test_rounding_is_unbiased(self, name: str) -> None:
        _, quantizer, instances, X, _ = CASES[name]
        request = _request(name)
        features = BitFeatures(make(quantizer, request, instances))
        one = features.points(np.tile(X[:1], (4000, 1)))
        bits = sum(block.sum(axis=0) for block in features.blocks(one, SecureBits.seeded(2)))
        chance = (features.quantizer.encode(one[:1])[0] / features.largest + 1) / 2
        # Exact tails, since a coordinate near the end of its range has a bit once in many runs.
        tails = np.minimum(stats.binom.cdf(bits, 4000, chance), stats.binom.sf(bits - 1, 4000, chance))
        assert tails.min() > 1e-9

    def test_few_coordinates_are_clipped(self) -> None:
        kernel, _, _, X, _ = CASES["inner-product"]
        features = BitFeatures(make("inner-product", request_for(kernel, 32, 3), 32))
        encoded = features.quantizer.encode(X)
        assert 0.001 < np.mean(np.abs(encoded) == features.largest) < 0.03


@pytest.fixture(scope="module")
def pair() -> tuple[Any, RotatedLandmarks]:
    request = request_for(Gaussian(2.0), 4, 3, landmarks=PUBLIC)
    made = make("landmarks", request, 17)
    assert isinstance(made, RotatedLandmarks)
    return made.inner, made


class TestRotatedLandmarks:
    @pytest.mark.once
    def test_rotating_back_is_exact_but_for_clipping(self, pair: tuple[Any, RotatedLandmarks]) -> None:
        inner, rotated = pair
        wide = RotatedLandmarks(inner, rotated.seed, clip=20.0)
        X, Y = points(50, 4), points(9, 4, 1)
        plain = inner.weigh(Y, inner.encode(X).sum(axis=0).astype(float))
        turned = wide.weigh(Y, wide.encode(X).sum(axis=0).astype(float))
        assert np.allclose(plain.total, turned.total, atol=1e-3)
        assert np.allclose(wide.weights(Y) @ wide.encode(X).sum(axis=0), turned.total, atol=1e-6)

    @pytest.mark.once
    def test_saved_and_read(self, pair: tuple[Any, RotatedLandmarks], tmp_path: Any) -> None:
        protocol = Protocol(
            Gaussian(2.0), dimension=4, epsilon=2, delta=1e-3, participants=50, landmarks=PUBLIC, instances=17, seed=3
        )
        release = protocol.simulate(points(50, 4), random_state=1)
        release.save(tmp_path / "release.sfm")
        again = sfumato.load(tmp_path / "release.sfm")
        answers = [each.query(points(5, 4), return_std=True) for each in (release, again)]
        assert np.array_equal(answers[0], answers[1])
        assert accuracy(again.reader, 1.0, 50).rmse > 0

    @pytest.mark.parametrize("clip", [0.0, math.inf, -1.0])
    @pytest.mark.once
    def test_clip(self, pair: tuple[Any, RotatedLandmarks], clip: float) -> None:
        with pytest.raises(InputError, match="clip must be"):
            RotatedLandmarks(pair[0], 1, clip)
