"""Answers at all places of a mesh: the same as one by one, error bars too, and in far less time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato.local import Protocol
from sfumato.maps import regions
from sfumato.quantizers.mesh import Mesh, Waves
from sfumato.release import Release

POINTS = np.random.default_rng(3).normal(0.5, 0.15, (4000, 3))
KNOWN: dict[str, Any] = {"bandwidth": 0.2, "bounds": (0, 1), "random_state": 1, "feature_seed": 5}


def central(columns: int, **parameters: Any) -> Release:
    model = sfumato.PrivateKDE(epsilon=2, n_hint=4000, **KNOWN | parameters)
    with pytest.warns(sfumato.NotPrivateWarning):
        return model.fit(POINTS[:, :columns]).release_


def local(kernel: str, **parameters: Any) -> Release:
    protocol = Protocol(kernel, 2, epsilon=4, participants=4000, bandwidth=0.2, bounds=(0, 1), seed=2, **parameters)
    return protocol.simulate(POINTS[:, :2])


MADE = {
    "pairs": lambda: central(2, method="fourier-gaussian", delta=1e-6),
    "sharded": lambda: central(2, method="fourier"),
    "phases": lambda: central(2, method="lsq-rff"),
    "three columns": lambda: central(3, method="fourier"),
    "one column": lambda: central(1, method="fourier"),
    "local phases": lambda: local("gaussian", mechanism="phases"),
    "local laplacian": lambda: local("laplacian", mechanism="phases"),
    "local, within a distance": lambda: local("gaussian", mechanism="metric-phases", radius=0.3),
    "no waves": lambda: central(2, method="grid"),
}


@pytest.fixture(scope="module", params=MADE)
def release(request: pytest.FixtureRequest) -> Release:
    return MADE[request.param]()


def mesh_of(release: Release) -> Mesh:
    return Mesh(tuple(np.linspace(-0.1 * column, 1.1, 7 + column) for column in range(release.dimension)))


def test_a_mesh_is_answered_as_its_places_are(release: Release) -> None:
    mesh = mesh_of(release)
    for ask in (release.query, release.total):
        plain, bars = ask(mesh.points, return_std=True)
        values, errors = ask(mesh, return_std=True)
        assert np.allclose(values, plain, rtol=1e-9, atol=1e-9 * np.abs(plain).max())
        assert np.allclose(errors, bars, rtol=1e-9)


def test_any_column_may_run_fastest(release: Release) -> None:
    mesh = Mesh(mesh_of(release).sides, (release.dimension - 1,))
    assert np.array_equal(mesh.points[:2, :-1], mesh.points[[0, 0], :-1])
    assert np.allclose(release.query(mesh), release.query(mesh.points), rtol=1e-9, atol=1e-12)


def test_columns_that_stand_still_and_single_places(release: Release) -> None:
    sides = [np.array([0.4])] * release.dimension
    one, *_ = release.query(Mesh(tuple(sides)))
    assert one == pytest.approx(float(release.query([[0.4] * release.dimension])[0]), rel=1e-9)
    sides[-1] = np.linspace(0.1, 0.9, 5)
    assert np.allclose(release.query(Mesh(tuple(sides))), release.query(Mesh(tuple(sides)).points), rtol=1e-9)


def test_people_in_a_box_are_those_of_its_nodes(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    region = [(0.2, 0.7)] * release.dimension
    quick = regions.people(release, region)
    monkeypatch.setattr(type(release.reader), "combined_mesh", lambda *_: None)
    plain = regions.people(release, region)
    assert (quick.value, quick.std) == pytest.approx((plain.value, plain.std), rel=1e-8)


def test_waves_do_not_go_through_single_places(monkeypatch: pytest.MonkeyPatch) -> None:
    release = MADE["local phases"]()
    release.query(mesh_of(release).points, read="shrunk")  # what shrinks a map is learnt from places of its own, once
    monkeypatch.setattr(type(release.reader), "read", None)
    assert len(release.query(mesh_of(release))) == 56
    assert sfumato.maps.evaluate(release, size=8).values.shape == (8, 8)
    regions.people(release, [(0, 1), (0, 1)])


def test_a_median_of_means_is_read_place_by_place() -> None:
    release = central(2, method="lsq-rff", options={"groups": 4})
    assert release.groups == 4
    mesh = mesh_of(release)
    assert np.array_equal(release.query(mesh), release.query(mesh.points))


def test_blocks_of_terms_and_of_places_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    turns = [random.uniform(-3, 3, (size, 11)) for size in (4, 3, 2)]
    made = Waves(turns, random.normal(size=11) + 1j * random.normal(size=11))
    beside = random.normal(size=11)
    places = [turns[0][x] + turns[1][y] + turns[2][z] for z in range(2) for y in range(3) for x in range(4)]
    terms = (made.amplitudes * np.exp(2j * np.pi * np.array(places))).real
    expected = [terms.sum(axis=1), np.square(terms).sum(axis=1), terms @ beside]
    assert np.allclose(made.moments(beside), expected)
    monkeypatch.setattr("sfumato.quantizers.mesh.ROWS", 4)
    monkeypatch.setattr("sfumato.quantizers.mesh.NUMBERS", 20)
    assert np.allclose(made.moments(beside), expected)


def test_odd_places_are_refused_as_queries_are() -> None:
    release = MADE["sharded"]()
    with pytest.raises(sfumato.InputError, match="finite"):
        release.query(Mesh((np.array([0.0, np.nan]), np.array([0.0]))))
    with pytest.raises(sfumato.InputError, match="shape"):
        release.query(Mesh((np.array([0.0, 1.0]),)))
