"""What was paid for reaches a disk: beside another file of its name, or in another place, but never lost.

Devices use it too: the standard library is all that it needs.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sfumato.errors import InputError, StorageError
from sfumato.owner import private_opener
from sfumato.storage import AtomicFile, Bytes, checked_path

_LONGEST_NAME = 200  # bytes of a file's name that leave room for more: 255 are the most


def write_paid(path: str | Path, content: Bytes, overwrite: bool = False) -> Path:
    """Write what may have been paid for so that it cannot be lost; returns the file that holds it.

    Where another file has the name, the next free one is taken: ``patients-2.sfm`` beside ``patients.sfm``. Where the
    disk refuses, it is kept in the first place that takes it, and the error says where.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [write_paid(f"{folder}/people.sfm", b"paid").name for _ in range(3)]
    ['people.sfm', 'people-2.sfm', 'people-3.sfm']
    """
    target, number = Path(checked_path("the name of the file to write", path)), 1
    while True:
        try:
            with AtomicFile(target, overwrite=overwrite) as file:
                file.write(content)
            return target
        except StorageError as error:
            raise StorageError(f"{error}{rescued(content, Path(path), paid=False)}") from error
        except InputError:
            if overwrite or not target.is_file():
                raise
        number += 1
        target = Path(path).with_stem(f"{Path(path).stem}-{number}")


def rescued(content: Bytes, target: Path, *, paid: bool = True) -> str:
    """Write what is not to be lost to the first place that takes it, and say where; nothing if there is none.

    Parameters
    ----------
    content : bytes
        What the disk refused.
    target : Path
        Where it belongs: its folder is tried first, and the new file begins with its name.
    paid : bool
        Whether to say that it had been paid for; not of what nobody knows to have cost anything.
    """
    # Each is asked for only when it is its turn: a folder that was deleted cannot even be named.
    places: tuple[Callable[[], Path], ...] = (
        lambda: target.absolute().parent,
        Path.cwd,
        lambda: Path(tempfile.gettempdir()),
    )
    name = os.fsdecode(os.fsencode(target.name)[:_LONGEST_NAME])
    for place in places:
        with suppress(OSError):
            path = place() / f"{name}.rescued-{os.urandom(4).hex()}"
            _keep(content, path)
            had = "had been paid for and was" if paid else "was"
            return f"; it {had} kept in {str(path)!r}: move it to where it belongs"
    return ""


def _keep(content: Bytes, path: Path) -> None:
    """Write a new file, or leave none."""
    file = open(path, "xb", opener=private_opener)  # noqa: SIM115 - a file of that name is not ours to remove
    try:
        with file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise


def fill_streams() -> None:
    """Put the null device in the place of standard streams that are closed.

    Else the next file that is opened, perhaps a ledger, gets the number of standard error, and what a library complains
    of there is written into it; what is printed for a standard error that is not there goes to standard output; and who
    reads standard input finds none. What is meant to be kept is still refused, as `check_output` does: it can be read.
    """
    for number in range(3):
        with suppress(OSError):
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDONLY)  # which takes the least number that is free, this one
                os.set_inheritable(number, True)
    with suppress(OSError):
        sys.stdin = open(os.devnull) if sys.stdin is None else sys.stdin  # noqa: SIM115 - to the process's end
        sys.stderr = open(os.devnull, "w") if sys.stderr is None else sys.stderr  # noqa: SIM115


def check_output() -> None:
    """Raise `StorageError` if there is no standard output, before anything is paid for that would be lost with it."""
    if sys.stdout is None or getattr(sys.stdout, "closed", False):
        raise StorageError(
            "standard output is closed, and what belongs there would be lost: nothing was done or spent; leave it "
            "open, or send it to a file, or to /dev/null"
        )


def rescued_report(report: bytes) -> str:
    """Keep a report that was paid for and could not be printed, and say where: in a file, else in the message."""
    line = f"{report.hex()}\n".encode()
    return rescued(line, Path("report.hex")) or f"; it had been paid for and is, in hexadecimal, {report.hex()}"
