"""`sfumato query`: ask a release, for a few points or for a file of them."""

from __future__ import annotations

import contextlib
import csv
import io
import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sfumato.cli import flags
from sfumato.cli.console import check_suffix, complain, print_json, tell, warn_of_seed
from sfumato.cli.flags import argument, flag
from sfumato.cli.outputs import refuse_inputs
from sfumato.cli.typed import parse_columns, parse_numbers
from sfumato.deferred import require
from sfumato.errors import InputError
from sfumato.locks import lock_file
from sfumato.public.shown import shown
from sfumato.storage import AtomicFile, storage_errors, sweep

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.kernels.product import Overlap
    from sfumato.release import Release
    from sfumato.sources import Source

    Columns = list[NDArray[Any]]

EXAMPLES = (
    "[bold]Examples[/]:\n\n"
    "sfumato query trips.sfm --at 4.90,52.37 --at 4.95,52.40\n\n"
    "sfumato query trips.sfm places.csv -o answers.csv\n\n"
    "cat places.csv | sfumato query trips.sfm - > answers.csv"
)
STANDARD_INPUT = "-"
Marks = dict[str, str | None]  # separator and decimal mark of text
BATCH_ROWS = 16_384


class Queries(NamedTuple):
    """What is asked: names of the columns if they have any, those that are categories, and rows in batches."""

    names: tuple[str, ...] | None
    categories: Mapping[int, Overlap]
    batches: Iterable[NDArray[Any]]


class Read(StrEnum):
    """How answers are read off a release, as a flag's values."""

    PLAIN = "plain"
    SHRUNK = "shrunk"


def query(
    release: flags.ReleaseFile,
    points: Annotated[str | None, argument("File of queries, or - for CSV on standard input.", "POINTS")] = None,
    at: Annotated[list[str] | None, flag("One query, one value per column. Repeatable.", "X,Y,...", "--at")] = None,
    columns: flags.Columns = None,
    separator: flags.Separator = None,
    decimal: flags.Decimal = None,
    output: Annotated[
        Path | None, flag("Write .csv, .parquet or .npy instead of CSV on the screen.", "FILE", "-o", "--output")
    ] = None,
    std: Annotated[bool, flag("With or without the standard error of each answer.", None, "--std/--no-std")] = True,
    read: Annotated[Read, flag("shrunk: less squared error where noise is large, and biased.")] = Read.PLAIN,
    force: flags.Force = False,
    as_json: flags.Json = False,
) -> None:
    """Ask a release for the mean similarity between its records and each query, with an error bar.

    Answers are not clipped: near zero, noise may push one below zero. Queries cost no privacy, however many.
    With --read shrunk, answers that noise could explain move toward what the release shows of its own values.
    Output columns: those of the queries, then value and std; with landmarks also bias_bound, a limit of the bias.
    """
    from sfumato.release import load

    refuse_inputs(output, release, points)
    made = load(release)
    _check_queries(points, at)
    check_suffix(output, "answers are", _WRITERS)
    if as_json and output is not None:
        raise InputError("--json prints on the screen: leave out --output, or leave out --json")
    marks = {"separator": separator, "decimal": decimal}
    with _open_queries(points, at, columns, made, marks) as queries:
        answers = _answers(made, queries, std, read.value)
        names = _output_names(made, queries, std)
        if as_json:
            print_json(_document(made, names, answers) | {"read": read.value})
            return
        warn_of_seed(made.guarantee)
        complain(f"guarantee: {made.guarantee}")
        if read is Read.SHRUNK:
            complain(_shrunk_text(made))
        if output is None:
            _write_csv(_Screen(), list(map(shown, names)), answers)
        else:
            with AtomicFile(output, overwrite=force) as file:
                _WRITERS[output.suffix.lower()](_Sink(file), names, answers)
            tell({}, [("answers", str(output))])


def _shrunk_text(release: Release) -> str:
    """Say what was done to the answers, and for which queries."""
    if release.spread is None:
        return "note: this release does not show the spread of its values, so the answers are the plain ones"
    return f"note: shrunk answers are biased, and their std holds the bias on average; spread of {release.spread.words}"


def _check_queries(points: str | None, at: list[str] | None) -> None:
    if points is None and not at:
        raise InputError("nothing to ask: pass a file of queries, - for CSV on standard input, or --at X,Y")
    if points is not None and at:
        raise InputError("queries come from a file or from --at, not from both: pass one of them")


def _columns_text(release: Release) -> str:
    return str(release.dimension) if release.columns is None else f"{release.dimension} ({', '.join(release.columns)})"


@contextlib.contextmanager
def _open_queries(
    points: str | None, at: list[str] | None, columns: str | None, release: Release, marks: Marks
) -> Iterator[Queries]:
    if points is None:
        yield _typed([_one_query(text, release) for text in at or ()], release)
    elif points != STANDARD_INPUT:
        yield _open_named(points, columns, release, marks)
    else:
        # The file is opened twice, for its head and for its rows, which a pipe does not allow.
        sweep(tempfile.gettempdir())  # of what kills left: its name is one that is swept
        with tempfile.NamedTemporaryFile(prefix=".sfumato-", suffix=".csv") as spool:
            with contextlib.suppress(OSError):  # where no file is locked, none is swept
                lock_file(spool.fileno(), spool.name, "it may be swept away")
            shutil.copyfileobj(sys.stdin.buffer, spool)
            spool.flush()
            try:
                yield _open_named(spool.name, columns, release, marks)
            except InputError as error:
                raise InputError(str(error).replace(spool.name, "standard input")) from error


def _categories(release: Release) -> dict[Any, Any]:
    """Return the release's categories by the positions of their columns."""
    from sfumato.kernels import Product

    kernel = release.kernel
    return dict(zip(kernel.places, kernel.categories, strict=True)) if isinstance(kernel, Product) else {}


def _one_query(text: str, release: Release) -> list[Any]:
    values: list[Any] = next(csv.reader([text])) if _categories(release) else parse_numbers(text, "--at")
    if len(values) != release.dimension:
        raise InputError(f"--at {text} has {len(values)} values and the release has columns: {_columns_text(release)}")
    return values


def _typed(rows: list[list[Any]], release: Release) -> Queries:
    """Take queries as they were typed; numbers alone need nothing that opens files."""
    import numpy as np

    if not (categories := _categories(release)):
        return Queries(None, {}, [np.array(rows)])
    from sfumato.sources import open_source

    return Queries(None, categories, open_source(rows, categories=categories).batches(BATCH_ROWS))


def _open_named(points: str, columns: str | None, release: Release, marks: Marks) -> Queries:
    source = _source(points, columns, release, marks)
    if source.dimension != release.dimension:
        raise InputError(
            f"queries have {source.dimension} columns and the release has {_columns_text(release)}; "
            "pass --columns to select those"
        )
    return Queries(source.column_names, source.categories, source.batches(BATCH_ROWS))


def _source(points: str, columns: str | None, release: Release, marks: Marks) -> Source:
    """Open a file of queries; by default the columns that are named as the release's, if there are such."""
    from sfumato.sources import as_declared, open_source

    chosen, categories = parse_columns(columns, points), _categories(release)
    if chosen is None and release.columns is not None:
        with contextlib.suppress(InputError):
            named = {release.columns[place]: category for place, category in categories.items()}
            return open_source(points, as_declared(release.columns), categories=named, **marks)
    places = {(place if chosen is None else chosen[place]): category for place, category in categories.items()}
    source = open_source(points, chosen, categories=places, **marks)
    if source.column_names not in (None, release.columns):
        names = ", ".join(source.column_names or ())
        complain(f"note: the columns {names} stand for those of the release, {_columns_text(release)}, in this order")
    return source


def _answers(release: Release, queries: Queries, std: bool, read: str) -> Iterator[Columns]:
    """Columns of query, value and standard error, a batch at a time; categories by their values."""
    import numpy as np

    asked, categories = 0, queries.categories
    known = " and of the categories' public values" if categories else ""
    for batch in queries.batches:
        odd = np.flatnonzero(~np.isfinite(batch).all(axis=1))
        if odd.size:
            raise InputError(
                f"query number {asked + int(odd[0]) + 1} is not made of finite numbers{known}; correct it or leave "
                "it out"
            )
        asked += len(batch)
        columns: Columns = list(batch.astype(np.float64).T)
        for place, category in categories.items():
            columns[place] = np.array([category.value(int(code)) for code in batch[:, place]], dtype=object)
        points = np.column_stack(columns) if categories else batch
        value, error = release.query(points, return_std=True, read=read)
        bounds = [release.bias_bound(points)] if release.findings() else []
        yield [*columns, value, *([error, *bounds] if std else [])]


def _output_names(release: Release, queries: Queries, std: bool) -> list[str]:
    columns = queries.names or release.columns or tuple(f"x{i}" for i in range(release.dimension))
    bars = ("std", "bias_bound") if release.findings() else ("std",)
    names = [*columns, "value", *(bars if std else ())]
    if len(set(names)) < len(names):
        raise InputError("a query column is called 'value', 'std' or 'bias_bound', as the answers are; rename it")
    return names


def _document(release: Release, names: list[str], answers: Iterator[Columns]) -> dict[str, Any]:
    listed = ([column.tolist() for column in batch] for batch in answers)
    rows = [dict(zip(names, map(_finite, row), strict=True)) for batch in listed for row in zip(*batch, strict=True)]
    return {"guarantee": release.guarantee.to_document(), "answers": rows}


def _finite(value: float | str) -> float | str | None:
    return value if isinstance(value, str) or math.isfinite(value) else None


class _Sink(io.RawIOBase):
    """An `AtomicFile` as the file object that Arrow writes to."""

    def __init__(self, file: AtomicFile) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._file.write(data)
        return memoryview(data).nbytes


class _Screen(io.RawIOBase):
    """Standard output as a file object that stays open."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with storage_errors("write", "standard output"):
            typer.echo(bytes(data), nl=False)
        return memoryview(data).nbytes


def _write_csv(sink: io.RawIOBase, names: list[str], answers: Iterator[Columns]) -> None:
    """Write texts in quotes and numbers without; by Python's own module, which who asks a question always has."""
    with io.TextIOWrapper(io.BufferedWriter(sink), encoding="utf-8", newline="") as text:
        writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        writer.writerow(names)
        for columns in answers:
            writer.writerows(zip(*(column.tolist() for column in columns), strict=True))


def _write_parquet(sink: io.RawIOBase, names: list[str], answers: Iterator[Columns]) -> None:
    require("curator")
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet

    first = next(answers, [np.empty(0)] * len(names))
    schema = pa.schema(
        [(name, pa.string() if part.dtype == object else pa.float64()) for name, part in zip(names, first, strict=True)]
    )
    with pyarrow.parquet.ParquetWriter(pa.PythonFile(sink, "w"), schema) as writer:
        for columns in chain([first], answers):
            writer.write_batch(pa.record_batch([_arrow(column) for column in columns], schema=schema))


def _arrow(column: NDArray[Any]) -> Any:
    """Column of answers for Arrow, which imports pandas to be sure that an array is none of its own."""
    import pyarrow as pa

    if column.dtype == object:
        return pa.array(column.tolist(), pa.string())
    return pa.Array.from_buffers(pa.float64(), len(column), [None, pa.py_buffer(column.astype("float64").tobytes())])


def _write_npy(sink: io.RawIOBase, names: list[str], answers: Iterator[Columns]) -> None:
    """Write an array whose columns are in the order of `names`; its length comes first, so answers wait in memory."""
    import numpy as np

    batches = list(answers)
    if any(column.dtype == object for batch in batches[:1] for column in batch):
        raise InputError("queries with categories are text: write .csv or .parquet")
    np.save(sink, np.concatenate([np.empty((0, len(names))), *map(np.column_stack, batches)]))


_WRITERS: dict[str, Callable[[io.RawIOBase, list[str], Iterator[Columns]], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".npy": _write_npy,
}
