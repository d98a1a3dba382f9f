"""Baselines that report points: clients and simulations agree, payloads are checked, releases last."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato.errors import InputError
from sfumato.kernels import Angular, Gaussian, InnerProduct, Kernel
from sfumato.local import Protocol
from sfumato.local.client import Client
from sfumato.local.coins import Coins
from sfumato.local.device import HEADER_BYTES
from sfumato.privacy.bits import SecureBits
from sfumato.published.local import point
from sfumato.published.local.point import Signs, piecewise_scale, piecewise_window
from tests.published.local.chances import same_law

NAMES = ("dm", "pm", "sw", "gi")


def protocol(name: str, epsilon: float = 2.0, **options: Any) -> Protocol:
    radius = 0.2 if name == "gi" else None
    return Protocol(
        Gaussian(0.5), 2, epsilon, 1000, mechanism=name, radius=radius, bounds=[(0, 1), (-2, 2)], seed=3, **options
    )


def payloads(made: Protocol, points: Any, seed: int) -> Any:
    client = Client(made.document, coins=Coins.seeded(seed))
    return np.array([list(client.report(point)[HEADER_BYTES:]) for point in points], dtype=np.uint8)


@pytest.mark.parametrize("name", NAMES)
def test_clients_and_simulation_have_one_law(name: str) -> None:
    made, point, count = protocol(name), [0.2, 1.5], 1500
    server: Any = made.server()
    reported, simulated = server.tally(), server.tally()
    assert server.count(payloads(made, [point] * count, 1), reported).all()
    server.simulate(np.tile(point, (20 * count, 1)), SecureBits.seeded(2), simulated)
    for column in range(2):
        first, second = reported.rows()[:, column], simulated.rows()[:, column]
        edges = np.unique(np.quantile(second, np.linspace(0, 1, 12)))
        edges = np.append(edges, edges[-1] + 1.0)
        assert same_law(np.histogram(first, edges)[0], np.histogram(second, edges)[0])
        assert ((first >= second.min() - 500) & (first <= second.max() + 500)).all()


@pytest.mark.parametrize("columns", [1, 2, 5, 8])
def test_signs_that_agree_in_more_than_half_of_the_columns(columns: int) -> None:
    agreements = [columns - report.bit_count() for report in range(1 << columns)]
    assert Signs(Fraction(1), columns).agreeing == sum(2 * each > columns for each in agreements)


@pytest.mark.parametrize("name", ["dm", "pm"])
def test_unbiased_points_have_the_right_mean(name: str) -> None:
    made, point = protocol(name), np.array([0.2, 1.5])
    server: Any = made.server()
    tally = server.tally()
    server.simulate(np.tile(point, (200_000, 1)), SecureBits.seeded(3), tally)
    points = server.quantizer(tally).points(tally.integers().astype(float))
    error = points.std(axis=0) / np.sqrt(len(points))
    assert (np.abs(points.mean(axis=0) - point) < 5.5 * error).all()


@pytest.mark.parametrize("name", NAMES)
def test_damaged_payloads_are_refused_and_change_nothing(name: str) -> None:
    made = protocol(name)
    server: Any = made.server()
    random, tally = np.random.default_rng(4), server.tally()
    noise = random.integers(0, 256, (2000, server.device.payload_bytes), dtype=np.uint8)
    good = server.count(noise, tally)
    assert len(tally.rows()) == good.sum()
    bad = bytes([0, 0, 0, 128] * 2) if name == "gi" else bytes([255]) * server.device.payload_bytes
    assert not server.count(np.frombuffer(bad, dtype=np.uint8)[None, :], tally)[0]
    assert len(tally.rows()) == good.sum()


@pytest.mark.parametrize("name", NAMES)
def test_a_release_answers_and_lasts(name: str, tmp_path: Path) -> None:
    points = np.random.default_rng(5).uniform([0.3, -0.5], [0.5, 0.5], (800, 2))
    made = protocol(name, epsilon=8.0)
    release = made.simulate(points, random_state=1)
    answers, errors = release.query(points[:5], return_std=True)
    assert ((answers > 0) & (answers < 1)).all()
    assert (errors > 0).all()
    release.save(tmp_path / "reported.sfm")
    assert sfumato.load(tmp_path / "reported.sfm").query(points[:5]) == pytest.approx(answers)
    assert release.reader.to_document()[0]["blur"] > 0


def test_less_noise_blurs_less() -> None:
    blurs = [protocol("gi", epsilon).document["mechanism"]["blur"]["decimal"] for epsilon in (1.0, 10.0)]
    assert float(blurs[1]) < float(blurs[0])


def test_the_radius_is_part_of_the_promise() -> None:
    conditions = protocol("gi").document["guarantee"]["conditions"]
    assert any("within a Euclidean distance of 0.2" in condition for condition in conditions)
    assert not any("distance" in condition for condition in protocol("sw").document["guarantee"]["conditions"])


@pytest.mark.parametrize("name", NAMES)
def test_what_is_missing_is_said(name: str) -> None:
    with pytest.raises(InputError, match="bounds"):
        Protocol(Gaussian(1.0), 2, 1, 10, mechanism=name, radius=0.1)
    with pytest.raises(InputError, match="inner products"):
        Protocol(InnerProduct(), 2, 1, 10, mechanism=name, radius=0.1, bounds=(0, 1))


@pytest.mark.parametrize(("name", "kernel"), [("gi", Gaussian(1.0)), ("fkm-ll", Angular(1))])
def test_noise_in_more_columns_than_devices_draw_is_refused(
    name: str, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report in 3,000 columns took up to 15 seconds of a device, and documents may have 16,384."""
    asked: dict[str, Any] = {"mechanism": name, "radius": 0.1, "bounds": (0, 1)}
    with pytest.raises(InputError, match="in 1024 columns, which are the most, not 1025"):
        Protocol(kernel, 1025, 1, 10, **asked)
    made = Protocol(kernel, 2, 1, 10, **asked)
    assert Protocol.from_document(made.document).client(unchecked=True)
    monkeypatch.setattr(point, "MOST_PLANAR_COLUMNS", 1)
    with pytest.raises(InputError, match="not for devices"):
        Protocol.from_document(made.document).client(unchecked=True)


def test_gi_asks_for_a_radius() -> None:
    with pytest.raises(InputError, match="radius"):
        Protocol(Gaussian(1.0), 2, 1, 10, mechanism="gi", bounds=(0, 1))


@pytest.mark.parametrize(("radius", "fits"), [(1e-9, False), (1e-8, False), (1e-5, True)])
def test_gi_refuses_a_lattice_beyond_32_bits(radius: float, fits: bool) -> None:
    def made() -> Protocol:
        return Protocol(Gaussian(0.3), 2, 8, 100, bounds=(0, 1), mechanism="gi", radius=radius)

    if fits:
        server: Any = made().server()
        reports = server.respond(np.full((500, 2), 1.0), SecureBits.seeded(1))
        assert np.abs(reports).max() < 2**31 - 1
    else:
        with pytest.raises(InputError, match="radius .* too small"):
            made()


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_signs_keep_their_odds_exactly(dimension: int) -> None:
    """The weights of all reports add up to the stated total, and no two given vectors differ by more than the odds."""
    law = Signs(Fraction(1), dimension)
    weights = [[law.weight(signs, report) for report in range(2**dimension)] for signs in range(2**dimension)]
    assert {sum(row) for row in weights} == {law.total}
    assert max(map(max, weights)) * law.odds.unit <= min(map(min, weights)) * law.odds.heads


def test_more_budget_needs_a_smaller_scale() -> None:
    scales = [piecewise_scale(piecewise_window(Fraction(epsilon))) for epsilon in (1, 2, 8)]
    assert scales == sorted(scales, reverse=True)
