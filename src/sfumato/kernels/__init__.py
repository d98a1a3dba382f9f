"""What similar means: kernels with their exact values, exact sums and random frequencies."""

from __future__ import annotations

from sfumato.kernels.angular import Angular
from sfumato.kernels.base import Kernel, ShiftInvariantKernel
from sfumato.kernels.cauchy import Cauchy
from sfumato.kernels.distance import Distance
from sfumato.kernels.erfc import Erfc
from sfumato.kernels.exponential import Exponential
from sfumato.kernels.gaussian import Gaussian
from sfumato.kernels.inner_product import InnerProduct
from sfumato.kernels.jaccard import Jaccard
from sfumato.kernels.laplacian import Laplacian
from sfumato.kernels.lsh import L1LSH, L2LSH, Hat
from sfumato.kernels.rational import Rational
from sfumato.kernels.registry import get_kernel, kernel_from_document
from sfumato.kernels.shift_invariant import ShiftInvariant
from sfumato.kernels.stable import StableExponential

__all__ = [
    "L1LSH",
    "L2LSH",
    "Angular",
    "Cauchy",
    "Distance",
    "Erfc",
    "Exponential",
    "Gaussian",
    "Hat",
    "InnerProduct",
    "Jaccard",
    "Kernel",
    "Laplacian",
    "Rational",
    "ShiftInvariant",
    "ShiftInvariantKernel",
    "StableExponential",
    "get_kernel",
    "kernel_from_document",
]
