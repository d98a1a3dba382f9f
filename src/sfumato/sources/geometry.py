"""Points of a GeoDataFrame: two columns of numbers, and the unit that its reference system states.

A geometry is read as its well-known binary, each cell alone. What is no point (a null, a line, an empty point) has NaN
for coordinates. Nothing of geopandas is imported: a frame that has `geometry` and `crs` is one.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.sources.base import Source
from sfumato.sources.selection import Selection
from sfumato.sources.tables import open_pandas

_POINT = 1
_ODD = (float("nan"), float("nan"))


def is_geographic_frame(data: Any) -> bool:
    """Tell whether a data frame has an active geometry."""
    return getattr(data, "_geometry_column_name", None) is not None and hasattr(data, "crs")


def open_points(frame: Any, selection: Selection) -> Source:
    """Source over a GeoDataFrame; its geometry stands for two coordinates, and by default for all of them."""
    geometry, unit = frame._geometry_column_name, _unit(frame.crs)
    names = ["longitude", "latitude"] if unit == "degrees" else ["x", "y"]
    places = np.array([point_of(cell) for cell in frame[geometry].to_wkb()], dtype=np.float64).reshape(-1, 2)
    plain = frame.drop(columns=[geometry]).assign(**dict(zip(names, places.T, strict=True)))
    asked = [geometry] if selection.columns is None else selection.columns
    columns = [name for column in asked for name in (names if column == geometry else [column])]
    source = open_pandas(plain, replace(selection, columns=columns))
    return replace(source, length_unit=unit if asked == [geometry] else None)


def point_of(cell: object) -> tuple[float, float]:
    """Coordinates of a point in well-known binary; NaN for all else. Never raises.

    Examples
    --------
    >>> point_of(struct.pack("<BIdd", 1, 1, 4.9, 52.4)), point_of(b"odd"), point_of(None)
    ((4.9, 52.4), (nan, nan), (nan, nan))
    """
    if not isinstance(cell, bytes) or len(cell) < 21 or cell[0] > 1:
        return _ODD
    order = "<" if cell[0] else ">"
    (kind,) = struct.unpack_from(f"{order}I", cell, 1)
    # Thousands, or the highest bits, tell of a height, a measure or a reference system beside the two coordinates.
    start = 9 if kind & 0x20000000 else 5
    if (kind & 0x0FFFFFFF) % 1000 != _POINT or len(cell) < start + 16:
        return _ODD
    x, y = struct.unpack_from(f"{order}dd", cell, start)
    return x, y


def _unit(system: Any) -> str | None:
    """Return the unit of a reference system, where it says one that is known here."""
    if system is None:
        return None
    if system.is_geographic:
        return "degrees"
    return "metres" if {axis.unit_name for axis in system.axis_info[:2]} == {"metre"} else None
