"""Marks of processes: what lives in memory is known as a copy after a fork that Python does not see."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sfumato import PrivateKDE
from sfumato.central.merging import Receipts
from sfumato.errors import InputError
from sfumato.kernels import Gaussian
from sfumato.local import Protocol as LocalProtocol
from sfumato.privacy import process
from sfumato.privacy.ledger import Ledger
from sfumato.published.hrw import OnlineQueries
from sfumato.services.admission import IssuerKey
from sfumato.services.signing import SigningKey
from sfumato.shuffled import Protocol
from sfumato.shuffled.sealing import MESSAGE_BYTES, AnalyzerKey, Context, seal
from tests.forks import refused_in_a_child, told_by_a_child

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(process._page is None, reason="no page of this system is emptied by a fork"),
]


@pytest.fixture(autouse=True)
def one_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)


def test_marks_differ_in_every_generation() -> None:
    mark = process.process_mark()
    assert mark == process.process_mark() and any(mark[2])

    def child() -> bytes:
        inner = process.process_mark()[2]
        return inner + told_by_a_child(lambda: process.process_mark()[2])

    told = told_by_a_child(child)
    assert len(told) == 2 * process.MARK_BYTES
    assert len({mark[2], told[: process.MARK_BYTES], told[process.MARK_BYTES :]}) == 3


def test_threads_that_meet_in_a_child_find_one_mark() -> None:
    """Two marks would make a ledger of the child's own a copy in its other threads."""

    def child() -> bytes:
        process._page[: process.MARK_BYTES] = bytes(process.MARK_BYTES)  # as the system leaves it
        found, together = [], threading.Barrier(8)

        def look() -> None:
            together.wait()
            found.append(process.process_mark())

        threads = [threading.Thread(target=look) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return bytes([len(found), len({*found, process.process_mark()})])

    assert [told_by_a_child(child) for _ in range(20)] == [bytes([8, 1])] * 20


def test_a_mark_that_was_being_made_at_the_fork_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LONGEST_WAIT", 0.01)
    with process._marking:  # which a child copies
        told = told_by_a_child(lambda: process.process_mark()[2])
    assert any(told) and told != process.process_mark()[2]


def test_a_fork_of_the_system_itself_repeats_no_noise() -> None:
    """In a process of one thread, where Python need not see it."""
    script = """
import ctypes, os
from sfumato.privacy.bits import SecureBits
os.getpid = lambda: 1
bits = SecureBits()
bits.words(10)
child = ctypes.PyDLL(None).fork()
os.write(1, b"%d %d %d %d\\n" % tuple(bits.words(4)))  # at once: prints of two processes may mix
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    words = done.stdout.split()
    assert len(words) == 8 and len(set(words)) == 8


def test_a_ledger_in_memory_is_no_second_budget() -> None:
    account = Ledger().account("people")
    account.set_budget(1)
    assert refused_in_a_child(lambda: account.charge("count", Fraction(1, 2)))
    account.charge("count", Fraction(1, 2))


def test_a_sketch_is_released_once() -> None:
    receipts = Receipts()
    assert refused_in_a_child(lambda: receipts.check(Fraction(1), None))
    receipts.check(Fraction(1), None)


def test_a_session_answers_in_one_process() -> None:
    model = PrivateKDE(bandwidth=1.0, epsilon=1, delta=1e-6, n_hint=100, bounds=(-1, 1), random_state=1)
    session = OnlineQueries(model, np.zeros((100, 2)), most=2)
    assert refused_in_a_child(lambda: session.ask([0.0, 0.0]))
    session.ask([0.0, 0.0])


def test_a_participant_sends_from_one_process() -> None:
    facts = {"kernel": Gaussian(1.0), "dimension": 2, "bounds": (-1, 1), "participants": 200}
    made = Protocol(**facts, epsilon=1, delta=1e-6, key=AnalyzerKey.generate().public)
    client = made.client()
    assert refused_in_a_child(lambda: client.messages([0.0, 0.0]))
    client.messages([0.0, 0.0])


def test_a_copy_does_not_draw_the_keys_of_the_other() -> None:
    """OpenSSL knows a copy by its process id alone: both drew one ephemeral key, and sealed two messages with it."""
    context, key = Context("0" * 64, 0), AnalyzerKey.generate()
    seal(np.array([3]), np.array([1]), key.public, context)
    assert refused_in_a_child(lambda: seal(np.array([3]), np.array([1]), key.public, context))
    assert refused_in_a_child(IssuerKey.generate)
    seal(np.array([3]), np.array([1]), key.public, context)
    for kind in (AnalyzerKey, SigningKey):  # whose keys are plain random bytes
        told = told_by_a_child(lambda kind=kind: kind.generate().public)
        assert len(told) == 32 and told != kind.generate().public


def test_a_child_of_another_id_seals(monkeypatch: pytest.MonkeyPatch) -> None:
    context, key = Context("0" * 64, 0), AnalyzerKey.generate()

    def sealed() -> bytes:
        monkeypatch.setattr(os, "getpid", lambda: 2)
        return seal(np.array([3]), np.array([1]), key.public, context)[0]

    assert len(told_by_a_child(sealed)) == MESSAGE_BYTES


def test_a_child_that_closes_its_collector_leaves_the_lock(tmp_path: Path) -> None:
    made = LocalProtocol(kernel=Gaussian(1.0), dimension=2, epsilon=1, participants=200, bounds=(-1, 1))
    collector = made.collector(tmp_path)
    assert not refused_in_a_child(collector.close)
    with pytest.raises(InputError, match="another collector works in"):
        made.collector(tmp_path)
    collector.close()
    made.collector(tmp_path).close()


def test_a_mark_of_the_id_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: its child spends a second budget."""
    monkeypatch.setattr(process, "_page", None)
    account = Ledger().account("people")
    account.set_budget(1)
    assert not refused_in_a_child(lambda: account.charge("count", Fraction(1, 2)))
