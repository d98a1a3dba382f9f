"""`sfumato decode`: what a release is about, in words."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from sfumato.cli.arguments import ColumnsOption, JsonOption, one_column, parse_columns
from sfumato.cli.console import complain, out, print_json, warn
from sfumato.cli.tables import ClassOption, SourceArgument, load_releases
from sfumato.errors import InputError
from sfumato.storage import storage_errors

if TYPE_CHECKING:
    from sfumato.learn import Word

EXAMPLES = (
    "[bold]Examples[/]:\n\n"
    "sfumato decode news.sfm words.parquet --columns embedding --word-column word\n\n"
    "sfumato decode news.sfm words.npy --words words.txt --class sports --top 20"
)


def decode(
    release: SourceArgument,
    vocabulary: Annotated[
        str,
        typer.Argument(metavar="VOCABULARY", help="File of the words' embeddings, one row a word.", show_default=False),
    ],
    words: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Text file of the words, one line each, in that order.")
    ] = None,
    word_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Instead of --words: the vocabulary's column of words.")
    ] = None,
    columns: ColumnsOption = None,
    chosen: ClassOption = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="How many words.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Name the words of a public vocabulary that the private records resemble most; it costs no privacy.

    The words must be embedded as the records were. A word that noise alone may have brought here is marked.
    """
    from sfumato.learn import decode as decode_release
    from sfumato.sources import open_source

    if (words is None) == (word_column is None):
        raise InputError("the words are missing: pass --words FILE or --word-column NAME, one of them")
    texts = _lines(words) if words is not None else _column(vocabulary, str(word_column))
    source = open_source(vocabulary, parse_columns(columns, vocabulary), key=one_column(word_column, vocabulary))
    releases = load_releases(release, chosen)
    found = {name: decode_release(each, source, texts, top) for name, each in releases.items()}
    guarantee = next(iter(releases.values())).guarantee
    if as_json:
        lists: Any = {name: [_entry(word) for word in best] for name, best in found.items()}
        print_json({"guarantee": guarantee.to_document(), "words": lists.get("", lists)})
        return
    if not guarantee.private:
        warn("NOT PRIVATE: the noise came from a seed.")
    complain(f"guarantee: {guarantee}")
    for name, best in found.items():
        out.print(_table(name, best))


def _entry(word: Word) -> dict[str, Any]:
    """Return a word for JSON, which has no infinity for the error of a mean over nobody knows how many."""
    return {**asdict(word), "std": word.std if math.isfinite(word.std) else None}


def _table(name: str, best: list[Word]) -> Table:
    table = Table(title=name or None, title_justify="left", box=None)
    for heading in ("word", "value", "+-", ""):
        table.add_column(heading, justify="left" if heading in ("word", "") else "right")
    for word in best:
        mark = "may be noise" if word.noise else ""
        table.add_row(word.word, f"{word.value:.4f}", f"{word.std:.4f}", mark, style="dim" if word.noise else None)
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
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    from sfumato.sources.base import readable

    suffix = Path(vocabulary).suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise InputError(f"--word-column is for .csv and .parquet files, and {vocabulary!r} is neither: pass --words")
    with readable(vocabulary):
        if suffix == ".parquet":
            if name not in pyarrow.parquet.read_schema(vocabulary).names:
                raise InputError(f"{vocabulary}: there is no column {name!r}; check --word-column")
            column = pyarrow.parquet.read_table(vocabulary, columns=[name])[name]
        else:
            options = pyarrow.csv.ConvertOptions(include_columns=[name], column_types={name: pa.string()})
            column = pyarrow.csv.read_csv(vocabulary, convert_options=options)[name]
    return [str(word) for word in column.to_pylist()]
