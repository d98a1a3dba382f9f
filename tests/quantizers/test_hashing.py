"""Hash families against their kernels, the universal rehash, and counters as a quantizer."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import L1LSH, L2LSH, Angular, Erfc, Exponential, Gaussian, Hat, Jaccard, Kernel, Laplacian
from sfumato.kernels.base import register
from sfumato.public.portable import PublicStream
from sfumato.quantizers import HashingQuantizer, quantizer_from_document
from sfumato.quantizers.box import Box, Lattice
from sfumato.quantizers.hashes import (
    BallCarving,
    HashFamily,
    Hyperplanes,
    MinHash,
    PStable,
    check_family,
    family_for,
    register_family,
)
from sfumato.quantizers.hashes.counters import Rehash
from sfumato.quantizers.hashes.projections import SpreadStream, normals, uniform_table

BOUNDS = (-2.0, 2.0)
RANDOM = np.random.default_rng(2)
POINTS = np.vstack([RANDOM.uniform(-1.5, 1.5, size=(3, 3)), [[1.9, -1.9, 1.9]]])
POINTS = np.vstack([POINTS, POINTS[0] + 0.05, -POINTS[0]])
SETS = (RANDOM.random((6, 12)) < 0.4).astype(np.float64)
SETS[3] = 0
HASHED: list[tuple[Kernel, NDArray[Any], Any]] = [
    (L1LSH(1.3), POINTS, BOUNDS),
    (L1LSH([0.7, 1.9, 1.2]), POINTS, None),
    (L2LSH(1.3), POINTS, BOUNDS),
    (L2LSH([0.7, 1.9, 1.2]), POINTS, None),
    (L2LSH([[1.4, 0.5, 0.0], [-0.3, 1.1, 0.2], [0.1, 0.0, 0.8]]), POINTS, BOUNDS),
    (Laplacian(1.3), POINTS, BOUNDS),
    (Laplacian([0.7, 1.9, 1.2]), POINTS, None),
    (Hat([2.0, 5.0, 3.0]), POINTS, BOUNDS),
    (Exponential(1.7), POINTS, BOUNDS),
    (Exponential([1.2, 2.0, 1.5]), POINTS, [(-2, 3), (-2, 2), (-5, 2)]),
    (Angular(), POINTS, BOUNDS),
    (Angular(4), POINTS, [(-2, 2), (-2, 3), (-5, 2)]),
    (Angular(9), POINTS, BOUNDS),
    (Erfc(1.3), POINTS[:, :1], BOUNDS),
    (Erfc([1.3, 2.0]), POINTS[:, :2], BOUNDS),
    (Jaccard(), SETS, None),
]
names = [f"{kernel!r}" for kernel, _, _ in HASHED]
hashed = pytest.mark.parametrize(("kernel", "points", "bounds"), HASHED, ids=names)


@hashed
def test_collision_probability_is_the_kernel(kernel: Kernel, points: NDArray[Any], bounds: Any) -> None:
    family = family_for(kernel)
    assert family is not None
    check = check_family(family, kernel, points, bounds=bounds, rows=6000)  # a right family fails once in a million
    assert check.holds, check
    assert check.pairs == 66


@hashed
@pytest.mark.parametrize("spread", [True, False])
def test_features_are_unbiased_for_the_kernel(kernel: Kernel, points: NDArray[Any], bounds: Any, spread: bool) -> None:
    quantizer = HashingQuantizer.draw(
        kernel, points.shape[1], 4000, seed=11, width=32, bounds=bounds, value=3, spread=spread
    )
    lattice, placed = quantizer.family.lattice, np.empty(points.shape)
    lattice.place(points, placed)
    rounded = (placed + lattice.centre) * lattice.steps  # what is hashed, of records and queries alike
    assert (np.abs(rounded - points) <= lattice.steps / 2).all()
    exact = kernel.value(rounded, rounded)
    for i in (0, 3):
        sums = np.zeros(quantizer.size, dtype=np.int64)
        assert quantizer.accumulate(points[i : i + 1], sums) == 1
        terms = quantizer.term_values(points, sums.astype(float))
        error = terms.mean(axis=1) - exact[i]
        # 6 standard errors: false alarm below 1e-8 per comparison. Coins that all fell alike still have their own.
        deviation = np.maximum(terms.std(axis=1), np.sqrt(np.clip(exact[i] * (1 - exact[i]), 0, None)))
        assert (np.abs(error) < 6 * deviation / np.sqrt(quantizer.terms) + 1e-9).all()


class _Overlooking(MinHash):
    """Min-hash that never sees the column which most sets have."""

    def cells(self, coordinates: Any) -> Any:
        blind = coordinates.copy()
        blind[:, SETS.sum(axis=0).argmax()] = 0
        return super().cells(blind)


def _narrower(family: Any) -> Any:
    """Make a family that draws for nine tenths of the bandwidth."""

    class Narrower(family):  # type: ignore[misc]
        @classmethod
        def draw(cls, kernel: Any, *arguments: Any, **named: Any) -> Any:
            return family.draw(type(kernel)(0.9 * kernel.bandwidth), *arguments, **named)

    return Narrower


@pytest.mark.parametrize(
    ("family", "claimed", "points", "bounds"),
    [
        (_narrower(PStable), L2LSH(1.2), POINTS, None),
        (_narrower(Hyperplanes), Exponential(1.3), POINTS, BOUNDS),
        (_narrower(BallCarving), Erfc(1.1), POINTS[:, :1], BOUNDS),
        (_Overlooking, Jaccard(), SETS, None),
        (PStable, L1LSH(1.2), POINTS, None),
    ],
    ids=["p-stable", "hyperplanes", "balls", "min-hash", "right"],
)
def test_a_wrong_claim_is_seen(family: Any, claimed: Any, points: NDArray[Any], bounds: Any) -> None:
    assert check_family(family, claimed, points, bounds=bounds).holds == (family is PStable)


class _Batchwise(MinHash):
    def cells(self, coordinates: Any) -> Any:
        return super().cells(coordinates - (len(coordinates) > 1))


class _Flat(MinHash):
    def cells(self, coordinates: Any) -> Any:
        return super().cells(coordinates)[:, :, 0]


class _Huge(MinHash):
    def cells(self, coordinates: Any) -> Any:
        return super().cells(coordinates) + 2**41


class _Beyond(MinHash):
    def cells(self, coordinates: Any) -> Any:
        return super().cells(coordinates) + 1


@pytest.mark.once
@pytest.mark.parametrize(
    ("family", "message"),
    [(_Batchwise, "rows beside it"), (_Flat, "shape"), (_Huge, r"2\*\*40"), (_Beyond, "13 buckets must give integers")],
)
def test_a_broken_contract_is_named(family: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_family(family, Jaccard(), SETS, rows=50)


class TestRehash:
    """Distinct buckets collide with probability exactly q, however close or far they are."""

    @pytest.mark.parametrize("buckets", [2, 8, 64, 3, 100])
    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ((0,), (1,)),
            ((-1,), (1,)),
            ((7,), (7 + 2**39,)),
            ((-(2**40) + 1,), (2**40 - 1,)),
            ((0,), (2**40 - 2**39,)),
            ((5, 5, 5), (5, 6, 4)),
            ((0, 0), (2**38, 2**38)),
        ],
    )
    def test_pairs_are_uniform(self, buckets: int, first: tuple[int, ...], second: tuple[int, ...]) -> None:
        rows = 40_000
        rehash = Rehash.draw(PublicStream(9, f"pairs {first} {second}"), rows, len(first), buckets)
        cells = np.broadcast_to(np.array([first, second])[:, None, :], (2, rows, len(first))).copy()
        pair = rehash(cells).astype(np.int64)
        collisions = int((pair[0] == pair[1]).sum())
        q = float(rehash.collision)
        assert stats.binomtest(collisions, rows, q).pvalue > 1e-7
        if buckets <= 8:  # every pair of values, not only collisions
            counts = np.bincount(pair[0] * buckets + pair[1], minlength=buckets**2)
            assert stats.chisquare(counts).pvalue > 1e-7

    @pytest.mark.parametrize(
        "triple",
        [
            ((0,), (1,), (2,)),
            ((-1,), (0,), (1,)),
            ((7,), (7 + 2**10,), (7 - 2**10,)),
            ((0,), (2**19,), (2**20 - 1,)),
            ((0, 0), (1, 0), (0, 1)),
            ((3, 4, 5), (3, 4, 6), (2, 4, 5)),
        ],
    )
    def test_three_are_independent(self, triple: tuple[tuple[int, ...], ...]) -> None:
        """A linear hash fails this: it sends z + 1 and z - 1 to the counter of z together."""
        rows = 64_000
        rehash = Rehash.draw(PublicStream(9, f"triple {triple}"), rows, len(triple[0]), 4)
        cells = np.broadcast_to(np.array(triple)[:, None, :], (3, rows, len(triple[0]))).copy()
        counts = np.bincount(np.array([16, 4, 1]) @ rehash(cells).astype(np.int64), minlength=64)
        assert stats.chisquare(counts).pvalue > 1e-7
        cells[:] = np.array([10, 11, 9])[:, None, None]
        linear = Rehash(np.where(np.arange(2 * len(triple[0]) + 1) % 2, np.uint64(0), rehash.keys), 4)
        counts = np.bincount(np.array([16, 4, 1]) @ linear(cells).astype(np.int64), minlength=64)
        assert stats.chisquare(counts).pvalue < 1e-7

    @pytest.mark.once
    @pytest.mark.parametrize("buckets", [2, 64, 2**20])
    def test_powers_of_two_collide_in_exactly_one_of_them(self, buckets: int) -> None:
        assert Rehash.draw(PublicStream(1, "x"), 1, 1, buckets).collision * buckets == 1

    @pytest.mark.once
    @pytest.mark.parametrize("buckets", [3, 100, 1000, 65537])
    def test_others_are_counted(self, buckets: int) -> None:
        values = np.bincount((np.arange(2**24, dtype=np.uint64) * np.uint64(buckets) >> np.uint64(24)).astype(np.int64))
        exact = Rehash.draw(PublicStream(1, "x"), 1, 1, buckets).collision
        assert int((values.astype(object) ** 2).sum()) == exact * 4**24
        assert 0 < exact - 1 / buckets < buckets / 2**48

    def test_a_remainder_would_not_do(self) -> None:
        """Neighbouring buckets never share a remainder; under the rehash they do as often as any others."""
        neighbours = np.tile(np.array([[[10]], [[11]]]), (1, 4000, 1))
        places = Rehash.draw(PublicStream(1, "x"), 4000, 1, 4)(neighbours)
        assert 800 < (places[0] == places[1]).sum() < 1200

    @pytest.mark.once
    @pytest.mark.parametrize("buckets", [0, 1, 2**20 + 1])
    def test_sizes_are_checked(self, buckets: int) -> None:
        with pytest.raises(InputError, match="number of buckets"):
            Rehash.draw(PublicStream(1, "x"), 1, 1, buckets)


class TestSpread:
    """Rows that are spread evenly: each has its law, and their mean varies less."""

    def test_every_row_is_uniform_and_its_columns_independent(self) -> None:
        draws = np.stack([uniform_table(SpreadStream(seed, "law"), 40, 4)[[0, 1, 39]] for seed in range(4000)])
        for row in range(3):
            cells = (draws[:, row] * 4).astype(int) @ [64, 16, 4, 1]
            assert stats.chisquare(np.bincount(cells, minlength=256)).pvalue > 1e-7

    def test_rows_are_spread_evenly(self) -> None:
        first = np.sort(uniform_table(SpreadStream(3, "even"), 1000, 1)[:, 0])
        assert np.diff(first).max() < 3 / 1000
        assert np.diff(np.sort(uniform_table(PublicStream(3, "even"), 1000, 1)[:, 0])).max() > 4 / 1000

    @pytest.mark.once
    def test_normals_are_those_of_the_public_stream(self) -> None:
        uniforms = PublicStream(4, "normals").uniforms(60).reshape(10, 6)
        assert np.array_equal(normals(uniforms).ravel(), PublicStream(4, "normals").normals(60))

    @pytest.mark.exact
    def test_vectors(self) -> None:
        """Fixed numbers for other implementations: the upper 52 bits of each word."""
        table = uniform_table(SpreadStream(2, "vectors"), 3, 2)
        assert (table * 2**52 - 0.5).astype(np.int64).tolist() == SPREAD_VECTORS

    def test_the_mean_over_hashes_varies_less(self) -> None:
        points, queries = np.random.default_rng(1).normal(size=(300, 3)), np.zeros((1, 3))
        errors = {}
        for spread in (True, False):
            answers = []
            for seed in range(120):
                quantizer = HashingQuantizer.draw(L2LSH(0.7), 3, 100, seed, width=1024, spread=spread)
                sums = np.zeros(quantizer.size, dtype=np.int64)
                quantizer.accumulate(points, sums)
                answers.append(quantizer.term_values(queries, sums.astype(float)).mean())
            errors[spread] = np.var(answers)
        # The ratio is about 4: that it falls to 1.5 has probability 1e-7, by an F statistic of 119 and 119 degrees of
        # freedom; without the spread it would exceed 1.5 with probability 0.01.
        assert errors[False] > 1.5 * errors[True]


class TestQuantizer:
    def _draw(self, kernel: Kernel, **arguments: Any) -> HashingQuantizer:
        return HashingQuantizer.draw(kernel, 3, 50, seed=4, **{"width": 16, "bounds": BOUNDS, **arguments})

    @pytest.mark.once
    @pytest.mark.parametrize("debias", [True, False])
    @pytest.mark.parametrize("kernel", [L2LSH(1.0), Laplacian(1.0), Angular(), Angular(7), Exponential(2.0)], ids=repr)
    def test_terms_agree_with_weights(self, kernel: Kernel, debias: bool) -> None:
        quantizer = self._draw(kernel, debias=debias, value=5)
        sums = np.random.default_rng(0).normal(size=quantizer.size)
        slow = (quantizer.weights(POINTS) * sums).reshape(len(POINTS), 50, -1).sum(axis=2)
        np.testing.assert_allclose(quantizer.term_values(POINTS, sums), slow, atol=1e-9)

    @pytest.mark.once
    def test_one_hot_rows_attain_the_bound(self) -> None:
        quantizer = self._draw(L2LSH(1.0), value=7)
        encoded = quantizer.encode(POINTS)
        assert (encoded.reshape(6, 50, 16).sum(axis=2) == 7).all()
        assert (np.abs(encoded).sum(axis=1) == quantizer.bound.l1).all()
        assert ((encoded**2).sum(axis=1) == quantizer.bound.l2_squared).all()
        assert quantizer.count(encoded.sum(axis=0)) == 6
        assert (quantizer.terms, quantizer.width, quantizer.bound.touched) == (50, 16, 50)

    @pytest.mark.once
    def test_few_buckets_have_a_counter_each(self) -> None:
        assert self._draw(Angular(3)).width == 8 and self._draw(Angular(3)).collision == 0
        assert self._draw(Angular(5)).width == 16 and self._draw(Angular(5)).collision == 1 / 16
        sets = HashingQuantizer.draw(Jaccard(), 12, 5, seed=1, width=64)
        assert sets.width == 13 and sets.rehash is None

    @pytest.mark.once
    def test_many_counters_are_filled_in_parts(self) -> None:
        quantizer = HashingQuantizer.draw(L2LSH(1.0), 3, 300, seed=4, width=256, bounds=BOUNDS)
        sums = np.zeros(quantizer.size, dtype=np.int64)
        points = np.random.default_rng(1).normal(size=(1500, 3))
        assert quantizer.accumulate(points, sums) == 1500
        assert len(list(quantizer.hashed(points))) > 3
        expected = sum(quantizer.encode(points[i : i + 100]).sum(axis=0) for i in range(0, 1500, 100))
        assert np.array_equal(sums, expected)

    def test_as_published_the_bias_is_stated(self) -> None:
        quantizer = HashingQuantizer.draw(L2LSH(0.01), 3, 4000, seed=4, width=16, bounds=BOUNDS, debias=False)
        sums = quantizer.encode(POINTS[:1])[0].astype(float)
        terms = quantizer.term_values(POINTS[3:4], sums)
        # Far apart, as the fourth point is from any draw of the first, the kernel is almost 0 and the answer the chance
        # of a shared counter, 1/16; six standard errors.
        assert abs(terms.mean() - quantizer.term_bias) < 6 * 0.25 / np.sqrt(4000) + 0.01
        assert quantizer.term_bias == 1 / 16
        assert self._draw(L2LSH(1.0)).term_bias == 0

    @pytest.mark.once
    @hashed
    def test_documents_rebuild_the_same_counters(self, kernel: Kernel, points: NDArray[Any], bounds: Any) -> None:
        quantizer = HashingQuantizer.draw(kernel, points.shape[1], 20, seed=6, width=8, bounds=bounds, value=2)
        document, arrays = quantizer.to_document()
        document = json.loads(json.dumps(document))
        again = quantizer_from_document(document, arrays, kernel, quantizer.size)
        assert np.array_equal(again.encode(points), quantizer.encode(points))
        assert again.to_document()[0] == document

    @pytest.mark.once
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"rows": 51}, "51 rows of 16 counters"),
            ({"rows": 0}, "quantizer.rows must be a whole number from 1"),
            ({"feature_seed": "5"}, "not the ones it was made with"),
            ({"family": "mine"}, "hash family 'mine' of the release is not known here"),
            ({"spread": False}, "not the ones it was made with"),
        ],
    )
    def test_altered_documents_are_refused(self, change: dict[str, Any], message: str) -> None:
        quantizer = self._draw(L2LSH(1.0))
        document, arrays = quantizer.to_document()
        with pytest.raises(ReleaseFileError, match=message):
            quantizer_from_document({**document, **change}, arrays, L2LSH(1.0), quantizer.size)
        with pytest.raises(ReleaseFileError, match="needs its kernel"):
            quantizer_from_document(document, arrays, None, quantizer.size)

    @pytest.mark.once
    @pytest.mark.parametrize(
        ("kernel", "bounds", "message"),
        [
            (Gaussian(1.0), BOUNDS, "no hash family is known for Gaussian"),
            (Exponential(1.0, p=1.5), BOUNDS, "needs p = 2"),
            (Exponential(1.0), None, "needs bounds="),
            (Exponential(0.001), BOUNDS, "span 12000 bandwidths"),
            (Exponential(np.eye(3)), BOUNDS, "not a matrix"),
            (Laplacian(np.eye(3)), BOUNDS, "not a matrix"),
            (Erfc(1.0), None, "needs bounds="),
            (Erfc(0.1), BOUNDS, "balls for each hash function"),
            (Erfc(np.eye(3)), BOUNDS, "not a matrix"),
            (L2LSH(1e-9), BOUNDS, "too many for exact hashing"),
        ],
        ids=repr,
    )
    def test_refusals(self, kernel: Kernel, bounds: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            self._draw(kernel, bounds=bounds)

    def test_queries_may_lie_anywhere(self) -> None:
        far = np.array([[1e300, -1e300, 0.0], [1e9, 0.0, 0.0]])
        for kernel, points, bounds in HASHED:
            quantizer = HashingQuantizer.draw(kernel, points.shape[1], 10, seed=1, width=8, bounds=bounds)
            queries = np.resize(far, (2, points.shape[1]))
            assert np.isfinite(quantizer.term_values(queries, np.ones(quantizer.size))).all()

    def test_a_point_far_from_the_origin_is_kept_without_bounds(self) -> None:
        """The default box is wide: degrees of longitude at a bandwidth of a hundredth are inside."""
        quantizer = HashingQuantizer.draw(L2LSH(0.01), 2, 2000, seed=1)
        town = np.array([[-73.98, 40.75], [-73.98, 40.76]])
        terms = quantizer.term_values(town, quantizer.encode(town[:1])[0].astype(float))
        exact = L2LSH(0.01).value(town[:1], town)[0]
        assert (np.abs(terms.mean(axis=1) - exact) < 6 * 0.5 / np.sqrt(2000)).all()


@register
class _Parity(Kernel):
    """A user's kernel on whole numbers: 1 for the same number, 1/2 for the same parity, else 0."""

    name = "parity-for-tests"

    def _pairwise(self, X: Any, Y: Any) -> Any:
        same = X[:, :1] == Y[:, 0]
        return np.where(same, 1.0, 0.5 * ((X[:, :1] - Y[:, 0]) % 2 == 0))

    @classmethod
    def with_bandwidth(cls, bandwidth: Any) -> _Parity:
        return cls()

    def to_document(self) -> dict[str, Any]:
        return {"kernel": self.name}

    @classmethod
    def from_document(cls, document: Any) -> _Parity:
        return cls()


@register_family
class _ParityHash(HashFamily):
    """Half of the functions look at the number, the others at its parity."""

    name = "parity-for-tests"
    kernels = (_Parity,)

    def __init__(self, box: Box, coins: NDArray[Any]) -> None:
        self.box, self.coins = box, coins

    @classmethod
    def draw(
        cls, kernel: Any, rows: int, dimension: int, stream: PublicStream, bounds: Any = None, outside: str = "clip"
    ) -> Any:
        return cls(Box.from_bounds((-1000, 1000), dimension, outside), stream.words(rows) >> np.uint64(63))

    @property
    def lattice(self) -> Lattice:
        return Lattice(self.box, (0,) * self.box.dimension)

    @property
    def rows(self) -> int:
        return len(self.coins)

    def cells(self, coordinates: Any) -> Any:
        numbers = coordinates[:, :1].astype(np.int64)
        return np.where(self.coins == 1, numbers, 10_000 + numbers % 2)[:, :, None]

    def parameters(self) -> Any:
        return (self.coins.astype(np.int64),)


def test_a_users_own_family_plugs_in() -> None:
    numbers = np.array([[3.0], [5.0], [8.0], [-13.0]])
    assert check_family(_ParityHash, _Parity(), numbers).holds
    quantizer = HashingQuantizer.draw(_Parity(), 1, 3000, seed=1, width=16)
    terms = quantizer.term_values(numbers, quantizer.encode(numbers).sum(axis=0).astype(float))
    exact = _Parity().value(numbers, numbers).sum(axis=0)
    assert (np.abs(terms.mean(axis=1) - exact) < 6 * terms.std(axis=1) / np.sqrt(3000) + 1e-9).all()
    again = quantizer_from_document(*quantizer.to_document(), _Parity(), quantizer.size)
    assert np.array_equal(again.encode(numbers), quantizer.encode(numbers))


# From the words by 60-digit arithmetic.
SPREAD_VECTORS = [
    [1340619387004324, 1817157700970839],
    [236686536052743, 4383490223170367],
    [3636353312471658, 2446223117999399],
]
