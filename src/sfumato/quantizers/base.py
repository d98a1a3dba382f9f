"""The contract of a quantizer: a point becomes short bounded integers, a query becomes weights.

A quantizer is a public pair of maps (f, g) with k(x, y) ~ decode(f(x)) . g(y). In the words of
000_373b91ba792b499d.txt it is I draws of a (Q, R, S) family: `terms` draws (I) of `width` coordinates each (Q), of
which one record touches at most `sparsity` (S), with values bounded by `bound.largest` (R, here an integer). The
family is open: subclass `Quantizer`, state the bound, and every trust model and decoder can use it.

Law 1 of the house: `encode` decides each row's integers from that row (and its own secret coins) alone. Permuting,
dropping or re-blocking rows, or changing threads, leaves every other row's integers bit-identical, so a record's
influence on the exact integer sum is exactly what `bound` says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers.box import Box

COMBINED_NUMBERS = 1 << 22  # of weights that are held at once
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


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
    """

    l1: int
    l2_squared: int
    largest: int


class Quantizer(ABC):
    """Public maps f (points to integers) and g (queries to weights); see the module's text for the contract."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def box(self) -> Box:
        """Where points may live."""

    @property
    @abstractmethod
    def terms(self) -> int:
        """Number of independent draws of the family (I)."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Coordinates of one draw (Q)."""

    @property
    @abstractmethod
    def sparsity(self) -> int:
        """Coordinates of one draw that one record may touch (S)."""

    @property
    def size(self) -> int:
        """Number of integers in f(x)."""
        return self.terms * self.width

    @property
    def dimension(self) -> int:
        """Number of columns of a point."""
        return self.box.dimension

    @property
    def strata(self) -> tuple[int, ...]:
        """Sizes of the parts, one after the other, within which terms have the same law; one part unless said."""
        return (self.terms,)

    @property
    @abstractmethod
    def bound(self) -> Bound:
        """What one record can add to the sum."""

    @property
    def term_bias(self) -> float:
        """Largest systematic error of the mean of the terms, per record, where there is one."""
        return 0.0

    @abstractmethod
    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows, one row of `size` integers each (rows that the box drops are left out)."""

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the integers of `rows` to `sums` in place and return how many rows were kept."""
        encoded = self.encode(rows, coins)
        sums += encoded.sum(axis=0)
        return len(encoded)

    @abstractmethod
    def weights(self, Y: Floats) -> Floats:
        """Weights g(y): the mean over terms of f(x) . g(y) estimates k(x, y). Shape (len(Y), size)."""

    def combine(self, Y: Floats, coefficients: Floats) -> Floats:
        """Weights ``sum_q coefficients[q] g(Y[q])`` of a weighted sum of answers, shape (size,)."""
        block = max(1, COMBINED_NUMBERS // self.size)
        parts = (slice(start, start + block) for start in range(0, len(Y), block))
        return np.asarray(sum((coefficients[part] @ self.weights(Y[part]) for part in parts), np.zeros(self.size)))

    @property
    def query_products(self) -> int:
        """Products of weights and sums that one answer takes."""
        return self.size

    def term_values(self, Y: Floats, sums: Floats) -> Floats:
        """Value f_i . g_i(y) of each term for the summed features `sums`: shape (len(Y), terms)."""
        weighted = self.weights(Y) * sums
        return np.asarray(weighted.reshape(len(Y), self.terms, self.width).sum(axis=2))

    @abstractmethod
    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything public that is needed to answer queries: a JSON document and named arrays."""


@dataclass(frozen=True)
class Reading:
    """What fixed weights read off noisy sums.

    Attributes
    ----------
    total, weight_squares : ndarray
        g(y).sums and |g(y)|^2.
    bias : ndarray
        Typical bias of f(x).g(y) at y, per record.
    spread : float
        Variance of one of the sums as the sums themselves show it, where a random map (a hash) acts like more noise;
        0 where there is none.
    count_product : ndarray or float
        g(y).c where the published count is read off the same sums as c.sums, so that their errors go together; else 0.
    """

    total: Floats
    weight_squares: Floats
    bias: Floats
    spread: float = 0.0
    count_product: Floats | float = 0.0


@dataclass(frozen=True)
class Known:
    """What a release knows beside its sums.

    Attributes
    ----------
    noise_variance : float
        Variance of the noise on one integer.
    count, count_variance : float
        The published number of records, and its variance.
    """

    noise_variance: float
    count: float = 1.0
    count_variance: float = 0.0


class LinearQuantizer(Quantizer):
    """A quantizer that approximates the kernel as a whole: one term, fixed weights, a bias that the query decides."""

    @property
    def terms(self) -> int:
        """One draw: there is nothing to average over."""
        return 1

    @abstractmethod
    def read(self, Y: Floats, sums: Floats) -> Reading:
        """Read answers off the sums; fast paths (separable weights) live here."""

    def read_released(self, Y: Floats, sums: Floats, known: Known) -> Reading:
        """Read answers where the count and the noise are known; `read`, unless answers or biases depend on them."""
        return self.read(Y, sums)

    def bias_bound(self, Y: Floats, sums: Floats, known: Known) -> Floats:
        """Upper limit of the bias at queries, per record, for quantizers that can state one for any records."""
        raise InputError(f"{self.name} states the typical bias in its error bars, and no limit of it")

    def findings(self, sums: Floats, known: Known) -> dict[str, float]:
        """Say what the sums themselves show of how well the approximation suits the records; most show nothing."""
        return {}
