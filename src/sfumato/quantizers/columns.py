"""What quantizers on a box of separable kernels share: kept rows, and how well products over columns match a kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.quantizers.base import Floats, Integers, Known, Reading
from sfumato.quantizers.box import Box


def kept_rows(box: Box, rows: NDArray[Any]) -> Floats:
    """Rows that the box keeps, as float64, with finite values outside clipped to the edge (or their rows dropped).

    Examples
    --------
    >>> kept_rows(Box((0.0,), (1.0,)), np.array([[0.5], [np.nan], [7.0]])).ravel()
    array([0.5, 1. ])
    """
    values = np.asarray(rows, dtype=np.float64)
    keep = np.isfinite(values).all(axis=1) if box.outside == "clip" else box.holds(values)
    return np.clip(values[keep], np.array(box.lower), np.array(box.upper))


def whole_within(values: Floats, low: Any, high: Any) -> Integers:
    """Convert to whole numbers within limits (numbers, or one a column), as `clamping.held` does one by one.

    Examples
    --------
    >>> whole_within(np.array([2.7, 1e300, np.nan]), 0, 9)
    array([2, 9, 0])
    """
    return np.asarray(np.clip(np.where(np.isnan(values), low, values), low, high).astype(np.int64))


def midpoints(low: float, high: float, count: int) -> Floats:
    """Middles of `count` equal parts of an interval, where averages over it are taken."""
    return low + (high - low) * (np.arange(count) + 0.5) / count


def raised_bias(reading: Reading, density: float, known: Known) -> Reading:
    """Raise a bias stated for one density to that of the answer, where the answer is larger."""
    answers = np.abs(reading.total) / known.count
    return replace(reading, bias=reading.bias * np.maximum(answers / density, 1.0))


def relative_misfit(exact: Floats, mixed: Floats, approximate: Floats) -> Floats:
    """``|k - f.g| / |k|`` from the squared norms ``<k, k>``, ``<k, f.g>`` and ``<f.g, f.g>``, entry by entry.

    For products over the columns each of the three is the product of the columns' own.
    """
    miss = np.maximum(exact - 2 * mixed + approximate, 0.0)
    return np.asarray(np.sqrt(miss / np.maximum(exact, np.finfo(np.float64).tiny)))
