"""Public parameters at their ends: every method releases or refuses, and neither raises anything else nor crashes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sfumato.methods.registry import DISTANCES, METHODS

SCRIPT = Path(__file__).with_name("extremes.py")


def outcomes(kind: str) -> dict[str, str]:
    """What became of every case; run apart, because what is tested for has crashed processes."""
    done = subprocess.run([sys.executable, SCRIPT, kind], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"after {done.stdout.splitlines()[-1:]}: {done.stderr[-2000:]}"
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("kind", "methods"),
    [("central", [*METHODS, "auto"]), ("distances", [*DISTANCES, "auto"]), ("plans", ["kernels", "l1", "sqeuclidean"])],
)
def test_every_method_releases_or_refuses(kind: str, methods: list[str]) -> None:
    found = outcomes(kind)
    assert {case: became for case, became in found.items() if became not in ("released", "refused")} == {}
    for method in methods:
        both = {became for case, became in found.items() if case.split()[0] == method}
        assert both == {"released", "refused"}, f"{method}: {both}"


def test_clamps_hold_without_the_limits() -> None:
    found = outcomes("boxes")
    assert {case: became for case, became in found.items() if became != "released"} == {}
