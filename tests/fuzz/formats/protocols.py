"""Protocol documents of the local and the shuffled model, and what is sent under them: reports and submissions.

Documents are sealed again after they were altered, and mostly promise what their device would promise: a careful liar's
documents, which only checks of the parameters themselves can refuse.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.case import Format, UnsoundError, check_numbers
from tests.fuzz.formats.containers import CORPUS
from tests.fuzz.grammar import Grammar, altered_bytes, renumbered
from tests.fuzz.library import (
    AnalyzerKey,
    LocalProtocol,
    SfumatoError,
    ShuffledProtocol,
    Shuffler,
    Submission,
    promise,
    quick_groups,
    seed_of,
)

KEY = AnalyzerKey(bytes(range(32)))
CONSENT: dict[str, Any] = {"max_epsilon": 1000, "max_delta": 0.5}  # a device that takes every honest promise
PREFIX_BYTES = 4
MOST_SEALED = 1 << 13  # messages of one person
MANY_SHARE = 0.1  # of the alterations of a document of the shuffled model


def documents(folder: str) -> list[tuple[str, dict[str, Any]]]:
    """Read the corpus."""
    found = sorted(CORPUS.glob(f"golden/{folder}/*.json"))
    return [(path.relative_to(CORPUS).as_posix(), json.loads(path.read_bytes())) for path in found]


class Documents(Format[Any]):
    """JSON documents of a protocol."""

    folder: str

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """Read the corpus."""
        found = documents(self.folder)
        self.grammar = Grammar(document for _, document in found)
        return [(name, json.dumps(document)) for name, document in found]

    def copy(self, seed: Any) -> Any:
        """Parse it anew."""
        return json.loads(seed)

    def alter(self, content: Any, random: Random) -> Any:
        """Change the document."""
        return self.grammar.alter(content, random)

    def encode(self, content: Any, random: Random) -> bytes:
        """Write JSON; surrogates and the like are left to raw bytes."""
        return json.dumps(content, allow_nan=True).encode()


class LocalDocuments(Documents):
    """Protocols of the local model."""

    name = "local-protocols"
    folder = "local"
    share = 150.0

    def encode(self, content: Any, random: Random) -> bytes:
        """Promise what the device would promise, and state the seed that belongs to it."""
        kind = random.random()
        try:
            if kind < 0.8 and isinstance(content, dict) and "guarantee" in content:
                content["guarantee"] = promise(content)
        except Exception:  # the device refuses or fails: `use` will see that too
            pass
        try:
            if kind < 0.9 and isinstance(content, dict):
                content["seed"] = seed_of(content)
        except SfumatoError:
            pass
        return super().encode(content, random)

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Load it, report under it, and count the report."""
        path = folder / "p.json"
        path.write_bytes(content)
        protocol = LocalProtocol.load(path)
        client = protocol.client(**CONSENT, unchecked=True, not_private=True)
        dimension = protocol.document["dimension"]
        point = [random.choice([0.25, 0.5, -1e300, 0.0, float("nan"), 1.0]) for _ in range(dimension)]
        report = client.report(point)
        if len(report) != client.report_bytes:
            raise UnsoundError("a report is not as long as all others")
        assert repr(protocol)
        if random.random() < 0.2:
            with protocol.collector(folder / "state") as collector:
                if collector.add(report).accepted != 1:
                    raise UnsoundError("an honest report is refused")
                if random.random() < 0.5:
                    release = collector.release()
                    answers, errors = release.query([[0.25] * dimension, [1e60] * dimension], return_std=True)
                    check_numbers("answer", answers)
                    check_numbers("error", errors, infinite=True)


def _has_groups(document: Any) -> bool:
    """Whether a document still has groups with sizes."""
    try:
        first = document["mechanism"]["groups"][0]
        return all(type(size) is int for size in (first["messages"], first["participants"], document["participants"]))
    except (LookupError, TypeError):
        return False


class ShuffledDocuments(Documents):
    """Protocols of the shuffled model."""

    name = "shuffled-protocols"
    folder = "shuffled"
    share = 30.0

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """Add a document with a key."""
        found = list(super().make_seeds())
        keyed = ShuffledProtocol.from_document(json.loads(found[0][1])).with_key(KEY, "2099-01-01")
        return [*found, ("keyed", json.dumps(keyed.document))]

    def alter(self, content: Any, random: Random) -> Any:
        """Change the document, or one of its sizes by a power of two, or let there be many groups."""
        kind = random.random()
        groups = content["mechanism"]["groups"] if kind < MANY_SHARE and _has_groups(content) else []
        if not groups:
            return super().alter(content, random)
        if kind < MANY_SHARE / 2:
            old = random.choice([content["participants"], groups[0]["messages"]])
            return renumbered(content, random, str(old), str(old << random.randrange(1, 40)))
        more = [
            {**groups[0], "label": number, "participants": groups[0]["participants"] + random.choice([0, number])}
            for number in range(1 << random.randrange(1, 12))
        ]
        return {**content, "mechanism": {**content["mechanism"], "groups": more}}

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Load it and take part."""
        path = folder / "p.json"
        path.write_bytes(content)
        with quick_groups():
            protocol = ShuffledProtocol.load(path)
        assert repr(protocol) and protocol.guarantee().statement()
        label = protocol.classes[0] if protocol.classes else None
        protocol.client(label, **CONSENT)
        sealed = max(group.messages for group in protocol.groups)  # each takes some fifty microseconds
        if protocol.document["mechanism"]["key"] is not None and sealed <= MOST_SEALED and random.random() < 0.5:
            protocol.client(label, **CONSENT).messages([0.25] * protocol.document["dimension"])


class Reports(Format[bytes]):
    """Files of reports: the right prefix, payloads of any kind."""

    name = "reports"
    share = 25.0

    def make_seeds(self) -> Iterable[tuple[str, bytes]]:
        """Read the corpus."""
        self.protocols = {name: LocalProtocol.from_document(document) for name, document in documents("local")}
        self.lengths = {name: made.collector().report_bytes for name, made in self.protocols.items()}
        return [(name, (CORPUS / name).with_suffix(".reports").read_bytes()) for name in self.protocols]

    def copy(self, seed: bytes) -> bytes:
        """Bytes are not altered in place."""
        return seed

    def alter(self, content: bytes, random: Random) -> bytes:
        """Replace the payload of one report, or any bytes."""
        if random.random() < 0.3 or not content:
            return altered_bytes(content, random)
        length = random.choice(sorted(set(self.lengths.values())))
        start = random.randrange(0, len(content), length)
        payload = random.choice([bytes(length), b"\xff" * length, random.randbytes(length)])
        return content[: start + PREFIX_BYTES] + payload[PREFIX_BYTES:] + content[start + length :]

    def encode(self, content: bytes, random: Random) -> bytes:
        """There is no checksum."""
        return content

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Count the reports, and release them."""
        with self.protocols[seed].collector(folder / "state") as collector:
            receipt = collector.add(content)
            if receipt.accepted < 0 or any(count < 0 for count in receipt.rejected.values()):
                raise UnsoundError("a receipt counts less than nothing")
            if random.random() < 0.3:
                release = collector.release()
                answers, errors = release.query([[0.25] * release.dimension], return_std=True)
                check_numbers("answer", answers)
                check_numbers("error", errors, infinite=True)


def small_protocol() -> ShuffledProtocol:
    """A collection of three people."""
    wanted: dict[str, Any] = {"epsilon": 4, "delta": 1 / 128, "participants": 3, "bounds": (0, 1), "seed": 7}
    return ShuffledProtocol("gaussian", bandwidth=0.5, dimension=1, instances=4, key=KEY, **wanted)


def submissions(protocol: ShuffledProtocol) -> list[Submission]:
    """What four people send."""
    return [protocol.client(**CONSENT).messages([place / 4]) for place in range(4)]


class Submissions(Format[bytes]):
    """Submissions to the shuffler, whose messages nobody made, and batches of them to the analyzer."""

    name = "submissions"
    share = 50.0

    def make_seeds(self) -> Iterable[tuple[str, bytes]]:
        """What people send; sealing draws secret coins, so that the bytes are others in every run."""
        self.protocol = small_protocol()
        self.honest = submissions(self.protocol)
        return [(f"submission {place}", made.to_bytes()) for place, made in enumerate(self.honest)]

    def copy(self, seed: bytes) -> bytes:
        """Bytes are not altered in place."""
        return seed

    def alter(self, content: bytes, random: Random) -> bytes:
        """Change any bytes."""
        return altered_bytes(content, random)

    def encode(self, content: bytes, random: Random) -> bytes:
        """State the digest of identity and messages."""
        if random.random() < 0.1:
            return content
        digest = hashlib.blake2b(content[:16] + content[32:], digest_size=16).digest()
        return content[:16] + digest + content[32:]

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Send it with honest ones, shuffle, and analyze."""
        submission = Submission.from_bytes(content)
        with Shuffler(folder / "inbox", self.protocol) as shuffler:
            shuffler.receive(submission)
            if random.random() < 0.2:
                shuffler.receive(*[made for made in self.honest if made.identity != submission.identity])
                shuffler.shuffle(folder / "batch")
                release = self.protocol.analyzer(KEY).analyze(folder / "batch")
                check_numbers("answer", release.query([[0.25]], return_std=True))


class Batches(Format[Any]):
    """Batches to the analyzer: header, messages, checksum."""

    name = "batches"
    share = 50.0
    magic = b"sfumato-batch-1\n"

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """Shuffle what people send."""
        import tempfile

        self.protocol = small_protocol()
        with tempfile.TemporaryDirectory() as folder:
            with Shuffler(Path(folder, "inbox"), self.protocol) as shuffler:
                shuffler.receive(*submissions(self.protocol))
                shuffler.shuffle(Path(folder, "batch"))
            content = Path(folder, "batch").read_bytes()
        start = len(self.magic) + 4
        size = int.from_bytes(content[start - 4 : start], "little")
        header = json.loads(content[start : start + size])
        self.grammar = Grammar([header])
        return [("batch", (json.dumps(header), content[start + size : -32]))]

    def copy(self, seed: Any) -> Any:
        """Parse the header anew."""
        return json.loads(seed[0]), seed[1]

    def alter(self, content: Any, random: Random) -> Any:
        """Change the header or the messages."""
        header, messages = content
        if random.random() < 0.5:
            return self.grammar.alter(header, random), messages
        return header, altered_bytes(messages, random)

    def encode(self, content: Any, random: Random) -> bytes:
        """Write the batch; mostly its header counts its messages."""
        header, messages = content
        if isinstance(header, dict) and random.random() < 0.7:
            header["messages"] = len(messages) // 53
            messages = messages[: len(messages) // 53 * 53]
        text = json.dumps(header).encode()
        whole = self.magic + len(text).to_bytes(4, "little") + text + messages
        return whole + hashlib.sha256(whole).digest()

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Analyze it."""
        path = folder / "batch"
        path.write_bytes(content)
        release = self.protocol.analyzer(KEY).analyze(path)
        check_numbers("answer", np.array(release.query([[0.25]], return_std=True)))


class Keys(Format[bytes]):
    """Files of the analyzer's private key."""

    name = "keys"
    share = 20.0

    def make_seeds(self) -> Iterable[tuple[str, bytes]]:
        """One key."""
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            KEY.save(Path(folder, "key"))
            return [("key", Path(folder, "key").read_bytes())]

    def copy(self, seed: bytes) -> bytes:
        """Bytes are not altered in place."""
        return seed

    def alter(self, content: bytes, random: Random) -> bytes:
        """Change any bytes."""
        return altered_bytes(content, random)

    def encode(self, content: bytes, random: Random) -> bytes:
        """There is no checksum."""
        return content

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Load it."""
        (folder / "key").write_bytes(content)
        assert repr(AnalyzerKey.load(folder / "key"))
