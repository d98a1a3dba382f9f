"""`python -m sfumato.local PROTOCOL < POINT`: one report, on a device that has nothing but Python.

The point comes from standard input or a file (--point), because a command line is seen by every user of the machine.
"""

from __future__ import annotations

import argparse
import re
import sys

from sfumato.errors import SfumatoError, StorageError
from sfumato.local.client import MAX_DELTA, MAX_EPSILON, read_point
from sfumato.local.protocol import Protocol
from sfumato.paid import check_output, fill_streams, rescued_report
from sfumato.public.shown import shown
from sfumato.storage import storage_errors

# As the library names them, and not as a part of somebody's path.
_ARGUMENT = re.compile(r"""(?<![\w/\\.'"-])(max_epsilon|max_delta|ledger|unchecked|permanent)=(True)?(?![\w/]|\.\w)""")


def main(arguments: list[str] | None = None) -> int:
    """Print one report in hexadecimal."""
    fill_streams()
    parser = argparse.ArgumentParser(prog="python -m sfumato.local", description=__doc__)
    parser.add_argument("protocol", help="the organiser's file")
    parser.add_argument("--point", default="-", help="file with your point; standard input by default")
    parser.add_argument("--ledger", help="the device's account: what it has spent")
    parser.add_argument("--budget", help="the account's epsilon over all reports; --max-epsilon by default")
    parser.add_argument("--permanent", action="store_true", help="repeat the report of an unchanged point")
    parser.add_argument("--max-epsilon", default=MAX_EPSILON, help="the most that one report may cost")
    parser.add_argument("--max-delta", type=float, default=MAX_DELTA, help="how often the promise may fail")
    parser.add_argument("--unchecked", action="store_true", help="agree to a promise on the organiser's word")
    options = parser.parse_args(arguments)
    try:
        check_output()
        client = Protocol.load(options.protocol).client(
            options.ledger,
            options.budget,
            options.permanent,
            max_epsilon=options.max_epsilon,
            max_delta=options.max_delta,
            unchecked=options.unchecked,
        )
        _print(client.report(read_point(options.point)), paid=options.ledger is not None)
    except SfumatoError as problem:
        # A document's own words may be in it, and the library's names of what are flags here.
        told = _ARGUMENT.sub(lambda found: f"--{found[1].replace('_', '-')}", str(problem))
        print(f"error: {shown(told)}", file=sys.stderr)
        return problem.exit_code
    return 0


def _print(report: bytes, paid: bool) -> None:
    """Print a report; one that was paid for and cannot be printed is kept elsewhere."""
    try:
        with storage_errors("write", "standard output"):
            print(report.hex(), flush=True)
    except StorageError as error:
        raise StorageError(f"{error}{rescued_report(report) if paid else ''}") from error


if __name__ == "__main__":
    sys.exit(main())
