"""`sfumato people`: how many people are in a region, smoothed by the kernel, with an interval."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.arguments import JsonOption, ReleaseArgument, parse_numbers
from sfumato.cli.console import complain, facts, print_json, warn
from sfumato.errors import InputError
from sfumato.public.canonical_json import parse

EXAMPLES = (
    "[bold]Examples[/]:\n\n"
    "sfumato people trips.sfm --region '4.88,4.92;52.36,52.38'\n\n"
    "sfumato people may.sfm --minus april.sfm --region centre.geojson"
)


def people(
    release: ReleaseArgument,
    region: Annotated[
        str,
        typer.Option(
            metavar="'LO,HI;LO,HI' or FILE",
            help="A pair for each column, or a GeoJSON file of polygons in the release's two columns.",
        ),
    ],
    minus: Annotated[
        Path | None, typer.Option(metavar="RELEASE", help="Estimate the difference from this release.")
    ] = None,
    level: Annotated[float, typer.Option(metavar="P", help="Probability of the interval.")] = 0.95,
    as_json: JsonOption = False,
) -> None:
    """Estimate the number of records in a region, with an interval; it costs no privacy.

    Each record counts with the share of its kernel that lies in the region: as one well inside, as zero well outside,
    and in part within a bandwidth or so of the edge.
    """
    from sfumato.maps import people as people_in
    from sfumato.release import load

    place = _region(region)
    releases = [load(path) for path in (release, minus) if path is not None]
    estimates = [people_in(made, place, level=level) for made in releases]
    estimate = estimates[0] if minus is None else estimates[0] - estimates[1]
    if any(not made.guarantee.private for made in releases):
        warn("NOT PRIVATE: the noise came from a seed.")
    if as_json:
        numbers = {name: getattr(estimate, name) for name in ("value", "std", "lower", "upper", "level")}
        print_json({"people": numbers, "guarantees": [made.guarantee.to_document() for made in releases]})
        return
    for made in releases:
        complain(f"guarantee: {made.guarantee}")
    facts([("people" if minus is None else "difference", str(estimate))])


def _region(text: str) -> Any:
    if not text.lower().endswith((".geojson", ".json")):
        return [parse_numbers(part, "--region") for part in text.split(";")]
    try:
        document = parse(Path(text).read_bytes(), text)
    except FileNotFoundError:
        raise InputError(f"{text}: no such file. Check the path.") from None
    except InputError as problem:
        raise InputError(f"{problem}; pass a GeoJSON file") from None
    if not isinstance(document, dict):
        raise InputError(f"{text} is not a GeoJSON object; pass a Polygon, MultiPolygon, Feature or FeatureCollection")
    return document
