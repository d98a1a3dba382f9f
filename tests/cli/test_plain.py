"""Plain values of flags are read without Typer's validation, and all others by it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.cli.plain import read_plain


class Side(StrEnum):
    LEFT = "left"
    RIGHT = "right"


@pytest.mark.parametrize(
    ("kind", "typed", "read"),
    [
        (int, "-12", -12),
        (int, "1_000", None),
        (int, "1e3", None),
        (int, "9" * 5000, None),
        (int, "\u0663", None),
        (float, "0.05", 0.05),
        (float, "1e-6", 1e-6),
        (float, "nan", None),
        (float, "", None),
        (str, "12", "12"),
        (Side, "left", Side.LEFT),
        (Side, "LEFT", None),
        (Side, Side.RIGHT, Side.RIGHT),
        (Path, "no/such/file.sfm", Path("no/such/file.sfm")),
        (bool, "maybe", None),
    ],
)
def test_what_is_plainly_a_value_is_read(kind: type, typed: Any, read: Any) -> None:
    assert read_plain(kind, typed) == read
    assert type(read_plain(kind, typed)) in (kind, type(read))


@pytest.mark.parametrize(
    ("flag", "typed"),
    [
        ("--dimension", "2.5"),
        ("--dimension", "two"),
        ("--delta", "small"),
        ("--neighbours", "beside"),
        ("--max-records-per-user", "0"),
    ],
)
def test_what_is_not_is_refused_by_its_flag(flag: str, typed: str) -> None:
    facts = ["--epsilon", "1", "--n-hint", "1000", "--bandwidth", "1"]
    done = CliRunner().invoke(app, ["plan", *facts, "--dimension", "2", flag, typed])
    assert done.exit_code == 2
    assert flag in done.output


def test_odd_spellings_that_typer_knows_still_pass() -> None:
    facts = ["--epsilon", "1", "--n-hint", "1_000", "--bandwidth", "1", "--dimension", " 2"]
    done = CliRunner().invoke(app, ["plan", *facts, "--json"])
    assert done.exit_code == 0, done.output
    assert '"n_hint": 1000' in done.output
