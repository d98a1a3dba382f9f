"""`sfumato verify`: whether a file is a whole release, and what it promises."""

from __future__ import annotations

from typing import Any

import typer

from sfumato.cli.arguments import JsonOption, ReleaseArgument
from sfumato.cli.console import facts, print_json, say, size_text, warn
from sfumato.errors import ReleaseFileError

EXAMPLES = "[bold]Example[/]: sfumato verify trips.sfm"


def verify(release: ReleaseArgument, as_json: JsonOption = False) -> None:
    """Check that a release file is whole and unaltered by accident, and print its guarantee; exit code 4 if it is not.

    The checksum finds accidents, not forgers: fetch releases from someone you trust.
    """
    from sfumato.release import load

    try:
        made = load(release)
    except ReleaseFileError as damage:
        if not as_json:
            raise
        print_json({"release": str(release), "intact": False, "problem": str(damage)})
        raise typer.Exit(damage.exit_code) from damage
    size = release.stat().st_size
    if as_json:
        document: dict[str, Any] = {"release": str(release), "intact": True, "bytes": size}
        print_json(document | {"guarantee": made.guarantee.to_document(), "statement": made.statement()})
        return
    if not made.guarantee.private:
        warn("NOT PRIVATE: the noise came from a seed. Do not publish this release.")
    facts([("intact", f"{release} ({size_text(size)})"), ("guarantee", str(made.guarantee))])
    say(f"\n{made.statement()}")
