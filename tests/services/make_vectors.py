"""Write the test vectors of docs/wire.md: every message that travels, from fixed keys and coins.

``python -m tests.services.make_vectors`` writes tests/services/vectors; the tests compare with what is there. Keys in
them are public, and of no use but this.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa

from sfumato.local import Protocol
from sfumato.public.canonical_json import canonical
from sfumato.services.admission import IssuerKey, blinded_with, token_text
from sfumato.services.log import Log, read_log
from sfumato.services.signing import SignedProtocol, SigningKey, Ticket
from sfumato.services.wire import CODES, Fate, Problem, framed, path, receipt
from sfumato.shuffled.messages import Header, Submission, write_batch
from sfumato.shuffled.sealing import MESSAGE_BYTES
from tests.services.rfc9474 import P, Q

FOLDER = Path(__file__).parent / "vectors"
TIME = "2027-01-31T00:00:00Z"


def _fixed(name: str, size: int) -> bytes:
    return hashlib.shake_256(name.encode()).digest(size)


def issuer_key() -> IssuerKey:
    """Return the key of RFC 9474, appendix A.1."""
    d = pow(65537, -1, (P - 1) * (Q - 1))
    public = rsa.RSAPublicNumbers(65537, P * Q)
    numbers = rsa.RSAPrivateNumbers(P, Q, d, d % (P - 1), d % (Q - 1), pow(Q, -1, P), public)
    return IssuerKey(numbers.private_key())


def protocol() -> Protocol:
    """Return the collection that all vectors are of."""
    return Protocol("l2-lsh", bandwidth=0.5, dimension=2, epsilon=2, participants=1000, bounds=(0, 1), seed=7)


def _reports() -> list[bytes]:
    name = bytes.fromhex(protocol().fingerprint)[:4]
    size = protocol().server().device.payload_bytes
    return [name + _fixed(f"identity {number}", 6) + bytes(size) for number in range(2)]


def requests() -> dict[str, Any]:
    """Bodies of frames with their receipts."""
    reports = _reports()
    cases = [
        ("two reports", reports, [Fate.HELD, Fate.HELD]),
        ("the same again", reports[:1], [Fate.HELD]),
        ("cut off, and of another protocol", [reports[0][:-1], b"\xff" + reports[0][1:]], [Fate.LENGTH, Fate.FOREIGN]),
    ]
    return {
        "path": path(protocol().fingerprint, 0, "frames"),
        "cases": [
            {"name": name, "body": framed(contents).hex(), "receipt": receipt(fates).hex()}
            for name, contents, fates in cases
        ],
        "not frames": [b"".hex(), b"\1".hex(), b"\5\0\0\0abcd".hex()],
    }


def problems() -> dict[str, Any]:
    """Every code with its body."""
    return {code: {"status": status, "body": Problem(code).document()} for code, (status, _) in CODES.items()}


def token() -> dict[str, Any]:
    """One token with everything on the way to it."""
    key, text = issuer_key(), token_text(protocol().fingerprint)
    prepared, salt = _fixed("nonce", 32) + text, _fixed("salt", 48)
    factor = int.from_bytes(_fixed("factor", 500))
    request = blinded_with(prepared, key.public, salt, factor)
    signed = key.sign_blindly(request.blinded)
    signature = request.finished(signed, key.public)
    code = _fixed("code", 16).hex()
    return {
        "issuer": key.public.text,
        "fingerprint": protocol().fingerprint,
        "prepared": prepared.hex(),
        "salt": salt.hex(),
        "factor": f"{factor:x}",
        "blinded": request.blinded.hex(),
        "request": framed([code.encode(), request.blinded]).hex(),
        "answer": signed.hex(),
        "signature": signature.hex(),
        "token": (prepared[:32] + signature).hex(),
        "invitation": code,
        "invitation hash": hashlib.sha256(code.encode()).hexdigest(),
        "frame": framed([prepared[:32] + signature + _reports()[0]]).hex(),
    }


def signatures(folder: Path) -> dict[str, Any]:
    """A signed protocol and a log."""
    from sfumato.services.sqlite import SQLiteStore

    organiser, server = SigningKey(_fixed("organiser", 32)), SigningKey(_fixed("server", 32))
    document = json.loads(canonical(protocol().document))
    signed = SignedProtocol.sign(document, organiser)
    log = Log(SQLiteStore(folder / "log.db", "log"), server)
    log.add("opened", signed.fingerprint, TIME)
    log.add("published", signed.fingerprint, TIME)
    content = log.content()
    log.store.close()
    return {
        "organiser private": _fixed("organiser", 32).hex(),
        "organiser": organiser.public.hex(),
        "signed text": canonical(signed._fields()).hex(),
        "signed protocol": json.loads(signed.to_bytes()),
        "fingerprint": signed.fingerprint,
        "server": server.public.hex(),
        "log": read_log(content, server.public.hex()),
    }


def batch(folder: Path) -> dict[str, Any]:
    """A submission, a batch and its ticket; the messages are no sealed ones."""
    key, messages = SigningKey(_fixed("shuffler", 32)), [_fixed(f"message {one}", MESSAGE_BYTES) for one in range(3)]
    submission = Submission(messages, _fixed("identity", 16))
    write_batch(folder / "batch", Header(protocol().fingerprint, 0, 1, 3), [b"".join(messages)], overwrite=True)
    content = (folder / "batch").read_bytes()
    ticket = Ticket.sign(content[-32:].hex(), len(content), key)
    return {
        "submission": submission.to_bytes().hex(),
        "batch": content.hex(),
        "shuffler": key.public.hex(),
        "path": path(protocol().fingerprint, 0, "batch"),
        "headers": {
            "content-length": str(ticket.size),
            "sfumato-checksum": ticket.checksum,
            "sfumato-signature": ticket.signature,
        },
    }


def all_vectors(folder: Path) -> dict[str, dict[str, Any]]:
    """Return all of them, by the name of their file."""
    return {
        "requests": requests(),
        "problems": problems(),
        "token": token(),
        "signatures": signatures(folder),
        "batch": batch(folder),
    }


def main() -> None:
    """Write them."""
    import tempfile

    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in all_vectors(Path(folder)).items():
            text = json.dumps(content, indent=1, sort_keys=True)
            (FOLDER / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
