"""The shuffler: uniform, bounded in memory, strict about numbers, and hard to kill."""

from __future__ import annotations

import os
import signal
import tracemalloc
from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import InputError, StorageError
from sfumato.privacy.bits import SecureBits
from sfumato.shuffled import Shuffler, shuffler
from sfumato.shuffled.batch import read_batch, read_header
from sfumato.shuffled.permuting import permutation
from sfumato.shuffled.sealing import MESSAGE_BYTES
from tests.shuffled.collections_for_tests import KEY, small_protocol, submissions

FALSE_ALARM = 1e-6


def made_up(count: int, seed: int = 0) -> list[bytes]:
    """Bytes of the right length that need not open: the shuffler does not look."""
    content = np.random.default_rng(seed).bytes(count * MESSAGE_BYTES)
    return [content[start : start + MESSAGE_BYTES] for start in range(0, len(content), MESSAGE_BYTES)]


def messages_in(path: Path) -> list[bytes]:
    content = b"".join(read_batch(path))
    return [content[start : start + MESSAGE_BYTES] for start in range(0, len(content), MESSAGE_BYTES)]


class TestOrder:
    def test_permutations_are_uniform(self) -> None:
        secure = SecureBits.seeded(3)
        seen = Counter(tuple(permutation(secure, 4).tolist()) for _ in range(4800))
        assert set(seen) == set(permutations(range(4)))
        assert stats.chisquare(list(seen.values())).pvalue > FALSE_ALARM

    def test_orders_of_batches_are_uniform(self, tmp_path: Path) -> None:
        """Four messages: all orders are as likely."""
        protocol = small_protocol(1, 4)
        seen: Counter[tuple[bytes, ...]] = Counter()
        sent = made_up(4)
        for number in range(480):
            with Shuffler(tmp_path / str(number), protocol) as mixer:
                mixer.receive(sent)
                mixer.shuffle(tmp_path / "batch", overwrite=True)
            seen[tuple(messages_in(tmp_path / "batch"))] += 1
        assert len(seen) == 24
        assert stats.chisquare(list(seen.values())).pvalue > FALSE_ALARM

    @pytest.mark.parametrize("memory", [1 << 20, 1 << 28])
    def test_places_are_uniform(self, memory: int, tmp_path: Path) -> None:
        """Where a participant's messages end up does not depend on when they came; in one bucket and in many."""
        protocol = small_protocol(1, 2000)
        sent = [made_up(2000, seed) for seed in range(10)]
        with Shuffler(tmp_path / "inbox", protocol, memory=memory) as mixer:
            mixer.receive(*sent)
            mixer.shuffle(tmp_path / "batch")
        place = {message: at for at, message in enumerate(messages_in(tmp_path / "batch"))}
        assert len(place) == 20_000
        for messages in sent:
            uniform = [place[message] / 20_000 for message in messages]
            assert stats.kstest(uniform, "uniform").pvalue > FALSE_ALARM
        neighbours = stats.spearmanr([place[message] for message in sent[0]], range(2000))
        assert neighbours.pvalue > FALSE_ALARM

    def test_memory_stays_bounded(self, tmp_path: Path) -> None:
        """A batch of ten times the memory."""
        memory, protocol = 1 << 20, small_protocol(1, 2000)
        inbox, batch = tmp_path / "inbox", tmp_path / "batch"
        with Shuffler(inbox, protocol, memory=memory) as mixer:
            for seed in range(100):
                mixer.receive(made_up(2000, seed))
        assert os.path.getsize(inbox / "inbox") > 10 * memory
        tracemalloc.start()
        try:
            with Shuffler(inbox, protocol, memory=memory) as mixer:
                mixer.shuffle(batch)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert read_header(batch).messages == 200_000
        assert peak < memory + 1.5 * 2**20  # streams of random bits take up to a megabyte and a half

    def test_a_batch_beyond_all_buckets_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shuffler, "MOST_BUCKETS", 1)
        with Shuffler(tmp_path / "inbox", small_protocol(1, 2000), memory=1 << 20) as mixer:
            mixer.receive(*(made_up(2000, seed) for seed in range(10)))
            with pytest.raises(InputError, match="pass memory= of at least"):
                mixer.shuffle(tmp_path / "batch")


class TestNumbers:
    def test_too_few_wait(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 8)
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*sent[:7])
            with pytest.raises(InputError, match="7 participants sent messages and the guarantee needs 8"):
                mixer.shuffle(tmp_path / "batch")
            assert not (tmp_path / "batch").exists()
            mixer.receive(sent[7])  # it was not closed
            mixer.shuffle(tmp_path / "batch")
        assert read_header(tmp_path / "batch").participants == 8

    def test_a_client_that_drops_out_is_not_counted(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 8)
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*sent[:7])
            with pytest.raises(InputError, match="sends 4 messages; got 3"):
                mixer.receive(sent[7][:3])
            with pytest.raises(InputError, match="damaged"):
                mixer.receive([sent[7][0][:-1], *sent[7][1:]])
            assert mixer.participants == 7
            with pytest.raises(InputError, match="needs 8"):
                mixer.shuffle(tmp_path / "batch")

    def test_sent_twice_counts_once(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 8)
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*sent[:7], *sent[:7])
            mixer.receive(sent[0])
            assert mixer.participants == 7
            mixer.receive(sent[7])
            mixer.shuffle(tmp_path / "batch")
        assert sorted(messages_in(tmp_path / "batch")) == sorted(message for messages in sent for message in messages)

    def test_copies_of_single_messages_are_dropped(self, tmp_path: Path) -> None:
        """Somebody sends another participant's messages among their own, to see them twice."""
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 8)
        thief = [*sent[0][:3], sent[1][0]]
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*sent, thief)
            mixer.shuffle(tmp_path / "batch")
        assert sorted(messages_in(tmp_path / "batch")) == sorted(message for messages in sent for message in messages)

    def test_nobody_comes_late(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 9)
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*sent[:8])
            mixer.shuffle(tmp_path / "batch")
            with pytest.raises(InputError, match="the collection is closed"):
                mixer.receive(sent[8])
            with pytest.raises(InputError, match="shuffled already"):
                mixer.shuffle(tmp_path / "second")
        with Shuffler(tmp_path / "inbox", protocol) as again, pytest.raises(InputError, match="shuffled already"):
            again.shuffle(tmp_path / "second")

    def test_a_folder_of_another_protocol(self, tmp_path: Path) -> None:
        Shuffler(tmp_path / "inbox", small_protocol(8, 4)).close()
        with pytest.raises(InputError, match="another protocol or class"):
            Shuffler(tmp_path / "inbox", small_protocol(9, 4))

    def test_two_shufflers_of_one_folder(self, tmp_path: Path) -> None:
        with (
            Shuffler(tmp_path / "inbox", small_protocol(8, 4)),
            pytest.raises(InputError, match="another shuffler is using"),
        ):
            Shuffler(tmp_path / "inbox", small_protocol(8, 4))


class TestCrashes:
    @pytest.mark.parametrize("lost", [1, 30, 4 * MESSAGE_BYTES, 4 * MESSAGE_BYTES + 20])
    def test_a_record_that_was_cut_off_is_forgotten(self, lost: int, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 8)
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*sent)
        path = tmp_path / "inbox" / "inbox"
        os.truncate(path, os.path.getsize(path) - lost)
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            assert mixer.participants == 7
            with pytest.raises(InputError, match="needs 8"):
                mixer.shuffle(tmp_path / "batch")
            mixer.receive(sent[7])
            mixer.shuffle(tmp_path / "batch")
        assert sorted(messages_in(tmp_path / "batch")) == sorted(message for messages in sent for message in messages)

    @pytest.mark.parametrize("when", ["_scatter", "_mixed", "write_state"])
    def test_killed_in_the_middle_of_a_shuffle(self, when: str, tmp_path: Path) -> None:
        """Killed before the batch exists: no batch, and the next start mixes the same messages, not one more."""
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 9)
        batch = tmp_path / "batch"
        child = os.fork()
        if child == 0:
            try:
                mixer = Shuffler(tmp_path / "inbox", protocol)
                mixer.receive(*sent[:8])
                die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
                if when == "_mixed":
                    shuffler._mixed = die  # type: ignore[assignment]
                elif when == "_scatter":
                    Shuffler._scatter = die  # type: ignore[method-assign, assignment]
                else:
                    Shuffler._write_state = die  # type: ignore[method-assign]
                mixer.shuffle(batch)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert not batch.exists()
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            assert mixer.participants == 8
            assert not list((tmp_path / "inbox").glob("buckets-*"))
            if when != "write_state":  # closed on disk: whoever came now would stand out
                with pytest.raises(InputError, match="closed"):
                    mixer.receive(sent[8])
            mixer.shuffle(batch)
        assert sorted(messages_in(batch)) == sorted(message for messages in sent[:8] for message in messages)
        release = protocol.analyzer(KEY).analyze(batch)
        assert release.count.value == 8

    def test_messages_lost_after_closing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        protocol = small_protocol(8, 4)
        monkeypatch.setattr(Shuffler, "_scatter", lambda *_: 1 / 0)
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*submissions(protocol, 9))
            with pytest.raises(ZeroDivisionError):
                mixer.shuffle(tmp_path / "batch")
        path = tmp_path / "inbox" / "inbox"
        os.truncate(path, os.path.getsize(path) - 1)
        with pytest.raises(StorageError, match="were lost after the collection was closed"):
            Shuffler(tmp_path / "inbox", protocol)

    @pytest.mark.parametrize("content", [b"", b"[]", b'{"stage": "open"}'])
    def test_a_damaged_state(self, content: bytes, tmp_path: Path) -> None:
        Shuffler(tmp_path / "inbox", small_protocol(8, 4)).close()
        (tmp_path / "inbox" / "state.json").write_bytes(content)
        with pytest.raises(StorageError, match="is damaged"):
            Shuffler(tmp_path / "inbox", small_protocol(8, 4))

    def test_a_full_disk_leaves_the_inbox_as_it_was(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 8)
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*sent[:7])
            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "no space")))
                with pytest.raises(StorageError, match="full"):
                    mixer.receive(sent[7])
            assert mixer.participants == 7
            mixer.receive(sent[7])
            assert mixer.participants == 8


def test_nothing_but_messages_leaves(tmp_path: Path) -> None:
    protocol = small_protocol(8, 4)
    with Shuffler(tmp_path / "inbox", protocol) as mixer:
        mixer.receive(*submissions(protocol, 8))
        mixer.shuffle(tmp_path / "batch")
    assert set(vars(read_header(tmp_path / "batch"))) == {"fingerprint", "group", "participants", "messages"}
    assert sorted(path.name for path in (tmp_path / "inbox").iterdir()) == ["lock", "state.json"]
