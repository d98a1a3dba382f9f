"""Mechanisms by name. Modules are imported when needed: a device must not load the servers' halves."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.errors import InputError, SfumatoError
from sfumato.local.mechanism import Device

if TYPE_CHECKING:
    from sfumato.local.server import Server

_PUBLISHED = "sfumato.published.local"
# name: (module of the device half, its class), (module of the server half, its class)
_MECHANISMS: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "rows": (("sfumato.local.rows", "Rows"), ("sfumato.local.rows_server", "RowsServer")),
    "phases": (("sfumato.local.phases", "Phases"), ("sfumato.local.phases_server", "PhasesServer")),
    "metric-phases": (
        ("sfumato.local.metric_phases", "MetricPhases"),
        ("sfumato.local.metric_phases_server", "MetricPhasesServer"),
    ),
    "vector": (("sfumato.local.vector", "Vector"), ("sfumato.local.vector_server", "VectorServer")),
    **{
        name: ((f"{_PUBLISHED}.{room}", device), (f"{_PUBLISHED}.{room}_servers", server))
        for name, room, device, server in (
            ("mldp-kde", "sketch", "MetricSketchDevice", "MetricSketchServer"),
            ("fkm-lr", "sketch", "SignsDevice", "SignsServer"),
            ("fkm-ll", "sketch", "NoisySignsDevice", "NoisySignsServer"),
            ("race", "sketch", "SketchDevice", "SketchServer"),
            ("dm", "point", "DuchiDevice", "DuchiServer"),
            ("pm", "point", "PiecewiseDevice", "PiecewiseServer"),
            ("sw", "point", "SquareDevice", "SquareServer"),
            ("gi", "point", "PlanarDevice", "PlanarServer"),
        )
    },
}


def mechanisms() -> tuple[str, ...]:
    """Names of all mechanisms, in the order in which plans list them.

    Examples
    --------
    >>> mechanisms()[0]
    'rows'
    """
    return tuple(_MECHANISMS)


def register_mechanism(name: str, device: tuple[str, str], server: tuple[str, str]) -> None:
    """Make a mechanism of one's own known: (module, class) of its two halves."""
    _MECHANISMS[name] = (device, server)


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
    half = _class(document["mechanism"]["name"], 0)
    try:
        made: Device = half(document)
        if not released:
            made.certify()
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as problem:
        if isinstance(problem, SfumatoError):
            raise
        raise InputError(
            f"the protocol's parameters are damaged ({type(problem).__name__}); ask the organiser for the file again"
        ) from problem
    return made


def server_class(name: str) -> type[Server]:
    """Return the server half of a mechanism."""
    found: type[Server] = _class(name, 1)
    return found


def _class(name: str, half: int) -> Any:
    if name not in _MECHANISMS:
        raise InputError(f"unknown local mechanism {name!r}; known: {', '.join(_MECHANISMS)}")
    module, class_name = _MECHANISMS[name][half]
    return getattr(import_module(module), class_name)
