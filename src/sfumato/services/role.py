"""What all servers are: a folder of their own, keys, a public log, collections, and work that is due now and then.

One process uses a folder at a time. What a kill left in it half done (temporary files, buckets of a shuffle, a batch on
its way) is removed when the server starts again: whoever sent it sends it again.

Time is the clock's when the server started and what passed since by a clock that cannot be set: a wrong clock that is
put right, or a right one that is spoilt, closes nothing early and deletes no key.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from sfumato.errors import EngineError, InputError, SfumatoError, StorageError
from sfumato.locks import lock_file
from sfumato.owner import private_folder, private_opener
from sfumato.public import document as documents
from sfumato.services.intake import Intake
from sfumato.services.limits import Limits
from sfumato.services.log import Log
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.services.store import open_store
from sfumato.services.wire import Problem
from sfumato.storage import AtomicFile, storage_errors

_SIGNING = "server.key"
_OPERATOR = re.compile("[0-9a-f]{64}")
_TEMPORARY = re.compile(r"\.sfumato-[0-9a-f]{16}\.tmp")
_LEFT_OVER = re.compile(rf"{_TEMPORARY.pattern}|buckets-[0-9a-f]{{16}}|arriving")
_KNOWN = re.compile(rf"server\.key|operator\.key|lock|log|[0-9a-f]{{64}}-[0-9]+|{_LEFT_OVER.pattern}")
OWN = (Problem, StorageError, EngineError)  # failures of this server: of its storage, and of its further processes
_WITHOUT_LOCKS = "two servers could spoil each other's folder; put it on a local disk"


class Role(ABC):
    """A server, apart from how it is reached.

    Parameters
    ----------
    folder : str or Path
        Of its own: new, empty, or a server's.
    signed : sequence of SignedProtocol
        The collections that it serves, the newest last; several while the keys of one epoch follow another's.
    limits : Limits, optional
        What senders may do.
    database : str, optional
        Address of a PostgreSQL database that several servers share; files in the folder by default.
    """

    name: ClassVar[str]
    model: ClassVar[str]  # of the protocols that it serves; empty for both

    def __init__(
        self,
        folder: str | Path,
        signed: Sequence[SignedProtocol],
        limits: Limits | None = None,
        database: str | None = None,
    ) -> None:
        if not signed:
            raise InputError("pass at least one signed protocol")
        wrong = [one for one in signed if self.model not in ("", one.document["model"])]
        if wrong:
            given = wrong[0].document["model"]
            raise InputError(f"a {self.name} serves protocols of the {self.model} model; got {given!r}")
        self.folder = Path(folder)
        self.limits = limits or Limits()
        self.signed = {one.fingerprint: one for one in signed}
        self.newest = signed[-1].fingerprint
        self.intakes: dict[tuple[str, int], Intake] = {}
        self._began, self._ticks = datetime.now(UTC), time.monotonic()
        with storage_errors("use", self.folder):
            self._take_folder()
        self.key, self._operator = self._own_keys()
        self.log = Log(open_store(self.folder / "log", database, f"log{self.key.public.hex()}"), self.key)
        self.known = {name for name in self.signed if self.log.knows("opened", name)}

    def begin(self) -> None:
        """Check what is kept, and write into the log that the collections are open; the last step of a start."""
        try:
            for (name, _), intake in self.intakes.items():
                # Counted first: another server of the role writes the log before it takes anything.
                if intake.store.count() and not self.log.knows("opened", name):
                    raise self.log.store.damaged("it knows nothing of a collection that was begun")
                intake.check()
        except BaseException:
            self._lock.close()
            raise
        for name in self.signed:
            self.note("opened", name)

    def _take_folder(self) -> None:
        private_folder(self.folder)
        names = {entry.name for entry in self.folder.iterdir()}
        # Its key marks a server's folder; before there is one, a kill leaves a lock and files with our own names.
        ours = _SIGNING in names or all(name == "lock" or _TEMPORARY.fullmatch(name) for name in names)
        if not ours or not all(_KNOWN.fullmatch(name) for name in names):
            raise InputError(
                f"{str(self.folder)!r} holds files that are not a server's, or those of one without its {_SIGNING!r}; "
                "none of them was touched: restore that file, or choose another folder"
            )
        if _SIGNING in names:
            SigningKey.load(self.folder / _SIGNING)  # another's key of that name is no mark
        self._lock = open(self.folder / "lock", "ab", opener=private_opener)  # noqa: SIM115 - held while we live
        try:
            lock_file(self._lock.fileno(), self._lock.name, _WITHOUT_LOCKS)
        except BlockingIOError:
            self._lock.close()
            raise InputError(f"{str(self.folder)!r} is another server's that is running; choose another") from None
        for left in [*self.folder.iterdir(), *self.folder.glob("*/*")]:
            if _LEFT_OVER.fullmatch(left.name):
                shutil.rmtree(left) if left.is_dir() else left.unlink()

    def _own_keys(self) -> tuple[SigningKey, str]:
        signing, operator = self.folder / _SIGNING, self.folder / "operator.key"
        if not signing.exists():
            SigningKey.generate().save(signing)
        if not operator.exists():
            with AtomicFile(operator, private=True) as file:
                file.write(secrets.token_hex(32).encode() + b"\n")
        with storage_errors("read", operator):
            text = operator.read_text(encoding="ascii").strip()
        if not _OPERATOR.fullmatch(text):  # an empty one would be known to everybody
            raise StorageError(f"{str(operator)!r} is damaged: delete it, and the next start makes another one")
        return SigningKey.load(signing), text

    def is_operator(self, authorization: str) -> bool:
        """Whether a header holds the operator's key, ``Bearer`` and the content of ``operator.key``."""
        return hmac.compare_digest(authorization.encode(), f"Bearer {self._operator}".encode())

    def now(self) -> datetime:
        """Return the time, which only goes on."""
        return self._began + timedelta(seconds=time.monotonic() - self._ticks)

    def expired(self, fingerprint: str) -> bool:
        """Whether a collection, or its key, is past its time."""
        document = self.signed[fingerprint].document
        parts = (document, document["mechanism"].get("key") if document["model"] == "shuffled" else None)
        return any(documents.expired(part, self.now()) for part in parts if part is not None)

    def note(self, event: str, fingerprint: str) -> None:
        """Write into the log what everybody may know."""
        self.log.add(event, fingerprint, self.now().strftime("%Y-%m-%dT%H:%M:%SZ"))

    def place(self, fingerprint: str, group: int) -> Path:
        """Return the folder of a group."""
        path = self.folder / f"{fingerprint}-{group}"
        with storage_errors("use", path):
            private_folder(path)
        return path

    def groups(self, fingerprint: str) -> int:
        """Return how many groups a collection has."""
        document = self.signed[fingerprint].document
        return len(document["mechanism"]["groups"]) if document["model"] == "shuffled" else 1

    def places(self) -> list[tuple[str, int]]:
        """Return all collections and groups."""
        return [(name, group) for name in self.signed for group in range(self.groups(name))]

    def intake(self, fingerprint: str, group: int) -> Intake:
        """Return where frames go; raise a `Problem` if there is no such group."""
        if (fingerprint, group) not in self.intakes:
            raise Problem("unknown-path", "this server does not take part in that collection")
        return self.intakes[fingerprint, group]

    def release_path(self, fingerprint: str, group: int) -> Path:
        """Return where the release of a group is, or will be."""
        if fingerprint not in self.signed or not 0 <= group < self.groups(fingerprint):
            raise Problem("unknown-path", "this server does not take part in that collection")
        return self.folder / f"{fingerprint}-{group}" / "release.sfm"

    def status(self, fingerprint: str, group: int) -> dict[str, Any]:
        """Say what everybody may know about a group: nothing that shows who or how many."""
        released = self.release_path(fingerprint, group).exists()
        return {"role": self.name, "fingerprint": fingerprint, "group": group, "released": released}

    def counts(self, fingerprint: str, group: int) -> dict[str, Any]:
        """Say what only the operator may know about a group."""
        found = self.status(fingerprint, group)
        if (fingerprint, group) in self.intakes:
            store = self.intakes[fingerprint, group].store
            found |= {"held": store.count(), "refused": store.refused()}
        return found

    async def tick(self) -> None:
        """Do what is due in every group, even if it fails in one; raise a failure at the end, one of its own first."""
        failures = []
        for place in self.places():
            try:
                await asyncio.to_thread(self.step, *place)
            except SfumatoError as problem:
                failures.append(problem)
        if failures:
            raise next((one for one in failures if isinstance(one, OWN)), failures[0])

    @abstractmethod
    def step(self, fingerprint: str, group: int) -> None:
        """Do what is due in a group."""

    async def close(self) -> None:
        """Let go of everything."""
        for intake in self.intakes.values():
            await intake.commits.close()
        for intake in self.intakes.values():  # groups share a storage, which all of them have written to by now
            intake.store.close()
        self.log.store.close()
        self._lock.close()
