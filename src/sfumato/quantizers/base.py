"""The contracts of encoder and reader: a point becomes short bounded integers, their sums answer queries.

An **encoder** turns a row into integers f(x) with hard bounds (`bound`). Law 1 of the house: it decides each row's
integers from that row (and its own secret coins) alone. Permuting, dropping or re-blocking rows, or changing threads,
leaves every other row's integers bit-identical, so a record's influence on the exact integer sum is exactly what
`bound` says.

A **reader** turns released integers and a query into an `Answer`: value, standard error, bias. It holds public
parameters alone. `TermReader` averages independent random terms; `LinearReader` weighs the sums by fixed weights g(y).

A **quantizer** is the pair made from one set of public parameters, with k(x, y) ~ f(x) . g(y). In the words of
Wagner et al. (2023) it is I draws of a (Q, R, S) family: `terms` draws (I) of `width` coordinates each (Q), of
which one record touches some (S, `bound.touched` in all), with values bounded by `bound.largest` (R, here an integer).
What only reads (reports that devices made) has no encoder. The families are open: subclass `LinearQuantizer` or
`TermQuantizer`, state the bound, and every trust model can use it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.laws import NoiseLaw, drawing_cost
from sfumato.public.codec import Schema
from sfumato.quantizers.answer import (
    Answer,
    Combined,
    Floats,
    Known,
    Reading,
    answer_from_strata,
    answer_from_terms,
)
from sfumato.quantizers.box import Box
from sfumato.quantizers.mesh import Mesh

__all__ = [
    "Answer",
    "Bound",
    "Combined",
    "Encoder",
    "Floats",
    "Integers",
    "Known",
    "LinearQuantizer",
    "LinearReader",
    "Mesh",
    "Quantizer",
    "Reader",
    "Reading",
    "TermQuantizer",
    "TermReader",
    "stored_array",
]

BLOCK_NUMBERS = 1 << 22  # of weights or terms that are held at once
WINDOW_NUMBERS = 64  # about what one query's weights along the columns of a grid take, and every other reader's least
MOST_DRAWN = 1 << 23  # noise integers of simulated errors in all: a second or two
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Bound:
    """Hard bounds on the integers that one record adds to the sum.

    Attributes
    ----------
    l1 : int
        Largest sum of absolute values.
    l2_squared : int
        Largest sum of squares.
    largest : int
        Largest absolute value of one coordinate.
    touched : int or None
        How many coordinates are not 0 at most; None where that may be all of them.
    """

    l1: int
    l2_squared: int
    largest: int
    touched: int | None = None


class Encoder(ABC):
    """A public map f from points to bounded integers; see the module's text for the contract."""

    @property
    @abstractmethod
    def box(self) -> Box:
        """Where points may live."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of integers in f(x)."""

    @property
    def dimension(self) -> int:
        """Number of columns of a point."""
        return self.box.dimension

    @property
    @abstractmethod
    def bound(self) -> Bound:
        """What one record can add to the sum."""

    @abstractmethod
    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows, one row of `size` integers each (rows that the box drops are left out)."""

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the integers of `rows` to `sums` in place and return how many rows were kept."""
        encoded = self.encode(rows, coins)
        sums += encoded.sum(axis=0)
        return len(encoded)


class Reader(ABC):
    """Public parameters that turn released integers and a query into an answer."""

    name: ClassVar[str]
    schema: ClassVar[Schema]
    kernels: ClassVar[type[Any] | tuple[type[Any], ...]] = object

    @property
    @abstractmethod
    def box(self) -> Box:
        """Where points lived."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Coordinates of one draw (Q)."""

    @property
    def terms(self) -> int:
        """Number of independent draws that an answer averages over (I); 1 where there is nothing to average."""
        return 1

    @property
    def size(self) -> int:
        """Number of integers that are read."""
        return self.terms * self.width

    @property
    def dimension(self) -> int:
        """Number of columns of a query."""
        return self.box.dimension

    @property
    def query_products(self) -> int:
        """Products of weights and sums that one answer takes."""
        return self.size

    @property
    def query_numbers(self) -> int:
        """Numbers that one query takes while many are read together, about; blocks of queries are cut by it."""
        return self.size

    @abstractmethod
    def weights(self, Y: Floats) -> Floats:
        """Weights g(y): f(x) . g(y), averaged over the terms, stands for k(x, y). Shape (len(Y), size)."""

    @abstractmethod
    def read(self, Y: Floats, sums: Floats, known: Known) -> Answer:
        """Answer queries."""

    def read_mesh(self, mesh: Mesh, sums: Floats, known: Known) -> Answer | None:
        """Answer at all places of a mesh; None where that takes no less than to read them one by one."""
        return None

    def read_axes(self, length: float, sums: Floats, known: Known) -> Answer | None:
        """Answer at the columns' unit vectors times a length; None as above."""
        return None

    @abstractmethod
    def combined(self, Y: Floats, coefficients: Floats, sums: Floats, known: Known) -> Combined:
        """Answer ``sum_q coefficients[q] * answer(Y[q])``."""

    def combined_mesh(self, mesh: Mesh, weights: Sequence[Floats], sums: Floats, known: Known) -> Combined | None:
        """Combine answers at a mesh by products of weights along its columns, in its order; None as above."""
        return None

    @abstractmethod
    def error_paths(
        self, Y: Floats, sums: Floats, noise: NoiseLaw, groups: int, draws: int, seed: int
    ) -> Floats | None:
        """Simulate the errors of all totals together, shape (draws, len(Y)); None where that would take long."""

    def bias_bound(self, Y: Floats, sums: Floats, known: Known) -> Floats:
        """Upper limit of the bias at queries, per record, for readers that can state one for any records."""
        raise InputError(f"{self.name} states the typical bias in its error bars, and no limit of it")

    def records_shown(self, sums: Floats, known: Known) -> tuple[float, float] | None:
        """Estimate the number of records, with the noise's standard error; None where the sums do not show it."""
        return None

    def similarity(self, sums: Floats, known: Known) -> tuple[float, float] | None:
        """Estimate P, the mean kernel value between two records, with its standard error; None where sums hide it."""
        return None

    def findings(self, sums: Floats, known: Known) -> dict[str, float]:
        """Say what the sums themselves show of how well the approximation suits the records; most show nothing."""
        return {}

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything public that is needed to answer queries: a JSON document and named arrays."""
        return self.schema.write(self), {}

    @classmethod
    def from_document(cls, document: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild a reader of `size` integers: the schema checks every field, `from_fields` what depends on them."""
        try:
            fields = cls.schema.read(document, "quantizer")
        except InputError as problem:
            raise ReleaseFileError(str(problem)) from None
        if not isinstance(kernel, cls.kernels):
            raise ReleaseFileError(f"{cls.name} needs its kernel, and the release's header has none that suits it")
        made = cls.from_fields(fields, arrays, kernel, size)
        if made.size != size:
            raise ReleaseFileError(f"the header describes {made.size} integers, and the release holds {size}")
        return made

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Make a reader from checked fields; what is drawn for them is checked against `size` first."""
        return cls(**fields)


class TermReader(Reader):
    """Averages independent random terms, which show the error of their mean by themselves."""

    @property
    def strata(self) -> tuple[int, ...]:
        """Sizes of the parts, one after the other, within which terms have the same law; one part unless said."""
        return (self.terms,)

    @property
    def query_numbers(self) -> int:
        """The terms."""
        return self.terms

    @property
    def term_bias(self) -> float:
        """Largest systematic error of the mean of the terms, per record, where there is one."""
        return 0.0

    def term_values(self, Y: Floats, sums: Floats) -> Floats:
        """Value f_i . g_i(y) of each term for the summed features `sums`: shape (len(Y), terms)."""
        weighted = self.weights(Y) * sums
        return np.asarray(weighted.reshape(len(Y), self.terms, self.width).sum(axis=2))

    def read(self, Y: Floats, sums: Floats, known: Known) -> Answer:
        """Take the mean of the terms, or the median of means, with the spread that the terms show."""
        terms, strata = self.term_values(Y, sums), self.strata
        answer = answer_from_terms(terms, known.groups) if len(strata) == 1 else answer_from_strata(terms, strata)
        return replace(answer, bias=np.full(len(Y), self.term_bias)) if self.term_bias else answer

    def combined(self, Y: Floats, coefficients: Floats, sums: Floats, known: Known) -> Combined:
        """Combine term by term, so that the terms show the error of the whole."""
        terms, answers = np.zeros((1, self.terms)), np.empty(len(Y))
        for part in _blocks(len(Y), self.terms):
            values = self.term_values(Y[part], sums)
            terms[0] += coefficients[part] @ values
            answers[part] = values.mean(axis=1)
        return combined_terms(terms, known, answers)

    def error_paths(
        self, Y: Floats, sums: Floats, noise: NoiseLaw, groups: int, draws: int, seed: int
    ) -> Floats | None:
        """Weigh the terms' deviations from their mean by normal multipliers."""
        multipliers = np.random.default_rng(seed).normal(size=(draws, self.terms))
        if groups > 1:  # a median of means has about pi/2 times the variance of a mean
            multipliers *= math.sqrt(math.pi / 2)
        paths = np.empty((draws, len(Y)))
        for part in _blocks(len(Y), self.terms):
            terms = self.term_values(Y[part], sums)
            terms -= terms.mean(axis=1, keepdims=True)
            paths[:, part] = multipliers @ terms.T / self.terms
        return paths

    def bias_bound(self, Y: Floats, sums: Floats, known: Known) -> Floats:
        """Return what the terms miss at most, which is usually nothing."""
        return np.full(len(Y), self.term_bias)


class LinearReader(Reader):
    """Weighs the sums by fixed weights: it approximates the kernel as a whole, with a bias that the query decides.

    Attributes
    ----------
    fixed_weights : bool
        Whether `weights` says which; otherwise it refuses, and answers are linear in the noise to first order at most.
    """

    fixed_weights: ClassVar[bool] = True

    @abstractmethod
    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Read answers off the sums; fast paths (separable weights) live here."""

    def reading(self, Y: Floats, sums: Floats, known: Known) -> Reading:
        """Read answers where the count and the noise are known; `weigh`, unless answers or biases depend on them."""
        return self.weigh(Y, sums)

    def combine(self, Y: Floats, coefficients: Floats) -> Floats:
        """Weights ``sum_q coefficients[q] g(Y[q])`` of a weighted sum of answers, shape (size,)."""
        parts = (coefficients[part] @ self.weights(Y[part]) for part in _blocks(len(Y), self.size))
        return np.asarray(sum(parts, np.zeros(self.size)))

    def read(self, Y: Floats, sums: Floats, known: Known) -> Answer:
        """Read the sums, with the noise that the weights carry."""
        return self.reading(Y, sums, known).answer(known.noise_variance)

    def combined(self, Y: Floats, coefficients: Floats, sums: Floats, known: Known) -> Combined:
        """Combine the weights; biases are added up as they are stated."""
        weights, answers, stated, noise = np.zeros(self.size), np.empty(len(Y)), 0.0, known.noise_variance
        for part in _blocks(len(Y), max(WINDOW_NUMBERS, self.query_numbers)):
            reading = self.reading(Y[part], sums, known)
            weights += self.combine(Y[part], coefficients[part])
            answers[part], noise = reading.total, max(noise, reading.spread)
            stated += known.count * float(coefficients[part] @ reading.bias)
        total, variance = float(coefficients @ answers), noise * float(weights @ weights)
        return Combined(total, variance, answers, stated, weights)

    def error_paths(
        self, Y: Floats, sums: Floats, noise: NoiseLaw, groups: int, draws: int, seed: int
    ) -> Floats | None:
        """Draw the noise again and again, and read it."""
        drawn = drawn_again(noise, self.size, draws, seed) if self.fixed_weights else None
        if drawn is None:
            return None
        paths = np.empty((draws, len(Y)))
        for part in _blocks(len(Y), self.size):
            paths[:, part] = drawn @ self.weights(Y[part]).T
        return paths


def drawn_again(noise: NoiseLaw, size: int, draws: int, seed: int) -> Floats | None:
    """Draw noise of so many sums again and again; None where that would take long, or nobody here can."""
    if size * draws * drawing_cost(noise) > MOST_DRAWN:
        return None
    bits = SecureBits.seeded(seed)
    return np.array([noise.sample(bits, size) for _ in range(draws)], dtype=np.float64)


def combined_terms(terms: Floats, known: Known, answers: Floats) -> Combined:
    """Combine by what each term gives for the whole, shape (1, terms)."""
    answer = answer_from_terms(terms, known.groups)
    return Combined(float(answer.total[0]), float(answer.standard_error[0]) ** 2, answers)


def within(numbers: NDArray[Any], largest: float) -> bool:
    """Tell whether all numbers lie within so much of 0; the least integer, whose absolute value is itself, does not.

    Examples
    --------
    >>> within(np.array([-3, 3]), 3), within(np.array([-(2**63)]), 3), within(np.array([np.nan]), 3)
    (True, False, False)
    """
    return bool(((numbers >= -largest) & (numbers <= largest)).all())


def stored_array(
    arrays: dict[str, NDArray[Any]], name: str, kinds: str, shape: tuple[int | None, ...], largest: float = math.inf
) -> NDArray[Any]:
    """Return an array that a release must hold: kinds "i" or "f", a shape (None: any length from 1 on), a range."""
    array = arrays.get(name)
    fits = array is not None and array.dtype.kind in kinds and array.ndim == len(shape) and array.size > 0
    if array is None or not fits or any(want not in (None, has) for want, has in zip(shape, array.shape, strict=True)):
        wanted = " x ".join("any" if length is None else str(length) for length in shape)
        raise ReleaseFileError(f"the release must hold an array {name!r} of {wanted} numbers, of kind {kinds!r}")
    if not within(array, largest) or (array.dtype.kind == "f" and not np.isfinite(array).all()):
        raise ReleaseFileError(f"the numbers of the release's array {name!r} must lie within {largest:g} of 0")
    return array


class Quantizer(Reader, Encoder):
    """An encoder and the reader of its sums, made from one set of public parameters."""


class TermQuantizer(TermReader, Quantizer):
    """A quantizer whose answers are means of random terms."""


class LinearQuantizer(LinearReader, Quantizer):
    """A quantizer whose answers have fixed weights."""


def _blocks(count: int, width: int) -> Iterator[slice]:
    """Cut `count` rows of `width` numbers into blocks that fit in memory."""
    block = max(1, BLOCK_NUMBERS // width)
    return (slice(start, start + block) for start in range(0, count, block))
