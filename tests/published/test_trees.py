"""The published tree and the consistent one: tilings, geometric intervals, least squares, and their variances."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.kernels import Distance
from sfumato.published import tree
from sfumato.published.tree import BinaryTree, IntervalTree
from sfumato.published.trees import ConsistentTree, column_epsilon, consistent_scales, mean_distance
from sfumato.quantizers.box import Box
from tests.distances.runs import built, request

UNIT = Box((0.0,), (1.0,))


def naive_intervals(leaves: np.ndarray, y: float, alpha: float) -> float:
    """Algorithm 3 of the paper on exact leaf counts."""
    size, answer = len(leaves), 0.0
    middle = round(y * size)
    for step in range(math.ceil(math.log(size) / math.log(1 + alpha)) + 1):
        far, near = (1 + alpha) ** -step, (1 + alpha) ** -(step + 1)
        right = leaves[max(middle + round(near * size), 0) : max(middle + round(far * size), 0)].sum()
        left = leaves[max(middle - round(far * size), 0) : max(middle - round(near * size), 0)].sum()
        answer += far * (left + right)
    return answer


class TestTree:
    def test_counts_of_every_level(self) -> None:
        tree = IntervalTree(Distance("l1"), Box((0.0,), (8.0,)), (5, 3, 2))
        assert tree.encode(np.array([[4.5], [8.0], [-1.0]])).tolist() == [
            [5, 0, 3, 0, 0, 2, 0],
            [5, 0, 3, 0, 0, 0, 2],
            [5, 3, 0, 2, 0, 0, 0],
        ]
        assert (tree.bound.l1, tree.bound.l2_squared, tree.bound.largest) == (10, 38, 5)

    def test_sums_of_rows_and_odd_rows(self) -> None:
        tree = IntervalTree(Distance("l1"), Box((0.0,) * 2, (1.0,) * 2, "drop"), (1,) * 6)
        rows = np.random.default_rng(0).normal(0.5, 0.5, size=(300, 2))
        rows[::50] = np.nan
        sums = np.zeros(tree.size, dtype=np.int64)
        assert tree.accumulate(rows, sums) == int(UNIT.holds(rows[:, :1])[UNIT.holds(rows[:, 1:])].sum())
        assert np.array_equal(sums, tree.encode(rows).sum(axis=0))

    @pytest.mark.parametrize("alpha", [0.05, 0.1, 0.5])
    def test_geometric_intervals(self, alpha: float) -> None:
        rows = np.random.default_rng(1).random((200, 1))
        tree = IntervalTree(Distance("l1"), UNIT, (1,) * 9, alpha=alpha)
        sums = tree.encode(rows).sum(axis=0).astype(float)
        queries = np.linspace(0.001, 0.999, 37)[:, None]
        reading = tree.weigh(queries, sums)
        wanted = [naive_intervals(sums[255:], float(y), alpha) for y in queries[:, 0]]
        assert np.allclose(reading.total, wanted)
        exact = Distance("l1").exact_density(rows, queries) * 200
        assert (reading.total > exact - 200 / 256).all() and (reading.total < (1 + alpha) * exact + 400 / 256).all()
        assert np.allclose(reading.bias * 200, alpha / 2 * reading.total)

    @pytest.mark.parametrize("p", [1.0, 1.5])
    def test_weights_and_reading_agree(self, p: float) -> None:
        tree = IntervalTree(Distance("lpp", p), Box((0.0,) * 2, (1.0, 2.0)), (3, 2, 1, 1, 1))
        random = np.random.default_rng(2)
        queries, values = random.uniform(-0.5, 2.5, size=(20, 2)), random.normal(size=tree.size)
        reading, weights = tree.weigh(queries, values), tree.weights(queries)
        assert np.allclose(reading.total, weights @ values)
        assert np.allclose(reading.weight_squares, np.square(weights).sum(axis=1))
        count = np.array([tree.count(unit) for unit in np.eye(tree.size)])
        assert np.allclose(reading.count_product, weights @ count)

    def test_powers_beyond_the_bounds(self) -> None:
        tree = IntervalTree(Distance("lpp", 1.5), UNIT, (1,) * 11, alpha=0.02)
        rows = np.random.default_rng(3).random((100, 1))
        sums = tree.encode(rows).sum(axis=0).astype(float)
        queries = np.array([[3.0], [-2.0]])
        exact = Distance("lpp", 1.5).exact_density(rows, queries) * 100
        assert np.allclose(tree.weigh(queries, sums).total, exact, rtol=0.04)

    @pytest.mark.parametrize("wrong", [{"scales": (1,)}, {"scales": (1, 0)}, {"alpha": 0.0}, {"alpha": 1.0}], ids=str)
    def test_impossible_trees_are_refused(self, wrong: dict[str, object]) -> None:
        with pytest.raises(InputError):
            IntervalTree(**{"metric": Distance("l1"), "bounds": UNIT, "scales": (1, 1), **wrong})  # type: ignore[arg-type]
        with pytest.raises(InputError, match="for l1"):
            ConsistentTree(Distance("lpp", 1.5), UNIT, (1, 1))


def design_matrix(tree: BinaryTree) -> np.ndarray:
    """Which leaves every node counts, times its scale."""
    rows = []
    for level, scale in enumerate(tree.scales):
        width = tree.leaves >> level
        rows += [
            [scale * (width * node <= leaf < width * (node + 1)) for leaf in range(tree.leaves)]
            for node in range(1 << level)
        ]
    return np.array(rows, dtype=float)


class TestConsistent:
    TREE = ConsistentTree(Distance("l1"), UNIT, (9, 7, 6, 5, 3, 2, 2))

    def test_leaves_are_the_least_squares_estimate(self) -> None:
        values = np.random.default_rng(4).normal(size=self.TREE.size)
        wanted = np.linalg.lstsq(design_matrix(self.TREE), values, rcond=None)[0]
        assert np.allclose(self.TREE.consistent_leaves(values), wanted)

    def test_the_variance_has_a_closed_form(self) -> None:
        queries = np.linspace(-0.5, 1.5, 41)[:, None]
        reading = self.TREE.weigh(queries, np.zeros(self.TREE.size))
        exact = np.square(self.TREE.weights(queries)).sum(axis=1)
        assert np.allclose(reading.weight_squares, exact, rtol=0.01)
        count = np.array([self.TREE.count(unit) for unit in np.eye(self.TREE.size)])
        assert self.TREE.count_squares == pytest.approx(np.square(count).sum())
        assert np.allclose(reading.count_product, self.TREE.weights(queries) @ count, rtol=0.01)

    def test_mean_distance(self) -> None:
        y = np.array([-1.0, 0.2, 0.9, 3.0])
        wanted = [np.abs(value - (np.arange(10_000) + 0.5) / 10_000).mean() for value in y]
        assert np.allclose(mean_distance(y, 0.0, 1.0), wanted, atol=1e-6)

    def test_uneven_budgets_are_better_than_even_ones(self) -> None:
        y = (np.arange(64) + 0.5) / 64
        uneven = ConsistentTree(Distance("l1"), UNIT, consistent_scales(10, 1 << 20))
        even = ConsistentTree(Distance("l1"), UNIT, (1,) * 11)
        costs = [float(tree.variance(y).mean() * sum(tree.scales) ** 2) for tree in (uneven, even)]
        assert costs[0] < 0.7 * costs[1]


def test_columns_compose_by_the_paper_where_that_is_better() -> None:
    assert column_epsilon(request(dimension=4), 4) == Fraction(1, 4)
    assert column_epsilon(request(dimension=2, delta=1e-6), 2) == Fraction(1, 2)
    one = float(column_epsilon(request(dimension=400, delta=1e-6), 400))
    assert one > 1 / 400
    assert 400 * one**2 / 2 + one * math.sqrt(800 * math.log(1e6)) == pytest.approx(1, rel=1e-4)


def test_noise_covers_all_levels_and_columns() -> None:
    mechanism = built("tree-published", dimension=3, options={"depth": 4})
    assert mechanism.noise.to_document()["rate"] == "1/15"
    assert built("tree-published", neighbours="replace", options={"depth": 4}).noise.to_document()["rate"] == "1/10"


def test_intervals_beyond_the_box_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []

    def held(value: float, low: int, high: int) -> int:
        looked.append(value)
        return int(min(max(value, low), high))

    monkeypatch.setattr(tree, "held", held)
    y = np.array([1e50, -1e10, 0.5])
    reach, sums = np.maximum(1.0, np.maximum(y, 1 - y)), np.array([3.0, 2.0, 1.0])
    totals, _ = tree._read.py_func(y, reach, 1.01, 1.5, 20_000, sums, np.array([1, 1]), np.empty((0, 0)))
    assert totals[:2] == pytest.approx([3e75, 3e15]) and len(looked) < 4 * 200
