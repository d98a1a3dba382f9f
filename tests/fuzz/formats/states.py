"""What the parties keep for themselves: ledgers, device accounts, and the folders of collectors and shufflers.

Checksums are mended after a change, as someone would who can write the file: what is read may then be false, but it may
not be anything else than an error that says so, or an account that is kept.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.case import Format, UnsoundError, check_numbers
from tests.fuzz.formats.containers import CORPUS
from tests.fuzz.formats.protocols import CONSENT, documents, small_protocol, submissions
from tests.fuzz.grammar import Grammar, altered_bytes
from tests.fuzz.library import Ledger, LocalProtocol, SfumatoError, Shuffler

RULES = ("basic", "gdp", "rdp", "pld")


def canonical(record: Any) -> bytes:
    """Write a line of a ledger."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", errors="replace")


class Ledgers(Format[Any]):
    """Ledgers: lines whose hashes build on each other."""

    name = "ledgers"
    share = 50.0

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """Read those of 0.1.0, and make one under every rule."""
        found = [(path.name, path.read_bytes()) for path in sorted(CORPUS.glob("0.1.0/*.jsonl"))]
        for rule in RULES:
            with tempfile.TemporaryDirectory() as folder:
                account = Ledger(Path(folder, "l")).account("survey")
                try:
                    account.set_budget(3, 1e-6, rule=rule)
                except SfumatoError:
                    continue
                account.charge("fourier", "1/2")
                account.charge("race", "1/3", note="again")
                for part in range(4, 8):
                    account.charge("grid", Fraction(1, part))
                found.append((rule, Path(folder, "l").read_bytes()))
        parsed = [(name, [json.loads(line) for line in content.splitlines()]) for name, content in found]
        self.grammar = Grammar(records for _, records in parsed)
        return [(name, json.dumps(records)) for name, records in parsed]

    def copy(self, seed: Any) -> Any:
        """Parse it anew."""
        return json.loads(seed)

    def alter(self, content: Any, random: Random) -> Any:
        """Change a record."""
        return self.grammar.alter(content, random)

    def encode(self, content: Any, random: Random) -> bytes:
        """Chain the records."""
        previous, lines = "", []
        for record in content if isinstance(content, list) else [content]:
            if isinstance(record, dict) and random.random() < 0.98:
                record.pop("sha256", None)
                previous = hashlib.sha256(previous.encode() + canonical(record)).hexdigest()
                record = {**record, "sha256": previous}
            lines.append(canonical(record) + b"\n")
        return b"".join(lines)

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Read all accounts, and charge one."""
        path = folder / "ledger.jsonl"
        path.write_bytes(content)
        ledger = Ledger(path)
        names = ledger.datasets
        assert repr(ledger)
        for name in names[:3]:
            try:
                account = ledger.account(name)
                epsilon, delta = account.spent
                if not (epsilon >= 0 and delta >= 0):
                    raise UnsoundError("less than nothing was spent")
                assert account.rule and repr(account) and len(account.charges) >= 0
                assert account.budget is None or account.remaining is not None
            except SfumatoError:
                continue
        if names and random.random() < 0.2:
            account = ledger.account(names[0])
            before = account.spent
            account.charge("fourier", random.choice([Fraction(1, 8), Fraction(1000)]))
            if account.spent[0] < before[0]:
                raise UnsoundError("a charge made spending less")


def resealed(document: Any, name: str, random: Random) -> bytes:
    """Write a state under its checksum."""
    if isinstance(document, dict) and random.random() < 0.97:
        document.pop(name, None)
        text = json.dumps(document, sort_keys=True)
        document = {**document, name: hashlib.sha256(text.encode()).hexdigest()}
    return json.dumps(document, sort_keys=True).encode()


class Accounts(Format[Any]):
    """Accounts of devices."""

    name = "accounts"
    share = 40.0

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """One that was charged, and one that keeps reports."""
        found = dict(documents("local"))
        document = found["golden/local/rows.json"]
        others = [
            found[f"golden/local/{name}.json"]
            for name in ("phases", "phases_cauchy", "metric-phases", "rows_laplacian")
        ]
        self.protocol = LocalProtocol.from_document(document)
        kept = []
        for permanent in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "account.json")
                self._client(path, permanent).report([0.25, 0.5])
                for other in others:
                    LocalProtocol.from_document(other).client(path, budget=40, **CONSENT).report([0.25, 0.5])
                kept.append((f"permanent {permanent}", json.loads(path.read_bytes())))
        self.grammar = Grammar(document for _, document in kept)
        return [(name, json.dumps(document)) for name, document in kept]

    def _client(self, path: Path, permanent: bool) -> Any:
        return self.protocol.client(path, budget=40, permanent=permanent, unchecked=True, **CONSENT)

    def copy(self, seed: Any) -> Any:
        """Parse it anew."""
        return json.loads(seed)

    def alter(self, content: Any, random: Random) -> Any:
        """Change the document."""
        return self.grammar.alter(content, random)

    def encode(self, content: Any, random: Random) -> bytes:
        """Write the checksum."""
        return resealed(content, "sha256", random)

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Report once more."""
        path = folder / "account.json"
        path.write_bytes(content)
        client = self._client(path, seed == "permanent True")
        before = client.account.spent
        report = client.report(random.choice([[0.25, 0.5], [0.75, 0.5]]))
        if len(report) != client.report_bytes and not client.permanent:
            raise UnsoundError("a report has another length")
        if client.account.spent < before or before < 0:
            raise UnsoundError("a report made spending less")


class Folders(Format[Any]):
    """A folder with a state file and one other file, which is altered too."""

    state: str
    other: str
    checksum: str

    def copy(self, seed: Any) -> Any:
        """Parse the state anew."""
        return json.loads(seed[0]), dict(seed[1])

    def alter(self, content: Any, random: Random) -> Any:
        """Change the state, or the bytes of a file."""
        state, files = content
        if random.random() < 0.6 or not files:
            return self.grammar.alter(state, random), files
        name = random.choice(sorted(files))
        return state, {**files, name: self.altered_file(files[name], random)}

    def altered_file(self, content: bytes, random: Random) -> bytes:
        """Change a file beside the state."""
        return altered_bytes(content, random)

    def encode(self, content: Any, random: Random) -> bytes:
        """Put all files into one JSON text, bytes as hexadecimal digits."""
        state, files = content
        whole = {name: file.hex() for name, file in files.items()}
        return json.dumps({**whole, self.state: resealed(state, self.checksum, random).hex()}).encode()

    def alter_bytes(self, content: bytes, random: Random) -> bytes:
        """Change the bytes of a file."""
        files = json.loads(content)
        name = random.choice(sorted(files))
        files[name] = altered_bytes(bytes.fromhex(files[name]), random).hex()
        return json.dumps(files).encode()

    def packed(self, folder: Path) -> tuple[str, dict[str, bytes]]:
        """Read a folder."""
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        state = files.pop(self.state).decode()
        self.grammar = Grammar([json.loads(state)])
        return state, files

    def unpacked(self, content: bytes, folder: Path) -> Path:
        """Write a folder."""
        made = folder / "state"
        made.mkdir()
        for name, file in json.loads(content).items():
            (made / name).write_bytes(bytes.fromhex(file))
        return made


class Checkpoints(Folders):
    """Folders of collectors."""

    name = "checkpoints"
    state, checksum = "state.json", "sha256"
    share = 20.0

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """A collector that read a file."""
        name = "golden/local/rows.json"
        self.protocol = LocalProtocol.from_document(dict(documents("local"))[name])
        self.reports = (CORPUS / name).with_suffix(".reports").read_bytes()
        with tempfile.TemporaryDirectory() as parent:
            folder, reports = Path(parent, "state"), Path(parent, "some.reports")
            reports.write_bytes(self.reports + b"ab")
            with self.protocol.collector(folder) as collector:
                collector.add(reports)
                collector.add(self.reports[:7])
            return [("collector", self.packed(folder))]

    def encode(self, content: Any, random: Random) -> bytes:
        """State the checksums of runs that were altered, too."""
        state, files = content
        runs = state.get("runs") if isinstance(state, dict) else None
        if isinstance(runs, list) and random.random() < 0.7:
            for run in runs[:20]:
                if isinstance(run, dict) and isinstance(run.get("name"), str) and run["name"] in files:
                    run["sha256"] = hashlib.sha256(files[run["name"]]).hexdigest()
        return super().encode(content, random)

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Go on, and release."""
        with self.protocol.collector(self.unpacked(content, folder)) as collector:
            if random.random() < 0.5:
                collector.add(self.reports)
            release = collector.release()
            answers, errors = release.query([[0.25, 0.5]], return_std=True)
            check_numbers("answer", answers)
            check_numbers("error", errors, infinite=True)


class Inboxes(Folders):
    """Folders of shufflers."""

    name = "inboxes"
    state, checksum = "state.json", "checksum"
    share = 30.0

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """An open one, and one that was shuffled."""
        self.protocol = small_protocol()
        self.honest = submissions(self.protocol)
        found = []
        for shuffled in (False, True):
            with tempfile.TemporaryDirectory() as parent:
                with Shuffler(Path(parent, "inbox"), self.protocol) as shuffler:
                    shuffler.receive(*self.honest[:3])
                    if shuffled:
                        shuffler.shuffle(Path(parent, "batch"))
                found.append((f"shuffled {shuffled}", self.packed(Path(parent, "inbox"))))
        return found

    def altered_file(self, content: bytes, random: Random) -> bytes:
        """Change a record, and mostly mend its digests."""
        start, head = 24, 48
        if random.random() < 0.3 or len(content) < head:
            return altered_bytes(content, random)
        number = random.choice([0, 1, 2**32, 2**63, 2**64 - 1, int.from_bytes(content[:8], "little")])
        first = number.to_bytes(8, "little") + (content[8:start] if random.random() < 0.5 else random.randbytes(16))
        rest = content[head:] if random.random() < 0.5 else altered_bytes(content[head:], random)
        end = min(number * 53, len(rest))
        digests = [
            hashlib.blake2b(part, digest_size=size).digest() for part, size in ((first, 8), (first + rest[:end], 16))
        ]
        return first + b"".join(digests) + rest

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Go on, shuffle, and forget."""
        with Shuffler(self.unpacked(content, folder), self.protocol) as shuffler:
            assert shuffler.participants >= 0
            kind = random.random()
            if kind < 0.3 and seed == "shuffled False":
                shuffler.receive(self.honest[3])
            if kind > 0.7:
                shuffler.shuffle(folder / "batch")
                shuffler.forget()
