"""The plan turned round: the epsilon, or the number of records, that an error takes; and error drawn over epsilon."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.deferred import require
from sfumato.errors import InputError
from sfumato.methods.plan import Plan, plan
from sfumato.methods.ranking import Row, compare
from sfumato.methods.registry import BOUGHT, METHODS, offered
from sfumato.privacy.guarantee import LARGEST_EPSILON
from sfumato.public.codec import brief
from sfumato.public.ranges import check_whole
from sfumato.storage import AtomicFile

SMALLEST_EPSILON = 1e-9
EPSILON_DIGITS = 4
MOST_RECORDS = 1e13
STEP, PRECISION = 1.25, 1e-5


def epsilon_for(error: float, *, n_hint: int, **facts: Any) -> Fraction:
    """Smallest epsilon, rounded up to four digits, for which the best method is predicted to reach an error.

    Parameters
    ----------
    error : float
        Wanted root mean square error of one answer, below 1.
    n_hint : int
        Public guess of the number of records.
    **facts
        The other arguments of `plan`. The prediction is for ``density``, or for a typical one if it is not given.

    Returns
    -------
    Fraction

    Raises
    ------
    InputError
        If no epsilon is enough.

    Examples
    --------
    >>> epsilon_for(0.005, n_hint=100_000, dimension=10, bandwidth=1.0)
    Fraction(8827, 100000)
    """
    _check(error)
    n_hint = check_whole("n_hint", n_hint, int(MOST_RECORDS))

    def at(epsilon: float) -> Plan:
        return plan(n_hint=n_hint, epsilon=_rounded_up(epsilon), **facts)

    found = _least(at, error, SMALLEST_EPSILON, float(LARGEST_EPSILON), f"with {n_hint} records; pass a larger n_hint=")
    while _error(at, found) > error:  # whole numbers of features make the prediction a little uneven
        found *= 1 + 10.0**-EPSILON_DIGITS
    return _rounded_up(found)


def n_for(error: float, *, epsilon: Any, **facts: Any) -> int:
    """Smallest number of records for which the best method is predicted to reach an error.

    Parameters
    ----------
    error : float
        Wanted root mean square error of one answer, below 1.
    epsilon : float, str or Fraction
        The privacy budget.
    **facts
        The other arguments of `plan`. The prediction is for ``density``, or for a typical one if it is not given.

    Returns
    -------
    int

    Raises
    ------
    InputError
        If no number is enough.

    Examples
    --------
    >>> n_for(0.005, epsilon=0.1, dimension=10, bandwidth=1.0)
    88388
    """
    _check(error)

    def at(n: float) -> Plan:
        return plan(n_hint=math.ceil(n), epsilon=epsilon, **facts)

    found = math.ceil(_least(at, error, 1.0, MOST_RECORDS, "at this epsilon; pass a larger epsilon="))
    while _error(at, found) > error:
        found += max(1, math.floor(found * PRECISION))
    return found


def _least(at: Callable[[float], Plan], error: float, low: float, high: float, remedy: str) -> float:
    """Raise a value step by step until its plan reaches the error, then bisect on a logarithmic scale.

    Steps are small because more is not always better: under a budget for work, more records have fewer features.
    """
    value, best = low, math.inf
    while (reached := _error(at, value)) > error:
        best = min(best, reached)
        if value == high:
            if best == math.inf:
                at(high)  # raises what stands against any plan
            raise InputError(
                f"an error of {error:g} cannot be reached {remedy} or options= with more features; it is {best:.2g} "
                "at best"
            )
        low, value = value, min(STEP * value, high)
    while value > low * (1 + PRECISION):
        middle = math.sqrt(low * value)
        low, value = (low, middle) if _error(at, middle) <= error else (middle, value)
    return value


def _error(at: Callable[[float], Plan], value: float) -> float:
    """Predicted error, infinite where nothing can be planned."""
    try:
        return at(value).error
    except InputError:
        return math.inf


def _rounded_up(epsilon: float) -> Fraction:
    """Round to four digits, never down, so that the noise is never more than was planned for."""
    digits = Context(prec=EPSILON_DIGITS, rounding=ROUND_CEILING).create_decimal(Decimal(repr(epsilon)))
    return Fraction(digits)


def _check(error: float) -> None:
    if isinstance(error, bool) or not isinstance(error, int | float) or not 0 < error < 1:
        raise InputError(f"error must be a number between 0 and 1, got {brief(error)}")


# What each kind of picture must leave out to be the same file every time.
NO_DATE: dict[str, dict[str, str | None]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
# Okabe and Ito's colours, which people who do not see red or green can tell apart; line styles differ too.
COLOURS = ("#0072B2", "#009E73", "#D55E00", "#CC79A7", "#E69F00", "#56B4E9")
STYLES = ("-", (0, (1, 1)), (0, (3, 1, 1, 1)), (0, (8, 2)))
REACH = 30.0  # how far, as a factor, the picture goes to either side of the plan's epsilon
POINTS = 41


def draw(made: Plan, path: str | Path, overwrite: bool = False) -> None:
    """Draw the predicted error of every method that applies, around the plan's epsilon.

    Parameters
    ----------
    made : Plan
        What `plan` returned.
    path : str or Path
        A .png, .svg or .pdf file.
    overwrite : bool
        Whether to replace an existing file.
    """
    require("plot")
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kind = Path(path).suffix.lower()
    if kind not in NO_DATE:
        raise InputError(f"{str(path)!r}: a picture must end in {', '.join(NO_DATE)}")
    epsilons, curves = _curves(made)
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for method, rows in curves.items():
        place = [*METHODS, *BOUGHT].index(method)  # so that a method looks the same in every picture
        colour, style = COLOURS[place % len(COLOURS)], STYLES[place % len(STYLES)]
        shown = [row for row in rows if row is not None]
        across = [epsilon for epsilon, row in zip(epsilons, rows, strict=True) if row is not None]
        limits, errors = np.array([row.interval for row in shown]), np.array([row.error for row in shown])
        axes.fill_between(across, limits[:, 0], limits[:, 1], color=colour, alpha=0.13, linewidth=0)
        axes.plot(across, errors, color=colour, linestyle=style, linewidth=2, label=method)
    axes.axhline(made.constant.error or 0.0, color="#555555", linestyle="--", linewidth=1.3, label="constant answer")
    axes.plot([float(made.request.epsilon)], [made.error], "o", color="black", markersize=7, label="this plan")
    axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="predicted error of one answer (RMSE)")
    axes.set_title(_title(made), fontsize=10, loc="left")
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    axes.legend(frameon=False, fontsize=9)
    content = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "sfumato"}):
        figure.savefig(content, format=kind[1:], dpi=150, metadata=NO_DATE[kind])
    with AtomicFile(path, overwrite=overwrite) as file:
        file.write(content.getvalue())


def _title(made: Plan) -> str:
    request = made.request
    known = "density" in request.options
    band = "" if known else "; bands: every possible P"
    facts = f"n = {request.n:,}, {request.dimension} columns"
    if request.delta:
        facts += f", delta = {request.delta:g}"
    return f"{facts}, P = {request.density:g} ({'given' if known else 'typical'}){band}"


def _curves(made: Plan) -> tuple[list[float], dict[str, list[Row | None]]]:
    """Rows of every method along epsilon; None where a method does not apply."""
    centre = float(made.request.epsilon)
    last = min(centre * REACH, float(LARGEST_EPSILON))
    epsilons = [float(f"{value:.4g}") for value in np.geomspace(centre / REACH, last, POINTS)]
    curves: dict[str, list[Row | None]] = {row.method: [] for row in made.rows if row.applies}
    for epsilon in epsilons:
        rows = {
            row.method: row
            for row in compare(offered(made.request), replace(made.request, epsilon=Fraction(str(epsilon))))
        }
        for method, line in curves.items():
            line.append(rows[method] if rows[method].applies else None)
    return epsilons, curves
