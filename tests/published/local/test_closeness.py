"""Distances within which hash functions seldom differ, and a radius from public points.

Hash functions from tables separate no more often than is proven, in few columns and in many.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import cauchy, norm

from sfumato.errors import InputError
from sfumato.kernels import L1LSH, L2LSH, Angular, Exponential, Gaussian, Hat, Jaccard, Kernel, Laplacian
from sfumato.local import Protocol
from sfumato.local.pool import numbers
from sfumato.local.pool_server import MOST_CAUCHY_COLUMNS
from sfumato.public.rows import CAUCHY, CELLS, NORMAL, Law
from sfumato.published.local import closeness
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
    for kernel, order in ((Hat(1.0), 1), (L1LSH(1.0), 1), (L2LSH(1.0), 2)):
        moves = random.normal(size=(200, 3))
        moves *= 0.3 / np.linalg.norm(moves, order, axis=1, keepdims=True)
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


CELL = 2.0**-16


def nodes(law: Law) -> Any:
    return np.array(law.nodes) / 2.0**law.fraction_bits


def words(random: np.random.Generator, *shape: int) -> Any:
    return random.integers(0, 2**32, shape, dtype=np.uint32)


def separated(law: Law, delta: Any, rows: int, seed: int) -> float:
    """Mean chance, over projections, that a random offset separates points whose difference is delta."""
    random, total = np.random.default_rng(seed), 0.0
    for start in range(0, rows, 1000):
        drawn = numbers(law, words(random, min(1000, rows - start), len(delta)))
        total += float(np.minimum(1.0, np.abs(drawn @ delta) / 2.0**law.fraction_bits).sum())
    return total / rows


@pytest.mark.parametrize("columns", [1, 2, 30, 3000])
def test_cauchy_projections(columns: int) -> None:
    """Values lie in [0, 1], so 0.5 / sqrt(rows) bounds the standard error: 5 of them are exceeded by chance 3e-7."""
    rows, t = 24_000 if columns == 3000 else 100_000, 0.05
    found = separated(CAUCHY, np.full(columns, t / columns), rows, 1)
    close = closeness_of({"kernel": "l1-lsh", "bandwidth": 1.0})
    assert found <= close.separation(t) + close.excess(t, columns) + 2.5 / math.sqrt(rows)
    if columns == 3000:  # a bound of 10^-4 for every number of columns would be wrong
        assert found > close.separation(t) + 1e-4


def test_the_error_of_cauchy_tables_grows_with_the_columns() -> None:
    errors = [closeness.cauchy_projections(0.05, d) for d in (1, 10, 100, 1000, 10_000, 2**20)]
    assert errors == sorted(errors)
    assert errors[0] < 5e-4
    assert 0.19 * 0.05 < errors[-1] < 0.2 * 0.05


@pytest.mark.parametrize("columns", [1, 1000])
def test_normal_projections(columns: int) -> None:
    """As above."""
    t, rows = 0.5, 100_000 if columns == 1 else 20_000
    found = separated(NORMAL, np.full(columns, t / math.sqrt(columns)), rows, 2)
    close = closeness_of({"kernel": "l2-lsh", "bandwidth": 1.0})
    assert found <= close.separation(t) + close.excess(t, columns) + 2.5 / math.sqrt(rows)


@pytest.mark.parametrize("columns", [2, 500])
def test_signs(columns: int) -> None:
    """A chance near 0.1 of 40,000 hyperplanes: 5 standard errors are exceeded with probability 3e-7."""
    angle, rows = 0.3, 40_000
    random, apart = np.random.default_rng(3), 0
    first = np.zeros(columns)
    first[: columns // 2] = 1 / math.sqrt(columns // 2)
    second = np.roll(first, columns // 2) * math.sin(angle) + first * math.cos(angle)
    for _ in range(rows // 1000):
        a = numbers(NORMAL, words(random, 1000, columns))
        apart += int(((a @ first >= 0) != (a @ second >= 0)).sum())
    chance = angle / math.pi + closeness.signs(1, columns)
    assert apart / rows <= chance + 5 * math.sqrt(chance / rows)


def test_random_cells() -> None:
    spread = nodes(CELLS)[:-1, None] + np.diff(nodes(CELLS))[:, None] * (np.arange(8) + 0.5) / 8
    for t in (1e-4, 0.01, 0.1, 1.0):
        for columns in (1, 10, 1000):
            column = np.minimum(1.0, spread * t / columns).mean()
            assert 1 - (1 - column) ** columns <= -math.expm1(-t) + closeness.random_cells(t, columns)


@pytest.mark.parametrize(("mechanism", "kernel"), [("rows", L1LSH(90.0)), ("phases", Laplacian(90.0))])
def test_more_columns_than_cauchy_numbers_serve_are_refused(mechanism: str, kernel: Any) -> None:
    given = {"epsilon": 1, "participants": 10, "mechanism": mechanism, "bounds": (0, 1)}
    assert Protocol(kernel, 1024, **given).mechanism == mechanism
    with pytest.raises(InputError, match="1024 columns at most"):
        Protocol(kernel, 1025, **given)


def test_many_columns_of_cauchy_numbers_keep_the_kernel() -> None:
    """The mean cosine of the table's law, all words at once, in the most columns that are allowed."""
    gaps, columns = np.diff(nodes(CAUCHY)), MOST_CAUCHY_COLUMNS
    middles = nodes(CAUCHY)[:-1] + gaps / 2
    for t in (0.001, 0.003, 0.01, 0.03, 0.1, 1.0, 10.0):
        step = t / columns
        mean = float((np.cos(step * middles) * np.sinc(step * gaps / 2 / math.pi)).mean())
        assert abs(mean**columns - math.exp(-t)) < 0.016


# What the proofs take from the tables.


@pytest.mark.parametrize("law", [NORMAL, CAUCHY], ids=lambda law: law.name)
def test_gaps_grow_outwards(law: Law) -> None:
    gaps, unit = np.diff(nodes(law)), 2.0**-law.fraction_bits
    assert (np.diff(gaps[2**15 :]) >= -2 * unit).all() and (np.diff(gaps[: 2**15]) <= 2 * unit).all()


def test_constants_of_the_normal_table() -> None:
    gaps = np.diff(nodes(NORMAL))
    assert math.sqrt(CELL * np.square(gaps).sum()) < closeness.NORMAL_EXCESS
    assert 1.5 * 2.0**-20 + 2.0**-32 * gaps.sum() < closeness.NORMAL_ROUNDING
    assert 1.5 * 2.0**-20 + CELL * gaps.max() < 6.2e-6
    assert 1 / math.sqrt(2 * math.pi) < 0.4
    last = norm.isf(CELL)
    chord = (norm.isf(CELL / 4) - last) / 0.75
    assert chord / 2 < 0.21
    assert (norm.pdf(last) / CELL - last) + gaps[-1] / 2 < 0.38  # the mean excess of a normal number, and of the table
    assert 2 * CELL * (0.21 + 0.38) < 2e-5
    assert 2 * 0.8 * 2e-5 + 2 * 2 * 0.4 * math.sqrt(2) * 6.2e-6 < closeness.SIGN_ERROR_GROWTH


def test_constants_of_the_cauchy_and_cell_tables() -> None:
    for law, rounding in ((CAUCHY, closeness.CAUCHY_ROUNDING), (CELLS, closeness.CELL_ROUNDING)):
        assert 1.5 * 2.0**-16 + 2.0**-32 * np.diff(nodes(law)).sum() < rounding
    assert CELL * nodes(CELLS)[-1] < closeness.CELL_EXCESS
    x = (np.arange(200_000) + 0.5) / 200_000
    for k, mean in enumerate(closeness._CAUCHY_CELLS[:8]):
        ends = cauchy.isf((k or 0.25) * CELL), cauchy.isf((k + 1) * CELL)
        excess = np.maximum(0.0, ends[0] + (ends[1] - ends[0]) * x - cauchy.isf((k + x) * CELL)).mean()
        assert excess <= mean * (1 + 1e-6)
        assert excess == pytest.approx(mean, rel=1e-3)
    rest = sum(closeness._TOP / (6 * k**3) for k in range(closeness.END_CELLS, 2**15))
    assert rest <= closeness._CAUCHY_REST
