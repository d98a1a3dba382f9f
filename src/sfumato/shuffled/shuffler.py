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
appears, so that a start after that knows it again; that it appeared is written down afterwards, and `forget` needs
that.

The inbox stays until `forget`: a batch that was lost, or that the analyzer refused, is made again from the same closed
set, in a new order. The set and independent orders tell no more than the set. Whoever came later would stand out in a
second batch, and whoever were left out would stand out in the first: neither is possible.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import InputError, StorageError
from sfumato.owner import private_folder, private_opener
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import Optional, Schema, Text, Whole, brief
from sfumato.shuffled.bitsum.shares import permutation
from sfumato.shuffled.inbox import Inbox, StateFolder
from sfumato.shuffled.messages import Header, Submission, write_batch_to, written_batch
from sfumato.shuffled.sealing import MESSAGE_BYTES, Hexadecimal
from sfumato.storage import AtomicFile, checked_path, storage_errors

if TYPE_CHECKING:
    from sfumato.shuffled.protocol import Protocol

MEMORY = 1 << 28
SMALLEST_MEMORY = 1 << 20
MOST_BUCKETS = 512
_SHARE = 6  # a bucket, its copies while it is sorted and permuted, and the buffers
_OPEN, _CLOSED, _DELIVERED, _FORGOTTEN = "open", "closed", "delivered", "forgotten"
_NEW = {"stage": _OPEN, "bytes": None, "participants": None, "batch": None}
_STATE = Schema(
    fingerprint=Hexadecimal(64),
    group=Whole(0, 2**32 - 1),
    stage=Text(_OPEN, _CLOSED, _DELIVERED, _FORGOTTEN),
    bytes=Optional(Whole(0, 2**62)),
    participants=Optional(Whole(0, 2**40)),
    batch=Optional(Hexadecimal(64)),
)


class Shuffler:
    """The shuffler of one group of participants, with its state in a folder of its own.

    Parameters
    ----------
    folder : str or Path
        Where messages wait; made if it does not exist, taken up again if it is a shuffler's, refused if it holds
        anything else.
    protocol : Protocol
        The public document.
    label : int or str, optional
        The class of the group, where there are classes.
    memory : int
        Bytes to use at most for messages, beside the interpreter, about two megabytes for random bits, and about 200
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
    ...         shuffler.receive(protocol.client(max_delta=1e-2).messages(point))
    ...     shuffler.shuffle(f"{folder}/batch")
    ...     protocol.analyzer(key).analyze(f"{folder}/batch").count.value
    3
    """

    def __init__(self, folder: str | Path, protocol: Protocol, label: Any = None, *, memory: int = MEMORY) -> None:
        if isinstance(memory, bool) or not isinstance(memory, int) or memory < SMALLEST_MEMORY:
            raise InputError(f"memory must be at least {SMALLEST_MEMORY} bytes, got {brief(memory)}")
        if protocol.classes is not None and label is None:
            raise InputError("the protocol has classes: pass label=, the class whose messages are shuffled here")
        self._place, group = protocol.group(label)
        self._minimum = group.participants
        self._each = group.messages
        self._fingerprint = protocol.fingerprint
        self._memory = memory
        self._inbox: Inbox | None = None
        self._folder = StateFolder(Path(checked_path("the folder of the state", folder)))
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        mine = {"fingerprint": self._fingerprint, "group": self._place}
        found = self._folder.read(_STATE)
        if found is None:
            self._write_state({**mine, **_NEW})
        elif mine != {name: found[name] for name in mine}:
            raise InputError(f"{str(self._path)!r} holds messages of another protocol or class; pass another folder")
        else:
            self._state = found
        with storage_errors("use", self._path):
            if self._state["stage"] == _FORGOTTEN:
                (self._path / "inbox").unlink(missing_ok=True)  # it was killed between the two
            else:
                self._inbox = self._recover()

    @property
    def _path(self) -> Path:
        return self._folder.path

    def _write_state(self, state: dict[str, Any]) -> None:
        self._folder.write(state)
        self._state = state

    def _recover(self) -> Inbox:
        """Take up the inbox again: whole records stay, one that was cut off at the end is forgotten."""
        path = self._path / "inbox"
        piece = max(1, self._memory // (_SHARE * MESSAGE_BYTES)) * MESSAGE_BYTES
        inbox = Inbox(path, piece)
        written = self._state["bytes"] or 0, self._state["participants"] or 0
        found = inbox.size, len(inbox.known)
        if found[0] < written[0] or (self._state["stage"] in (_CLOSED, _DELIVERED) and found != written):
            inbox.close()
            raise StorageError(
                f"{str(path)!r} holds {found[1]} whole submissions, and {written[1]} were acknowledged; restore the "
                "file from a backup, or collect again in a new folder"
            )
        inbox.cut()
        return inbox

    @property
    def participants(self) -> int:
        """How many participants have sent their messages."""
        return int(self._state["participants"] or 0) if self._inbox is None else len(self._inbox.known)

    def receive(self, *submissions: Submission) -> None:
        """Take what participants send, each all messages of one; on disk when this returns.

        Sending the same submission again, because an acknowledgement was lost, changes nothing.

        Raises
        ------
        InputError
            If the collection is closed, a submission is not whole, or its identity came before with other messages;
            none of the submissions is taken then.
        """
        for submission in submissions:
            self._check(submission)
        if self._inbox is not None and not self._inbox.unknown(submissions):
            return
        if self._state["stage"] != _OPEN or self._inbox is None:
            raise InputError("the collection is closed: later messages would stand out; send them to a new collection")
        with self._durably():
            self._inbox.add(submissions)

    @contextmanager
    def _durably(self) -> Iterator[None]:
        """Say what is kept if the disk refuses."""
        try:
            yield
        except StorageError as problem:
            if problem.errno is None:  # it is damage, and says so
                raise
            failure = StorageError(
                f"{problem}. The shuffler has the messages of {self.participants} people and keeps them; do the same "
                "again when the disk is in order: nobody counts twice"
            )
            failure.errno = problem.errno
            raise failure from problem

    def _check(self, submission: Submission) -> None:
        if not isinstance(submission, Submission):
            raise InputError("pass submissions as `Client.messages` makes them: messages with their identity")
        if len(submission) != self._each:
            raise InputError(
                f"a participant of this protocol sends {self._each} messages; got {len(submission)}: send all of them"
            )

    def shuffle(self, path: str | Path, *, overwrite: bool = False, secure: SecureBits | None = None) -> None:
        """Close the collection and write the batch of all messages in random order.

        The messages stay until `forget`, and the batch can be made again, in another order. A batch that is there
        already stays as it is.

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
        if self._state["stage"] == _FORGOTTEN:
            raise InputError("this collection was shuffled and its messages forgotten; collect again in a new folder")
        if self._folder.holds(path):
            raise InputError(f"{str(path)!r} lies in the shuffler's own folder; pass a path outside for the batch")
        participants = self.participants
        if participants < self._minimum:
            raise InputError(
                f"{participants} participants sent messages and the guarantee needs {self._minimum}: wait for more, "
                "or start a collection for fewer"
            )
        if self._state["batch"] is None or written_batch(path) != self._state["batch"]:
            # A path that cannot be written closes nothing.
            with self._durably(), AtomicFile(path, overwrite=overwrite, private=True) as file:
                self._close_collection()
                checksum = self._mix(file, SecureBits() if secure is None else secure)
                self._write_state({**self._state, "stage": _CLOSED, "batch": checksum})
        if self._state["stage"] != _DELIVERED:
            with self._durably():
                self._write_state({**self._state, "stage": _DELIVERED})

    def forget(self) -> None:
        """Delete the messages and identities, once the analyzer has its release: no batch can be made any more.

        Raises
        ------
        InputError
            If no batch was made, or it is not known to have got its name.
        """
        if self._state["stage"] not in (_DELIVERED, _FORGOTTEN):
            raise InputError("no batch was made of these messages; shuffle them first, or delete the folder")
        self._write_state({**self._state, "stage": _FORGOTTEN})
        if self._inbox is not None:
            self._inbox.close()
            self._inbox = None
        with storage_errors("remove", self._path / "inbox"):
            (self._path / "inbox").unlink(missing_ok=True)

    def _close_collection(self) -> None:
        assert self._inbox is not None
        if self._state["stage"] == _OPEN:
            self._inbox.check()
            closed = {"stage": _CLOSED, "bytes": self._inbox.size, "participants": self.participants}
            self._write_state({**self._state, **closed})

    def _mix(self, file: AtomicFile, secure: SecureBits) -> str:
        """Write all messages in random order, and return the batch's checksum."""
        assert self._inbox is not None
        header = partial(Header, self._fingerprint, self._place, self.participants)
        return mix(file, header, self._inbox.messages(), self._inbox.size, self._path, self._memory, secure)

    def close(self) -> None:
        """Let go of the folder; messages stay in it, and how many there are is written down if the disk allows."""
        if self._inbox is not None:
            if self._state["stage"] == _OPEN:
                with suppress(StorageError):
                    self._write_state({**self._state, "bytes": self._inbox.size, "participants": self.participants})
            self._inbox.close()
            self._inbox = None
        self._folder.close()

    def __enter__(self) -> Shuffler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def mix(
    file: AtomicFile,
    header: Callable[[int], Header],
    pieces: Iterable[bytes],
    size: int,
    folder: Path,
    memory: int,
    secure: SecureBits,
) -> str:
    """Write messages in random order, without copies, and return the batch's checksum.

    Parameters
    ----------
    file : AtomicFile
        The batch, open.
    header : callable
        Makes the header of a number of messages.
    pieces : iterable of bytes
        Whole messages.
    size : int
        About how many bytes they have.
    folder : Path
        Where buckets may lie meanwhile.
    memory : int
        Bytes to use at most.
    secure : SecureBits
        Where the order comes from.
    """
    inner = folder / f"buckets-{secrets.token_hex(8)}"
    with storage_errors("write", inner):
        private_folder(inner)
        try:
            count, buckets = _scatter(inner, pieces, size, memory)
            return write_batch_to(file, header(count), (_mixed(bucket, secure) for bucket in buckets))
        finally:
            shutil.rmtree(inner, ignore_errors=True)


def _scatter(folder: Path, pieces: Iterable[bytes], size: int, memory: int) -> tuple[int, list[Path]]:
    """Write messages to buckets by a keyed hash, drop copies, and count what is left."""
    buckets = -(-size * _SHARE // memory)
    if buckets > MOST_BUCKETS:
        least = -(-size * _SHARE // MOST_BUCKETS)
        raise InputError(
            f"the batch is {size} bytes; pass memory= of at least {least} bytes for it (--memory {-(-least >> 20)}, in "
            "megabytes, on the command line)"
        )
    key, names = secrets.token_bytes(32), [folder / str(number) for number in range(buckets)]
    with ExitStack() as stack:
        buffer = max(4096, memory // (_SHARE * buckets))
        files = [stack.enter_context(open(name, "wb", buffer, opener=private_opener)) for name in names]
        for piece in pieces:
            for start in range(0, len(piece), MESSAGE_BYTES):
                message = piece[start : start + MESSAGE_BYTES]
                word = hashlib.blake2b(message, digest_size=8, key=key).digest()
                files[int.from_bytes(word, "little") * buckets >> 64].write(message)
    return sum(_without_copies(name) for name in names), names


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
