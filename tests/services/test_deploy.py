"""Units, containers and the proxy's example: they start commands that exist, and keep secrets."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from sfumato.cli import app

FOLDER = Path(__file__).parents[2] / "deploy"
ROLES = ("collector", "shuffler", "analyzer", "issuer")
HARDENED = {
    "DynamicUser": "yes",
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "CapabilityBoundingSet": "",
    "LimitCORE": "0",
    "UMask": "0077",
    "StateDirectoryMode": "0700",
}


def _parsed(words: list[str]) -> None:
    """Parse the words after ``sfumato`` as the command line does, without running them."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    command.make_context(command.name, list(words))


@pytest.mark.parametrize("page", ["collect.md", "scale.md"])
def test_commands_of_the_documentation(page: str) -> None:
    """Every command of a page has arguments that exist."""
    text = (FOLDER.parent / "docs" / page).read_text().replace("\\\n", " ")
    found = re.findall(r"^(?:echo [^|]*\| )?sfumato (.*)$", "".join(text.split("```")[1::2]), re.MULTILINE)
    assert len(found) > 4
    for line in found:
        _parsed(shlex.split(line, comments=True))


@pytest.mark.parametrize("role", ROLES)
def test_units(role: str) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    unit.optionxform = str  # type: ignore[method-assign, assignment]
    unit.read(FOLDER / f"sfumato-{role}.service")
    service = dict(unit["Service"])
    assert {name: service[name] for name in HARDENED} == HARDENED
    program, serve, *words = shlex.split(service["ExecStart"])
    assert (Path(program).name, serve, words[0]) == ("sfumato", "serve", role)
    _parsed([serve, *words])


def _services() -> dict[str, list[str]]:
    """Commands of compose.yaml; read by pattern, since no YAML parser is among the dependencies."""
    text = (FOLDER / "compose.yaml").read_text()
    found = re.findall(r"^  (\w+):\n    <<: \*role\n    command: \[(.*)\]$", text, re.MULTILINE)
    return {name: [word.strip().strip('"') for word in words.split(",")] for name, words in found}


def test_containers() -> None:
    services = _services()
    assert sorted(services) == sorted(ROLES)
    for role, words in services.items():
        assert words[0] == role
        _parsed(["serve", *words])
    text = (FOLDER / "compose.yaml").read_text()
    assert "read_only: true" in text and "cap_drop: [ALL]" in text and "internal: true" in text
    assert re.findall(r"ports: (.*)", text) == ['["443:443"]']
    lines = (FOLDER / "Dockerfile").read_text().splitlines()
    assert 'ENTRYPOINT ["sfumato", "serve"]' in lines and "USER 10001" in lines
    assert any("'/src[server,plot]'" in line for line in lines)  # without `plot` there is no map


def test_the_proxy_writes_no_address_and_believes_none() -> None:
    text = (FOLDER / "nginx.conf").read_text()
    assert "access_log off;" in text and "X-Forwarded-For $remote_addr;" in text
    assert text.count("{") == text.count("}")


def test_structure_if_there_is_a_parser() -> None:
    yaml: Any = pytest.importorskip("yaml", reason="no YAML parser is installed")
    document = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    assert set(document["services"]) == {*ROLES, "proxy"}
    assert all("ports" not in document["services"][role] for role in ROLES)
