"""Devices by the names of their mechanisms, imported when needed; their servers are in `methods.registry.LOCAL`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from sfumato.errors import InputError, SfumatoError
from sfumato.local.mechanism import Device

_PUBLISHED = "sfumato.published.local"
# name: module of the device half, its class
_DEVICES: dict[str, tuple[str, str]] = {
    "rows": ("sfumato.local.rows", "Rows"),
    "phases": ("sfumato.local.phases", "Phases"),
    "metric-phases": ("sfumato.local.metric_phases", "MetricPhases"),
    "vector": ("sfumato.local.vector", "Vector"),
    "mldp-kde": (f"{_PUBLISHED}.sketch", "MetricSketchDevice"),
    "fkm-lr": (f"{_PUBLISHED}.sketch", "SignsDevice"),
    "fkm-ll": (f"{_PUBLISHED}.sketch", "NoisySignsDevice"),
    "race": (f"{_PUBLISHED}.sketch", "SketchDevice"),
    "dm": (f"{_PUBLISHED}.point", "DuchiDevice"),
    "pm": (f"{_PUBLISHED}.point", "PiecewiseDevice"),
    "sw": (f"{_PUBLISHED}.point", "SquareDevice"),
    "gi": (f"{_PUBLISHED}.point", "PlanarDevice"),
}


def mechanisms() -> tuple[str, ...]:
    """Names of all mechanisms, in the order in which plans list them.

    Examples
    --------
    >>> mechanisms()[0]
    'rows'
    """
    return tuple(_DEVICES)


def register_device(name: str, module: str, device: str) -> None:
    """Make the device half of a mechanism of one's own known; its server half goes to `methods.registry.LOCAL`."""
    _DEVICES[name] = (module, device)


def device_for(document: Mapping[str, Any], released: bool = False) -> Device:
    """Build the device half that a protocol names.

    Parameters
    ----------
    document : mapping
        A checked protocol.
    released : bool
        Whether it only explains a release. Nobody reports under it, so its promise is not certified again.

    Raises
    ------
    InputError
        For parameters out of which no device can be built, or under which it would not keep epsilon.
    """
    half = device_class(document["mechanism"]["name"])
    try:
        made = half(document)
        if not released:
            made.certify()
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as problem:
        if isinstance(problem, SfumatoError):
            raise
        raise InputError(
            f"the protocol's parameters are damaged ({type(problem).__name__}); ask the organiser for the file again"
        ) from problem
    return made


def device_class(name: str) -> type[Device]:
    """Return the device half of a mechanism."""
    if name not in _DEVICES:
        raise InputError(f"unknown local mechanism {name!r}; known: {', '.join(_DEVICES)}")
    module, class_name = _DEVICES[name]
    found: type[Device] = getattr(import_module(module), class_name)
    return found
