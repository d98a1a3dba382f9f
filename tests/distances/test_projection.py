"""Projections for l2: exact integers, orthonormal frames, unbiased lengths, clipping, and the embedding's error."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.distances.hats import LaplaceHats
from sfumato.distances.projection import (
    ProjectedQuantizer,
    Projection,
    _by_columns,
    check_projections,
    clipped_share,
    embedding_error,
    kept_parts,
    mean_cosine,
    orthonormal,
)
from sfumato.errors import InputError
from sfumato.kernels import Distance
from sfumato.methods.request import Request
from sfumato.public.ranges import reader_memory
from sfumato.quantizers.answer import Known
from sfumato.quantizers.box import Box
from tests.distances.runs import built

CUBE = Box((0.0,) * 5, (1.0,) * 5)


def test_images_are_exact_whatever_the_rows_around() -> None:
    projection = Projection(Box((0.0,) * 30, (1.0,) * 30), 50, seed=1)
    rows = np.random.default_rng(0).random((3000, 30))
    images = projection.place(rows)
    order = np.random.default_rng(1).permutation(3000)
    assert np.array_equal(images[order], projection.place(rows[order]))
    for size in (1, 13, 1000):
        parts = [projection.place(rows[start : start + size]) for start in range(0, 100 if size == 1 else 3000, size)]
        assert np.array_equal(np.concatenate(parts), images[: sum(map(len, parts))])
    assert np.abs(images - projection.apply(rows)).max() < 1e-6


def test_frames_are_orthonormal_and_the_same_everywhere() -> None:
    vectors = Projection(CUBE, 12, seed=2).directions
    for frame in (vectors[:, :5], vectors[:, 5:10], vectors[:, 10:]):
        assert np.allclose(frame.T @ frame, np.eye(frame.shape[1]), atol=1e-12)
    assert vectors[0, 0].hex() == Projection(CUBE, 7, seed=2).directions[0, 0].hex()
    assert np.allclose(orthonormal(np.array([[2.0]])), [[1.0]])


@pytest.mark.parametrize("dimension", [1, 2, 3, 10, 200])
def test_mean_cosine(dimension: int) -> None:
    normals = np.random.default_rng(3).normal(size=(40_000, dimension))
    cosines = np.abs(normals[:, 0]) / np.linalg.norm(normals, axis=1)
    assert cosines.mean() == pytest.approx(mean_cosine(dimension), rel=0.03)


@pytest.mark.parametrize("frames", [True, False])
def test_lengths_are_unbiased_with_the_variance_of_the_formula(frames: bool) -> None:
    ends = np.array([[0.1, 0.2, 0.3, 0.4, 0.5], [0.9, 0.4, 0.1, 0.8, 0.7]])
    length = np.linalg.norm(ends[0] - ends[1])
    lengths = []
    for seed in range(1500):
        images = Projection(CUBE, 10, seed, frames=frames).apply(ends)
        lengths.append(np.abs(images[0] - images[1]).sum() / length)
    all_of_it = float(embedding_error(5, 10, frames, np.array([1e9]))[0])
    assert np.mean(lengths) == pytest.approx(1, abs=5.5 * all_of_it / np.sqrt(1500))
    assert np.std(lengths) == pytest.approx(all_of_it, rel=0.12)


@pytest.mark.parametrize("dimension", [3, 10])
def test_sums_keep_a_part_of_the_variance(dimension: int) -> None:
    random = np.random.default_rng(4)
    box = Box((0.0,) * dimension, (1.0,) * dimension)
    rows = random.random((500, dimension))
    for frames in (True, False):
        measured, stated = [], []
        for seed in range(150):
            query = random.random((1, dimension))
            projection = Projection(box, dimension, seed, frames=frames)
            exact = np.linalg.norm(rows - query, axis=1).sum()
            sums = np.abs(projection.apply(rows) - projection.apply(query)).sum()
            measured.append(sums / exact - 1)
            away = np.square(query - 0.5).sum() / (dimension / 12)
            stated.append(float(embedding_error(dimension, dimension, frames, np.array([away]))[0]))
        assert np.sqrt(np.mean(np.square(stated))) == pytest.approx(np.sqrt(np.mean(np.square(measured))), rel=0.4)


def test_parts_grow_from_none_to_all() -> None:
    for parts in kept_parts(7, np.array([0.0, 0.5, 1.0, 4.0, 1e8])):
        assert (np.diff(parts) > 0).all() and parts[0] < 0.02 and parts[-1] == pytest.approx(1, abs=1e-6)


def test_clipping_costs_what_is_said() -> None:
    halves, clip = np.full(20, 0.5), 1.5
    corner = np.sign(np.random.default_rng(5).normal(size=(400, 20))) / 2 + 0.5
    box = Box((0.0,) * 20, (1.0,) * 20)
    lost = []
    for seed in range(40):
        projection = Projection(box, 20, seed, clip)
        limits = np.array(projection.box.upper)
        lost.append(np.maximum(np.abs(projection.place(corner)) - limits, 0).sum(axis=1).mean())
    share = np.mean(lost) / np.linalg.norm(halves)
    assert 0.5 * clipped_share(clip) < share < 1.1 * clipped_share(clip)
    even = np.random.default_rng(6).random((2000, 20))
    usual = Projection(box, 20, 0)
    assert (np.abs(usual.place(even)) > np.array(usual.box.upper)).mean() < 1e-3


def test_narrow_boxes_are_not_clipped() -> None:
    line = Projection(Box((0.0,), (1.0,)), 1, seed=0)
    assert line.box.upper[0] == pytest.approx(0.5)
    assert np.abs(line.apply(np.array([[0.0], [1.0]]))).sum() == pytest.approx(1.0)


def test_the_structure_behind_must_fit() -> None:
    quantizer = built("hat", metric="l2", dimension=3).encoder
    assert isinstance(quantizer, ProjectedQuantizer)
    with pytest.raises(InputError, match="own box"):
        ProjectedQuantizer(Projection(CUBE, 3, seed=0), quantizer.inner)
    weights = quantizer.weights(np.full((4, 3), 0.3))
    values = np.random.default_rng(7).normal(size=quantizer.size)
    assert np.allclose(weights @ values, quantizer.read(np.full((4, 3), 0.3), values, Known(1.0)).total)


@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": 5000}, {"clip": 0.1}], ids=str)
def test_impossible_projections_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Projection(**{"bounds": CUBE, "count": 3, "seed": 0, **wrong})  # type: ignore[arg-type]


def test_projections_that_take_a_reader_too_long_are_refused_unless_it_allows_more() -> None:
    wide = Box((0.0,) * 2500, (1.0,) * 2500)
    with pytest.raises(InputError, match="first takes 7.81e[+]09 products.*fewer projections"):
        Projection(wide, 2500, seed=0)
    with reader_memory(2**30):
        assert Projection(wide, 2500, seed=0).count == 2500
    assert Projection(wide, 2500, seed=0, frames=False).count == 2500
    with pytest.raises(InputError, match="MB"):
        Projection(Box((0.0,) * 30_000, (1.0,) * 30_000), 1000, seed=0, frames=False)


def test_the_number_of_projections_is_one_that_readers_draw() -> None:
    request = Request(Distance("l2"), 2500, Fraction(10), n=10**9, feature_seed=0, bounds=(0, 1))
    check_projections(2500, LaplaceHats(request).projections)


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (70, 70), (80, 33)], ids=str)
def test_vectors_are_orthogonalised_alike_whatever_is_done_at_once(shape: tuple[int, int]) -> None:
    vectors = np.random.default_rng(3).normal(size=shape)
    expected = vectors.copy()
    _by_columns(expected)
    assert orthonormal(vectors).tobytes() == expected.tobytes()
