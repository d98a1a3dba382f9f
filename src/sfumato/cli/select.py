"""`sfumato select` and `decode`: rows of a public pool, and words, that the private records resemble."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from rich.text import Text

from sfumato.cli import flags
from sfumato.cli.console import check_suffix, complain, out, print_json, tell, warn_of_seed, write_table
from sfumato.cli.flags import argument, flag
from sfumato.cli.outputs import refuse_inputs
from sfumato.cli.paid import progress_bar
from sfumato.cli.typed import one_column, parse_columns
from sfumato.deferred import require
from sfumato.errors import InputError, ReleaseFileError
from sfumato.privacy.datasets import is_pattern
from sfumato.public.shown import shown
from sfumato.storage import storage_errors

if TYPE_CHECKING:
    from sfumato.learn import Selection, Word
    from sfumato.release import Release
    from sfumato.sources import Source

EXAMPLES = (
    "[bold]Examples[/]:\n\n"
    "sfumato select news.sfm pool.parquet --share 0.01 --columns embedding -o chosen.csv\n\n"
    "sfumato select news.sfm pool.parquet -k 5000 --columns embedding --rows -o chosen.parquet"
)
DECODE_EXAMPLES = (
    "[bold]Examples[/]:\n\n"
    "sfumato decode news.sfm words.parquet --columns embedding --word-column word\n\n"
    "sfumato decode news.sfm words.npy --words words.txt --class sports --top 20"
)
SourceArgument = Annotated[Path, argument("A release, or a classifier with one for each class.", "RELEASE")]
ClassOption = Annotated[str | None, flag("Of a classifier, the class whose release is meant.", "NAME", "--class")]


def select(
    release: SourceArgument,
    pool: Annotated[str, argument("File or folder of public points, with the release's columns.", "POOL")],
    count: Annotated[int | None, flag("How many rows.", "K", "-k", "--count", min=1)] = None,
    share: Annotated[float | None, flag("Instead of -k: which share of the pool, such as 0.01.", "S")] = None,
    columns: flags.Columns = None,
    chosen: ClassOption = None,
    sample: Annotated[
        bool, flag("Draw rows in proportion to their similarity, not the highest.", None, "--sample")
    ] = False,
    seed: flags.DrawingSeed = None,
    rows: Annotated[
        bool, flag("Write the chosen rows of a .parquet pool, with all of their columns.", None, "--rows")
    ] = False,
    output: flags.TableOutput = None,
    force: flags.Force = False,
    as_json: flags.Json = False,
) -> None:
    """Select the rows of a public pool that are most similar to the private records; it costs no privacy.

    The pool is read once, in blocks. Output: position (from 0) and score, highest first; with --rows the rows
    themselves, in the pool's order, and their score.
    """
    check_suffix(output)
    refuse_inputs(output, release, pool)
    _check_size(count, share)
    if rows and (output is None or not pool.lower().endswith(".parquet") or is_pattern(pool) or Path(pool).is_dir()):
        raise InputError("--rows copies rows of a .parquet pool to a file: pass one such file, and -o FILE")
    from sfumato.learn import select as select_from

    releases = load_releases(release, chosen)
    if len(releases) > 1:
        raise InputError(f"whose similarity? pass --class with one of {', '.join(releases)}")
    made = next(iter(releases.values()))
    source = opened(pool, columns, made.columns)
    size: Any = share if count is None else count
    with progress_bar(source, show=not as_json) as progress:
        selection = select_from(made, source, size, sample=sample, random_state=seed, progress=progress)
    warn_of_seed(made.guarantee)
    answers = {"position": selection.positions.tolist(), "score": selection.scores.tolist()}
    if output is not None:
        write_table(_rows(pool, selection) if rows else answers, output, force)
    if not as_json:
        complain(f"guarantee: {made.guarantee}")
        if output is None:
            return write_table(answers, None, force)
    document = {"guarantee": made.guarantee.to_document(), "rows": len(selection)}
    document |= {"output": str(output)} if output is not None else answers
    selected = [("selected", f"{output} ({len(selection):,} rows)")]
    tell(document, selected, as_json=as_json, made=output is not None)


def _check_size(count: int | None, share: float | None) -> None:
    if (count is None) == (share is None):
        raise InputError("how many rows? pass -k K or --share S, one of them")
    if share is not None and not 0 < share < 1:
        raise InputError(f"--share must lie between 0 and 1, got {share:g}")


def _rows(pool: str, selection: Selection) -> Any:
    """Chosen rows of a parquet file with their scores, read in blocks."""
    require("curator")
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


def decode(
    release: SourceArgument,
    vocabulary: Annotated[str, argument("File of the words' embeddings, one row a word.", "VOCABULARY")],
    words: Annotated[Path | None, flag("Text file of the words, one line each, in that order.", "FILE")] = None,
    word_column: Annotated[str | None, flag("Instead of --words: the vocabulary's column of words.", "NAME")] = None,
    columns: flags.Columns = None,
    chosen: ClassOption = None,
    top: Annotated[int, flag("How many words.", "N", min=1)] = 10,
    as_json: flags.Json = False,
) -> None:
    """Name the words of a public vocabulary that the private records resemble most; it costs no privacy.

    The words must be embedded as the records were. A word that noise alone may have brought here is marked.
    """
    from sfumato.learn import decode as decode_release
    from sfumato.sources import arguments_named

    if (words is None) == (word_column is None):
        raise InputError("the words are missing: pass --words FILE or --word-column NAME, one of them")
    releases = load_releases(release, chosen)
    with arguments_named(key="--word-column"):
        names = next(iter(releases.values())).columns
        source = opened(vocabulary, columns, names, key=one_column(word_column, vocabulary))
    texts = _lines(words) if words is not None else _column(vocabulary, str(word_column))
    found = {name: decode_release(each, source, texts, top) for name, each in releases.items()}
    guarantee = next(iter(releases.values())).guarantee
    if as_json:
        lists: Any = {name: [_entry(word) for word in best] for name, best in found.items()}
        print_json({"guarantee": guarantee.to_document(), "words": lists.get("", lists)})
        return
    warn_of_seed(guarantee)
    complain(f"guarantee: {guarantee}")
    for name, best in found.items():
        out().print(_table(name, best))


def _entry(word: Word) -> dict[str, Any]:
    """Return a word for JSON, which has no infinity for the error of a mean over nobody knows how many."""
    return {**asdict(word), "std": word.std if math.isfinite(word.std) else None}


def _table(name: str, best: list[Word]) -> Table:
    table = Table(title=Text(shown(name)) if name else None, title_justify="left", box=None)
    for heading in ("word", "value", "+-", ""):
        table.add_column(heading, justify="left" if heading in ("word", "") else "right")
    for word in best:
        mark = "may be noise" if word.noise else ""
        table.add_row(
            Text(shown(word.word)), f"{word.value:.4f}", f"{word.std:.4f}", mark, style="dim" if word.noise else None
        )
    return table


def _lines(path: Path) -> list[str]:
    if not path.exists():
        raise InputError(f"there is no file {str(path)!r}; check --words")
    with storage_errors("read", path):
        try:
            return path.read_text(encoding="utf-8").rstrip("\n").split("\n")
        except UnicodeDecodeError:
            raise InputError(f"{str(path)!r} is no UTF-8 text; --words takes a text file, one word a line") from None


def _column(vocabulary: str, name: str) -> list[str]:
    """Words of a table's own column."""
    require("curator")
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    from sfumato.sources.base import readable

    suffix = Path(vocabulary).suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise InputError(f"--word-column is for .csv and .parquet files, and {vocabulary!r} is neither: pass --words")
    with readable(vocabulary):
        if suffix == ".parquet":
            column = pyarrow.parquet.read_table(vocabulary, columns=[name])[name]
        else:
            options = pyarrow.csv.ConvertOptions(include_columns=[name], column_types={name: pa.string()})
            column = pyarrow.csv.read_csv(vocabulary, convert_options=options)[name]
    return [str(word) for word in column.to_pylist()]


def opened(points: str, columns: str | None, names: tuple[str, ...] | None, **more: Any) -> Source:
    """Open points; by default the columns that are named as the release's, if there are such, else all in order."""
    from sfumato.sources import as_declared, open_source

    chosen = parse_columns(columns, points)
    if chosen is None and names is not None:
        with suppress(InputError):
            return open_source(points, as_declared(names), **more)
    source = open_source(points, chosen, **more)
    if names is not None and source.column_names not in (None, names) and source.dimension == len(names):
        given = ", ".join(source.column_names or ())
        complain(f"note: the columns {given} stand for {', '.join(names)}, in this order")
    return source


def load_releases(path: Path, chosen: str | None) -> dict[str, Release]:
    """Read a release (under no name), or those of a classifier's classes: all of them or the chosen one."""
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
    if not releases:
        raise InputError(f"{str(path)!r} is a linear classifier, which has no densities: fit one with another --rule")
    if chosen is None:
        return releases
    if chosen not in releases:
        raise InputError(f"the classifier has no class {chosen!r}; its classes are {', '.join(releases)}")
    return {chosen: releases[chosen]}
