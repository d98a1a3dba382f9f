"""The shuffler's folder: whose it is, who may read it, what damage does; batches made again, and identities."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import InputError, StorageError
from sfumato.shuffled import Shuffler, Submission, shuffler
from sfumato.shuffled.inbox import StateFolder
from sfumato.shuffled.messages import read_batch
from sfumato.shuffled.sealing import MESSAGE_BYTES
from tests.shuffled.collections_for_tests import KEY, batch_of, small_protocol, submissions

pytestmark = pytest.mark.once


def contents(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    """Mode and bytes of everything in a folder."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, path.read_bytes() if path.is_file() else None)
        for path in sorted(folder.rglob("*"))
    }


def messages_in(path: Path) -> list[bytes]:
    content = b"".join(read_batch(path))
    return [content[start : start + MESSAGE_BYTES] for start in range(0, len(content), MESSAGE_BYTES)]


class TestWhose:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("thesis.txt", b""),
            ("inbox", b""),
            ("inbox", b"years of work"),
            ("state.json", b"{}"),
            ("lock", b"years of work"),
            ("buckets-0123456789abcdef/mine", b"years of work"),
        ],
    )
    def test_a_folder_with_other_files_is_refused_untouched(self, name: str, content: bytes, tmp_path: Path) -> None:
        folder = tmp_path / "work"
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(content)
        before = contents(folder)
        with pytest.raises(InputError, match="none of them was touched"):
            Shuffler(folder, small_protocol(8, 4))
        assert contents(folder) == before

    def test_a_state_without_its_marker_is_told_with_what_may_be_lost(self, tmp_path: Path) -> None:
        folder, made = tmp_path / "inbox of mine", small_protocol(8, 4)
        with Shuffler(folder, made) as mixer:
            mixer.receive(*submissions(made, 2))
        (folder / "lock").unlink()
        before = contents(folder)
        with pytest.raises(InputError, match=r"others may be missing too.*messages that were acknowledged") as told:
            Shuffler(folder, made)
        assert contents(folder) == before
        subprocess.run(["sh", "-c", str(told.value).rpartition("make it again: ")[2]], check=True)
        with Shuffler(folder, made) as mixer:
            assert mixer.participants == 2

    def test_a_disk_without_locks_is_told_with_what_to_do(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(descriptor: int, operation: int) -> None:
            raise OSError(errno.ENOSYS, "Function not implemented")

        monkeypatch.setattr(fcntl, "flock", refuse)
        with pytest.raises(StorageError, match=r"cannot lock files \(Function not.*on a local disk \(--state"):
            Shuffler(tmp_path / "inbox", small_protocol(8, 4))

    def test_a_lock_among_other_files_is_no_marker(self, tmp_path: Path) -> None:
        (tmp_path / "lock").touch()
        (tmp_path / "inbox").write_bytes(b"years of work")
        with pytest.raises(InputError, match="none of them was touched"):
            Shuffler(tmp_path, small_protocol(8, 4))
        assert (tmp_path / "inbox").read_bytes() == b"years of work"

    @pytest.mark.parametrize("left", [None, "", "lock"])
    def test_new_empty_or_killed_before_the_marker(self, left: str | None, tmp_path: Path) -> None:
        folder = tmp_path / "inbox"
        if left is not None:
            folder.mkdir()
        if left:
            (folder / left).touch()
        for _ in range(2):
            Shuffler(folder, small_protocol(8, 4)).close()

    def test_only_our_own_leavings_are_swept(self, tmp_path: Path) -> None:
        Shuffler(tmp_path, small_protocol(8, 4)).close()
        ours = [tmp_path / "buckets-0123456789abcdef" / "7", tmp_path / ".sfumato-0123456789abcdef.tmp"]
        others = [tmp_path / "buckets-mine" / "7", tmp_path / ".sfumato-notes.tmp", tmp_path / "buckets-2027"]
        for path in (*ours, *others):
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"x")
        Shuffler(tmp_path, small_protocol(8, 4)).close()
        assert not any(path.exists() for path in ours) and all(path.exists() for path in others)

    def test_nobody_else_reads_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        protocol, folder, seen = small_protocol(8, 4), tmp_path / "state", list[int]()
        scatter = shuffler._scatter

        def watched(buckets: Path, *rest: Any) -> object:
            seen.append(stat.S_IMODE(buckets.stat().st_mode))
            return scatter(buckets, *rest)

        monkeypatch.setattr(shuffler, "_scatter", watched)
        before = os.umask(0)
        try:
            with Shuffler(folder, protocol) as mixer:
                mixer.receive(*submissions(protocol, 8))
                mixer.shuffle(tmp_path / "batch")
        finally:
            os.umask(before)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and seen == [0o700]
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
        assert modes == {"inbox": 0o600, "lock": 0o600, "state.json": 0o600}

    @pytest.mark.parametrize("name", ["inbox", "state.json", "lock", "batch", "../state/inbox"])
    def test_a_batch_does_not_go_into_it(self, name: str, tmp_path: Path) -> None:
        protocol, folder = small_protocol(8, 4), tmp_path / "state"
        with Shuffler(folder, protocol) as mixer:
            mixer.receive(*submissions(protocol, 8))
            before = contents(folder)
            with pytest.raises(InputError, match="own folder"):
                mixer.shuffle(folder / name, overwrite=True)
            assert contents(folder) == before


class TestDamage:
    def test_every_flipped_bit_of_the_state_is_found(self, tmp_path: Path) -> None:
        Shuffler(tmp_path, small_protocol(8, 4)).close()
        path = tmp_path / "state.json"
        content = path.read_bytes()
        for place in range(len(content)):
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises((StorageError, InputError), match="is damaged"):
                Shuffler(tmp_path, small_protocol(8, 4))

    @pytest.mark.parametrize("content", [b"", b"[" * 9000, b'{"checksum": 1}', b"\xff" * 40, b"null"])
    def test_states_that_are_none(self, content: bytes, tmp_path: Path) -> None:
        Shuffler(tmp_path, small_protocol(8, 4)).close()
        (tmp_path / "state.json").write_bytes(content)
        with pytest.raises(StorageError, match="collect again in a new folder"):
            Shuffler(tmp_path, small_protocol(8, 4))

    def test_messages_without_a_state_are_not_opened_again(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        batch_of(protocol, submissions(protocol, 8), tmp_path)
        (tmp_path / "inbox" / "state.json").unlink()
        with pytest.raises(StorageError, match="whether the collection is closed"):
            Shuffler(tmp_path / "inbox", protocol)

    def test_every_flipped_bit_of_the_messages_is_found(self, tmp_path: Path) -> None:
        """Also in the last submission, which was acknowledged: the number that was written down says so."""
        protocol = small_protocol(8, 4)
        with Shuffler(tmp_path, protocol) as mixer:
            mixer.receive(*submissions(protocol, 2))
        path = tmp_path / "inbox"
        content = path.read_bytes()
        for place in range(len(content)):
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(StorageError, match="restore the file from a backup"):
                Shuffler(tmp_path, protocol)

    @pytest.mark.parametrize("lost", [1, 100, 300])
    def test_messages_that_were_cut_off_after_a_clean_end(self, lost: int, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        with Shuffler(tmp_path, protocol) as mixer:
            mixer.receive(*submissions(protocol, 8))
        os.truncate(tmp_path / "inbox", (tmp_path / "inbox").stat().st_size - lost)
        with pytest.raises(StorageError, match="whole submissions, and 8 were acknowledged"):
            Shuffler(tmp_path, protocol)


class TestIdentities:
    def test_another_content_is_refused(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 9)
        other = Submission(sent[8], sent[0].identity)
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(sent[0])
            with pytest.raises(InputError, match="came before with other messages"):
                mixer.receive(sent[1], other)
            assert mixer.participants == 1  # the other one of that call was not taken either
            mixer.receive(sent[0], *sent[1:8])
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            with pytest.raises(InputError, match="came before with other messages"):
                mixer.receive(other)
            mixer.shuffle(tmp_path / "batch")
            mixer.receive(sent[0])
            with pytest.raises(InputError, match="came before with other messages"):
                mixer.receive(other)
        assert sorted(messages_in(tmp_path / "batch")) == sorted(message for made in sent[:8] for message in made)

    def test_two_in_one_call(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 2)
        with Shuffler(tmp_path, protocol) as mixer:
            with pytest.raises(InputError, match="came before with other messages"):
                mixer.receive(sent[0], Submission(sent[1], sent[0].identity))
            assert mixer.participants == 0
            mixer.receive(sent[0], sent[0])
            assert mixer.participants == 1

    def test_a_submission_that_was_altered_on_its_way(self) -> None:
        content = submissions(small_protocol(8, 4), 1)[0].to_bytes()
        for place in range(len(content)):
            with pytest.raises(InputError, match="damaged"):
                Submission.from_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        for size in range(0, len(content), 7):
            with pytest.raises(InputError, match="damaged"):
                Submission.from_bytes(content[:size])


class TestAgain:
    def test_a_batch_is_made_again_until_it_is_forgotten(self, tmp_path: Path) -> None:
        """The same messages in another order, from the same process or another, also where the first is lost."""
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 8)
        everything = sorted(message for made in sent for message in made)
        first, second, third = (tmp_path / name for name in ("first", "second", "third"))
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.receive(*sent)
            with pytest.raises(InputError, match="no batch was made"):
                mixer.forget()
            mixer.shuffle(first)
            mixer.shuffle(second)
        orders = [messages_in(path) for path in (first, second)]
        first.unlink()
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            mixer.shuffle(third)
            mixer.forget()
            mixer.forget()
        orders.append(messages_in(third))
        assert all(sorted(order) == everything for order in orders)
        assert orders[0] != orders[1] != orders[2] != orders[0]  # the same with probability 3/32!
        releases = [protocol.analyzer(KEY).analyze(path) for path in (second, third)]
        assert releases[0].values.tolist() == releases[1].values.tolist()
        assert not (tmp_path / "inbox" / "inbox").exists()


def test_a_folder_is_one_shufflers_at_a_time(tmp_path: Path) -> None:
    first = StateFolder(tmp_path / "state")
    with pytest.raises(InputError, match="another shuffler is using"):
        StateFolder(tmp_path / "state")
    first.close()
    StateFolder(tmp_path / "state").close()
