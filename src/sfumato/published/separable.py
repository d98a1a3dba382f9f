"""Dense products over columns: f_p(x) = prod_j f_{p_j}(x_j) with factors in [-1, 1], read by products of weights.

A record touches all `prod(widths)` coordinates, each with an absolute value of at most `scale`: the product of the
factors is rounded once, `rint(scale * product)`, and the product of numbers in [-1, 1] stays there under correct
rounding. So l1 <= scale * size and l2^2 <= scale^2 * size, whatever the record.

Error of an answer: noise of variance `noise_variance * prod_j |g_j(y_j)|^2 / scale^2`, and the kernel's misfit, given
as |k(., y) - f.g(y)| / |k(., y)| in the norm of L2 over the box, times the answer or `density`, whichever is larger:
what a density of that size misses where records are spiky. Where they are spread smoothly the kernel's errors cancel,
and less is missed.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sfumato.errors import InputError
from sfumato.public.codec import Schema, Whole
from sfumato.published.common import DENSITY, LARGEST_SCALE, Blocks
from sfumato.quantizers.base import Bound, Floats, Integers, Known, LinearQuantizer, Reading
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import midpoints, raised_bias, relative_misfit, whole_within
from sfumato.quantizers.described import Described, described
from sfumato.quantizers.portable_kernels import PortableKernel, refuse_columns

MISFIT_POINTS = 256


@dataclass(frozen=True, eq=False)
class SeparableQuantizer(Blocks, Described, LinearQuantizer):
    """Products over columns; a family says what its factors and weights are.

    Attributes
    ----------
    kernel : Kernel
        Separable, with one bandwidth or one a column.
    bounds : Box
        The public box.
    degree : int
        Size of the family.
    scale : int
        Integer that stands for 1.
    density : float
        Public guess of the density: the least for which the bias is stated.
    """

    kernel: Any
    bounds: Box
    degree: int
    scale: int
    density: float

    block_values: ClassVar[int] = 1 << 17
    schema: ClassVar[Schema] = described(
        "separable", degree=Whole(1, 1 << 16), scale=Whole(1, LARGEST_SCALE), density=DENSITY
    )

    def __post_init__(self) -> None:
        reason = refuse_columns(self.kernel)
        if reason is not None:
            raise InputError(f"{self.name} does not apply: {reason}")
        if self.degree < 1 or self.scale < 1:
            raise InputError(f"degree and scale must be positive, got {self.degree} and {self.scale}")
        self.kernel.scale.check(self.bounds.dimension)

    @property
    @abstractmethod
    def axis_width(self) -> int:
        """Factors of one column."""

    @abstractmethod
    def factors(self, column: int, x: Floats) -> Floats:
        """Factors of one column for records, portable, within [-1, 1]; shape (len(x), axis_width)."""

    @abstractmethod
    def axis_weights(self, column: int, y: Floats) -> Floats:
        """Weights of one column for queries; shape (len(y), axis_width)."""

    @property
    def width(self) -> int:
        """All products of one factor a column."""
        return int(self.axis_width**self.dimension)

    @property
    def query_numbers(self) -> int:
        """The first column's weights, or what is left of the sums after it."""
        return max(self.axis_width, self.width // self.axis_width)

    @property
    def bound(self) -> Bound:
        """Every coordinate is at most the scale."""
        return Bound(l1=self.scale * self.width, l2_squared=self.scale**2 * self.width, largest=self.scale)

    @property
    def portable(self) -> PortableKernel:
        """The kernel's values as features."""
        return PortableKernel(self.kernel)

    def _integers(self, rows: Floats) -> Integers:
        product = np.ones((len(rows), 1))
        for column in range(self.dimension):
            factors = self.factors(column, np.ascontiguousarray(rows[:, column]))
            product = (product[:, :, None] * factors[:, None, :]).reshape(len(rows), -1)
        return whole_within(np.rint(product * self.scale), -self.scale, self.scale)

    def weights(self, Y: Floats) -> Floats:
        """Products of the columns' weights, over the scale."""
        product = np.full((len(Y), 1), 1 / self.scale)
        for column in range(self.dimension):
            product = (product[:, :, None] * self.axis_weights(column, Y[:, column])[:, None, :]).reshape(len(Y), -1)
        return product

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Contract the sums one column after the other."""
        squares, first = np.full(len(Y), 1 / self.scale**2), True
        partial: Floats = sums / self.scale
        for column in range(self.dimension):
            weights = self.axis_weights(column, Y[:, column])
            squares *= np.square(weights).sum(axis=1)
            if first:
                partial, first = weights @ partial.reshape(self.axis_width, -1), False
            else:
                partial = np.einsum("qw,qwr->qr", weights, partial.reshape(len(Y), self.axis_width, -1))
        return Reading(partial[:, 0], squares, self.density * self.misfit(Y))

    def reading(self, Y: Floats, sums: Floats, known: Known) -> Reading:
        """Read answers; where they are larger than the guess of the density, so is the bias."""
        return raised_bias(self.weigh(Y, sums), self.density, known)

    def misfit(self, Y: Floats) -> Floats:
        """Relative error of the kernel at each query, see the module's text."""
        parts = np.ones((3, len(Y)))
        for column, (x, factors) in enumerate(self._probes):
            kernel = self.portable.axis(column, self.dimension, x, Y[:, column])
            fitted = factors @ self.axis_weights(column, Y[:, column]).T
            parts *= [np.square(kernel).mean(axis=0), (kernel * fitted).mean(axis=0), np.square(fitted).mean(axis=0)]
        return relative_misfit(*parts)

    @cached_property
    def _probes(self) -> list[tuple[Floats, Floats]]:
        places = [midpoints(low, high, MISFIT_POINTS) for low, high in zip(self.box.lower, self.box.upper, strict=True)]
        return [(x, self.factors(column, x)) for column, x in enumerate(places)]
