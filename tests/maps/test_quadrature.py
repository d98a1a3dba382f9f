"""Nodes and weights over regions: exact where they should be, few where corners are many, and never too many."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import erf

from sfumato import InputError
from sfumato.maps import quadrature as module
from sfumato.maps.quadrature import quadrature
from tests.work import counted_calls

LENGTHS = np.array([0.5, 0.7])


def polygon(*rings: Any) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [np.asarray(ring, dtype=np.float64).tolist() for ring in rings]}


def comb(corners: int) -> dict[str, Any]:
    """Teeth whose corners all have heights of their own: every line between them crosses every tooth."""
    random = np.random.default_rng(0)
    heights = np.where(np.arange(corners) % 2, 0.6, 0.4) + 1e-3 * random.uniform(size=corners)
    teeth = np.column_stack([np.linspace(0.4, 0.6, corners), heights])
    return polygon(np.vstack([teeth, [[0.6, 0.3], [0.4, 0.3]]]))


def star(corners: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    turns = np.sort(random.uniform(0, 2 * np.pi, corners))
    return 3 * (1 + 0.3 * random.uniform(size=corners))[:, None] * np.column_stack([np.cos(turns), np.sin(turns)])


def shoelace(ring: np.ndarray) -> float:
    following = np.roll(ring, -1, axis=0)
    return abs(float((ring[:, 0] * following[:, 1] - ring[:, 1] * following[:, 0]).sum())) / 2


@pytest.mark.parametrize("corners", [10, 30, 300])
def test_areas_are_exact_whatever_the_rules(corners: int) -> None:
    ring = star(corners, corners)
    hole, apart = ring / 4, ring / 8 + 20
    _, weights = quadrature(polygon(ring, hole, apart), LENGTHS)
    assert weights.sum() == pytest.approx(shoelace(ring) - shoelace(hole) + shoelace(apart), rel=1e-11)


def test_many_corners_on_straight_edges_change_nothing() -> None:
    """A Gaussian bump over a square whose sides have corners at random: thin slabs have fewer nodes, and miss 1e-6."""
    sides = np.sort(np.random.default_rng(1).uniform(-1, 1, 400))
    ring = np.concatenate(
        [[[1.0, place] for place in sides], [[1.0, 1.0], [-1.0, 1.0]], [[-1.0, place] for place in sides[::-1] + 1e-4]]
    )
    nodes, weights = quadrature(polygon([[-1.0, -1.0], [1.0, -1.0], *ring]), LENGTHS)
    bump = np.exp(-np.square((nodes - [0.2, 0.8]) / LENGTHS).sum(axis=1))
    exact = math.prod(
        math.sqrt(math.pi) / 2 * length * (erf((1 - middle) / length) + erf((1 + middle) / length))
        for middle, length in zip([0.2, 0.8], LENGTHS, strict=True)
    )
    assert weights @ bump == pytest.approx(exact, rel=1e-6)
    assert len(nodes) < 20_000  # six nodes for every slab and line were 57,672


def test_a_spiky_outline_takes_few_calls_and_few_nodes() -> None:
    """Of 400 corners each line crosses up to 400 edges, and six nodes in both directions were 1.4 million."""
    with counted_calls() as calls:
        nodes, weights = quadrature(comb(400), np.array([0.1, 0.1]))
    assert len(calls) < 1_000 and len(nodes) < 100_000
    assert weights.sum() == pytest.approx(shoelace(np.array(comb(400)["coordinates"][0])), rel=1e-9)


def test_too_many_crossings_are_refused_before_they_are_counted_out(monkeypatch: pytest.MonkeyPatch) -> None:
    region = comb(3000)
    monkeypatch.setattr(module, "_ranges", lambda counts: pytest.fail("the crossings were made"))
    with pytest.raises(InputError, match="so many corners, .* queries, and 4,000,000 are the most.*simplify it"):
        quadrature(region, np.array([0.1, 0.1]))


def test_the_nodes_are_as_many_as_the_limit_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that are crossed twice, and long intervals on them: the true number of nodes counts."""
    square = polygon([[0, 0], [40, 0], [40, 40], [0, 40]])
    lengths = np.array([1.0, 1.0])
    nodes, _ = quadrature(square, lengths)
    assert len(nodes) == 120 * 120
    monkeypatch.setattr(module, "MOST_NODES", len(nodes))
    assert len(quadrature(square, lengths)[0]) == len(nodes)
    monkeypatch.setattr(module, "MOST_NODES", len(nodes) - 1)
    with pytest.raises(InputError, match="so many bandwidths"):
        quadrature(square, lengths)


def test_gaps_between_parts_take_no_nodes_and_endless_regions_are_refused() -> None:
    small = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    nodes, weights = quadrature(polygon(small, small + np.array([0.0, 1e6])), np.array([1.0, 1.0]))
    assert len(nodes) <= 2 * 36 and weights.sum() == pytest.approx(1.0)
    for far in (1e300, 1.7e308):
        with pytest.raises(InputError, match="so many bandwidths"):
            quadrature(polygon([[-far, -far], [far, -far], [0.0, far]]), np.array([1.0, 1.0]))


def test_level_outlines_have_no_inside() -> None:
    nodes, weights = quadrature(polygon([[0, 1], [1, 1], [2, 1]]), LENGTHS)
    assert len(nodes) == len(weights) == 0
