"""`sfumato shuffled`: every role as a command, on small collections."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato.local.account import DeviceAccount
from sfumato.shuffled import AnalyzerKey, Protocol, Submission, client, shuffler
from sfumato.shuffled.messages import read_header
from sfumato.storage import AtomicFile
from tests.cli.conftest import Run, plain

DELTA = ("--max-delta", "1e-2")  # what these small collections need


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFUMATO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def collection(run: Run, tmp_path: Path) -> Path:
    """A folder with a protocol for 12 people, the analyzer's key and their points."""
    result = run(
        *("shuffled", "protocol", "-o", tmp_path / "p.json", "--new-key", tmp_path / "key", "--bandwidth", 1),
        *("--dimension", 2, "--epsilon", 4, "--delta", "1e-2", "--participants", 12, "--instances", 8),
    )
    assert result.exit_code == 0, result.output
    assert "8 messages a person" in plain(result.output) and "at least 12 participants" in plain(result.output)
    rows = np.random.default_rng(1).normal(size=(12, 2))
    np.savetxt(tmp_path / "points.csv", rows, delimiter=",", header="lon,lat", comments="")
    return tmp_path


def test_all_roles(run: Run, collection: Path) -> None:
    protocol, sent = collection / "p.json", collection / "sent"
    assert run("shuffled", "messages", protocol, "--data", collection / "points.csv", "-o", sent).exit_code == 0
    files = sorted(sent.glob("*.msg"))
    assert len(files) == 12 and {path.stat().st_size for path in files} == {32 + 8 * 53}
    early = run("shuffled", "shuffle", protocol, *files[:11], "--state", collection / "inbox", "-o", collection / "b")
    assert early.exit_code == 2 and "11 participants sent messages and the guarantee needs 12" in plain(early.output)
    told = run("shuffled", "shuffle", protocol, sent, "--state", collection / "inbox", "--json")
    assert json.loads(told.output) == {"people": 12, "needed": 12, "refused": 0}
    done = run("shuffled", "shuffle", protocol, "--state", collection / "inbox", "-o", collection / "b", "--json")
    assert json.loads(done.output)["messages"] == 96
    analyzed = run(
        *("shuffled", "analyze", protocol, collection / "b", "--key", collection / "key"),
        *("-o", collection / "out.sfm", "--json"),
    )
    assert json.loads(analyzed.output)["releases"][0]["people"] == 12
    release = sfumato.load(collection / "out.sfm")
    assert release.guarantee.trust == "shuffled" and release.guarantee.private
    assert "shuffled" in plain(run("inspect", collection / "out.sfm").output)


def test_the_same_command_again(run: Run, collection: Path) -> None:
    """A shuffle that could not finish is run again as it was; what is not a submission is refused."""
    protocol, sent, batch = collection / "p.json", collection / "sent", collection / "b"
    run("shuffled", "messages", protocol, "--data", collection / "points.csv", "-o", sent)
    shuffle = ("shuffled", "shuffle", protocol, sent, "--state", collection / "inbox", "-o", batch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffler, "_scatter", lambda *_: (_ for _ in ()).throw(OSError(28, "no space")))
        assert run(*shuffle).exit_code == 5
    assert run(*shuffle).exit_code == 0
    assert read_header(batch).participants == 12
    missing = run("shuffled", "shuffle", protocol, "nofile", "--state", collection / "inbox")
    assert missing.exit_code == 2 and "there is no such file: 'nofile'" in plain(missing.output)
    (collection / "old.msg").write_bytes(bytes(8 * 53))
    old = run("shuffled", "shuffle", protocol, collection / "old.msg", "--state", collection / "inbox")
    assert old.exit_code == 2 and "is damaged" in plain(old.output)


def test_made_again_and_forgotten(run: Run, collection: Path) -> None:
    protocol, sent, inbox = collection / "p.json", collection / "sent", collection / "inbox"
    run("shuffled", "messages", protocol, "--data", collection / "points.csv", "-o", sent)
    forget = ("shuffled", "forget", protocol, "--state", inbox)
    shuffle = ("shuffled", "shuffle", protocol, "--state", inbox, "-o")
    assert "--state FOLDER is missing" in plain(run("shuffled", "forget", protocol).output)
    assert run(*shuffle, collection / "b", sent).exit_code == 0
    assert run(*shuffle, collection / "again").exit_code == 0
    assert read_header(collection / "again") == read_header(collection / "b")
    assert "the messages in" in plain(run(*forget).output) and not (inbox / "inbox").exists()
    gone = run(*shuffle, collection / "third")
    assert gone.exit_code == 2 and "messages forgotten" in plain(gone.output)


def test_nobodys_file_keeps_out_those_of_others(run: Run, collection: Path) -> None:
    protocol, sent = collection / "p.json", collection / "sent"
    run("shuffled", "messages", protocol, "--data", collection / "points.csv", "-o", sent)
    (sent / "0.msg").write_bytes(b"no submission")
    run("shuffled", "messages", protocol, *DELTA, "-o", collection / "more.msg", stdin="0.2 -0.7")
    honest = (collection / "more.msg").read_bytes()
    short = Submission(Submission.from_bytes(honest)[:3])
    (sent / "1.msg").write_bytes(short.to_bytes())
    result = run("shuffled", "shuffle", protocol, sent, "--state", collection / "inbox", "--json")
    assert result.exit_code == 0 and json.loads(result.stdout) == {"people": 12, "needed": 12, "refused": 2}
    assert "0.msg" in result.stderr and "got 3: send all of them" in plain(result.stderr)


def test_inputs_are_never_overwritten(run: Run, collection: Path) -> None:
    protocol, sent, points = collection / "p.json", collection / "sent", collection / "points.csv"
    run("shuffled", "messages", protocol, "--data", points, "-o", sent)
    one = next(sent.glob("*.msg"))
    link = collection / "link.msg"
    link.symlink_to(one)
    shuffle = ("shuffled", "shuffle", protocol, sent, "--state", collection / "inbox", "--force", "-o")
    batch, key, output = collection / "b", collection / "key", collection / "out.sfm"
    assert run(*shuffle, batch).exit_code == 0
    analyze = ("shuffled", "analyze", protocol, batch, "--key", key, "--force", "-o")
    make = ("shuffled", "protocol", "--bandwidth", 1, "--dimension", 2, "--epsilon", 4, "--delta", "1e-2")
    for command, target in [
        *((shuffle, path) for path in (one, link, protocol)),
        *((analyze, path) for path in (batch, key, protocol)),
        (("shuffled", "simulate", protocol, points, "--force", "-o"), points),
        ((*make, "--participants", 12, "--new-key", output, "--force", "-o"), output),
    ]:
        before = target.read_bytes() if target.exists() else None
        result = run(*command, target)
        assert result.exit_code == 2 and "is read by this command" in plain(result.output), (command, target)
        assert (target.read_bytes() if target.exists() else None) == before
    notes = sent / "notes.txt"
    notes.write_text("mine")
    refused = run(*shuffle, notes)
    assert refused.exit_code == 2 and "is read by this command" in plain(refused.output) and notes.read_text() == "mine"
    own = run(*shuffle, collection / "inbox" / "inbox")
    assert own.exit_code == 2 and "own folder" in plain(own.output)


def test_a_folder_of_other_files_is_left_alone(run: Run, collection: Path) -> None:
    folder = collection / "work"
    folder.mkdir()
    (folder / "inbox").write_text("years of work")
    result = run("shuffled", "shuffle", collection / "p.json", "--state", folder)
    assert result.exit_code == 2 and "none of them was touched" in plain(result.output)
    assert [path.name for path in folder.iterdir()] == ["inbox"]
    assert (folder / "inbox").read_text() == "years of work"


def test_limits(run: Run, collection: Path) -> None:
    messages = ("shuffled", "messages", collection / "p.json", "-o", collection / "mine.msg")
    result = run(*messages, stdin="0.2 -0.7")
    assert result.exit_code == 2 and "may fail with probability 0.01" in plain(result.output)
    result = run(*messages, *DELTA, "--max-epsilon", 3, stdin="0.2 -0.7")
    assert result.exit_code == 2 and "costs an epsilon of 4, and this device allows 3" in plain(result.output)
    assert not (collection / "mine.msg").exists()
    assert run(*messages, *DELTA, "--max-epsilon", 4, stdin="0.2 -0.7").exit_code == 0


class TestAccount:
    def test_once(self, run: Run, collection: Path) -> None:
        account = ("--ledger", collection / "account.json", "--budget", 9)
        messages = ("shuffled", "messages", collection / "p.json", *account, *DELTA, "-o")
        odd = run(*messages, collection / "0.msg", stdin="0.2")
        assert odd.exit_code == 2 and not (collection / "0.msg").exists()
        first = run(*messages, collection / "1.msg", stdin="0.2 -0.7")
        assert first.exit_code == 0 and (collection / "1.msg").stat().st_mode & 0o777 == 0o600
        taken = run(*messages, collection / "1.msg", stdin="0.2 -0.7")
        assert taken.exit_code == 2 and "exists already" in plain(taken.output)
        second = run(*messages, collection / "2.msg", stdin="0.2 -0.7")
        assert second.exit_code == 2 and "this device answered before" in plain(second.output)
        assert not (collection / "2.msg").exists()

    def test_many_people_have_no_account(self, run: Run, collection: Path) -> None:
        account = ("--ledger", collection / "account.json", "--budget", 9)
        points = ("--data", collection / "points.csv", "-o", collection / "sent")
        result = run("shuffled", "messages", collection / "p.json", *account, *points)
        assert result.exit_code == 2 and "the account of one device" in plain(result.output)
        alone = run("shuffled", "messages", collection / "p.json", "--budget", 9, "-o", collection / "m", stdin="1 2")
        assert alone.exit_code == 2 and "pass both" in plain(alone.output)

    @pytest.mark.parametrize(
        ("organiser", "device", "code"),
        [
            ((), ("--budget", 6, *DELTA), 3),
            ((), ("--budget", 20), 2),
            ((), ("--budget", 20, *DELTA, "--max-epsilon", 6), 2),
            (("--expires", "2020-01-01"), ("--budget", 20, *DELTA), 2),
            (("--key-expires", "2020-01-01"), ("--budget", 20, *DELTA), 2),
            (None, ("--budget", 20, *DELTA), 2),
        ],
    )
    def test_what_is_refused_says_no_class(
        self, run: Run, tmp_path: Path, organiser: tuple[str, ...] | None, device: tuple[object, ...], code: int
    ) -> None:
        """Budget, delta, epsilon, expiry, the key's expiry, no key: nothing is spent on the class."""
        key = () if organiser is None else ("--new-key", tmp_path / "key", *organiser)
        point = ("--kernel", "inner-product", "--dimension", 2, "--epsilon", 4, "--delta", "1e-2")
        classes = ("--participants", 5, "--classes", "a,b", "--label-epsilon", 3)
        assert run("shuffled", "protocol", "-o", tmp_path / "p.json", *key, *point, *classes).exit_code == 0
        (tmp_path / "class.txt").write_text("a\n")
        own = ("--label-file", tmp_path / "class.txt", "--ledger", tmp_path / "account.json", *device)
        result = run("shuffled", "messages", tmp_path / "p.json", *own, "-o", tmp_path / "1.msg", stdin="0.2 0.7")
        assert result.exit_code == code, result.output
        assert not (tmp_path / "1.msg").exists() and not (tmp_path / "account.json").exists()

    def test_a_class_is_said_once(self, run: Run, tmp_path: Path) -> None:
        keys = ("--new-key", tmp_path / "key", "--kernel", "inner-product", "--dimension", 2, "--epsilon", 4)
        classes = ("--participants", 5, "--classes", "a,b", "--label-epsilon", 3, "--delta", "1e-2")
        assert run("shuffled", "protocol", "-o", tmp_path / "p.json", *keys, *classes).exit_code == 0
        account = ("--ledger", tmp_path / "account.json", "--budget", 20)
        (tmp_path / "class.txt").write_text("a\n")
        shown = run(
            "shuffled", "messages", tmp_path / "p.json", "--label", "a", "-o", tmp_path / "0.msg", stdin="0.2 0.7"
        )
        assert shown.exit_code == 2 and "--label-file" in plain(shown.output) and not (tmp_path / "0.msg").exists()
        own = ("--label-file", tmp_path / "class.txt", *DELTA)
        messages = ("shuffled", "messages", tmp_path / "p.json", *account, *own, "-o")
        assert run(*messages, tmp_path / "1.msg", stdin="0.2 0.7").exit_code == 0
        assert DeviceAccount(tmp_path / "account.json", 20).spent == 7
        again = run(*messages, tmp_path / "2.msg", stdin="0.2 0.7")
        assert again.exit_code == 2 and "this device answered before" in plain(again.output)
        assert DeviceAccount(tmp_path / "account.json", 20).spent == 7


def test_unmix_is_for_classes(run: Run, collection: Path) -> None:
    points, output = collection / "points.csv", collection / "s.sfm"
    result = run("shuffled", "simulate", collection / "p.json", points, "-o", output, "--unmix")
    assert result.exit_code == 2 and "leave it out" in plain(result.output) and not output.exists()


def test_one_person(run: Run, collection: Path) -> None:
    mine = collection / "mine.msg"
    result = run("shuffled", "messages", collection / "p.json", *DELTA, "-o", mine, stdin="0.2 -0.7")
    assert result.exit_code == 0 and mine.stat().st_size == 32 + 8 * 53
    again = run("shuffled", "messages", collection / "p.json", *DELTA, "-o", mine, stdin="0.2 -0.7")
    assert again.exit_code == 2 and "exists already" in plain(again.output)


def test_simulate(run: Run, collection: Path) -> None:
    arguments = ("shuffled", "simulate", collection / "p.json", collection / "points.csv", "-o", collection / "s.sfm")
    assert "12 people" in plain(run(*arguments).output)
    seeded = run(*arguments, "--force", "--seed-noise-not-private", 1, "--json")
    assert json.loads(seeded.stdout)["guarantee"]["private"] is False and "NOT PRIVATE" in seeded.stderr


class TestClasses:
    @pytest.fixture
    def labelled(self, run: Run, tmp_path: Path) -> Path:
        result = run(
            *("shuffled", "protocol", "-o", tmp_path / "p.json", "--new-key", tmp_path / "key", "--kernel"),
            *("inner-product", "--dimension", 2, "--epsilon", 4, "--delta", "1e-2", "--participants", "5,6"),
            *("--classes", "Sci/Tech,World", "--label-epsilon", 8),
        )
        assert result.exit_code == 0, result.output
        rows = [f"{x},{1 - x},{name}" for x in np.linspace(0, 1, 10) for name in ("Sci/Tech", "World")]
        (tmp_path / "points.csv").write_text("\n".join(["a,b,topic", *rows]))
        return tmp_path

    def test_roles(self, run: Run, labelled: Path) -> None:
        protocol, sent = labelled / "p.json", labelled / "sent"
        common = ("--columns", "a,b", "--label-column", "topic")
        made = run("shuffled", "messages", protocol, "--data", labelled / "points.csv", *common, "-o", sent)
        assert made.exit_code == 0, made.output
        counts = {path.name: len(list(path.glob("*.msg"))) for path in sent.iterdir()}
        assert sum(counts.values()) == 20 and set(counts) == {"class-0", "class-1"}
        run(
            *("shuffled", "shuffle", protocol, sent / "class-1", "--state", labelled / "inbox", "--label", "World"),
            *("-o", labelled / "b"),
        )
        analyze = ("shuffled", "analyze", protocol, labelled / "b", "--key", labelled / "key", "-o", labelled / "o.sfm")
        wrong = run(*analyze, "--label", "Sci/Tech")
        assert wrong.exit_code == 2 and "another protocol or class" in plain(wrong.output)
        assert f"{counts['class-1']} people, class World" in plain(run(*analyze, "--label", "World").output)

    def test_whole_numbers(self, run: Run, tmp_path: Path) -> None:
        """Classes that are numbers in the protocol are text on the command line and in files."""
        protocol, sent, key = tmp_path / "p.json", tmp_path / "sent", AnalyzerKey.generate()
        key.save(tmp_path / "key")
        settings: dict[str, Any] = {"epsilon": 4, "delta": 1e-2, "participants": 3, "classes": [0, 1], "key": key}
        Protocol("inner-product", dimension=2, label_epsilon=15, **settings).save(protocol)
        rows = [f"{x},{1 - x},{x > 0.5:d}" for x in np.linspace(0, 1, 10)]
        (tmp_path / "points.csv").write_text("\n".join(["a,b,c", *rows]))
        columns = ("--columns", "a,b", "--label-column", "c")
        made = run("shuffled", "messages", protocol, "--data", tmp_path / "points.csv", *columns, "-o", sent)
        assert made.exit_code == 0, made.output
        (tmp_path / "class.txt").write_text("0")
        own = ("--label-file", tmp_path / "class.txt", *DELTA, "--max-epsilon", 19)
        mine = run("shuffled", "messages", protocol, *own, "-o", tmp_path / "m.msg", stdin="0.5 0.5")
        assert mine.exit_code == 0, mine.output
        mixed = run(
            *("shuffled", "shuffle", protocol, sent / "class-1", "--label", "1", "--state", tmp_path / "inbox"),
            *("-o", tmp_path / "b"),
        )
        assert mixed.exit_code == 0, mixed.output
        analyze = ("shuffled", "analyze", protocol, tmp_path / "b", "--key", tmp_path / "key", "-o", tmp_path / "o.sfm")
        assert "class 1" in plain(run(*analyze, "--label", "1").output)
        assert "'2' is not one of" in plain(run(*analyze, "--label", "2").output)

    @pytest.mark.parametrize("unmix", [(), ("--unmix",)])
    def test_simulate(self, run: Run, labelled: Path, unmix: tuple[str, ...]) -> None:
        result = run(
            *("shuffled", "simulate", labelled / "p.json", labelled / "points.csv", "--columns", "a,b"),
            *("--label-column", "topic", "-o", labelled / "out", *unmix),
        )
        assert result.exit_code == 0, result.output
        assert sfumato.load(labelled / "out" / "class-1.sfm").parameters["class"] == "World"
        assert "epsilon = 12" in plain(result.output)

    def test_no_release_of_a_class_replaces_what_is_read(self, run: Run, labelled: Path) -> None:
        protocol = labelled / "class-1.sfm"
        (labelled / "p.json").rename(protocol)
        before, points = protocol.read_bytes(), ("--columns", "a,b", "--label-column", "topic")
        result = run("shuffled", "simulate", protocol, labelled / "points.csv", *points, "-o", labelled, "--force")
        assert result.exit_code == 2 and "is read by this command" in plain(result.output)
        assert protocol.read_bytes() == before and not (labelled / "class-0.sfm").exists()

    def test_the_disk_may_refuse_one_class_and_keep_another(
        self, run: Run, labelled: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Both are paid for."""
        commit = AtomicFile._commit

        def full(one: AtomicFile) -> None:
            if one.path.endswith("class-0.sfm"):
                raise OSError(errno.ENOSPC, "No space left on device")
            commit(one)

        monkeypatch.setattr(AtomicFile, "_commit", full)
        points = (labelled / "points.csv", "--columns", "a,b", "--label-column", "topic")
        result = run("shuffled", "simulate", labelled / "p.json", *points, "-o", labelled / "out")
        assert result.exit_code == 5 and "it had been paid for and was kept in" in plain(result.stderr)
        (kept,) = (labelled / "out").glob("class-0.sfm.rescued-*")
        assert sfumato.load(kept).parameters["class"] == "Sci/Tech"
        assert sfumato.load(labelled / "out" / "class-1.sfm").parameters["class"] == "World"

    def test_missing_or_unknown_classes(self, run: Run, labelled: Path) -> None:
        simulate = ("shuffled", "simulate", labelled / "p.json", labelled / "points.csv", "-o", labelled / "out")
        assert "--label-column goes with" in plain(run(*simulate, "--columns", "a,b").output)
        (labelled / "points.csv").write_text("a,b,topic\n1,2,Sports\n")
        unknown = run(*simulate, "--columns", "a,b", "--label-column", "topic")
        assert unknown.exit_code == 2 and "names a class that is not one of" in plain(unknown.output)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--participants", "x"), "--participants must be a whole number"),
        (("--participants", 12, "--instances", "many"), "--instances must be a whole number"),
        (("--participants", 12, "--public-key", "zz"), "--public-key must be 64 hexadecimal digits"),
        (("--participants", 12, "--public-key", "00", "--new-key", "k"), "not both"),
        (("--participants", 12, "--dimension", 0), "dimension must be a positive whole number"),
        (("--participants", 12, "--bitsum", "rr2"), "bitsum must be one of"),
    ],
)
def test_wrong_flags(run: Run, tmp_path: Path, flags: tuple[object, ...], message: str) -> None:
    result = run(
        *("shuffled", "protocol", "-o", tmp_path / "p.json", "--bandwidth", 1, "--dimension", 2, "--epsilon", 4),
        *("--delta", "1e-2", *flags),
    )
    assert result.exit_code == 2 and message in plain(result.output)
    assert not (tmp_path / "p.json").exists()


def test_refusals(run: Run, collection: Path) -> None:
    protocol = collection / "p.json"
    assert "--state FOLDER is missing" in plain(run("shuffled", "shuffle", protocol).output)
    assert "there is no point" in plain(run("shuffled", "messages", protocol, "-o", collection / "x", stdin="").output)
    assert run("shuffled", "messages", protocol, "-o", collection / "x", "--", 1, 2).exit_code == 2
    damaged = json.loads(protocol.read_text())
    damaged["mechanism"]["groups"][0]["parameters"]["flip"] = "1/1000"
    protocol.write_text(json.dumps(damaged))
    result = run("shuffled", "messages", protocol, "-o", collection / "x", stdin="1 2")
    assert result.exit_code == 2 and "do not take part" in plain(result.output)


def test_a_refused_protocol_leaves_no_key(run: Run, collection: Path) -> None:
    terms = ("--bandwidth", 1, "--dimension", 2, "--epsilon", 4, "--delta", "1e-2", "--participants", 12)
    made = ("shuffled", "protocol", "-o", collection / "p.json", "--new-key", collection / "second", *terms)
    refused = run(*made)
    assert refused.exit_code == 2 and "p.json" in refused.stderr and not (collection / "second").exists()
    assert run(*made, "--force").exit_code == 0
    assert "never overwritten" in plain(run(*made, "--force").stderr)


def test_nobodys_file_keeps_out_others(run: Run, collection: Path) -> None:
    """Files that cannot be read, are far too long or would be waited for are refused one by one."""
    protocol, sent = collection / "p.json", collection / "sent"
    run("shuffled", "messages", protocol, "--data", collection / "points.csv", "-o", sent)
    os.mkfifo(sent / "0-pipe.msg")
    (sent / "1-loop.msg").symlink_to("1-loop.msg")
    (sent / "2-nowhere.msg").symlink_to(collection / "nowhere")
    with (sent / "3-long.msg").open("wb") as file:
        file.truncate(1 << 30)
    told = run("shuffled", "shuffle", protocol, sent, "--state", collection / "inbox", "--json")
    assert json.loads(told.stdout) == {"people": 12, "needed": 12, "refused": 4}


def test_messages_that_are_paid_for_are_kept_where_the_name_was_taken(
    run: Run, collection: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, mine, charge = collection / "account.json", collection / "mine.msg", client.charge_once

    def charge_while_another_writes(*arguments: Any) -> None:
        charge(*arguments)
        mine.write_bytes(b"another's")

    monkeypatch.setattr(client, "charge_once", charge_while_another_writes)
    ledger = ("--ledger", account, "--budget", 4)
    result = run("shuffled", "messages", collection / "p.json", "-o", mine, *ledger, *DELTA, stdin="0 1")
    assert result.exit_code == 5 and DeviceAccount(account, 4).spent == 4
    (kept,) = collection.glob("mine.msg.rescued-*")
    assert len(Submission.from_bytes(kept.read_bytes())) == 8 and mine.read_bytes() == b"another's"


def test_the_class_is_asked_for_by_its_flag(run: Run, tmp_path: Path) -> None:
    terms = ("--bandwidth", 1, "--dimension", 1, "--epsilon", 4, "--delta", "1e-2", "--participants", 3)
    run("shuffled", "protocol", "-o", tmp_path / "p.json", "--new-key", tmp_path / "k", *terms, "--classes", "a,b")
    result = run("shuffled", "shuffle", tmp_path / "p.json", "--state", tmp_path / "inbox")
    assert "pass --label, the class whose messages" in plain(result.stderr)
    (tmp_path / "points.csv").write_text("x\n1\n")
    simulated = ("shuffled", "simulate", tmp_path / "p.json", tmp_path / "points.csv", "-o", tmp_path / "out")
    assert "Pass --label-column with these" in plain(run(*simulated, "--label-column", "side").stderr)
