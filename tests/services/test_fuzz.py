"""A small share of `tests.services.fuzz`."""

from __future__ import annotations

import os
from pathlib import Path

from tests.services.fuzz import run


def test_hostile_requests(tmp_path: Path) -> None:
    seen = run(600, 3000, tmp_path, seed=int(os.environ.get("SFUMATO_TEST_SALT") or 1))
    assert seen["200"] > 50 and len(seen) > 5
