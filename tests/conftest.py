"""Salted rounds: with ``SFUMATO_TEST_SALT`` set, every seed of the tests stands for another one.

A test of noise that holds only for its seed proves nothing. The salt goes into what turns a seed into numbers (secret
bits, a device's coins, public streams, and the generators that the tests themselves make), so that each round of ``make
test-salted`` sees other data, other features and other noise. What must stay bit for bit (golden values, the corpus,
examples in the documentation) carries the mark ``exact``: such tests run unsalted, and are left out of salted rounds.
So do those which say that an audit catches a broken twin: its strength is a fact of its own seeds.

The first round writes to the file ``SFUMATO_SALTED_TESTS`` which tests drew a salted number; rounds that find that file
run no others. A number that is drawn while a file is collected or a fixture is set up counts for all tests of the file,
and of the files that import from it. Tests that draw numbers and say nothing about chance (what holds for all numbers,
hostile files, full disks, kills, memory, pictures, the conventions of scikit-learn) carry the mark `once`: of several
rounds the first has them.

Every run ends with the processor time of each suite, and of the dearest files; the latter begin first, so that no
process is left alone with one of them at the end.
"""

from __future__ import annotations

import hashlib
import inspect
import operator
import os
import re
import resource
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

# A first example may compile, and a machine may be busy: no property is about the clock.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

SALT = os.environ.get("SFUMATO_TEST_SALT", "")
HERE = str(Path(__file__).parent)
EXACT_FOLDERS = (f"{HERE}/corpus/", f"{HERE}/cli/")
LISTED = os.environ.get("SFUMATO_SALTED_TESTS", "")
IMPORTED = re.compile(r"^from (tests[.\w]*) import", re.MULTILINE)
_salted = {"now": True}  # module level included: the data of a test are made when it is collected
_at = {"place": ""}  # the test, or the file, that runs now
_drew: set[str] = set()

# Files of few tests that take long, the longest first; the summary of a run names them.
LONG = (
    "tests/engines/test_spark_cluster.py",
    "tests/engines/test_spark.py",
    "tests/clients/",
    "tests/services/",
    "tests/test_extremes.py",
    "tests/handbook/",
    "tests/audit/",
    "tests/test_packaging.py",
)
SUITES = {
    "Spark": ("tests/engines/test_spark", "tests/engines/test_shipping"),
    "JavaScript": ("tests/clients/",),
    "services": ("tests/services/",),
    "documentation": ("tests/handbook/", "tests/test_docs.py"),
    "examples": ("src/",),
    "Python": ("",),
}
_spent: Counter[str] = Counter()  # seconds, by file
_clock = {"read": 0.0}


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


@pytest.fixture
def two_blas_threads() -> Iterator[None]:
    """BLAS as where cores are free; set on a thread that ends, because only the one that set a limit may change it."""
    with ThreadPoolExecutor(1) as pool:
        limit = pool.submit(threadpool_limits, limits=2, user_api="blas").result()
    yield
    with ThreadPoolExecutor(1) as pool:
        pool.submit(limit.restore_original_limits).result()


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


def _seconds() -> float:
    """Processor time of this process and of those that it has seen end."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Any:
    report, now = (yield), _seconds()
    report.processor = now - _clock["read"]
    _clock["read"] = now
    return report


def pytest_runtest_logreport(report: Any) -> None:
    """Add it up, in the process that hears of all tests."""
    _spent[report.nodeid.partition("::")[0]] += getattr(report, "processor", 0.0)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    suites: Counter[str] = Counter()
    for file, seconds in _spent.items():
        suites[next(name for name, places in SUITES.items() if file.startswith(places))] += seconds
    for title, found in (("suites", suites), ("dearest files", _spent)):
        told = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in found.most_common(12))
        terminalreporter.write_line(f"processor time, {title}: {told}")


def pytest_collection_finish(session: pytest.Session) -> None:
    _clock["read"] = _seconds()


def _place(item: pytest.Item) -> int:
    return next((place for place, name in enumerate(LONG) if item.nodeid.startswith(name)), len(LONG))


@cache
def _files(path: Path) -> set[str]:
    """Return a file of tests and those of the tests that it imports from, as they are listed."""
    found = {path, *(Path(HERE).parent.joinpath(*name.split(".")) for name in IMPORTED.findall(path.read_text()))}
    return {file.relative_to(Path(HERE).parent).with_suffix(".py").as_posix() for file in found}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not SALT:
        items.sort(key=_place)
        return
    listed = set(Path(LISTED).read_text().splitlines()) if LISTED and Path(LISTED).exists() else None
    kept, left = [], []
    for item in items:
        once = item.get_closest_marker("once") is not None
        here = listed is None or (not once and (item.nodeid in listed or _files(item.path) & listed))
        (kept if here and not _is_exact(item) else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def pytest_sessionfinish() -> None:
    if SALT and LISTED and _drew - {""}:
        with open(LISTED, "a") as file:  # several processes of one round add to it
            file.writelines(f"{place}\n" for place in sorted(_drew - {""}))
