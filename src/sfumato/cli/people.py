"""`sfumato people` and `sample`: how many are in a region, with an interval; and synthetic points from a release."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated, Any

from sfumato.cli import flags
from sfumato.cli.console import check_suffix, complain, tell, warn_of_seed, write_table
from sfumato.cli.flags import flag, parse_numbers, refuse_inputs
from sfumato.errors import InputError
from sfumato.public.canonical_json import parse
from sfumato.storage import AtomicFile

EXAMPLES = (
    "[bold]Examples[/]:\n\n"
    "sfumato people trips.sfm --region '4.88,4.92;52.36,52.38'\n\n"
    "sfumato people may.sfm --minus april.sfm --region centre.geojson"
)
SAMPLE_EXAMPLES = "[bold]Example[/]: sfumato sample trips.sfm -k 1000 -o points.csv"


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
    level: Annotated[float, flag("Probability of the interval.", "P")] = 0.95,
    as_json: flags.Json = False,
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
    for made in releases:
        warn_of_seed(made.guarantee)
        if not as_json:
            complain(f"guarantee: {made.guarantee}")
    numbers = {name: getattr(estimate, name) for name in ("value", "std", "lower", "upper", "level")}
    document = {"people": numbers, "guarantees": [made.guarantee.to_document() for made in releases]}
    tell(document, [("people" if minus is None else "difference", str(estimate))], as_json=as_json)


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


def sample(
    release: flags.ReleaseFile,
    output: Annotated[Path, flag("The .csv or .npy file to write.", "FILE", "-o", "--output")],
    count: Annotated[int, flag("How many points.", "K", "-k", "--count")] = 1000,
    extent: Annotated[
        str | None, flag("Where to draw, a pair for each column; the box by default.", "'LO,HI;LO,HI'")
    ] = None,
    seed: flags.DrawingSeed = None,
    force: flags.Force = False,
    as_json: flags.Json = False,
) -> None:
    """Draw synthetic points from a release of one to three columns; it costs no privacy.

    The points follow the released density, that is the data smoothed by the kernel, plus noise. They say nothing finer
    than a bandwidth, and no more about anyone than the release does.
    """
    import numpy as np

    from sfumato.maps import sample as sample_from
    from sfumato.maps.views import column_names
    from sfumato.release import load

    check_suffix(output, "points are", (".csv", ".npy"))
    refuse_inputs(output, release)
    made = load(release)
    pairs = None if extent is None else [parse_numbers(part, "--extent") for part in extent.split(";")]
    points = sample_from(made, count, extent=pairs, random_state=seed)
    if output.suffix.lower() == ".npy":
        np.save(content := io.BytesIO(), points)
        with AtomicFile(output, overwrite=force) as file:
            file.write(content.getvalue())
    else:
        write_table(dict(zip(column_names(made), points.T, strict=True)), output, force)
    warn_of_seed(made.guarantee, "Do not publish these points.", "the release's noise")
    if not as_json:
        complain(f"guarantee: {made.guarantee}")
    document = {"points": str(output), "count": count, "guarantee": made.guarantee.to_document()}
    tell(document, [("points", f"{output} ({count:,} synthetic points)")], as_json=as_json)
