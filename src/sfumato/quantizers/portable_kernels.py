"""Kernel values as features: the same bits for a record wherever it stands in the data and on every machine.

A mechanism that sums kernel values k(x, y) at public points y rounds them to integers. Law 1 asks that a row alone
decides its integers, so the values may not come from a BLAS product or a vectorised exponential whose last bit moves
with the row's position. Here every value is a fixed sequence of correctly rounded operations on that row's numbers
(`sfumato.public.portable`), which no order of rows changes. Values lie in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import Cauchy, Gaussian, Laplacian, ShiftInvariantKernel, StableExponential
from sfumato.public import portable
from sfumato.quantizers.base import Floats

Profile = Callable[[Floats], Floats]
# A tile of kernel values that stays in the second-level cache through the passes of the exponential.
TILE_VALUES = 1 << 14


@dataclass(frozen=True)
class PortableKernel:
    """A kernel that is a product over the columns of u = A^-1 (x - y), with portable values.

    Parameters
    ----------
    kernel : Kernel
        Gaussian, Laplacian, Cauchy or stable exponential.

    Examples
    --------
    >>> PortableKernel(Gaussian(2.0)).values(np.array([[0.0, 0.0]]), np.array([[0.0, 2.0]])).round(6)
    array([[0.367879]])
    """

    kernel: Any

    def __post_init__(self) -> None:
        reason = refuse_kernel(self.kernel)
        if reason is not None:
            raise InputError(f"portable values do not apply: {reason}")

    def values(self, rows: Floats, centres: Floats) -> Floats:
        """``k(x, y)`` for each row x and centre y, shape (len(rows), len(centres))."""
        points, anchors = self._units(rows), self._units(centres)
        result = np.empty((len(rows), len(centres)))
        step = max(1, TILE_VALUES // max(1, len(centres)))
        for start in range(0, len(rows), step):
            part = points[start : start + step]
            # Far away an energy may overflow; the kernel is then 0, rightly.
            with np.errstate(over="ignore"):
                energy = self._energy(part[:, 0, None] - anchors[None, :, 0])
                for column in range(1, rows.shape[1]):
                    one = self._energy(part[:, column, None] - anchors[None, :, column])
                    energy = energy * one if isinstance(self.kernel, Cauchy) else energy + one
            result[start : start + step] = self._finish(energy)
        return result

    def axis(self, column: int, dimension: int, x: Floats, y: Floats) -> Floats:
        """Factor of one column, shape (len(x), len(y)); for bandwidths with one length a column."""
        length = axis_lengths(self.kernel, dimension)[column]
        return self._finish(self._energy((x / length)[:, None] - (y / length)[None, :]))

    def _units(self, rows: Floats) -> Floats:
        scale = self.kernel.scale
        scale.check(rows.shape[1])
        if len(scale.shape) < 2:
            return np.asarray(rows / scale.numbers)
        return np.ascontiguousarray(portable.product(scale.inverse, np.ascontiguousarray(rows.T)).T)

    def _energy(self, u: Floats) -> Floats:
        kernel = self.kernel
        if isinstance(kernel, Laplacian):
            return np.abs(u)
        if isinstance(kernel, StableExponential) and kernel.p != 2.0:
            return _power(np.abs(u), kernel.p)
        return u * u + 1.0 if isinstance(kernel, Cauchy) else u * u

    def _finish(self, energy: Floats) -> Floats:
        if isinstance(self.kernel, Cauchy):
            return np.asarray(1.0 / energy)
        return np.minimum(portable.exp(-energy), 1.0)


def refuse_kernel(kernel: Any) -> str | None:
    """Say why a kernel has no portable values, or return None."""
    if isinstance(kernel, Gaussian | Laplacian | Cauchy | StableExponential):
        return None
    return f"it needs a gaussian, laplacian, cauchy or stable-exponential kernel, not {kernel.name}"


def refuse_columns(kernel: Any) -> str | None:
    """Say why a kernel is not a product over the columns of the data, or return None."""
    reason = refuse_kernel(kernel)
    if reason is None and len(kernel.scale.shape) == 2:
        reason = "it needs one bandwidth, or one for each column, not a matrix"
    return reason


def axis_lengths(kernel: ShiftInvariantKernel, dimension: int) -> Floats:
    """Bandwidth of each column."""
    if len(kernel.scale.shape) == 2:
        raise InputError("a bandwidth matrix has no length for each column")
    return kernel.column_scales(dimension)


def _power(x: Floats, p: float) -> Floats:
    """``x^p`` for x >= 0."""
    positive = np.maximum(x, np.finfo(np.float64).tiny)
    return np.asarray(np.where(x > 0.0, portable.exp(p * portable.log(positive)), 0.0))
