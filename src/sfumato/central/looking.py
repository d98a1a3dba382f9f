"""The pre-flight: look at the first rows before anything is charged, tell the curator, and ask.

Only a curator who is there is told and asked: `look=True` in Python, a terminal or ``--look`` on the command line. The
answer is the curator's, and "no" leaves the ledger as it was. A look draws no noise and changes nothing that is
released afterwards. Whoever is not asked by it learns one thing, that a release was or was not made, which is the
curator's decision as it always is.

Without a terminal the answer is read from standard input if one arrives at once; otherwise it is no: nothing waits.
"""

from __future__ import annotations

import io
import select
import sys
from collections.abc import Callable
from typing import TextIO

from sfumato.central.survey import FIRST_ROWS, FOR_THE_CURATOR, Findings
from sfumato.errors import InputError
from sfumato.public.shown import shown
from sfumato.sources import Source

PATIENCE = 2.0  # seconds that an answer may take to arrive through a pipe

Ask = Callable[[Findings], bool]


def check_readable(source: Source) -> None:
    """Refuse to look at what can be read only once."""
    if not source.repeatable:
        raise InputError("look=True reads the first rows twice, and this source can be read only once: leave it out")


def go_on(findings: Findings, ask: Ask | None = None) -> None:
    """Ask the curator about what was found, if anything was; a no ends the run, unpaid."""
    if findings.warnings and not (ask or asked_in_words)(findings):
        raise InputError("stopped before anything was charged or released, as the answer was no")


def asked_in_words(findings: Findings) -> bool:
    """Print what was found on standard error, and read the answer."""
    looked = "first " if findings.rows >= FIRST_ROWS else ""
    print(FOR_THE_CURATOR, f"In the {looked}{findings.rows} rows:", sep="\n", file=sys.stderr)
    for text in findings.warnings:
        print(f"- {shown(text)}", file=sys.stderr)
    return answered_yes("Go on, and spend the budget? [y/N] ")


def answered_yes(question: str) -> bool:
    """Ask on standard error; what is not a yes is a no, and so is silence where there is no terminal.

    Examples
    --------
    >>> kept, sys.stdin = sys.stdin, io.StringIO("yes")
    >>> answered_yes("Go on? ")
    True
    >>> sys.stdin = kept
    """
    print(question, end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline() if sys.stdin is not None and _answers(sys.stdin) else ""
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip().lower() in ("y", "yes")


def _answers(stream: TextIO) -> bool:
    """Tell whether reading a line will not wait for ever."""
    try:
        return stream.isatty() or bool(select.select([stream.fileno()], [], [], PATIENCE)[0])
    except (io.UnsupportedOperation, OSError, ValueError):
        return isinstance(stream, io.TextIOBase) and not stream.closed  # in memory: nothing to wait for
