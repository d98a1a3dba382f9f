"""Exact integer phases w.x of random frequencies: the same integers in any order, on any machine.

Points and frequencies lie on dyadic grids: x as integers X with step 2^e per column, w as integers W, so that the
phase is the integer sum X.W in units of 2^-B turns. Every partial sum stays below 2^51, so a float64 matrix product
is exact in any order. One more column holds 1.5 * 2^52 plus the offset: the result then lies in [2^52, 2^53), where
the spacing of doubles is 1 and the low mantissa bits ARE the integer phase; no conversion is needed.

Points are displaced by at most half a step (at most 2^-9 bandwidths in each column, usually far less). Frequencies
are rounded before use and both sides use the rounded ones, so their rounding only blurs the distribution they are
drawn from.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.public.codec import Digits, Many, Nested, Optional, Schema, Text, Whole
from sfumato.public.portable import LARGEST_SEED, PublicStream
from sfumato.public.ranges import MOST_COLUMNS, MOST_INTEGERS, check_reader_cost
from sfumato.quantizers.base import (
    Floats,
    Integers,
    stored_array,
)
from sfumato.quantizers.box import Box, Lattice
from sfumato.quantizers.mesh import Mesh

MAGIC = 1.5 * 2.0**52
TABLE_BITS = 12  # of a phase, which pick a cosine
PHASE_LIMIT_BITS, MOST_PHASE_BITS = 50, 44
MOST_POINT_BITS, FEWEST_POINT_BITS, DEFAULT_POINT_BITS = 20, 8, 10
WIDEST_DEFAULT_REACH, NARROWEST_DEFAULT_REACH = 17, 8
COLUMN_BLOCK = 768
BLOCK_NUMBERS = 1 << 19  # that are rounded or summed at once
MOST_NUMBERS = MOST_INTEGERS  # drawn for one release
SCHEMA = Schema(
    terms=Whole(1, MOST_INTEGERS),
    box=Nested(Box.from_document),
    exponents=Many(Whole(-1000, 1000), MOST_COLUMNS),
    bits=Whole(TABLE_BITS, PHASE_LIMIT_BITS),
    feature_seed=Optional(Digits(LARGEST_SEED)),
    fingerprint=Text(longest=64),
)


@dataclass(frozen=True, eq=False)
class Phases:
    """Public frequencies and offsets on integer grids; draw them with `Phases.draw`.

    Attributes
    ----------
    lattice : Lattice
        The grid on which points become integers.
    bits : int
        B: phases are integers in units of 2**-B turns.
    frequencies : ndarray of int64, shape (dimension, terms)
        Turns per lattice step, in units of 2**-B.
    offsets : ndarray of int64, shape (terms,)
        Public random offsets in units of 2**-B turns.
    seed : int or None
        The public seed from which all this can be drawn again; None when it must be stored.
    """

    lattice: Lattice
    bits: int
    frequencies: Integers
    offsets: Integers
    seed: int | None

    @classmethod
    def draw(
        cls,
        kernel: ShiftInvariantKernel,
        dimension: int,
        terms: int,
        seed: int,
        bounds: Any = None,
        outside: str = "clip",
    ) -> Phases:
        """Draw `terms` frequencies of a kernel and fit the grids to the bounds (see `FourierQuantizer.draw`)."""
        turns = _draw_turns(kernel, dimension, terms, seed)
        scales = kernel.column_scales(dimension)
        box = _default_box(scales, turns, outside) if bounds is None else Box.from_bounds(bounds, dimension, outside)
        lattice, bits = _fit(box, scales, turns)
        frequencies = _round_frequencies(turns, lattice, bits)
        return cls(lattice, bits, frequencies, _draw_offsets(terms, seed, bits), seed if kernel.portable else None)

    @classmethod
    def given(cls, turns: Floats, box: Box, scales: Floats) -> Phases:
        """Fit the grids to frequencies that are not random: turns per data unit, shape (dimension, terms)."""
        lattice, bits = _fit(box, scales, turns)
        offsets = np.zeros(turns.shape[1], dtype=np.int64)
        return cls(lattice, bits, _round_frequencies(turns, lattice, bits), offsets, None)

    def __post_init__(self) -> None:
        reached = np.full(self.terms, 2.0**self.bits)
        for rows in _row_blocks(self.frequencies):
            reached += self.lattice.reach[rows] @ np.abs(self.frequencies[rows].astype(np.float64))
        if self.bits > PHASE_LIMIT_BITS or not (reached < 2.0**51).all():  # also if a bound is beyond all numbers
            raise InputError("the bounds are too wide for exact phases; pass tighter bounds or a larger bandwidth")

    @property
    def terms(self) -> int:
        """Number of frequencies."""
        return int(self.frequencies.shape[1])

    @cached_property
    def _constants(self) -> Floats:
        return np.vstack([self.frequencies.astype(np.float64), MAGIC + self.offsets.astype(np.float64)])

    @cached_property
    def blocks(self) -> Sequence[Floats]:
        """Frequencies with their row of constants, in blocks of columns that suit the cache."""
        return self.cut(COLUMN_BLOCK)

    def cut(self, width: int) -> Sequence[Floats]:
        """Frequencies with their row of constants, in contiguous blocks of `width` columns."""
        return [
            np.ascontiguousarray(self._constants[:, first : first + width]) for first in range(0, self.terms, width)
        ]

    def rows(self, count: int) -> Floats:
        """Return space for the lattice coordinates of `count` rows, with their column of ones."""
        return np.ones((count, self.lattice.box.dimension + 1))

    def integers(self, points: NDArray[Any]) -> Integers:
        """Integer phases of the kept points in units of 2**-bits turns, shape (kept, terms)."""
        rows = self.rows(len(points))
        kept = self.lattice.place(points, rows)
        return (rows[:kept] @ self._constants).view(np.int64) & ((1 << self.bits) - 1)

    def turns(self, Y: Floats) -> Floats:
        """Phases of queries in turns, shape (len(Y), terms); floating point, because queries are public."""
        frequencies, offsets = self._turns
        return np.asarray(self.lattice.centred(Y) @ frequencies + offsets)

    @cached_property
    def _turns(self) -> tuple[Floats, Floats]:
        unit = np.float64(2.0**-self.bits)
        return self.frequencies * unit, self.offsets * unit

    def along(self, mesh: Mesh) -> tuple[list[Floats], Floats]:
        """Phases of a mesh's coordinates along each column, in its order, and the offsets; in turns."""
        frequencies, offsets = self._turns
        places = [(column, self.lattice.centred(mesh.along(column))[:, column]) for column in mesh.order]
        return [np.outer(place, frequencies[column]) for column, place in places], offsets

    def fingerprint(self) -> str:
        """SHA-256 of frequencies and offsets as little-endian 64-bit integers."""
        digest = hashlib.sha256(np.ascontiguousarray(self.frequencies, dtype="<i8").reshape(-1).data)
        digest.update(np.ascontiguousarray(self.offsets, dtype="<i8").data)
        return digest.hexdigest()

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Public description; frequencies are stored only when they cannot be drawn again from the seed."""
        document = {
            "terms": self.terms,
            "box": self.lattice.box.to_document(),
            "exponents": list(self.lattice.exponents),
            "bits": self.bits,
            "feature_seed": None if self.seed is None else str(self.seed),
            "fingerprint": self.fingerprint(),
        }
        stored = {} if self.seed is not None else {"frequencies": self.frequencies, "offsets": self.offsets}
        return document, stored

    @classmethod
    def from_document(cls, document: Any, arrays: dict[str, NDArray[Any]], kernel: Any, most_terms: int) -> Phases:
        """Rebuild from a release, and check that these are the frequencies it was made with."""
        fields = SCHEMA.read(document, "quantizer.phases")
        box, bits, terms, seed = fields["box"], fields["bits"], fields["terms"], fields["feature_seed"]
        if terms > most_terms:
            raise ReleaseFileError(f"the release claims {terms} frequencies, which its values do not hold")
        if len(fields["exponents"]) != box.dimension:
            raise ReleaseFileError("the header must give one step of the grid for each column")
        check_reader_cost((box.dimension + 4) * terms)  # the offset of a term, its sums and weights are numbers too
        lattice = Lattice(box, fields["exponents"])
        with np.errstate(over="ignore", invalid="ignore"):  # steps that do not suit the bounds are refused below
            if seed is None:
                frequencies, offsets = _stored(arrays, (box.dimension, terms), bits)
            elif not isinstance(kernel, ShiftInvariantKernel):
                raise ReleaseFileError("the release names no kernel from which its frequencies could be drawn")
            else:
                frequencies = _round_frequencies(_draw_turns(kernel, box.dimension, terms, seed), lattice, bits)
                offsets = _draw_offsets(terms, seed, bits)
            phases = cls(lattice, bits, frequencies, offsets, seed)
        if phases.fingerprint() != fields["fingerprint"]:
            raise ReleaseFileError("the frequencies drawn from the release's seed are not the ones it was made with")
        return phases


def _stored(arrays: dict[str, NDArray[Any]], shape: tuple[int, int], bits: int) -> tuple[Integers, Integers]:
    """Frequencies and offsets that a release carries because its kernel is its author's own."""
    frequencies, offsets = (
        stored_array(arrays, "frequencies", "i", shape),
        stored_array(arrays, "offsets", "i", shape[1:]),
    )
    if not ((offsets >= 0) & (offsets >> bits == 0)).all():
        raise ReleaseFileError(f"the offsets must be {shape[1]} integers of {bits} bits")
    return frequencies, offsets


def _draw_turns(kernel: ShiftInvariantKernel, dimension: int, terms: int, seed: int) -> Floats:
    """Frequencies in turns per data unit."""
    if dimension * terms > MOST_NUMBERS:
        raise InputError(
            f"{terms} features of {dimension} columns need {dimension * terms} numbers, more than 2**28; pass fewer"
        )
    turns = np.asarray(kernel.frequencies(PublicStream(seed, "fourier/frequencies"), terms, dimension))
    turns *= 1 / (2 * np.pi)
    return turns


def _draw_offsets(terms: int, seed: int, bits: int) -> Integers:
    """Uniform offsets: the top bits of one public word each."""
    return (PublicStream(seed, "fourier/offsets").words(terms) >> np.uint64(64 - bits)).astype(np.int64)


def _round_frequencies(turns: Floats, lattice: Lattice, phase_bits: int) -> NDArray[np.int64]:
    """Put frequencies on the grid of 2**-phase_bits turns per lattice step.

    A point's lattice coordinates are integers, so a whole number of turns per step changes nothing: frequencies are
    reduced to half a turn per step, which keeps the heavy tail of a Cauchy draw within the exact range at no loss.
    """
    made = np.empty(turns.shape, dtype=np.int64)
    for rows in _row_blocks(turns):  # a reader of someone's file should need little more than the result
        per_step = turns[rows] * lattice.steps[rows, None]
        made[rows] = np.rint(np.ldexp(per_step - np.rint(per_step), phase_bits))
    return made


def _row_blocks(table: NDArray[Any]) -> Iterator[slice]:
    """Cut a table into rows of a few megabytes together."""
    height = max(1, BLOCK_NUMBERS // max(table.shape[1], 1))
    return (slice(first, first + height) for first in range(0, len(table), height))


def _fit(box: Box, scales: Floats, turns: Floats) -> tuple[Lattice, int]:
    """Choose the finest grids whose phases stay exact: B bits for the phase, of which the points get at most 20."""
    turns_reached = float((box.half_widths @ np.abs(turns)).max()) + 1
    phase_bits = min(MOST_PHASE_BITS, PHASE_LIMIT_BITS - 1 - math.ceil(math.log2(turns_reached)))
    widest = float((2 * box.half_widths / scales).max())
    frequency_bits = max(12, math.ceil(math.log2(max(widest, 1.0))) + 2)
    point_bits = min(MOST_POINT_BITS, phase_bits - frequency_bits)
    if point_bits < FEWEST_POINT_BITS:
        raise InputError(
            f"the bounds span {widest:.3g} bandwidths, too many for exact phases in {box.dimension} dimensions; "
            "pass tighter bounds or a larger bandwidth"
        )
    exponents = tuple(math.floor(math.log2(scale)) - point_bits for scale in scales)
    return Lattice(box, exponents), phase_bits


def _default_box(scales: Floats, turns: Floats, outside: str) -> Box:
    """Widest box of 2**17 down to 2**8 bandwidths each way on which points keep at least 10 bits per bandwidth."""
    for reach in range(WIDEST_DEFAULT_REACH, NARROWEST_DEFAULT_REACH - 1, -1):
        box = Box.centred(scales * 2.0**reach, outside)
        try:
            lattice, _ = _fit(box, scales, turns)
        except InputError:
            continue
        if -max(lattice.exponents) + math.floor(math.log2(scales.max())) >= DEFAULT_POINT_BITS:
            return box
    raise InputError(
        "this kernel's frequencies are too high for a default box; pass bounds=, one (lower, upper) pair per column"
    )
