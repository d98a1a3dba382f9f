"""Which assertions hold by luck: how many deviations they are from their limits, from salt to salt.

A test that fails once in a hundred salts takes hundreds of rounds to be found; its numbers show it in four. As a plugin
(``-p tests.margins -o enable_assertion_pass_hook=true``) this writes down both sides of the comparisons of numbers that
passed (not those of whole arrays), to the folder ``SFUMATO_MARGINS``; as a command (``python -m tests.margins FOLDER``)
it lists those whose left side, in units of the right one, comes within so many of its deviations of 1. `make margins`
does both. What it lists is to be looked at, not failed: limits that no draw can exceed may be close, and four rounds
know a deviation to a third.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MOST = 20  # comparisons of one line in one test
# Deviations below which a comparison is listed.
FEW = 4.5
APPROX = re.compile(r"(?:np\.float64\()?([-+.\deE]+)\)? == ([-+.\deE]+) ± ([-+.\deE]+)")
NUMBERS = {"np": np, "inf": math.inf, "nan": math.nan, "__builtins__": {}}


def compared(explanation: str) -> Iterator[tuple[float, float]]:
    """Read the numbers of an assertion that passed, as pairs of which the first is the smaller one.

    Examples
    --------
    >>> list(compared("0.5 < 0.6 and np.float64(3.0) >= (2 * 1.0)"))
    [(0.5, 0.6), (2.0, 3.0)]
    >>> list(compared("1.1 == 1.0 ± 0.5")), list(compared("'a' in 'abc'"))
    ([(0.1..., 0.5)], [])
    """
    first = explanation.split("\n")[0].strip()
    try:
        for near in APPROX.finditer(first):
            value, expected, tolerance = map(float, near.groups())
            yield abs(value - expected), tolerance
        first = APPROX.sub("True", first)
        comparisons = [node for node in ast.walk(ast.parse(first, mode="eval")) if isinstance(node, ast.Compare)]
    except (SyntaxError, ValueError):
        return
    for node in comparisons:
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            if isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                try:
                    sides = [float(eval(ast.unparse(side), NUMBERS)) for side in (left, right)]
                except (NameError, TypeError, ValueError, SyntaxError, AttributeError):
                    continue
                smaller, larger = sides if isinstance(operator, ast.Lt | ast.LtE) else reversed(sides)
                if smaller <= larger:  # what is denied or the other half of an "or" need not hold
                    yield smaller, larger


class _Writer:
    """One file for each process and salt."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.salt = os.environ.get("SFUMATO_TEST_SALT", "")
        self.file = open(folder / f"{self.salt}-{os.getpid()}.jsonl", "w")  # noqa: SIM115
        self.seen: Counter[tuple[str, int]] = Counter()

    @pytest.hookimpl
    def pytest_assertion_pass(self, item: pytest.Item, lineno: int, expl: str) -> None:
        place = item.nodeid, lineno
        self.seen[place] += 1
        if self.seen[place] > MOST or len(expl) > 20_000:
            return
        for number, (smaller, larger) in enumerate(compared(expl)):
            if math.isfinite(smaller) and math.isfinite(larger) and larger > 0:
                key = [item.nodeid, lineno, self.seen[place], number]
                self.file.write(json.dumps([self.salt, key, smaller / larger]) + "\n")

    def pytest_sessionfinish(self) -> None:
        self.file.close()


def pytest_configure(config: pytest.Config) -> None:
    if folder := os.environ.get("SFUMATO_MARGINS"):
        config.pluginmanager.register(_Writer(Path(folder)))


def deviations(shares: list[float], pooled: float) -> float:
    """Tell how many deviations the shares of several salts are below 1.

    The deviation is the comparison's own, held towards that of its line in all tests of the same name. Shares that are
    mostly deviation are distances from a mean: their root mean square counts.

    Examples
    --------
    >>> round(deviations([0.8, 0.82, 0.78, 0.8], 0.02), 1), round(deviations([0.1, 0.3, 0.0, 0.2], 0.1), 1)
    (11.2, 7.2)
    """
    mean, free = float(np.mean(shares)), len(shares) - 1
    own = math.sqrt((free * float(np.var(shares, ddof=1)) + 2 * pooled**2) / (free + 2))
    found = (1 - mean) / max(own, 1e-12)
    if own > 0.45 * mean or mean < 0.35:
        found = max(found, math.sqrt(free / (free + 1.5)) / max(float(np.sqrt(np.mean(np.square(shares)))), 1e-12))
    return found


def listed(folder: Path) -> Iterator[tuple[float, str]]:
    """Yield the comparisons near their limits, with their deviations: the nearest of every line, nearest first."""
    shares: dict[tuple[Any, ...], dict[str, float]] = defaultdict(dict)
    for path in folder.glob("*.jsonl"):
        for salt, key, share in map(json.loads, path.read_text().splitlines()):
            shares[tuple(key)][salt] = share
    lines = defaultdict(list)
    for (test, line, *place), by_salt in shares.items():
        if len(by_salt) > 1:
            lines[test.split("[")[0], line, *place[1:]].append((test, list(by_salt.values())))
    nearest: dict[tuple[str, int], tuple[float, str]] = {}
    for (name, line, *_), found in lines.items():
        pooled = math.sqrt(np.mean([np.var(each, ddof=1) for _, each in found]))
        for test, each in found if pooled > 1e-4 else ():
            text = f"{np.mean(each):.3f} of the limit, {np.max(each):.3f} at most: {test}, line {line}"
            best = deviations(each, pooled), text
            nearest[name, line] = min(nearest.get((name, line), best), best)
    yield from sorted(each for each in nearest.values() if each[0] < FEW)


if __name__ == "__main__":
    for count, text in listed(Path(sys.argv[1])):
        print(f"{count:4.1f} deviations, {text}")
