"""A person's own point as text, from standard input or a file.

Never from the command line: what stands there is shown to every user of the machine, and kept in the shell's history.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sfumato.errors import InputError
from sfumato.storage import storage_errors

MOST_CHARACTERS = 1 << 24
_FORM = "pass one number for each column, with spaces between, on standard input or in a file"
_BETWEEN = re.compile(r"[\s,;]+")


def read_point(path: str | Path = "-") -> list[float]:
    """Return the numbers in a file, between spaces, commas or line ends; "-" is standard input.

    From a terminal one line is read, else everything.

    Raises
    ------
    InputError
        If there is no number, or something that is none. The text itself is not repeated.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "point.txt")
    ...     _ = path.write_text("0.25, -1e3 nan")
    ...     read_point(path)
    [0.25, -1000.0, nan]
    """
    try:
        if str(path) != "-":
            with storage_errors("read", path), open(path, encoding="utf-8") as file:
                text = file.read(MOST_CHARACTERS + 1)
        elif sys.stdin.isatty():
            print("Your point, one number for each column, in one line:", file=sys.stderr)
            text = sys.stdin.readline(MOST_CHARACTERS + 1)
        else:
            text = sys.stdin.read(MOST_CHARACTERS + 1)
        numbers = [float(part) for part in _BETWEEN.split(text) if part]
    except ValueError:
        raise InputError(f"the point holds something that is no number: {_FORM}") from None
    if not numbers or len(text) > MOST_CHARACTERS:
        raise InputError(f"there is no point, or one that is far too long: {_FORM}")
    return numbers
