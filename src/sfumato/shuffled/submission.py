"""What one participant sends: sealed messages, and a random identity that tells a retry from another participant.

Messages alone do not tell: in most bit sums a participant may have nothing to send, and all who have nothing look
alike. The identity is drawn once, together with the messages and independently of them; the shuffler counts identities,
so that the number of participants does not depend on anybody's bits, and lets none of them out.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import overload

from sfumato.errors import InputError
from sfumato.shuffled.sealing import MESSAGE_BYTES

IDENTITY_BYTES = 16


class Submission(Sequence[bytes]):
    """All sealed messages of one participant, in the order in which they are sent; possibly none.

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
    (0, 16)
    >>> Submission.from_bytes(submission.to_bytes()) == submission, Submission([]) == submission
    (True, False)
    """

    def __init__(self, messages: Iterable[bytes], identity: bytes | None = None) -> None:
        self.identity = secrets.token_bytes(IDENTITY_BYTES) if identity is None else identity
        self._messages = tuple(messages)
        if len(self.identity) != IDENTITY_BYTES or any(len(message) != MESSAGE_BYTES for message in self._messages):
            raise InputError(
                f"a submission is {IDENTITY_BYTES} bytes of identity and messages of {MESSAGE_BYTES} bytes; this one "
                "is damaged: send it again"
            )

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
        """Return the identity and the messages after each other, as they are stored in a file."""
        return self.identity + b"".join(self._messages)

    @classmethod
    def from_bytes(cls, content: bytes) -> Submission:
        """Read back what `to_bytes` wrote."""
        starts = range(IDENTITY_BYTES, len(content), MESSAGE_BYTES)
        return cls((content[start : start + MESSAGE_BYTES] for start in starts), content[:IDENTITY_BYTES])
