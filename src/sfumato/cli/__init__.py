"""The command line, `sfumato`: one file a command, put together here.

A run loads the file of its own command alone, and commands import the heavy parts of the library when they run: to load
all of them takes as long as to answer a query.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Annotated, Any

import typer

from sfumato.cli.console import complain, in_flags, in_one_line
from sfumato.cli.plain import PlainCommand, PlainGroup
from sfumato.errors import NotPrivateWarning, OddDataWarning, SfumatoError, WaitWarning
from sfumato.paid import check_output, fill_streams
from sfumato.public.shown import shown
from sfumato.version import __version__

INTERRUPTED = 130
# Commands whose matrices are small: a second thread of BLAS would only wait, and wait busily.
SMALL = ("plan", "inspect", "verify", "ledger")


class Commands(PlainGroup):
    """Expected errors become one line on standard error and an exit code; nothing else is swallowed.

    So do warnings of odd data, without the exit code.
    """

    _running: tuple[Any, list[str]] = None, []

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Read what stands before the command."""
        with _usage_shown():
            return super().make_context(*arguments, **more)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command, and keep in mind which one runs."""
        found = super().resolve_command(ctx, args)
        self._running = found[1], list(found[2])
        return found

    def _flags(self, ctx: Any) -> set[str] | None:
        """Return the flags of the command that runs, which may be one of a group; None before there is one."""
        command, words = self._running
        while words and hasattr(command, "get_command"):
            command, words = command.get_command(ctx, words[0]), words[1:]
        return None if command is None else {name for one in command.params for name in one.opts}

    def _in_flags(self, ctx: Any, message: object) -> str:
        return in_flags(str(message), self._flags(ctx), self._running[1])

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotPrivateWarning)  # commands say so themselves
                others = warnings.showwarning

                def show(message: Any, category: type[Warning], *place: Any, **line: Any) -> None:
                    # A plain UserWarning says where something was written instead.
                    if issubclass(category, OddDataWarning | WaitWarning) or category is UserWarning:
                        complain(f"warning: {self._in_flags(ctx, message)}")
                    else:
                        others(message, category, *place, **line)

                warnings.showwarning = show
                with _usage_shown():
                    return super().invoke(ctx)
        except (SfumatoError, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise BrokenPipeError(errno.EPIPE, str(error)) from error  # ended quietly, as for every filter
            told = in_one_line(error)
            complain(f"error: {self._in_flags(ctx, told)}")
            raise typer.Exit(told.exit_code) from error
        except MemoryError as error:
            complain(f"error: there is not enough memory for this{f' ({error})' if str(error) else ''}")
            raise typer.Exit(SfumatoError.exit_code) from error
        except KeyboardInterrupt as interrupt:
            complain(str(interrupt) or "interrupted; no file was left half-written")
            raise typer.Exit(INTERRUPTED) from interrupt


@contextmanager
def _usage_shown() -> Iterator[None]:
    """Clean what Typer finds wrong with a command: it quotes its words, which a pattern may have made of files' names.

    Its errors are Click's or its own, by version, and all have a message.
    """
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message"):
            error.message = shown(error.message or "")  # type: ignore[attr-defined]
        raise


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sfumato {__version__}")
        raise typer.Exit


def sfumato(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Release what a crowd looks like, without any one person's outline.

    [bold]release[/] turns a file of points into a private density, one small file that anyone may query for ever;
    [bold]query[/] asks it. The ledger keeps count of the privacy that each data set has spent.
    """


# Commands in the order of the help: module, function, and the name of the examples below its help. Groups: module.
COMMANDS: dict[str, tuple[str, ...]] = {
    "start": ("start", "start", "EXAMPLES"),
    "plan": ("plan", "plan", "EXAMPLES"),
    "bandwidth": ("bandwidth", "bandwidth", "EXAMPLES"),
    "check": ("check", "check", "EXAMPLES"),
    "release": ("release", "release", "EXAMPLES"),
    "sum": ("parts", "sum_rows", "EXAMPLES"),
    "merge": ("parts", "merge", "MERGE_EXAMPLES"),
    "query": ("query", "query", "EXAMPLES"),
    "distance": ("distance", "distance", "EXAMPLES"),
    "anomaly": ("distance", "anomaly", "ANOMALY_EXAMPLES"),
    "map": ("map", "map_release", "EXAMPLES"),
    "people": ("people", "people", "EXAMPLES"),
    "sample": ("people", "sample", "SAMPLE_EXAMPLES"),
    "classify": ("classify",),
    "decode": ("select", "decode", "DECODE_EXAMPLES"),
    "select": ("select", "select", "EXAMPLES"),
    "inspect": ("inspect", "inspect", "EXAMPLES"),
    "verify": ("inspect", "verify", "VERIFY_EXAMPLES"),
    "ledger": ("ledger",),
    "local": ("local",),
    "shuffled": ("shuffled",),
    "serve": ("serve",),
    "audit": ("audit", "audit", "EXAMPLES"),
    "demo": ("demo", "demo", "EXAMPLES"),
}


def only(name: str | None) -> typer.Typer:
    """Return the command line with one command alone, or with all where none has that name."""
    made = typer.Typer(
        cls=Commands,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="New here? [bold]sfumato start FILE[/] leads through a first release of your own file; "
        "[bold]sfumato demo --output demo[/] makes up some data and shows every step on it.\n\n"
        "Exit codes: 0 done, 2 wrong input, 3 refused by the ledger, 4 damaged release, 5 the disk refused, "
        "6 stopped after a paid count far below what was expected, 7 workers elsewhere failed, "
        "8 a server did not answer, 130 interrupted.",
    )
    made.callback()(sfumato)
    for command in (name,) if name in COMMANDS else COMMANDS:
        place, *function = COMMANDS[command]
        module = import_module(f"sfumato.cli.{place}")
        if function:
            made.command(command, cls=PlainCommand, epilog=getattr(module, function[1]))(getattr(module, function[0]))
        else:
            for member in module.app.registered_commands:
                member.cls = PlainCommand
            made.add_typer(module.app, name=command, cls=PlainGroup)
    return made


def __getattr__(name: str) -> typer.Typer:
    """Put all commands together when they are asked for."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()["app"] = made = only(None)
    return made


def main() -> None:
    """Run the command line; the console script's entry."""
    fill_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a letter shows its code
    if os.environ.get("COLUMNS") == "0":
        del os.environ["COLUMNS"]  # not known: Rich would take it for a width, and print nothing
    name = sys.argv[1] if len(sys.argv) > 1 else None
    if name in SMALL:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded
    try:
        check_output()
        only(name)(prog_name="sfumato")
    except OSError as error:  # help and version are printed before there is a command
        told = in_one_line(error, "standard output")
        with suppress(OSError):  # standard error may be full too
            complain(f"error: {told}")
        sys.exit(told.exit_code)
