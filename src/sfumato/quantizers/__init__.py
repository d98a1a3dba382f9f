"""Quantizers turn a point into short bounded integers f(x) and a query into weights g(y), with k(x, y) ~ f(x).g(y)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.quantizers.base import Bound, Encoder, Quantizer, Reader
from sfumato.quantizers.box import Box
from sfumato.quantizers.cells import Cells, Tally
from sfumato.quantizers.checked import CheckedLandmarks
from sfumato.quantizers.exponential_sums import ExponentialSums
from sfumato.quantizers.fourier import FourierQuantizer, ShardedFourier
from sfumato.quantizers.grid import GridQuantizer
from sfumato.quantizers.hashing import HashingQuantizer
from sfumato.quantizers.inner_product import InnerProductQuantizer, InnerProductSigns
from sfumato.quantizers.landmarks import LandmarkQuantizer
from sfumato.quantizers.lattice import LatticeQuantizer
from sfumato.quantizers.projection import ProjectedPoints

__all__ = [
    "Bound",
    "Box",
    "Cells",
    "CheckedLandmarks",
    "Encoder",
    "ExponentialSums",
    "FourierQuantizer",
    "GridQuantizer",
    "HashingQuantizer",
    "InnerProductQuantizer",
    "InnerProductSigns",
    "LandmarkQuantizer",
    "LatticeQuantizer",
    "ProjectedPoints",
    "Quantizer",
    "Reader",
    "ShardedFourier",
    "quantizer_from_document",
    "register_quantizer",
]

_FAMILIES: dict[str, Any] = {
    family.name: family
    for family in (
        Cells,
        CheckedLandmarks,
        ExponentialSums,
        FourierQuantizer,
        GridQuantizer,
        HashingQuantizer,
        InnerProductQuantizer,
        InnerProductSigns,
        LandmarkQuantizer,
        LatticeQuantizer,
        ProjectedPoints,
        ShardedFourier,
        Tally,
    )
}


# Families of other rooms, imported when a release needs them: those rooms build on this one.
_ELSEWHERE = {
    "bernstein": ("sfumato.published.polynomials", "BernsteinQuantizer"),
    "even-trig": ("sfumato.published.polynomials", "TrigonometricQuantizer"),
    "histogram": ("sfumato.published.histogram", "HistogramQuantizer"),
    "hermite": ("sfumato.published.hermite", "HermiteQuantizer"),
    "queries": ("sfumato.published.queries", "KernelQueries"),
    "whitened-queries": ("sfumato.published.queries", "WhitenedQueries"),
    "constant": ("sfumato.published.synthetic", "Constant"),
    "grid-records": ("sfumato.published.synthetic", "GridRecords"),
    "hat": ("sfumato.distances.hat", "HatQuantizer"),
    "moments": ("sfumato.distances.moments", "MomentQuantizer"),
    "projected": ("sfumato.distances.projection", "ProjectedQuantizer"),
    "published-moments": ("sfumato.published.moments", "PublishedMoments"),
    "interval-tree": ("sfumato.published.tree", "IntervalTree"),
    "consistent-tree": ("sfumato.published.trees", "ConsistentTree"),
    "convex-hypothesis": ("sfumato.published.huang_roth", "ConvexHypothesis"),
    "curved-points": ("sfumato.quantizers.curving", "CurvedPoints"),
    "local-rows": ("sfumato.local.rows_server", "ReportedRows"),
    "local-phases": ("sfumato.local.phases_server", "ReportedPhases"),
    "local-metric-phases": ("sfumato.local.metric_phases_server", "MetricReportedPhases"),
    "local-metric-rows": ("sfumato.local.metric_rows_server", "MetricReportedRows"),
    "local-vector": ("sfumato.local.vector_reader", "VectorReader"),
    "local-sketch": ("sfumato.published.local.readers", "SketchReader"),
    "reported-points": ("sfumato.published.local.readers", "ReportedPoints"),
    "rotated-landmarks": ("sfumato.shuffled.features", "RotatedLandmarks"),
    "projected-squares": ("sfumato.learn.squared_distance", "ProjectedSquares"),
}


def register_quantizer(family: type[Reader]) -> type[Reader]:
    """Class decorator: let releases with a quantizer of one's own be read again, by its name.

    The class needs ``from_document(document, arrays, kernel, size)`` beside `to_document`, whose document says
    ``{"quantizer": name, ...}``. Whoever reads such a release must have imported the class.
    """
    if family.name in _FAMILIES or family.name in _ELSEWHERE:
        raise InputError(f"there is a quantizer {family.name!r} already; choose another name")
    _FAMILIES[family.name] = family
    return family


def quantizer_from_document(
    document: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int
) -> Reader:
    """Rebuild a release's quantizer of `size` integers; a document that claims more is refused before it is drawn."""
    name = str(document.get("quantizer"))
    family = _FAMILIES.get(name)
    if name in _ELSEWHERE:
        module, class_name = _ELSEWHERE[name]
        family = getattr(import_module(module), class_name)
    if family is None:
        raise ReleaseFileError(f"unknown quantizer {document.get('quantizer')!r}; a newer sfumato may know it")
    made: Reader = family.from_document(document, arrays, kernel, size)
    return made
