"""`sfumato select`: rows of a public pool that resemble the private records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.arguments import ColumnsOption, JsonOption, parse_columns
from sfumato.cli.console import complain, err, facts, print_json, warn
from sfumato.cli.tables import ClassOption, SourceArgument, check_suffix, load_releases, write_table
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.engines import Progress
    from sfumato.learn import Selection

EXAMPLES = (
    "[bold]Examples[/]:\n\n"
    "sfumato select news.sfm pool.parquet --share 0.01 --columns embedding -o chosen.csv\n\n"
    "sfumato select news.sfm pool.parquet -k 5000 --columns embedding --rows -o chosen.parquet"
)


def select(
    release: SourceArgument,
    pool: Annotated[
        str,
        typer.Argument(metavar="POOL", help="File or folder of public points, with the release's columns."),
    ],
    count: Annotated[int | None, typer.Option("-k", "--count", metavar="K", help="How many rows.", min=1)] = None,
    share: Annotated[
        float | None, typer.Option(metavar="S", help="Instead of -k: which share of the pool, such as 0.01.")
    ] = None,
    columns: ColumnsOption = None,
    chosen: ClassOption = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw rows in proportion to their similarity, not the highest.")
    ] = False,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of the drawing, which is no secret.")] = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="Write the chosen rows of a .parquet pool, with all of their columns.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write .csv or .parquet instead of CSV on the screen."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Select the rows of a public pool that are most similar to the private records; it costs no privacy.

    The pool is read once, in blocks. Output: position (from 0) and score, highest first; with --rows the rows
    themselves, in the pool's order, and their score.
    """
    check_suffix(output)
    if (count is None) == (share is None):
        raise InputError("how many rows? pass -k K or --share S, one of them")
    if share is not None and not 0 < share < 1:
        raise InputError(f"--share must lie between 0 and 1, got {share:g}")
    if rows and (output is None or not pool.lower().endswith(".parquet")):
        raise InputError("--rows copies rows of a .parquet pool to a file: pass such a pool, and -o FILE")
    from sfumato.learn import select as select_from
    from sfumato.sources import open_source

    releases = load_releases(release, chosen)
    if len(releases) > 1:
        raise InputError(f"whose similarity? pass --class with one of {', '.join(releases)}")
    made = next(iter(releases.values()))
    source = open_source(pool, parse_columns(columns, pool))
    size: Any = share if count is None else count
    with _progress_bar(source.expected_rows, show=not as_json) as progress:
        selection = select_from(made, source, size, sample=sample, random_state=seed, progress=progress)
    if not made.guarantee.private:
        warn("NOT PRIVATE: the noise came from a seed.")
    answers = {"position": selection.positions.tolist(), "score": selection.scores.tolist()}
    if output is not None:
        write_table(_rows(pool, selection) if rows else answers, output, force)
    if as_json:
        document = {"rows": len(selection)} | ({"output": str(output)} if output is not None else answers)
        print_json({"guarantee": made.guarantee.to_document(), **document})
        return
    complain(f"guarantee: {made.guarantee}")
    if output is None:
        write_table(answers, None, force)
    else:
        facts([("selected", f"{output} ({len(selection):,} rows)")])


def _rows(pool: str, selection: Selection) -> Any:
    """Chosen rows of a parquet file with their scores, read in blocks."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet

    from sfumato.sources.base import readable

    order = np.argsort(selection.positions)
    positions, pieces, start = selection.positions[order], [], 0
    with readable(pool), pyarrow.parquet.ParquetFile(pool, pre_buffer=False) as file:
        schema = file.schema_arrow
        if "score" in schema.names:
            raise InputError("the pool has a column called 'score', as the answers have; leave --rows out or rename it")
        for batch in file.iter_batches():
            first, last = np.searchsorted(positions, [start, start + len(batch)])
            if last > first:
                pieces.append(batch.take(pa.array(positions[first:last] - start)))
            start += len(batch)
    return pa.Table.from_batches(pieces, schema).append_column("score", pa.array(selection.scores[order]))


@contextmanager
def _progress_bar(total: int | None, show: bool) -> Iterator[Progress | None]:
    if not show or not err.is_terminal:
        yield None
        return
    from rich.progress import Progress as Bar

    with Bar(console=err, transient=True) as bar:
        task = bar.add_task("rows", total=total)
        yield lambda rows: bar.advance(task, rows)
