"""Where a function changes its sign: Brent's method, step for step as in SciPy, which takes longer to load than to run.

Source: R. P. Brent, "Algorithms for Minimization Without Derivatives" (1973), chapter 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sfumato.errors import InputError

MOST_STEPS = 400


def brentq(
    function: Callable[[float], float], lower: float, upper: float, xtol: float = 2e-12, rtol: float = 2.0**-50
) -> float:
    """Return a root between two points of different sign, to within ``xtol + rtol * |root|``.

    Examples
    --------
    >>> round(brentq(lambda x: x * x - 2, 0, 2), 9)
    1.414213562
    """
    before, here, other = float(lower), float(upper), 0.0
    f_before, f_here, f_other = float(function(before)), float(function(here)), 0.0
    last = step = 0.0
    if f_before == 0:
        return before
    if f_here == 0:
        return here
    if not (f_before < 0 < f_here or f_here < 0 < f_before):
        raise InputError(f"no change of sign between {lower!r} and {upper!r}: {f_before!r} and {f_here!r}")
    for _ in range(MOST_STEPS):
        if f_before != 0 and f_here != 0 and (f_before < 0) != (f_here < 0):
            other, f_other = before, f_before
            last = step = here - before
        if abs(f_other) < abs(f_here):
            before, here, other = here, other, here
            f_before, f_here, f_other = f_here, f_other, f_here
        delta, half = (xtol + rtol * abs(here)) / 2, (other - here) / 2
        if f_here == 0 or abs(half) < delta:
            return here
        tried = math.inf
        if abs(last) > delta and abs(f_here) < abs(f_before):
            tried = _interpolated(before, here, other, f_before, f_here, f_other)
        last, step = (step, tried) if 2 * abs(tried) < min(abs(last), 3 * abs(half) - delta) else (half, half)
        before, f_before = here, f_here
        here += step if abs(step) > delta else math.copysign(delta, half)
        f_here = float(function(here))
    raise InputError(f"no root was found in {MOST_STEPS} steps")


def _interpolated(before: float, here: float, other: float, f_before: float, f_here: float, f_other: float) -> float:
    """Return the step of the secant or of inverse quadratic interpolation; infinity where there is none."""
    try:
        if before == other:
            return -f_here * (here - before) / (f_here - f_before)
        near, far = (f_before - f_here) / (before - here), (f_other - f_here) / (other - here)
        return -f_here * (f_other * far - f_before * near) / (far * near * (f_other - f_before))
    except ZeroDivisionError:
        return math.inf
