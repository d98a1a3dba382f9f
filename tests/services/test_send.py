"""`sfumato local send` and `sfumato shuffled send`, as typed: once, again with the same bytes, through a relay."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

from sfumato.cli import app
from sfumato.local import Protocol, client
from sfumato.local.account import DeviceAccount
from sfumato.public.canonical_json import canonical
from sfumato.services import sending
from sfumato.services.collector import CollectorRole
from sfumato.services.issuer import IssuerRole, code_hash, new_codes
from sfumato.services.log import read_log
from sfumato.services.server import Server
from sfumato.services.shuffler import Policy, ShufflerRole
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.shuffled import AnalyzerKey
from sfumato.shuffled import Protocol as Shuffled
from tests.services.conftest import running
from tests.services.make_vectors import issuer_key
from tests.services.relay import relay

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(sending, "time", SimpleNamespace(sleep=lambda seconds: None))

    def invoke(*words: object) -> Result:
        result = CliRunner().invoke(app, [str(word) for word in words], input="0.2 0.7\n", prog_name="sfumato")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def collector(tmp_path: Path, local_signed: SignedProtocol) -> Iterator[tuple[str, CollectorRole]]:
    role = CollectorRole(tmp_path / "collector", [local_signed])
    with running(Server(role)) as address:
        yield address, role


def test_a_report_is_sent_once_whatever_happens(
    run: Run,
    collector: tuple[str, CollectorRole],
    organiser: SigningKey,
    local_protocol: Protocol,
    tmp_path: Path,
) -> None:
    """Through a relay that loses the answer to the report: the same bytes go again, then again by hand."""
    address, role = collector
    account = tmp_path / "account.json"
    words = ("local", "send", address, "--organiser", organiser.public.hex(), "--ledger", account)
    with relay() as between:
        first = run(*words, "--relay", between.address, "--json")
        assert first.exit_code == 0 and json.loads(first.stdout)["acknowledged"] is True
        assert between.tunnels == 4  # collections, protocol, log, frames
        between.lose = 4
        again = run(*words, "--relay", between.address)
        assert again.exit_code == 0 and "the same bytes" in again.stdout
        assert between.tunnels > 8
    kept = json.loads(account.read_text())
    assert kept["protocols"][local_protocol.fingerprint]["reports"] == 1
    store = role.intakes[local_protocol.fingerprint, 0].store
    assert store.count() == 1 and store.refused() == {}


def test_an_answer_is_kept_when_nobody_listens(
    run: Run, local_signed: SignedProtocol, organiser: SigningKey, local_protocol: Protocol, tmp_path: Path
) -> None:
    role = CollectorRole(tmp_path / "collector", [local_signed])
    store = role.intakes[local_protocol.fingerprint, 0].store
    with running(Server(role)) as address:
        words = ("local", "send", address, "--organiser", organiser.public.hex(), "--ledger", tmp_path / "account")
        add = store.add
        store.add = lambda *arguments: (_ for _ in ()).throw(sending.SfumatoError("gone"))  # type: ignore[method-assign]
        failed = run(*words)
        assert failed.exit_code == 8 and "send it again later" in failed.stderr
        kept = json.loads((tmp_path / "account").read_text())["kept"]
        store.add = add  # type: ignore[method-assign]
        assert run(*words).exit_code == 0
        assert json.loads((tmp_path / "account").read_text())["kept"] == kept
        ((identity, payload, _),) = next(store.blocks(10))
    assert list(kept[local_protocol.fingerprint].values()) == [
        (bytes.fromhex(local_protocol.fingerprint)[:4] + identity + payload).hex()
    ]


def test_another_organisers_key_is_refused(run: Run, collector: tuple[str, CollectorRole], tmp_path: Path) -> None:
    other = SigningKey.generate().public.hex()
    result = run("local", "send", collector[0], "--organiser", other, "--ledger", tmp_path / "account")
    assert result.exit_code == 2 and "do not take part" in " ".join(result.stderr.split())
    assert not (tmp_path / "account").exists()


def test_a_log_is_compared_with_a_copy(run: Run, collector: tuple[str, CollectorRole], tmp_path: Path) -> None:
    address, role = collector
    copy = tmp_path / "log.jsonl"
    first = run("serve", "log", address, "-o", copy)
    assert first.exit_code == 0 and "opened" in first.stdout
    role.note("published", role.newest)
    assert run("serve", "log", address, "--compare", copy).exit_code == 0  # it goes on where the copy ends
    (entry,) = read_log(copy.read_bytes(), role.key.public.hex())
    shown = {**entry, "fingerprint": "0" * 64}  # what the server showed to somebody else
    del shown["signature"]
    shown["signature"] = role.key.sign(canonical(shown)).hex()
    copy.write_text(json.dumps(shown) + "\n")
    other = run("serve", "log", address, "--compare", copy)
    assert other.exit_code == 2 and "do not take part" in " ".join(other.stderr.split())


def test_a_log_is_not_written_over_the_copy(run: Run, collector: tuple[str, CollectorRole], tmp_path: Path) -> None:
    address, _ = collector
    copy = tmp_path / "log.jsonl"
    assert run("serve", "log", address, "-o", copy).exit_code == 0
    before = copy.read_bytes()
    result = run("serve", "log", address, "--compare", copy, "-o", copy, "--force")
    assert result.exit_code == 2 and "stays as it is" in " ".join(result.stderr.split()), result.output
    assert copy.read_bytes() == before


def test_a_promise_above_the_devices_limit_is_refused(
    run: Run, collector: tuple[str, CollectorRole], organiser: SigningKey, tmp_path: Path
) -> None:
    words = ("--organiser", organiser.public.hex(), "--ledger", tmp_path / "account", "--max-epsilon", "1")
    assert run("local", "send", collector[0], *words).exit_code == 2
    assert not (tmp_path / "account").exists()


def test_an_invitation_admits_one_device(
    run: Run, shuffled_protocol: Shuffled, organiser: SigningKey, tmp_path: Path
) -> None:
    key, codes = issuer_key(), new_codes(1)
    signed = SignedProtocol.sign(shuffled_protocol.document, organiser, key.public.text, "00" * 32)
    (tmp_path / "hashes").write_text(code_hash(codes[0]) + "\n")
    (tmp_path / "code").write_text(codes[0] + "\n")
    shuffler = ShufflerRole(tmp_path / "shuffler", [signed], "http://127.0.0.1:9", Policy(participants=100))
    issuer = IssuerRole(tmp_path / "issuer", [signed], [key], tmp_path / "hashes")
    (tmp_path / "point").write_text("0.5\n")
    with running(Server(shuffler)) as address, running(Server(issuer)) as way:
        words = ("shuffled", "send", address, "--organiser", organiser.public.hex(), "--max-delta", "0.01",
                 "--point", tmp_path / "point")  # fmt: skip
        missing = run(*words, "--ledger", tmp_path / "one")
        assert missing.exit_code == 2 and "--invitation" in missing.stderr
        admitted = ("--issuer", way, "--invitation", tmp_path / "code")
        for _ in range(2):
            assert run(*words, "--ledger", tmp_path / "one", *admitted).exit_code == 0
        second = run(*words, "--ledger", tmp_path / "two", *admitted)
        assert second.exit_code == 2 and "used before" in second.stderr
        assert shuffler.intakes[shuffled_protocol.fingerprint, 0].store.count() == 1


def test_a_kept_answer_goes_to_its_own_class(
    run: Run, analyzer_key: AnalyzerKey, organiser: SigningKey, tmp_path: Path
) -> None:
    """Messages are sealed for one class: with another one in the label file they are not sent, without one they are."""
    protocol = Shuffled(
        "gaussian", bandwidth=1.0, dimension=1, epsilon=1, delta=1e-2, participants=10, instances=2,
        classes=["yes", "no"], key=analyzer_key,
    )  # fmt: skip
    signed = SignedProtocol.sign(protocol.document, organiser, None, "00" * 32)
    shuffler = ShufflerRole(tmp_path / "shuffler", [signed], "http://127.0.0.1:9", Policy(participants=100))
    (tmp_path / "point").write_text("0.5\n")
    for label in ("yes", "no"):
        (tmp_path / label).write_text(f"{label}\n")
    with running(Server(shuffler)) as address:
        words = ("shuffled", "send", address, "--organiser", organiser.public.hex(), "--max-delta", "0.01",
                 "--point", tmp_path / "point", "--ledger", tmp_path / "account")  # fmt: skip
        assert run(*words).exit_code == 2
        stopped = run(*words, "--label-file", tmp_path / "yes", "--point", tmp_path / "nowhere")
        assert stopped.exit_code != 0  # it was not answered yet, so that another class may follow
        for label in (["--label-file", tmp_path / "no"], [], ["--label-file", tmp_path / "no"]):
            assert run(*words, *label).exit_code == 0
        other = run(*words, "--label-file", tmp_path / "yes")
        assert other.exit_code == 2 and "answered as 'no'" in " ".join(other.stderr.split())
        assert [shuffler.intakes[protocol.fingerprint, group].store.count() for group in range(2)] == [0, 1]
        file = ("shuffled", "messages", tmp_path / "protocol.json", "--point", tmp_path / "point", "--budget", "8")
        protocol.save(tmp_path / "protocol.json")
        limits = ("--max-delta", "0.01", "--label", "no", "--ledger", tmp_path / "other", "-o", tmp_path / "mine.msg")
        assert run(*file, *limits).exit_code == 0
        twice = run(*words[:-1], tmp_path / "other", "--budget", "8", "--label-file", tmp_path / "no")
        assert twice.exit_code == 2 and "written to a file before" in " ".join(twice.stderr.split())
        for number, (point, kept) in enumerate([((), b"\xff" * 9), ((0.5,), b"")]):  # a forger's accounts
            account = DeviceAccount(tmp_path / f"forged-{number}", 8)
            account.remembered(protocol.fingerprint, point, Fraction(1), lambda _, kept=kept: kept)
            forged = run(*words[:-1], account.path, "--budget", "8", "--label-file", tmp_path / "no")
            assert forged.exit_code == 3 and "it was altered" in " ".join(forged.stderr.split()), forged.output


def test_an_answer_that_is_cut_off_is_no_answer(run: Run) -> None:
    """A server that dies between the head of its answer and the receipt is asked again."""
    import socket
    import threading

    answers = [b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n\0"]
    bodies = []

    def serve(listening: socket.socket) -> None:
        for answer in answers:
            connection, _ = listening.accept()
            with connection:
                asked = b""
                while not asked.endswith(b"report"):
                    asked += connection.recv(1 << 16)
                bodies.append(asked.partition(b"\r\n\r\n")[2])
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        sending.send(sending.Route(f"http://127.0.0.1:{listening.getsockname()[1]}"), "0" * 64, 0, b"report")
        thread.join()
    assert len(bodies) == 2 and bodies[0] == bodies[1]


def test_a_server_that_never_comes_to_the_point_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step is quick, and there is no end of them: one deadline holds for the whole exchange."""
    import socket
    import threading

    clock = itertools.count(0, 10)
    monkeypatch.setattr(sending, "monotonic", lambda: next(clock))

    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000)  # as good as endless
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n\0")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        with pytest.raises(sending.UnreachableError, match="whole exchange"):
            sending.Route(f"http://127.0.0.1:{listening.getsockname()[1]}", tries=1).ask("GET", "/v1/log")
        thread.join()


@pytest.mark.parametrize(
    "address",
    ["http://h:99999", "http://[::1", "http://h:x", "http://a..b", "http://" + "a" * 300, "http://h/\xe9", "h"],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    for route in (sending.Route(address, tries=1), sending.Route("http://h", relay=address, tries=1)):
        with pytest.raises(sending.InputError, match="is no address"):
            route.ask("GET", "/v1/log")


LISTED = [("\xe9", "ab" * 32), ("a b\r\nx: y", "ab" * 32), ("ab" * 32, "no digits"), (7, 8)]


@pytest.mark.parametrize(("name", "key"), LISTED)
def test_what_a_server_lists_is_checked_before_it_is_used(
    name: object, key: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = json.dumps({"collections": [{"fingerprint": name}], "key": key}).encode()
    monkeypatch.setattr(sending.Route, "_once", lambda *asked: (200, "", listed))
    with pytest.raises(sending.InputError, match="hexadecimal"):
        sending.fetch_log(sending.Route("http://h"))


def test_a_key_without_digits_reads_no_log() -> None:
    with pytest.raises(sending.InputError, match="hexadecimal"):
        read_log(b"{}", "no digits")


def test_an_invitation_that_is_no_text_is_refused(tmp_path: Path) -> None:
    from sfumato.errors import StorageError
    from sfumato.storage import storage_errors

    (tmp_path / "code").write_bytes(b"\xff\xfe")
    with pytest.raises(StorageError, match="not a text file"), storage_errors("read", tmp_path / "code"):
        (tmp_path / "code").read_text(encoding="ascii")


def test_an_organisers_key_that_is_none_accuses_nobody(
    run: Run, collector: tuple[str, CollectorRole], organiser: SigningKey, tmp_path: Path
) -> None:
    words = ("local", "send", collector[0], "--ledger", tmp_path / "account.json", "--organiser")
    slip = run(*words, organiser.public.hex()[:-1])
    assert slip.exit_code == 2 and "--organiser must be 64" in " ".join(slip.stderr.split())
    assert run(*words, organiser.public.hex().upper()).exit_code == 0


def test_whoever_types_a_point_holds_no_lock(
    run: Run,
    collector: tuple[str, CollectorRole],
    organiser: SigningKey,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another command may use the account while somebody sits before the question; an answer that is kept asks none."""
    account, asked = tmp_path / "account.json", []

    def typed(path: object) -> list[float]:
        with open(f"{account}.lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        asked.append(path)
        return [0.2, 0.7]

    monkeypatch.setattr(client, "read_point", typed)
    words = ("local", "send", collector[0], "--organiser", organiser.public.hex(), "--ledger", account)
    assert run(*words).exit_code == 0 and run(*words).exit_code == 0
    assert asked == ["-"]
