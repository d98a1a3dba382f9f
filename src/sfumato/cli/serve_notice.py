"""`sfumato serve notice`: what is asked, in people's words, signed for the page on which they take part."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from sfumato.cli import flags
from sfumato.cli.console import tell
from sfumato.cli.flags import argument, flag
from sfumato.cli.outputs import refuse_inputs

EXAMPLE = "[bold]Example[/]: sfumato serve notice asked.json p.signed.json --key organiser.key -o notice.json"


def notice(
    asked: Annotated[Path, argument("What is asked, in people's words: docs/collect.md.", "ASKED")],
    signed: Annotated[Path, argument("The signed protocol.", "SIGNED")],
    output: Annotated[Path, flag("The signed notice.", "FILE", "-o", "--output")],
    key: Annotated[Path, flag("The organiser's private key.", "FILE")],
    force: flags.Force = False,
) -> None:
    """Sign what is asked in people's words, for the page on which they take part."""
    from sfumato.public.canonical_json import parse
    from sfumato.services.notice import LARGEST, SignedNotice
    from sfumato.services.signing import SignedProtocol, SigningKey
    from sfumato.storage import read_at_most

    refuse_inputs(output, asked, signed, key)
    content = parse(read_at_most(asked, LARGEST), "the notice", LARGEST)
    made = SignedNotice.sign(content, SignedProtocol.load(signed), SigningKey.load(key))
    made.save(output, overwrite=force)
    tell({}, [("signed", str(output)), ("organiser", made.key)])
