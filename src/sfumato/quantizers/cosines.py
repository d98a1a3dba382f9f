"""Integer cosines of public phases (`phases`), and what the quantizers that sum them have in common.

A phase picks a cosine from a table of integers of absolute value at most `radius`, with cos^2 + sin^2 <= radius^2 for
every entry, which is checked when the table is made. The table's phase step of 2^-12 turns and its rounding are undone
in expectation by the table's own first harmonic (`gain`).
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, SfumatoError
from sfumato.public.codec import Whole
from sfumato.quantizers.base import Answer, Combined, Floats, Known, TermQuantizer, combined_terms
from sfumato.quantizers.box import Box
from sfumato.quantizers.mesh import Complex, Mesh, Waves, answer_from_moments, waves
from sfumato.quantizers.phases import TABLE_BITS, Phases

RADIUS = Whole(2, 2**30 - 1)
# SHA-256 of the tables that devices use, by radius and bits, as 64-bit little-endian integers: whoever computes another
# table, in whatever language, must not go on.
PUBLISHED_TABLES = {
    (2**15 - 1, 12): "bda86323c765f64832e9422847b06a6df5c80e12268825bbe255f021e1afdfc4",
    (2**12, 16): "c664b95c3c973de9fd51f56c4681b98ec10019a2f05b6b31efa824736c8833b3",
}


def pair_l1(radius: int) -> int:
    """Largest |a| + |b| of integers with a^2 + b^2 <= radius^2: floor(sqrt(2) radius) is an upper bound."""
    return math.isqrt(2 * radius * radius)


def check_radius(radius: int) -> None:
    """Refuse a radius that has no table."""
    if not RADIUS.least <= radius <= RADIUS.most:
        raise InputError(f"radius must be an integer from 2 to 2**30, got {radius}")


def cosine_table(radius: int, bits: int = TABLE_BITS) -> NDArray[np.int32]:
    """Integer cosines at the centres of 2**bits cells of a turn, with every (cos, sin) pair inside the radius.

    Rounding (radius - 1) cos to the nearest integer moves a pair by at most sqrt(1/2) < 1, so it stays within `radius`;
    rounding radius * cos itself would leave the circle for half of all angles.
    """
    check_radius(radius)
    cells = 1 << bits
    table = np.rint((radius - 1) * np.cos(2 * np.pi * (np.arange(cells) + 0.5) / cells)).astype(np.int64)
    sine = table[(np.arange(cells) - cells // 4) % cells]
    if (table**2 + sine**2 > radius**2).any():
        raise AssertionError("a table entry leaves the disc")
    published = PUBLISHED_TABLES.get((radius, bits))
    if published not in (None, hashlib.sha256(np.ascontiguousarray(table, dtype="<i8").data).hexdigest()):
        raise SfumatoError(
            f"the table of cosines of radius {radius} comes out wrong here, so public features would differ from "
            "everyone else's: report this, with the processor and the version of NumPy"
        )
    return np.asarray(table, dtype=np.int32)


def table_gain(table: NDArray[np.int32]) -> float:
    """First harmonic of an integer cosine table: the amplitude that decodes it without bias."""
    turns = (np.arange(len(table)) + 0.5) / len(table)
    return float(2 * np.mean(table * np.cos(2 * np.pi * turns)))


def pair_waves(sums: Floats) -> Complex:
    """Amplitudes a with Re(a exp(i p)) = c cos(p) + s sin(p) for interleaved pairs (c, s)."""
    pairs = sums.reshape(-1, 2)
    return np.asarray(pairs[:, 0] - 1j * pairs[:, 1], dtype=np.complex128)


def pair_amplitudes(sums: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lengths and shifts (in turns) with a cos(p) + b sin(p) = length * cos(p - shift) for interleaved pairs (a, b)."""
    pairs = sums.reshape(-1, 2)
    return np.hypot(pairs[:, 0], pairs[:, 1]), np.arctan2(pairs[:, 1], pairs[:, 0]) / (2 * np.pi)


class PhaseQuantizer(TermQuantizer):
    """Integer cosines of public phases: what single phases, pairs and pairs in groups have in common.

    Attributes
    ----------
    phases : Phases
        Public frequencies and offsets on integer grids.
    radius : int
        Integer amplitude of the cosines.
    """

    phases: Phases
    radius: int

    @property
    def box(self) -> Box:
        """The declared box."""
        return self.phases.lattice.box

    @property
    def terms(self) -> int:
        """Number of frequencies."""
        return self.phases.terms

    @cached_property
    def _table(self) -> NDArray[np.int32]:
        return cosine_table(self.radius)

    @cached_property
    def gain(self) -> float:
        """Amplitude that decodes the integer cosines without bias."""
        return table_gain(self._table)

    @property
    def shards(self) -> int:
        """Groups among which the records are divided, each with frequencies of its own; 1 where all see all."""
        return 1

    @abstractmethod
    def amplitudes(self, sums: Floats) -> Complex:
        """Complex amplitudes a of the terms Re(a exp(2 pi i turns))."""

    def read_mesh(self, mesh: Mesh, sums: Floats, known: Known) -> Answer | None:
        """Multiply the columns' waves; a median of means keeps its terms apart."""
        if known.groups > 1:
            return None
        return answer_from_moments(self._waves(mesh, sums).moments(), self.terms)

    def combined_mesh(self, mesh: Mesh, weights: Sequence[Floats], sums: Floats, known: Known) -> Combined | None:
        """Sum the columns' waves before they are multiplied."""
        return combined_terms(self._waves(mesh, sums).combined(weights)[None], known, np.empty(0))

    def _waves(self, mesh: Mesh, sums: Floats) -> Waves:
        turns, offsets = self.phases.along(mesh)
        return Waves(turns, self.amplitudes(sums) * waves(offsets))

    def similarity(self, sums: Floats, known: Known) -> tuple[float, float] | None:
        """Estimate P from the terms' energies, less those of the noise and of the coins.

        For a frequency w the records' mean of exp(i w.x) has a square of mean P over the draw of w (1/n for a record
        with itself and 1 - 1/n for the pairs); so has twice the square of one cosine with a uniform offset. Coins that
        keep one record in G, times G, have a mean square of G for a record with itself.
        """
        parts = sums.reshape(self.terms, -1)
        scale = (2.0 / parts.shape[1]) * (self.shards / (self.gain * known.count)) ** 2
        energies = scale * np.square(parts).sum(axis=1)
        noise = scale * parts.shape[1] * known.noise_variance + self.shards / known.count
        error = float(energies.std(ddof=1)) / math.sqrt(self.terms) if self.terms > 1 else 0.0
        return float(energies.mean()) - noise, error

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the public description, and the frequencies if they cannot be drawn again."""
        return self.schema.write(self), self.phases.to_document()[1]

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Draw the frequencies again."""
        return cls(**{**fields, "phases": Phases.from_document(fields["phases"], arrays, kernel, size)})
