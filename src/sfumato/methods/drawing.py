"""Predicted error against epsilon, one line a method, as a picture."""

from __future__ import annotations

import io
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from sfumato.errors import InputError
from sfumato.methods.plan import Plan
from sfumato.methods.ranking import Row, compare
from sfumato.methods.registry import METHODS
from sfumato.privacy.rational import LARGEST_EPSILON
from sfumato.storage import AtomicFile

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
        place = list(METHODS).index(method)  # so that a method looks the same in every picture
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
            row.method: row for row in compare(METHODS.values(), replace(made.request, epsilon=Fraction(str(epsilon))))
        }
        for method, line in curves.items():
            line.append(rows[method] if rows[method].applies else None)
    return epsilons, curves
