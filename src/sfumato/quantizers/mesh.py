"""Queries at all places of a mesh, for waves: one matrix product instead of a cosine for each term and place.

A term of random Fourier features is t(y) = Re(a exp(2 pi i (w.y))), and over the product of coordinates along the
columns the exponential is a product of one factor for each column. The sum over terms is then the real part of a
product of two complex matrices, (places of the other columns, terms) and (places of the first, terms). The spread of
the terms, which is the error bar, needs their squares, t^2 = |a|^2 / 2 + Re(a^2 exp(2 pi i (2 w).y)) / 2: the same with
squared factors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from sfumato.quantizers.answer import Answer, Floats
from sfumato.threads import one_blas_thread

Complex = NDArray[np.complex128]
ROWS, NUMBERS = 1024, 1 << 20  # of a factor that is held at once


@dataclass(frozen=True, eq=False)
class Mesh:
    """All combinations of coordinates along the columns.

    Attributes
    ----------
    sides : tuple of ndarray
        Coordinates along each column; one alone where the column stands still.
    first : tuple of int
        Columns that run fastest, the fastest first; then the others in their order.

    Examples
    --------
    >>> Mesh((np.array([1.0, 2.0]), np.array([5.0, 7.0]))).points.tolist()
    [[1.0, 5.0], [2.0, 5.0], [1.0, 7.0], [2.0, 7.0]]
    """

    sides: tuple[Floats, ...]
    first: tuple[int, ...] = ()

    @property
    def order(self) -> tuple[int, ...]:
        """All columns, the one that runs fastest first."""
        return (*self.first, *(column for column in range(len(self.sides)) if column not in self.first))

    def __len__(self) -> int:
        return math.prod(map(len, self.sides))

    @property
    def points(self) -> Floats:
        """All places, shape (places, columns)."""
        slowest = self.order[::-1]
        mesh = np.meshgrid(*(self.sides[column] for column in slowest), indexing="ij")
        return np.column_stack([mesh[slowest.index(column)].ravel() for column in range(len(self.sides))])

    def along(self, column: int) -> Floats:
        """Places along one column, the others at their first coordinates."""
        places = np.tile([side[0] for side in self.sides], (len(self.sides[column]), 1))
        places[:, column] = self.sides[column]
        return places


def waves(turns: Floats) -> Complex:
    """``exp(2 pi i turns)``."""
    angles = 2 * np.pi * turns
    made = np.empty(turns.shape, dtype=np.complex128)
    np.cos(angles, out=made.real)
    np.sin(angles, out=made.imag)
    return made


@dataclass(frozen=True, eq=False)
class Waves:
    """Terms t_i(y) = Re(amplitudes[i] * product over the columns of exp(2 pi i turns[column][y, i])) on a mesh.

    Attributes
    ----------
    turns : sequence of ndarray, shape (places along the column, terms)
        Phases of each column's coordinates, in the mesh's order.
    amplitudes : ndarray of complex, shape (terms,)
        What the terms are multiplied by, offsets included.
    """

    turns: Sequence[Floats]
    amplitudes: Complex

    def moments(self, beside: Floats | None = None) -> Floats:
        """Sum t, t^2 and, where there is one, t times `beside` over the terms: a row for each, in the mesh's order."""
        amplitudes, moving = self.amplitudes, [column for column in self.turns if len(column) > 1]
        for column in self.turns:
            if len(column) == 1:
                amplitudes = amplitudes * waves(column[0])
        moving = moving or [np.zeros((1, len(amplitudes)))]
        across, others = moving[0], moving[1:]
        places = math.prod(map(len, others))
        found = np.zeros((2 if beside is None else 3, places, len(across)))
        found[1] += np.square(np.abs(amplitudes)).sum() / 2
        step = max(1, NUMBERS // max(len(across), min(ROWS, places)))
        with one_blas_thread():  # products as short as these are not worth more
            for first in range(0, len(amplitudes), step):
                part = slice(first, first + step)
                self._add([column[:, part] for column in moving], amplitudes[part], _cut(beside, part), found)
        return found.reshape(len(found), -1)

    def combined(self, weights: Sequence[Floats]) -> Floats:
        """Sum each term over the mesh, a place weighed by the product of its columns' weights; shape (terms,)."""
        sums = (own @ waves(column) for own, column in zip(weights, self.turns, strict=True))
        return np.asarray(reduce(np.multiply, sums, self.amplitudes).real)

    @staticmethod
    def _add(columns: list[Floats], amplitudes: Complex, beside: Floats | None, found: Floats) -> None:
        """Add the sums over some terms."""
        across, *others = (waves(column) for column in columns)
        single, double = _stacked(across), _stacked(np.square(across))
        others.reverse()  # the last column runs slowest
        shape = tuple(map(len, others))
        for start in range(0, found.shape[1], ROWS):
            rows = slice(start, min(start + ROWS, found.shape[1]))
            places = np.unravel_index(np.arange(rows.start, rows.stop), shape) if shape else ()
            factor = reduce(np.multiply, (part[place] for part, place in zip(others, places, strict=True)), amplitudes)
            factor = np.atleast_2d(factor)
            found[0, rows] += _stacked(factor.conj()) @ single.T
            found[1, rows] += _stacked(np.square(factor).conj()) @ double.T / 2
            if beside is not None:
                found[2, rows] += _stacked((factor * beside).conj()) @ single.T


def _cut(numbers: Floats | None, part: slice) -> Floats | None:
    return None if numbers is None else numbers[part]


def _stacked(numbers: Complex) -> Floats:
    """Real parts beside imaginary ones: ``_stacked(a.conj()) @ _stacked(b).T`` is the real part of ``a @ b.T``."""
    return np.concatenate([numbers.real, numbers.imag], axis=1)


def answer_from_moments(moments: Floats, terms: int) -> Answer:
    """Answer from the sums of the terms and of their squares, as `answer_from_terms` does from the terms."""
    total, squares = moments
    mean = total / terms
    if terms < 2:
        return Answer(mean, np.full(len(mean), np.inf), np.zeros(len(mean)))
    variance = np.maximum(squares - terms * np.square(mean), 0) / (terms - 1)
    return Answer(mean, np.sqrt(variance / terms), np.zeros(len(mean)))
