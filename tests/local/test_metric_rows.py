"""Hash buckets with noise for a radius: devices, simulation and readers agree, and closeness buys accuracy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import sfumato
from sfumato.audit.cases.metric_rows import row_law
from sfumato.errors import InputError
from sfumato.kernels import L1LSH, L2LSH, Angular, Gaussian, Kernel
from sfumato.local import Protocol
from sfumato.local.coins import Coins
from sfumato.local.device import device_for
from sfumato.local.metric_rows import PLACES, MetricRows, place
from sfumato.local.metric_rows_server import MetricRowsServer, NoisyRow
from sfumato.local.organiser import choose, make_request
from sfumato.privacy.bits import SecureBits
from sfumato.public.document import exact
from tests.published.local.chances import fits


def protocol(kernel: Kernel | None = None, radius: float = 0.02, **arguments: Any) -> Protocol:
    given: dict[str, Any] = {"epsilon": 1, "participants": 1000, "bounds": (0, 1), "seed": 5}
    return Protocol(kernel or L2LSH(0.4), dimension=2, mechanism="metric-rows", radius=radius, **{**given, **arguments})


def halves(made: Protocol) -> tuple[MetricRows, MetricRowsServer]:
    return cast(MetricRows, device_for(made.document)), cast(MetricRowsServer, made.server())


@pytest.mark.parametrize("radius", [0.01, 0.1, 0.3])
def test_devices_and_simulation_follow_the_exact_law(radius: float) -> None:
    device, server = halves(protocol(radius=radius, options={"rows_each": 1, "pool": 4, "buckets": 4}))
    point, coins = [0.3, 0.7], Coins.seeded(1)
    for row in range(4):
        law = row_law(device, row, point)
        if law is None:  # randomised response, of the bucket alone
            bucket = device.hash.bucket(row, device.lattice(point))
            law = np.zeros((4, PLACES))
            law[:, 1] = device.other / device.total
            law[bucket, 1] = device.same / device.total
        digits = [device.digit(row, device.lattice(point), coins) for _ in range(1500)]
        X = np.tile(device.lattice(point), (60_000, 1))
        many = server.random_digits(X, np.full(len(X), row), SecureBits.seeded(row))
        assert fits(np.bincount(digits, minlength=12), law.ravel())
        assert fits(np.bincount(many, minlength=12), law.ravel())


@pytest.mark.parametrize("kernel", [L2LSH(0.4), L1LSH([0.4, 2.0])])
@pytest.mark.once
def test_parts_agree_on_devices_and_servers(kernel: Kernel) -> None:
    device, server = halves(protocol(kernel, options={"pool": 64}))
    assert [device.length(row) for row in server.pool.directions.tolist()] == server.parts.lengths.tolist()


@pytest.mark.parametrize("kernel", [L2LSH(0.4), L1LSH([0.4, 2.0])])
def test_points_within_the_radius_are_one_part_apart(kernel: Kernel) -> None:
    """Also where the last part of a cell is longer, and for points on the grid's edges of rounding."""
    device, server = halves(protocol(kernel, radius=0.03, options={"pool": 256, "rows_each": 1}))
    random = np.random.default_rng(1)
    x = random.uniform(0.1, 0.9, (20_000, 2))
    turn = random.uniform(0, 2 * np.pi, len(x))
    away = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    away *= 0.03 / (1 if device.euclidean else np.abs(away).sum(axis=1, keepdims=True))
    rows, everybody = random.integers(0, 256, len(x)), np.arange(len(x))

    def part(points: np.ndarray) -> np.ndarray:
        X = np.rint((points - np.array(device.origin)) * np.array(device.scales)).astype(np.int64)
        projections = server.pool.projections(X, everybody, rows)
        cells, counts = projections >> device.hash.shift, server.parts.counts[rows]
        within = (projections - (cells << device.hash.shift)) // server.parts.lengths[rows]
        return cells * counts + np.minimum(within, counts - 1)

    noisy = server.parts.counts[rows] >= 1
    moved = np.abs(part(x + away) - part(x))[noisy]
    assert moved.max() == 1
    assert moved.mean() > 0.2
    beyond = np.abs(part(x + 1.5 * away) - part(x))[noisy]
    assert beyond.max() == 2  # at t times the radius, t rounded up


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
@pytest.mark.once
def test_what_a_row_says_has_the_mean_of_its_cell(parts: int) -> None:
    """Exactly, for every part: the mean of f over the noise is 1 for a part of the query's cell, and else 0."""
    made = protocol(radius=0.02, epsilon=2, options={"rows_each": 1, "pool": 200, "buckets": 4})
    document = {**made.document, "mechanism": {**made.document["mechanism"], "least": 1}}
    device = cast(MetricRows, device_for(document))
    server = MetricRowsServer(device, L2LSH(0.4))
    row = 0
    server.parts.counts[row] = parts  # before the values, which follow from it
    values = {0: server.parts.own[row], -1: server.parts.before[row], 1: server.parts.after[row]}
    share = float(device.share)
    noise = np.arange(-60, 61)
    chances = np.exp(-share * np.abs(noise)) * math.tanh(share / 2)
    for start in range(-2 * parts, 3 * parts):
        cells, within = np.divmod(start + noise, parts)
        f = [
            values[cell][place(part, parts)] if cell in values else 0.0
            for cell, part in zip(cells, within, strict=True)
        ]
        assert chances @ np.array(f) == pytest.approx(float(start // parts == 0), abs=1e-12)


@pytest.mark.parametrize("kernel", [L2LSH(0.4), L1LSH(0.5)])
@pytest.mark.parametrize("radius", [0.002, 0.05, 0.3])
def test_answers_are_unbiased_with_honest_bars(kernel: Kernel, radius: float) -> None:
    points = np.random.default_rng(2).normal(0.5, 0.15, (2000, 2)).clip(0, 1)
    truth = kernel.exact_density(points, points[:40])
    squares, bars, shifts = [], [], []
    options: dict[str, Any] = {}
    for seed in range(8):
        made = protocol(kernel, radius, seed=seed, participants=len(points), epsilon=2, options=options)
        chosen = made.document["mechanism"]  # a long search, the same for all seeds
        options = {"pool": chosen["groups"] * chosen["rows_each"]}
        options |= {name: chosen[name] for name in ("rows_each", "buckets")}
        answers, errors = made.simulate(points, random_state=seed).query(points[:40], return_std=True)
        squares.append(np.mean((answers - truth) ** 2))
        bars.append(np.mean(errors**2))
        shifts.append(np.mean(answers - truth))
    # Queries share hash functions; over eight independent pools a factor of three is far out.
    assert 1 / 3 < np.mean(bars) / np.mean(squares) < 3
    # No bar is below the deviation of a mean over queries; five and a half of them are one in a million, nearly.
    assert abs(np.mean(shifts)) < 5.5 * math.sqrt(np.mean(bars) / len(shifts))


def test_the_variance_is_the_formula() -> None:
    """One query amid the data, many pools: within six deviations of a variance over 150 runs."""
    random, kernel = np.random.default_rng(3), L2LSH(0.4)
    points = random.uniform(0, 1, (300, 2))
    truth = float(kernel.exact_density(points, [[0.5, 0.5]])[0])
    options = {"density": truth, "rows_each": 1, "buckets": 16, "pool": 300}
    predicted = choose(make_request(kernel, None, 2, 1, 300, 0.03, None, (0, 1), options), "metric-rows")[1].variance
    squares = []
    for seed in range(150):
        release = protocol(kernel, 0.03, seed=seed, participants=300, options=options).simulate(
            points, random_state=seed
        )
        squares.append((float(release.query([[0.5, 0.5]])[0]) - truth) ** 2)
    assert abs(np.mean(squares) / predicted - 1) < 6 * math.sqrt(2 / 150)


@pytest.mark.once
def test_noise_gives_way_to_responses_where_these_say_more() -> None:
    noisy = NoisyRow(1.0, 0.1)
    for other in (0.5, 1.0, 4.0):
        least = noisy.least(0.1, other)
        at, below = (float(noisy.variance(0.1, noisy.growth(np.array([m], float)))[0]) for m in (least, least - 1))
        assert at < other
        assert least == 1 or below >= other
    device, server = halves(protocol(radius=5.0))
    assert (server.parts.counts < device.least).all()  # a radius beyond the bounds: plain LDP


@pytest.mark.once
def test_a_small_radius_is_far_more_accurate_than_none() -> None:
    requests = [make_request(L2LSH(0.4), None, 2, 1, 10**5, radius, None, (0, 1), {}) for radius in (0.002, None)]
    metric, pure = choose(requests[0], "metric-rows")[1], choose(requests[1], "rows")[1]
    assert metric.variance < pure.variance / 10
    assert not metric.pure
    promise = protocol(radius=0.005).document["guarantee"]
    assert promise["within"] == "points within 0.005 of each other"
    assert "within a Euclidean distance of 0.005" in promise["conditions"][-1]
    assert "an l1 distance" in protocol(L1LSH(0.5)).document["guarantee"]["conditions"][-1]
    assert choose(requests[0], "auto")[0] == "metric-rows"
    assert choose(requests[1], "auto")[0] == "rows"  # nobody who stated no radius gets a promise within one


@pytest.mark.once
def test_no_radius_makes_it_worse_than_rows_or_mldp_kde() -> None:
    for radius in (0.001, 0.01, 0.1, 1.0):
        request = make_request(L2LSH(0.4), None, 2, 1, 10**4, radius, 1e-6, (0, 1), {})
        metric, rows = (choose(request, name)[1].variance for name in ("metric-rows", "rows"))
        sketch = choose(request.with_options(grinding=0, rows=512, buckets=2), "mldp-kde")[1].variance
        assert metric < 1.2 * rows  # a report has fewer bits for buckets
        assert metric < sketch


@pytest.mark.once
def test_a_release_lasts(tmp_path: Path) -> None:
    points = np.random.default_rng(3).uniform(0, 1, (300, 2))
    release = protocol().simulate(points, random_state=1)
    release.save(tmp_path / "rows.sfm")
    loaded = sfumato.load(tmp_path / "rows.sfm")
    assert loaded.query(points[:5]) == pytest.approx(release.query(points[:5]))
    weights = release.reader.weights(points[:5])
    assert weights @ release.values / release.reader.terms / 300 == pytest.approx(release.query(points[:5]))


@pytest.mark.once
def test_no_report_moves_an_answer_farther_than_its_influence() -> None:
    for radius in (0.01, 0.1, 0.3):
        _, server = halves(protocol(radius=radius, options={"pool": 64, "rows_each": 1, "buckets": 3}))
        reader = server.quantizer(server.tally())
        weights = reader.weights(np.random.default_rng(1).uniform(0, 1, (50, 2))).reshape(50, reader.terms, -1)
        spans = (weights.max(axis=2) - weights.min(axis=2)) / reader.terms
        assert spans.max() <= server.influence() * (1 + 1e-9)


@pytest.mark.once
def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="radius"):
        Protocol(L2LSH(1.0), 2, 1, 100, mechanism="metric-rows")
    for kernel in (Gaussian(1.0), Angular()):
        with pytest.raises(InputError, match="projections"):
            protocol(kernel)
    document = protocol().document
    for damage in ({"least": 0}, {"radius": exact(-0.1)}, {"rows_each": 6}, {"family": "grid"}):
        with pytest.raises(InputError):
            device_for({**document, "mechanism": {**document["mechanism"], **damage}})


def test_a_share_without_noise_needs_no_correction() -> None:
    assert NoisyRow(5000.0, 0.1).correction < 1e-200
