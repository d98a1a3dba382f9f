"""The shuffler: collects sealed messages, forgets who sent them, waits for enough participants, and mixes them.

It cannot read a message and keeps nothing but messages: no time, no address, no order, no link between the messages of
one participant leaves it. Messages are mixed uniformly in two passes over the disk with bounded memory. A keyed hash of
each message, under a key that is drawn for this pass and then forgotten, chooses its bucket; copies of a message land
in the same bucket, where all but one are dropped. Each bucket is small enough for memory and is permuted by Fisher and
Yates's shuffle from secure bits. Distinct messages have independent uniform buckets, to anyone who does not hold the
key, so the whole is a uniform permutation.

Crashes. What a participant sent is one record of the inbox, on disk before it is acknowledged; a record that was cut
off is forgotten when the shuffler starts again, and that participant sends the same messages again (a participant
whose acknowledgement was lost too: a record that is there already does not count twice). Closing the collection is
written down before anything is shuffled; from then on nobody is let in, so that a shuffle that was interrupted and
starts again mixes the same messages. The batch appears whole or not at all, and the inbox is removed after it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from sfumato.errors import InputError, StorageError
from sfumato.privacy.bits import SecureBits
from sfumato.shuffled.batch import Header, write_batch
from sfumato.shuffled.permuting import permutation
from sfumato.shuffled.sealing import MESSAGE_BYTES
from sfumato.storage import AtomicFile, storage_errors

if TYPE_CHECKING:
    from sfumato.shuffled.protocol import Protocol

MEMORY = 1 << 28
SMALLEST_MEMORY = 1 << 20
MOST_BUCKETS = 512
_SHARE = 6  # a bucket, its copies while it is sorted and permuted, and the buffers
_RECORD = struct.Struct("<Q16s")
_OPEN, _CLOSED, _DONE = "open", "closed", "done"


class Shuffler:
    """The shuffler of one group of participants, with its state in a folder of its own.

    Parameters
    ----------
    folder : str or Path
        Where messages wait; made if it does not exist, taken up again if it does.
    protocol : Protocol
        The public document.
    label : int or str, optional
        The class of the group, where there are classes.
    memory : int
        Bytes to use at most for messages, beside the interpreter, about two megabytes for random bits, and about 100
        bytes for each participant.

    Examples
    --------
    >>> import tempfile
    >>> from sfumato.shuffled import AnalyzerKey, Protocol
    >>> key = AnalyzerKey.generate()
    >>> protocol = Protocol("gaussian", bandwidth=1.0, dimension=1, epsilon=1, delta=1e-2, participants=3,
    ...                     instances=2, key=key)
    >>> with tempfile.TemporaryDirectory() as folder, Shuffler(f"{folder}/inbox", protocol) as shuffler:
    ...     for point in ([0.0], [1.0], [2.0]):
    ...         shuffler.receive(protocol.client().messages(point))
    ...     shuffler.shuffle(f"{folder}/batch")
    ...     protocol.analyzer(key).analyze(f"{folder}/batch").count.value
    3
    """

    def __init__(self, folder: str | Path, protocol: Protocol, label: Any = None, *, memory: int = MEMORY) -> None:
        if isinstance(memory, bool) or not isinstance(memory, int) or memory < SMALLEST_MEMORY:
            raise InputError(f"memory must be at least {SMALLEST_MEMORY} bytes, got {memory!r}")
        if protocol.classes is not None and label is None:
            raise InputError("the protocol has classes: pass label=, the class whose messages are shuffled here")
        self._place, group = protocol.group(label)
        self._minimum = group.participants
        self._each = protocol.features.instances if group.every_instance else None
        self._fingerprint = protocol.fingerprint
        self._folder, self._memory = Path(folder), memory
        self._known: set[bytes] = set()
        self._lock: BinaryIO | None = None
        self._inbox: BinaryIO | None = None
        self._open()

    def _open(self) -> None:
        with storage_errors("use", self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = open(self._folder / "lock", "wb")  # noqa: SIM115 - held until `close`
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.close()
                raise InputError(
                    f"another shuffler is using {str(self._folder)!r}; stop it, or pass another folder"
                ) from None
            for left in self._folder.glob("buckets-*"):
                shutil.rmtree(left)
            try:
                self._state = self._read_state()
                if self._state["stage"] != _DONE:
                    self._inbox = self._recover()
            except BaseException:
                self.close()
                raise

    def _read_state(self) -> dict[str, Any]:
        mine = {"fingerprint": self._fingerprint, "group": self._place}
        path = self._folder / "state.json"
        if not path.exists():
            self._write_state({**mine, "stage": _OPEN, "bytes": None, "participants": None})
            return self._state
        try:
            state: dict[str, Any] = json.loads(path.read_bytes())
            known = {name: state[name] for name in mine}
        except (KeyError, TypeError, ValueError):
            raise StorageError(
                f"the shuffler's state in {str(path)!r} is damaged; start again in a new folder"
            ) from None
        if known != mine:
            raise InputError(f"{str(self._folder)!r} holds messages of another protocol or class; pass another folder")
        return state

    def _write_state(self, state: dict[str, Any]) -> None:
        with AtomicFile(self._folder / "state.json", overwrite=True) as file:
            file.write(json.dumps(state).encode())
        self._state = state

    def _recover(self) -> BinaryIO:
        """Take up the inbox again: whole records stay, one that was cut off at the end is forgotten."""
        path = self._folder / "inbox"
        path.touch()
        inbox = open(path, "r+b", buffering=0)  # noqa: SIM115 - kept until `close`
        size, good = os.fstat(inbox.fileno()).st_size, 0
        while good + _RECORD.size <= size:
            count, digest = _RECORD.unpack(_read(inbox, good, _RECORD.size))
            end = good + _RECORD.size + count * MESSAGE_BYTES
            if end > size or _digest_of(_pieces(inbox, good + _RECORD.size, end, self._piece)) != digest:
                break
            self._known.add(digest)
            good = end
        if self._state["stage"] == _CLOSED and (good, len(self._known)) != (
            self._state["bytes"],
            self._state["participants"],
        ):
            raise StorageError(f"messages in {str(path)!r} were lost after the collection was closed; it cannot go on")
        inbox.truncate(good)
        inbox.seek(good)
        return inbox

    @property
    def _piece(self) -> int:
        """Bytes to handle at once, whole messages."""
        return max(1, self._memory // (_SHARE * MESSAGE_BYTES)) * MESSAGE_BYTES

    @property
    def participants(self) -> int:
        """How many participants have sent their messages."""
        return len(self._known) if self._state["stage"] != _DONE else int(self._state["participants"])

    def receive(self, *submissions: Sequence[bytes]) -> None:
        """Take what participants send, each the list of all messages of one; on disk when this returns.

        Sending the same messages again, because an acknowledgement was lost, changes nothing. For the same reason
        participants who have nothing to send (with a small message budget) count as one.

        Raises
        ------
        InputError
            If the collection is closed, or a submission is not whole.
        """
        inbox = self._inbox
        if self._state["stage"] != _OPEN or inbox is None:
            raise InputError("the collection is closed: later messages would stand out; send them to a new collection")
        contents = [self._checked(messages) for messages in submissions]
        fresh: set[bytes] = set()
        with storage_errors("write", self._folder / "inbox"):
            start = inbox.tell()
            try:
                for count, content in contents:
                    digest = _digest_of([content])
                    if digest not in self._known and digest not in fresh:
                        inbox.write(_RECORD.pack(count, digest) + content)
                        fresh.add(digest)
                os.fsync(inbox.fileno())
            except OSError:
                inbox.truncate(start)
                inbox.seek(start)
                raise
        self._known |= fresh

    def _checked(self, messages: Sequence[bytes]) -> tuple[int, bytes]:
        if any(len(message) != MESSAGE_BYTES for message in messages):
            raise InputError(f"every message has {MESSAGE_BYTES} bytes; this submission is damaged: send it again")
        if self._each is not None and len(messages) != self._each:
            raise InputError(
                f"a participant of this protocol sends {self._each} messages; got {len(messages)}: send all of them"
            )
        return len(messages), b"".join(messages)

    def shuffle(self, path: str | Path, *, overwrite: bool = False, secure: SecureBits | None = None) -> None:
        """Close the collection and write the batch of all messages in random order.

        Parameters
        ----------
        path : str or Path
            The batch to write.
        overwrite : bool
            Whether an existing file may be replaced.
        secure : SecureBits, optional
            Where the order comes from; secret by default.

        Raises
        ------
        InputError
            If too few participants sent their messages: nothing is closed or written then.
        """
        if self._state["stage"] == _DONE:
            raise InputError("this collection was shuffled already; its batch exists, and a second one is not made")
        participants = self.participants
        if participants < self._minimum:
            raise InputError(
                f"{participants} participants sent messages and the guarantee needs {self._minimum}: wait for more, "
                "or start a collection for fewer"
            )
        assert self._inbox is not None
        size = self._inbox.tell()
        if self._state["stage"] == _OPEN:
            self._write_state({**self._state, "stage": _CLOSED, "bytes": size, "participants": participants})
        folder = self._folder / f"buckets-{secrets.token_hex(8)}"
        with storage_errors("write", folder):
            folder.mkdir()
            try:
                count, buckets = self._scatter(folder, size)
                header = Header(self._fingerprint, self._place, participants, count)
                secure = SecureBits() if secure is None else secure
                write_batch(path, header, (_mixed(bucket, secure) for bucket in buckets), overwrite)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            self._write_state({**self._state, "stage": _DONE})
            self._inbox.close()
            self._inbox = None
            (self._folder / "inbox").unlink()

    def _scatter(self, folder: Path, size: int) -> tuple[int, list[Path]]:
        """Write messages to buckets by a keyed hash, drop copies, and count what is left."""
        buckets = -(-size * _SHARE // self._memory)
        if buckets > MOST_BUCKETS:
            raise InputError(
                f"the batch is {size} bytes; pass memory= of at least {-(-size * _SHARE // MOST_BUCKETS)} for it"
            )
        key, names = secrets.token_bytes(32), [folder / str(number) for number in range(buckets)]
        with ExitStack() as stack:
            buffer = max(4096, self._memory // (_SHARE * buckets))
            files = [stack.enter_context(open(name, "wb", buffering=buffer)) for name in names]
            for piece in self._messages(size):
                for start in range(0, len(piece), MESSAGE_BYTES):
                    message = piece[start : start + MESSAGE_BYTES]
                    word = hashlib.blake2b(message, digest_size=8, key=key).digest()
                    files[int.from_bytes(word, "little") * buckets >> 64].write(message)
        return sum(_without_copies(name) for name in names), names

    def _messages(self, size: int) -> Iterator[bytes]:
        assert self._inbox is not None
        at = 0
        while at < size:
            count, _ = _RECORD.unpack(_read(self._inbox, at, _RECORD.size))
            start, at = at + _RECORD.size, at + _RECORD.size + count * MESSAGE_BYTES
            yield from _pieces(self._inbox, start, at, self._piece)

    def close(self) -> None:
        """Let go of the folder; messages stay in it."""
        for file in (self._inbox, self._lock):
            if file is not None:
                file.close()
        self._inbox = self._lock = None

    def __enter__(self) -> Shuffler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read(file: BinaryIO, start: int, size: int) -> bytes:
    content = os.pread(file.fileno(), size, start)
    if len(content) != size:
        raise StorageError("the shuffler's inbox was cut off while it was read; start again in a new folder")
    return content


def _pieces(file: BinaryIO, start: int, end: int, size: int) -> Iterator[bytes]:
    for at in range(start, end, size):
        yield _read(file, at, min(size, end - at))


def _digest_of(pieces: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def _without_copies(path: Path) -> int:
    """Leave one of each message in a bucket, and count them."""
    content = np.fromfile(path, dtype=f"V{MESSAGE_BYTES}")
    distinct = np.unique(content)
    if distinct.size < content.size:
        distinct.tofile(path)
    return int(distinct.size)


def _mixed(path: Path, secure: SecureBits) -> bytes:
    content = np.fromfile(path, dtype=f"V{MESSAGE_BYTES}")
    return content[permutation(secure, content.size)].tobytes()
