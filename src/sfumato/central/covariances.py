"""Means and covariances of bounded columns, as exact integers: what `reference` buys.

A record becomes u = (x - c) / r in every column, c the middle of the box and r its half width, rounded to whole numbers
q of 1 / B. For the covariances it is scaled down to p, of a squared length of at most R^2 = d B^2 / 4, if it is longer:
records spread evenly over the box have d / 3, and noise goes by R^2. With N = |q|^2 > R^2 every |p_j| is
floor(|q_j| R / ceil(sqrt(N))).

Integers: R q_j for the means, 5 p_j^2 and 7 p_j p_k (j < k) for the covariances. Their squares add up to at most R^2 d
B^2 + 25 sum p_j^4 + 49 sum p_j^2 p_k^2 <= R^2 d B^2 + 25 R^4, about 29 R^4, because 49 <= 2 * 25: a product of two
columns is in the square of |p|^2 twice. The l1 norm is at most R d B + 5 R^2 + 7 (d - 1) R^2 / 2. Each row alone
decides its integers.

Records in a corner of the box are all scaled down. Their means are right, and their covariances say little; the means
themselves show it (`beyond`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels import Product
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers.base import Bound, Encoder, Floats, Integers
from sfumato.quantizers.box import Box
from sfumato.quantizers.cells import table_box
from sfumato.quantizers.clamping import kept_rows, whole_within

OWN, MIXED = 5, 7  # weights of squares and products


@dataclass(frozen=True, eq=False)
class Covariances(Encoder):
    """Sums of the columns and of their products; see the module's text.

    Attributes
    ----------
    bounds : Box
        The public box.
    scale : int
        B.

    Examples
    --------
    >>> Covariances(Box((0.0,) * 4, (1.0,) * 4), 10).encode(np.array([[0.5, 0.5, 1.0, 1.0]]))[0, :6]
    array([  0,   0, 100, 100,   0,   0])
    """

    bounds: Box
    scale: int

    @property
    def box(self) -> Box:
        """The public box."""
        return self.bounds

    @property
    def radius(self) -> int:
        """R."""
        return max(1, math.isqrt(self.dimension * self.scale**2 // 4))

    @cached_property
    def _pairs(self) -> tuple[Any, Any]:
        return np.triu_indices(self.dimension)

    @cached_property
    def _weights(self) -> Integers:
        """What the integers are multiplied by, for a value, square or product of 1."""
        first, second = self._pairs
        products = np.where(first == second, OWN, MIXED)
        return np.concatenate([np.full(self.dimension, self.radius), products])

    @property
    def size(self) -> int:
        """One sum a column, and one for every two of them."""
        return len(self._weights)

    @property
    def bound(self) -> Bound:
        """Bounds of one record, see the module's text."""
        columns, square, widest = self.dimension, self.radius**2, self.radius * self.scale
        l1 = columns * widest + OWN * square + MIXED * (columns - 1) * square // 2
        return Bound(l1, columns * widest**2 + OWN**2 * square**2, max(widest, MIXED * square))

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows."""
        places = (kept_rows(self.bounds, rows) - self.bounds.centre) / self.bounds.half_widths
        whole = whole_within(np.rint(places * self.scale), -self.scale, self.scale)
        short, (first, second) = self._shortened(whole.copy()), self._pairs
        return np.hstack([whole, short[:, first] * short[:, second]]) * self._weights

    def _shortened(self, whole: Integers) -> Integers:
        """Scale long records down to the radius."""
        squares, radius = np.square(whole).sum(axis=1), self.radius
        long = squares > radius**2
        root = np.sqrt(squares[long].astype(np.float64)).astype(np.int64)
        root += root**2 < squares[long]
        whole[long] = np.sign(whole[long]) * (np.abs(whole[long]) * radius // root[:, None])
        return whole

    def read(self, values: Integers, count: float) -> tuple[Floats, Floats]:
        """Means and covariances of u, from noisy sums and the number of records."""
        shares, columns = values / (self._weights * count), self.dimension
        means, (first, second) = np.clip(shares[:columns] / self.scale, -1.0, 1.0), self._pairs
        products = np.zeros((columns, columns))
        products[first, second] = products[second, first] = shares[columns:] / self.scale**2
        return means, np.asarray(products - np.outer(means, means))

    def beyond(self, means: Floats) -> bool:
        """Tell whether the means lie so far out that most records were scaled down, by a quarter or more."""
        return float(np.square(means * self.scale).sum()) > self.radius**2 / 2

    def assumed(self, variances: Floats, count: float) -> Integers:
        """Return the sums of so many records around the middle of the box, with these variances of u."""
        products = np.diag(variances)[self._pairs] * self.scale**2
        sums = np.concatenate([np.zeros(self.dimension), products]) * self._weights * count
        return np.asarray(np.rint(sums), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class TableMoments(Encoder):
    """Moments of the columns of numbers of a table with categories.

    Attributes
    ----------
    kernel : Product
        Says which columns hold numbers.
    moments : Covariances
        What they become.
    """

    kernel: Product
    moments: Covariances

    @cached_property
    def box(self) -> Box:
        """The public box of whole rows."""
        return table_box(self.kernel, self.moments.bounds)

    @property
    def size(self) -> int:
        """As many sums as of the numbers alone."""
        return self.moments.size

    @property
    def bound(self) -> Bound:
        """Bounds of one record: its categories add nothing."""
        return self.moments.bound

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the rows that cells keep: a category that is no number drops its row."""
        kept = rows[np.isfinite(rows).all(axis=1)]
        return self.moments.encode(kept[:, list(self.kernel.of_numbers(self.dimension))])
