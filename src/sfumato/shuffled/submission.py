"""What one participant sends: sealed messages, and a random identity that tells a retry from another participant.

The identity is drawn once, together with the messages and independently of them; the shuffler counts identities and
lets none of them out. A digest of both finds accidents on the way, so that a participant's messages arrive all or not
at all.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from typing import overload

from sfumato.errors import InputError
from sfumato.shuffled.sealing import MESSAGE_BYTES

IDENTITY_BYTES = 16
DIGEST_BYTES = 16
HEAD_BYTES = IDENTITY_BYTES + DIGEST_BYTES


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
            raise _damaged()

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
            raise _damaged()
        return made


def _damaged() -> InputError:
    return InputError(
        f"a submission is {IDENTITY_BYTES} bytes of identity, {DIGEST_BYTES} of their digest and messages of "
        f"{MESSAGE_BYTES} bytes; this one is damaged: send it again"
    )
