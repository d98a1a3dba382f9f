"""A grid of answers as CSV or GeoJSON: value, standard error and the ends of the interval of every cell."""

from __future__ import annotations

import io
import json

import numpy as np

from sfumato.deferred import require
from sfumato.errors import InputError
from sfumato.maps.field import Field
from sfumato.maps.geography import check_longitude_first
from sfumato.maps.interval import LEVEL
from sfumato.maps.views import Dots
from sfumato.quantizers.base import Floats

MEASURES = ("value", "std", "lower", "upper")
DIGITS = 10


def to_csv(field: Field | Dots) -> bytes:
    """Rows of place, value, std, lower and upper, one a cell or dot; lower and upper are 95 % intervals of one cell.

    Parameters
    ----------
    field : Field or Dots
        What `evaluate` or `project` gave.
    """
    require("curator")
    import pyarrow as pa
    import pyarrow.csv

    names = tuple(axis.name for axis in field.axes) if isinstance(field, Field) else ("x", "y")
    clash = next((name for name in names if name in MEASURES), None)
    if clash is not None:
        raise InputError(f"a column is called {clash!r}, as an output column is; rename it in the release's data")
    places = field.queries[:, field.section.shown] if isinstance(field, Field) else field.places
    columns = np.column_stack([places, _measures(field)])
    sink = io.BytesIO()
    pyarrow.csv.write_csv(pa.table(dict(zip((*names, *MEASURES), columns.T, strict=True))), sink)
    return sink.getvalue()


def _measures(field: Field | Dots) -> Floats:
    lower, upper = field.interval()
    return np.column_stack([part.ravel() for part in (field.values, field.errors, lower, upper)])


def to_geojson(field: Field) -> bytes:
    """Cells as GeoJSON polygons in degrees of longitude and latitude (RFC 7946), with the guarantee in the file.

    Parameters
    ----------
    field : Field
        Of two columns, longitude first.
    """
    check_longitude_first([axis.name for axis in field.axes])
    across, up = field.axes
    if across.lower < -180 or across.upper > 180 or up.lower < -90 or up.upper > 90:
        raise InputError("GeoJSON is in degrees: longitudes from -180 to 180 and latitudes from -90 to 90")
    measures = _measures(field).reshape(up.cells, across.cells, len(MEASURES)).tolist()
    lefts, bottoms = (np.round(axis.edges, DIGITS).tolist() for axis in field.axes)
    features = [
        _cell(lefts[column : column + 2], bottoms[row : row + 2], measures[row][column])
        for row in range(up.cells)
        for column in range(across.cells)
    ]
    document = {
        "type": "FeatureCollection",
        "title": field.caption.title,
        "guarantee": field.caption.guarantee_text,
        "statement": field.caption.statement,
        "interval": LEVEL,
        "features": features,
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _cell(across: list[float], up: list[float], measures: list[float]) -> dict[str, object]:
    (left, right), (bottom, top) = across, up
    ring = [[left, bottom], [right, bottom], [right, top], [left, top], [left, bottom]]
    properties = {name: float(f"{number:.7g}") for name, number in zip(MEASURES, measures, strict=True)}
    return {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}, "properties": properties}
