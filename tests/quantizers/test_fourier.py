from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import Cauchy, Gaussian, Kernel, Laplacian, ShiftInvariant, StableExponential
from sfumato.public.portable import PublicStream
from sfumato.quantizers import FourierQuantizer, Quantizer, ShardedFourier, quantizer_from_document
from sfumato.quantizers.base import Known, LinearReader, TermReader
from sfumato.quantizers.checked import CheckedLandmarks
from sfumato.quantizers.cosines import cosine_table
from sfumato.quantizers.fourier import cosine_terms
from sfumato.quantizers.phases import Phases
from tests.quantizers.families import AssignedCoins

KERNELS = [
    Gaussian(0.8),
    Gaussian([0.5, 2.0]),
    Gaussian([[1.0, 0.3], [0.0, 0.5]]),
    Laplacian(1.3),
    Cauchy(0.9),
    StableExponential(1.1, p=1.5),
]
X = np.array([[0.2, -0.4], [1.0, 0.3], [-0.7, 0.1]])
Y = np.array([[0.0, 0.0], [0.9, -0.2]])


@pytest.mark.parametrize("layout", ["phase", "pair"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_features_are_unbiased_for_the_kernel(kernel: Kernel, layout: str) -> None:
    quantizer = FourierQuantizer.draw(kernel, 2, 40_000, seed=11, layout=layout, bounds=(-8, 8))
    exact = kernel.value(X, Y)
    for i, row in enumerate(quantizer.encode(X)):
        terms = quantizer.term_values(Y, row.astype(float))
        error = terms.mean(axis=1) - exact[i]
        # 6 standard errors: false alarm below 1e-8 per comparison
        assert (np.abs(error) < 6 * terms.std(axis=1) / np.sqrt(quantizer.terms)).all()
        # A pair's variance is at most 1/2, a phase's at most 1, of which the root has a standard error of 0.0028.
        assert terms.std(axis=1).max() < 1.02


def test_terms_agree_with_weights(quantizer: Quantizer) -> None:
    if isinstance(getattr(quantizer, "inner", quantizer), CheckedLandmarks):
        return  # how far it corrects the sums decide: test_checked.py and test_cells.py hold its answers to the truth
    queries = np.random.default_rng(3).normal(size=(7, 5))
    sums = np.random.default_rng(4).normal(size=quantizer.size)
    slow = (quantizer.weights(queries) * sums).reshape(7, quantizer.terms, quantizer.width).sum(axis=2)
    if isinstance(quantizer, LinearReader):
        slow, fast = slow[:, 0], quantizer.weigh(queries, sums).total
    elif isinstance(quantizer, TermReader):
        fast = quantizer.term_values(queries, sums)
    else:
        slow, fast = slow.mean(axis=1), quantizer.read(queries, sums, Known(1.0)).total
    assert np.allclose(fast, slow, atol=1e-9 * np.abs(sums).max())


def test_sharded_groups_sum_to_all_records() -> None:
    sharded = ShardedFourier(Phases.draw(Gaussian(0.8), 2, 4000, 5, (-8, 8)), per_group=20, radius=512)
    # Every record once in every group: G times the mean over the terms is then G * sum of k, per record set.
    groups = np.repeat(np.arange(200), 3)
    sums = sharded.encode(np.tile(X, (200, 1)), AssignedCoins(groups)).sum(axis=0)
    terms = sharded.term_values(Y, sums.astype(float)) / 200
    error = terms.mean(axis=1) - Gaussian(0.8).value(X, Y).sum(axis=0)
    assert (np.abs(error) < 6 * terms.std(axis=1) / np.sqrt(4000)).all()


def test_more_groups_than_16_bits_sum_to_each_row_in_its_own() -> None:
    sharded = ShardedFourier(Phases.draw(Gaussian(0.8), 2, 2**16 + 300, 5, (-8, 8)), per_group=1, radius=512)
    groups = np.array([7, 2**16 + 7, 7, 2**16 + 299, 299, 0, 2**16])
    rows, sums = np.random.default_rng(1).normal(size=(len(groups), 2)), np.zeros(sharded.size, dtype=np.int64)
    assert sharded.accumulate(rows, sums, AssignedCoins(groups)) == len(rows)
    assert np.array_equal(sums, sharded.encode(rows, AssignedCoins(groups)).sum(axis=0))


def test_sharded_features_refuse_to_run_without_coins() -> None:
    sharded = ShardedFourier(Phases.draw(Gaussian(0.8), 2, 40, 5), per_group=20, radius=512)
    with pytest.raises(InputError, match="secret coins"):
        sharded.encode(X)


@pytest.mark.parametrize("radius", [2, 3, 4, 127, 512, 32767])
def test_no_pair_of_the_table_leaves_its_disc(radius: int) -> None:
    table = cosine_table(radius).astype(np.int64)
    sine = np.roll(table, len(table) // 4)
    assert (table**2 + sine**2 <= radius**2).all()
    assert np.abs(table).max() >= radius - 1


def test_rounding_at_the_full_radius_would_leave_the_disc() -> None:
    angles = 2 * np.pi * (np.arange(4096) + 0.5) / 4096
    outside = np.rint(127 * np.cos(angles)) ** 2 + np.rint(127 * np.sin(angles)) ** 2 > 127**2
    assert outside.mean() > 0.3


def test_cosine_terms_are_cosines() -> None:
    turns = np.random.default_rng(0).uniform(-1000, 1000, size=(50, 40))
    lengths, shifts = np.arange(40) - 20.0, np.linspace(-1, 1, 40)
    expected = lengths * np.cos(2 * np.pi * (turns - shifts))
    cosine_terms(turns, lengths, shifts)
    assert np.abs(turns - expected).max() < 1e-7


def test_phases_are_the_exact_integers() -> None:
    phases = Phases.draw(Laplacian(0.3), 3, 50, seed=8, bounds=(-5, 5))
    points = np.random.default_rng(1).uniform(-5, 5, size=(20, 3))
    coordinates = np.empty((20, 3))
    phases.lattice.place(points, coordinates)
    for row, integers in zip(coordinates, phases.integers(points), strict=True):
        for term in range(50):
            exact = sum(int(x) * int(w) for x, w in zip(row, phases.frequencies[:, term], strict=True))
            assert integers[term] == (exact + int(phases.offsets[term])) % 2**phases.bits


def test_heavy_tails_wrap_to_half_a_turn_per_step() -> None:
    phases = Phases.draw(Laplacian(1.0), 2, 20_000, seed=9, bounds=(-4, 4))
    assert np.abs(phases.frequencies).max() <= 2 ** (phases.bits - 1)


@pytest.mark.parametrize("kernel", [*KERNELS, "custom"], ids=repr)
@pytest.mark.parametrize("sharded", [False, True])
def test_a_quantizer_survives_its_document(kernel: Kernel | str, sharded: bool) -> None:
    if isinstance(kernel, str):
        kernel = ShiftInvariant(_profile, _sampler, 1.0, name="mine")
    phases = Phases.draw(kernel, 2, 40, seed=10, bounds=(-4, 4))
    quantizer = ShardedFourier(phases, 20, 512) if sharded else FourierQuantizer(phases, "pair", 512)
    document, arrays = quantizer.to_document()
    again = quantizer_from_document(document, arrays, kernel, size=80)
    assert np.array_equal(again.term_values(Y, np.ones(80)), quantizer.term_values(Y, np.ones(80)))
    assert bool(arrays) == (phases.seed is None) == (not kernel.portable)


def test_another_draw_of_frequencies_is_noticed() -> None:
    document, arrays = FourierQuantizer.draw(Gaussian(1.0), 2, 40, seed=10).to_document()
    document["phases"]["feature_seed"] = "11"
    with pytest.raises(ReleaseFileError, match="not the ones it was made with"):
        quantizer_from_document(document, arrays, Gaussian(1.0), size=80)


def test_unknown_quantizer_is_named() -> None:
    with pytest.raises(ReleaseFileError, match="unknown quantizer 'wavelet'"):
        quantizer_from_document({"quantizer": "wavelet"}, {}, None, size=80)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layout": "triple"}, "'phase' or 'pair'"),
        ({"radius": 1}, "radius"),
        ({"bounds": (-1e12, 1e12)}, "tighter bounds"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FourierQuantizer.draw(Gaussian(1.0), 2, 10, seed=1, **arguments).encode(X)


@pytest.mark.parametrize(("dimension", "bandwidths"), [(1, 2**17), (10, 2**16), (300, 2**14), (1000, 2**14)])
def test_default_box_is_wide(dimension: int, bandwidths: int) -> None:
    phases = Phases.draw(Gaussian(0.01), dimension, 50, seed=1)
    assert min(phases.lattice.box.upper) >= 0.01 * bandwidths


def _profile(differences: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-(differences**2).sum(axis=-1)))


def _sampler(stream: PublicStream, count: int, dimension: int) -> np.ndarray:
    return np.sqrt(2) * stream.normals(count * dimension).reshape(dimension, count)
