"""A Fourier series as bits: which modes are sent and how often, few messages, and errors as predicted."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.kernels import Exponential, Gaussian, Kernel, Laplacian
from sfumato.methods.registry import SHUFFLED
from sfumato.methods.request import Request
from sfumato.quantizers import LatticeQuantizer
from sfumato.shuffled import Protocol
from sfumato.shuffled.methods import allotted, features_from, named, request_for
from tests.shuffled.collections_for_tests import KEY

RNG = np.random.default_rng(8)
PEOPLE = 20_000
POINTS = np.concatenate([RNG.normal(2, 0.6, size=(PEOPLE // 2, 2)), RNG.normal(4, 0.7, size=(PEOPLE // 2, 2))])
POINTS = POINTS.clip(0, 6)
QUERIES = np.concatenate([POINTS[:60], RNG.uniform(0, 6, size=(60, 2))])
TRUTH = Gaussian(1.0).exact_density(POINTS, QUERIES)


def protocol(**changes: Any) -> Protocol:
    known: dict[str, Any] = {"bandwidth": 1.0, "dimension": 2, "epsilon": 1, "delta": 1e-6, "participants": PEOPLE}
    return Protocol("gaussian", **{**known, "bounds": (0, 6), "seed": 1, **changes})


def asked(kernel: Kernel, dimension: int = 2, n: int = PEOPLE, bounds: Any = (0, 6)) -> Request:
    return request_for(kernel, dimension, 1, epsilon=Fraction(1), delta=1e-6, n=n, bounds=bounds)


@pytest.mark.parametrize("mean", [1e-4, 0.01, 0.2])
@pytest.mark.once
def test_pairs_are_shared_out_in_the_best_way(mean: float) -> None:
    """Against all ways to share six pairs out among four modes."""
    squares = np.square(np.array([0.3, 0.12, 0.1, 0.02]))

    def error(repeats: tuple[int, ...]) -> float:
        kept = [4 * mean * c / k if k else 2 * c for c, k in zip(squares, repeats, strict=True)]
        return float(sum(kept))

    best = min((each for each in product(range(7), repeat=4) if sum(each) == 6), key=error)
    found = tuple(allotted(np.sqrt(squares), 6, mean).tolist())
    assert error(found) == pytest.approx(error(best))


@pytest.mark.once
def test_repeated_modes_share_their_coefficient() -> None:
    """Without noise three pairs of one mode answer as one does, and miss as much."""
    made = protocol(instances=256).quantizer
    assert isinstance(made, LatticeQuantizer)
    first, where = np.unique(made.modes, axis=0, return_index=True)
    assert len(first) < len(made.modes)
    once = LatticeQuantizer(made.kernel, made.domain, made.periods, made.modes[where], made.amplitudes[where])
    answers = [each.weights(QUERIES) @ each.encode(POINTS[:50]).sum(axis=0) for each in (made, once)]
    np.testing.assert_allclose(*answers, rtol=1e-9)
    assert made.typical_bias == pytest.approx(once.typical_bias, rel=0.01)  # but for the table, which has more entries
    assert made.largest_bias == pytest.approx(once.largest_bias, rel=1e-9)


def test_error_is_as_predicted_with_few_messages() -> None:
    """Sixteen collections: the mean of their squared errors deviates by 15 %; limits are four of these away or more."""
    made = protocol()
    assert made.document["mechanism"]["quantizer"]["quantizer"] == "lattice"
    plan = made.plan(float(TRUTH.mean()))
    assert plan.messages == plan.instances <= 200
    squares, bars = [], []
    for seed in range(16):
        answers, errors = made.simulate(POINTS, random_state=seed).query(QUERIES, return_std=True)
        squares.append(np.mean(np.square(answers - TRUTH)))
        bars.append(np.mean(np.square(errors)))
    assert 0.4 < np.mean(squares) / plan.accuracy.rmse**2 < 1.75
    assert 0.4 < np.mean(squares) / np.mean(bars) < 1.75
    pairs = protocol(quantizer="fourier").plan(float(TRUTH.mean()))
    assert plan.accuracy.rmse < pairs.accuracy.rmse / 4 and plan.messages < pairs.messages / 5


@pytest.mark.once
def test_messages_over_the_wire() -> None:
    """A client sends a message for each coordinate, and the integers are those of the document."""
    made = protocol(participants=60, delta=1e-4, instances=12, quantizer="lattice", key=KEY)
    again = Protocol.from_document(made.document)
    assert np.array_equal(again.quantizer.encode(POINTS[:20]), made.quantizer.encode(POINTS[:20]))
    assert len(again.client().messages([1.0, 2.0])) == 12


@pytest.mark.once
def test_auto_compares_a_series_with_random_pairs() -> None:
    assert named("auto", asked(Gaussian(1.0))).name == "lattice"
    assert named("auto", asked(Gaussian(1.0), bounds=None)).name == "fourier"
    assert named("auto", asked(Gaussian(1.0), dimension=4)).name == "fourier"
    assert named("auto", asked(Laplacian(0.05), dimension=3)).name == "fourier"


@pytest.mark.once
def test_more_messages_where_few_lose_much() -> None:
    sizes = [SHUFFLED.build("lattice", asked(Gaussian(1.0), n=n)).size for n in (1000, 10**5, 10**8)]
    assert sizes[0] <= 192 and sizes[1] <= 192 < sizes[2]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (asked(Exponential(1.0)), "product over the columns"),
        (asked(Gaussian(1.0), bounds=None), "needs public bounds"),
        (asked(Gaussian(1.0), dimension=4), "up to 3 columns"),
        (asked(Gaussian(1e-5)), "tighter bounds"),
    ],
)
@pytest.mark.once
def test_refusals(request_: Request, message: str) -> None:
    assert message in str(SHUFFLED["lattice"].refuse(request_))


@pytest.mark.once
def test_queries_beyond_the_bounds_are_refused() -> None:
    release = protocol(instances=32, quantizer="lattice").simulate(POINTS, random_state=1)
    with pytest.raises(InputError, match="outside the bounds"):
        release.query([[7.0, 1.0]])


@pytest.mark.once
def test_a_count_among_the_coordinates_is_refused() -> None:
    made = protocol(instances=32, quantizer="lattice")
    description, arrays = made.quantizer.to_document()
    with pytest.raises(InputError, match="no coordinate"):
        features_from(made.document, {**description, "counted": 4096}, arrays, made.features.instances + 1)


@pytest.mark.once
def test_every_coordinate_has_one_range() -> None:
    """The guarantee counts instances alone; what rounding needs is that no integer leaves the range."""
    features = protocol(instances=64, quantizer="lattice").features
    edge = np.array(list(product((0.0, 3.0, 6.0, -1e300, 1e300, math.nan), repeat=2)))
    encoded = features.quantizer.encode(features.points(np.vstack([edge, POINTS[:2000]])))
    assert np.abs(encoded).max() < features.largest and len(encoded) == len(edge) + 2000
