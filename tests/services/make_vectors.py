"""Write the test vectors of docs/wire.md: every message that travels, from fixed keys and coins.

``python -m tests.services.make_vectors`` writes tests/services/vectors; the tests compare with what is there. Keys in
them are public, and of no use but this.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa

from sfumato.local import Protocol
from sfumato.public.canonical_json import canonical
from sfumato.services.admission import IssuerKey, blinded_with, token_text
from sfumato.services.log import Log, read_log
from sfumato.services.signing import SignedProtocol, SigningKey, Ticket
from sfumato.services.wire import CODES, FRAMES, RECEIPT, Fate, Problem, framed, path, receipt
from sfumato.shuffled.messages import Header, Submission, write_batch
from sfumato.shuffled.sealing import MESSAGE_BYTES
from tests.services.rfc9474 import P, Q

FOLDER = Path(__file__).parent / "vectors"
TIME = "2027-01-31T00:00:00Z"
_ELSEWHERE = "this server does not take part in that collection"


def _fixed(name: str, size: int) -> bytes:
    return hashlib.shake_256(name.encode()).digest(size)


@cache
def issuer_key() -> IssuerKey:
    """Return the key of RFC 9474, appendix A.1."""
    d = pow(65537, -1, (P - 1) * (Q - 1))
    public = rsa.RSAPublicNumbers(65537, P * Q)
    numbers = rsa.RSAPrivateNumbers(P, Q, d, d % (P - 1), d % (Q - 1), pow(Q, -1, P), public)
    return IssuerKey(numbers.private_key())


@cache
def protocol(seed: int = 7) -> Protocol:
    """Return the collection that vectors are of; the one that admits by tokens has the seed 8, the closed one 9."""
    return Protocol("l2-lsh", bandwidth=0.5, dimension=2, epsilon=2, participants=1000, bounds=(0, 1), seed=seed)


def signed_protocol(seed: int = 7) -> SignedProtocol:
    """Return a collection's signed document."""
    document = json.loads(canonical(protocol(seed).document))
    issuer = issuer_key().public.text if seed == 8 else None
    return SignedProtocol.sign(document, SigningKey(_fixed("organiser", 32)), issuer)


def _reports(seed: int = 7) -> list[bytes]:
    name = bytes.fromhex(protocol(seed).fingerprint)[:4]
    size = protocol(seed).server().device.payload_bytes
    return [name + _fixed(f"identity {number}", 6) + bytes(size) for number in range(2)]


def _token(seed: int) -> bytes:
    """Return a token of the collection that admits by them."""
    prepared = _fixed("nonce", 32) + token_text(protocol(seed).fingerprint)
    request = blinded_with(prepared, issuer_key().public, _fixed("salt", 48), int.from_bytes(_fixed("factor", 500)))
    return prepared[:32] + request.finished(issuer_key().sign_blindly(request.blinded), issuer_key().public)


def requests() -> dict[str, Any]:
    """Bodies of frames with their receipts, to be sent in this order; every fate is among them."""
    (one, two), (first, second), late = _reports(), _reports(8), _reports(9)
    token = _token(8)
    cases = [
        (7, "two reports", [one, two], [Fate.HELD, Fate.HELD]),
        (7, "the same again", [one], [Fate.HELD]),
        (7, "cut off, and of another protocol", [one[:-1], b"\xff" + one[1:]], [Fate.LENGTH, Fate.FOREIGN]),
        (7, "of a group of rows that does not exist", [one[:10] + b"\xff" * 6], [Fate.RANGE]),
        (7, "another answer under a known identity", [one[:-4] + b"\1\0\0\0"], [Fate.CONFLICT]),
        (7, "one bad frame among good ones", [two, b"", one], [Fate.HELD, Fate.LENGTH, Fate.HELD]),
        (8, "no token, and one of another collection", [first, _token(7) + first], [Fate.TOKEN, Fate.TOKEN]),
        (8, "a token, once", [token + first], [Fate.HELD]),
        (8, "again, and the token for another report", [token + first, token + second], [Fate.HELD, Fate.SPENT]),
        (9, "what came before the end, and after it", late, [Fate.HELD, Fate.CLOSED]),
    ]  # fmt: skip
    return {
        "content-type": FRAMES,
        "receipt's content-type": RECEIPT,
        "signed protocols": [json.loads(signed_protocol(seed).to_bytes()) for seed in (7, 8, 9)],
        "before the end": framed(late[:1]).hex(),
        "cases": [
            {
                "name": name,
                "path": path(protocol(seed).fingerprint, 0, "frames"),
                "body": framed(contents).hex(),
                "receipt": receipt(fates).hex(),
            }
            for seed, name, contents, fates in cases
        ],
        "not frames": [b"".hex(), b"\1".hex(), b"\5\0\0\0abcd".hex()],
    }


def answers() -> dict[str, Any]:
    """What a collector's server with the server's fixed key says to whoever asks, before the first report."""
    name, server = protocol().fingerprint, SigningKey(_fixed("server", 32)).public.hex()
    status = {"role": "collector", "fingerprint": name, "group": 0, "released": False}
    asked: list[tuple[str, str, int, Any]] = [
        ("GET", "/healthz", 200, {"alive": True}),
        ("GET", "/readyz", 200, {"ready": True}),
        ("GET", "/v1/collections", 200,
         {"role": "collector", "key": server, "collections": [{"fingerprint": name, "groups": 1}]}),
        ("GET", f"/v1/collections/{name}/protocol", 200, json.loads(signed_protocol().to_bytes())),
        ("GET", path(name, 0, "status"), 200, status),
        ("GET", path(name, 0, "release.sfm"), 404, Problem("not-ready").document()),
        ("GET", path(name, 1, "status"), 404, Problem("unknown-path", _ELSEWHERE).document()),
        ("GET", path("0" * 64, 0, "status"), 404, Problem("unknown-path", _ELSEWHERE).document()),
        ("GET", "/v2/collections", 404, Problem("unknown-path").document()),
        ("DELETE", "/v1/collections", 405, Problem("method").document()),
        ("GET", "/v1/counts", 401, Problem("not-allowed").document()),
        ("POST", path(name, 0, "frames"), 415, Problem("media-type", f"send {FRAMES}").document()),
    ]  # fmt: skip
    return {
        "server private": _fixed("server", 32).hex(),
        "cases": [
            {"method": method, "path": where, "status": status, "answer": answer}
            for method, where, status, answer in asked
        ],
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
        "refused": [
            {"name": name, "request": framed(parts).hex(), "problem": Problem(problem, detail).document()}
            for name, parts, problem, detail in (
                ("no such invitation", [b"0" * 32, request.blinded], "token", "there is no such invitation"),
                ("another request under it", [code.encode(), bytes(512)], "token", "the invitation was used before"),
                (
                    "no blinded message",
                    [code.encode(), b"\xff" * 512],
                    "token",
                    "the blinded message is no number below the issuer's modulus",
                ),
                ("one frame", [code.encode()], "frames", "send two: the invitation and the blinded message"),
            )
        ],
    }


def signatures(folder: Path) -> dict[str, Any]:
    """A signed protocol and a log."""
    from sfumato.services.sqlite import SQLiteStore

    organiser, server = SigningKey(_fixed("organiser", 32)), SigningKey(_fixed("server", 32))
    signed = signed_protocol()
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
        "answers": answers(),
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
