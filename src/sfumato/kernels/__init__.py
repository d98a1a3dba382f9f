"""What similar means: kernels with their exact values, exact sums and random frequencies."""

from __future__ import annotations

from sfumato.kernels.base import Kernel, ShiftInvariantKernel
from sfumato.kernels.cauchy import Cauchy
from sfumato.kernels.gaussian import Gaussian
from sfumato.kernels.laplacian import Laplacian
from sfumato.kernels.registry import get_kernel, kernel_from_document
from sfumato.kernels.shift_invariant import ShiftInvariant
from sfumato.kernels.stable import StableExponential

__all__ = [
    "Cauchy",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "ShiftInvariant",
    "ShiftInvariantKernel",
    "StableExponential",
    "get_kernel",
    "kernel_from_document",
]
