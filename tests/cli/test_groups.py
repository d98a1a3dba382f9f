"""Groups of options: what typer sees of them, and what a command gets."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

from sfumato.cli.flags import Outside
from sfumato.cli.groups import Choices, Kinds, PaidRun, Payment, Reading, Run, check_users, grouped
from sfumato.errors import InputError

from .conftest import Run as Invoke


def test_a_command_is_seen_with_the_options_of_its_groups_and_gets_them_whole() -> None:
    got: list[tuple[str, Choices, PaidRun]] = []

    @grouped
    def command(data: str, *, choices: Choices, run: PaidRun) -> None:
        got.append((data, choices, run))

    seen = inspect.signature(command).parameters
    assert set(seen) == {"data", *(each.name for group in (Choices, PaidRun) for each in fields(group))}
    assert seen["outside"].default is Outside.CLIP and seen["data"].default is inspect.Parameter.empty
    command(data="points.csv", delta=1e-6, quiet=True)
    assert got == [("points.csv", Choices(delta=1e-6), PaidRun(quiet=True))]


def test_groups_do_not_share_a_name() -> None:
    names = [each.name for group in (Reading, Kinds, Choices, Payment, PaidRun) for each in fields(group)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("command", [("release",), ("sum",), ("distance",), ("classify", "fit")])
def test_every_option_of_a_group_reaches_the_command_line(command: tuple[str, ...], run: Invoke) -> None:
    text = run(*command, "--help").stdout
    for group in (Reading, Run):
        for each in fields(group):
            assert f"--{each.name.removeprefix('as_').replace('_', '-')}" in text


def test_people_are_protected_with_a_column_and_a_limit() -> None:
    check_users(None, None)
    check_users("person", 1)
    with pytest.raises(InputError, match="--max-records-per-user is missing"):
        check_users("person", None)
    with pytest.raises(InputError, match="needs --user-column"):
        check_users(None, 1)


def test_a_public_seed_is_drawn_where_none_is_passed() -> None:
    assert Payment(feature_seed=0).features == 0
    assert Payment().features != Payment().features
