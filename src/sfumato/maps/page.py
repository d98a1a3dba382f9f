"""One HTML file with the whole picture: pan, zoom, values under the pointer, guarantee and plain statement.

The file holds the answers on the grid, the colours, its style and its script, and asks the network for nothing (its
content security policy forbids it), so it works from disk and for ever. The script is in `assets`, three short files.

`card` is the small one that notebooks show for a release: what it is, what it promises, and a thumbnail.
"""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from sfumato.deferred import missing, require
from sfumato.errors import InputError
from sfumato.maps.field import Field, evaluate, shared_range
from sfumato.maps.figure import COLOURS, NOISE_TEXT, SIGNED_COLOURS, colour_range, log_floor, per_area, quantity
from sfumato.maps.geography import check_longitude_first, metres_per_degree
from sfumato.maps.interval import LEVEL, deviations
from sfumato.maps.views import Caption, Dots, column_names
from sfumato.public.shown import shown
from sfumato.release import Release
from sfumato.version import __version__

COLOUR_COUNT = 256
SCRIPTS = ("view.js", "paint.js", "page.js")


def page(
    layers: Sequence[Field | Dots],
    names: Sequence[str] = ("",),
    *,
    geographic: bool = False,
    logarithmic: bool = False,
    overlay: Sequence[Any] = (),
) -> bytes:
    """Write the page of a map, curve or set of dots; several layers of one grid can be switched.

    Parameters
    ----------
    layers : sequence of Field or Dots
        What is drawn, the first one at first.
    names : sequence of str
        Names of the layers.
    geographic : bool
        Whether the axes are longitude and latitude in degrees: proportions and scale bar follow.
    logarithmic : bool
        Whether colours are logarithmic at first; the reader can switch.
    overlay : sequence of ndarray
        Lines to draw over a map, from `overlay.read_overlay`.

    Examples
    --------
    >>> from sfumato import PrivateKDE
    >>> from sfumato.maps import evaluate
    >>> points = np.random.default_rng(0).normal(size=(2000, 2))
    >>> release = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=2000, bounds=(-3, 3)).fit(points).release_
    >>> page([evaluate(release, size=8)])[:15]
    b'<!doctype html>'
    """
    caption = layers[0].caption
    words = {
        "version": __version__,
        "title": _html(caption.title),
        "view": f'<p class="view">{_html(caption.view)}</p>' if caption.view else "",
        "warning": _warning(caption),
        "description": _html(_description(_noisiest(layers))),
        "guarantees": "".join(f'<p class="guarantee">{_html(text)}</p>' for text in _guarantees(caption)),
        "facts": "".join(f"<dt>{_html(label)}</dt><dd>{_html(text)}</dd>" for label, text in caption.facts),
        "statement": "".join(f"<p>{_html(part)}</p>" for part in caption.statement.split("\n")),
        "colophon": _colophon(caption, lines=len(overlay) > 0),
        "data": _embedded(_document(layers, names, geographic, logarithmic, overlay)),
        "style": _asset("page.css"),
        "script": '"use strict";\n(() => {\n' + "\n".join(_asset(name) for name in SCRIPTS) + "})();",
    }
    return Template(_asset("page.html")).substitute(words).encode()


def _html(text: object) -> str:
    return html.escape(shown(text))


def _asset(name: str) -> str:
    return files("sfumato.maps").joinpath("assets", name).read_text(encoding="utf-8")


def _warning(caption: Caption) -> str:
    if not caption.warning:
        return ""
    return f'<p class="warning" role="alert">NOT PRIVATE: {_html(caption.warning)}.</p>'


def _guarantees(caption: Caption) -> list[str]:
    return [f"Guarantee: {guarantee}" for guarantee in caption.guarantees]


def _colophon(caption: Caption, *, lines: bool) -> str:
    if caption.warning:
        return f"Made with sfumato {__version__}."
    drawn = ", the lines drawn over them" if lines else ""
    return f"Made with sfumato {__version__}. This page holds answers of the release{drawn} and nothing else."


def _noisiest(layers: Sequence[Field | Dots]) -> Field | Dots:
    """Choose the layer that has errors: beside an exact density, the private one."""
    return next((layer for layer in layers if np.any(layer.errors > 0)), layers[0])


def _description(drawn: Field | Dots) -> str:
    """Say what a picture shows, for people who do not see it."""
    share = 100 * float(np.mean(drawn.below_noise))
    noise = f"{share:.0f} % of the picture may be noise alone."
    top = int(np.argmax(drawn.values))
    height = f"{drawn.values.ravel()[top]:.3g}"
    if isinstance(drawn, Dots):
        return f"{len(drawn.values)} public points coloured by {quantity(drawn)}, at most {height}. {noise}"
    kind = "Curve" if len(drawn.axes) == 1 else "Map"
    over = " and ".join(axis.name for axis in drawn.axes)
    place = drawn.queries[top][list(drawn.section.shown)]
    where = ", ".join(f"{axis.name} {value:.4g}" for axis, value in zip(drawn.axes, place, strict=True))
    return f"{kind} of the {quantity(drawn)} over {over}. Largest value {height} at {where}. {noise}"


def _document(
    layers: Sequence[Field | Dots], names: Sequence[str], geographic: bool, logarithmic: bool, overlay: Sequence[Any]
) -> dict[str, Any]:
    first = layers[0]
    if isinstance(first, Dots):
        kind, axes = "dots", _dot_axes(first)
    elif len(first.axes) == 1:
        kind, axes = "curve", [_axis(first), _height_axis(layers)]
    else:
        kind, axes = "map", [_axis(first, 0), _axis(first, 1)]
    document: dict[str, Any] = {"kind": kind, "axes": axes, "aspect": None, "metres": None}
    if geographic and isinstance(first, Field):
        check_longitude_first([axis.name for axis in first.axes])
        east, north = metres_per_degree((first.axes[1].lower + first.axes[1].upper) / 2)
        document |= {"aspect": north / east, "metres": east}
    band = getattr(first, "band", None)
    document |= {
        "level": LEVEL,
        "deviations": deviations(LEVEL),
        "noise_text": str(band) if band is not None else NOISE_TEXT,
        "logarithmic": logarithmic,
        "overlay": {
            "lengths": [len(line) for line in overlay],
            "places": _floats(np.concatenate([*overlay, np.empty((0, 2))])),
        },
    }
    return document | {"layers": [_layer(*pair, layers, geographic) for pair in zip(layers, names, strict=True)]}


def _axis(field: Field, index: int = 0) -> dict[str, Any]:
    axis = field.axes[index]
    return {"name": shown(axis.name), "lower": axis.lower, "upper": axis.upper, "cells": axis.cells}


def _height_axis(layers: Sequence[Any]) -> dict[str, Any]:
    """Vertical axis of curves, which holds all of their bands."""
    reaches = [(field.band.multiplier if field.band else 0.0) * field.errors for field in layers]
    low = min(float(np.min(field.values - reach)) for field, reach in zip(layers, reaches, strict=True))
    high = max(float(np.max(field.values + reach)) for field, reach in zip(layers, reaches, strict=True))
    low, high = min(low, 0.0), max(high, 0.0)
    margin = 0.05 * (high - low) or 1.0
    return {"name": quantity(layers[0]), "lower": low - margin, "upper": high + margin, "fixed": True}


def _dot_axes(dots: Dots) -> list[dict[str, Any]]:
    low, high = dots.places.min(axis=0), dots.places.max(axis=0)
    margin = 0.05 * (high - low) + 1e-9
    return [
        {"name": shown(name), "lower": float(start), "upper": float(end)}
        for name, start, end in zip(dots.axes, low - margin, high + margin, strict=True)
    ]


def _layer(drawn: Field | Dots, name: str, layers: Sequence[Field | Dots], geographic: bool) -> dict[str, Any]:
    signed = isinstance(drawn, Field) and drawn.signed
    low, high = colour_range(drawn.values, signed)
    if not signed and isinstance(drawn, Field):
        high = max(high, shared_range([field for field in layers if isinstance(field, Field)]))
    layer = {
        "name": shown(name),
        "quantity": quantity(drawn),
        "cutoff": drawn.cutoff,
        "floor": log_floor(drawn.values, drawn.errors, drawn.cutoff),
        "signed": signed,
        "low": low,
        "high": high,
        "colours": _base64(_colours(SIGNED_COLOURS if signed else COLOURS)),
        "values": _floats(drawn.values),
        "errors": _floats(drawn.errors),
    }
    if isinstance(drawn, Dots):
        return layer | {"places": _floats(drawn.places)}
    area, unit = per_area(drawn, geographic) or (None, "")
    return layer | {"multiplier": drawn.band.multiplier if drawn.band else 0.0, "area": area, "unit": unit}


def _colours(name: str) -> bytes:
    require("plot")
    import matplotlib as mpl

    table = mpl.colormaps[name](np.linspace(0, 1, COLOUR_COUNT))[:, :3]
    return bytes(np.rint(255 * table).astype(np.uint8))


def _floats(numbers: Any) -> str:
    return _base64(np.ascontiguousarray(numbers, dtype="<f4").tobytes())


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _embedded(document: dict[str, Any]) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(document, allow_nan=False).replace("<", "\\u003c")


THUMBNAIL_CELLS = 48
MOST_TERMS = 1 << 15  # a thumbnail of more would keep the notebook waiting

_STYLE = "display:inline-flex;gap:1em;padding:.8em 1em;border:1px solid #8886;border-radius:.6em;font-family:system-ui"
_IMAGE = "width:96px;height:96px;border-radius:.4em;image-rendering:auto"


def card(release: Release) -> str:
    """Show a release as a few lines of HTML.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import PrivateKDE
    >>> points = np.random.default_rng(0).normal(size=(2000, 2))
    >>> release = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=2000, bounds=(-3, 3)).fit(points).release_
    >>> "epsilon = 1 (pure)" in card(release)
    True
    """
    caption = Caption.of((release,), f"Release by {release.method}")
    facts = (*caption.facts[:2], ("columns", ", ".join(column_names(release)[:8])))
    lines = "".join(f"<div><small>{_html(label)}: {_html(text)}</small></div>" for label, text in facts)
    title = f"<div><b>{_html(caption.title)}</b></div>"
    promise = f'<div style="max-width:36em">{_html(caption.guarantee_text)}</div>'
    return f'<div style="{_STYLE}">{_thumbnail(release)}<div>{title}{promise}{lines}</div></div>'


def _thumbnail(release: Release) -> str:
    """Picture of a two-column release over its declared box; nothing where that would show nothing or take long."""
    if release.dimension != 2 or missing("plot") or release.reader.terms > MOST_TERMS:
        return ""
    try:
        field = evaluate(release, size=THUMBNAIL_CELLS)
    except InputError:  # the box is too wide to see anything, or only listed queries are answered
        return ""
    require("plot")
    from matplotlib.image import imsave

    low, high = colour_range(field.values, signed=False)
    content = io.BytesIO()
    imsave(content, field.values, cmap=COLOURS, vmin=low, vmax=high, origin="lower", format="png")
    source = f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
    return f'<img src="{source}" alt="Density over {_html(" and ".join(column_names(release)))}" style="{_IMAGE}">'
