"""Methods of the central model by the names people type."""

from __future__ import annotations

from collections.abc import Callable

from sfumato.central import fourier, lsq_rff
from sfumato.central.mechanism import Mechanism
from sfumato.central.request import Request
from sfumato.errors import InputError

METHODS: dict[str, Callable[[Request], Mechanism]] = {
    fourier.NAME: fourier.build,
    lsq_rff.NAME: lsq_rff.build,
}


def build(method: str, request: Request) -> Mechanism:
    """Build the named mechanism; "auto" lets the plan choose."""
    if method == "auto":
        method = fourier.NAME
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}; known are auto, {', '.join(sorted(METHODS))}")
    return METHODS[method](request)
