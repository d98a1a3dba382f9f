"""The published shared sketch: exact payloads, unbiased answers, honest predictions, a promise with both numbers."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato.errors import InputError
from sfumato.kernels import L1LSH, L2LSH, Angular, Gaussian, Hat, Jaccard, Kernel, Laplacian
from sfumato.local import Protocol
from sfumato.local.client import Client
from sfumato.local.coins import Coins
from sfumato.local.device import HEADER_BYTES, device_for
from sfumato.local.organiser import choose, make_request, prepared
from sfumato.local.pool import directions
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.guarantee import amount_text
from sfumato.privacy.response import Window
from sfumato.public.document import exact
from sfumato.published.local.sketch import turned
from sfumato.published.local.sketch_design import sketch_variance
from tests.published.local.chances import same_law

ANGULAR = ("mldp-kde", "fkm-lr", "fkm-ll")


def protocol(name: str = "mldp-kde", kernel: Kernel | None = None, **arguments: Any) -> Protocol:
    given: dict[str, Any] = {"radius": 0.05, "bounds": (0, 1), "seed": 3, "epsilon": 2, "participants": 1000}
    options = {"not_private": True} if name == "race" else {}
    arguments["options"] = {**options, **arguments.get("options", {})}
    return Protocol(kernel or L2LSH(0.5), dimension=2, mechanism=name, **{**given, **arguments})


def counted(made: Protocol, points: Any, seed: int) -> Any:
    """Counters from clients' reports."""
    client = Client(made.document, coins=Coins.seeded(seed), not_private=made.mechanism == "race", max_delta=0.1)
    server = made.server()
    reports = np.array([list(client.report(point)[HEADER_BYTES:]) for point in points], dtype=np.uint8)
    tally = server.tally()
    assert server.count(reports, tally).all()
    return tally.integers()


@pytest.mark.parametrize("name", ["mldp-kde", "race", "fkm-lr", "fkm-ll"])
def test_clients_and_simulation_have_one_law(name: str) -> None:
    kernel = Angular() if name.startswith("fkm") else L2LSH(0.5)
    made = protocol(name, kernel, eta=0.1, options={"rows": 4} if name.startswith("fkm") else {"rows": 4, "buckets": 5})
    points = np.random.default_rng(1).uniform(0, 1, (400, 2))
    server = made.server()
    tally = server.tally()
    server.simulate(prepared(server.device, np.tile(points, (20, 1))), SecureBits.seeded(2), tally)
    first, second = counted(made, points, 1).reshape(4, -1), tally.integers().reshape(4, -1)
    assert first.sum() == 4 * len(points) == second.sum() / 20
    if name == "race":
        assert (first * 20 == second).all()  # nothing is random
    assert all(same_law(*pair) for pair in zip(first, second, strict=True))


@pytest.mark.parametrize(("bits", "columns"), [(0, 2), (0, 3), (1, 8), (4, 5), (20, 3)])
def test_rounding_turns_directions_no_farther_than_the_radius_is_widened(bits: int, columns: int) -> None:
    points = np.random.default_rng(7).normal(size=(20_000, columns))
    units = points / np.linalg.norm(points, axis=1, keepdims=True)
    rounded = np.round(directions(points) * 2.0**bits)
    rounded /= np.linalg.norm(rounded, axis=1, keepdims=True)
    angles = 2 * np.arcsin(np.linalg.norm(units - rounded, axis=1) / 2)
    assert 0.5 < angles.max() / turned([2.0**bits] * columns) <= 1


@pytest.mark.parametrize(
    ("kernel", "radius"),
    [
        (L2LSH(0.5), 0.05),
        (L1LSH(0.5), 0.05),
        (Laplacian(0.5), 0.05),
        (Hat(0.5), 0.05),
        (Angular(), 0.1),
        (Angular(2), 0.1),
    ],
    ids=lambda value: str(value),
)
def test_answers_are_unbiased_and_predicted(kernel: Kernel, radius: float) -> None:
    random = np.random.default_rng(4)
    points = random.normal(0.5, 0.15, (500, 2))
    queries, squares, bars = points[:40], [], []
    truth = kernel.exact_density(np.clip(points, 0, 1), np.clip(queries, 0, 1))
    sizes: dict[str, Any] = {}
    for seed in range(64):
        made = protocol(kernel=kernel, radius=radius, eta=0.1, epsilon=4, participants=500, seed=seed, options=sizes)
        sizes = {name: made.document["mechanism"][name] for name in ("rows", "buckets")}  # searched for once
        answers, errors = made.simulate(points, random_state=seed).query(np.clip(queries, 0, 1), return_std=True)
        squares.append(np.mean((answers - truth) ** 2))
        bars.append(np.mean(errors**2))
    # The queries of a sketch err together: its squared error deviates by 0.6 to 1.2 of its mean (200 sketches each). If
    # that is a gamma, and bars are 1.14 of the error (angles), a factor of three has a probability of 5e-7 or less.
    assert 1 / 3 < np.mean(bars) / np.mean(squares) < 3
    request = make_request(kernel, None, 2, 4, 500, radius, 0.1, (0, 1), {})
    assert 1 / 6 < np.mean(squares) / choose(request, "mldp-kde")[1].variance < 4


def test_a_sketch_without_noise_is_the_density() -> None:
    points = np.random.default_rng(5).normal(0.5, 0.2, (500, 2)).clip(0, 1)
    release = protocol("race", options={"rows": 4096}).simulate(points, random_state=1)
    answers, errors = release.query(points[:30], return_std=True)
    truth = L2LSH(0.5).exact_density(points, points[:30])
    assert (np.abs(answers - truth) < 6 * errors + 1e-3).all()
    assert "NOT PRIVATE" in str(release.guarantee)


@pytest.mark.once
def test_race_is_never_chosen_by_mistake() -> None:
    with pytest.raises(InputError, match="not_private"):
        Protocol(L2LSH(0.5), 2, 1, 100, mechanism="race", bounds=(0, 1))
    assert Protocol(L2LSH(0.5), 2, 1, 100, bounds=(0, 1), radius=0.1).mechanism != "race"


@pytest.mark.once
def test_the_promise_names_radius_eta_and_worst_case() -> None:
    made = protocol(eta=0.01)
    device: Any = device_for(made.document)
    text = " ".join(made.document["guarantee"]["conditions"])
    assert "within 0.05 of each other (euclidean), except with probability 0.01" in text
    assert f"is {amount_text(device.calibration.worst_case)} (gamma {device.rows} times)" in text
    assert device.loss(0.05) <= 2.0 + 1e-9
    losses = [device.loss(distance) for distance in (0.0, 0.01, 0.05, 0.2, 5.0, 1e9)]
    assert losses == sorted(losses)
    assert 2.0 < losses[-1] <= float(device.calibration.worst_case)


@pytest.mark.once
def test_eta_is_one_in_a_million_by_default() -> None:
    assert device_for(protocol().document).parameters["eta"] == {"decimal": "1e-06"}


@pytest.mark.parametrize("change", ["gamma", "same", "rows", "eta", "radius"])
@pytest.mark.once
def test_devices_refuse_what_does_not_keep_the_promise(change: str) -> None:
    document = protocol(eta=0.01).document
    mechanism = dict(document["mechanism"])
    broken = {
        "gamma": str(Fraction(mechanism["gamma"]) * Fraction(11, 10)),
        "same": mechanism["same"] * 2,
        "rows": mechanism["rows"] * 4,
        "eta": exact(1e-12),
        "radius": exact(0.2),
    }
    with pytest.raises(InputError, match="do not report|do not keep"):
        device_for({**document, "mechanism": {**mechanism, change: broken[change]}})


@pytest.mark.parametrize("rule", ["theorem-1", "corollary-1"])
@pytest.mark.once
def test_published_rules_cost_accuracy(rule: str) -> None:
    request = make_request(L2LSH(0.25), None, 8, 1, 100_000, 0.1, 0.1, (0, 1), {})
    published = make_request(L2LSH(0.25), None, 8, 1, 100_000, 0.1, 0.1, (0, 1), {"calibration": rule})
    assert choose(request, "mldp-kde")[1].variance < choose(published, "mldp-kde")[1].variance


@pytest.mark.once
def test_the_chosen_size_is_the_best_of_its_neighbours() -> None:
    request = make_request(L2LSH(0.25), None, 8, 1, 100_000, 0.1, 0.1, (0, 1), {})
    best = choose(request, "mldp-kde")[1]
    rows, buckets = best.parameters["rows"], best.parameters["buckets"]
    for other in ((rows // 2, buckets), (2 * rows, buckets), (rows, buckets + 2)):
        options = dict(zip(("rows", "buckets"), other, strict=True))
        varied = make_request(L2LSH(0.25), None, 8, 1, 100_000, 0.1, 0.1, (0, 1), options)
        assert choose(varied, "mldp-kde")[1].variance >= best.variance


@pytest.mark.once
def test_groups_take_the_median_of_means(tmp_path: Path) -> None:
    points = np.random.default_rng(6).uniform(0, 1, (300, 2))
    release = protocol(eta=0.1, options={"rows": 30, "groups": 3}).simulate(points, random_state=1)
    reader: Any = release.reader
    rows = reader.row_values(points[:7], release.values.astype(float))
    medians = np.median(rows.reshape(7, 3, 10).mean(axis=2), axis=1) / 300
    assert release.query(points[:7]) == pytest.approx(medians)
    release.save(tmp_path / "sketch.sfm")
    assert sfumato.load(tmp_path / "sketch.sfm").query(points[:7]) == pytest.approx(medians)


@pytest.mark.once
def test_weights_are_the_mean_of_the_rows() -> None:
    points = np.random.default_rng(7).uniform(0, 1, (200, 2))
    release = protocol(eta=0.1, options={"rows": 12, "buckets": 6}).simulate(points, random_state=1)
    reader: Any = release.reader
    assert reader.weights(points[:5]) @ release.values / 200 == pytest.approx(release.query(points[:5]))


@pytest.mark.parametrize("name", ANGULAR)
def test_angular_baselines_answer(name: str) -> None:
    random = np.random.default_rng(8)
    points = random.normal([1.0, 0.0], 1.0, (2000, 2))
    truth, squares, bars = Angular().exact_density(points, points[:50]), [], []
    sizes: dict[str, Any] = {}
    for seed in range(6):
        given: dict[str, Any] = {"bounds": (-5, 5), "epsilon": 8, "eta": 0.1, "participants": 2000}
        made = protocol(name, Angular(), seed=seed, options=sizes, **given)
        sizes = {"rows": made.document["mechanism"]["rows"]}  # searched for once
        answers, errors = made.simulate(points, random_state=seed).query(points[:50], return_std=True)
        squares.append(np.mean((answers - truth) ** 2))
        bars.append(np.mean(errors**2))
    # Answers of one sketch go together, at worst as one normal number; six squares exceed 39 with probability 1e-6.
    assert np.mean(squares) < 39 / 6 * np.mean(bars)


@pytest.mark.once
def test_a_sensitive_family_of_ones_own() -> None:
    given = {"r1": 0.05, "r2": 0.5, "p1": 0.9, "p2": 0.3, "rows": 30, "buckets": 4}
    device: Any = device_for(protocol(eta=0.01, options=given).document)
    plain: Any = device_for(protocol(eta=0.01, options={"rows": 30, "buckets": 4}).document)
    assert device.calibration.gamma < plain.calibration.gamma  # p1 = 0.9 claims less than the kernel knows
    assert device.loss(0.4) > device.loss(0.05)
    with pytest.raises(InputError, match="r1, r2, p1 and p2"):
        protocol(options={"r1": 0.1})


@pytest.mark.parametrize(
    ("name", "kernel", "match"),
    [
        ("mldp-kde", Gaussian(1.0), "not hashed"),
        ("fkm-lr", L2LSH(1.0), "angular"),
        ("fkm-ll", L2LSH(1.0), "angular"),
        ("fkm-lr", Angular(2), "power 1"),
    ],
)
@pytest.mark.once
def test_kernels_that_do_not_fit_are_refused(name: str, kernel: Kernel, match: str) -> None:
    with pytest.raises(InputError, match=match):
        protocol(name, kernel)


@pytest.mark.parametrize("options", [{"rows": 0}, {"buckets": 65}, {"groups": 2.0}, {"calibration": "guess"}])
@pytest.mark.once
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        protocol(options=options)


@pytest.mark.once
def test_a_radius_is_asked_for() -> None:
    with pytest.raises(InputError, match="public"):
        Protocol(Jaccard(), 4, 1, 100, mechanism="mldp-kde")


@pytest.mark.once
def test_damaged_payloads_change_nothing() -> None:
    made = protocol(eta=0.1, options={"rows": 3, "buckets": 5})
    server = made.server()
    tally = server.tally()
    good = server.count(np.array([[0b001_000_001, 0], [0b111, 0], [0, 0b10]], dtype=np.uint8), tally)
    assert good.tolist() == [True, False, False]
    assert tally.integers().sum() == 3


@pytest.mark.once
def test_the_variance_formula_without_noise_and_rehash() -> None:
    law = Window.of(Fraction(24), 2)
    assert sketch_variance(law, 10, 10**9, 0.0) == pytest.approx(0.009, rel=1e-6)
