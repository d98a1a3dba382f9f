"""What travels between devices and servers: paths, frames, receipts and problems, for every language the same.

A server holds one or several collections, each a protocol, and in each one or several groups: the classes of a shuffled
collection, group 0 where there are none. `path` names what there is of a group.

A body is frames one after another, each its length (4 bytes, little-endian) and its content. In an open collection the
content is a report or a submission, the bytes that the device made. Where devices are admitted by tokens, a token comes
first (see `admission`).

A receipt says of each frame, in order, one byte of `Fate`. ``HELD`` means that the frame is on disk, by this request or
an earlier one: a request that is sent again because its answer was lost gets the same receipt. Every other fate is a
refusal for good, and says why.

A problem is JSON in the form of RFC 9457 with a `code` that stays the same for ever; texts may change. docs/wire.md is
the page for whoever writes a client.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import Any

from sfumato.errors import SfumatoError, StorageError

ROOT = "/v1"
FRAMES = "application/vnd.sfumato.frames"
RECEIPT = "application/vnd.sfumato.receipt"
BATCH = "application/vnd.sfumato.batch"
CHECKSUM, SIGNATURE = "sfumato-checksum", "sfumato-signature"  # headers of a batch, see `signing.Ticket`
BATCH_TEXT = b"sfumato-batch-1\0"
PROBLEM = "application/problem+json"
MOST_FRAMES = 1 << 16
_LENGTH = struct.Struct("<I")


class Fate(IntEnum):
    """What became of one frame."""

    HELD = 0
    LENGTH = 1  # cut off, too long, or spoilt on its way
    FOREIGN = 2  # made under another protocol
    RANGE = 3  # names something that does not exist
    CONFLICT = 4  # other content came under this identity
    TOKEN = 5  # its token is missing or was not signed by the issuer
    SPENT = 6  # its token admitted another report
    CLOSED = 7  # the collection is over


# code: (status, title). Codes are for ever, see docs/wire.md.
CODES: dict[str, tuple[int, str]] = {
    "frames": (400, "The body is not frames."),
    "too-large": (413, "The body is larger than this server takes."),
    "too-slow": (408, "The body took too long to arrive."),
    "busy": (429, "Too much is waiting to be written, or too much came from here: try again later."),
    "storage": (503, "Nothing was kept, for the storage does not answer: send the same again later."),
    "full": (507, "Nothing was kept, for the disk is full: send the same again later."),
    "closed": (409, "The collection is over."),
    "media-type": (415, "The body has another type than this path takes."),
    "not-ready": (404, "There is no release yet."),
    "unknown-path": (404, "There is nothing under this path."),
    "method": (405, "This path takes another method."),
    "not-allowed": (401, "This is for the organiser, who has the key."),
    "batch": (422, "The batch is not what the protocol and its shuffler make."),
    "token": (403, "The token does not admit to this collection."),
    "internal": (500, "The server has a defect; nothing of it concerns the sender."),
}


class Problem(SfumatoError):  # noqa: N818 - the word of RFC 9457
    """An answer that is no success.

    Examples
    --------
    >>> problem = Problem("closed", "it ended in May")
    >>> problem.status, problem.document()["code"]
    (409, 'closed')
    """

    def __init__(self, code: str, detail: str = "", retry_after: int | None = None) -> None:
        self.code, self.detail, self.retry_after = code, detail, retry_after
        self.status, self.title = CODES[code]
        if code in ("full", "storage"):
            self.exit_code = StorageError.exit_code
        super().__init__(f"{self.title} {detail}".strip())

    def document(self) -> dict[str, Any]:
        """Return what the body says."""
        return {
            "type": f"urn:sfumato:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            **({"detail": self.detail} if self.detail else {}),
        }

    def body(self) -> bytes:
        """Return the body."""
        return json.dumps(self.document(), sort_keys=True).encode()

    def headers(self) -> dict[str, str]:
        """Return the headers that belong to it."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


def path(fingerprint: str, group: int, name: str) -> str:
    """Return where something of a group is.

    Examples
    --------
    >>> path("ab12", 0, "frames")
    '/v1/collections/ab12/0/frames'
    """
    return f"{ROOT}/collections/{fingerprint}/{group}/{name}"


def framed(contents: Iterable[bytes]) -> bytes:
    r"""Return a body of frames.

    Examples
    --------
    >>> framed([b"ab", b""])
    b'\x02\x00\x00\x00ab\x00\x00\x00\x00'
    """
    return b"".join(_LENGTH.pack(len(content)) + content for content in contents)


def frames(body: bytes) -> list[bytes]:
    """Return the contents of a body of frames; raise a `Problem` for anything else.

    Examples
    --------
    >>> frames(framed([b"ab", b""]))
    [b'ab', b'']
    """
    found: list[bytes] = []
    at, end = 0, len(body)
    while at < end:
        start = at + _LENGTH.size
        if start > end:
            raise Problem("frames", "a length is cut off at the end")
        at = start + _LENGTH.unpack_from(body, start - _LENGTH.size)[0]
        if at > end:
            raise Problem("frames", f"frame {len(found)} is cut off at the end")
        found.append(body[start:at])
        if len(found) > MOST_FRAMES:
            raise Problem("frames", f"there are more than {MOST_FRAMES} of them: send several bodies")
    if not found:
        raise Problem("frames", "there is none")
    return found


def receipt(fates: Iterable[Fate]) -> bytes:
    """Return the body of a receipt."""
    return bytes(fates)


def read_receipt(body: bytes, frames: int) -> list[Fate]:
    """Return the fates that a receipt names; raise `SfumatoError` if it is none.

    Examples
    --------
    >>> read_receipt(bytes([0, 4]), 2)
    [<Fate.HELD: 0>, <Fate.CONFLICT: 4>]
    """
    try:
        fates = [Fate(byte) for byte in body]
    except ValueError:
        raise SfumatoError("the server's answer is no receipt; update sfumato") from None
    if len(fates) != frames:
        raise SfumatoError(f"the server's receipt is about {len(fates)} frames, and {frames} were sent")
    return fates
