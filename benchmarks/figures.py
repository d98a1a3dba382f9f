"""Figures of the benchmark page, drawn from the stored rows alone: nothing is measured again.

A case asks for lines with a table:

    [figure]
    x = "epsilon"                 # the name of a value, of a fact of the data or unit, or "label"
    y = "mae"
    lines = "label"               # one line for each (default "label")
    panels = "set"                # one panel for each (default: a single panel)
    scale = "log-log"             # or "linear-log" (x linear), "log-linear", "linear-linear"; "log-log" by default
    only = ["grid", "lsq-rff"]    # lines to draw, in this order; all by default
    labels = "fixed"              # only rows whose label holds this text
    x_label = "rho"               # where the value's own heading does not do

A kind of pictures that are no lines (scatter plots, maps) has a function ``draw(rows)`` that returns a figure.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.case import Case
from benchmarks.kinds import load_kind
from benchmarks.results import Row

FOLDER = "images/benchmarks"
# Okabe and Ito's colours, which people who do not see red or green can tell apart; markers differ too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX*"
DARK = {"#ffffff": "#1e2029", "#000000": "#e6e6e6", "#dddddd": "#44485a", "#0072b2": "#3d9bd9"}  # ground, ink, grid
MOST_ACROSS = 3
MOST_MARKS, MOST_DIGITS = 8, 5  # along an axis, each with its number
LEGEND_INCHES = 2.2
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


@dataclass(frozen=True)
class Lines:
    """What a case's figure shows."""

    x: str
    y: str
    lines: str = "label"
    panels: str | None = None
    scale: str = "log-log"
    only: Sequence[str] = ()
    labels: str = ""
    x_label: str = ""


def figure_of(case: Case, rows: Sequence[Row]) -> Figure | None:
    """Draw a case's rows; None where neither the case nor its kind asks for a figure, or nothing was measured."""
    measured = [row for row in rows if "skipped" not in row]
    draw = getattr(load_kind(case.kind), "draw", None)
    if not measured or (draw is None and case.figure is None):
        return None
    figure: Figure = draw(measured) if draw is not None else draw_lines(case, Lines(**case.figure or {}), measured)
    return figure


def canvas(panels: int, size: tuple[float, float] = (4.2, 3.4), across: int = MOST_ACROSS) -> tuple[Figure, list[Axes]]:
    """Return an empty figure with so many panels, `across` in a row at most."""
    wide = 2 if panels == 4 and across == MOST_ACROSS else min(panels, across)
    tall = -(-panels // wide)
    figure = Figure(figsize=(size[0] * wide, size[1] * tall), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, [figure.add_subplot(tall, wide, place + 1) for place in range(panels)]


def draw_lines(case: Case, wanted: Lines, rows: Sequence[Row]) -> Figure:
    """One panel for each value of `panels`, one line for each value of `lines`."""
    rows = [row for row in rows if wanted.labels in row["label"]]
    rows = [row for row in rows if _entry(row, wanted.x) is not None and _entry(row, wanted.y) is not None]
    panels = _distinct(rows, wanted.panels) if wanted.panels else [None]
    names = list(wanted.only) or [str(name) for name in _distinct(rows, wanted.lines)]
    figure, axes = canvas(len(panels))
    heads = load_kind(case.kind).COLUMNS
    horizontal, vertical = wanted.scale.split("-")
    for panel, ax in zip(panels, axes, strict=True):
        marks: set[float] = set()
        for place, name in enumerate(names):
            points = sorted(
                (number(_entry(row, wanted.x)), float(_entry(row, wanted.y)))
                for row in rows
                if str(_entry(row, wanted.lines)) == name
                and (panel is None or _entry(row, str(wanted.panels)) == panel)
            )
            marks |= {across for across, _ in points}
            if points:
                style = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}
                ax.plot(*zip(*points, strict=True), label=name, linewidth=1.6, markersize=4.5, **style)
        ax.set(xscale=horizontal, yscale=vertical, xlabel=wanted.x_label or heads.get(wanted.x, wanted.x))
        if len(marks) <= MOST_MARKS and all(len(f"{mark:g}") <= MOST_DIGITS for mark in marks):
            ax.set_xticks(sorted(marks), [f"{mark:g}" for mark in sorted(marks)], minor=False)
            ax.set_xticks([], minor=True)
        ax.set_ylabel(heads.get(wanted.y, wanted.y))
        ax.grid(which="major", color="#dddddd", linewidth=0.6)
        if panel is not None:
            ax.set_title(panel if wanted.panels == "set" else f"{wanted.panels} {panel}", fontsize=9, loc="left")
    handles = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    title = None if wanted.lines == "label" else heads.get(wanted.lines, wanted.lines)
    figure.set_size_inches(figure.get_figwidth() + LEGEND_INCHES, figure.get_figheight())
    figure.legend(handles.values(), handles, title=title, loc="outside right upper", frameon=False, fontsize=8)
    return figure


def number(value: Any) -> float:
    """Return a number, a fraction such as "1/2", or the last number in a text such as "n_features 400"."""
    if isinstance(value, int | float):
        return float(value)
    try:
        return float(Fraction(str(value)))
    except ValueError:
        found = _NUMBER.findall(str(value))
    if not found:
        raise ValueError(f"a figure needs numbers along its axis, and {value!r} has none")
    return float(found[-1])


def _entry(row: Mapping[str, Any], name: str) -> Any:
    for part in (row, row["values"], row["data"], row["unit"]):
        if name in part:
            return part[name]
    return None


def _distinct(rows: Sequence[Row], name: str) -> list[Any]:
    return list(dict.fromkeys(_entry(row, name) for row in rows if _entry(row, name) is not None))


def svg(figure: Figure) -> bytes:
    """Return the picture, the same bytes every time."""
    content = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "sfumato", "svg.fonttype": "none"}):
        figure.savefig(content, format="svg", metadata={"Date": None}, dpi=110)
    return content.getvalue()


def dark(picture: bytes) -> bytes:
    """Return a picture that was drawn on white for a dark page: ground, ink and grid change, colours of lines stay."""
    for light, other in DARK.items():
        picture = picture.replace(light.encode(), other.encode())
    return picture.replace(b"*{stroke-linejoin", b"text{fill: #e6e6e6} *{stroke-linejoin", 1)


def write_schemes(figure: Figure, folder: Path, name: str) -> None:
    """Save a figure for light and for dark pages."""
    folder.mkdir(parents=True, exist_ok=True)
    picture = svg(figure)
    (folder / f"{name}.svg").write_bytes(picture)
    (folder / f"{name}-dark.svg").write_bytes(dark(picture))


def both_schemes(alt: str, path: str) -> str:
    """Markdown that shows the one that suits the page; `path` is that of the light one, relative to the page."""
    stem = path.removesuffix(".svg")
    return f"![{alt}]({stem}.svg#gh-light-mode-only)\n![{alt}]({stem}-dark.svg#gh-dark-mode-only)"


def write(case: Case, rows: Sequence[Row], page_folder: Path) -> str:
    """Draw and save a case's figure, if it has one, and return the Markdown that shows it."""
    figure = figure_of(case, rows)
    if figure is not None:
        write_schemes(figure, page_folder / FOLDER, case.name)
    return drawn(page_folder, case) if figure is not None else ""


def drawn(page_folder: Path, case: Case) -> str:
    """Return the Markdown that shows a case's figure, if there is one."""
    path = f"{FOLDER}/{case.name}.svg"
    return both_schemes(case.title, path) if (page_folder / path).exists() else ""
