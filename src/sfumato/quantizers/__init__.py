"""Quantizers turn a point into short bounded integers f(x) and a query into weights g(y), with k(x, y) ~ f(x).g(y)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.families import QUANTIZERS
from sfumato.quantizers.base import Bound, Encoder, Quantizer, Reader
from sfumato.quantizers.box import Box

if TYPE_CHECKING:
    from sfumato.quantizers.cells import Cells
    from sfumato.quantizers.checked import CheckedLandmarks
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

# A release is read with one of them: each is loaded when a document, or somebody, names it.
_FAMILIES = {
    "cells": {"cells": "Cells", "tally": "Tally"},
    "checked": {"checked-landmarks": "CheckedLandmarks"},
    "curving": {"curved-points": "CurvedPoints"},
    "exponential_sums": {"exponential-sums": "ExponentialSums"},
    "fourier": {"fourier": "FourierQuantizer", "sharded-fourier": "ShardedFourier"},
    "grid": {"grid": "GridQuantizer"},
    "hashing": {"hashing": "HashingQuantizer"},
    "inner_product": {"inner-product": "InnerProductQuantizer", "inner-product-signs": "InnerProductSigns"},
    "landmarks": {"landmarks": "LandmarkQuantizer"},
    "lattice": {"lattice": "LatticeQuantizer"},
    "product_lattice": {"product-lattice": "ProductLattice"},
    "projection": {"projected-points": "ProjectedPoints"},
}
for _module, _classes in _FAMILIES.items():
    QUANTIZERS.place(f"sfumato.quantizers.{_module}", _classes)


def __getattr__(name: str) -> Any:
    for module, classes in _FAMILIES.items():
        if name in classes.values():
            return getattr(import_module(f"sfumato.quantizers.{module}"), name)
    raise AttributeError(f"module 'sfumato.quantizers' has no attribute {name!r}")


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
    if not size:
        raise ReleaseFileError("the release holds no sums")
    family = QUANTIZERS.get(str(document.get("quantizer")))
    if family is None:
        raise ReleaseFileError(f"unknown quantizer {document.get('quantizer')!r}; a newer sfumato may know it")
    made: Reader = family.from_document(document, arrays, kernel, size)
    return made
