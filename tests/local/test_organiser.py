"""Simulation has the law of client and collector, answers are unbiased with honest error bars, plans predict them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import InputError
from sfumato.kernels import L1LSH, L2LSH, Angular, Cauchy, Gaussian, Hat, Jaccard, Kernel, Laplacian
from sfumato.local import Protocol
from sfumato.local.client import Client
from sfumato.local.coins import Coins
from sfumato.local.organiser import clip
from sfumato.local.rows_server import RowsServer
from sfumato.privacy.bits import SecureBits
from sfumato.public.document import Domain

POINT = [0.3, 0.6]


def outcomes(protocol: Protocol, digits: Any) -> Any:
    """Counts of (row, digit) from a sequence of (row, digit)."""
    server: Any = protocol.server()
    table = np.zeros((server.rows, server.device.outcomes), dtype=np.int64)
    for row, digit in digits:
        table[row, digit] += 1
    return table


def law(protocol: Protocol) -> Any:
    """Exact probabilities of (row, digit) for one person, by the device's own place of the point."""
    server: Any = protocol.server()
    device = server.device
    table = np.full((server.rows, device.outcomes), float(device.other))
    X = device.lattice(POINT)
    for row in range(server.rows):
        if isinstance(server, RowsServer):
            table[row, device.hash.bucket(row, X)] = device.same
        else:
            arc = device.position(row, X) + np.arange(device.inside) - device.inside // 2
            table[row, arc % device.outcomes] = device.same
    return table / (device.total * server.rows)


def sizes(made: Protocol) -> dict[str, Any]:
    """Options that make the same sizes again, which are a long search where nobody names them."""
    chosen = made.document["mechanism"]
    pool = {"pool": chosen["groups"] * chosen["rows_each"], "rows_each": chosen["rows_each"]}
    return pool if made.mechanism == "phases" else {**pool, "buckets": chosen["buckets"]}


def small(mechanism: str) -> Protocol:
    kernel = L2LSH(0.5) if mechanism == "rows" else Gaussian(0.5)
    return Protocol(kernel, 2, 1, 100, mechanism=mechanism, bounds=(0, 1), seed=9, options={"pool": 4, "rows_each": 1})


@pytest.mark.parametrize("mechanism", ["rows", "phases"])
def test_simulation_and_clients_follow_the_same_exact_law(mechanism: str) -> None:
    """Chi-square of both against the law by the weights; each exceeds its 1 - 1e-6 quantile with probability 1e-6."""
    protocol = small(mechanism)
    exact = law(protocol)
    server: Any = protocol.server()
    rows = np.repeat(np.arange(4), 20_000)
    X = np.tile(server.device.lattice(POINT), (len(rows), 1))
    simulated = np.zeros_like(exact)
    np.add.at(simulated, (rows, server.random_digits(X, rows, SecureBits.seeded(1))), 1)
    client = Client(protocol.document, coins=Coins.seeded(2))
    reports = [client.report(POINT) for _ in range(20_000)]
    parsed = [(int.from_bytes(r[10:12], "little"), int.from_bytes(r[12:16], "little")) for r in reports]
    limit = stats.chi2.isf(1e-6, exact.size - 1)
    for found in (simulated, outcomes(protocol, parsed)):
        chi = ((found - found.sum() * exact) ** 2 / (found.sum() * exact)).sum()
        assert chi < limit


@pytest.mark.once
def test_the_vectorised_collector_reads_what_the_simulation_writes() -> None:
    """The same digits, as payloads through `count` and as digits through the simulation, give the same tally."""
    protocol = Protocol(Gaussian(0.5), 2, 6, 100, mechanism="phases", seed=9, options={"pool": 9, "rows_each": 3})
    server: Any = protocol.server()
    random = np.random.default_rng(4)
    groups, digits = random.integers(0, 3, 50), random.integers(0, 256, (50, 3))
    codes = digits @ 256 ** np.arange(3)
    pairs = zip(groups.tolist(), codes.tolist(), strict=True)
    payloads = b"".join(group.to_bytes(2, "little") + code.to_bytes(4, "little") for group, code in pairs)
    counted, added = server.tally(), server.tally()
    assert server.count(np.frombuffer(payloads, dtype=np.uint8).reshape(50, 6), counted).all()
    for i in range(3):
        server.add_digits(groups * 3 + i, digits[:, i], added)
    assert np.array_equal(counted.integers(), added.integers())


KERNELS = [
    *((kernel, "rows") for kernel in (L2LSH(0.4), L1LSH(0.4), Laplacian(0.4), Hat(0.7), Angular(2), Jaccard())),
    *((kernel, "phases") for kernel in (Gaussian(0.4), Laplacian(0.4), Cauchy(0.4))),
]


@pytest.mark.parametrize(("kernel", "mechanism"), KERNELS, ids=lambda value: getattr(value, "name", value))
def test_answers_are_unbiased_and_error_bars_are_honest(kernel: Kernel, mechanism: str) -> None:
    """Over 12 pools, errors in units of their error bars: mean within 5.2 standard errors, mean square near 1.

    Errors of one release are correlated between queries, so one query a release counts, and another each time. 12
    squared standard normals sum to more than 62 or less than 0.65 with probability 1e-6 each.
    """
    random = np.random.default_rng(7)
    X = random.random((3000, 2))
    X = (X > 0.6).astype(float) if isinstance(kernel, Jaccard) else X
    queries = X[:12]
    exact = kernel.exact_density(X, queries)
    scores = []
    options: dict[str, Any] = {}
    for seed in range(12):
        protocol = Protocol(kernel, 2, 3, len(X), mechanism=mechanism, seed=seed, options=options)
        options = sizes(protocol)
        answers, errors = protocol.simulate(X, random_state=seed).query(queries, return_std=True)
        scores.append((answers[seed] - exact[seed]) / errors[seed])
    assert abs(np.mean(scores)) < 5.2 / np.sqrt(12)
    assert 0.65 < np.sum(np.square(scores)) < 62


@pytest.mark.parametrize("epsilon", [1, 5, 12])
@pytest.mark.parametrize(("kernel", "mechanism"), [(L2LSH(0.3), "rows"), (Gaussian(0.3), "phases")])
def test_plans_predict_the_error(kernel: Kernel, mechanism: str, epsilon: float) -> None:
    """Mean squared error over 30 pools and 20 queries, given the mean density: within 40 % of the prediction."""
    random = np.random.default_rng(3)
    X = random.random((2000, 2))
    queries = random.random((20, 2))
    exact = kernel.exact_density(X, queries)
    options: dict[str, Any] = {"density": float(exact.mean())}
    squares = []
    for seed in range(30):
        protocol = Protocol(kernel, 2, epsilon, len(X), mechanism=mechanism, bounds=(0, 1), seed=seed, options=options)
        options |= sizes(protocol)
        squares.append(np.square(protocol.simulate(X, random_state=seed).query(queries) - exact).mean())
    predicted = protocol.plan().row(mechanism).error
    assert predicted is not None
    assert np.mean(squares) == pytest.approx(predicted**2, rel=0.4)


def test_more_people_share_a_pool_without_harm() -> None:
    """A pool of 64 rows: the error stops falling where the plan says that the pool ends it."""
    kernel = L2LSH(0.3)
    X = np.random.default_rng(5).random((20_000, 2))
    queries = X[:20]
    exact = kernel.exact_density(X, queries)
    options = {"pool": 64, "rows_each": 1, "density": float(exact.mean())}
    squares = []
    for seed in range(20):
        protocol = Protocol(kernel, 2, 5, len(X), mechanism="rows", bounds=(0, 1), seed=seed, options=options)
        squares.append(np.square(protocol.simulate(X, random_state=seed).query(queries) - exact).mean())
    predicted = protocol.plan().row("rows").error
    assert predicted is not None
    assert np.mean(squares) == pytest.approx(predicted**2, rel=0.6)


@pytest.mark.once
def test_auto_takes_the_least_error_and_the_constant_is_a_row() -> None:
    protocol = Protocol("laplacian", bandwidth=0.3, dimension=2, epsilon=1, participants=200_000, bounds=(0, 1))
    plan = protocol.plan()
    errors = {row.method: row.predicted.rmse for row in plan.rows if row.applies and not row.baseline}
    assert protocol.mechanism == plan.method == min(errors, key=errors.__getitem__)
    assert plan.useful
    assert "constant" in str(plan) and f"auto takes {plan.method}" in str(plan)
    assert Protocol.from_document(protocol.document).plan().method == protocol.mechanism
    few = Protocol("gaussian", bandwidth=0.3, dimension=2, epsilon=0.1, participants=100, bounds=(0, 1))
    assert not few.plan().useful
    assert "beat a constant" in " ".join(str(few.plan()).split())


@pytest.mark.once
def test_simulated_releases_say_so() -> None:
    protocol = small("rows")
    release = protocol.simulate(np.random.default_rng(1).random((50, 2)))
    assert release.guarantee.private
    assert any("simulated" in condition for condition in release.guarantee.conditions)
    seeded = protocol.simulate(np.zeros((50, 2)), random_state=1)
    assert not seeded.guarantee.private
    assert np.array_equal(seeded.values, protocol.simulate(np.zeros((50, 2)), random_state=1).values)


@pytest.mark.once
def test_many_points_are_clipped_as_one_is() -> None:
    domain = Domain((0.0, -1.0), (1.0, 3.0))
    points = np.array([[0.5, 0.1], [-3.0, 9.0], [np.nan, np.inf], [1.0, -np.inf], [-0.0, -1.0]])
    assert clip(domain, points).tolist() == [domain.clip(point) for point in points.tolist()]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "exponential"}, "no method applies|does not apply"),
        ({"mechanism": "none"}, "unknown method"),
        ({"epsilon": 0}, "epsilon must be"),
        ({"epsilon": 1e-7}, "too small"),
        ({"participants": 0}, "participants must be"),
        ({"dimension": "two"}, "dimension must be"),
        ({"options": {"typo": 1}}, "unknown option 'typo'"),
        ({"options": {"buckets": 1}}, "buckets must be"),
        ({"options": {"density": 2}}, "density must be"),
        ({"bandwidth": [[1.0, 0.0], [0.0, 1.0]]}, "not a matrix"),
        ({"bounds": (0, 1e9)}, "too many bandwidths"),
        ({"bounds": [(0, 1)]}, "name 1 columns"),
        ({"seed": -1}, "a seed must be"),
        ({"radius": -1}, "radius must be"),
        ({"eta": 1}, "eta must be"),
    ],
)
@pytest.mark.once
def test_wrong_arguments(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"kernel": "l1-lsh", "bandwidth": 0.5, "dimension": 2, "epsilon": 1}
    arguments |= {"participants": 100, "mechanism": "rows"}
    with pytest.raises(InputError, match=message):
        Protocol(**(arguments | change))


@pytest.mark.parametrize("X", [np.zeros((3, 3)), np.zeros(3), [[0.0, 1.0], [0.0]], np.zeros((0, 2))])
@pytest.mark.once
def test_wrong_points(X: Any) -> None:
    with pytest.raises(InputError):
        small("rows").simulate(X)
