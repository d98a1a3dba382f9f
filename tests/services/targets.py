"""The four roles as they are attacked: what a good request is, what its acknowledgement promises, what must be kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from random import Random
from typing import NamedTuple

import sfumato
from sfumato.local import Protocol
from sfumato.services.admission import IssuerKey, blind, token_text
from sfumato.services.analyzer import AnalyzerRole
from sfumato.services.collector import CollectorRole
from sfumato.services.issuer import IssuerRole, code_hash, new_codes
from sfumato.services.limits import Limits
from sfumato.services.role import Role
from sfumato.services.shuffler import Policy, ShufflerRole
from sfumato.services.signing import SignedProtocol, SigningKey, Ticket
from sfumato.services.wire import BATCH, CHECKSUM, FRAMES, SIGNATURE, Fate, framed, path, read_receipt
from sfumato.shuffled import AnalyzerKey, Shuffler
from sfumato.shuffled import Protocol as Shuffled

NOWHERE = "http://127.0.0.1:9"
PEOPLE = 12
OPEN_HANDED = Limits(rate=1e9, burst=1e9)
LIMITS = Limits(body=100_000, body_seconds=0.3, head_seconds=0.3, rate=1e9, burst=1e9)


def local_protocol(seed: int = 7) -> Protocol:
    """Return a small collection of the local model."""
    return Protocol("l2-lsh", bandwidth=0.5, dimension=2, epsilon=2, participants=1000, bounds=(0, 1), seed=seed)


def shuffled_protocol(key: AnalyzerKey) -> Shuffled:
    """Return a small collection of the shuffled model."""
    return Shuffled(
        "gaussian", bandwidth=1.0, dimension=1, epsilon=1, delta=1e-2, participants=10, instances=2, key=key
    )


def submissions(protocol: Shuffled, count: int = PEOPLE) -> list[bytes]:
    """Return what so many devices send."""
    return [protocol.client(max_delta=1e-2).messages([0.0]).to_bytes() for _ in range(count)]


def shuffled_collection(folder: Path) -> tuple[SignedProtocol, Shuffled]:
    """Make a collection whose keys are in a folder."""
    key, shuffler = AnalyzerKey.generate(), SigningKey.generate()
    protocol = shuffled_protocol(key)
    key.save(folder / "analyzer.key")
    (folder / "shuffler").mkdir()
    shuffler.save(folder / "shuffler" / "server.key")
    return SignedProtocol.sign(protocol.document, SigningKey.generate(), shuffler=shuffler.public.hex()), protocol


class Request(NamedTuple):
    """A good request; `parts` is what is acknowledged."""

    body: bytes
    parts: list[bytes]
    headers: dict[str, str]


class Target(ABC):
    """A role under attack.

    Attributes
    ----------
    role : Role
        With a folder of its own, and little patience for slow senders.
    method, where, kind : str
        Of a good request.
    good : float
        Which share of the requests comes as it was made.
    """

    role: Role
    method, where, kind, good = "POST", "", FRAMES, 0.1

    @abstractmethod
    def request(self, coins: Random) -> Request:
        """Make a good request; the same again now and then."""

    @abstractmethod
    def acknowledge(self, request: Request, answer: bytes) -> None:
        """Take the answer to a good request, which came as it was made."""

    @abstractmethod
    def check(self) -> int:
        """Look at what is kept: everything that was acknowledged, nothing twice; return how much was acknowledged."""


class _Frames(Target):
    """Collector and shuffler: frames, each kept once."""

    def __init__(self, role: Role, fingerprint: str) -> None:
        self.role, self.where = role, path(fingerprint, 0, "frames")
        self._store = role.intakes[fingerprint, 0].store
        self._held: set[bytes] = set()

    def acknowledge(self, request: Request, answer: bytes) -> None:
        fates = read_receipt(answer, len(request.parts))
        self._held |= {part for part, fate in zip(request.parts, fates, strict=True) if fate is Fate.HELD}

    @abstractmethod
    def kept(self) -> list[bytes]:
        """Return what is in the storage of every frame that was taken, as far as the frame itself shows it."""

    @abstractmethod
    def shown(self, frame: bytes) -> bytes:
        """Return what `kept` holds of a frame."""

    def check(self) -> int:
        kept = self.kept()
        assert {self.shown(frame) for frame in self._held} <= set(kept), "something that was acknowledged is lost"
        assert self._store.count() == len(kept) == len(set(kept))
        return len(self._held)


class CollectorTarget(_Frames):
    """A collector that anybody may report to."""

    def __init__(self, folder: Path) -> None:
        protocol = local_protocol()
        signed = SignedProtocol.sign(protocol.document, SigningKey.generate())
        super().__init__(CollectorRole(folder / "collector", [signed], LIMITS), protocol.fingerprint)
        self._client = protocol.client()

    def request(self, coins: Random) -> Request:
        reports = [self._client.report([0.5, 0.5]) for _ in range(coins.randint(1, 2))]
        return Request(framed(reports), reports, {})

    def kept(self) -> list[bytes]:
        return [bytes(row[0]) + bytes(row[1]) for rows in self._store.blocks(1000) for row in rows]

    def shown(self, frame: bytes) -> bytes:
        return frame[4:]


class ShufflerTarget(_Frames):
    """A shuffler whose collection stays open; what it keeps is encrypted, and the identity alone shows."""

    def __init__(self, folder: Path) -> None:
        protocol = shuffled_protocol(AnalyzerKey.generate())
        signed = SignedProtocol.sign(protocol.document, SigningKey.generate(), shuffler="00" * 32)
        role = ShufflerRole(folder / "shuffler", [signed], NOWHERE, Policy(participants=10**6), LIMITS)
        super().__init__(role, protocol.fingerprint)
        self._made = submissions(protocol, 100)

    def request(self, coins: Random) -> Request:
        chosen = [coins.choice(self._made) for _ in range(coins.randint(1, 2))]
        return Request(framed(chosen), chosen, {})

    def kept(self) -> list[bytes]:
        return [bytes(row[0]) for rows in self._store.blocks(1000) for row in rows]

    def shown(self, frame: bytes) -> bytes:
        return frame[:16]


class IssuerTarget(Target):
    """An issuer with many invitations; the answer to a request is known, for it has no coins."""

    def __init__(self, folder: Path) -> None:
        self._key, organiser = IssuerKey.generate(), SigningKey.generate()
        signed = SignedProtocol.sign(local_protocol().document, organiser, self._key.public.text)
        self._codes, self._blinded, self._used = new_codes(5000), dict[str, bytes](), set[bytes]()
        (folder / "hashes").write_text("".join(f"{code_hash(code)}\n" for code in self._codes))
        self.role = IssuerRole(folder / "issuer", [signed], [self._key], folder / "hashes", LIMITS)
        self.where, self._fingerprint = f"/v1/collections/{signed.fingerprint}/token", signed.fingerprint

    def request(self, coins: Random) -> Request:
        code = coins.choice(self._codes)
        if code not in self._blinded:
            self._blinded[code] = blind(token_text(self._fingerprint), self._key.public).blinded
        parts = [code.encode(), self._blinded[code]]
        return Request(framed(parts), parts, {})

    def acknowledge(self, request: Request, answer: bytes) -> None:
        # A spoilt request may have used the invitation for another blinded message: then it is refused, not answered.
        assert answer == self._key.sign_blindly(request.parts[1])
        self._used.add(request.parts[0])

    def check(self) -> int:
        used = self.role.counts(self._fingerprint, 0)["used"]
        assert len(self._used) <= used <= len(self._codes)
        return len(self._used)


class AnalyzerTarget(Target):
    """An analyzer that waits for its one batch, which comes in the end: of what comes later it reads nothing."""

    method, kind, good = "PUT", BATCH, 0.0

    def __init__(self, folder: Path) -> None:
        key, shuffler = AnalyzerKey.generate(), SigningKey.generate()
        protocol = shuffled_protocol(key)
        key.save(folder / "analyzer.key")
        signed = SignedProtocol.sign(protocol.document, SigningKey.generate(), shuffler=shuffler.public.hex())
        self.role = AnalyzerRole(folder / "analyzer", [signed], [folder / "analyzer.key"], LIMITS)
        self.where = path(protocol.fingerprint, 0, "batch")
        with Shuffler(folder / "inbox", protocol) as mixer:
            mixer.receive(*(protocol.client(max_delta=1e-2).messages([0.0]) for _ in range(PEOPLE)))
            mixer.shuffle(folder / "batch")
        self._batch = (folder / "batch").read_bytes()
        ticket = Ticket.sign(self._batch[-32:].hex(), len(self._batch), shuffler)
        self._headers = {CHECKSUM: ticket.checksum, SIGNATURE: ticket.signature}
        self._release, self._taken = self.role.release_path(protocol.fingerprint, 0), 0
        self._fingerprint = protocol.fingerprint

    def request(self, coins: Random) -> Request:
        return Request(self._batch, [self._batch], self._headers)

    def acknowledge(self, request: Request, answer: bytes) -> None:
        self._taken += 1

    def check(self) -> int:
        self.role.step(self._fingerprint, 0)
        assert not self._taken or sfumato.load(self._release).count.value == PEOPLE
        return self._taken


TARGETS = {
    "collector": CollectorTarget,
    "shuffler": ShufflerTarget,
    "analyzer": AnalyzerTarget,
    "issuer": IssuerTarget,
}
