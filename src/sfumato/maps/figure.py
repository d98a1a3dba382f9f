"""Whole pictures: title, panels, colour bar, guarantee; and the notebook's `release.plot`."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import Any

from sfumato.maps.caption import Caption
from sfumato.maps.comparison import shared_range
from sfumato.maps.field import Field
from sfumato.maps.geography import check_longitude_first, metres_per_degree
from sfumato.maps.picture import INK, PALE, WARNING, colour_range, draw_curve, draw_dots, draw_map, footnote, quantity
from sfumato.maps.views import Dots

# What each kind of picture must leave out to be the same file every time.
NO_DATE: dict[str, dict[str, str | None]] = {".png": {}, ".svg": {"Date": None}}
LETTERS_PER_INCH = 17  # of the footer's type, on average


def draw_figure(
    drawn: Field | Dots, *, contours: bool = True, uncertainty: bool = True, geographic: bool = False
) -> Any:
    """One map, curve or set of dots with its title, colour bar and guarantee, as a matplotlib figure."""
    curve = isinstance(drawn, Field) and len(drawn.axes) == 1
    figure, axes = _canvas((7.6, 4.6) if curve else (7.6, 1.4 + 6.0 * _height(drawn, geographic)), 1)
    if isinstance(drawn, Dots):
        _colour_bar(figure, axes[0], draw_dots(axes[0], drawn), signed=False)
    elif curve:
        draw_curve(axes[0], drawn)
    else:
        image = draw_map(axes[0], drawn, contours=contours, uncertainty=uncertainty, geographic=geographic)
        _colour_bar(figure, axes[0], image, drawn.signed)
    if drawn.caption.view:
        axes[0].set_title(drawn.caption.view, loc="left", fontsize=9, color=PALE, pad=34 if curve else 20)
    _words(figure, drawn.caption)
    return figure


def draw_comparison(fields: Sequence[Field], titles: Sequence[str], *, geographic: bool = False) -> Any:
    """Exact, private and difference side by side, as a matplotlib figure."""
    curve = len(fields[0].axes) == 1
    figure, panels = _canvas((13.5, 4.6) if curve else (13.5, 2.2 + 4.0 * _height(fields[0], geographic)), len(fields))
    top = shared_range(fields)
    for axes, field, title in zip(panels, fields, titles, strict=True):
        if curve:
            draw_curve(axes, field)
            axes.get_legend().remove()
        else:
            limits = colour_range(field.values, signed=True) if field.signed else (0.0, top)
            image = draw_map(axes, field, uncertainty=False, geographic=geographic, limits=limits)
            bar = figure.colorbar(image, ax=axes, orientation="horizontal", shrink=0.8, aspect=30)
            bar.set_label(quantity(field.signed), color=INK)
            bar.ax.locator_params(nbins=5)
            bar.outline.set_visible(False)
        axes.set_title(title, loc="left", fontsize=11, color=INK)
    _words(figure, fields[0].caption)
    return figure


def _height(drawn: Field | Dots, geographic: bool) -> float:
    """Height of a map over its width."""
    if not geographic or isinstance(drawn, Dots):
        return 1.0
    check_longitude_first([axis.name for axis in drawn.axes])
    across, up = drawn.axes
    east, north = metres_per_degree((up.lower + up.upper) / 2)
    return min(2.0, max(0.4, (up.upper - up.lower) * north / ((across.upper - across.lower) * east)))


def _canvas(size: tuple[float, float], panels: int) -> tuple[Any, list[Any]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.1), facecolor="white")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(1, panels, squeeze=False)[0])


def _colour_bar(figure: Any, axes: Any, image: Any, signed: bool) -> None:
    bar = figure.colorbar(image, ax=axes, shrink=0.82, aspect=28, pad=0.02)
    bar.set_label(quantity(signed), color=INK)
    bar.outline.set_visible(False)
    bar.ax.tick_params(color=PALE, labelcolor=INK)


def _words(figure: Any, caption: Caption) -> None:
    """Title above, guarantee and facts below; a picture that is not private says so first, in red."""
    letters = int(figure.get_size_inches()[0] * LETTERS_PER_INCH)
    figure.suptitle(caption.title, x=0.02, ha="left", fontsize=14, fontweight="bold", color=INK)
    lines = [caption.guarantee_text, "; ".join(f"{label}: {text}" for label, text in caption.facts)]
    footer = "\n".join(textwrap.fill(line, letters) for line in lines)
    figure.supxlabel(footer, x=0.02, ha="left", fontsize=7.5, color=WARNING if caption.warning else PALE)
    if caption.warning:
        frame = {"edgecolor": WARNING, "facecolor": "none", "boxstyle": "round,pad=0.3"}
        figure.text(
            0.98, 0.97, "NOT PRIVATE", ha="right", va="top", fontsize=11, fontweight="bold", color=WARNING, bbox=frame
        )


def encode(figure: Any, kind: str) -> bytes:
    """Content of a ".png" or ".svg" file; letters of an .svg stay text, so that they can be searched and read aloud."""
    import matplotlib as mpl

    content = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "sfumato", "svg.fonttype": "none"}):
        figure.savefig(content, format=kind[1:], dpi=150, metadata=NO_DATE[kind])
    return content.getvalue()


def draw_on(axes: Any, field: Field, *, contours: bool, uncertainty: bool, geographic: bool) -> Any:
    """Draw on axes of the caller's (new ones if None), with the guarantee below; return the axes."""
    if axes is None:
        import matplotlib.pyplot as plt

        _, axes = plt.subplots(layout="constrained", figsize=(6.4, 4.0) if len(field.axes) == 1 else (6.4, 5.8))
    if len(field.axes) == 1:
        draw_curve(axes, field)
    else:
        if geographic:
            check_longitude_first([axis.name for axis in field.axes])
        image = draw_map(axes, field, contours=contours, uncertainty=uncertainty, geographic=geographic)
        _colour_bar(axes.figure, axes, image, field.signed)
    axes.set_title(field.caption.title, loc="left", fontweight="bold", color=INK, pad=22)
    footnote(axes, field.caption)
    return axes
