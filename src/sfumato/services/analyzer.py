"""The analyzer's server: takes one batch of each group from the shuffler, opens it, and publishes the release.

A batch must be signed by the shuffler that the organiser's document names; the signature comes first, and without it
nothing is read or written. The batch is on disk before it is acknowledged, and is opened in the background; a group has
one release, and no second batch is opened once there is one. A batch that the analyzer refuses (too few participants,
too much that does not open) is removed, and its operator can see why.

The key is deleted when every group of its collection is published, or when it expired, and the deletion is written into
the log: from then on nobody can open a message of that collection that was recorded on its way.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from sfumato.errors import InputError, ReleaseFileError
from sfumato.services.limits import Limits
from sfumato.services.role import Role
from sfumato.services.signing import SignedProtocol, Ticket
from sfumato.services.wire import Problem
from sfumato.shuffled import AnalyzerKey, Protocol
from sfumato.shuffled.messages import read_header, written_batch
from sfumato.storage import AtomicFile, storage_errors, sync_folder

_PIECE = 1 << 20


class AnalyzerRole(Role):
    """Opens the batches of shuffled protocols.

    Parameters
    ----------
    folder, signed, limits
        See `Role`. Each document must name its shuffler's key.
    keys : sequence of Path
        Files of the private keys, one for each collection whose key was not deleted yet.
    workers : int
        Processes that open messages.
    """

    name: ClassVar[str] = "analyzer"
    model: ClassVar[str] = "shuffled"

    def __init__(
        self,
        folder: str | Path,
        signed: Sequence[SignedProtocol],
        keys: Sequence[Path],
        limits: Limits | None = None,
        workers: int = 1,
    ) -> None:
        super().__init__(folder, signed, limits)
        self._workers = workers
        self._protocols = {name: Protocol.from_document(one.document) for name, one in self.signed.items()}
        if any(one.shuffler is None for one in signed):
            raise InputError("a document does not name its shuffler's key: sign it with --shuffler")
        self._refused: dict[tuple[str, int], str] = {}
        self._taking: set[tuple[str, int]] = set()
        self.begin()
        self._keys = self._found(keys)

    def _found(self, paths: Sequence[Path]) -> dict[str, Path]:
        """Return the key's file of each collection; a file that is gone is right where the key was to be deleted."""
        keys = {AnalyzerKey.load(path).public: path for path in paths if path.exists() and not _wiped(path)}
        found: dict[str, Path] = {}
        for name, protocol in self._protocols.items():
            if protocol.key in keys:
                found[name] = keys[protocol.key]
            elif self._done(name):
                self.note("key-deleted", name)  # a kill came between
            elif not self.log.knows("key-deleted", name):
                raise InputError(f"the private key of the collection {name[:8]} is missing: pass its file")
        return found

    def _done(self, fingerprint: str) -> bool:
        groups = range(self.groups(fingerprint))
        return self.expired(fingerprint) or all(self.release_path(fingerprint, one).exists() for one in groups)

    def status(self, fingerprint: str, group: int) -> dict[str, Any]:
        """Say also where the batch stands."""
        found = super().status(fingerprint, group)
        stage = "waiting"
        if found["released"]:
            stage = "published"
        elif self._batch(fingerprint, group).exists():
            stage = "opening"
        elif (fingerprint, group) in self._refused:
            stage = "refused"
        return {**found, "stage": stage}

    def counts(self, fingerprint: str, group: int) -> dict[str, Any]:
        """Say also why a batch was refused, which may name numbers of participants."""
        reason = self._refused.get((fingerprint, group))
        return {**super().counts(fingerprint, group), **({} if reason is None else {"reason": reason})}

    def _batch(self, fingerprint: str, group: int) -> Path:
        return self.release_path(fingerprint, group).with_name("batch")

    async def take(self, fingerprint: str, group: int, ticket: Ticket, parts: AsyncIterator[bytes]) -> dict[str, Any]:
        """Take a batch, durably when this returns; one that is not needed any more is read no further.

        Parameters
        ----------
        fingerprint, group
            Where it belongs.
        ticket : Ticket
            What the shuffler signed of it; nothing is read unless that is right.
        parts : async iterator of bytes
            The batch.
        """
        stage = self.status(fingerprint, group)["stage"]
        shuffler = self.signed[fingerprint].shuffler
        if shuffler is None or not ticket.signed_by(bytes.fromhex(shuffler)):
            raise Problem("batch", "it is not signed by the collection's shuffler")
        if stage in ("published", "opening"):
            return self.status(fingerprint, group)
        if fingerprint not in self._keys or self.expired(fingerprint):
            raise Problem("closed", "its key was deleted")
        if (fingerprint, group) in self._taking:
            raise Problem("busy", "another batch of this group is arriving", retry_after=5)
        self._taking.add((fingerprint, group))
        try:
            await self._write(fingerprint, group, ticket, parts)
        finally:
            self._taking.discard((fingerprint, group))
        self._refused.pop((fingerprint, group), None)
        return self.status(fingerprint, group)

    async def _write(self, fingerprint: str, group: int, ticket: Ticket, parts: AsyncIterator[bytes]) -> None:
        arriving = self.place(fingerprint, group) / "arriving"
        with AtomicFile(arriving, overwrite=True, private=True) as file:
            await asyncio.to_thread(file.reserve, ticket.size)
            left = ticket.size
            async for piece in self._pieces(parts):
                left -= len(piece)
                if left < 0:
                    raise Problem("too-large", "it is larger than was signed")
                await asyncio.to_thread(file.write, piece)
        try:
            await asyncio.to_thread(_check, arriving, fingerprint, group, ticket)
        except BaseException:
            arriving.unlink(missing_ok=True)
            raise
        batch = self._batch(fingerprint, group)
        with storage_errors("keep", batch):
            arriving.rename(batch)
            sync_folder(batch.parent)

    async def _pieces(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Give a body in pieces of about a megabyte; each part must come in time, the whole may take long."""
        piece = bytearray()
        while True:
            try:
                part = await asyncio.wait_for(anext(parts), self.limits.body_seconds)
            except StopAsyncIteration:
                break
            except TimeoutError:
                raise Problem("too-slow", f"a part may take {self.limits.body_seconds:g} seconds") from None
            piece += part
            if len(piece) >= _PIECE:
                yield bytes(piece)
                piece.clear()
        if piece:
            yield bytes(piece)

    def step(self, fingerprint: str, group: int) -> None:
        """Open a batch that arrived, and delete a key that is not needed any more."""
        batch = self._batch(fingerprint, group)
        if batch.exists():
            if not self.release_path(fingerprint, group).exists() and fingerprint in self._keys:
                self.publish(fingerprint, group)
            if self.release_path(fingerprint, group).exists():
                self.note("published", fingerprint)  # before the batch goes, so that a kill costs no entry
            with storage_errors("remove", batch):
                batch.unlink(missing_ok=True)
        if fingerprint in self._keys and self._done(fingerprint):
            self._delete_key(fingerprint)

    def publish(self, fingerprint: str, group: int) -> None:
        """Open a batch and publish its release, or keep in mind why it was refused."""
        protocol, key = self._protocols[fingerprint], AnalyzerKey.load(self._keys[fingerprint])
        try:
            label = protocol.groups[group].label
            release = protocol.analyzer(key).analyze(self._batch(fingerprint, group), label, workers=self._workers)
            release.save(self.release_path(fingerprint, group), overwrite=True)
        except (InputError, ReleaseFileError) as problem:
            self._refused[fingerprint, group] = str(problem)

    def _delete_key(self, fingerprint: str) -> None:
        path = self._keys[fingerprint]
        if any(used == path and not self._done(other) for other, used in self._keys.items()):
            return  # two collections were given one key, and one of them still needs it
        with storage_errors("remove", path):
            with suppress(FileNotFoundError), open(path, "r+b") as file:
                file.write(bytes(path.stat().st_size))
                os.fsync(file.fileno())
            path.unlink(missing_ok=True)
        self.note("key-deleted", fingerprint)
        del self._keys[fingerprint]  # at last, so that what failed is tried again


def _wiped(path: Path) -> bool:
    """Remove what a kill between the two steps of a deletion left of a key; whether it was that."""
    with storage_errors("read", path):
        if (content := path.read_bytes()).strip(b"\0") or not content:
            return False
        path.unlink()
    return True


def _check(path: Path, fingerprint: str, group: int, ticket: Ticket) -> None:
    if written_batch(path) != ticket.checksum:
        raise Problem("batch", "it is damaged: send it again")
    header = read_header(path)
    if (header.fingerprint, header.group) != (fingerprint, group):
        raise Problem("batch", "it is of another collection or group")
