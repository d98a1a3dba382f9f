"""Phases with noise for a radius: devices, simulation and readers agree, and closeness buys accuracy."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import sfumato
from sfumato.audit.cases.local_published import phase_laws
from sfumato.errors import InputError
from sfumato.kernels import L2LSH, Cauchy, Gaussian, Kernel, Laplacian
from sfumato.local import Protocol
from sfumato.local.coins import Coins
from sfumato.local.device import device_for
from sfumato.local.metric_phases_server import MetricPhasesServer, largest_scale, noise_resultant
from sfumato.local.organiser import choose, make_request
from sfumato.local.phases_server import ReportedPhases
from sfumato.local.pooled import MetricPhases, coarse
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.public.document import exact
from sfumato.quantizers.answer import Known, answer_from_terms
from tests.published.local.chances import fits


def protocol(kernel: Kernel | None = None, radius: float = 0.02, **arguments: Any) -> Protocol:
    given: dict[str, Any] = {"epsilon": 1, "participants": 1000, "bounds": (0, 1), "seed": 5}
    return Protocol(
        kernel or Gaussian(0.4), dimension=2, mechanism="metric-phases", radius=radius, **{**given, **arguments}
    )


def test_devices_and_simulation_follow_the_exact_law() -> None:
    made = protocol(radius=0.1, options={"rows_each": 1, "pool": 4})
    device, server = cast(MetricPhases, device_for(made.document)), cast(MetricPhasesServer, made.server())
    point, coins = [0.3, 0.7], Coins.seeded(1)
    noisy = 0
    for row in range(4):
        law = phase_laws(device, row, [point])
        digits = [device.digit(row, device.lattice(point), coins) for _ in range(1500)]
        X = np.tile(device.lattice(point), (60_000, 1))
        many = server.random_digits(X, np.full(len(X), row), SecureBits.seeded(row))
        if law is not None:
            noisy += 1
            assert fits(np.bincount(digits, minlength=256), law[0])
            assert fits(np.bincount(many, minlength=256), law[0])
    assert noisy >= 2


@pytest.mark.once
def test_scales_agree_on_devices_and_servers() -> None:
    made = protocol(options={"pool": 64})
    device, server = cast(MetricPhases, device_for(made.document)), cast(MetricPhasesServer, made.server())
    frequencies = server.pool._tables[0].tolist()
    assert [device.scale(row) for row in frequencies] == server.resultants.scales.tolist()


@pytest.mark.once
def test_coarse_scales_are_rounded_up_a_little() -> None:
    for value in (1.0, 7.3, 63.0, 64.5, 1e9 + 1, 3.7e12):
        assert value <= coarse(value) <= value * (1 + 2**-5) + 1


@pytest.mark.parametrize("scale", [1, 20, 3000])
@pytest.mark.once
def test_resultants_are_mean_cosines(scale: int) -> None:
    law = DiscreteLaplace(Fraction(1, scale))
    z = np.arange(-60 * scale, 60 * scale + 1)
    chances = np.exp(-float(law.rate) * np.abs(z)) * np.tanh(float(law.rate) / 2)
    assert noise_resultant(np.array([scale]), 12)[0] == pytest.approx(float(chances @ np.cos(2 * np.pi * z / 4096)))


@pytest.mark.once
def test_the_arc_takes_over_where_it_says_more() -> None:
    largest = largest_scale(0.5, 30)
    around = noise_resultant(np.array([largest - 2, largest + 2]), 30)
    assert around[0] > 0.5 > around[1]
    device = cast(MetricPhases, device_for(protocol(radius=5.0).document))
    server = cast(MetricPhasesServer, protocol(radius=5.0).server())
    assert (server.resultants.scales > device.largest).mean() > 0.9  # a radius beyond the bounds: plain LDP


@pytest.mark.parametrize("kernel", [Gaussian(0.4), Laplacian(0.5), Cauchy(0.5)])
@pytest.mark.parametrize("radius", [0.01, 0.1])
def test_answers_are_unbiased_with_honest_bars(kernel: Kernel, radius: float) -> None:
    points = np.random.default_rng(2).normal(0.5, 0.15, (2000, 2)).clip(0, 1)
    truth = kernel.exact_density(points, points[:40])
    squares, bars = [], []
    for seed in range(8):
        release = protocol(kernel, radius, seed=seed, participants=2000).simulate(points, random_state=seed)
        answers, errors = release.query(points[:40], return_std=True)
        squares.append(np.mean((answers - truth) ** 2))
        bars.append(np.mean(errors**2))
    # Queries share frequencies; over eight independent pools a factor of four is far out.
    assert 1 / 4 < np.mean(bars) / np.mean(squares) < 4


@pytest.mark.once
def test_a_small_radius_is_far_more_accurate_than_none() -> None:
    requests = [make_request(Gaussian(0.4), None, 2, 1, 10**5, radius, None, (0, 1), {}) for radius in (0.005, None)]
    metric, pure = choose(requests[0], "metric-phases")[1], choose(requests[1], "phases")[1]
    assert metric.variance < pure.variance / 10
    assert not metric.pure
    promise = protocol(radius=0.005).document["guarantee"]
    assert promise["within"] == "points within 0.005 of each other"
    assert "within a Euclidean distance of 0.005" in promise["conditions"][-1]
    assert choose(requests[0], "auto")[0] == "metric-phases"


@pytest.mark.parametrize("mechanism", ["phases", "metric-phases"])
@pytest.mark.once
def test_three_sums_say_what_all_terms_say(mechanism: str) -> None:
    points, radius = np.random.default_rng(4).uniform(0, 1, (300, 2)), None if mechanism == "phases" else 0.02
    made = Protocol(
        Gaussian(0.4), dimension=2, mechanism=mechanism, radius=radius, epsilon=1, participants=300, bounds=(0, 1)
    )
    reader, queries = (release := made.simulate(points)).reader, np.vstack([points[:20], [[-3.0, 1e6]]])
    assert isinstance(reader, ReportedPhases)
    sums = release.values.astype(np.float64)
    expected = answer_from_terms(reader.term_values(queries, sums))
    found = reader.read(queries, sums, Known(noise_variance=0.0, count=300.0))
    np.testing.assert_allclose(found.total, expected.total, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.standard_error, expected.standard_error, rtol=1e-9)


@pytest.mark.once
def test_a_release_lasts(tmp_path: Path) -> None:
    points = np.random.default_rng(3).uniform(0, 1, (300, 2))
    release = protocol().simulate(points, random_state=1)
    release.save(tmp_path / "phases.sfm")
    loaded = sfumato.load(tmp_path / "phases.sfm")
    assert loaded.query(points[:5]) == pytest.approx(release.query(points[:5]))
    weights = release.reader.weights(points[:5])
    assert weights @ release.values / release.reader.terms / 300 == pytest.approx(release.query(points[:5]))


@pytest.mark.once
def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="radius"):
        Protocol(Gaussian(1.0), 2, 1, 100, mechanism="metric-phases")
    with pytest.raises(InputError, match="frequencies"):
        protocol(L2LSH(1.0))
    document = protocol().document
    for damage in ({"largest": -1}, {"radius": exact(-0.1)}):
        with pytest.raises(InputError):
            device_for({**document, "mechanism": {**document["mechanism"], **damage}})


def test_people_whose_rows_are_all_arcs_are_simulated() -> None:
    made = protocol(radius=0.5, epsilon=0.1)
    server = cast(MetricPhasesServer, made.server())
    arcs = np.flatnonzero(server.resultants.scales > server.device.largest)
    assert len(server.random_digits(np.zeros((len(arcs), 2), dtype=np.int64), arcs, SecureBits.seeded(1))) == len(arcs)
