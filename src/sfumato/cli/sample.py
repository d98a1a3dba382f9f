"""`sfumato sample`: synthetic points from a release."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.arguments import JsonOption, ReleaseArgument, parse_numbers
from sfumato.cli.console import complain, facts, print_json, warn
from sfumato.errors import InputError
from sfumato.storage import AtomicFile

EXAMPLES = "[bold]Example[/]: sfumato sample trips.sfm -k 1000 -o points.csv"


def sample(
    release: ReleaseArgument,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The .csv or .npy file to write.")],
    count: Annotated[int, typer.Option("-k", "--count", metavar="K", help="How many points.")] = 1000,
    extent: Annotated[
        str | None,
        typer.Option(metavar="'LO,HI;LO,HI'", help="Where to draw, a pair for each column; the box by default."),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of the drawing, which is no secret.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Draw synthetic points from a release of one to three columns; it costs no privacy.

    The points follow the released density, that is the data smoothed by the kernel, plus noise. They say nothing finer
    than a bandwidth, and no more about anyone than the release does.
    """
    import numpy as np

    from sfumato.maps import sample as sample_from
    from sfumato.maps.views import column_names
    from sfumato.release import load

    if output.suffix.lower() not in (".csv", ".npy"):
        raise InputError(f"{str(output)!r}: points are written as .csv or .npy; choose one of these endings")
    made = load(release)
    pairs = None if extent is None else [parse_numbers(part, "--extent") for part in extent.split(";")]
    points = sample_from(made, count, extent=pairs, random_state=seed)
    content = io.BytesIO()
    if output.suffix.lower() == ".npy":
        np.save(content, points)
    else:
        import pyarrow as pa
        import pyarrow.csv

        pyarrow.csv.write_csv(pa.table(dict(zip(column_names(made), points.T, strict=True))), content)
    with AtomicFile(output, overwrite=force) as file:
        file.write(content.getvalue())
    if not made.guarantee.private:
        warn("NOT PRIVATE: the release's noise came from a seed. Do not publish these points.")
    if as_json:
        print_json({"points": str(output), "count": count, "guarantee": made.guarantee.to_document()})
        return
    complain(f"guarantee: {made.guarantee}")
    facts([("points", f"{output} ({count:,} synthetic points)")])
