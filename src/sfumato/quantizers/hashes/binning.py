"""Random binning: a grid with random widths and offsets in every column; the bucket is the cell.

Source: A. Rahimi and B. Recht, "Random features for large-scale machine learning", NIPS 2007
(Wagner et al. 2023, C.4). With width w and a uniform offset two numbers share a cell with probability max(0, 1
- |x - y| / w): the product over the columns is the kernel `Hat`. With random widths of density w exp(-w), the sum of
two exponential numbers, the mean of that hat is exp(-|x - y|): the kernel `Laplacian`. Other mixtures of hats need
another law of the widths only.

Approximation: widths are at least 2**-12 bandwidths (narrower ones have probability 3e-8), and points are displaced
by at most 2**-9 bandwidths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.kernels import Hat, Laplacian
from sfumato.public import portable
from sfumato.public.streams import PublicStream
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Lattice
from sfumato.quantizers.hashes.base import HashFamily, register_family
from sfumato.quantizers.hashes.projections import Projections
from sfumato.quantizers.hashes.spread import uniform_table

NARROWEST = 2.0**-12


@register_family
@dataclass(frozen=True, eq=False)
class Binning(HashFamily):
    """One grid a hash function; a bucket has one integer for each column."""

    _lattice: Lattice
    bits: int
    slopes: Floats
    offsets: Floats

    name = "binning"
    kernels = (Laplacian, Hat)

    @classmethod
    def refuse(cls, kernel: Laplacian | Hat, dimension: int, bounds: Any) -> str | None:
        """Grids have axes."""
        if len(kernel.scale.shape) == 2:
            return f"hashing {kernel.name} needs one bandwidth, or one for each column, not a matrix"
        return None

    @classmethod
    def draw(
        cls,
        kernel: Laplacian | Hat,
        rows: int,
        dimension: int,
        stream: PublicStream,
        bounds: Any = None,
        outside: str = "clip",
    ) -> Binning:
        """Draw for each hash function an offset and, if it is random, a width for every column."""
        parts = 3 if isinstance(kernel, Laplacian) else 1
        uniforms = uniform_table(stream, rows, parts * dimension).reshape(rows, parts, dimension)
        widths = np.ones((rows, dimension))
        if parts == 3:
            widths = -(portable.log(uniforms[:, 1]) + portable.log(uniforms[:, 2]))
        scales = kernel.scale.column_lengths(dimension)
        slopes = 1.0 / (np.maximum(widths, NARROWEST) * scales)
        # As projections on the axes, all columns share one exact grid.
        steepest = Projections.fit(np.diag(slopes.max(axis=0)), scales, np.ones(dimension), bounds, outside)
        lattice, bits = steepest.lattice, steepest.bits
        offsets = np.floor(np.ldexp(uniforms[:, 0], bits))
        return cls(lattice, bits, np.rint(np.ldexp(slopes * lattice.steps, bits)), offsets)

    @property
    def lattice(self) -> Lattice:
        """The grid on which points become integers."""
        return self._lattice

    @property
    def rows(self) -> int:
        """One grid each."""
        return len(self.slopes)

    @property
    def length(self) -> int:
        """One integer for each column."""
        return int(self.slopes.shape[1])

    def cells(self, coordinates: Floats) -> Integers:
        """Cells of the grids; every product stays below 2**51."""
        cells = np.empty((len(coordinates), *self.slopes.shape), dtype=np.int64)
        _bin(coordinates, self.slopes, self.offsets, math.ldexp(1.0, -self.bits), cells)
        return cells

    def part(self, start: int, stop: int) -> Binning:
        """Return some of the functions."""
        return replace(self, slopes=self.slopes[start:stop], offsets=self.offsets[start:stop])

    def parameters(self) -> tuple[NDArray[Any], ...]:
        """Cells per lattice step and offsets, in units of 2**-bits cells."""
        return self.slopes.astype(np.int64), self.offsets.astype(np.int64)


@njit(nogil=True, cache=True)
def _bin(coordinates, slopes, offsets, unit, cells):  # type: ignore[no-untyped-def]
    for i in range(coordinates.shape[0]):
        for r in range(slopes.shape[0]):
            for j in range(slopes.shape[1]):
                cells[i, r, j] = np.int64(np.floor((coordinates[i, j] * slopes[r, j] + offsets[r, j]) * unit))
