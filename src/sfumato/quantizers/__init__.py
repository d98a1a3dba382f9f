"""Quantizers turn a point into short bounded integers f(x) and a query into weights g(y), with k(x, y) ~ f(x).g(y)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from numpy.typing import NDArray

from sfumato.errors import ReleaseFileError
from sfumato.quantizers.base import Bound, Quantizer
from sfumato.quantizers.bernstein import BernsteinQuantizer
from sfumato.quantizers.box import Box
from sfumato.quantizers.fourier import FourierQuantizer
from sfumato.quantizers.grid import GridQuantizer
from sfumato.quantizers.hashing import HashingQuantizer
from sfumato.quantizers.hermite import HermiteQuantizer
from sfumato.quantizers.inner_product import InnerProductQuantizer, InnerProductSigns
from sfumato.quantizers.landmarks import LandmarkQuantizer
from sfumato.quantizers.queries import KernelQueries, WhitenedQueries
from sfumato.quantizers.sharded import ShardedFourier
from sfumato.quantizers.synthetic import Constant, GridRecords
from sfumato.quantizers.trigonometric import TrigonometricQuantizer

__all__ = [
    "BernsteinQuantizer",
    "Bound",
    "Box",
    "Constant",
    "FourierQuantizer",
    "GridQuantizer",
    "GridRecords",
    "HashingQuantizer",
    "HermiteQuantizer",
    "InnerProductQuantizer",
    "InnerProductSigns",
    "KernelQueries",
    "LandmarkQuantizer",
    "Quantizer",
    "ShardedFourier",
    "TrigonometricQuantizer",
    "WhitenedQueries",
    "quantizer_from_document",
]

_FAMILIES: dict[str, Any] = {
    family.name: family
    for family in (
        BernsteinQuantizer,
        Constant,
        FourierQuantizer,
        GridQuantizer,
        GridRecords,
        HashingQuantizer,
        HermiteQuantizer,
        InnerProductQuantizer,
        InnerProductSigns,
        KernelQueries,
        LandmarkQuantizer,
        ShardedFourier,
        TrigonometricQuantizer,
        WhitenedQueries,
    )
}


# Families of other rooms, imported when a release needs them: those rooms build on this one.
_ELSEWHERE = {
    "hat": ("sfumato.distances.hat", "HatQuantizer"),
    "moments": ("sfumato.distances.moments", "MomentQuantizer"),
    "projected": ("sfumato.distances.projected", "ProjectedQuantizer"),
    "published-moments": ("sfumato.distances.published_moments", "PublishedMoments"),
    "interval-tree": ("sfumato.distances.tree", "IntervalTree"),
    "consistent-tree": ("sfumato.distances.consistent", "ConsistentTree"),
    "convex-hypothesis": ("sfumato.distances.huang_roth", "ConvexHypothesis"),
}


def quantizer_from_document(
    document: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int
) -> Quantizer:
    """Rebuild a release's quantizer of `size` integers; a document that claims more is refused before it is drawn."""
    name = str(document.get("quantizer"))
    family = _FAMILIES.get(name)
    if name in _ELSEWHERE:
        module, class_name = _ELSEWHERE[name]
        family = getattr(import_module(module), class_name)
    if family is None:
        raise ReleaseFileError(f"unknown quantizer {document.get('quantizer')!r}; a newer sfumato may know it")
    made: Quantizer = family.from_document(document, arrays, kernel, size)
    return made
