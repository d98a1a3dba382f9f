"""The hat structure: exact integers and norms, the Schauder series, and answers without noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.distances.design import (
    gaussian_split,
    gaussian_units,
    laplace_split,
    laplace_units,
    levels_for,
)
from sfumato.distances.hat import BITS, PROFILE_BITS, HatQuantizer, largest_l1, largest_l2_squared
from sfumato.engines import Threads
from sfumato.errors import InputError
from sfumato.kernels import Distance
from sfumato.quantizers.box import Box
from sfumato.sources import open_source

ONE = 1 << PROFILE_BITS


def laplace_hats(levels: int = 6, columns: int = 1, p: float = 1.0, unit: int = 1 << 24, **box: object) -> HatQuantizer:
    split = laplace_split(p)
    bounds = Box((0.0,) * columns, (1.0,) * columns, **box)  # type: ignore[arg-type]
    return HatQuantizer(Distance("lpp", p), bounds, split.bins, (unit,) * columns, split.profile(levels))


def summed(quantizer: HatQuantizer, rows: np.ndarray) -> np.ndarray:
    sums = np.zeros(quantizer.size, dtype=np.int64)
    quantizer.accumulate(rows, sums)
    return sums


@st.composite
def columns_of_hats(draw: st.DrawFn) -> HatQuantizer:
    """One column with any bins, unit and shares, as small as rounding allows."""
    levels = draw(st.integers(0, 8))
    profile = tuple(draw(st.integers(ONE // 64, ONE)) for _ in range(levels + 1))
    unit = draw(st.integers(64, 1 << 30))
    return HatQuantizer(Distance("l1"), Box((-2.0,), (3.0,)), draw(st.integers(1, 9)), (unit,), profile)


class TestNorms:
    @settings(max_examples=150, deadline=None)
    @given(hats=columns_of_hats(), places=st.lists(st.floats(-2, 3), min_size=1, max_size=30))
    def test_no_record_exceeds_the_bounds(self, hats: HatQuantizer, places: list[float]) -> None:
        encoded = hats.encode(np.array(places)[:, None]).astype(object)
        assert (encoded >= 0).all()
        assert encoded.sum(axis=1).max() <= hats.bound.l1
        assert (encoded**2).sum(axis=1).max() <= hats.bound.l2_squared
        assert encoded.max() <= hats.bound.largest
        assert (encoded[:, : hats.bins + 1].sum(axis=1) == hats.scales[0, 0]).all()

    @settings(max_examples=150, deadline=None)
    @given(unit=st.integers(1 << 10, 1 << 30), levels=st.integers(1, 10), place=st.integers(0, 1 << 16))
    def test_gaussian_hats_are_free(self, unit: int, levels: int, place: int) -> None:
        profile = gaussian_split(1.0).profile(levels)
        hats = HatQuantizer(Distance("l1"), Box((0.0,), (1.0,)), 2, (unit,), profile)
        squares = (hats.encode(np.array([[place / (1 << 16)]])).astype(object) ** 2).sum()
        assert squares <= hats.bound.l2_squared == unit**2 + 2 * unit + 2

    def test_gaussian_hats_fill_the_ball_at_every_place(self) -> None:
        hats = HatQuantizer(Distance("l1"), Box((0.0,), (1.0,)), 2, (1 << 28,), gaussian_split(1.0).profile(12))
        squares = np.square(hats.encode(np.random.default_rng(0).random((500, 1))).astype(float)).sum(axis=1)
        assert np.abs(squares / 2.0**56 - 1).max() < 1e-3

    @pytest.mark.parametrize("levels", [1, 2, 3, 5, 8])
    def test_a_record_reaches_the_l1_bound(self, levels: int) -> None:
        hats = laplace_hats(levels)
        dyadic = np.arange(4 << levels)[:, None] / (4 << levels)
        largest = hats.encode(dyadic).sum(axis=1).max()
        assert hats.bound.l1 - levels <= largest <= hats.bound.l1

    def test_the_bound_of_geometric_levels_stays_below_two_thirds_over_one_minus_the_ratio(self) -> None:
        for ratio in (Fraction(1, 2), Fraction(5, 8), Fraction(3, 4)):
            scales = [int(2**40 * ratio**level) for level in range(30)]
            bound = Fraction(largest_l1((0, *scales)), 2**40)
            limit = Fraction(2, 3) / (1 - ratio)
            assert Fraction(99, 100) * limit * (1 - ratio**30) < bound <= limit

    def test_scales_that_are_not_free_cost_all_of_their_squares(self) -> None:
        assert largest_l2_squared((10, 8)) == 100 + 64 + 22
        assert largest_l1((10,)) == 10

    @pytest.mark.parametrize("columns", [1, 3])
    def test_columns_add_up(self, columns: int) -> None:
        single, several = laplace_hats(4).bound, laplace_hats(4, columns).bound
        assert (several.l1, several.l2_squared) == (columns * single.l1, columns * single.l2_squared)


class TestIntegers:
    def test_linear_binning_and_heights(self) -> None:
        hats = HatQuantizer(Distance("l1"), Box((0.0,), (4.0,)), 4, (1 << 10,), (ONE, ONE, ONE))
        nodes, first, second = np.split(hats.encode(np.array([[1.25]]))[0], [5, 9])
        assert nodes.tolist() == [0, 768, 256, 0, 0]
        assert first.tolist() == [0, 512, 0, 0]  # half way up the first hat
        assert second.tolist() == [0, 0, 1024, 0, 0, 0, 0, 0]  # on top of the second

    def test_edges_and_odd_rows(self) -> None:
        hats = laplace_hats(3, 2)
        rows = np.array([[0.0, 1.0], [-5.0, 9.0], [np.nan, 0.5], [0.5, np.inf]])
        assert np.array_equal(hats.encode(rows), hats.encode(np.array([[0.0, 1.0], [0.0, 1.0]])))
        dropping = laplace_hats(3, 2, outside="drop")
        assert len(dropping.encode(rows)) == 1

    def test_each_row_alone_decides_its_integers(self) -> None:
        hats, rows = laplace_hats(7, 3), np.random.default_rng(1).normal(0.5, 0.4, size=(2000, 3))
        each = hats.encode(rows)
        order = np.random.default_rng(2).permutation(2000)
        assert np.array_equal(each[order], hats.encode(rows[order]))
        assert np.array_equal(each[::3], hats.encode(rows[::3]))
        for threads, size in ((1, 7), (3, 401)):
            sums, kept, _ = Threads(threads, size).sum(open_source(rows), hats)
            assert kept == 2000 and np.array_equal(sums, each.sum(axis=0))

    def test_positions_are_exact_to_the_last_bit(self) -> None:
        hats = laplace_hats(20)
        step = 2.0 ** -(BITS + 2)
        near = hats.encode(np.array([[0.3], [0.3 + step / 4], [0.3 + 2 * step]]))
        assert np.array_equal(near[0], near[1])

    @pytest.mark.parametrize(
        "wrong",
        [
            {"units": (1, 2)},
            {"bins": 0},
            {"units": (0,)},
            {"profile": (0,)},
            {"profile": (ONE, 1)},
            {"units": (1 << 31,)},
            {"profile": (ONE,) * 40},
            {"metric": Distance("l2")},
        ],
        ids=str,
    )
    def test_impossible_structures_are_refused(self, wrong: dict[str, object]) -> None:
        right = {
            "metric": Distance("l1"),
            "bounds": Box((0.0,), (1.0,)),
            "bins": 4,
            "units": (1 << 10,),
            "profile": (ONE,),
        }
        HatQuantizer(**right)  # type: ignore[arg-type]
        with pytest.raises(InputError):
            HatQuantizer(**{**right, **wrong})  # type: ignore[arg-type]


class TestAnswers:
    @pytest.mark.parametrize("p", [1.0, 1.3, 1.7])
    @pytest.mark.parametrize("columns", [1, 3])
    def test_answers_are_exact_up_to_the_last_level(self, p: float, columns: int) -> None:
        random = np.random.default_rng(3)
        rows, queries = random.beta(2, 5, size=(400, columns)), random.uniform(-0.5, 1.5, size=(60, columns))
        exact = Distance("lpp", p).exact_density(rows, queries) * 400
        before = np.inf
        for levels in (2, 5, 9):
            hats = laplace_hats(levels, columns, p)
            missed = hats.weigh(queries, summed(hats, rows).astype(float)).total - exact
            assert missed.min() > -1e-3 and missed.max() < 400 * hats.worst_bias + 1e-3
            assert np.abs(missed).max() < before
            before = np.abs(missed).max()

    def test_the_worst_bias_is_reached_and_the_even_one_is_typical(self) -> None:
        hats = laplace_hats(4)
        middle = np.full((100, 1), 0.5 + hats.last_cell / 2)
        worst = hats.weigh(middle[:1], summed(hats, middle).astype(float)).total
        assert worst[0] == pytest.approx(100 * hats.worst_bias, rel=1e-3)
        even = (np.arange(64_000)[:, None] + 0.5) / 64_000
        queries = even[::97]
        missed = (
            hats.weigh(queries, summed(hats, even).astype(float)).total
            - Distance("l1").exact_density(even, queries) * 64_000
        )
        assert missed.mean() == pytest.approx(64_000 * hats.even_biases.sum(), rel=0.02)

    @pytest.mark.parametrize("at_once", [1, 100, 1 << 16])  # a query and a column, several of either, all
    @pytest.mark.parametrize("p", [1.0, 1.5])
    def test_weights_and_reading_agree(self, p: float, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sfumato.distances.hat.WEIGHTS_AT_ONCE", at_once)
        hats, random = laplace_hats(4, 2, p), np.random.default_rng(4)
        queries, values = random.uniform(-1, 2, size=(25, 2)), random.normal(size=hats.size)
        reading, weights = hats.weigh(queries, values), hats.weights(queries)
        assert np.allclose(reading.total, weights @ values)
        assert np.allclose(reading.weight_squares, np.square(weights).sum(axis=1))
        count = np.array([hats.count(unit) for unit in np.eye(hats.size)])
        assert np.allclose(reading.count_product, weights @ count)
        assert hats.count_squares == pytest.approx(np.square(count).sum())

    def test_the_nodes_hold_the_number_of_records(self) -> None:
        hats, rows = laplace_hats(3, 4), np.random.default_rng(5).random((777, 4))
        assert hats.count(summed(hats, rows)) == pytest.approx(777, rel=1e-12)

    def test_queries_beyond_the_bounds_add_the_rest_of_the_way(self) -> None:
        hats, rows = laplace_hats(8), np.random.default_rng(6).random((50, 1))
        sums = summed(hats, rows).astype(float)
        inside, outside = (hats.weigh(np.array([[y]]), sums).total[0] for y in (1.0, 4.0))
        assert outside - inside == pytest.approx(150)


class TestDesign:
    def test_the_split_for_l1(self) -> None:
        split = laplace_split(1.0)
        assert (split.bins, split.ratio, split.nodes) == (4, Fraction(5, 8), Fraction(37, 50))
        assert split.variance == pytest.approx(5.14, abs=0.01)
        assert gaussian_split(1.0).variance == pytest.approx(0.833, abs=0.001)

    @pytest.mark.parametrize(("levels", "used"), [(1, 0.88), (8, 0.99), (20, 0.9999)])
    def test_shares_cost_no_more_than_the_unit(self, levels: int, used: float) -> None:
        hats = laplace_hats(levels, unit=1 << 30)
        assert used * 2**30 < hats.bound.l1 <= 2**30

    @pytest.mark.parametrize(
        ("lengths", "even"), [([1.0, 1.0], True), ([1.0, 8.0], False), ([1e-6, 1.0, 50.0], False)], ids=str
    )
    def test_columns_share_the_budget_by_their_widths(self, lengths: list[float], even: bool) -> None:
        widths = np.array(lengths)
        for units, power in (
            (laplace_units(1.0, widths, 1 << 30), 2 / 3),
            (gaussian_units(1.0, widths, 2.0**30), 1 / 2),
        ):
            relative = np.array(units) / max(units)
            wanted = (widths / widths.max()) ** power
            assert np.allclose(relative[wanted > 1e-3], wanted[wanted > 1e-3], rtol=1e-3)
            assert (units[0] == units[1]) == even

    def test_levels_go_on_until_the_bias_is_small(self) -> None:
        lengths = np.ones(3)
        depths = [levels_for(1.0, 4, lengths, n, 10.0) for n in (1, 100, 10_000, 10**15)]
        assert depths == sorted(depths) and depths[0] == 1
        for n, levels in ((100, depths[1]), (10_000, depths[2])):
            assert n * 3 / (8 << levels) <= 2.5 < n * 3 / (8 << (levels - 1))
        assert 3 * 4 * 2 ** depths[-1] <= 1 << 20
