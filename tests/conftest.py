"""Salted rounds: with ``SFUMATO_TEST_SALT`` set, every seed of the tests stands for another one.

A test of noise that holds only for its seed proves nothing. The salt goes into what turns a seed into numbers (secret
bits, a device's coins, public streams, and the generators that the tests themselves make), so that each round of ``make
test-salted`` sees other data, other features and other noise. What must stay bit for bit (golden values, the corpus,
examples in the documentation) carries the mark ``exact``: such tests run unsalted.
"""

from __future__ import annotations

import hashlib
import inspect
import operator
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SALT = os.environ.get("SFUMATO_TEST_SALT", "")
HERE = str(Path(__file__).parent)
EXACT_FOLDERS = (f"{HERE}/corpus/", f"{HERE}/cli/")
_salted = {"now": True}  # module level included: the data of a test are made when it is collected


def _number(seed: Any) -> int:
    """Return the whole number of 63 bits that a seed stands for in this round."""
    value = operator.index(seed) if hasattr(seed, "__index__") else seed
    return int.from_bytes(hashlib.sha256(f"{SALT}:{value!r}".encode()).digest()[:8]) >> 1


def _whole(seed: Any) -> bool:
    return hasattr(seed, "__index__") and not isinstance(seed, bool) and 0 <= operator.index(seed) < 2**256


def _salt_everything() -> None:
    from sfumato.local.coins import Coins
    from sfumato.privacy.bits import SecureBits
    from sfumato.public.streams import PublicStream

    bits, coins, stream, generator = SecureBits.seeded, Coins.seeded, PublicStream.__init__, np.random.default_rng

    def salted_bits(seed: Any) -> Any:
        made = bits(seed)  # refuses what is no seed
        return bits(_number(seed)) if _salted["now"] else made

    def salted_coins(seed: Any) -> Any:
        return coins(_number(seed) if _salted["now"] else seed)

    def salted_stream(self: Any, seed: Any, label: str) -> None:
        stream(self, _number(seed) if _salted["now"] and _whole(seed) else seed, label)

    def salted_generator(seed: Any = None) -> Any:
        caller = inspect.currentframe().f_back.f_code.co_filename  # type: ignore[union-attr]
        ours = caller.startswith(HERE) and not caller.startswith(EXACT_FOLDERS)
        return generator(_number(seed) if _salted["now"] and ours and _whole(seed) else seed)

    SecureBits.seeded = salted_bits  # type: ignore[method-assign, assignment]
    Coins.seeded = staticmethod(salted_coins)  # type: ignore[method-assign, assignment]
    PublicStream.__init__ = salted_stream  # type: ignore[method-assign]
    np.random.default_rng = salted_generator  # type: ignore[assignment]


if SALT:
    _salt_everything()


def _is_exact(item: pytest.Item) -> bool:
    return item.get_closest_marker("exact") is not None or str(item.path).startswith(EXACT_FOLDERS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    _salted["now"] = not _is_exact(item)
    return (yield)
