"""Where frames come in: checked, admitted, and kept by group commit. Collector and shuffler differ in what they read.

The fate of a frame depends on the frame and on what is kept, never on its neighbours in the body: one bad frame refuses
nobody else's.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sfumato.errors import InputError, StorageError
from sfumato.local.device import HEADER_BYTES
from sfumato.public.document import PREFIX_BYTES, prefix
from sfumato.services.admission import NONCE_BYTES, IssuerPublicKey
from sfumato.services.commits import Commits
from sfumato.services.limits import Limits, Rates
from sfumato.services.store import FORGOTTEN, Item, Store
from sfumato.services.wire import Fate, Problem, framed, frames, receipt
from sfumato.shuffled.messages import DIGEST_BYTES, HEAD_BYTES, IDENTITY_BYTES, Submission
from sfumato.shuffled.sealing import MESSAGE_BYTES
from sfumato.storage import AtomicFile, storage_errors

if TYPE_CHECKING:
    from sfumato.local import Protocol as LocalProtocol
    from sfumato.local.server import Server
    from sfumato.shuffled import Protocol as ShuffledProtocol

_GCM_NONCE = 12
Read = list[Item | Fate]


class Intake(ABC):
    """Takes the frames of one group of one collection.

    Parameters
    ----------
    store : Store
        Where items are kept.
    fingerprint : str
        The collection's.
    issuer : str, optional
        Public key of who admits devices; without one everybody is admitted.
    over : callable
        Whether the collection's time is over.
    limits : Limits
        What senders may do.
    size : int
        Bytes of what a device sends.
    """

    block: ClassVar[int]  # items that are read at once

    def __init__(
        self, store: Store, fingerprint: str, issuer: str | None, over: Callable[[], bool], limits: Limits, size: int
    ) -> None:
        self.store = store
        self.commits = Commits(self.settle, limits.waiting)
        self.fingerprint = fingerprint
        self.size = size
        self._over = over
        self._issuer = None if issuer is None else IssuerPublicKey(issuer)
        self._tokens = Rates(limits.token_rate, limits.token_burst)
        whole = len(framed([bytes(size)])) + (self._issuer.token_bytes if self._issuer else 0)
        if whole > limits.body:
            raise InputError(f"a device sends {whole} bytes, more than a body may have here ({limits.body}): raise it")

    @abstractmethod
    def read(self, contents: Sequence[bytes]) -> Read:
        """Return the item of each content, or why there is none."""

    @abstractmethod
    def opened(self, identity: bytes, digest: bytes, content: bytes) -> bytes:
        """Return what a device sent, without its head, as it is kept; raise `ValueError` if that was altered."""

    def kept(self) -> Iterator[list[bytes]]:
        """Give what devices sent, in blocks; raise `StorageError` if some of it is lost or altered.

        A `Problem` says that a server which shares the storage has forgotten it meanwhile.
        """
        before, found = self.store.count(), 0
        for rows in self.store.blocks(self.block):
            found += len(rows)
            try:
                contents = [self.opened(*row) for row in self.store.blobs(rows)]
            except ValueError as error:
                raise self.store.damaged(str(error)) from error
            yield contents
        after, gone = self.store.count(), self.store.stage == FORGOTTEN  # in this order: a stage is left first
        if gone and found < before:
            raise Problem("closed", "its messages were deleted meanwhile")
        if not gone and not before <= found <= after:  # others may add meanwhile
            raise self.store.damaged(f"{found} items are there, and {before} were kept")

    def check(self) -> None:
        """Read everything that is kept, so that damage is told before anything is added to it."""
        if self.store.stage == FORGOTTEN:
            return
        try:
            for _ in self.kept():
                pass
        except Problem as problem:
            if problem.code != "closed":
                raise

    async def take(self, body: bytes) -> tuple[bytes, Counter[Fate]]:
        """Keep the frames of a body, durably when this returns; give the receipt, and how many had which fate."""
        contents = frames(body)
        if self._issuer is not None and len(contents) == 1:
            # A device that sends again and again costs a signature's check each time. Bodies of many are a relay's.
            self._tokens.check(contents[0][:NONCE_BYTES].hex())
        fates = await self.commits.add(contents)
        return receipt(fates), Counter(fates)

    def settle(self, contents: Sequence[bytes]) -> list[Fate]:
        """Keep frames of any number of bodies in one transaction."""
        nonces: Sequence[bytes | None] = [b""] * len(contents)
        if self._issuer is not None:
            size = self._issuer.token_bytes
            tokens = [content[:size] for content in contents]
            known = {token: self._nonce(token) for token in set(tokens)}
            nonces = [known[token] for token in tokens]
            contents = [content[size:] for content in contents]
        found = [
            Fate.TOKEN if nonce is None else one._replace(nonce=nonce) if nonce and isinstance(one, Item) else one
            for one, nonce in zip(self.read(contents), nonces, strict=True)
        ]
        items = [one for one in found if isinstance(one, Item)]
        refused = Counter(one.name.lower() for one in found if isinstance(one, Fate))
        fates = iter(self.store.add(items, refused, self._over()))
        return [next(fates) if isinstance(one, Item) else one for one in found]

    def _nonce(self, token: bytes) -> bytes | None:
        """Return the nonce of a token that is right."""
        assert self._issuer is not None
        return token[:NONCE_BYTES] if self._issuer.admits(token, self.fingerprint) else None


class ReportIntake(Intake):
    """Takes reports of the local model. A report's payload is as short as a digest, and is its own."""

    block = 1 << 16

    def __init__(
        self, store: Store, protocol: LocalProtocol, issuer: str | None, over: Callable[[], bool], limits: Limits
    ) -> None:
        self.server: Server = protocol.server()
        size = HEADER_BYTES + self.server.device.payload_bytes
        super().__init__(store, protocol.fingerprint, issuer, over, limits, size)
        self._prefix = np.frombuffer(prefix(protocol.document), dtype=np.uint8)

    def read(self, contents: Sequence[bytes]) -> Read:
        """Check all reports at once."""
        found: Read = [Fate.LENGTH] * len(contents)
        places = [place for place, content in enumerate(contents) if len(content) == self.size]
        if not places:
            return found
        block = np.frombuffer(b"".join(contents[place] for place in places), dtype=np.uint8).reshape(-1, self.size)
        own = (block[:, :PREFIX_BYTES] == self._prefix).all(axis=1)
        good = self.server.count(block[:, HEADER_BYTES:], self.server.tally())
        for place, is_own, is_good in zip(places, own.tolist(), good.tolist(), strict=True):
            report = contents[place]
            if not is_own:
                found[place] = Fate.FOREIGN
            elif not is_good:
                found[place] = Fate.RANGE
            else:
                identity, payload = report[PREFIX_BYTES:HEADER_BYTES], report[HEADER_BYTES:]
                found[place] = Item(identity, payload, _checksum(identity, payload))
        return found

    def opened(self, identity: bytes, digest: bytes, content: bytes) -> bytes:
        """Return a report's payload."""
        whole = content == _checksum(identity, digest) or not content  # earlier versions kept no checksum
        if not whole or len(digest) != self.size - HEADER_BYTES:
            raise ValueError("a report is not as it came")
        return digest


def _checksum(identity: bytes, payload: bytes) -> bytes:
    """Return what finds accidents, not forgers."""
    return zlib.crc32(payload, zlib.crc32(identity)).to_bytes(4)


class SubmissionIntake(Intake):
    """Takes submissions of the shuffled model, and keeps them encrypted under a key of its own.

    The messages of a submission are sealed for the analyzer already. That they came together is what the key hides:
    once it is deleted, no copy of the storage tells (`forget_key`).

    Parameters
    ----------
    store, issuer, over, limits
        See `Intake`.
    protocol : Protocol
        The public document.
    group : int
        Place of the group.
    key : Path
        File of the key, made if it does not exist.
    """

    block = 64

    def __init__(
        self,
        store: Store,
        protocol: ShuffledProtocol,
        group: int,
        issuer: str | None,
        over: Callable[[], bool],
        limits: Limits,
        key: Path,
    ) -> None:
        self.messages = protocol.groups[group].messages
        super().__init__(store, protocol.fingerprint, issuer, over, limits, HEAD_BYTES + self.messages * MESSAGE_BYTES)
        self._key = key
        self._cipher = AESGCM(self._loaded_key())

    def _loaded_key(self) -> bytes:
        """Return the key that the collection is kept under, the same for all servers that share it."""
        if self.store.stage == FORGOTTEN:
            return os.urandom(32)  # encrypts nothing: nobody is let in any more
        if not self._key.exists():
            with AtomicFile(self._key, private=True) as file:
                file.write(os.urandom(32))
        with storage_errors("read", self._key):
            key = self._key.read_bytes()
        if not self.store.claim("inbox", hashlib.sha256(b"sfumato-inbox\0" + key).hexdigest()):
            raise StorageError(
                f"{str(self._key)!r} is not the key under which participants' messages are kept, and without that "
                "nobody can read them: restore it, or copy it from the server that shares the database"
            )
        return key

    def read(self, contents: Sequence[bytes]) -> Read:
        """Check each submission, and encrypt it."""
        return [self._read(content) for content in contents]

    def _read(self, content: bytes) -> Item | Fate:
        if len(content) != self.size:
            return Fate.LENGTH
        try:
            submission = Submission.from_bytes(content)
        except InputError:
            return Fate.LENGTH
        nonce = os.urandom(_GCM_NONCE)
        sealed = nonce + self._cipher.encrypt(nonce, content[HEAD_BYTES:], submission.identity)
        return Item(submission.identity, content[IDENTITY_BYTES:HEAD_BYTES], sealed)

    def opened(self, identity: bytes, digest: bytes, content: bytes) -> bytes:
        """Return the messages of a kept submission."""
        try:
            messages = self._cipher.decrypt(content[:_GCM_NONCE], content[_GCM_NONCE:], identity)
        except InvalidTag:
            messages = None
        if messages is None or hashlib.blake2b(identity + messages, digest_size=DIGEST_BYTES).digest() != digest:
            raise ValueError("a submission is not as it came")
        return messages

    def forget_key(self) -> None:
        """Delete the key: what is left of submissions, in backups too, opens no more."""
        with storage_errors("remove", self._key):
            self._key.unlink(missing_ok=True)
