"""Methods of the central model by the names people type."""

from __future__ import annotations

from sfumato.central import fourier, fourier_gaussian, grid, lsq_rff
from sfumato.central.mechanism import Mechanism
from sfumato.central.method import Method
from sfumato.central.request import Request
from sfumato.errors import InputError

METHODS: dict[str, Method] = {
    method.name: method for method in (fourier.METHOD, fourier_gaussian.METHOD, grid.METHOD, lsq_rff.METHOD)
}


def choose(request: Request) -> str:
    """Name the method with the least predicted error among those that apply (a data-free choice)."""
    known = [method for method in METHODS.values() if request.own_options <= set(method.options)]
    candidates = known or list(METHODS.values())
    applicable = [method for method in candidates if method.refuse(request) is None]
    if not applicable:
        reasons = "; ".join(f"{method.name}: {method.refuse(request)}" for method in candidates)
        raise InputError(f"no method applies to this request ({reasons})")
    # A method's own options say which methods are meant; among those, "auto" chooses by the general ones.
    general = request.without_own_options()
    return min(applicable, key=lambda method: method.predict(general, general.density).rmse).name


def build(method: str, request: Request) -> Mechanism:
    """Build the named mechanism; "auto" takes the one with the least predicted error."""
    if method == "auto":
        method = choose(request)
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}; known are auto, {', '.join(sorted(METHODS))}")
    reason = METHODS[method].refuse(request)
    if reason is not None:
        raise InputError(f"{method} does not apply: {reason}")
    return METHODS[method].build(request)
