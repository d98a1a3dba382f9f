"""Public randomness of devices: the published vectors, the vectorised twin, and the laws that come out."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from sfumato.errors import SfumatoError
from sfumato.kernels import L1LSH, L2LSH, Cauchy, Gaussian, Hat, Laplacian
from sfumato.local import Protocol
from sfumato.local.device import device_for
from sfumato.local.phases_server import PhasesServer
from sfumato.local.pool import numbers, row_table
from sfumato.local.pooled import LABEL as PHASES_LABEL
from sfumato.local.pooled import Phases, Rows
from sfumato.local.rows_server import RowsServer
from sfumato.public.document import canonical, fingerprint
from sfumato.public.rows import LAWS, NORMAL, Law, row_bytes
from tests.local.vectors.write import PATH, place

VECTORS = json.loads(PATH.read_text())


def test_row_bytes_and_numbers_are_the_published_ones() -> None:
    row = VECTORS["row_bytes"]
    assert row_bytes(bytes.fromhex(row["seed"]), row["label"], row["row"], 40).hex() == row["bytes"]
    assert {name: law.numbers(VECTORS["words"]) for name, law in LAWS.items()} == VECTORS["numbers"]


@pytest.mark.parametrize("vector", VECTORS["devices"], ids=lambda vector: vector["protocol"]["kernel"]["kernel"])
def test_devices_compute_the_published_integers(vector: dict[str, Any]) -> None:
    document = vector["protocol"]
    assert fingerprint(document) == vector["fingerprint"]
    assert len(canonical(document)) == vector["canonical_length"]
    device = device_for(document)
    assert isinstance(device, Rows | Phases)
    lattices = [device.lattice(device.domain.clip(point)) for point in VECTORS["points"]]
    assert lattices == vector["lattice"]
    assert [[place(device, row, X) for row in VECTORS["rows"]] for X in lattices] == vector["places"]


@pytest.mark.parametrize("vector", VECTORS["devices"], ids=lambda vector: vector["protocol"]["kernel"]["kernel"])
def test_servers_compute_what_devices_compute(vector: dict[str, Any]) -> None:
    """Every row of the pool, for points inside, at the edges and beyond (clipped)."""
    protocol = Protocol.from_document(vector["protocol"])
    server = protocol.server()
    device = server.device
    assert isinstance(device, Rows | Phases)
    random = np.random.default_rng(3)
    points = [device.domain.clip(point) for point in random.uniform(-0.5, 1.5, (6, 3))]
    lattices = [device.lattice(point) for point in points]
    X = np.array(lattices)
    rows = np.arange(0, 999, 7)
    for i, lattice in enumerate(lattices):
        which = np.full(len(rows), i)
        if isinstance(server, RowsServer):
            found = server.pool.buckets(X, which, rows).tolist()
        else:
            assert isinstance(server, PhasesServer)
            found = (server.pool.phases(X, which, rows) >> (server.device.shift - 8)).tolist()
        assert found == [place(device, int(row), lattice) for row in rows]


@pytest.mark.parametrize("law", LAWS.values(), ids=lambda law: law.name)
def test_vectorised_numbers_are_the_same(law: Law) -> None:
    words = np.random.default_rng(1).integers(0, 2**32, 5000, dtype=np.uint32)
    words[:3] = [0, 2**32 - 1, 65535]
    assert numbers(law, words).tolist() == law.numbers(words.tolist())
    assert np.abs(numbers(law, words)).max() <= law.largest


def test_vectorised_rows_are_the_same() -> None:
    keys, words = row_table(bytes(32), "test", 4, 3, 5)
    for row in range(4):
        content = row_bytes(bytes(32), "test", row, 44)
        assert keys[row].astype("<u8").tobytes() + words[row].astype("<u4").tobytes() == content


def test_a_wrong_table_is_refused() -> None:
    with pytest.raises(SfumatoError, match="comes out wrong"):
        Law("shifted", 20, lambda level: NORMAL.quantile(level) + 1e-3, NORMAL.digest).nodes  # noqa: B018


@pytest.mark.parametrize("law", ["normal", "Laplace", "Cauchy"])
def test_characteristic_functions_of_the_tables(law: str) -> None:
    """The kernel that a table's law stands for, over all words, at distances up to 30 bandwidths."""
    table = LAWS[law]
    nodes = np.array(table.nodes) / 2.0**table.fraction_bits
    fractions = (np.arange(16) + 0.5) / 16
    spread = nodes[:-1, None] + np.diff(nodes)[:, None] * fractions
    distances = np.array([0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 30.0])
    found = [np.cos(distance * spread).mean() for distance in distances]
    exact = {"normal": np.exp(-(distances**2) / 2), "Laplace": 1 / (1 + distances**2), "Cauchy": np.exp(-distances)}
    assert np.abs(found - exact[law]).max() < 1e-4


def test_cells_give_the_laplacian_kernel() -> None:
    """The mean hat of random widths is exp(-distance)."""
    table = LAWS["cell"]
    nodes = np.array(table.nodes) / 2.0**table.fraction_bits
    spread = nodes[:-1, None] + np.diff(nodes)[:, None] * (np.arange(8) + 0.5) / 8
    for distance in (0.01, 0.3, 1.0, 4.0):
        assert np.maximum(0, 1 - distance * spread).mean() == pytest.approx(np.exp(-distance), abs=1e-4)


@pytest.mark.parametrize("kernel", [L2LSH(0.5), L1LSH(0.5), Laplacian(0.7), Hat(0.8)], ids=lambda kernel: kernel.name)
def test_collisions_follow_the_kernel(kernel: Any) -> None:
    """Share of rows in which two points meet, rehash collisions taken off: within 5 standard errors (alarm 6e-7)."""
    protocol = Protocol(kernel, 3, 1, 20_000, mechanism="rows", bounds=(0, 1), seed=5, options={"buckets": 32})
    server = protocol.server()
    assert isinstance(server, RowsServer)
    points = np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.4], [0.9, 0.8, 0.3]])
    X = np.array([server.device.lattice(point) for point in points.tolist()])
    table = server.pool.table(X)
    q = server.answer.collision
    for i, j in ((0, 1), (0, 2), (1, 2)):
        k = kernel.value(points[[i]], points[[j]])[0, 0]
        expected = k + (1 - k) * q
        error = np.sqrt(expected * (1 - expected) / server.rows)
        assert abs((table[i] == table[j]).mean() - expected) < 5 * error


@pytest.mark.parametrize("kernel", [Gaussian(0.5), Laplacian(0.5), Cauchy(0.5)], ids=lambda kernel: kernel.name)
def test_phases_follow_the_kernel(kernel: Any) -> None:
    """Mean cosine of the difference of two phases: within 5 standard errors (alarm 6e-7)."""
    server = Protocol(kernel, 3, 1, 20_000, mechanism="phases", bounds=(0, 1), seed=5).server()
    assert isinstance(server, PhasesServer)
    points = np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.4]])
    X = np.array([server.device.lattice(point) for point in points.tolist()])
    cosines, sines = server.pool.cosines(X)
    products = cosines[0] * cosines[1] + sines[0] * sines[1]
    k = kernel.value(points[[0]], points[[1]])[0, 0]
    assert abs(products.mean() - k) < 5 * products.std() / np.sqrt(server.rows)


def test_labels_separate_rows_and_phases() -> None:
    assert row_bytes(bytes(32), PHASES_LABEL, 0, 8) != row_bytes(bytes(32), "local/rows", 0, 8)
