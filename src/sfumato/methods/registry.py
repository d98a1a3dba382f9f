"""Methods of the central model by the names people type."""

from __future__ import annotations

from sfumato.central import exponential_sums, fourier, fourier_gaussian, grid, inner_product, landmarks, race
from sfumato.errors import InputError
from sfumato.methods import projecting
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.method import Method
from sfumato.methods.request import Request
from sfumato.public.ranges import check_size
from sfumato.published import (
    bernstein,
    even_trig,
    gaussian_queries,
    hrw,
    laplace_queries,
    lsq_fgt,
    lsq_rff,
    noisy_sample,
    pmw,
    smalldb,
)
from sfumato.published import exponential_sums as exponential_sums_published
from sfumato.published import race as race_published

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        fourier.METHOD,
        fourier_gaussian.METHOD,
        grid.METHOD,
        exponential_sums.METHOD,
        landmarks.METHOD,
        inner_product.METHOD,
        race.METHOD,
        lsq_rff.METHOD,
        lsq_fgt.METHOD,
        race_published.METHOD,
        exponential_sums_published.METHOD,
        inner_product.SIGNS_METHOD,
        bernstein.METHOD,
        even_trig.METHOD,
        pmw.METHOD,
        smalldb.METHOD,
        noisy_sample.METHOD,
        laplace_queries.METHOD,
        gaussian_queries.METHOD,
        hrw.METHOD,
    )
}


def register(method: Method) -> Method:
    """Add a method of one's own: plans list it, "auto" weighs it, and its name can be typed wherever a method's can."""
    if method.name in METHODS or method.name == "auto":
        raise InputError(f"there is a method {method.name!r} already; choose another name")
    METHODS[method.name] = method
    return method


def choose(request: Request) -> str:
    """Name the method with the least predicted error among those that apply (a data-free choice); no baselines."""
    asked = request if projecting.wanted(request) else None
    request = projecting.plain(request)
    choices = [method for method in METHODS.values() if not method.baseline]
    candidates = [method for method in choices if request.own_options <= set(method.options)] or choices

    def refuse(method: Method) -> str | None:
        return method.refuse(request) or (projecting.refuse(method, asked) if asked is not None else None)

    applicable = [method for method in candidates if refuse(method) is None]
    if not applicable:
        refused = "; ".join(f"{method.name}: {refuse(method)}" for method in candidates)
        raise InputError(f"no method applies to this request ({refused})")
    # A method's own options say which methods are meant; among those, "auto" chooses by the general ones.
    general = request.without_own_options()
    errors, reasons = {}, []
    for method in applicable:
        try:
            errors[method.name] = method.predict(general, general.density).rmse
        except InputError as reason:
            reasons.append(f"{method.name}: {reason}")
    if not errors:
        raise InputError(f"no method applies to this request ({'; '.join(reasons)})")
    return min(errors, key=errors.__getitem__)


def build(method: str, request: Request) -> Mechanism:
    """Build the named mechanism; "auto" takes the one with the least predicted error."""
    if method == "auto":
        method = choose(request)
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}; known are auto, {', '.join(sorted(METHODS))}")
    chosen, reduced = METHODS[method], None
    if projecting.wanted(request):
        reduced = projecting.reduce(chosen, request)
        request = reduced.request
    reason = chosen.refuse(request)
    if reason is not None:
        raise InputError(f"{method} does not apply: {reason}")
    mechanism = chosen.build(request)
    check_size(mechanism.quantizer.size)
    return mechanism if reduced is None else reduced.wrap(mechanism)
