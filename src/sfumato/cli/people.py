"""`sfumato people` and `sample`: how many are in a region, with an interval; and synthetic points from a release."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.cli import flags
from sfumato.cli.console import check_suffix, complain, tell, warn_of_seed, write_table
from sfumato.cli.flags import flag
from sfumato.cli.outputs import refuse_inputs
from sfumato.cli.typed import parse_numbers, parse_pairs
from sfumato.errors import InputError, StorageError
from sfumato.public.canonical_json import LARGEST_TEXT, parse
from sfumato.storage import AtomicFile, read_at_most

if TYPE_CHECKING:
    from sfumato.maps.table import Counted
    from sfumato.release import Release

EXAMPLES = (
    "[bold]Examples[/]:\n\n"
    "sfumato people trips.sfm --region '4.88,4.92;52.36,52.38'\n\n"
    "sfumato people may.sfm --minus april.sfm --region centre.geojson\n\n"
    "sfumato people may.sfm --region boroughs.geojson -o boroughs.csv"
)
SAMPLE_EXAMPLES = "[bold]Example[/]: sfumato sample trips.sfm -k 1000 -o points.csv"


class Quantity(StrEnum):
    """What is subtracted or counted, as a flag's value."""

    COUNTS = "counts"
    SHARES = "shares"


def people(
    release: flags.ReleaseFile,
    region: Annotated[
        str,
        flag(
            "A pair for each column, or a GeoJSON file of polygons in the release's two columns.",
            "'LO,HI;LO,HI' or FILE",
        ),
    ],
    minus: Annotated[Path | None, flag("Estimate the difference from this release.", "RELEASE")] = None,
    quantity: Annotated[
        Quantity, flag("Numbers of records, or shares of all records.", None, "--as")
    ] = Quantity.COUNTS,
    level: Annotated[float, flag("Probability of the interval.", "P")] = 0.95,
    output: Annotated[
        Path | None, flag("Count every feature of --region apart: a .csv or .geojson file.", "FILE", "-o", "--output")
    ] = None,
    force: flags.Force = False,
    as_json: flags.Json = False,
) -> None:
    """Estimate the number of records in a region, with an interval; it costs no privacy.

    Sharp: the records in the region, from a grid release; the interval holds that number whatever the records are, and
    is as wide as the cells that the edge cuts are full. Smoothed: each record counts with the share of its kernel that
    lies in the region, as one well inside and in part within a bandwidth or so of the edge; the interval is for that
    smoothed number.
    """
    from sfumato.maps.table import count_region
    from sfumato.release import load

    place = _region(region)
    if output is not None:
        check_suffix(output, "a table of regions is", (".csv", ".geojson"))
        refuse_inputs(output, release, minus, region)
    releases = [load(path) for path in (release, minus) if path is not None]

    def count(part: Any) -> Counted:
        return count_region(releases[0], part, minus=(*releases, None)[1], quantity=quantity.value, level=level)

    for made in releases:
        warn_of_seed(made.guarantee)
    for guarantee in () if as_json else dict.fromkeys(str(made.guarantee) for made in releases):
        complain(f"guarantee: {guarantee}")
    what = quantity.value if minus is None else f"difference of {quantity.value}"
    document: dict[str, Any] = {"quantity": what, "guarantees": [made.guarantee.to_document() for made in releases]}
    if output is not None:
        rows = _write(place, count, output, force, releases, quantity.value, level)
        tell(
            {"table": str(output), "regions": rows, **document},
            [("table", f"{output} ({what} of {rows:,} regions)")],
            as_json=as_json,
        )
        return
    found = count(place)
    numbers = {name: getattr(found.smoothed, name) for name in ("value", "std", "lower", "upper", "level")}
    sharp = found.sharp
    names = ("value", "std", "lower", "upper", "edge", "level")
    document |= {"people": numbers, "sharp": None if sharp is None else {name: getattr(sharp, name) for name in names}}
    lines = [
        ("quantity", what),
        ("sharp", found.refused if sharp is None else str(sharp)),
        ("smoothed", str(found.smoothed)),
    ]
    tell(document, lines, as_json=as_json, made=False)


def _write(
    place: Any,
    count: Callable[[Any], Counted],
    output: Path,
    force: bool,
    releases: list[Release],
    quantity: str,
    level: float,
) -> int:
    """Count every feature of a GeoJSON object, and write the table."""
    from sfumato.maps.table import count_features, regions_geojson, regions_table

    if not isinstance(place, dict):
        raise InputError("a table needs --region with a GeoJSON file of features")
    rows = count_features(place, count)
    if output.suffix.lower() == ".csv":
        write_table(regions_table(rows), output, force)
    else:
        with AtomicFile(output, overwrite=force) as file:
            file.write(regions_geojson(rows, releases, quantity, level))
    return len(rows)


def _region(text: str) -> Any:
    if not text.lower().endswith((".geojson", ".json")):
        return [parse_numbers(part, "--region") for part in text.split(";")]
    return read_geojson(text)


def read_geojson(text: str) -> dict[str, Any]:
    """Read a GeoJSON file from disk, or whatever else has a path, within the limit."""
    try:
        document = parse(read_at_most(text, LARGEST_TEXT), text, LARGEST_TEXT)
    except StorageError as problem:
        if problem.errno != errno.ENOENT:
            raise
        raise InputError(f"{text}: no such file. Check the path.") from None
    except InputError as problem:
        raise InputError(f"{problem}; pass a GeoJSON file") from None
    if not isinstance(document, dict):
        raise InputError(f"{text} is not a GeoJSON object; pass a Polygon, MultiPolygon, Feature or FeatureCollection")
    return document


def sample(
    release: flags.ReleaseFile,
    output: Annotated[Path, flag("The .csv or .npy file to write.", "FILE", "-o", "--output")],
    count: Annotated[int, flag("How many points.", "K", "-k", "--count")] = 1000,
    extent: Annotated[
        str | None, flag("Where to draw, a pair for each column or one for all; the box by default.", "'LO,HI;LO,HI'")
    ] = None,
    start: Annotated[
        str | None, flag("PUBLIC points near which to look first, for more than three columns.", "POINTS")
    ] = None,
    seed: flags.DrawingSeed = None,
    force: flags.Force = False,
    as_json: flags.Json = False,
) -> None:
    """Draw synthetic points from a release; it costs no privacy.

    The points follow the released density, that is the data smoothed by the kernel, plus noise. They say nothing finer
    than a bandwidth, and no more about anyone than the release does.
    """
    import numpy as np

    from sfumato.maps import sample as sample_from
    from sfumato.maps.sampling import quality
    from sfumato.maps.views import column_names
    from sfumato.release import load

    check_suffix(output, "points are", (".csv", ".npy"))
    refuse_inputs(output, release, start)
    made = load(release)
    pairs = None if extent is None else parse_pairs(extent, "--extent")
    near = None if start is None else open_points(start, made).whole()
    points = sample_from(made, count, extent=pairs, start=near, random_state=seed)
    good = quality(made, points)
    if output.suffix.lower() == ".npy":
        np.save(content := io.BytesIO(), points)
        with AtomicFile(output, overwrite=force) as file:
            file.write(content.getvalue())
    else:
        write_table(dict(zip(column_names(made), points.T, strict=True)), output, force)
    warn_of_seed(made.guarantee, "Do not publish these points.", "the release's noise")
    if not as_json:
        complain(f"guarantee: {made.guarantee}")
    document = {
        "points": str(output),
        "count": count,
        "quality": asdict(good),
        "guarantee": made.guarantee.to_document(),
    }
    tell(document, [("points", f"{output} ({count:,} synthetic points)"), ("quality", str(good))], as_json=as_json)


def open_points(path: str, made: Release) -> Any:
    """Open a file of points with the release's columns."""
    from sfumato.sources import open_source

    named = made.columns is not None and not path.lower().endswith(".npy") and ".npz" not in path
    return open_source(path, list(made.columns or ()) if named else None)
