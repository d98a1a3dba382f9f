"""Exact, private and difference on one grid. NOT PRIVATE: for the curator's eyes, or for made-up points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.kernels import Kernel, ShiftInvariantKernel
from sfumato.maps.field import Field
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import Box
from sfumato.release import Release
from sfumato.sources import open_source

BLOCK_ROWS = 8192
REASON = "shows the exact density of the private points"


def compare(field: Field, release: Release, points: Any, *, made_up: bool = False) -> tuple[Field, Field, Field]:
    """Exact density of PRIVATE points, the private one, and private minus exact, all marked as not private.

    Parameters
    ----------
    field : Field
        What `evaluate` gave for the release.
    release : Release
        Its kernel and box say what is computed, odd rows are treated as in the release.
    points : array-like or Source
        The private points.
    made_up : bool
        Whether the points are nobody's, so that the pictures need no mark.

    Returns
    -------
    (exact, private, difference) : tuple of Field

    Examples
    --------
    >>> from sfumato import PrivateKDE
    >>> from sfumato.maps import evaluate
    >>> points = np.random.default_rng(0).normal(size=(2000, 2))
    >>> release = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=2000, bounds=(-3, 3)).fit(points).release_
    >>> exact, private, difference = compare(evaluate(release, size=8), release, points)
    >>> bool(np.allclose(exact.values + difference.values, private.values))
    True
    """
    if release.kernel is None:
        raise InputError("the release does not carry its kernel, so the exact density cannot be computed from it")
    if field.signed:
        raise InputError("a difference of two releases cannot be compared with points; compare each release")
    source = open_source(points)
    if source.dimension != release.dimension:
        raise InputError(f"the points have {source.dimension} columns and the release has {release.dimension}")
    rows = (_kept(batch, release.reader.box) for batch in source.batches())
    values = _exact_values(release.kernel, rows, field)
    caption = field.caption if made_up else field.caption.not_private(REASON)
    nothing = np.zeros_like(values)
    exact = replace(field, values=values, errors=nothing, caption=caption, band=None)
    difference = replace(exact, values=field.values - values, signed=True)
    return exact, replace(field, caption=caption), difference


def _kept(batch: NDArray[Any], box: Box) -> Floats:
    """Rows as the release saw them."""
    finite = np.asarray(batch[np.isfinite(batch).all(axis=1)], dtype=np.float64)
    clipped: Floats = np.clip(finite, box.lower, box.upper)
    return clipped if box.outside == "clip" else clipped[(clipped == finite).all(axis=1)]


def _exact_values(kernel: Kernel, batches: Iterator[Floats], field: Field) -> Floats:
    """Exact mean kernel values on the grid; for a product of columns, by one matrix product a batch."""
    if not (isinstance(kernel, ShiftInvariantKernel) and kernel.separable):
        return kernel.exact_density(batches, field.queries).reshape(field.values.shape)
    view, total, count = field.section, np.zeros(field.values.size), 0
    lengths = kernel.column_scales(len(view.names))
    places = [np.array([value]) for value in view.fixed]
    for index, axis in zip(view.shown, field.axes, strict=True):
        places[index] = axis.centres
    for rows in (part for batch in batches for part in np.array_split(batch, len(batch) // BLOCK_ROWS + 1)):
        factors = [
            kernel.column_profile((rows[:, [index]] - places[index]) / lengths[index]) for index in range(len(places))
        ]
        shown = [factors[index] for index in view.shown]
        for index in set(range(len(places))) - set(view.shown):
            shown[0] = shown[0] * factors[index]
        total += shown[0].sum(axis=0) if len(shown) == 1 else (shown[1].T @ shown[0]).ravel()
        count += len(rows)
    if not count:
        raise InputError("the points hold no rows that the release would keep")
    return (total / count).reshape(field.values.shape)


def shared_range(fields: Sequence[Field]) -> float:
    """Top of a colour scale on which unsigned fields can be compared."""
    return float(max(field.values.max() for field in fields if not field.signed))
