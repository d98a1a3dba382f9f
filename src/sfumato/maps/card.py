"""The small card that notebooks show for a release: what it is, what it promises, and a thumbnail."""

from __future__ import annotations

import base64
import html
import io

from sfumato.errors import InputError
from sfumato.maps.caption import Caption
from sfumato.maps.field import evaluate
from sfumato.maps.picture import COLOURS, colour_range
from sfumato.maps.views import column_names
from sfumato.release import Release

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
    lines = "".join(f"<div><small>{html.escape(label)}: {html.escape(text)}</small></div>" for label, text in facts)
    title = f"<div><b>{html.escape(caption.title)}</b></div>"
    promise = f'<div style="max-width:36em">{html.escape(caption.guarantee_text)}</div>'
    return f'<div style="{_STYLE}">{_thumbnail(release)}<div>{title}{promise}{lines}</div></div>'


def _thumbnail(release: Release) -> str:
    """Picture of a two-column release over its declared box; nothing where that would show nothing or take long."""
    from matplotlib.image import imsave

    if release.dimension != 2 or release.reader.terms > MOST_TERMS:
        return ""
    try:
        field = evaluate(release, size=THUMBNAIL_CELLS)
    except InputError:  # the box is too wide to see anything, or only listed queries are answered
        return ""
    low, high = colour_range(field.values, signed=False)
    content = io.BytesIO()
    imsave(content, field.values, cmap=COLOURS, vmin=low, vmax=high, origin="lower", format="png")
    source = f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
    return (
        f'<img src="{source}" alt="Density over {html.escape(" and ".join(column_names(release)))}" style="{_IMAGE}">'
    )
