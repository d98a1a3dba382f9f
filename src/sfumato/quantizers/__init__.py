"""Quantizers turn a point into short bounded integers f(x) and a query into weights g(y), with k(x, y) ~ f(x).g(y)."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from sfumato.errors import ReleaseFileError
from sfumato.quantizers.base import Bound, Quantizer
from sfumato.quantizers.box import Box
from sfumato.quantizers.fourier import FourierQuantizer
from sfumato.quantizers.sharded import ShardedFourier

__all__ = ["Bound", "Box", "FourierQuantizer", "Quantizer", "ShardedFourier", "quantizer_from_document"]

_FAMILIES = {family.name: family for family in (FourierQuantizer, ShardedFourier)}


def quantizer_from_document(
    document: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int
) -> Quantizer:
    """Rebuild a release's quantizer of `size` integers; a document that claims more is refused before it is drawn."""
    family = _FAMILIES.get(str(document.get("quantizer")))
    if family is None:
        raise ReleaseFileError(f"unknown quantizer {document.get('quantizer')!r}; a newer sfumato may know it")
    return family.from_document(document, arrays, kernel, size)
