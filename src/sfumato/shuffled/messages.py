"""Messages on their way: what one participant sends, and the shuffled batch of all of them as a file.

A submission is sealed messages and a random identity that tells a retry from another participant. The identity is drawn
once, together with the messages and independently of them; the shuffler counts identities and lets none of them out. A
digest of both finds accidents on the way, so that a participant's messages arrive all or not at all.

A batch has a header that says what it is for, the messages in their new order, and a checksum. Layout:
``sfumato-batch-1`` and a line feed, the header's length (4 bytes, little-endian), the header as JSON, the messages, all
of one length, and the SHA-256 of everything before it. The checksum finds accidents, not forgers: forged messages do
not open.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar, overload

from sfumato.errors import InputError, ReleaseFileError
from sfumato.public.canonical_json import parse
from sfumato.public.codec import Documented, Schema, Whole
from sfumato.shuffled.sealing import MESSAGE_BYTES, Context, Hexadecimal
from sfumato.storage import AtomicFile, reading

IDENTITY_BYTES = 16
DIGEST_BYTES = 16
HEAD_BYTES = IDENTITY_BYTES + DIGEST_BYTES
MAGIC = b"sfumato-batch-1\n"
BLOCK_MESSAGES = 1 << 14
_LENGTH = struct.Struct("<I")
_LARGEST_HEADER = 4096
_CHECKSUM_BYTES = 32


class Submission(Sequence[bytes]):
    """All sealed messages of one participant, in the order in which they are sent.

    Parameters
    ----------
    messages : iterable of bytes
        The sealed messages.
    identity : bytes, optional
        16 bytes that stay the same when the submission is sent again; drawn at random by default.

    Examples
    --------
    >>> submission = Submission([])
    >>> len(submission), len(submission.to_bytes())
    (0, 32)
    >>> Submission.from_bytes(submission.to_bytes()) == submission, Submission([]) == submission
    (True, False)
    """

    def __init__(self, messages: Iterable[bytes], identity: bytes | None = None) -> None:
        self.identity = secrets.token_bytes(IDENTITY_BYTES) if identity is None else identity
        self._messages = tuple(messages)
        if len(self.identity) != IDENTITY_BYTES or any(len(message) != MESSAGE_BYTES for message in self._messages):
            raise _spoilt()

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[bytes, ...]: ...
    def __getitem__(self, place: int | slice) -> bytes | tuple[bytes, ...]:
        return self._messages[place]

    def __len__(self) -> int:
        return len(self._messages)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Submission) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the identity, the digest and the messages after each other, as they are stored in a file."""
        return self.identity + self.digest + b"".join(self._messages)

    @property
    def digest(self) -> bytes:
        """Of identity and messages; it finds accidents, not forgers."""
        digest = hashlib.blake2b(self.identity, digest_size=DIGEST_BYTES)
        for message in self._messages:
            digest.update(message)
        return digest.digest()

    @classmethod
    def from_bytes(cls, content: bytes) -> Submission:
        """Read back what `to_bytes` wrote."""
        starts = range(HEAD_BYTES, len(content), MESSAGE_BYTES)
        made = cls((content[start : start + MESSAGE_BYTES] for start in starts), content[:IDENTITY_BYTES])
        if content[IDENTITY_BYTES:HEAD_BYTES] != made.digest:
            raise _spoilt()
        return made


def _spoilt() -> InputError:
    return InputError(
        f"a submission is {IDENTITY_BYTES} bytes of identity, {DIGEST_BYTES} of their digest and messages of "
        f"{MESSAGE_BYTES} bytes; this one is damaged: send it again"
    )


@dataclass(frozen=True)
class Header(Documented):
    """What a batch is.

    Attributes
    ----------
    fingerprint, group
        The protocol and the place of the group in it.
    participants : int
        How many took part, as the shuffler counted.
    messages : int
        How many messages follow.
    """

    fingerprint: str
    group: int
    participants: int
    messages: int
    schema: ClassVar[Schema] = Schema(
        fingerprint=Hexadecimal(64),
        group=Whole(0, 2**32 - 1),
        participants=Whole(0, 2**40),
        messages=Whole(0, 2**50),
    )

    @property
    def context(self) -> Context:
        """What the messages must be bound to."""
        return Context(self.fingerprint, self.group)


def write_batch(path: str | Path, header: Header, blocks: Iterable[bytes], overwrite: bool = False) -> None:
    """Write a batch, which appears whole or not at all."""
    with AtomicFile(path, overwrite=overwrite, private=True) as file:
        write_batch_to(file, header, blocks)


def write_batch_to(file: AtomicFile, header: Header, blocks: Iterable[bytes]) -> str:
    """Write a batch to an open file, and return its checksum as hexadecimal digits."""
    text = json.dumps(header.to_document(), sort_keys=True).encode()
    start = MAGIC + _LENGTH.pack(len(text)) + text
    digest = hashlib.sha256(start)
    file.write(start)
    for block in blocks:
        digest.update(block)
        file.write(block)
    file.write(digest.digest())
    return digest.hexdigest()


def written_batch(path: str | Path) -> str | None:
    """Return the checksum of a batch that is whole; None where there is no such file."""
    if not Path(path).is_file():
        return None
    try:
        for _ in read_batch(path):
            pass
    except ReleaseFileError:
        return None
    with reading(path) as file:
        file.seek(-_CHECKSUM_BYTES, os.SEEK_END)
        return file.read().hex()


def read_header(path: str | Path) -> Header:
    """Read what a batch says it is, and check its length."""
    with reading(path) as file:
        return _header(file, path)[0]


def read_batch(path: str | Path) -> Iterator[bytes]:
    """Give the messages of a batch in blocks; the checksum is checked before the last block is given."""
    with reading(path) as file:
        header, start = _header(file, path)
        digest = hashlib.sha256(start)
        left = header.messages * MESSAGE_BYTES
        while left:
            if not (block := file.read(min(left, BLOCK_MESSAGES * MESSAGE_BYTES))):
                raise _damaged(path, "it was cut off while it was read")
            digest.update(block)
            left -= len(block)
            if not left and file.read() != digest.digest():
                raise _damaged(path, "its checksum does not match")
            yield block


def _header(file: BinaryIO, path: str | Path) -> tuple[Header, bytes]:
    start = file.read(len(MAGIC) + _LENGTH.size)
    if not start.startswith(MAGIC) or len(start) < len(MAGIC) + _LENGTH.size:
        raise ReleaseFileError(f"{str(path)!r} is not a shuffled batch")
    size = _LENGTH.unpack(start[len(MAGIC) :])[0]
    text = file.read(min(size, _LARGEST_HEADER))
    try:
        header = Header.from_document(parse(text), "header")
    except (ValueError, RecursionError):
        raise _damaged(path, "its header cannot be read") from None
    expected = len(start) + size + header.messages * MESSAGE_BYTES + _CHECKSUM_BYTES
    if os.fstat(file.fileno()).st_size != expected:
        raise _damaged(path, f"it should have {expected} bytes")
    return header, start + text


def _damaged(path: str | Path, what: str) -> ReleaseFileError:
    return ReleaseFileError(f"the batch {str(path)!r} is damaged: {what}; ask the shuffler for it again")
