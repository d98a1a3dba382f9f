"""Where a command may write: a place that keeps what is paid for, and nothing that is there already or read."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from sfumato.errors import InputError
from sfumato.privacy.datasets import files_under, identity_of
from sfumato.storage import STREAM


def refuse_unkept(output: Path) -> None:
    """Refuse to write what is paid for to a place that does not keep it: a pipe, a device, the screen."""
    if str(output) == "-" or STREAM.fullmatch(str(output)):
        raise InputError(
            f"-o {output} would print what is paid for, and what the command says after it: pass the path of a file"
        )
    try:
        mode = os.stat(output).st_mode
    except (OSError, ValueError):
        return  # there is nothing yet, or it is refused when it is opened
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{str(output)!r} is no file and keeps nothing of what is paid for: pass the path of a file")


def refuse_existing(output: Path, force: bool) -> None:
    """Refuse a name that is taken before anything else is written."""
    if not force and output.is_file():
        raise InputError(f"{str(output)!r} exists already; pass another path, or --force to replace it")


def refuse_inputs(output: str | Path | None, *inputs: str | Path | None) -> None:
    """Refuse to write over what is read, which --force does not ask for; "-" is standard input."""
    if output is None:
        return
    written = os.path.realpath(output)
    for given in inputs:
        if given is not None and (_is_standard_input(written) if str(given) == "-" else _covers(given, written)):
            raise InputError(
                f"{str(output)!r} is read by this command and stays as it is, with --force too; pass another path to -o"
            )


def _covers(given: str | Path, written: str) -> bool:
    """Tell whether a path is a file that is read, or lies in a folder that is."""
    read = identity_of(given)
    within = os.path.isdir(read) and os.path.exists(written) and written.startswith(os.path.join(read, ""))
    linked = os.path.isfile(written) and not files_under(written).isdisjoint(files_under(read))
    return written == read or within or linked


def _is_standard_input(written: str) -> bool:
    """Tell whether a path is the file that the shell opened as standard input, if it did and nobody closed it."""
    with suppress(OSError, ValueError):
        read = os.fstat(0)
        return stat.S_ISREG(read.st_mode) and os.path.samestat(read, os.stat(written))
    return False
