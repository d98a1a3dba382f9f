"""Feature vectors: both randomisers on devices and servers, unbiased answers, predictions, landmarks."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import sfumato
from sfumato.errors import InputError
from sfumato.kernels import L2LSH, Cauchy, Exponential, Gaussian, InnerProduct, Kernel, Laplacian
from sfumato.local import Protocol, vector_server
from sfumato.local.client import Client
from sfumato.local.coins import Coins
from sfumato.local.device import HEADER_BYTES, device_for
from sfumato.local.organiser import choose, make_request
from sfumato.local.vector import LandmarkFeatures, Vector, into_ball
from sfumato.local.vector_server import _landmark_candidates, codebook, coordinate, mean_of_largest
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.response import OTHER, same_weight
from sfumato.public.document import exact, sealed
from sfumato.public.rows import NORMAL
from tests.published.local.chances import same_law

RANDOMISERS = ("codebook", "coordinate")


@pytest.fixture
def _few_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A codebook takes longer to draw than to use; what is predicted knows its size."""
    monkeypatch.setattr(vector_server, "SERVER_VECTORS", vector_server.SERVER_VECTORS // 32)


def protocol(
    randomiser: str | None = None, dimension: int = 3, epsilon: float = 2, n: int = 1000, seed: int = 5
) -> Any:
    options = {} if randomiser is None else {"randomiser": randomiser}
    return Protocol(InnerProduct(1.0), dimension, epsilon, n, mechanism="vector", seed=seed, options=options)


@pytest.mark.parametrize("randomiser", RANDOMISERS)
def test_clients_and_simulation_have_one_law(randomiser: str) -> None:
    made, point, count = protocol(randomiser, epsilon=1, n=4), [0.5, -0.6, 0.3], 500
    server: Any = made.server()
    client = Client(made.document, coins=Coins.seeded(1))
    reports = np.array([list(client.report(point)[HEADER_BYTES:]) for _ in range(count)], dtype=np.uint8)
    drawn: list[Any] = []
    server._add = lambda index, outputs, tally: drawn.append(index * 256 + outputs)
    assert server.count(reports, server.tally()).all()
    server.simulate(np.tile(point, (50 * count, 1)), SecureBits.seeded(2), server.tally())
    first, second = (np.bincount(each, minlength=1024) for each in drawn)
    assert same_law(first, second)


@pytest.mark.usefixtures("_few_vectors")
@pytest.mark.parametrize("randomiser", RANDOMISERS)
@pytest.mark.parametrize("dimension", [2, 40])
@pytest.mark.parametrize("epsilon", [1, 3])
def test_answers_are_unbiased_and_predicted(randomiser: str, dimension: int, epsilon: int) -> None:
    random = np.random.default_rng(3)
    points = random.normal(size=(600, dimension)) + 1
    points /= 1.3 * np.linalg.norm(points, axis=1, keepdims=True)
    queries = random.normal(size=(60, dimension))
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    truth, squares, bars = (points @ queries.T).mean(axis=0), [], []
    for seed in range(12):
        release = protocol(randomiser, dimension, epsilon, 600, seed).simulate(points, random_state=seed)
        answers, errors = release.query(queries, return_std=True)
        squares.append(np.mean((answers - truth) ** 2))
        bars.append(np.mean(errors**2))
    request = make_request(
        InnerProduct(1.0), None, dimension, epsilon, 600, None, None, None, {"randomiser": randomiser}
    )
    predicted = choose(request, "vector")[1].variance
    # The prediction is for vectors far from the query's direction; nearer ones vary less. Twelve runs of one or five
    # squared normal numbers each exceed three times their mean with probability below 1e-6.
    assert np.mean(squares) < 3 * predicted
    assert np.mean(bars) == pytest.approx(predicted, rel=0.3)


@pytest.mark.parametrize(("blocks", "shared"), [(4, 0.9), (256, 0.1)])
def test_error_bars_count_shared_blocks(blocks: int, shared: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """All people have one f, for which the text's shared term is the most there is, and queries are across f."""
    monkeypatch.setattr(vector_server, "SERVER_VECTORS", blocks * 16)
    monkeypatch.setattr(vector_server, "VECTOR_COUNTS", (16,))
    people = 2000
    point = np.tile(np.eye(8)[0], (people, 1))
    scores = []
    for seed in range(120):
        made = protocol("codebook", 8, 8, people, seed)
        answers, errors = made.simulate(point, random_state=seed).query(np.eye(8)[1:], return_std=True)
        scores.append(answers / errors)
    device = made.server().device
    assert device.blocks == blocks
    added = 1 - people * 4.0**NORMAL.fraction_bits / made.server().noise_variance(people)
    assert added > shared
    # 840 nearly normal scores: their root mean square is within 0.15 of 1 but with probability below 1e-6 (6 s.d.).
    assert np.sqrt(np.mean(np.square(scores))) == pytest.approx(1, abs=0.15)


@pytest.mark.once
def test_the_better_randomiser_is_chosen() -> None:
    for dimension, epsilon, wanted in ((1, 1, "coordinate"), (30, 1, "codebook"), (30, 5, "codebook")):
        assert protocol(None, dimension, epsilon).document["mechanism"]["randomiser"] == wanted
    same = same_weight(cast(Any, 1))
    assert codebook(same, OTHER, 30, 10**5).variance < coordinate(same, OTHER, 30).variance


@pytest.mark.once
def test_the_gain_is_near_that_of_privunit() -> None:
    """At epsilon 1 the best cap of PrivUnit in many dimensions has a gain of 0.399 over all shares p."""
    from scipy.stats import norm

    odds = float(np.e)
    p = np.linspace(0.01, 0.5, 500)
    best = float(((odds - 1) * norm.pdf(norm.isf(p)) / (1 + (odds - 1) * p)).max())
    found = codebook(same_weight(cast(Any, 1)), OTHER, 20, 10**5)
    assert 0.97 * best**-2 < found.variance < 1.05 * best**-2


@pytest.mark.parametrize(("vectors", "likely"), [(1, 1), (8, 3), (64, 1), (16, 16)])
def test_means_of_the_largest(vectors: int, likely: int) -> None:
    drawn = np.sort(np.abs(np.random.default_rng(4).normal(size=(40_000, vectors))), axis=1)[:, -likely:].mean(axis=1)
    error = float(drawn.std()) / 200
    assert abs(mean_of_largest(vectors, likely) - drawn.mean()) < 5.5 * error


@pytest.mark.once
def test_devices_and_servers_see_the_same_likely_outputs() -> None:
    made = protocol("codebook", n=30)
    device, server = cast(Vector, device_for(made.document)), cast(Any, made.server())
    points = np.random.default_rng(5).uniform(-1, 1, (40, 3))
    F = server.integers(points)
    assert F.tolist() == [device.features.integers(point) for point in points.tolist()]
    from sfumato.local.vector_server import _likely_outputs

    blocks = np.arange(40) % device.blocks
    found = np.empty((40, device.likely), dtype=np.int64)
    _likely_outputs(server.vectors, F, blocks, device.vectors, found)
    assert found.tolist() == [device.likely_outputs(int(b), f) for b, f in zip(blocks, F.tolist(), strict=True)]


@pytest.mark.usefixtures("_few_vectors")
@pytest.mark.parametrize("kernel", [Gaussian(0.5), Laplacian(0.9), Exponential(0.7), Cauchy(0.5), Gaussian([0.5, 0.8])])
def test_landmark_features_are_those_of_the_kernel(kernel: Kernel) -> None:
    random = np.random.default_rng(6)
    points, squares, bars = random.uniform(0, 1, (2000, 2)), [], []
    truth = kernel.exact_density(points, points[:40])
    for seed in range(6):
        # Others each time: what they miss is the same in all releases. Twelve of them know too little of how much that
        # is, and a set in many has bars that are several times too short.
        landmarks = random.uniform(0, 1, (40, 2))
        options = {"landmarks": landmarks}
        made = Protocol(kernel, 2, 6, 2000, mechanism="vector", bounds=(0, 1), seed=seed, options=options)
        answers, errors = made.simulate(points, random_state=seed).query(points[:40], return_std=True)
        squares.append(np.mean((answers - truth) ** 2))
        bars.append(np.mean(errors**2))
    features = cast(LandmarkFeatures, cast(Vector, device_for(made.document)).features)
    values = [[features.similarity(x, z) for z in features.landmarks] for x in points[:5].tolist()]
    assert np.array(values) == pytest.approx(kernel.value(points[:5], landmarks))
    # Answers of one release go together, at worst as one normal number; six squares exceed 39 with probability 1e-6.
    assert np.mean(squares) < 39 / 6 * np.mean(bars)


@pytest.mark.once
def test_long_vectors_are_scaled_down() -> None:
    assert into_ball([30.0, 40.0]) == into_ball([0.6, 0.8])
    assert sum(f * f for f in into_ball([5.0] * 100)) <= 1.01 * (1 << 30)


@pytest.mark.once
def test_a_release_lasts(tmp_path: Path) -> None:
    points = np.random.default_rng(7).uniform(0, 1, (200, 2))
    made = Protocol(
        Gaussian(0.5), 2, 2, 200, mechanism="vector", bounds=(0, 1), seed=1, options={"landmarks": points[:20]}
    )
    release = made.simulate(points, random_state=1)
    release.save(tmp_path / "vector.sfm")
    assert sfumato.load(tmp_path / "vector.sfm").query(points[:5]) == pytest.approx(release.query(points[:5]))


@pytest.mark.once
def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="landmarks"):
        Protocol(Gaussian(1.0), 2, 1, 100, mechanism="vector", bounds=(0, 1))
    with pytest.raises(InputError, match="do not take"):
        Protocol(L2LSH(1.0), 2, 1, 100, mechanism="vector", bounds=(0, 1), options={"landmarks": np.zeros((9, 2))})
    with pytest.raises(InputError, match="rows or more"):
        Protocol(Gaussian(1.0), 2, 1, 100, mechanism="vector", bounds=(0, 1), options={"landmarks": np.zeros((2, 2))})
    with pytest.raises(InputError, match="randomiser"):
        protocol("guess")


@pytest.mark.parametrize("randomiser", RANDOMISERS)
@pytest.mark.once
def test_damaged_payloads_change_nothing(randomiser: str) -> None:
    server: Any = protocol(randomiser, n=10).server()
    tally = server.tally()
    assert not server.count(np.full((3, 3), 255, dtype=np.uint8), tally).any()
    assert not tally.integers().any()


@pytest.mark.once
def test_more_features_than_an_index_holds_need_the_codebook() -> None:
    arguments = {"dimension": 70_000, "epsilon": 1, "participants": 1000, "mechanism": "vector"}
    with pytest.raises(InputError, match="at most 65536 features; use the codebook"):
        Protocol(InnerProduct(), **arguments, options={"randomiser": "coordinate"})


def test_the_order_of_landmarks_says_nothing() -> None:
    """Parts are held out by their places, and of kinds that are listed in turn every fifth landmark is one kind."""
    centres = np.random.default_rng(9).uniform(0.1, 0.9, (5, 8))
    listed = np.tile(centres, (60, 1)) + 0.01 * np.random.default_rng(10).normal(size=(300, 8))

    def found(landmarks: np.ndarray) -> list[float]:
        asked = Request(
            **{"kernel": Gaussian(0.3), "dimension": 8, "epsilon": Fraction(2), "n": 1000, "trust": "local"},
            **{"bounds": (0, 1), "options": {"landmarks": landmarks}},
        )
        return [strength for _, _, strength, _ in _landmark_candidates(asked)]

    # Of 60 points of five kinds, held out at random, mean squares deviate by 0.03; by their places they would be 0.
    assert found(listed) == pytest.approx(found(listed[np.argsort(np.arange(300) % 5, kind="stable")]), abs=0.2)


def altered(made: Any, **parameters: Any) -> Protocol:
    mechanism = {**made.document["mechanism"], **exact(parameters)}
    return Protocol.from_document(sealed({**made.document, "mechanism": mechanism}))


def test_codebooks_that_no_collection_draws_are_refused() -> None:
    """A small document would take seconds and gigabytes."""
    made = protocol("codebook", n=2**16)
    assert made.server()
    with pytest.raises(InputError, match="8388608 vectors of 4 numbers, and a collection draws 524288 at most"):
        altered(made, blocks=2**16, vectors=128, likely=2).server()
