"""Signed projections: the bucket is on which side of `power` random hyperplanes through the origin a point lies.

Two points lie on the same side of one with probability 1 - theta / pi, of all with its power: the kernel `Angular`.
The signs are the bits of one integer. Lengths do not matter, but the lattice does: without bounds it covers [-1, 1]
in every column, which holds unit vectors; rounding turns a vector of length l by at most 2**-20 sqrt(columns) / l.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.kernels import Angular
from sfumato.public.streams import PublicStream
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Box, Lattice
from sfumato.quantizers.hashes.base import HashFamily, register_family
from sfumato.quantizers.hashes.projections import Projections
from sfumato.quantizers.hashes.spread import normals, uniform_table

UNIT_BOUNDS = (-1.0, 1.0)


@register_family
@dataclass(frozen=True, eq=False)
class SignedProjections(HashFamily):
    """`power` hyperplanes a hash function; the bucket is their signs as one integer."""

    projections: Projections
    power: int

    name = "signed-projections"
    kernels = (Angular,)

    @classmethod
    def draw(
        cls, kernel: Angular, rows: int, dimension: int, stream: PublicStream, bounds: Any = None, outside: str = "clip"
    ) -> SignedProjections:
        """Draw `power` normal directions for each hash function."""
        bounds = UNIT_BOUNDS if bounds is None else bounds
        count, even = rows * kernel.power, 2 * ((dimension + 1) // 2)
        numbers = normals(uniform_table(stream, rows, kernel.power * even)).reshape(count, even)
        directions = np.ascontiguousarray(numbers[:, :dimension].T)
        scales = Box.from_bounds(bounds, dimension, outside).half_widths
        projections = Projections.fit(directions, scales, np.zeros(count), bounds, outside, centred=False)
        return cls(projections, kernel.power)

    @classmethod
    def buckets(cls, kernel: Angular, dimension: int, bounds: Any) -> int:
        """Every combination of signs."""
        return 1 << kernel.power

    @classmethod
    def work(cls, kernel: Angular, dimension: int, bounds: Any) -> float:
        """One projection for each hyperplane."""
        return float(kernel.power * dimension)

    @property
    def lattice(self) -> Lattice:
        """The projections' lattice."""
        return self.projections.lattice

    @property
    def rows(self) -> int:
        """`power` projections each."""
        return self.projections.count // self.power

    def cells(self, coordinates: Floats) -> Integers:
        """Signs, the first hyperplane's in the lowest bit; a point on a hyperplane lies on its positive side."""
        cells = np.empty((len(coordinates), self.rows, 1), dtype=np.int64)
        _pack(self.projections.floors(coordinates), self.power, cells)
        return cells

    def part(self, start: int, stop: int) -> SignedProjections:
        """Return some of the functions."""
        return SignedProjections(self.projections.part(self.power * start, self.power * stop), self.power)

    def parameters(self) -> tuple[NDArray[Any], ...]:
        """Directions; the offsets follow from them."""
        return self.projections.parameters()


@njit(nogil=True, cache=True)
def _pack(floors, power, cells):  # type: ignore[no-untyped-def]
    for i in range(cells.shape[0]):
        for r in range(cells.shape[1]):
            signs = 0
            for plane in range(power):
                signs |= (floors[i, r * power + plane] >= 0) << plane
            cells[i, r, 0] = signs
