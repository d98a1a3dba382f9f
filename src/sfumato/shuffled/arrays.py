"""Arrays in a document: their kind, shape and little-endian bytes as base64."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError

_KINDS = ("<i8", "<f8")


def arrays_to_document(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Write arrays of integers and floats.

    Examples
    --------
    >>> arrays_to_document({"landmarks": np.array([[1, 2]])})
    {'landmarks': {'kind': '<i8', 'shape': [1, 2], 'base64': 'AQAAAAAAAAACAAAAAAAAAA=='}}
    """
    return {name: _written(array) for name, array in arrays.items()}


def _written(array: NDArray[Any]) -> dict[str, Any]:
    kind = "<f8" if array.dtype.kind == "f" else "<i8"
    content = base64.b64encode(np.ascontiguousarray(array, dtype=kind).tobytes()).decode()
    return {"kind": kind, "shape": list(array.shape), "base64": content}


def arrays_from_document(document: Any) -> dict[str, NDArray[Any]]:
    """Read back what `arrays_to_document` wrote.

    Examples
    --------
    >>> arrays_from_document(arrays_to_document({"landmarks": np.array([[1, 2]])}))
    {'landmarks': array([[1, 2]])}
    """
    if not isinstance(document, Mapping):
        raise InputError("the arrays of a protocol must be an object")
    return {str(name): _read(name, entry) for name, entry in document.items()}


def _read(name: str, entry: Any) -> NDArray[Any]:
    try:
        kind, shape, content = entry["kind"], tuple(entry["shape"]), base64.b64decode(entry["base64"], validate=True)
        sound = kind in _KINDS and all(type(side) is int and side >= 0 for side in shape)
        sound = sound and len(content) == 8 * math.prod(shape) and len(entry) == 3
    except (KeyError, TypeError, ValueError, binascii.Error):
        sound = False
    if not sound:
        raise InputError(f"the array {name!r} of the protocol is damaged; ask the organiser for the file again")
    return np.frombuffer(content, dtype=kind).reshape(shape).copy()
