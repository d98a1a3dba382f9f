"""Quantizers of every family, for tests that all of them must pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np

from sfumato.kernels import (
    L1LSH,
    Angular,
    Cauchy,
    Circle,
    Curved,
    Exponential,
    Gaussian,
    InnerProduct,
    Jaccard,
    Kernel,
    Laplacian,
    Overlap,
    Product,
    Rational,
    Sphere,
)
from sfumato.kernels.rational import exponential_sum
from sfumato.published.hermite import HermiteQuantizer
from sfumato.published.histogram import HistogramQuantizer
from sfumato.published.polynomials import BernsteinQuantizer, TrigonometricQuantizer
from sfumato.published.synthetic import GridRecords
from sfumato.quantizers import (
    Box,
    Cells,
    CheckedLandmarks,
    ExponentialSums,
    FourierQuantizer,
    GridQuantizer,
    HashingQuantizer,
    InnerProductQuantizer,
    InnerProductSigns,
    LandmarkQuantizer,
    ProjectedPoints,
    Quantizer,
    ShardedFourier,
)
from sfumato.quantizers.clamping import Ball
from sfumato.quantizers.curving import CurvedPoints
from sfumato.quantizers.exponential_sums import draw_terms
from sfumato.quantizers.lattice import LatticeQuantizer
from sfumato.quantizers.nystrom import estimates
from sfumato.quantizers.phases import Phases
from sfumato.quantizers.product_lattice import ProductLattice
from sfumato.quantizers.projection import Projection
from sfumato.quantizers.similarities import similarities


class AssignedCoins:
    """Coins that give each row the group chosen for it, so that a row keeps its group when rows move."""

    def __init__(self, groups: np.ndarray) -> None:
        self.groups, self.used = groups, 0

    def below(self, bound: int, count: int) -> np.ndarray:
        self.used += count
        # A quantizer of several structures asks once for each, and gives a row the same coin in all.
        return np.take(self.groups, np.arange(self.used - count, self.used), mode="wrap") % bound


def _phase() -> Quantizer:
    return FourierQuantizer.draw(Gaussian(0.7), 5, 37, seed=1, layout="phase")


def _pair() -> Quantizer:
    return FourierQuantizer.draw(Gaussian([0.5, 1.0, 2.0, 0.1, 3.0]), 5, 37, seed=2, layout="pair", bounds=(-4, 4))


def _heavy_tail() -> Quantizer:
    return FourierQuantizer.draw(Laplacian(0.7), 5, 2500, seed=3, layout="phase", bounds=(-4, 4))


def _sharded() -> Quantizer:
    return ShardedFourier(Phases.draw(Gaussian(0.7), 5, 60, 4, (-3, 3)), per_group=10, radius=512)


def _grid() -> Quantizer:
    """Three wide columns and two of one node."""
    return GridQuantizer(Gaussian([2.0, 20.0, 1.5, 3.0, 14.0]), Box((-4.0,) * 5, (4.0,) * 5), spacing=0.6)


def _lattice(family: type[LatticeQuantizer] = LatticeQuantizer) -> Quantizer:
    """Enough pairs for two blocks of columns."""
    kernel, box = Gaussian([2.0, 20.0, 1.5, 3.0, 14.0]), Box((-4.0,) * 5, (4.0,) * 5)
    modes = np.array(list(product((1, 2), range(-3, 4), range(-2, 3), (0, 1), (0, 1))), dtype=np.int64)
    amplitudes = 1 + np.arange(len(modes)) % 50
    if family is ProductLattice:
        amplitudes = 200 + 30 * np.stack([np.abs(modes[:, :3]).sum(axis=1), modes[:, 3:].sum(axis=1)], axis=1)
    return family(kernel, box, (6.0, 2.0, 9.0, 5.0, 2.0), modes, amplitudes, 4096 * 60)


def _hashed_grid() -> Quantizer:
    return GridQuantizer(Laplacian([2.0, 20.0, 1.5, 3.0, 14.0]), Box((-4.0,) * 5, (4.0,) * 5), 0.4, 2, buckets=256)


def _histogram() -> Quantizer:
    return HistogramQuantizer(Gaussian([2.0, 20.0, 1.5, 3.0, 14.0]), Box((-4.0,) * 5, (4.0,) * 5), spacing=0.6)


def _hermite() -> Quantizer:
    box = Box((-4.0,) * 5, (4.0,) * 5)
    return HermiteQuantizer(Gaussian([3.0, 20.0, 9.0, 7.0, 14.0]), box, rho=2, cutoff="fixed", repetitions=2)


def _bernstein() -> Quantizer:
    return BernsteinQuantizer(Laplacian(2.0), Box((-9.0,) * 5, (9.0,) * 5), degree=2, scale=2**15, density=0.02)


def _even_trig() -> Quantizer:
    return TrigonometricQuantizer(Cauchy(3.0), Box((-4.0,) * 5, (4.0,) * 5), degree=3, scale=2**15, density=0.02)


def _grid_records() -> Quantizer:
    return GridRecords(Gaussian(2.0), Box((-3.0,) * 5, (3.0,) * 5), (2, 3, 1, 4, 3), scale=1024)


def _exponential_sums() -> Quantizer:
    kernel, made = Rational(2.0, "l1"), exponential_sum(1.0, 0.1)
    drawn = draw_terms(kernel, made, 5, (4, 10, 6), 4, (-4, 4), "clip")
    sizes = zip(drawn, (2, 5, 6), (64, 512, 300), strict=True)
    return ExponentialSums(made, tuple(ShardedFourier(phases, group, radius) for phases, group, radius in sizes))


def _projected(kind: str) -> Quantizer:
    kernel, projection = Gaussian(0.7), Projection(Box((-4.0,) * 5, (4.0,) * 5), kind, columns=3, seed=5)
    inner = FourierQuantizer.draw(kernel, 3, 37, seed=1, bounds=projection.box)
    return ProjectedPoints(projection, inner, kernel)


def _curved() -> Quantizer:
    """A circle and a sphere among five columns."""
    kernel = Curved(Gaussian([2.0, 1.0, 1.0, 3.0, 3.0, 3.0, 2.0]), {1: Circle(7.0), (2, 4): Sphere(5.0)})
    inner = FourierQuantizer.draw(kernel.images, 7, 37, seed=1, bounds=(-5, 5))
    return CurvedPoints(kernel, inner, Box((-5.0, 0.0, -90.0, -5.0, -180.0), (5.0, 7.0, 90.0, 5.0, 180.0)))


def _cells(inner: Quantizer) -> Quantizer:
    """Two of five columns are categories."""
    kinds = {1: Overlap(["a", "b", "c"], mismatch=0.3), 4: Overlap(["d"], unseen="other")}
    return Cells(Product(Gaussian(2.0), kinds), inner)


def _cells_of_groups() -> Quantizer:
    return _cells(ShardedFourier(Phases.draw(Gaussian(2.0), 3, 12, 4, (-3, 3)), per_group=3, radius=512))


def _cells_of_grids() -> Quantizer:
    return _cells(GridQuantizer(Gaussian(2.0), Box((-4.0,) * 3, (4.0,) * 3), spacing=0.8))


def _p_stable() -> Quantizer:
    return HashingQuantizer.draw(L1LSH([0.7, 1.0, 2.0, 0.4, 3.0]), 5, 60, seed=5, width=10, bounds=(-4, 4))


def _binning() -> Quantizer:
    return HashingQuantizer.draw(Laplacian(1.7), 5, 30, seed=6, width=16, value=3)


def _signs() -> Quantizer:
    return HashingQuantizer.draw(Angular(2), 5, 30, seed=7, width=16, bounds=(-3, 5), spread=False)


def _hyperplanes() -> Quantizer:
    return HashingQuantizer.draw(Exponential(8.0), 5, 20, seed=8, width=8, bounds=(-4, 4))


def _min_hash() -> Quantizer:
    return HashingQuantizer.draw(Jaccard(), 5, 40, seed=9, width=16)


def _landmarks(kernel: Kernel, rank: int) -> Quantizer:
    fitted = similarities(kernel, np.random.default_rng(3).normal(size=(40, 5)))
    return LandmarkQuantizer.fit(fitted, estimates(fitted, [rank])[0], scale=2**15)


def _checked(columns: int = 5) -> Quantizer:
    kernel = Gaussian(2.0)
    fitted = similarities(kernel, np.random.default_rng(3).normal(size=(40, columns)), (-4, 4))
    own = LandmarkQuantizer.fit(fitted, estimates(fitted, [12])[0], scale=2**15)
    return CheckedLandmarks(own, ShardedFourier(Phases.draw(kernel, columns, 40, 6, (-4, 4)), 4, 2**9))


def _cells_of_landmarks() -> Quantizer:
    return _cells(_checked(3))


def _ball() -> Ball:
    return Ball.around(InnerProduct(2.0), 5, 2**15)


QUANTIZERS: dict[str, Callable[[], Quantizer]] = {
    "phase": _phase,
    "pair": _pair,
    "heavy-tail": _heavy_tail,
    "sharded": _sharded,
    "grid": _grid,
    "lattice": _lattice,
    "product lattice": lambda: _lattice(ProductLattice),
    "hashed-grid": _hashed_grid,
    "histogram": _histogram,
    "hermite": _hermite,
    "bernstein": _bernstein,
    "even-trig": _even_trig,
    "exponential-sums": _exponential_sums,
    "grid-records": _grid_records,
    "curved": _curved,
    "projected-dense": partial(_projected, "dense"),
    "projected-fast": partial(_projected, "fast"),
    "cells-sharded": _cells_of_groups,
    "cells-grid": _cells_of_grids,
    "cells-checked": _cells_of_landmarks,
    "p-stable": _p_stable,
    "binning": _binning,
    "signed-projections": _signs,
    "hyperplanes": _hyperplanes,
    "min-hash": _min_hash,
    "landmarks": partial(_landmarks, Gaussian(np.diag([2.0, 3.0, 1.5, 2.0, 4.0]) + 0.2), 12),
    "landmarks-portable": partial(_landmarks, Laplacian(4.0), 3),
    "landmarks-row-by-row": partial(_landmarks, Angular(), 8),
    "checked-landmarks": _checked,
    "inner-product": lambda: InnerProductQuantizer(_ball(), clip=None),
    "inner-product-rotated": lambda: InnerProductQuantizer(_ball(), clip=1.5, seed=4),
    "inner-product-signs": lambda: InnerProductSigns(_ball(), draws=30, seed=4),
}
