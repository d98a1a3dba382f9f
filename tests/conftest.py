"""Salted rounds: with ``SFUMATO_TEST_SALT`` set, every seed of the tests stands for another one.

A test of noise that holds only for its seed proves nothing. The salt goes into what turns a seed into numbers (secret
bits, a device's coins, public streams, and the generators that the tests themselves make), so that each round of ``make
test-salted`` sees other data, other features and other noise. What must stay bit for bit (golden values, the corpus,
examples in the documentation) carries the mark ``exact``: such tests run unsalted, and are left out of salted rounds.

The first round writes to the file ``SFUMATO_SALTED_TESTS`` which tests drew a salted number; rounds that find that file
run no others. A number that is drawn while a file is collected or a fixture is set up counts for all tests of the file.
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
LISTED = os.environ.get("SFUMATO_SALTED_TESTS", "")
_salted = {"now": True}  # module level included: the data of a test are made when it is collected
_at = {"place": ""}  # the test, or the file, that runs now
_drew: set[str] = set()


def _number(seed: Any) -> int:
    """Return the whole number of 63 bits that a seed stands for in this round."""
    _drew.add(_at["place"])
    value = operator.index(seed) if hasattr(seed, "__index__") else seed
    return int.from_bytes(hashlib.sha256(f"{SALT}:{value!r}".encode()).digest()[:8]) >> 1


def _whole(seed: Any) -> bool:
    return hasattr(seed, "__index__") and not isinstance(seed, bool) and 0 <= operator.index(seed) < 2**256


def _salt_everything() -> None:
    from sfumato.local.coins import Coins
    from sfumato.privacy.bits import SecureBits
    from sfumato.public.portable import PublicStream

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


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    _at["place"] = collector.nodeid.partition("::")[0]
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Any:
    _at["place"] = item.nodeid.partition("::")[0]
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    _at["place"] = item.nodeid
    return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not SALT:
        return
    listed = set(Path(LISTED).read_text().splitlines()) if LISTED and Path(LISTED).exists() else None
    kept, left = [], []
    for item in items:
        here = listed is None or item.nodeid in listed or item.nodeid.partition("::")[0] in listed
        (kept if here and not _is_exact(item) else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def pytest_sessionfinish() -> None:
    if SALT and LISTED and _drew - {""}:
        with open(LISTED, "a") as file:  # several processes of one round add to it
            file.writelines(f"{place}\n" for place in sorted(_drew - {""}))
