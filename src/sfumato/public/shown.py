"""Text that comes from a file, made safe to show: on a terminal, in a picture, on a page.

Names of columns, methods, versions, classes and conditions are whatever the writer of a file put there. A terminal
obeys control characters, bidirectional controls reorder what is read, lone surrogates cannot be encoded at all, a page
of XML holds no codes that are no characters, and what shows nothing makes two names look like one.
"""

from __future__ import annotations

import re

# Characters that count as printable and show nothing.
INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_JOINERS = "\u200c\u200d"  # which Persian, Indic scripts and emoji need, and which move nothing


def shown(text: object) -> str:
    r"""Replace every character that does more than show itself by its escape.

    Examples
    --------
    >>> shown("lon\x1b[31m"), shown("\u202eatad"), shown("größe, m²")
    ('lon\\x1b[31m', '\\u202eatad', 'größe, m²')
    """
    return "".join(one if one in _JOINERS or _shows(one) else _escape(one) for one in str(text))


def _shows(one: str) -> bool:
    # Not printable to Python: controls and formats, halves of pairs, private and unassigned codes, all spaces but one.
    return one.isprintable() and not INVISIBLE.match(one)


def _escape(one: str) -> str:
    return one.encode("unicode_escape").decode()
