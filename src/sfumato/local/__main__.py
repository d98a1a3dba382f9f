"""`python -m sfumato.local PROTOCOL < POINT`: one report, on a device that has nothing but Python.

The point comes from standard input or a file (--point), because a command line is seen by every user of the machine.
"""

from __future__ import annotations

import argparse
import re
import sys

from sfumato.errors import SfumatoError
from sfumato.local.client import MAX_DELTA, MAX_EPSILON, read_point
from sfumato.local.protocol import Protocol
from sfumato.public.shown import shown

_ARGUMENT = re.compile(r"\b(max_epsilon|max_delta|ledger|unchecked|permanent)=(True)?")


def main(arguments: list[str] | None = None) -> int:
    """Print one report in hexadecimal."""
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
        client = Protocol.load(options.protocol).client(
            options.ledger,
            options.budget,
            options.permanent,
            max_epsilon=options.max_epsilon,
            max_delta=options.max_delta,
            unchecked=options.unchecked,
        )
        print(client.report(read_point(options.point)).hex())
    except SfumatoError as problem:
        # A document's own words may be in it, and the library's names of what are flags here.
        told = _ARGUMENT.sub(lambda found: f"--{found[1].replace('_', '-')}", str(problem))
        print(f"error: {shown(told)}", file=sys.stderr)
        return problem.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
