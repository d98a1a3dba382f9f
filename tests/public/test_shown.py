"""Text from files on a terminal: every character shows itself or its escape."""

from __future__ import annotations

import sys
import unicodedata

from sfumato.public.shown import shown


def test_nothing_that_steers_a_terminal_is_left() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    left = shown(everything)
    assert all(unicodedata.category(one) not in ("Cc", "Cs", "Zl", "Zp") for one in left)
    assert {one for one in left if unicodedata.category(one) == "Cf"} == {"\u200c", "\u200d"}
    assert {one for one in left if not one.isprintable()} == {"\u200c", "\u200d"}
    left.encode()  # no half of a pair is left either


def test_what_shows_nothing_is_escaped() -> None:
    """Codes that are no characters (no XML holds them) or anybody's, spaces that look like others, blank letters."""
    for one in "\uffff\u0378\ue000\u00a0\u3000\u3164\u2800\u034f\ufe0f":
        assert shown(f"a{one}b") == f"a{one.encode('unicode_escape').decode()}b"


def test_letters_of_all_people_stay() -> None:
    for text in ("größe, m²", "широта", "緯度", "می\u200cخواهم", "👩\u200d🔬", "a b", "", "ﷺ", "कि"):
        assert shown(text) == text
    assert shown(7) == "7"
