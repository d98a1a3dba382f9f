"""Pictures by matplotlib: heat map with contours and noise layer, curve with band, dots; and `release.plot`.

Colours: magma from pale to dark, perceptually uniform and readable without telling red from green; differences take
purple to orange, with white for none. Where an answer is less than two standard errors away from zero it may be noise
alone, and is hatched. Most of a map is empty: where the release shows the spread of its values, the colours stand for
shrunk answers (`release.shrinking`), and caption and colour bar say so; hatching goes by the plain ones.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.deferred import require
from sfumato.maps.field import Axis, Field, shared_range
from sfumato.maps.geography import check_longitude_first, length_text, metres_per_degree, scale_bar
from sfumato.maps.views import Caption, Dots
from sfumato.public.shown import shown

COLOURS, SIGNED_COLOURS = "magma_r", "PuOr"
INK, PALE, WARNING = "#231b2e", "#6f6878", "#b3261e"
CURVE, NOISE_RING = "#7b2382", "#a39daa"
HATCH, HATCH_COLOUR = "/////", "#8d8796"
QUANTITY = "mean kernel value"
NOISE_TEXT = "may be noise alone (19 of 20 empty maps are hatched all over)"
CONTOURS = 7
LONGEST_LINE, LONGEST_TEXT = 300, 5000  # letters that are drawn
SHRUNK = ("colours", "shrunk answers (biased, less noise in empty parts); hatching by the plain ones")


def colour_range(values: Any, signed: bool) -> tuple[float, float]:
    """Return the ends of the colour scale: from zero, as a density is not negative; about zero for differences."""
    top = float(np.abs(values).max() if signed else values.max())
    top = top if top > 0 else 1.0
    return (-top, top) if signed else (0.0, top)


def plotted(text: str) -> str:
    r"""Line of text for matplotlib, which would read formulas between dollars and fail on those that are none.

    What is far too long for a picture is cut: matplotlib takes a minute for 100,000 letters.

    Examples
    --------
    >>> plotted("a$_{x$")
    'a\\$_{x\\$'
    """
    line = shown(text[:LONGEST_LINE]) + ("..." if len(text) > LONGEST_LINE else "")
    return line.replace("$", r"\$")


def quantity(drawn: Field | Dots, shrunk: bool = False) -> str:
    """Name of what the colours stand for; a difference says of what."""
    counts = isinstance(drawn, Field) and drawn.quantity == "counts"
    if isinstance(drawn, Field) and drawn.signed:
        return "difference of counts (kernel sums)" if counts else f"difference of shares ({QUANTITY}s)"
    return "kernel sum" if counts else f"{QUANTITY}{', shrunk' if shrunk else ''}"


def per_area(field: Field, geographic: bool) -> tuple[float, str] | None:
    """Return records per area for a value of 1, and its words; None where the axes are not all columns."""
    if field.per_area is None:
        return None
    what = "more records" if field.signed else "records"
    if len(field.axes) == 1:
        return field.per_area, f"{what} per unit of {shown(field.axes[0].name)}"
    if not geographic:
        return field.per_area, f"{what} per unit of area"
    east, north = metres_per_degree((field.axes[1].lower + field.axes[1].upper) / 2)
    return field.per_area / (east * north / 1e6), f"{what} per km²"


def log_floor(values: Any, errors: Any, cutoff: float) -> float:
    """Lower end of a logarithmic colour scale: what is clearly more than noise, within four decades of the top."""
    top = float(np.max(values))
    top = top if top > 0 else 1.0
    return float(np.clip(cutoff * np.median(errors), top / 1e4, top / 10))


def draw_map(
    axes: Any,
    field: Field,
    *,
    contours: bool = True,
    uncertainty: bool = True,
    geographic: bool = False,
    limits: tuple[float, float] | None = None,
    logarithmic: bool = False,
    overlay: Sequence[Any] = (),
) -> Any:
    """Draw a field of two axes and return the image, for its colour bar."""
    from matplotlib.colors import LogNorm, Normalize

    across, up = field.axes
    low, high = limits or colour_range(field.coloured, field.signed)
    norm, coloured = Normalize(low, high), field.coloured
    if logarithmic and not field.signed:
        low = log_floor(field.coloured, field.errors, field.cutoff)
        norm, coloured = LogNorm(low, high), np.maximum(field.coloured, low)
    image = axes.imshow(
        coloured,
        origin="lower",
        extent=(across.lower, across.upper, up.lower, up.upper),
        interpolation="nearest",
        aspect="auto",
        cmap=SIGNED_COLOURS if field.signed else COLOURS,
        norm=norm,
    )
    if contours:
        _draw_contours(axes, field, image)
    _draw_overlay(axes, overlay)
    if uncertainty and field.below_noise.any():
        _draw_noise(axes, field)
    axes.set(xlabel=plotted(across.name), ylabel=plotted(up.name))
    axes.set_xlim(across.lower, across.upper)
    axes.set_ylim(up.lower, up.upper)
    _quiet(axes)
    if geographic:
        _draw_scale_bar(axes, across, up)
    else:
        axes.set_box_aspect(1)
    return image


def _draw_overlay(axes: Any, lines: Sequence[Any]) -> None:
    """Draw lines of coasts or streets: thin and dark, with a pale edge that sets them off from dark colours."""
    from matplotlib.collections import LineCollection

    for colour, width in (("#ffffff", 1.6), (INK, 0.7)) if lines else ():
        axes.add_collection(LineCollection(list(lines), colors=colour, linewidths=width, alpha=0.8), autolim=False)


def _draw_contours(axes: Any, field: Field, image: Any) -> None:
    """Lines at round values, only where there is more than noise; light on dark colours and dark on light ones."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import LogLocator, MaxNLocator

    low, high = image.get_clim()
    locator = LogLocator(subs=(1.0, 2.0, 5.0)) if isinstance(image.norm, LogNorm) else MaxNLocator(CONTOURS)
    levels = [level for level in locator.tick_values(low, high) if low < level < high and level != 0]
    shown = np.ma.masked_array(field.coloured, field.below_noise)
    if shown.count() == 0 or not levels:
        return
    shades = image.cmap(image.norm(levels))[:, :3] @ (0.299, 0.587, 0.114)
    colours = ["#ffffff" if shade < 0.55 else "#000000" for shade in shades]
    axes.contour(
        field.axes[0].centres, field.axes[1].centres, shown, levels, colors=colours, linewidths=0.7, alpha=0.55
    )


def _draw_noise(axes: Any, field: Field) -> None:
    import matplotlib as mpl
    from matplotlib.patches import Patch

    with mpl.rc_context({"hatch.linewidth": 0.4}):
        filled = axes.contourf(
            field.axes[0].centres,
            field.axes[1].centres,
            field.below_noise.astype(float),
            levels=[0.5, 1.5],
            colors="none",
            hatches=[HATCH],
        )
        filled.set_edgecolor(HATCH_COLOUR)
        filled.set_linewidth(0.0)
        patch = Patch(facecolor="none", edgecolor=HATCH_COLOUR, hatch=HATCH, linewidth=0, label=NOISE_TEXT)
    _legend(axes, [patch])


def _quiet(axes: Any) -> None:
    """Frame and ticks that do not compete with the picture."""
    axes.tick_params(color=PALE, labelcolor=INK, labelsize=9)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    axes.spines[:].set(color=PALE, linewidth=0.6)


def _legend(axes: Any, handles: list[Any]) -> None:
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        frameon=False,
        fontsize=8,
        labelcolor=INK,
        borderaxespad=0.3,
        borderpad=0.1,
        handlelength=2.2,
    )


def _draw_scale_bar(axes: Any, across: Axis, up: Axis) -> None:
    """Keep distances in proportion at the middle latitude, and show a length."""
    east, north = metres_per_degree((up.lower + up.upper) / 2)
    axes.set_aspect(north / east)
    length = scale_bar((across.upper - across.lower) * east)
    width, left = length / east, across.lower + 0.04 * (across.upper - across.lower)
    bottom = up.lower + 0.05 * (up.upper - up.lower)
    axes.plot([left, left + width], [bottom, bottom], color=INK, linewidth=2.5, solid_capstyle="butt")
    axes.annotate(
        length_text(length), (left + width / 2, bottom), (0, 4), textcoords="offset points", ha="center", color=INK,
        fontsize=9, bbox={"facecolor": "white", "alpha": 0.6, "linewidth": 0, "pad": 1.0},
    )  # fmt: skip


def draw_curve(axes: Any, field: Field) -> None:
    """Draw a field of one axis with its simultaneous band."""
    across = field.axes[0].centres
    if field.band is not None:
        reach = field.band.multiplier * field.errors
        band = (field.values - reach, field.values + reach)
        axes.fill_between(across, *band, color=CURVE, alpha=0.18, linewidth=0, label=str(field.band))
    axes.plot(across, field.values, color=CURVE, linewidth=2, label=quantity(field))
    axes.axhline(0.0, color=PALE, linewidth=0.8)
    axes.set(xlabel=plotted(field.axes[0].name), ylabel=quantity(field))
    axes.set_xlim(field.axes[0].lower, field.axes[0].upper)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e4e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    _quiet(axes)
    _legend(axes, axes.get_legend_handles_labels()[0])


def draw_dots(axes: Any, dots: Dots) -> Any:
    """Draw public points coloured by their answers, rings for those that may be noise; return the dots."""
    low, high = colour_range(dots.values, signed=False)
    noisy = dots.below_noise
    size = float(np.clip(20_000 / len(dots.values), 4, 40))
    rings = axes.scatter(*dots.places[noisy].T, s=size, facecolors="none", edgecolors=NOISE_RING, linewidths=0.7)
    order = np.argsort(dots.values[~noisy], kind="stable")  # so that high answers are not hidden
    shown, values = dots.places[~noisy][order], dots.values[~noisy][order]
    drawn = axes.scatter(*shown.T, c=values, s=size, cmap=COLOURS, vmin=low, vmax=high, linewidths=0)
    axes.set(xlabel=plotted(dots.axes[0]), ylabel=plotted(dots.axes[1]), xticks=[], yticks=[])
    axes.set_box_aspect(1)
    _quiet(axes)
    if noisy.any():
        rings.set_label(NOISE_TEXT)
        _legend(axes, [rings])
    return drawn


def footnote(axes: Any, caption: Caption) -> None:
    """Write the guarantee below axes, for pictures made of somebody else's figure."""
    width = axes.get_window_extent().width / axes.figure.dpi
    axes.annotate(
        _wrapped(caption.guarantee_text, max(40, math.floor(width * 18))),
        (0, 0), (0, -40), xycoords="axes fraction", textcoords="offset points", va="top", fontsize=7,
        color=WARNING if caption.warning else PALE,
    )  # fmt: skip


def _wrapped(text: str, letters: int) -> str:
    """Wrap text for matplotlib; escapes come last, or a line could end between a backslash and its dollar."""
    whole = text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} ... (the release says more)"
    return "\n".join(map(plotted, textwrap.wrap(whole, min(letters, LONGEST_LINE))))  # or `plotted` would cut them


# What each kind of picture must leave out to be the same file every time.
NO_DATE: dict[str, dict[str, str | None]] = {".png": {}, ".svg": {"Date": None}}
LETTERS_PER_INCH = 17  # of the footer's type, on average


def draw_figure(
    drawn: Field | Dots,
    *,
    contours: bool = True,
    uncertainty: bool = True,
    geographic: bool = False,
    logarithmic: bool = False,
    overlay: Sequence[Any] = (),
) -> Any:
    """One map, curve or set of dots with its title, colour bar and guarantee, as a matplotlib figure."""
    curve = isinstance(drawn, Field) and len(drawn.axes) == 1
    figure, axes = _canvas((7.6, 4.6) if curve else (7.6, 1.4 + 6.0 * _height(drawn, geographic)), 1)
    if isinstance(drawn, Dots):
        _colour_bar(figure, axes[0], draw_dots(axes[0], drawn), quantity(drawn))
    elif curve:
        draw_curve(axes[0], drawn)
    else:
        image = draw_map(
            axes[0], drawn, contours=contours, uncertainty=uncertainty, geographic=geographic,
            logarithmic=logarithmic, overlay=overlay,
        )  # fmt: skip
        _colour_bar(figure, axes[0], image, _bar_label(drawn, geographic, image))
    if drawn.caption.view:
        axes[0].set_title(plotted(drawn.caption.view), loc="left", fontsize=9, color=PALE, pad=34 if curve else 20)
    shrunk = isinstance(drawn, Field) and not curve and drawn.shrunk is not None
    _words(figure, replace(drawn.caption, facts=(*drawn.caption.facts, SHRUNK)) if shrunk else drawn.caption)
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
            bar.set_label(quantity(field), color=INK)
            bar.ax.locator_params(nbins=5)
            bar.outline.set_visible(False)
        axes.set_title(plotted(title), loc="left", fontsize=11, color=INK)
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
    require("plot")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.1), facecolor="white")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(1, panels, squeeze=False)[0])


def _bar_label(field: Field, geographic: bool, image: Any) -> str:
    """Words of a colour bar: what the colours are, and what the last one means in records per area."""
    label, area = quantity(field, field.shrunk is not None), per_area(field, geographic)
    if area is None:
        return label
    top = float(image.get_clim()[1])
    return f"{label}\n{float(f'{top:.2g}'):,g} is about {float(f'{top * area[0]:.2g}'):,g} {area[1]}"


def _colour_bar(figure: Any, axes: Any, image: Any, label: str) -> None:
    bar = figure.colorbar(image, ax=axes, shrink=0.82, aspect=28, pad=0.02)
    bar.set_label("\n".join(map(plotted, label.split("\n"))), color=INK)
    bar.outline.set_visible(False)
    bar.ax.tick_params(color=PALE, labelcolor=INK)


def _words(figure: Any, caption: Caption) -> None:
    """Title above, guarantee and facts below; a picture that is not private says so first, in red."""
    letters = int(figure.get_size_inches()[0] * LETTERS_PER_INCH)
    figure.suptitle(plotted(caption.title), x=0.02, ha="left", fontsize=14, fontweight="bold", color=INK)
    lines = [caption.guarantee_text, "; ".join(f"{label}: {text}" for label, text in caption.facts)]
    footer = "\n".join(_wrapped(line, letters) for line in lines)
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
        require("plot")
        import matplotlib.pyplot as plt

        _, axes = plt.subplots(layout="constrained", figsize=(6.4, 4.0) if len(field.axes) == 1 else (6.4, 5.8))
    if len(field.axes) == 1:
        draw_curve(axes, field)
    else:
        if geographic:
            check_longitude_first([axis.name for axis in field.axes])
        image = draw_map(axes, field, contours=contours, uncertainty=uncertainty, geographic=geographic)
        _colour_bar(axes.figure, axes, image, _bar_label(field, geographic, image))
    axes.set_title(plotted(field.caption.title), loc="left", fontweight="bold", color=INK, pad=22)
    footnote(axes, field.caption)
    return axes
