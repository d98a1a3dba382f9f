"""`sfumato local`: from a protocol to a release, as typed in a shell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import sfumato

from .conftest import Run, plain

PROTOCOL = ("--kernel", "l2-lsh", "--bandwidth", "1", "--dimension", "2", "--epsilon", "2", "--participants", "500")


@pytest.fixture
def protocol(run: Run, tmp_path: Path) -> Path:
    path = tmp_path / "p.json"
    assert run("local", "protocol", "-o", path, *PROTOCOL, "--bounds", "-3,3", "--seed", "1").exit_code == 0
    return path


def test_protocol_compares_mechanisms_and_promises(run: Run, tmp_path: Path) -> None:
    result = run("local", "protocol", "-o", tmp_path / "p.json", *PROTOCOL, "--expires", "2099-01-31")
    assert result.exit_code == 0
    text = plain(result.stdout)
    assert "constant" in text and "auto takes rows" in text
    assert "epsilon = 2 (pure), local" in text
    assert json.loads((tmp_path / "p.json").read_text())["expires"] == "2099-01-31T23:59:59Z"
    again = run("local", "protocol", "-o", tmp_path / "p.json", *PROTOCOL)
    assert again.exit_code == 2 and "--force" in again.stderr


def test_reports_are_collected(run: Run, protocol: Path, files: dict[str, Path], tmp_path: Path) -> None:
    binary, text, out = tmp_path / "reports.bin", tmp_path / "reports.txt", tmp_path / "out.sfm"
    assert run("local", "report", protocol, "--data", files["csv"], "-o", binary).exit_code == 0
    assert binary.stat().st_size == 500 * 16
    one = run("local", "report", protocol, "--", "0.5", "-1").stdout
    text.write_text(one + one + "nonsense\n")
    arguments = ("--state", tmp_path / "state", "--malicious", "5", "--json", "-o", out)
    document = json.loads(run("local", "collect", protocol, binary, *arguments).stdout)
    assert (document["accepted"], document["rejected"]) == (500, {})
    assert 0 < document["malicious_shift"] < 1
    more = json.loads(run("local", "collect", protocol, text, "--hex", *arguments, "--force").stdout)
    assert (more["accepted"], more["rejected"]) == (501, {"duplicate": 1, "length": 1})
    assert sfumato.load(out).count.value == 501
    assert "collector" in plain(run("inspect", out).stdout)


def test_standard_input(run: Run, protocol: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sfumato.local", str(protocol), "--", "-0.5", "0.25"]
    line = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    executable = Path(sys.executable).with_name("sfumato")
    collect = [executable, "local", "collect", protocol, "-", "-o", tmp_path / "out.sfm"]
    done = subprocess.run(collect, input=bytes.fromhex(line.strip()), capture_output=True, check=True)
    assert b"accepted    1" in done.stdout


def test_the_account_of_a_device(run: Run, protocol: Path, tmp_path: Path) -> None:
    account = ("--ledger", tmp_path / "account.json", "--max-epsilon", "2")
    arguments = ("local", "report", protocol, *account, "--", "1", "2")
    assert run(*arguments).exit_code == 0
    refused = run(*arguments)
    assert refused.exit_code == 3 and "nothing was reported" in plain(refused.stderr)
    command = [sys.executable, "-m", "sfumato.local", protocol, "1", "2", *account]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 3


def test_limits_of_a_device(run: Run, protocol: Path, tmp_path: Path) -> None:
    weak = tmp_path / "weak.json"
    setting = ("--mechanism", "mldp-kde", "--radius", "0.1", "--eta", "0.01", "--option", "grinding=0")
    assert run("local", "protocol", "-o", weak, *PROTOCOL, *setting, "--bounds", "-3,3").exit_code == 0
    for path, flags, message in (
        (protocol, ("--max-epsilon", "1"), "this device allows 1"),
        (weak, ("--unchecked",), "max_delta="),
        (weak, ("--max-delta", "0.01"), "unchecked=True"),
    ):
        refused = run("local", "report", path, *flags, "--", "1", "2")
        assert refused.exit_code == 2 and message in plain(refused.stderr)
        command = [sys.executable, "-m", "sfumato.local", path, *flags, "1", "2"]
        done = subprocess.run(command, capture_output=True, check=False, text=True)
        assert done.returncode == 2 and message in done.stderr
    assert run("local", "report", weak, "--unchecked", "--max-delta", "0.01", "--", "1", "2").exit_code == 0


def test_simulation(run: Run, protocol: Path, files: dict[str, Path], tmp_path: Path) -> None:
    result = run("local", "simulate", protocol, files["parquet"], "-o", tmp_path / "out.sfm")
    assert result.exit_code == 0 and "simulated: one party held all points" in plain(result.stdout)
    seeded = run("local", "simulate", protocol, files["npy"], "-o", tmp_path / "b.sfm", "--seed-noise-not-private", "1")
    assert "NOT PRIVATE" in seeded.stderr
    assert not sfumato.load(tmp_path / "b.sfm").guarantee.private


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("report", "{p}"), "pass either a point"),
        (("report", "{p}", "--", "1"), "a point must have 2 columns"),
        (("report", "{p}", "--budget", "1", "--", "1", "1"), "--ledger"),
        (("report", "{p}", "--data", "x.csv", "--ledger", "a.json"), "points of many"),
        (("report", "missing.json", "--", "1", "1"), "cannot read"),
        (("collect", "{p}", "missing.bin", "-o", "out.sfm"), "there is no such file"),
    ],
)
def test_wrong_calls(run: Run, protocol: Path, arguments: tuple[str, ...], message: str) -> None:
    result = run("local", *(argument.replace("{p}", str(protocol)) for argument in arguments))
    assert result.exit_code in (2, 5)
    assert message in plain(result.stderr)


@pytest.mark.parametrize("command", ["protocol", "report", "collect", "simulate"])
def test_help_shows_an_example(run: Run, command: str) -> None:
    text = plain(run("local", command, "--help").stdout)
    assert f"sfumato local {command}" in text.partition("Example")[2]
