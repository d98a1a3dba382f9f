"""Methods for distances by the names people type."""

from __future__ import annotations

from sfumato.distances import hats, squares
from sfumato.distances.method import DistanceMethod
from sfumato.distances.request import DistanceRequest
from sfumato.errors import InputError
from sfumato.methods.mechanism import Mechanism
from sfumato.public.ranges import check_size
from sfumato.published import huang_roth, trees
from sfumato.published import moments as published_moments

METHODS: dict[str, DistanceMethod] = {
    method.name: method
    for method in (*hats.METHODS, *squares.METHODS, *trees.METHODS, published_moments.METHOD, huang_roth.METHOD)
}


def choose(request: DistanceRequest) -> str:
    """Name the method with the least predicted error among those that apply (a data-free choice); no baselines."""
    choices = [method for method in METHODS.values() if not method.baseline]
    candidates = [method for method in choices if method.reason(request) is None]
    known = [method for method in candidates if request.own_options <= set(method.options)] or candidates
    errors, reasons = {}, [f"{method.name}: {method.reason(request)}" for method in choices if method not in candidates]
    for method in known:
        try:
            errors[method.name] = method.forecast(request).rmse
        except InputError as reason:
            reasons.append(f"{method.name}: {reason}")
    if not errors:
        raise InputError(f"no method applies to this request ({'; '.join(reasons)})")
    return min(errors, key=errors.__getitem__)


def build(method: str, request: DistanceRequest) -> Mechanism:
    """Build the named mechanism; "auto" takes the one with the least predicted error."""
    if method == "auto":
        method = choose(request)
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}; known are auto, {', '.join(sorted(METHODS))}")
    reason = METHODS[method].reason(request)
    if reason is not None:
        raise InputError(f"{method} does not apply: {reason}")
    mechanism = METHODS[method].build(request)
    check_size(mechanism.quantizer.size)
    return mechanism
