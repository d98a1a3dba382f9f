"""The shuffler: uniform, bounded in memory, strict about numbers, and hard to kill."""

from __future__ import annotations

import json
import os
import resource
import signal
import tracemalloc
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import InputError, StorageError
from sfumato.privacy.bits import SecureBits
from sfumato.shuffled import Protocol, Shuffler, Submission, shuffler
from sfumato.shuffled.bitsum.shares import permutation
from sfumato.shuffled.inbox import Inbox
from sfumato.shuffled.messages import read_batch, read_header
from sfumato.shuffled.sealing import MESSAGE_BYTES
from sfumato.storage import AtomicFile
from tests.shuffled.collections_for_tests import KEY, batch_of, client_of, opened, small_protocol, submissions

FALSE_ALARM = 1e-6


def made_up(count: int, seed: int = 0) -> Submission:
    """Bytes of the right length that need not open: the shuffler does not look."""
    content = np.random.default_rng(seed).bytes(count * MESSAGE_BYTES)
    return Submission(content[start : start + MESSAGE_BYTES] for start in range(0, len(content), MESSAGE_BYTES))


def messages_in(path: Path) -> list[bytes]:
    content = b"".join(read_batch(path))
    return [content[start : start + MESSAGE_BYTES] for start in range(0, len(content), MESSAGE_BYTES)]


class TestOrder:
    def test_permutations_are_uniform(self) -> None:
        secure = SecureBits.seeded(3)
        seen = Counter(tuple(permutation(secure, 4).tolist()) for _ in range(4800))
        assert set(seen) == set(permutations(range(4)))
        assert stats.chisquare(list(seen.values())).pvalue > FALSE_ALARM

    def test_orders_of_batches_are_uniform(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Four messages: all orders are as likely."""
        monkeypatch.setattr(os, "fsync", lambda _: None)  # thousands of them, and nothing crashes here
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

    @pytest.mark.once
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

    @pytest.mark.once
    def test_a_batch_beyond_all_buckets_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shuffler, "MOST_BUCKETS", 1)
        with Shuffler(tmp_path / "inbox", small_protocol(1, 2000), memory=1 << 20) as mixer:
            mixer.receive(*(made_up(2000, seed) for seed in range(10)))
            with pytest.raises(InputError, match=r"pass memory= of at least \d+ bytes .*\(--memory 7, in megabytes"):
                mixer.shuffle(tmp_path / "batch")


class TestNumbers:
    @pytest.mark.once
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

    @pytest.mark.once
    def test_a_client_that_drops_out_is_not_counted(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 8)
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*sent[:7])
            with pytest.raises(InputError, match="sends 4 messages; got 3"):
                mixer.receive(Submission(sent[7][:3]))
            with pytest.raises(InputError, match="damaged"):
                mixer.receive(Submission([sent[7][0][:-1], *sent[7][1:]]))
            assert mixer.participants == 7
            with pytest.raises(InputError, match="needs 8"):
                mixer.shuffle(tmp_path / "batch")

    @pytest.mark.once
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

    @pytest.mark.once
    def test_copies_of_single_messages_are_dropped(self, tmp_path: Path) -> None:
        """Somebody sends another participant's messages among their own, to see them twice."""
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 8)
        thief = Submission([*sent[0][:3], sent[1][0]])
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*sent, thief)
            mixer.shuffle(tmp_path / "batch")
        assert sorted(messages_in(tmp_path / "batch")) == sorted(message for messages in sent for message in messages)

    @pytest.mark.once
    def test_people_with_nothing_to_say_count(self, tmp_path: Path) -> None:
        """Of 50 people 20 send nothing but cover: all 50 are counted, across a restart and a retry."""
        options: dict[str, Any] = {"epsilon": 4, "delta": 1e-2, "participants": 50, "key": KEY}
        protocol = Protocol("inner-product", dimension=1, bitsum="poisson", seed=1, **options)
        sent: dict[bool, list[Submission]] = {True: [], False: []}
        secure = SecureBits.seeded(1)
        for number in range(200):
            made = client_of(protocol).messages([1.0 if number % 2 else -1.0], secure=secure)
            sent[len(opened(protocol, made)) > 0].append(made)
        people = [*sent[True][:30], *sent[False][:20]]
        assert len(people) == 50
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*people)
            mixer.receive(*people[-3:])  # a retry is one person still
            assert mixer.participants == 50
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.shuffle(tmp_path / "batch")
        assert read_header(tmp_path / "batch").participants == 50
        assert protocol.analyzer(KEY).analyze(tmp_path / "batch").count.value == 50

    def test_answers_are_unbiased_where_many_say_nothing(self, tmp_path: Path) -> None:
        """A budget of one message in 16 instances: a third of the people has nothing to say. Alarm at 6 deviations."""
        protocol = small_protocol(100, 16, messages=1.0)
        sent = submissions(protocol, 400)
        assert sum(not opened(protocol, messages) for messages in sent) > 50
        release = protocol.analyzer(KEY).analyze(batch_of(protocol, sent, tmp_path))
        assert release.count.value == 400
        X = np.arange(400)[:, None] / 10
        own = release.reader.encode(X).sum(axis=0)
        deviation = (np.asarray(release.values) - own) / np.sqrt(release.noise.variance)
        assert abs(deviation.mean()) < 6 / np.sqrt(deviation.size)

    @pytest.mark.once
    def test_identities_stay_with_the_shuffler(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 8)
        batch = batch_of(protocol, sent, tmp_path).read_bytes()
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.forget()
        left = b"".join(path.read_bytes() for path in (tmp_path / "inbox").iterdir())
        assert all(made.identity not in batch and made.identity not in left for made in sent)

    @pytest.mark.once
    def test_nobody_comes_late(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 9)
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*sent[:8])
            mixer.shuffle(tmp_path / "batch")
            with pytest.raises(InputError, match="the collection is closed"):
                mixer.receive(sent[8])
            mixer.forget()
            with pytest.raises(InputError, match="the collection is closed"):
                mixer.receive(sent[8])
            with pytest.raises(InputError, match="messages forgotten"):
                mixer.shuffle(tmp_path / "second")
        with Shuffler(tmp_path / "inbox", protocol) as again, pytest.raises(InputError, match="messages forgotten"):
            again.shuffle(tmp_path / "second")

    @pytest.mark.once
    def test_a_folder_of_another_protocol(self, tmp_path: Path) -> None:
        Shuffler(tmp_path / "inbox", small_protocol(8, 4)).close()
        with pytest.raises(InputError, match="another protocol or class"):
            Shuffler(tmp_path / "inbox", small_protocol(9, 4))

    @pytest.mark.once
    def test_two_shufflers_of_one_folder(self, tmp_path: Path) -> None:
        with (
            Shuffler(tmp_path / "inbox", small_protocol(8, 4)),
            pytest.raises(InputError, match="another shuffler is using"),
        ):
            Shuffler(tmp_path / "inbox", small_protocol(8, 4))


@pytest.mark.once
class TestCrashes:
    @pytest.mark.parametrize("lost", [1, 30, 4 * MESSAGE_BYTES, 4 * MESSAGE_BYTES + 20])
    def test_a_record_that_was_cut_off_is_forgotten(self, lost: int, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 8)
        path, state = tmp_path / "inbox" / "inbox", tmp_path / "inbox" / "state.json"
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*sent)
            before = state.read_bytes()
        state.write_bytes(before)  # as if it had been killed
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
                    shuffler._scatter = die  # type: ignore[assignment]
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
        monkeypatch.setattr(shuffler, "_scatter", lambda *_: 1 / 0)
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*submissions(protocol, 9))
            with pytest.raises(ZeroDivisionError):
                mixer.shuffle(tmp_path / "batch")
        path = tmp_path / "inbox" / "inbox"
        os.truncate(path, os.path.getsize(path) - 1)
        with pytest.raises(StorageError, match="holds 8 whole submissions, and 9 were acknowledged"):
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
                with pytest.raises(StorageError, match="full.* has the messages of 7 people and keeps them") as caught:
                    mixer.receive(sent[7])
                assert caught.value.errno == 28
            assert mixer.participants == 7
            mixer.receive(sent[7])
            assert mixer.participants == 8
            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "no space")))
                with pytest.raises(StorageError, match="full.* has the messages of 8 people and keeps them"):
                    mixer.shuffle(tmp_path / "batch")
            mixer.shuffle(tmp_path / "batch")

    def test_a_short_write_is_not_acknowledged(self, tmp_path: Path) -> None:
        """The disk takes a part of a record, then nothing."""
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 8)
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(sent[0])
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            size = os.path.getsize(tmp_path / "inbox" / "inbox")
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, limits[1]))
            try:
                with pytest.raises(StorageError, match="cannot write"):
                    mixer.receive(sent[1])
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            assert mixer.participants == 1 and os.path.getsize(tmp_path / "inbox" / "inbox") == size
            mixer.receive(*sent)
            mixer.shuffle(tmp_path / "batch")
        assert sorted(messages_in(tmp_path / "batch")) == sorted(message for messages in sent for message in messages)

    def test_a_disk_that_takes_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        inbox = Inbox(tmp_path / "inbox", 1 << 20)
        real = inbox._file

        class Full:
            def write(self, _: bytes) -> int:
                return 0

            def __getattr__(self, name: str) -> object:
                return getattr(real, name)

        monkeypatch.setattr(inbox, "_file", Full())
        with pytest.raises(StorageError, match="full"):
            inbox.add([Submission([])])
        assert not inbox.known
        inbox.close()

    @pytest.mark.parametrize("at", [0, 20, 30, 60, 200])
    def test_damage_before_the_last_record_is_refused(self, at: int, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        path = tmp_path / "inbox" / "inbox"
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*submissions(protocol, 8))
            content = bytearray(path.read_bytes())
            content[at] ^= 1
            path.write_bytes(content)
            with pytest.raises(StorageError, match=r"are damaged, .* in a new folder$"):
                mixer.shuffle(tmp_path / "batch")
            assert json.loads((tmp_path / "inbox" / "state.json").read_text())["stage"] == "open"
        with pytest.raises(StorageError, match="are damaged"):
            Shuffler(tmp_path / "inbox", protocol)
        assert path.read_bytes() == content

    def test_a_path_that_is_taken_closes_nothing(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 9)
        (tmp_path / "batch").touch()
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*sent[:8])
            with pytest.raises(InputError, match="exists already"):
                mixer.shuffle(tmp_path / "batch")
            mixer.receive(sent[8])
            mixer.shuffle(tmp_path / "batch", overwrite=True)
        assert read_header(tmp_path / "batch").participants == 9

    @pytest.mark.parametrize("when", ["closed", "written", "forgotten"])
    def test_interrupted_and_run_again(self, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The same calls again finish, mix the same messages, and leave no inbox behind once it is forgotten."""
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 9)
        batch, write = tmp_path / "batch", Shuffler._write_state

        def interrupted(mixer: Shuffler, state: dict[str, object]) -> None:
            write(mixer, state)
            if when == "forgotten" and state["stage"] == "forgotten":
                raise KeyboardInterrupt

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        def run(mixer: Shuffler) -> None:
            mixer.shuffle(batch)
            if when == "written":
                stop()
            mixer.forget()

        with monkeypatch.context() as patch, Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*sent[:8])
            patch.setattr(Shuffler, "_write_state", interrupted)
            if when == "closed":
                patch.setattr(shuffler, "_scatter", stop)
            with pytest.raises(KeyboardInterrupt):
                run(mixer)
        written = batch.read_bytes() if batch.exists() else None
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            assert mixer.participants == 8
            with pytest.raises(InputError, match="closed"):
                mixer.receive(sent[8])
            if when != "forgotten":
                mixer.receive(*sent[:8])
                mixer.shuffle(batch)
                mixer.forget()
        assert written is None or batch.read_bytes() == written
        assert sorted(messages_in(batch)) == sorted(message for messages in sent[:8] for message in messages)
        assert not (tmp_path / "inbox" / "inbox").exists()

    @pytest.mark.parametrize("before", [False, True])
    def test_forgetting_needs_a_batch_that_appeared(
        self, before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Stopped between the checksum and the batch's name: the inbox is the only copy, also of a batch made again."""
        protocol, batch, commit = small_protocol(8, 4), tmp_path / "batch", AtomicFile._commit
        sent = submissions(protocol, 8)

        def stopped(file: AtomicFile) -> None:
            if file.path == str(batch):
                raise KeyboardInterrupt
            commit(file)

        with monkeypatch.context() as patch, Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*sent)
            if before:
                mixer.shuffle(batch)
                batch.unlink()
            patch.setattr(AtomicFile, "_commit", stopped)
            with pytest.raises(KeyboardInterrupt):
                mixer.shuffle(batch)
        assert not batch.exists()
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            with pytest.raises(InputError, match="no batch was made"):
                mixer.forget()
            mixer.shuffle(batch)
            mixer.forget()
        assert sorted(messages_in(batch)) == sorted(message for messages in sent for message in messages)

    def test_stopped_after_the_batch_appeared(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The batch is there and nobody wrote that down: the same command keeps it, and then it can be forgotten."""
        protocol, batch, write = small_protocol(8, 4), tmp_path / "batch", Shuffler._write_state

        def stopped(mixer: Shuffler, state: dict[str, object]) -> None:
            if state["stage"] == "delivered":
                raise KeyboardInterrupt
            write(mixer, state)

        with monkeypatch.context() as patch, Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*submissions(protocol, 8))
            patch.setattr(Shuffler, "_write_state", stopped)
            with pytest.raises(KeyboardInterrupt):
                mixer.shuffle(batch)
        written = batch.read_bytes()
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            with pytest.raises(InputError, match="no batch was made"):
                mixer.forget()
            mixer.shuffle(batch)
            mixer.forget()
        assert batch.read_bytes() == written

    def test_another_batch_is_not_taken_for_its_own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        protocol = small_protocol(8, 4)
        batch_of(protocol, submissions(protocol, 8), tmp_path / "other")
        with monkeypatch.context() as patch, Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*submissions(protocol, 8))
            patch.setattr(shuffler, "_scatter", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                mixer.shuffle(tmp_path / "batch")
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            with pytest.raises(InputError, match="exists already"):
                mixer.shuffle(tmp_path / "other" / "batch")
            mixer.shuffle(tmp_path / "batch")


@pytest.mark.once
def test_nothing_but_messages_leaves(tmp_path: Path) -> None:
    protocol = small_protocol(8, 4)
    with Shuffler(tmp_path / "inbox", protocol) as mixer:
        mixer.receive(*submissions(protocol, 8))
        mixer.shuffle(tmp_path / "batch")
        mixer.forget()
    assert set(vars(read_header(tmp_path / "batch"))) == {"fingerprint", "group", "participants", "messages"}
    assert sorted(path.name for path in (tmp_path / "inbox").iterdir()) == ["lock", "state.json"]
