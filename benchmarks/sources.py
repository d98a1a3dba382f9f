"""What code a measurement rests on: fingerprints of the rooms of the library that were loaded, and of its kind.

A row carries them. Where one of these rooms has changed since, the row is stale: what it says was true of another
program. Comments, docstrings and empty lines do not count, so that explaining better makes nothing stale.
"""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import sfumato

LIBRARY = Path(sfumato.__file__).parent
BENCHMARKS = Path(__file__).parent
UNRECORDED = "measured before its code was recorded"


def loaded(kind: str = "") -> dict[str, str]:
    """Fingerprints of what this process has loaded of the library, and of a kind of measurement, if it is one."""
    rooms = {name.split(".")[1] for name in sys.modules if name.startswith("sfumato.")}
    parts = sorted(f"sfumato/{room}" for room in rooms)
    parts += [f"benchmarks/kinds/{kind.replace('-', '_')}"] if kind else []
    return {part: fingerprint(part) for part in parts if _files(part)}


def changes(recorded: Mapping[str, str] | None) -> list[str]:
    """Name what has changed since fingerprints were recorded; nothing for a fresh row.

    >>> changes(None)
    ['measured before its code was recorded']
    >>> changes({"sfumato/kernels": fingerprint("sfumato/kernels"), "sfumato/no-such-room": "0"})
    ['sfumato/no-such-room']
    """
    if recorded is None:
        return [UNRECORDED]
    return [part for part, digest in recorded.items() if fingerprint(part) != digest]


@cache
def fingerprint(part: str) -> str:
    """Digest of a room's or module's code, whatever its comments say."""
    digest = hashlib.sha256()
    for path in _files(part):
        digest.update(path.name.encode() + b"\n")
        digest.update("\n".join(code_lines(path.read_text(encoding="utf-8"))).encode())
    return digest.hexdigest()[:10]


def code_lines(text: str) -> Iterator[str]:
    """Lines of a module without docstrings, lines of comment and empty ones.

    >>> list(code_lines('x = 1\\n# why\\ndef f():\\n    "Say."\\n\\n    return x\\n'))
    ['x = 1', 'def f():', '    return x']
    """
    said: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            said |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    for number, line in enumerate(text.splitlines(), start=1):
        if number not in said and line.strip() and not line.lstrip().startswith("#"):
            yield line.rstrip()


@cache
def commit() -> str | None:
    """Short name of the commit that is checked out, with a plus where files differ from it; None outside of git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(BENCHMARKS), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", str(LIBRARY), str(BENCHMARKS / "kinds"))
        return git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _files(part: str) -> list[Path]:
    root, _, rest = part.partition("/")
    place = (LIBRARY if root == "sfumato" else BENCHMARKS) / rest
    module = place.with_suffix(".py")
    return [module] if module.is_file() else sorted(place.rglob("*.py"))
