"""The shuffler: collects sealed messages, forgets who sent them, waits for enough participants, and mixes them.

It cannot read a message and keeps nothing but messages: no time, no address, no order, no link between the messages of
one participant leaves it. Messages are mixed uniformly in two passes over the disk with bounded memory. A keyed hash of
each message, under a key that is drawn for this pass and then forgotten, chooses its bucket; copies of a message land
in the same bucket, where all but one are dropped. Each bucket is small enough for memory and is permuted by Fisher and
Yates's shuffle from secure bits. Distinct messages have independent uniform buckets, to anyone who does not hold the
key, so the whole is a uniform permutation.

Crashes. What a participant sent is one record of the inbox, on disk before it is acknowledged; a record that was cut
off is forgotten when the shuffler starts again, and that participant sends the same submission again (so does one whose
acknowledgement was lost: a submission has an identity of its own and does not count twice). Closing the collection is
written down before anything is shuffled; from then on nobody is let in, so that a shuffle that was interrupted and
starts again mixes the same messages. The batch appears whole or not at all. Its checksum is written down before it
appears, so that a start after that knows it again; the inbox is removed after it, with all identities.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import secrets
import shutil
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from sfumato.errors import InputError, StorageError
from sfumato.privacy.bits import SecureBits
from sfumato.shuffled.batch import Header, write_batch_to, written_batch
from sfumato.shuffled.inbox import Inbox
from sfumato.shuffled.permuting import permutation
from sfumato.shuffled.sealing import MESSAGE_BYTES
from sfumato.shuffled.submission import Submission
from sfumato.storage import AtomicFile, private_folder, private_opener, storage_errors

if TYPE_CHECKING:
    from sfumato.shuffled.protocol import Protocol

MEMORY = 1 << 28
SMALLEST_MEMORY = 1 << 20
MOST_BUCKETS = 512
_SHARE = 6  # a bucket, its copies while it is sorted and permuted, and the buffers
_OPEN, _CLOSED, _DONE = "open", "closed", "done"
_NEW = {"stage": _OPEN, "bytes": None, "participants": None, "batch": None}


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
        self._inbox: Inbox | None = None
        self._open()

    def _open(self) -> None:
        with storage_errors("use", self._folder):
            private_folder(self._folder)
            self._lock = open(self._folder / "lock", "wb", opener=private_opener)  # noqa: SIM115 - held until `close`
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
                if self._state["stage"] == _DONE:
                    (self._folder / "inbox").unlink(missing_ok=True)  # it was killed between the two
                else:
                    self._inbox = self._recover()
            except BaseException:
                self.close()
                raise

    def _read_state(self) -> dict[str, Any]:
        mine = {"fingerprint": self._fingerprint, "group": self._place}
        path = self._folder / "state.json"
        if not path.exists():
            self._write_state({**mine, **_NEW})
            return self._state
        try:
            state: dict[str, Any] = json.loads(path.read_bytes())
            known = {name: state[name] for name in mine}
            if set(state) != {*mine, *_NEW}:
                raise KeyError
        except (KeyError, TypeError, ValueError):
            raise StorageError(
                f"the shuffler's state in {str(path)!r} is damaged; start again in a new folder"
            ) from None
        if known != mine:
            raise InputError(f"{str(self._folder)!r} holds messages of another protocol or class; pass another folder")
        return state

    def _write_state(self, state: dict[str, Any]) -> None:
        with AtomicFile(self._folder / "state.json", overwrite=True, private=True) as file:
            file.write(json.dumps(state).encode())
        self._state = state

    def _recover(self) -> Inbox:
        """Take up the inbox again: whole records stay, one that was cut off at the end is forgotten."""
        path = self._folder / "inbox"
        piece = max(1, self._memory // (_SHARE * MESSAGE_BYTES)) * MESSAGE_BYTES
        inbox = Inbox(path, piece)
        closed = self._state["bytes"], self._state["participants"]
        if self._state["stage"] == _CLOSED and (inbox.size, len(inbox.known)) != closed:
            inbox.close()
            raise StorageError(f"messages in {str(path)!r} were lost after the collection was closed; it cannot go on")
        inbox.cut()
        self._known = inbox.known
        return inbox

    @property
    def participants(self) -> int:
        """How many participants have sent their messages."""
        return len(self._known) if self._state["stage"] != _DONE else int(self._state["participants"])

    def receive(self, *submissions: Submission) -> None:
        """Take what participants send, each all messages of one; on disk when this returns.

        Sending the same submission again, because an acknowledgement was lost, changes nothing. Participants who have
        no message to send are counted like all others.

        Raises
        ------
        InputError
            If the collection is closed, or a submission is not whole.
        """
        for submission in submissions:
            self._check(submission)
        fresh = [submission for submission in submissions if submission.identity not in self._known]
        if not fresh:
            return
        if self._state["stage"] != _OPEN or self._inbox is None:
            raise InputError("the collection is closed: later messages would stand out; send them to a new collection")
        self._inbox.add(fresh)

    def _check(self, submission: Submission) -> None:
        if not isinstance(submission, Submission):
            raise InputError("pass submissions as `Client.messages` makes them: messages with their identity")
        if self._each is not None and len(submission) != self._each:
            raise InputError(
                f"a participant of this protocol sends {self._each} messages; got {len(submission)}: send all of them"
            )

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
        if self._state["batch"] is None or written_batch(path) != self._state["batch"]:
            # A path that cannot be written closes nothing.
            with AtomicFile(path, overwrite=overwrite, private=True) as file:
                self._close_collection()
                checksum = self._mix(file, SecureBits() if secure is None else secure)
                self._write_state({**self._state, "batch": checksum})
        self._write_state({**self._state, "stage": _DONE})
        self._forget()

    def _close_collection(self) -> None:
        assert self._inbox is not None
        if self._state["stage"] == _OPEN:
            self._inbox.check()
            closed = {"stage": _CLOSED, "bytes": self._inbox.size, "participants": self.participants}
            self._write_state({**self._state, **closed})

    def _mix(self, file: AtomicFile, secure: SecureBits) -> str:
        """Write all messages in random order, and return the batch's checksum."""
        folder = self._folder / f"buckets-{secrets.token_hex(8)}"
        with storage_errors("write", folder):
            private_folder(folder)
            try:
                count, buckets = self._scatter(folder)
                header = Header(self._fingerprint, self._place, self.participants, count)
                return write_batch_to(file, header, (_mixed(bucket, secure) for bucket in buckets))
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def _forget(self) -> None:
        assert self._inbox is not None
        self._inbox.close()
        self._inbox = None
        with storage_errors("remove", self._folder / "inbox"):
            (self._folder / "inbox").unlink()

    def _scatter(self, folder: Path) -> tuple[int, list[Path]]:
        """Write messages to buckets by a keyed hash, drop copies, and count what is left."""
        assert self._inbox is not None
        size = self._inbox.size
        buckets = -(-size * _SHARE // self._memory)
        if buckets > MOST_BUCKETS:
            raise InputError(
                f"the batch is {size} bytes; pass memory= of at least {-(-size * _SHARE // MOST_BUCKETS)} for it"
            )
        key, names = secrets.token_bytes(32), [folder / str(number) for number in range(buckets)]
        with ExitStack() as stack:
            buffer = max(4096, self._memory // (_SHARE * buckets))
            files = [stack.enter_context(open(name, "wb", buffer, opener=private_opener)) for name in names]
            for piece in self._inbox.messages():
                for start in range(0, len(piece), MESSAGE_BYTES):
                    message = piece[start : start + MESSAGE_BYTES]
                    word = hashlib.blake2b(message, digest_size=8, key=key).digest()
                    files[int.from_bytes(word, "little") * buckets >> 64].write(message)
        return sum(_without_copies(name) for name in names), names

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
