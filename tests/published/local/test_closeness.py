"""Distances within which hash functions seldom differ, and a radius from public points."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.kernels import L1LSH, L2LSH, Angular, Exponential, Gaussian, Hat, Jaccard, Kernel, Laplacian
from sfumato.published.local.closeness import Steps, closeness_of
from sfumato.published.local.sketch_design import public_radius

DISTANCES = (1e-6, 0.01, 0.1, 0.5, 1.0, 5.0)


@pytest.mark.parametrize("kernel", [L2LSH(0.5), L1LSH(0.5), Laplacian(0.7), Exponential(0.7), Hat(2.0)])
@pytest.mark.parametrize("distance", DISTANCES)
def test_separation_is_one_minus_the_kernel_and_below_the_published_line(kernel: Kernel, distance: float) -> None:
    close = closeness_of(kernel.to_document())
    away = 1 - float(kernel.value([[0.0, 0.0]], [[distance, 0.0]])[0, 0])
    assert close.separation(distance) == pytest.approx(away, abs=1e-12)
    assert close.separation(distance) <= close.published(distance) + 1e-12


def test_no_direction_separates_more() -> None:
    random = np.random.default_rng(1)
    for kernel, norm in ((Hat(1.0), 1), (L1LSH(1.0), 1), (L2LSH(1.0), 2)):
        moves = random.normal(size=(200, 3))
        moves *= 0.3 / np.linalg.norm(moves, norm, axis=1, keepdims=True)
        away = 1 - kernel.value(np.zeros((1, 3)), moves)
        assert away.max() <= closeness_of(kernel.to_document()).separation(0.3) + 1e-9


@pytest.mark.parametrize("power", [1, 3])
def test_angles_are_in_radians(power: int) -> None:
    close, kernel = closeness_of({"kernel": "angular", "power": power}), Angular(power)
    for angle in (0.0, 0.2, 2.0, math.pi):
        away = 1 - float(kernel.value([[1.0, 0.0]], [[math.cos(angle), math.sin(angle)]])[0, 0])
        assert close.separation(angle) == pytest.approx(away, abs=1e-9)


def test_families_of_ones_own_are_steps() -> None:
    steps = Steps(0.1, 0.5, 0.9, 0.4).closeness()
    assert [steps.separation(t) for t in (0.05, 0.1, 0.3, 0.5, 0.6)] == pytest.approx([0.1, 0.1, 0.6, 0.6, 1.0])
    with pytest.raises(InputError, match="r1"):
        Steps(0.5, 0.1, 0.9, 0.4)


@pytest.mark.parametrize("document", [Gaussian(1.0).to_document(), L2LSH([1.0, 2.0]).to_document()])
def test_what_has_no_radius_says_so(document: dict[str, object]) -> None:
    with pytest.raises(InputError):
        closeness_of(document)


def test_the_radius_is_a_mean_distance_of_public_points() -> None:
    line = np.linspace(0.0, 1.0, 1001)[:, None]
    assert public_radius(L2LSH(1.0), line, neighbour=2) == 0.001
    assert public_radius(L1LSH(1.0), np.hstack([line, line]), neighbour=2) == 0.002
    turns = np.linspace(0, 2 * math.pi, 1000, endpoint=False)
    circle = 7 * np.column_stack([np.cos(turns), np.sin(turns)])
    assert public_radius(Angular(), circle, neighbour=2) == pytest.approx(2 * math.pi / 1000, rel=0.05)
    sets = np.repeat(np.eye(4), 2, axis=0)
    assert public_radius(Jaccard(), sets, neighbour=2) == 1.0


@pytest.mark.parametrize("points", [np.zeros((500, 2)), np.zeros((5, 2)), np.zeros(500)])
def test_points_without_a_radius_are_refused(points: np.ndarray) -> None:
    with pytest.raises(InputError):
        public_radius(L2LSH(1.0), points)
