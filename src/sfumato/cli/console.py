"""How every command speaks: results on standard output, everything else on standard error, one line for an error.

All text passes `shown` here, for some of it comes from files that others wrote.
"""

from __future__ import annotations

import ast
import errno
import io
import json
import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.deferred import require
from sfumato.errors import InputError, SfumatoError, StorageError
from sfumato.public.shown import shown
from sfumato.storage import AtomicFile, storage_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from sfumato.privacy.guarantee import Guarantee

# The library's errors name its arguments; on the command line the same things are flags.
_FLAGS = (
    "at",
    "bandwidth",
    "bounds",
    "categories",
    "center",
    "classes",
    "columns",
    "decimal",
    "delta",
    "density",
    "engine",
    "epsilon",
    "eta",
    "extent",
    "feature_seed",
    "kernel",
    "label",
    "landmarks",
    "ledger",
    "max_delta",
    "max_epsilon",
    "method",
    "metric",
    "n_hint",
    "neighbours",
    "options",
    "outside",
    "p",
    "priors",
    "radius",
    "rule",
    "separator",
    "start",
    "target_density",
)
_OTHERWISE = {"categories": "category", "options": "option", "p": "power"}
# Text in quotes is somebody's: a column, a file. An apostrophe within a word opens none.
_QUOTED = r"""(?<!\w)(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?!\w)"""
# An argument stands alone, or with a value as the library writes it; part of a path or of a name, as in the partition
# year/start=2024/, is somebody's too.
_ARGUMENT = rf"""(?<![\w/\\.'"-])(?:
    (?P<force>overwrite=True(?:\ \(--force\ on\ the\ command\ line\))?)
  | (?P<switch>look|unchecked|permanent)=True\b
  | columns=(?P<listed>\['[^']*'(?:,\ '[^']*')*\])
  | (?P<name>{"|".join(_FLAGS)})=(?:(?=$|\s|[,;:.)](?!\w))|(?P<value>(?=['"\[{{(])))
  | (?P<number>n_hint|delta)=(?=[0-9])(?!\S*/)
)"""
_ELSEWHERE = r"(?P<elsewhere>[ ]on[ ]the[ ]command[ ]line,[ ][^;]*?[ ]in[ ]Python(?=\)))"


def in_flags(message: str, flags: Collection[str] | None = None, typed: Iterable[str] = ()) -> str:
    """Rewrite the library's argument names as the flags of the command line, and nothing that somebody else wrote.

    Parameters
    ----------
    message : str
        What the library says.
    flags : collection of str, optional
        Those of the command that runs; of others that the message comes to name it then says that they are not here.
    typed : iterable of str
        Words of the command, which come back in messages as they are.

    Examples
    --------
    >>> in_flags("Pass columns= with numeric columns only; pass delta=0, or overwrite=True")
    'Pass --columns with numeric columns only; pass --delta 0, or --force'
    >>> in_flags("Pass separator=';' or save it with ','.", {"--columns"})
    "Pass --separator ';' or save it with ','. (This command has no --separator.)"
    >>> in_flags("name its length, as in columns=['embedding[384]']")
    "name its length, as in --columns 'embedding[384]'"
    >>> in_flags("year/start=2024/trips.csv: no such file")
    'year/start=2024/trips.csv: no such file'
    """
    named: dict[str, None] = {}

    def rewritten(found: re.Match[str]) -> str:
        if found["elsewhere"] or found["force"]:
            return "--force" if found["force"] else ""
        argument = found["name"] or found["number"] or found["switch"] or ("columns" if found["listed"] else None)
        if argument is None:
            return found[0]
        name = f"--{_OTHERWISE.get(argument, argument).replace('_', '-')}"
        named[name] = None
        value = _typed_columns(found["listed"]) if found["listed"] else ""
        return f"{name} {value}" if value or found["number"] or found["value"] is not None else name

    theirs = [re.escape(word) for word in sorted(typed, key=len, reverse=True) if "=" in word]
    text = re.sub("|".join([*theirs, _QUOTED, _ELSEWHERE, _ARGUMENT]), rewritten, message, flags=re.VERBOSE)
    missing = [name for name in named if flags is not None and name not in flags]
    return f"{text} (This command has no {' and no '.join(missing)}.)" if missing else text


def _typed_columns(listed: str) -> str:
    """Write a list of columns as it is typed in a shell; what only looks like one stays as it is."""
    try:
        return shlex.quote(",".join(ast.literal_eval(listed)))
    except (SyntaxError, ValueError):
        return listed


@cache
def out() -> Console:
    """Return standard output for tables and wrapped text; Rich is loaded here, for single lines need none of it."""
    from rich.console import Console

    return Console(highlight=False, emoji=False)


@cache
def err() -> Console:
    """Return the same for standard error."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, emoji=False)


def _echo(text: str, aside: bool = False) -> None:
    """Print on standard output, or standard error, as it is: Typer would take one of ASCII for a mistake.

    It would write UTF-8 there, in which bytes of ordinary letters are control characters to such a terminal.
    """
    typer.echo(text, file=sys.stderr if aside else sys.stdout, err=aside)


def complain(message: str) -> None:
    """Print one line on standard error."""
    _echo(shown(message), aside=True)


def warn(message: str) -> None:
    """Print a loud line on standard error."""
    from rich.text import Text

    err().print(Text(shown(message), style="bold red"), soft_wrap=True)


def say(text: str) -> None:
    """Print paragraphs, wrapped at words."""
    width = shutil.get_terminal_size().columns
    for line in text.split("\n"):
        _echo(textwrap.fill(shown(line), width, break_long_words=False, break_on_hyphens=False))


def facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Print labelled lines; long ones are left to the terminal, so that paths stay whole."""
    for label, text in pairs:
        head = f"{shown(label):<11} "
        # A dumb terminal would print the escapes.
        _echo((head if os.environ.get("TERM") == "dumb" else typer.style(head, bold=True)) + shown(text))


def print_json(document: Any) -> None:
    """Print a document on standard output; NaN and infinity, which JSON does not have, must not occur in it."""
    # JSON is read as UTF-8, and what another encoding writes for a letter that it has not is no JSON.
    other = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    text = json.dumps(document, indent=2, ensure_ascii=other, allow_nan=False)
    # Within JSON's strings an unsafe character may be written as its escape, and outside of them there is none.
    _echo("".join(one if one == "\n" or shown(one) == one else json.dumps(one)[1:-1] for one in text))


@contextmanager
def done(pairs: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Print what a run did; where standard output takes nothing more, the error says that it is done all the same."""
    try:
        with storage_errors("write", "standard output"):
            yield
    except StorageError as error:
        told = ", ".join(f"{label} {text}" for label, text in pairs)
        failure = StorageError(f"{error}; but the work itself is done, and stays: {told}")
        failure.errno = error.errno
        raise failure from error


def tell(
    document: Mapping[str, Any],
    pairs: Sequence[tuple[str, str]],
    statement: str = "",
    *,
    as_json: bool = False,
    quiet: bool = False,
    made: bool = True,
) -> None:
    """Say what a run found or made: one document, or labelled lines and a statement in plain language.

    What a run `made` is on disk by then, and the lines name it.
    """
    with done(pairs) if made else storage_errors("write", "standard output"):
        if as_json:
            print_json(document)
        elif not quiet:
            facts(pairs)
            if statement:
                say(f"\n{statement}")


def warn_of_seed(guarantee: Guarantee, consequence: str = "", source: str = "the noise") -> None:
    """Warn loudly if what was made or read promises nothing, because its noise came from a seed."""
    if not guarantee.private:
        warn(f"NOT PRIVATE: {source} came from a seed.{consequence and ' '}{consequence}")


def in_one_line(error: SfumatoError | OSError, unnamed: str = "standard output or a temporary file") -> SfumatoError:
    """Make an error that says what to do of one that only the system named.

    Parameters
    ----------
    error : SfumatoError or OSError
        What came out of a command.
    unnamed : str
        What the system refused if it does not say.
    """
    told = error if isinstance(error, SfumatoError) else _told(error, unnamed)
    if isinstance(error, OSError) and error.errno == errno.ENOENT and _folder_is_gone():
        gone = "the current folder was deleted: change to one that exists, and try again"
        named = isinstance(error, SfumatoError) or error.filename
        return StorageError(f"{told} ({gone})" if named else gone)
    return told


def _told(error: OSError, unnamed: str) -> StorageError:
    if "temporary directory" in (error.strerror or ""):
        return StorageError("no folder takes temporary files here: set TMPDIR to one that can be written to")
    try:
        with storage_errors("use", error.filename or unnamed):
            raise error
    except StorageError as told:
        # Without the quotes of a path, for it is none.
        return told if error.filename else StorageError(str(told).replace(repr(unnamed), unnamed))


def _folder_is_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


TABLE_SUFFIXES = (".csv", ".parquet")


def check_suffix(output: Path | None, what: str = "the table is", suffixes: Iterable[str] = TABLE_SUFFIXES) -> None:
    """Refuse a file of an ending that nothing is written to, before any work is done."""
    known = tuple(suffixes)
    if output is not None and output.suffix.lower() not in known:
        listed = " or ".join(known) if len(known) == 2 else ", ".join(known)
        raise InputError(f"{str(output)!r}: {what} written as {listed}; choose one of these endings")


def write_table(columns: dict[str, Any] | pa.Table, output: Path | None, force: bool) -> None:
    """Write columns to a file by its suffix, or as CSV to the screen, there with its text cleaned."""
    require("curator")
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if output is None and isinstance(columns, dict):
        columns = {shown(name): [_cell(value) for value in values] for name, values in columns.items()}
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


def _cell(value: Any) -> Any:
    return shown(value) if isinstance(value, str) else value


def size_text(size: int) -> str:
    """Show a number of bytes for people.

    Examples
    --------
    >>> size_text(512), size_text(20_480)
    ('512 bytes', '20.5 kB')
    """
    if size < 1000:
        return f"{size} bytes"
    power = 1 if size < 10**6 else 2 if size < 10**9 else 3
    return f"{size / 1000**power:.3g} {('kB', 'MB', 'GB')[power - 1]}"
