"""Text that comes from a file, made safe to show: on a terminal, in a picture, on a page.

Names of columns, methods, versions, classes and conditions are whatever the writer of a file put there. A terminal
obeys control characters, bidirectional controls reorder what is read, and lone surrogates cannot be encoded at all.
"""

from __future__ import annotations

import unicodedata

# Controls, surrogates, separators of lines and paragraphs, and invisible formatting (bidirectional controls too).
_UNSAFE = frozenset({"Cc", "Cs", "Cf", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"  # which Persian, Indic scripts and emoji need, and which move nothing


def shown(text: object) -> str:
    r"""Replace every character that does more than show itself by its escape.

    Examples
    --------
    >>> shown("lon\x1b[31m"), shown("\u202eatad"), shown("größe, m²")
    ('lon\\x1b[31m', '\\u202eatad', 'größe, m²')
    """
    return "".join(
        one.encode("unicode_escape").decode() if unicodedata.category(one) in _UNSAFE and one not in _JOINERS else one
        for one in str(text)
    )
