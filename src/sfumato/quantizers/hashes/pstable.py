"""p-stable hashes ``floor(a . A^-1 x + b)`` of the kernels `L1LSH` (Cauchy directions) and `L2LSH` (normal ones).

Approximation: Cauchy directions are cut at 2**16 bandwidths^-1, so that products stay exact; that has a probability of
about 10**-5 for each column, and changes a bucket only where the points differ by less than 2**-16 bandwidths in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels import L1LSH, L2LSH
from sfumato.public.streams import PublicStream
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Lattice
from sfumato.quantizers.hashes.base import HashFamily, register_family
from sfumato.quantizers.hashes.projections import Projections
from sfumato.quantizers.hashes.spread import cauchys, normals, uniform_table

LARGEST_CAUCHY = 2.0**16


@register_family
@dataclass(frozen=True, eq=False)
class PStable(HashFamily):
    """One projection a hash function; the bucket is its floor."""

    projections: Projections

    name = "p-stable"
    kernels = (L1LSH, L2LSH)

    @classmethod
    def draw(
        cls,
        kernel: L1LSH | L2LSH,
        rows: int,
        dimension: int,
        stream: PublicStream,
        bounds: Any = None,
        outside: str = "clip",
    ) -> PStable:
        """Draw for each hash function its offset and its direction."""
        if isinstance(kernel, L1LSH):
            uniforms = uniform_table(stream, rows, 1 + dimension)
            numbers = np.clip(cauchys(uniforms[:, 1:]), -LARGEST_CAUCHY, LARGEST_CAUCHY)
        else:
            uniforms = uniform_table(stream, rows, 1 + 2 * ((dimension + 1) // 2))
            numbers = normals(uniforms[:, 1:])[:, :dimension]
        directions = kernel.scale.divide_frequencies(np.ascontiguousarray(numbers.T))
        scales = kernel.scale.column_lengths(dimension)
        return cls(Projections.fit(directions, scales, uniforms[:, 0], bounds, outside))

    @property
    def lattice(self) -> Lattice:
        """The projections' lattice."""
        return self.projections.lattice

    @property
    def rows(self) -> int:
        """One projection each."""
        return self.projections.count

    def cells(self, coordinates: Floats) -> Integers:
        """Floors of the projections."""
        return self.projections.floors(coordinates)[:, :, None]

    def part(self, start: int, stop: int) -> PStable:
        """Return some of the functions."""
        return PStable(self.projections.part(start, stop))

    def parameters(self) -> tuple[NDArray[Any], ...]:
        """Directions and offsets."""
        return self.projections.parameters()
