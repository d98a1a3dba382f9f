"""Storage that fails under a running server: nothing is acknowledged that is not kept, and it goes on afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.outages import database_away, full_disk
from tests.services.postgres_for_tests import Postgres


def test_a_full_disk(tmp_path: Path) -> None:
    assert full_disk(tmp_path, 300_000) > 0


def test_a_database_that_goes_and_comes_back(tmp_path: Path, database: Postgres | None) -> None:
    if database is None:
        pytest.skip("PostgreSQL is not installed")
    assert database_away(tmp_path, database, outages=1) > 5
