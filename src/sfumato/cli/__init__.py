"""The command line, `sfumato`: one file a command, put together here.

Commands import the heavy parts of the library when they run, so that help appears at once.
"""

from __future__ import annotations

import errno
import io
import sys
import warnings
from copy import copy
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.models import CommandInfo

from sfumato.cli import (
    audit,
    bandwidth,
    check,
    classify,
    demo,
    distance,
    inspect,
    ledger,
    local,
    parts,
    people,
    plan,
    query,
    release,
    select,
    send,
    serve,
    shuffled,
    start,
)
from sfumato.cli import map as map_
from sfumato.cli.console import complain, in_flags, in_one_line
from sfumato.errors import NotPrivateWarning, OddDataWarning, SfumatoError, WaitWarning
from sfumato.version import __version__

INTERRUPTED = 130


class Commands(TyperGroup):
    """Expected errors become one line on standard error and an exit code; nothing else is swallowed.

    So do warnings of odd data, without the exit code.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotPrivateWarning)  # commands say so themselves
                others = warnings.showwarning

                def show(message: Any, category: type[Warning], *place: Any, **line: Any) -> None:
                    if issubclass(category, OddDataWarning | WaitWarning):
                        complain(f"warning: {in_flags(str(message))}")
                    else:
                        others(message, category, *place, **line)

                warnings.showwarning = show
                return super().invoke(ctx)
        except (SfumatoError, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise BrokenPipeError(errno.EPIPE, str(error)) from error  # ended quietly, as for every filter
            told = in_one_line(error)
            complain(f"error: {in_flags(str(told))}")
            raise typer.Exit(told.exit_code) from error
        except KeyboardInterrupt as interrupt:
            complain(str(interrupt) or "interrupted; no file was left half-written")
            raise typer.Exit(INTERRUPTED) from interrupt


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="New here? [bold]sfumato start FILE[/] leads through a first release of your own file; "
    "[bold]sfumato demo --output demo[/] makes up some data and shows every step on it.\n\n"
    "Exit codes: 0 done, 2 wrong input, 3 refused by the ledger, 4 damaged release, 5 the disk refused, "
    "6 stopped after a paid count far below what was expected, 7 workers elsewhere failed, 8 a server did not answer, "
    "130 interrupted.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sfumato {__version__}")
        raise typer.Exit


@app.callback()
def sfumato(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Release what a crowd looks like, without any one person's outline.

    [bold]release[/] turns a file of points into a private density, one small file that anyone may query for ever;
    [bold]query[/] asks it. The ledger keeps count of the privacy that each data set has spent.
    """


app.command(epilog=start.EXAMPLES)(start.start)
app.command(epilog=plan.EXAMPLES)(plan.plan)
app.command(epilog=bandwidth.EXAMPLES)(bandwidth.bandwidth)
app.command(epilog=check.EXAMPLES)(check.check)
app.command(epilog=release.EXAMPLES)(release.release)
app.command("sum", epilog=parts.EXAMPLES)(parts.sum_rows)
app.command(epilog=parts.MERGE_EXAMPLES)(parts.merge)
app.command(epilog=query.EXAMPLES)(query.query)
app.command(epilog=distance.EXAMPLES)(distance.distance)
app.command(epilog=distance.ANOMALY_EXAMPLES)(distance.anomaly)
app.command("map", epilog=map_.EXAMPLES)(map_.map_release)
app.command(epilog=people.EXAMPLES)(people.people)
app.command(epilog=people.SAMPLE_EXAMPLES)(people.sample)
app.add_typer(classify.app, name="classify")
app.command(epilog=select.DECODE_EXAMPLES)(select.decode)
app.command(epilog=select.EXAMPLES)(select.select)
app.command(epilog=inspect.EXAMPLES)(inspect.inspect)
app.command(epilog=inspect.VERIFY_EXAMPLES)(inspect.verify)
app.add_typer(ledger.app, name="ledger")
local.app.command("send", epilog=send.LOCAL_EXAMPLE)(send.send_report)
shuffled.app.command("send", epilog=send.SHUFFLED_EXAMPLE)(send.send_messages)
app.add_typer(local.app, name="local")
app.add_typer(shuffled.app, name="shuffled")
app.add_typer(serve.app, name="serve")
app.command(epilog=audit.EXAMPLES)(audit.audit)
app.command(epilog=demo.EXAMPLES)(demo.demo)


def only(name: str | None) -> typer.Typer:
    """Return the command line with one command alone, or with all where none has that name.

    To put all of them together takes as long as to answer a query.
    """
    commands = [each for each in app.registered_commands if _name(each) == name]
    groups = [each for each in app.registered_groups if each.name == name]
    if not commands and not groups:
        return app
    one = copy(app)
    one.registered_commands, one.registered_groups = commands, groups
    return one


def _name(command: CommandInfo) -> str | None:
    return command.name or getattr(command.callback, "__name__", None)


def main() -> None:
    """Run the command line; the console script's entry."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a letter shows its code
    only(sys.argv[1] if len(sys.argv) > 1 else None)(prog_name="sfumato")
