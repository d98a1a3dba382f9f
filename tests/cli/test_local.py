"""`sfumato local`: from a protocol to a release, as typed in a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import sfumato
from sfumato.cli import local

from .conftest import Run, plain
from .test_full_disk import short_of_disk

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
    one = run("local", "report", protocol, stdin="0.5, -1\n").stdout
    text.write_text(one + one + "nonsense\n")
    arguments = ("--state", tmp_path / "state", "--malicious", "5", "--json", "-o", out)
    document = json.loads(run("local", "collect", protocol, binary, *arguments).stdout)
    assert (document["accepted"], document["rejected"]) == (500, {})
    assert 0 < document["malicious_shift"] < 1
    assert "pass --hex" in plain(run("local", "collect", protocol, text, "-o", tmp_path / "no.sfm").stderr)
    more = json.loads(run("local", "collect", protocol, text, "--hex", *arguments, "--force").stdout)
    assert (more["accepted"], more["rejected"]) == (501, {"duplicate": 1, "length": 1})
    assert sfumato.load(out).count.value == 501
    assert "collector" in plain(run("inspect", out).stdout)


def test_standard_input(run: Run, protocol: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sfumato.local", str(protocol)]
    line = subprocess.run(command, input="-0.5 0.25", capture_output=True, check=True, text=True).stdout
    executable = Path(sys.executable).with_name("sfumato")
    collect = [executable, "local", "collect", protocol, "-", "-o", tmp_path / "out.sfm"]
    done = subprocess.run(collect, input=bytes.fromhex(line.strip()), capture_output=True, check=True)
    assert b"accepted    1" in done.stdout


def test_the_account_of_a_device(run: Run, protocol: Path, tmp_path: Path) -> None:
    (tmp_path / "point.txt").write_text("1\n2\n")
    account = ("--ledger", tmp_path / "account.json", "--max-epsilon", "2")
    arguments = (protocol, *account, "--point", tmp_path / "point.txt")
    assert run("local", "report", *arguments).exit_code == 0
    refused = run("local", "report", *arguments)
    assert refused.exit_code == 3 and "nothing was reported" in plain(refused.stderr)
    command = [sys.executable, "-m", "sfumato.local", *arguments]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 3


def test_a_point_is_not_taken_from_the_command_line(run: Run, protocol: Path) -> None:
    """Other users of the machine see command lines."""
    assert run("local", "report", protocol, "--", "0.5", "1").exit_code == 2
    command = [sys.executable, "-m", "sfumato.local", protocol, "0.5", "1"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
    assert "seen by every user of the machine" in " ".join(plain(run("local", "report", "--help").stdout).split())


def test_what_is_no_point_is_refused_and_not_repeated(run: Run, protocol: Path, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe0.77")
    for result in (
        run("local", "report", protocol, stdin="0.77 secret"),
        run("local", "report", protocol, stdin=" \n"),
        run("local", "report", protocol, "--point", tmp_path / "binary"),
    ):
        assert result.exit_code == 2 and "pass one number for each column" in plain(result.stderr)
        assert "0.77" not in result.stderr and "secret" not in result.stderr
    assert run("local", "report", protocol, "--point", tmp_path / "missing").exit_code == 5


def test_reports_are_appended_whole_or_not_at_all(
    run: Run, protocol: Path, files: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "reports.bin"
    assert run("local", "report", protocol, "-o", out, stdin="0 1").exit_code == 0
    before = out.read_bytes()
    with short_of_disk(1000):
        refused = run("local", "report", protocol, "--data", files["csv"], "-o", out)
    assert refused.exit_code == 5 and "cannot write" in plain(refused.stderr)
    assert out.read_bytes() == before and len(before) == 16


def test_what_a_kill_left_of_a_report_is_not_built_upon(run: Run, protocol: Path, tmp_path: Path) -> None:
    """All reports after it would be read in the wrong places, and refused."""
    reports, account = tmp_path / "reports.bin", tmp_path / "account.json"
    assert run("local", "report", protocol, "-o", reports, stdin="0 1").exit_code == 0
    whole = reports.read_bytes()
    reports.write_bytes(whole + whole[:-1])
    result = run("local", "report", protocol, "-o", reports, "--ledger", account, stdin="0 1")
    assert result.exit_code == 2 and f"truncate -s {len(whole)} {reports}" in plain(result.stderr), result.output
    assert reports.read_bytes() == whole + whole[:-1] and not account.exists()


def test_a_report_that_another_run_is_writing_is_waited_for(
    run: Run, protocol: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To cut it off, as for what a kill left, would destroy what the other run paid for."""
    reports, account = tmp_path / "reports.bin", tmp_path / "account.json"
    assert run("local", "report", protocol, "-o", reports, stdin="0 1").exit_code == 0
    whole = reports.read_bytes()
    reports.write_bytes(whole + whole[:5])

    def finished(*arguments: object, wait: bool) -> None:
        """The lock, for which one waits until the other is done."""
        assert wait
        reports.write_bytes(whole * 2 + reports.read_bytes()[2 * len(whole) :])

    monkeypatch.setattr(local, "lock_file", finished)
    result = run("local", "report", protocol, "-o", reports, "--ledger", account, stdin="0 1")
    assert result.exit_code == 0, result.output
    assert reports.read_bytes()[: 2 * len(whole)] == whole * 2 and reports.stat().st_size == 3 * len(whole)


@pytest.mark.parametrize("meanwhile", [b"half", b"dear diary"])
def test_a_paid_report_is_printed_where_its_file_was_spoilt_meanwhile(
    run: Run, protocol: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: bytes
) -> None:
    reports, account = tmp_path / "reports.bin", tmp_path / "account.json"
    assert run("local", "report", protocol, "-o", reports, stdin="0 1").exit_code == 0
    whole, calls = reports.read_bytes(), []

    def spoilt(*arguments: object, wait: bool) -> None:
        calls.append(wait)
        if len(calls) == 2:  # the first is before the payment
            reports.write_bytes(whole + meanwhile if meanwhile == b"half" else meanwhile)

    monkeypatch.setattr(local, "lock_file", spoilt)
    result = run("local", "report", protocol, "-o", reports, "--ledger", account, stdin="0 1")
    assert result.exit_code == 5 and "paid for and was printed" in plain(result.stderr), result.output
    assert bytes.fromhex(result.stdout.strip())[:4] == whole[:4] and len(result.stdout.strip()) == 2 * len(whole)
    assert reports.read_bytes() == (whole + meanwhile if meanwhile == b"half" else meanwhile)


@pytest.mark.parametrize("content", [b"0123456789abcdef" * 4, b"my thesis", b"no"])
def test_reports_are_not_appended_to_somebodys_own_file(
    run: Run, protocol: Path, tmp_path: Path, content: bytes
) -> None:
    """Whatever its length; and nobody is advised to cut it off."""
    thesis, account = tmp_path / "thesis", tmp_path / "account.json"
    thesis.write_bytes(content)
    result = run("local", "report", protocol, "-o", thesis, "--ledger", account, stdin="0 1")
    assert result.exit_code == 2 and "no file of this protocol's reports" in plain(result.stderr), result.output
    assert "truncate" not in result.stderr and thesis.read_bytes() == content and not account.exists()


def test_inputs_and_state_are_not_written_over(run: Run, protocol: Path, tmp_path: Path) -> None:
    reports, state = tmp_path / "reports.bin", tmp_path / "state"
    run("local", "report", protocol, "-o", reports, stdin="0 1")
    (tmp_path / "link").symlink_to(reports)
    (tmp_path / "hard link").hardlink_to(reports)
    for out in (protocol, reports, tmp_path / "link", tmp_path / "hard link", state / "state.json"):
        refused = run("local", "collect", protocol, reports, "--state", state, "-o", out, "--force")
        message = (
            "choose a place outside of it" if out.parent == state else "is read by this command and stays as it is"
        )
        assert refused.exit_code == 2 and message in plain(refused.stderr)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("precious")
    refused = run("local", "collect", protocol, reports, "--state", tmp_path / "home", "-o", tmp_path / "out.sfm")
    assert refused.exit_code == 2 and "nothing in it was touched" in plain(refused.stderr)
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["thesis.txt"]
    assert len(reports.read_bytes()) == 16


def test_limits_of_a_device(run: Run, protocol: Path, tmp_path: Path) -> None:
    weak = tmp_path / "weak.json"
    setting = ("--mechanism", "mldp-kde", "--radius", "0.1", "--eta", "0.01", "--option", "grinding=0")
    assert run("local", "protocol", "-o", weak, *PROTOCOL, *setting, "--bounds", "-3,3").exit_code == 0
    for path, flags, in_flags in (
        (protocol, ("--max-epsilon", "1"), "this device allows 1: pass --max-epsilon to"),
        (weak, ("--unchecked",), "pass --max-delta to"),
        (weak, ("--max-delta", "0.01"), "pass --unchecked to"),
    ):
        refused = run("local", "report", path, *flags, stdin="1 2")
        assert refused.exit_code == 2 and in_flags in plain(refused.stderr)
        command = [sys.executable, "-m", "sfumato.local", path, *flags]
        done = subprocess.run(command, capture_output=True, check=False, text=True, input="1 2")
        assert done.returncode == 2 and in_flags in plain(done.stderr)
    assert run("local", "report", weak, "--unchecked", "--max-delta", "0.01", stdin="1 2").exit_code == 0


def test_simulation(run: Run, protocol: Path, files: dict[str, Path], tmp_path: Path) -> None:
    result = run("local", "simulate", protocol, files["parquet"], "-o", tmp_path / "out.sfm")
    assert result.exit_code == 0 and "simulated: one party held all points" in plain(result.stdout)
    seeded = run("local", "simulate", protocol, files["npy"], "-o", tmp_path / "b.sfm", "--seed-noise-not-private", "1")
    assert "NOT PRIVATE" in seeded.stderr
    assert not sfumato.load(tmp_path / "b.sfm").guarantee.private


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("report", "{p}", "--data", "x.csv", "--point", "x.txt"), "pass either --point"),
        (("report", "{p}"), "a point must have 2 columns"),
        (("report", "{p}", "--budget", "1"), "--ledger"),
        (("report", "{p}", "--data", "x.csv", "--ledger", "a.json"), "points of many"),
        (("report", "missing.json"), "cannot read"),
        (("collect", "{p}", "missing.bin", "-o", "out.sfm"), "there is no such file"),
    ],
)
def test_wrong_calls(run: Run, protocol: Path, arguments: tuple[str, ...], message: str) -> None:
    result = run("local", *(argument.replace("{p}", str(protocol)) for argument in arguments), stdin="1")
    assert result.exit_code in (2, 5)
    assert message in plain(result.stderr)


@pytest.mark.parametrize("command", ["protocol", "report", "collect", "simulate"])
def test_help_shows_an_example(run: Run, command: str) -> None:
    text = plain(run("local", command, "--help").stdout)
    assert f"sfumato local {command}" in text.partition("Example")[2]


def test_a_name_that_is_taken_is_told(run: Run, protocol: Path, files: dict[str, Path], tmp_path: Path) -> None:
    """What was collected is written beside, and the run names that file and not the old one."""
    binary, out = tmp_path / "reports.bin", tmp_path / "out.sfm"
    run("local", "report", protocol, "--data", files["csv"], "-o", binary)
    assert json.loads(run("local", "collect", protocol, binary, "-o", out, "--json").stdout)["release"] == str(out)
    again = run("local", "collect", protocol, binary, "-o", out, "--json")
    assert json.loads(again.stdout)["release"] == str(tmp_path / "out-2.sfm")
    assert plain(again.stderr).startswith("warning: ") and "out-2.sfm" in again.stderr
    simulated = run("local", "simulate", protocol, files["csv"], "-o", out, "--json")
    assert simulated.exit_code == 2 and "exists already" in plain(simulated.stderr)  # before anything is paid for
    assert not (tmp_path / "out-3.sfm").exists()


def test_reports_come_through_a_pipe(run: Run, protocol: Path, files: dict[str, Path], tmp_path: Path) -> None:
    binary = tmp_path / "reports.bin"
    run("local", "report", protocol, "--data", files["csv"], "-o", binary)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    sender = threading.Thread(target=lambda: pipe.write_bytes(binary.read_bytes()), daemon=True)
    sender.start()
    done = run("local", "collect", protocol, pipe, "-o", tmp_path / "out.sfm", "--json")
    sender.join(timeout=60)
    assert json.loads(done.stdout)["accepted"] == 500


def test_hexadecimal_lines_without_end_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device is refused; a line that is too long is so many reports of a wrong length."""
    if Path("/dev/zero").exists():
        with pytest.raises(sfumato.InputError, match="a device may never end"):
            next(local._hexadecimal("/dev/zero"))
    monkeypatch.setattr(local, "LONGEST_LINE", 8)
    lines = tmp_path / "reports.hex"
    lines.write_text("0a" * 10 + "\nzz\n0b0c\n")
    assert list(local._hexadecimal(str(lines))) == [b"\n" * 4, b"\n" * 4, b"\n" * 2, b"", b"\x0b\x0c"]
