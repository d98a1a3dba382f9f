"""How large the house is: `python -m benchmarks.house`.

Counts the files and lines of `src`, names that occur more than once, modules with a single importer, and what one job
crosses: the files of the library in which a traced `fit` (or `query`) runs a function, and the calls that lead from one
of those files to another. A second run is traced, so that imports and compilation are not counted. "auto" asks every
method for its prediction first; a named method is the plain path of a point.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import sfumato

ROOT = Path(sfumato.__file__).parent


def files() -> list[Path]:
    """Modules of the library."""
    return sorted(ROOT.rglob("*.py"))


def module_name(path: Path) -> str:
    """Dotted name of a module."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def importers() -> dict[str, set[str]]:
    """Modules that import each module of the library by name."""
    known = {module_name(path) for path in files()}
    found: dict[str, set[str]] = {name: set() for name in known}
    for path in files():
        for target in _imports(ast.parse(path.read_text(encoding="utf-8"))):
            if target in known:
                found[target].add(module_name(path))
    return found


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def crossings(job: Callable[[], Any]) -> tuple[set[str], set[tuple[str, str]]]:
    """Files of the library in which a job runs, and the calls from one of them to another, each counted once."""
    seen: set[str] = set()
    calls: set[tuple[str, str]] = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        place = frame.f_code.co_filename
        if event != "call" or not place.startswith(str(ROOT)):
            return
        seen.add(place)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(str(ROOT)):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != place:
            calls.add((f"{caller.f_code.co_filename}:{caller.f_lineno}", f"{place}:{frame.f_code.co_name}"))

    sys.setprofile(watch)
    try:
        job()
    finally:
        sys.setprofile(None)
    return seen, calls


def main() -> None:
    """Print the figures."""
    import numpy as np

    paths = files()
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
    names = Counter(path.name for path in paths if path.name != "__init__.py")
    single = sum(len(found) == 1 for found in importers().values())
    print(f"{len(paths)} files, {lines} lines in src")
    print(f"{sum(count > 1 for count in names.values())} file names occur more than once")
    print(f"{single} modules have exactly one importer")
    points = np.random.default_rng(0).normal(size=(1000, 10))
    for method in ("fourier", "auto"):
        model = sfumato.PrivateKDE(bandwidth=1.0, epsilon=1.0, n_hint=1000, method=method)
        for job in (partial(model.fit, points), partial(model.query, points)):
            job()
            seen, calls = crossings(job)
            name = job.func.__name__
            print(f"PrivateKDE({method}).{name}: {len(seen)} files, {len(calls)} calls from one file to another")


if __name__ == "__main__":
    main()
