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
from sfumato.public_randomness import PublicStream
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Lattice
from sfumato.quantizers.hashes.base import HashFamily, register_family
from sfumato.quantizers.hashes.projections import Projections

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
        """Draw directions one hash function after another, then offsets."""
        count = rows * dimension
        if isinstance(kernel, L1LSH):
            numbers = np.clip(stream.cauchys(count), -LARGEST_CAUCHY, LARGEST_CAUCHY)
        else:
            numbers = stream.normals(count)
        directions = kernel.scale.divide_frequencies(np.ascontiguousarray(numbers.reshape(rows, dimension).T))
        scales = kernel.scale.column_lengths(dimension)
        return cls(Projections.fit(directions, scales, stream.uniforms(rows), bounds, outside))

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

    def parameters(self) -> tuple[NDArray[Any], ...]:
        """Directions and offsets."""
        return self.projections.parameters()
