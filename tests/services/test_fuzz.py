"""A small share of the hostile requests of `tests.services.attack`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.services.fuzz import fuzz, garbage
from tests.services.targets import TARGETS

SEED = int(os.environ.get("SFUMATO_TEST_SALT") or 1)


@pytest.mark.parametrize("role", TARGETS)
def test_hostile_requests(role: str, tmp_path: Path) -> None:
    seen, kept = fuzz(role, 200, tmp_path, SEED)
    assert kept > 0 and len(seen) > 4


def test_garbage(tmp_path: Path) -> None:
    garbage(3000, tmp_path, SEED)
