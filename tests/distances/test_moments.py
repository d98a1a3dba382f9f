"""Centred moments, their split, the published mean and squares, and stacked noise."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.distances.moments import MomentQuantizer, Weights, cube_factor, partition, shares
from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import Distance
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.body import CubeNoise, StackedCubes
from sfumato.privacy.laws import law_from_document
from sfumato.published.moments import PublishedMoments, squares_around_mean
from sfumato.quantizers.box import Box
from tests.distances.runs import built

BOX = Box((0.0, -3.0), (1.0, 5.0))
MOMENTS = MomentQuantizer(BOX, (1, 0), (1 << 20, 1 << 18, 1 << 22, 1 << 21))
ROWS = np.random.default_rng(0).uniform([0, -3], [1, 5], size=(300, 2))


class TestMoments:
    @settings(max_examples=100, deadline=None)
    @given(row=st.tuples(st.floats(-1, 2), st.floats(-9, 9)))
    def test_no_integer_exceeds_its_scale(self, row: tuple[float, float]) -> None:
        encoded = MOMENTS.encode(np.array([row]))[0]
        assert (np.abs(encoded) <= MOMENTS.scales).all() and encoded[-1] == MOMENTS.scales[-1]

    def test_corners_reach_the_scales_and_squares_span_one_and_a_half(self) -> None:
        corner, centre = MOMENTS.encode(np.array([[1.0, 5.0], [0.5, 1.0]]))
        assert corner.tolist() == list(MOMENTS.scales)
        assert centre.tolist() == [0, 0, -MOMENTS.scales[2] // 2, MOMENTS.scales[3]]

    def test_answers_are_exact_everywhere(self) -> None:
        queries = np.random.default_rng(1).uniform(-10, 10, size=(40, 2))
        sums = MOMENTS.encode(ROWS).sum(axis=0).astype(float)
        reading = MOMENTS.weigh(queries, sums)
        assert np.allclose(reading.total, Distance("sqeuclidean").exact_density(ROWS, queries) * 300, rtol=1e-4)
        assert np.allclose(reading.weight_squares, np.square(MOMENTS.weights(queries)).sum(axis=1))
        assert MOMENTS.count(sums) == 300

    def test_sums_of_rows(self) -> None:
        sums = np.zeros(4, dtype=np.int64)
        odd = np.vstack([ROWS, [[np.nan, 1.0], [0.5, np.inf]]])
        assert MOMENTS.accumulate(odd, sums) == 300
        assert np.array_equal(sums, MOMENTS.encode(odd).sum(axis=0))

    @pytest.mark.parametrize("wrong", [{"order": (0, 0)}, {"scales": (1, 1, 1)}, {"scales": (0, 1, 1, 1)}], ids=str)
    def test_impossible_moments_are_refused(self, wrong: dict[str, object]) -> None:
        with pytest.raises(InputError):
            MomentQuantizer(**{"bounds": BOX, "order": (0, 1), "scales": (1, 1, 1, 1), **wrong})  # type: ignore[arg-type]


class TestSplit:
    def test_weights_are_means_over_queries(self) -> None:
        halves = np.array([0.5, 2.0])
        box = Box((-0.5, -2.0), (0.5, 2.0))
        quantizer = MomentQuantizer(box, (0, 1), (1, 1, 1, 1))
        queries = np.random.default_rng(2).uniform(-halves, halves, size=(200_000, 2))
        measured = np.square(quantizer.weights(queries)).mean(axis=0)
        weights = Weights.of(halves)
        assert np.allclose(measured, [*weights.columns, weights.square, weights.number], rtol=0.02)

    @settings(max_examples=50, deadline=None)
    @given(values=st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=6))
    def test_the_partition_is_the_best_one(self, values: list[float]) -> None:
        weights = np.sort(np.array(values))[::-1]

        def cost(sizes: list[int]) -> float:
            ends = np.cumsum(sizes)
            groups = [weights[end - size : end].sum() for size, end in zip(sizes, ends, strict=True)]
            return sum(np.cbrt(cube_factor(size) * group) for size, group in zip(sizes, groups, strict=True))

        count = len(weights)
        every = [
            list(np.diff([0, *cuts, count])) for size in range(count) for cuts in combinations(range(1, count), size)
        ]
        assert cost(partition(weights)) <= min(map(cost, every)) * (1 + 1e-9)

    @settings(max_examples=50, deadline=None)
    @given(costs=st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=40))
    def test_shares_sum_to_one(self, costs: list[float]) -> None:
        split = shares(costs)
        assert sum(split) == 1 and min(split) > 0

    @pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
    @pytest.mark.parametrize("bounds", [(0, 1), [(0, 1), (0, 100), (0, 1e-3)]], ids=["even", "uneven"])
    def test_blocks_spend_epsilon_together_and_have_equal_noise(self, neighbours: str, bounds: object) -> None:
        mechanism = built("moments", metric="sqeuclidean", dimension=3, neighbours=neighbours, bounds=bounds)
        law, scales = mechanism.noise, mechanism.encoder.scales  # type: ignore[attr-defined]
        assert isinstance(law, StackedCubes) and law.block == 5
        ends = np.cumsum([part.size for part in law.parts])
        first = [scales[end - 1] for end in ends]
        factor = 2 if neighbours == "replace" else 1
        reaches = [factor * scale for scale in first]
        if neighbours == "replace":
            reaches[-1] = first[-1] + first[-1] // 2 + 2
        assert sum(part.rate * reach for part, reach in zip(law.parts, reaches, strict=True)) == 1
        variances = [part.variance for part in law.parts]
        assert max(variances) < 1.001 * min(variances)


class TestPublished:
    def test_a_file_with_a_default_box_is_refused(self) -> None:
        """Fourth powers of its lengths are no numbers."""
        far = Box((-2e90, -2e90), (2e90, 2e90), declared=False)
        for made in (MOMENTS, self.GRID):
            document, arrays = made.to_document()
            with pytest.raises(ReleaseFileError, match=r"must lie within 1e\+50"):
                type(made).from_document({**document, "box": far.to_document()}, arrays, None, made.size)

    GRID = PublishedMoments(Box((0.0, 0.0), (1.0, 0.5)), (1.0, 0.0))

    @settings(max_examples=200, deadline=None)
    @given(
        rows=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.5)), max_size=12),
        row=st.tuples(st.floats(0, 1), st.floats(0, 0.5)),
        other=st.tuples(st.floats(0, 1), st.floats(0, 0.5)),
    )
    def test_one_record_moves_the_squares_by_the_diagonal_at_most(
        self, rows: list[tuple[float, float]], row: tuple[float, float], other: tuple[float, float]
    ) -> None:
        most = sum(top**2 for top in self.GRID.tops)

        def around(points: list[tuple[float, float]]) -> int:
            return squares_around_mean(self.GRID.encode(np.array(points).reshape(-1, 2)).sum(axis=0))

        alone, more, replaced = around(rows), around([*rows, row]), around([*rows, other])
        assert 0 <= more - alone <= most
        assert abs(more - replaced) <= most

    def test_answers_without_noise(self) -> None:
        rows, queries = np.random.default_rng(3).random((2, 50, 2)) * [1, 0.5]
        sums = self.GRID.encode(rows).sum(axis=0)
        values = np.array([*sums[:-2], squares_around_mean(sums), 50], dtype=float)
        exact = Distance("sqeuclidean").exact_density(rows, queries) * 50
        assert np.allclose(self.GRID.weigh(queries, values).total, exact, rtol=1e-2)
        with pytest.raises(InputError, match="not linear"):
            self.GRID.weights(queries)


class TestStackedCubes:
    LAW = StackedCubes((CubeNoise(3, Fraction(1, 50)), CubeNoise(2, Fraction(1, 40))))

    def test_blocks_are_drawn_side_by_side(self) -> None:
        noise = self.LAW.sample(SecureBits.seeded(1), 5 * 20_000).reshape(-1, 5)
        for columns, part in ((slice(0, 3), self.LAW.parts[0]), (slice(3, 5), self.LAW.parts[1])):
            assert np.allclose(noise[:, columns].var(axis=0), part.variance, rtol=0.1)
        radii = np.abs(noise[:, :3]).max(axis=1), np.abs(noise[:, 3:]).max(axis=1)
        assert abs(np.corrcoef(*radii)[0, 1]) < 5.5 / np.sqrt(20_000)
        assert np.corrcoef(np.abs(noise[:, 0]), np.abs(noise[:, 1]))[0, 1] > 0.1

    def test_documents(self) -> None:
        assert law_from_document(self.LAW.to_document()) == self.LAW
        assert self.LAW.variance == max(part.variance for part in self.LAW.parts)

    @pytest.mark.parametrize(
        "document",
        [
            {"law": "stacked-cubes", "parts": []},
            {"law": "stacked-cubes", "parts": "no"},
            {"law": "stacked-cubes", "parts": [{"law": "disc", "pairs": 1, "rate": "1/2"}]},
        ],
    )
    def test_damaged_documents_are_refused(self, document: dict[str, object]) -> None:
        with pytest.raises(InputError):
            law_from_document(document)

    def test_half_a_draw_is_refused(self) -> None:
        with pytest.raises(InputError, match="whole draws of 5"):
            self.LAW.sample(SecureBits.seeded(1), 7)
