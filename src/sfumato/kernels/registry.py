"""Kernels by name and from documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from sfumato.errors import InputError
from sfumato.kernels.base import Kernel
from sfumato.kernels.scale import Bandwidth

CUSTOM = "custom"

_FAMILIES: dict[str, type[Kernel]] = {}
_Family = TypeVar("_Family", bound=type[Kernel])


def register(family: _Family) -> _Family:
    """Class decorator: make a family known by its name to `get_kernel` and `kernel_from_document`."""
    _FAMILIES[family.name] = family
    return family


def get_kernel(kernel: str | Kernel, bandwidth: Bandwidth | None = None) -> Kernel:
    """Return the kernel that a user named, or the object that they passed.

    Parameters
    ----------
    kernel : str or Kernel
        A name such as ``"gaussian"``, or a kernel object, which carries its own bandwidth.
    bandwidth : float, vector or matrix, optional
        For a kernel given by name.

    Examples
    --------
    >>> get_kernel("gaussian", 0.5)
    Gaussian(bandwidth=0.5)
    """
    if isinstance(kernel, Kernel):
        if bandwidth is not None:
            raise InputError(
                f"{kernel!r} already has its parameters: pass bandwidth= with a kernel's name, not with an object"
            )
        return kernel
    if not isinstance(kernel, str):
        raise InputError(f"kernel must be a name or a kernel object; got {type(kernel).__name__}")
    return _family(kernel).with_bandwidth(bandwidth)


def kernel_from_document(document: Mapping[str, Any]) -> Kernel:
    """Rebuild a kernel from what its `to_document` wrote.

    Examples
    --------
    >>> kernel_from_document({"kernel": "laplacian", "bandwidth": [1.0, 2.0]})
    Laplacian(bandwidth=[1.0, 2.0])
    """
    if not isinstance(document, Mapping) or not isinstance(document.get("kernel"), str):
        raise InputError("a kernel's document must be an object whose field 'kernel' is a name")
    name = document["kernel"]
    if name == CUSTOM:
        raise InputError(
            f"the kernel {document.get('name')!r} is its author's own and cannot be rebuilt from a document: "
            "pass the kernel object"
        )
    family = _family(name)
    try:
        kernel = family.from_document(document)
    except KeyError as missing:
        raise InputError(f"the document of the kernel {name!r} lacks the field {missing}") from missing
    unknown = sorted(set(document) - set(kernel.to_document()))
    if unknown:
        raise InputError(f"the document of the kernel {name!r} has unknown fields: {', '.join(unknown)}")
    return kernel


def _family(name: str) -> type[Kernel]:
    if name not in _FAMILIES:
        raise InputError(f"unknown kernel {name!r}; known: {', '.join(sorted(_FAMILIES))}")
    return _FAMILIES[name]
