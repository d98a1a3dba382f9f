"""Random Fourier features on integers: k(x, y) = E cos(w.(x - y)) for every positive definite shift-invariant kernel.

Source: random Fourier features as used by LSQ in Wagner et al. (2023) (3.1 and appendix D). Two layouts:

- ``phase``: one coordinate cos(w.x + b) per term, b uniform (as published): a (1, radius, 1) family;
- ``pair``: two coordinates (cos w.x, sin w.x) per term: a (2, radius, 2) family whose approximation variance is halved.

The integer phase (see `phases`) picks a cosine from a table of integers of absolute value at most `radius`; for pairs,
cos^2 + sin^2 <= radius^2 holds for every table entry and is checked when the table is made. The limit of the exact sum
is the float64 matrix product plus one table look-up per cosine (about 0.7 ns).

Bound of one record. phase: every coordinate is at most r, so l1 <= I r and l2^2 <= I r^2. pair: every pair lies in
the disc of radius r, so l1 <= sqrt(2) r per pair and l2^2 <= m r^2.

Approximation. The table's phase step of 2^-12 turns and its rounding are undone in expectation by the table's own first
harmonic (`gain`). Variance of one answer over the draw of w: about P/I for phases and P/(2m) for pairs, P the mean
kernel value between two points of the data (docs/fourier.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import Object, Schema, Text, Whole
from sfumato.quantizers.base import Bound, Floats, Integers, Known, TermQuantizer
from sfumato.quantizers.box import Box
from sfumato.quantizers.phases import COLUMN_BLOCK, TABLE_BITS, Phases

RADIUS = Whole(2, 2**30 - 1)


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
    return np.asarray(table, dtype=np.int32)


def table_gain(table: NDArray[np.int32]) -> float:
    """First harmonic of an integer cosine table: the amplitude that decodes it without bias."""
    turns = (np.arange(len(table)) + 0.5) / len(table)
    return float(2 * np.mean(table * np.cos(2 * np.pi * turns)))


def pair_amplitudes(sums: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lengths and shifts (in turns) with a cos(p) + b sin(p) = length * cos(p - shift) for interleaved pairs (a, b)."""
    pairs = sums.reshape(-1, 2)
    return np.hypot(pairs[:, 0], pairs[:, 1]), np.arctan2(pairs[:, 1], pairs[:, 0]) / (2 * np.pi)


@njit(nogil=True, cache=True)
def add_cosines(bits, table, shift, sums):  # type: ignore[no-untyped-def]
    """Add the table's cosine of every phase (its bits shifted down to a table cell) to the sum of its column."""
    mask = len(table) - 1
    for i in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            sums[j] += table[(bits[i, j] >> shift) & mask]


@njit(nogil=True, cache=True)
def add_pairs(bits, table, shift, sums):  # type: ignore[no-untyped-def]
    """Add cosine and sine of every phase to the two sums of its column."""
    mask = len(table) - 1
    quarter = len(table) // 4
    for i in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            cell = (bits[i, j] >> shift) & mask
            sums[2 * j] += table[cell]
            sums[2 * j + 1] += table[(cell - quarter) & mask]


@njit(nogil=True, cache=True)
def cosine_terms(turns, lengths, shifts):  # type: ignore[no-untyped-def]
    """Replace turns[i, j] by lengths[j] * cos(2 pi (turns[i, j] - shifts[j])), accurate to 1e-9."""
    for i in range(turns.shape[0]):
        for j in range(turns.shape[1]):
            t = turns[i, j] - shifts[j]
            t = abs(t - np.rint(t))
            # cos(2 pi t) = sin(2 pi (1/4 - t)), an odd series on a quarter turn each way
            u = 6.283185307179586 * (0.25 - t)
            s = u * u
            sine = s * -7.647163731819816e-13 + 1.6059043836821613e-10
            sine = s * sine - 2.505210838544172e-08
            sine = s * sine + 2.7557319223985893e-06
            sine = s * sine - 1.984126984126984e-04
            sine = s * sine + 8.333333333333333e-03
            sine = s * sine - 1.6666666666666666e-01
            turns[i, j] = lengths[j] * (u + u * s * sine)


LAYOUTS = ("phase", "pair")
ROW_BLOCK = 128  # with COLUMN_BLOCK, a block of phases stays within the second-level cache


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


@dataclass(frozen=True, eq=False)
class FourierQuantizer(PhaseQuantizer):
    """Fourier features of a shift-invariant kernel; build it with `FourierQuantizer.draw`.

    Attributes
    ----------
    phases : Phases
        Public frequencies and offsets on integer grids.
    layout : {"phase", "pair"}
        One cosine with a random offset, or cosine and sine.
    radius : int
        Integer amplitude that no coordinate (phase) and no pair (pair) exceeds.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.kernels import Gaussian
    >>> quantizer = FourierQuantizer.draw(Gaussian(1.0), dimension=2, terms=3, seed=7, layout="pair")
    >>> quantizer.encode(np.zeros((1, 2))).shape
    (1, 6)
    """

    phases: Phases
    layout: str = "pair"
    radius: int = 2**15 - 1

    name: ClassVar[str] = "fourier"
    schema = Schema(
        {"quantizer": name, "table_bits": TABLE_BITS}, layout=Text(*LAYOUTS), radius=RADIUS, phases=Object()
    )

    def __post_init__(self) -> None:
        check_radius(self.radius)
        if self.layout not in LAYOUTS:
            raise InputError(f"layout must be 'phase' or 'pair', got {self.layout!r}")

    @classmethod
    def draw(
        cls,
        kernel: ShiftInvariantKernel,
        dimension: int,
        terms: int,
        seed: int,
        *,
        layout: str = "pair",
        radius: int = 2**15 - 1,
        bounds: Any = None,
        outside: str = "clip",
    ) -> FourierQuantizer:
        """Draw public frequencies for a kernel and fit the integer grids to the bounds.

        Parameters
        ----------
        kernel : ShiftInvariantKernel
            The kernel to approximate.
        dimension, terms : int
            Columns of a point; number of frequencies.
        seed : int
            Public feature seed.
        layout, radius
            See the class.
        bounds : pair, or one pair per column, optional
            Public bounds. Without them a wide box around the origin is used (up to 2**17 bandwidths each way).
        outside : {"clip", "drop"}
            What to do with finite values outside the bounds.
        """
        return cls(Phases.draw(kernel, dimension, terms, seed, bounds, outside), layout, radius)

    @property
    def width(self) -> int:
        """Coordinates per frequency."""
        return 1 if self.layout == "phase" else 2

    @property
    def bound(self) -> Bound:
        """Bounds of one record, see the module's text."""
        terms, radius = self.terms, self.radius
        l1 = radius if self.layout == "phase" else pair_l1(radius)
        return Bound(l1=terms * l1, l2_squared=terms * radius**2, largest=radius)

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integer features of the kept rows; pairs are interleaved (cos, sin, cos, sin, ...)."""
        cells = self.phases.integers(rows) >> (self.phases.bits - TABLE_BITS)
        if self.layout == "phase":
            return np.asarray(self._table[cells], dtype=np.int64)
        quarter, mask = 1 << (TABLE_BITS - 2), (1 << TABLE_BITS) - 1
        pairs = np.stack([self._table[cells], self._table[(cells - quarter) & mask]], axis=2)
        return pairs.reshape(len(cells), self.size).astype(np.int64)

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers to `sums`: per block one exact matrix product, then one pass of table look-ups."""
        block = self.phases.rows(min(ROW_BLOCK, len(rows)))
        products = np.empty(len(block) * min(COLUMN_BLOCK, self.terms))
        shift, total = self.phases.bits - TABLE_BITS, 0
        add = add_cosines if self.layout == "phase" else add_pairs
        for start in range(0, len(rows), ROW_BLOCK):
            kept = self.phases.lattice.place(rows[start : start + ROW_BLOCK], block)
            for index, columns in enumerate(self.phases.blocks):
                count = columns.shape[1]
                product = products[: kept * count].reshape(kept, count)
                np.dot(block[:kept], columns, out=product)
                first = index * COLUMN_BLOCK * self.width
                add(product.view(np.int64), self._table, shift, sums[first : first + count * self.width])
            total += kept
        return total

    def weights(self, Y: Floats) -> Floats:
        """Weights g(y) in the layout of `encode`."""
        angles = 2 * np.pi * self.phases.turns(Y)
        if self.layout == "phase":
            return np.asarray(np.cos(angles) * (2 / self.gain))
        pairs = np.stack([np.cos(angles), np.sin(angles)], axis=2)
        return pairs.reshape(len(Y), self.size) / self.gain

    def term_values(self, Y: Floats, sums: Floats) -> Floats:
        """One cosine a term, see `pair_amplitudes`."""
        if self.layout == "phase":
            lengths, shifts = 2 * sums, np.zeros(self.terms)
        else:
            lengths, shifts = pair_amplitudes(sums)
        turns = self.phases.turns(Y)
        cosine_terms(turns, lengths / self.gain, shifts)
        return turns
