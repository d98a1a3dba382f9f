"""What similar means: kernels with their exact values, exact sums and random frequencies."""

from __future__ import annotations

from sfumato.kernels.base import Kernel, ScaledKernel, get_kernel, kernel_from_document
from sfumato.kernels.curved import Circle, Curved, Sphere
from sfumato.kernels.custom import ShiftInvariant
from sfumato.kernels.lsh import L1LSH, L2LSH, Erfc, Hat
from sfumato.kernels.product import Overlap, Product
from sfumato.kernels.rational import Exponential, Rational
from sfumato.kernels.shift_invariant import Cauchy, Gaussian, Laplacian, ShiftInvariantKernel, StableExponential
from sfumato.kernels.unscaled import Angular, Distance, InnerProduct, Jaccard

__all__ = [
    "L1LSH",
    "L2LSH",
    "Angular",
    "Cauchy",
    "Circle",
    "Curved",
    "Distance",
    "Erfc",
    "Exponential",
    "Gaussian",
    "Hat",
    "InnerProduct",
    "Jaccard",
    "Kernel",
    "Laplacian",
    "Overlap",
    "Product",
    "Rational",
    "ScaledKernel",
    "ShiftInvariant",
    "ShiftInvariantKernel",
    "Sphere",
    "StableExponential",
    "get_kernel",
    "kernel_from_document",
]
