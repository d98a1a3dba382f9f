"""How every command speaks: results on standard output, everything else on standard error, one line for an error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

# The library's errors name its arguments; on the command line the same things are flags.
_FLAGS = (
    "at",
    "bandwidth",
    "bounds",
    "classes",
    "columns",
    "delta",
    "density",
    "epsilon",
    "eta",
    "extent",
    "feature_seed",
    "ledger",
    "method",
    "n_hint",
    "neighbours",
    "options",
    "radius",
    "target_density",
)
_ARGUMENT = re.compile(rf"\b({'|'.join(_FLAGS)})=(?=(.)?)")
_OVERWRITE = re.compile(r"overwrite=True( \(--force on the command line\))?")


def in_flags(message: str) -> str:
    """Rewrite the library's argument names as the flags of the command line.

    Examples
    --------
    >>> in_flags("Pass columns= with numeric columns only; pass delta=0, or overwrite=True")
    'Pass --columns with numeric columns only; pass --delta 0, or --force'
    """

    def flag(found: re.Match[str]) -> str:
        followed_by_value = found[2] is not None and found[2] not in " ,;."
        name = "option" if found[1] == "options" else found[1].replace("_", "-")
        return f"--{name}{' ' if followed_by_value else ''}"

    return _ARGUMENT.sub(flag, _OVERWRITE.sub("--force", message))


def complain(message: str) -> None:
    """Print one line on standard error."""
    err.print(Text(message), soft_wrap=True)


def warn(message: str) -> None:
    """Print a loud line on standard error."""
    err.print(Text(message, style="bold red"), soft_wrap=True)


def say(text: str) -> None:
    """Print a paragraph, wrapped at words."""
    out.print(Text(text))


def facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Print labelled lines; long ones are left to the terminal, so that paths stay whole."""
    for label, text in pairs:
        out.print(Text.assemble((f"{label:<12}", "bold"), text), soft_wrap=True)


def print_json(document: Any) -> None:
    """Print a document on standard output; NaN and infinity, which JSON does not have, must not occur in it."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


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
