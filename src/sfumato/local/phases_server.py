"""`phases`, server half: noisy Fourier phases, for kernels that are means of cosines.

Estimate. For a random frequency w of the kernel, k(x, y) is the mean of cos(w . (x - y)). A person reports a position r
whose centre is the phase of x plus an error; the error's mean resultant is m sinc(1 / M), with m = (same - other)
sin(pi K / M) / (total sin(pi / M)) of the arc of K out of M positions, and sinc(t) = sin(pi t) / (pi t) of the rounding
to positions, which the row's random offset makes uniform. So cos(2 pi (r + 1/2) / M - phase of y) / (m sinc(1 / M)) has
mean k. The answer is the mean over all reports, row by row, from three integers a row: how many reports, and the sums
of their cosines and sines in units of 2**-20.

Variance. With m' = m sinc(1 / M), one report's answer has mean square 1 / (2 m'^2), and somewhat more where k(2x, 2y)
is not small; n people with s rows each have variance 1 / (2 m'^2 n s). People who share a row share its frequency,
which adds about P / (2 D) for a pool of D rows, P the mean kernel value between two people.

One report can move n times an answer by at most 2 / m': `influence`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np

from sfumato.compiled import njit
from sfumato.errors import InputError
from sfumato.kernels import Cauchy, Gaussian, Kernel, Laplacian
from sfumato.local.device import Device
from sfumato.local.pool import numbers, pool_tables, shifted
from sfumato.local.pool_server import (
    PoolReader,
    PoolServer,
    fit_grid,
    integer_choices,
    pool_groups,
    refuse_columns,
    respond,
)
from sfumato.local.pooled import (
    CODE_BYTES,
    GROUP_BYTES,
    LABEL,
    LARGEST_COORDINATE,
    LARGEST_POOL,
    LAWS,
    MOST_ROWS_EACH,
    POSITION_BITS,
    POSITIONS,
    Phases,
)
from sfumato.local.server import Design, Sums, Tally
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.response import OTHER, Response, check_says, same_weight
from sfumato.public import portable
from sfumato.quantizers.answer import Answer, Combined, Known
from sfumato.quantizers.base import Floats, Integers, combined_terms
from sfumato.quantizers.mesh import Mesh, Waves, answer_from_moments, waves

KERNEL_LAWS: dict[type[Kernel], str] = {Gaussian: "normal", Laplacian: "cauchy", Cauchy: "laplace"}
COSINE_BITS = 20
COARSE_BITS = 12  # of a turn, in the table that cosines of queries start from
WIDTH = 3  # reports, cosines, sines
PHASE_BITS = 120  # phases wrap around, so nothing can overflow: points get all their bits


def resultant(arc: Response) -> float:
    """Factor m' = m sinc(1 / M) by which a report's mean cosine shrinks."""
    chord = math.sin(math.pi * arc.width / POSITIONS) / math.sin(math.pi / POSITIONS)
    rounding = math.sin(math.pi / POSITIONS) / (math.pi / POSITIONS)
    return arc.gap * chord * rounding


def best_arc(same: int, other: int) -> Response:
    """Return the arc of largest resultant.

    Examples
    --------
    >>> best_arc(same=2718, other=1000).width
    103
    """
    return max((Response(same, other, POSITIONS, inside) for inside in range(1, POSITIONS, 2)), key=resultant)


class PhasePool:
    """Frequencies and offsets of all rows."""

    def __init__(self, device: Phases, rows: int) -> None:
        self.device = device
        self.rows = rows

    @cached_property
    def _tables(self) -> tuple[Integers, Integers]:
        made = self.device
        frequencies, offsets = pool_tables(
            *(made.seed, LABEL, self.rows, 0, 1 + made.domain.dimension),
            lambda _, words: (numbers(made.law, words[:, 1:]), shifted(words[:, 0], made.shift)),
        )
        return frequencies, offsets

    @property
    def frequencies(self) -> Integers:
        """Frequencies of all rows, shape (rows, columns)."""
        return self._tables[0]

    def phases(self, X: Integers, which: Integers, rows: Integers) -> Integers:
        """Phase of point `which[i]` in row `rows[i]`, in units of 2**-shift turns."""
        result = np.empty(len(rows), dtype=np.int64)
        _phases(X, which, rows, *self._tables, self.device.shift, result)
        return result

    def cosines(self, X: Integers) -> tuple[Floats, Floats]:
        """Cosines and sines of every point's phase in every row, shape (points, rows) each."""
        cosines, sines = np.empty((len(X), self.rows)), np.empty((len(X), self.rows))
        _cosines(X, *self._tables, self.device.shift, *_coarse_turns(), cosines, sines)
        return cosines, sines

    def turns(self, places: dict[int, Integers]) -> tuple[list[Floats], Floats]:
        """Phases of coordinates along columns, shape (coordinates, rows of the pool), and offsets; in turns."""
        frequencies, offsets = self._tables
        unit, mask = np.float64(2.0**-self.device.shift), (1 << self.device.shift) - 1
        phases = (np.multiply.outer(side, frequencies[:, column]) for column, side in places.items())
        return [(phase & mask) * unit for phase in phases], offsets * unit  # wraps around, as in `_phases`

    def moments(self, X: Integers, cosine_sums: Floats, sine_sums: Floats, beside: Floats) -> Floats:
        """Sum t, t**2 and t times `beside` over the rows, t = cosine_sums cos + sine_sums sin; shape (points, 3)."""
        found = np.empty((len(X), 3))
        _moments(
            X,
            *self._tables,
            self.device.shift,
            *_coarse_turns(),
            *map(np.ascontiguousarray, (cosine_sums, sine_sums)),
            beside,
            found,
        )
        return found


class PhasesServer(PoolServer):
    """Sums of cosines and sines of the reported positions; see the module's text."""

    name = "phases"
    options = ("pool", "rows_each")
    device: Phases

    def __init__(self, device: Device, kernel: Kernel) -> None:
        super().__init__(device, kernel)
        self.pool = PhasePool(self.device, self.rows)

    @classmethod
    def refuse(cls, request: Request) -> str | None:
        """Only kernels whose frequencies a device can draw."""
        kernel = request.kernel
        if not isinstance(kernel, Gaussian | Laplacian | Cauchy):
            names = ", ".join(family.name for family in KERNEL_LAWS)
            return f"{kernel!r} has no frequencies on devices; phases takes {names}"
        if len(kernel.scale.shape) == 2:
            return "devices take one bandwidth, or one for each column, not a matrix"
        return refuse_columns(request) if isinstance(kernel, Laplacian) else None

    @classmethod
    def design(cls, request: Request) -> Design:
        """Minimise the predicted variance over rows a person."""
        kernel = request.kernel
        assert isinstance(kernel, Gaussian | Laplacian | Cauchy)
        law = KERNEL_LAWS[type(kernel)]
        lengths = 2 * math.pi * kernel.scale.column_lengths(request.dimension)
        if isinstance(kernel, Gaussian):
            lengths /= math.sqrt(2.0)  # its frequencies have variance 2
        grid = fit_grid(request, lengths, LAWS[law].largest, sum_bits=PHASE_BITS)
        designs = []
        for rows_each in integer_choices(request, "rows_each", range(1, MOST_ROWS_EACH + 1)):
            same = same_weight(request.epsilon / rows_each)
            if same <= OTHER:
                raise InputError(f"epsilon = {request.epsilon} is too small for a report to say anything")
            arc = best_arc(same, OTHER)
            groups = pool_groups(request, rows_each, LARGEST_POOL, "pool", request.dimension)
            variance = _variance(request, arc, groups, rows_each)
            designs.append((variance, rows_each, groups, arc))
        variance, rows_each, groups, arc = min(designs, key=lambda design: design[0])
        parameters = {
            **{"law": law, "rows_each": rows_each, "groups": groups},
            **{"inside": arc.width, "same": arc.same, "other": arc.other},
        }
        size = WIDTH * groups * rows_each
        return Design(grid.parameters() | parameters, grid.domain, variance, GROUP_BYTES + CODE_BYTES, size)

    def noise_variance(self, reports: int) -> float:
        """Of a sum of cosines, at the mean number of reports a row."""
        return reports * self.device.rows_each / self.rows * 4.0**COSINE_BITS / 2

    def influence(self) -> float:
        """One report moves each of its rows' terms between minus and plus 1 / m'."""
        return 2 / resultant(self.device.response)

    def tally(self) -> Sums:
        """Three integers for each row."""
        return Sums(WIDTH * self.rows)

    def add_digits(self, rows: Integers, digits: Integers, tally: Tally) -> None:
        """Count, and add cosines and sines."""
        assert isinstance(tally, Sums)
        cosines, sines = position_table()
        _add(rows, cosines[digits], sines[digits], tally.values)

    def random_digits(self, X: Integers, rows: Integers, bits: SecureBits) -> Integers:
        """Positions through the arc."""
        made = self.device
        positions = self.pool.phases(X, np.arange(len(X)), rows) >> (made.shift - POSITION_BITS)
        return respond(made.response, positions - made.inside // 2, bits)

    def quantizer(self, tally: Tally) -> ReportedPhases:
        """Read sums of cosines."""
        return ReportedPhases(self.device, self.pool)


class ReportedPhases(PoolReader):
    """Cosines of the query's phase against the reported ones, row by row."""

    name = "local-phases"
    kind: ClassVar[type[Device]] = Phases
    device: Phases

    def __init__(self, device: Phases, pool: PhasePool | None = None) -> None:
        check_says(device.same, device.other)
        super().__init__(device)
        self.pool = pool or PhasePool(device, self.terms)
        self._factor = math.ldexp(device.groups / resultant(device.response), -COSINE_BITS)

    @property
    def width(self) -> int:
        """Reports, cosines, sines."""
        return WIDTH

    @classmethod
    def held(cls, device: Phases) -> int:
        """Frequencies of a row."""
        return device.domain.dimension

    def term_values(self, Y: Floats, sums: Floats) -> Floats:
        """Mean over rows of the terms estimates the sum over people."""
        answered, cosine_sums, sine_sums = self._rows(sums)
        cosines, sines = self.pool.cosines(self.lattice(Y, LARGEST_COORDINATE))
        return self.steadied(cosines * cosine_sums + sines * sine_sums, answered)

    def _rows(self, sums: Floats) -> tuple[Floats, Floats, Floats]:
        """Return each row's number of reports, and its cosines and sines in units of the answer."""
        answered, cosine_sums, sine_sums = sums.reshape(self.terms, WIDTH).T
        return answered, cosine_sums * self._factor, sine_sums * self._factor

    def read(self, Y: Floats, sums: Floats, known: Known) -> Answer:
        """Read mean and spread of the terms off three sums over them, which a map of many cells does not keep apart."""
        if known.groups > 1 or self.terms < 2:
            return super().read(Y, sums, known)
        _, cosine_sums, sine_sums = self._rows(sums)
        places = self.lattice(Y, LARGEST_COORDINATE)
        moments = self.pool.moments(places, cosine_sums, sine_sums, self._uneven(sums)[0])
        return self._steady(moments.T, sums)

    def read_mesh(self, mesh: Mesh, sums: Floats, known: Known) -> Answer | None:
        """Multiply the columns' waves."""
        if known.groups > 1:
            return None
        return self._steady(self._waves(mesh, sums).moments(self._uneven(sums)[0]), sums)

    def combined_mesh(self, mesh: Mesh, weights: Sequence[Floats], sums: Floats, known: Known) -> Combined | None:
        """Sum the columns' waves before they are multiplied."""
        terms = self._waves(mesh, sums).combined(weights)
        return combined_terms(self.steadied(terms[None], self._rows(sums)[0]), known, np.empty(0))

    def _waves(self, mesh: Mesh, sums: Floats) -> Waves:
        _, cosine_sums, sine_sums = self._rows(sums)
        places = {column: self.lattice(mesh.along(column), LARGEST_COORDINATE)[:, column] for column in mesh.order}
        turns, offsets = self.pool.turns(places)
        return Waves(turns, (cosine_sums - 1j * sine_sums) * waves(offsets))

    def _uneven(self, sums: Floats) -> tuple[Floats, float]:
        """Return how many more reports each row has than its share, in people, and how many people there are."""
        answered = self._rows(sums)[0]
        people = float(answered.sum()) / self.device.rows_each
        return answered * self.device.groups - people, people

    def _steady(self, moments: Floats, sums: Floats) -> Answer:
        """Answer from the sums of the terms, of their squares and of them beside `_uneven`, as in `steadied`."""
        uneven, people = self._uneven(sums)
        total, squares, beside = moments
        share = total / self.terms / max(people, 1.0)
        squares = squares - 2 * share * beside + np.square(share) * float(uneven @ uneven)
        return answer_from_moments(np.stack([total, squares]), self.terms)

    def weights(self, Y: Floats) -> Floats:
        """Weights g(y), dense."""
        cosines, sines = self.pool.cosines(self.lattice(Y, LARGEST_COORDINATE))
        weights = np.stack([np.zeros_like(cosines), cosines, sines], axis=2) * self._factor
        return weights.reshape(len(Y), self.size)


def position_table() -> tuple[Integers, Integers]:
    """Return cosines and sines of the positions' centres in units of 2**-20."""
    cosines, sines = portable.cos_sin_turns((np.arange(POSITIONS) + 0.5) / POSITIONS)
    return tuple(np.rint(np.ldexp(part, COSINE_BITS)).astype(np.int64) for part in (cosines, sines))  # type: ignore[return-value]


def _variance(request: Request, arc: Response, groups: int, rows_each: int) -> float:
    answers = request.n * rows_each
    return 1 / (2 * resultant(arc) ** 2) / answers + request.density / (2 * groups * rows_each)


@njit(reads=True, nogil=True, cache=True)
def _phases(X, which, rows, frequencies, offsets, shift, out):  # type: ignore[no-untyped-def]
    mask = (np.int64(1) << shift) - 1
    for i in range(len(rows)):
        r, w = rows[i], which[i]
        total = offsets[r]
        for j in range(X.shape[1]):
            total += X[w, j] * frequencies[r, j]  # wraps around modulo 2**64, as phases do
        out[i] = total & mask


@cache
def _coarse_turns() -> tuple[Floats, Floats]:
    """Cosines and sines of the multiples of 2**-12 turns."""
    return portable.cos_sin_turns(np.arange(2**COARSE_BITS) / 2**COARSE_BITS)


def _all_turned(
    point: Integers, frequencies: Integers, offsets: Integers, shift: int, coarse_cosines: Floats, coarse_sines: Floats
) -> tuple[Floats, Floats]:
    # What `_turned` does, for all rows at once.
    total = offsets + (frequencies * point).sum(axis=1)
    fine = shift - COARSE_BITS
    place = (total & ((1 << shift) - 1)) >> fine
    d = 2.0 * math.pi / 2.0**shift * (total & ((1 << fine) - 1))
    square = d * d
    cosine = 1.0 + square * (square / 24.0 - 0.5)
    sine = d * (1.0 + square * (square / 120.0 - 1.0 / 6.0))
    return (
        coarse_cosines[place] * cosine - coarse_sines[place] * sine,
        coarse_sines[place] * cosine + coarse_cosines[place] * sine,
    )


def _cosines_by_point(X: Integers, *rest: Any) -> None:
    *tables, cosines, sines = rest
    for i, point in enumerate(X):
        cosines[i], sines[i] = _all_turned(point, *tables)


def _moments_by_point(X: Integers, *rest: Any) -> None:
    *tables, cosine_sums, sine_sums, beside, out = rest
    for i, point in enumerate(X):
        cosine, sine = _all_turned(point, *tables)
        terms = cosine * cosine_sums + sine * sine_sums
        out[i] = terms.sum(), terms @ terms, terms @ beside


@njit(nogil=True, cache=True)
def _turned(X, i, frequencies, offsets, r, shift, coarse_cosines, coarse_sines):  # type: ignore[no-untyped-def]
    # Cosine and sine of one phase, as a map takes millions of them. The angle is a coarse one, of the table, and a rest
    # d below 2 pi / 2**12, whose cosine and sine are polynomials: what they leave out, d**6 / 720, is below 2e-20.
    total = offsets[r]
    for j in range(X.shape[1]):
        total += X[i, j] * frequencies[r, j]  # wraps around, as in `_phases`
    fine = shift - COARSE_BITS
    place = (total & ((np.int64(1) << shift) - 1)) >> fine
    d = 2.0 * math.pi / 2.0**shift * (total & ((np.int64(1) << fine) - 1))
    square = d * d
    cosine = 1.0 + square * (square / 24.0 - 0.5)
    sine = d * (1.0 + square * (square / 120.0 - 1.0 / 6.0))
    return (
        coarse_cosines[place] * cosine - coarse_sines[place] * sine,
        coarse_sines[place] * cosine + coarse_cosines[place] * sine,
    )


@njit(reads=_cosines_by_point, nogil=True, cache=True)
def _cosines(X, frequencies, offsets, shift, coarse_cosines, coarse_sines, cosines, sines):  # type: ignore[no-untyped-def]
    for i in range(X.shape[0]):
        for r in range(len(offsets)):
            cosines[i, r], sines[i, r] = _turned(X, i, frequencies, offsets, r, shift, coarse_cosines, coarse_sines)


@njit(reads=_moments_by_point, nogil=True, cache=True)
def _moments(  # type: ignore[no-untyped-def]
    X, frequencies, offsets, shift, coarse_cosines, coarse_sines, cosine_sums, sine_sums, beside, out
):
    for i in range(X.shape[0]):
        first, second, mixed = 0.0, 0.0, 0.0
        for r in range(len(offsets)):
            cosine, sine = _turned(X, i, frequencies, offsets, r, shift, coarse_cosines, coarse_sines)
            term = cosine * cosine_sums[r] + sine * sine_sums[r]
            first += term
            second += term * term
            mixed += term * beside[r]
        out[i, 0], out[i, 1], out[i, 2] = first, second, mixed


@njit(nogil=True, cache=True)
def _add(rows, cosines, sines, sums):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        place = WIDTH * rows[i]
        sums[place] += 1
        sums[place + 1] += cosines[i]
        sums[place + 2] += sines[i]


PHASES = PhasesServer.method("phases of public frequencies, within an arc")
