"""Small result tables of the commands that learn from releases, and the releases that these commands read."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.errors import InputError, ReleaseFileError
from sfumato.storage import AtomicFile, storage_errors

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.release import Release

SUFFIXES = (".csv", ".parquet")
SourceArgument = Annotated[
    Path,
    typer.Argument(metavar="RELEASE", help="A release, or a classifier with one for each class.", show_default=False),
]
ClassOption = Annotated[
    str | None, typer.Option("--class", metavar="NAME", help="Of a classifier, the class whose release is meant.")
]


def load_releases(path: Path, chosen: str | None) -> dict[str, Release]:
    """Read a release (under no name), or those of a classifier's classes: all of them or the chosen one.

    Parameters
    ----------
    path : Path
        The file.
    chosen : str or None
        The wanted class.
    """
    from sfumato.release import format as container
    from sfumato.release import from_content

    header, arrays = container.decode(path)
    if "classifier" not in header:
        if chosen is not None:
            raise InputError(f"--class {chosen}: {str(path)!r} is one release and has no classes; leave --class out")
        try:
            return {"": from_content(header, arrays)}
        except ReleaseFileError as damage:
            raise ReleaseFileError(f"{str(path)!r}: {damage}") from damage
    from sfumato.learn import DensityClassifier

    releases = {str(name): release for name, release in DensityClassifier.load(path).releases_.items()}
    if chosen is None:
        return releases
    if chosen not in releases:
        raise InputError(f"the classifier has no class {chosen!r}; its classes are {', '.join(releases)}")
    return {chosen: releases[chosen]}


def check_suffix(output: Path | None) -> None:
    """Refuse a file that no table is written to, before any work is done."""
    if output is not None and output.suffix.lower() not in SUFFIXES:
        raise InputError(f"{str(output)!r}: the table is written as {' or '.join(SUFFIXES)}; choose one of these")


def write_table(columns: dict[str, Any] | pa.Table, output: Path | None, force: bool) -> None:
    """Write columns to a file by its suffix, or as CSV to the screen."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    table, content = pa.table(columns) if isinstance(columns, dict) else columns, io.BytesIO()
    if output is not None and output.suffix.lower() == ".parquet":
        pyarrow.parquet.write_table(table, content)
    else:
        pyarrow.csv.write_csv(table, content)
    if output is None:
        with storage_errors("write", "standard output"):
            typer.echo(content.getvalue(), nl=False)
        return
    with AtomicFile(output, overwrite=force) as file:
        file.write(content.getvalue())
