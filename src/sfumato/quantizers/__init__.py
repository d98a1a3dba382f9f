"""Quantizers turn a point into short bounded integers f(x) and a query into weights g(y), with k(x, y) ~ f(x).g(y)."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.families import QUANTIZERS
from sfumato.quantizers.base import Bound, Encoder, Quantizer, Reader
from sfumato.quantizers.box import Box
from sfumato.quantizers.cells import Cells, Tally
from sfumato.quantizers.checked import CheckedLandmarks
from sfumato.quantizers.curving import CurvedPoints
from sfumato.quantizers.exponential_sums import ExponentialSums
from sfumato.quantizers.fourier import FourierQuantizer, ShardedFourier
from sfumato.quantizers.grid import GridQuantizer
from sfumato.quantizers.hashing import HashingQuantizer
from sfumato.quantizers.inner_product import InnerProductQuantizer, InnerProductSigns
from sfumato.quantizers.landmarks import LandmarkQuantizer
from sfumato.quantizers.lattice import LatticeQuantizer
from sfumato.quantizers.product_lattice import ProductLattice
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
    "ProductLattice",
    "ProjectedPoints",
    "Quantizer",
    "Reader",
    "ShardedFourier",
    "quantizer_from_document",
    "register_quantizer",
]

for _family in (
    Cells,
    CheckedLandmarks,
    CurvedPoints,
    ExponentialSums,
    FourierQuantizer,
    GridQuantizer,
    HashingQuantizer,
    InnerProductQuantizer,
    InnerProductSigns,
    LandmarkQuantizer,
    LatticeQuantizer,
    ProductLattice,
    ProjectedPoints,
    ShardedFourier,
    Tally,
):
    QUANTIZERS.add(_family.name, _family)


def register_quantizer(family: type[Reader]) -> type[Reader]:
    """Class decorator: let releases with a quantizer of one's own be read again, by its name.

    The class needs ``from_document(document, arrays, kernel, size)`` beside `to_document`, whose document says
    ``{"quantizer": name, ...}``. Whoever reads such a release must have imported the class.
    """
    if family.name in QUANTIZERS:
        raise InputError(f"there is a quantizer {family.name!r} already; choose another name")
    QUANTIZERS.add(family.name, family)
    return family


def quantizer_from_document(
    document: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int
) -> Reader:
    """Rebuild a release's quantizer of `size` integers; a document that claims more is refused before it is drawn."""
    family = QUANTIZERS.get(str(document.get("quantizer")))
    if family is None:
        raise ReleaseFileError(f"unknown quantizer {document.get('quantizer')!r}; a newer sfumato may know it")
    made: Reader = family.from_document(document, arrays, kernel, size)
    return made
