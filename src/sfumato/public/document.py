r"""Public parameters of a collection as one document that every participant and the collector read the same way.

The local and the shuffled model share it. It needs the standard library only, because devices load it. A document is
canonical JSON (`canonical_json`: no floating-point numbers but decimals as text); its fingerprint is the SHA-256 of
that form. Reports carry the first bytes of the fingerprint, so that a report made under other parameters is
recognised and refused.

Fields of a document
--------------------
format, version
    ``"sfumato-protocol"``, and 2; documents of version 1 are refused.
model
    ``"local"`` or ``"shuffled"``.
kernel, dimension
    The kernel's document, with exact numbers; columns of a point.
domain
    Bounds of the points and what happens outside them, see `Domain`.
epsilon, delta, participants, guarantee
    What is promised to a participant of a collection of so many; epsilon as a fraction's text.
nonce
    Local only: 64 hexadecimal digits, drawn at random or the caller's.
seed
    64 hexadecimal digits, from which all public randomness is derived. In the local model, where promises may rest on
    it, the SHA-256 of ``b"sfumato-seed-1\0"`` and the canonical form of all other fields (`seed_of`): whoever wants
    another seed has to change the document, and learns what comes of it by trying only.
expires
    UTC time after which devices refuse to report, ``"2027-01-31T00:00:00Z"``, or null.
mechanism
    ``{"name": ..., ...}``: whatever else the model needs.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from sfumato.errors import InputError
from sfumato.public.canonical_json import canonical, exact, fingerprint, parse, plain
from sfumato.public.codec import brief
from sfumato.public.domain import Domain
from sfumato.public.ranges import MOST_COLUMNS
from sfumato.storage import AtomicFile, read_at_most

__all__ = [
    "Domain",
    "canonical",
    "check_document",
    "exact",
    "expired",
    "expiry_text",
    "fingerprint",
    "load",
    "loads",
    "make_document",
    "new_seed",
    "plain",
    "prefix",
    "save",
    "sealed",
    "seed_of",
    "seed_text",
]

FORMAT = "sfumato-protocol"
VERSIONS = {"local": 2, "shuffled": 2}
MODELS = tuple(VERSIONS)
FIELDS = frozenset(
    {
        *("format", "version", "model", "kernel", "dimension", "domain", "epsilon", "delta", "participants"),
        *("guarantee", "seed", "expires", "mechanism"),
    }
)
LARGEST_FILE = 1 << 24
PREFIX_BYTES = 4
_SEED = re.compile(r"[0-9a-f]{64}")
_TIME = "%Y-%m-%dT%H:%M:%SZ"


def prefix(document: Mapping[str, Any]) -> bytes:
    """Return the first bytes of the fingerprint, which every report carries."""
    return bytes.fromhex(fingerprint(document))[:PREFIX_BYTES]


def make_document(
    *,
    model: str,
    kernel: Mapping[str, Any],
    domain: Domain,
    epsilon: str,
    delta: float,
    participants: int,
    guarantee: Mapping[str, Any],
    mechanism: Mapping[str, Any],
    seed: str | None = None,
    expires: str | date | None = None,
) -> dict[str, Any]:
    """Put a document together and check it.

    Parameters
    ----------
    model : {"local", "shuffled"}
        Who reads the reports.
    kernel, guarantee, mechanism : mapping
        Their documents; floats are made exact here.
    domain : Domain
        Where points may live.
    epsilon : str
        A fraction, ``"1/2"``.
    delta : float
        0 for a pure guarantee.
    participants : int
        How many take part (local: expected; shuffled: at least so many honest ones).
    seed : str, optional
        64 hexadecimal digits, the nonce of a local document or the seed of a shuffled one; drawn at random by default.
    expires : str, date or datetime, optional
        When devices stop reporting, see `expiry_text`.

    Examples
    --------
    >>> document = make_document(
    ...     model="local", kernel={"kernel": "angular", "power": 1}, domain=Domain((-1.0,), (1.0,)), epsilon="1",
    ...     delta=0.0, participants=10, guarantee={}, mechanism={"name": "rows"}, seed="0" * 64)
    >>> fingerprint(document)[:8]
    '6fb81e00'
    """
    if model not in MODELS:
        raise InputError(f"a protocol's model must be one of {', '.join(MODELS)}, got {brief(model)}")
    given = new_seed() if seed is None else seed
    document = {
        "format": FORMAT,
        "version": VERSIONS[model],
        "model": model,
        "kernel": exact(kernel),
        "dimension": domain.dimension,
        "domain": domain.to_document(),
        "epsilon": epsilon,
        "delta": exact(float(delta)),
        "participants": participants,
        "guarantee": exact(guarantee),
        "seed": given,
        "expires": None if expires is None else expiry_text(expires),
        "mechanism": exact(mechanism),
    }
    if model == "local":
        document = sealed({**document, "nonce": given})
    check_document(document)
    return document


def seed_of(document: Mapping[str, Any]) -> str:
    """Return the seed that belongs to all other fields of a local document."""
    others = {name: value for name, value in document.items() if name != "seed"}
    return hashlib.sha256(b"sfumato-seed-1\0" + canonical(others)).hexdigest()


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a local document with the seed that belongs to it.

    Examples
    --------
    >>> sealed({"nonce": "1"})["seed"] == sealed({"nonce": "2"})["seed"]
    False
    """
    return {**document, "seed": seed_of(document)}


def new_seed() -> str:
    """Draw a public seed."""
    return secrets.token_hex(32)


def seed_text(seed: int | str | None) -> str:
    """Turn a seed (an integer below 2**256, or 64 hexadecimal digits) into the document's text; draw one for None.

    Examples
    --------
    >>> seed_text(7)[-4:]
    '0007'
    """
    if seed is None:
        return new_seed()
    if isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**256:
        return f"{seed:064x}"
    if isinstance(seed, str) and _SEED.fullmatch(seed):
        return seed
    raise InputError(f"a seed must be an integer from 0 to 2**256 - 1 or 64 hexadecimal digits; got {brief(seed)}")


def expiry_text(moment: str | date) -> str:
    """Write a date, a time with a zone or ISO text as UTC text; a date means its end.

    Examples
    --------
    >>> expiry_text("2027-01-31")
    '2027-01-31T23:59:59Z'
    """
    if isinstance(moment, str):
        try:
            moment = date.fromisoformat(moment) if len(moment) <= 10 else datetime.fromisoformat(moment)
        except ValueError:
            raise InputError(f"expires must be a date such as 2027-01-31 or an ISO time; got {brief(moment)}") from None
    if not isinstance(moment, date):
        raise InputError(f"expires must be a date, a time or ISO text, got {brief(moment)}")
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, 23, 59, 59, tzinfo=UTC)
    if moment.tzinfo is None:
        raise InputError(f"expires must name its time zone, such as {moment.isoformat()}Z")
    return moment.astimezone(UTC).strftime(_TIME)


def expired(document: Mapping[str, Any], now: datetime | None = None) -> bool:
    """Whether devices must not report any more."""
    if document["expires"] is None:
        return False
    return (now or datetime.now(UTC)) > datetime.strptime(document["expires"], _TIME).replace(tzinfo=UTC)


def check_document(document: Any, model: str | None = None, released: bool = False) -> None:
    """Raise `InputError` unless the shared fields of a document are what they should be.

    Parameters
    ----------
    document : mapping
        Read from anywhere.
    model : {"local", "shuffled"}, optional
        Refuse documents of the other.
    released : bool
        Whether it only explains a release: then older versions are read too, which nobody should report under.
    """
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        raise InputError("this is not a protocol of sfumato; ask the organiser for the file again")
    named, version = document.get("model"), document.get("version")
    if named not in MODELS or model not in (None, named):
        raise InputError(f"the protocol is for the model {named!r:.40}, not {model or 'one of ' + str(MODELS)}")
    newest = VERSIONS[named]
    if type(version) is not int or not (1 if released else newest) <= version <= newest:
        fix = "ask the organiser for a new one" if version == 1 else "update sfumato"
        raise InputError(f"the protocol has version {version!r:.40} and this sfumato reads {newest}; {fix}")
    fields = FIELDS | {"nonce"} if named == "local" and version > 1 else FIELDS
    if set(document) != fields:
        odd = ", ".join(sorted(map(repr, fields ^ set(document))))
        raise InputError(f"the protocol's document has missing or unknown fields: {odd}")
    canonical(document)
    _check_shared(document)


def _check_shared(document: Mapping[str, Any]) -> None:
    dimension, participants = document["dimension"], document["participants"]
    if type(dimension) is not int or not 1 <= dimension <= MOST_COLUMNS:
        raise InputError(f"the protocol's dimension must be from 1 to {MOST_COLUMNS}, got {brief(dimension)}")
    if type(participants) is not int or not 1 <= participants < 2**40:
        raise InputError(
            f"the protocol's participants must be a positive integer below 2**40, got {brief(participants)}"
        )
    if Domain.from_document(document["domain"]).dimension != dimension:
        raise InputError("the protocol's domain has another number of columns than its dimension")
    for name in ("seed", "nonce"):
        text = document.get(name, "0" * 64)
        if not isinstance(text, str) or not _SEED.fullmatch(text):
            raise InputError(f"the protocol's {name} must be 64 lower-case hexadecimal digits")
    for name in ("kernel", "guarantee", "mechanism"):
        if not isinstance(document[name], Mapping):
            raise InputError(f"the protocol's field {name!r} must be an object")
    if not isinstance(document["mechanism"].get("name"), str):
        raise InputError("the protocol does not name its mechanism")
    if not isinstance(document["epsilon"], str) or not isinstance(plain(document["delta"]), float):
        raise InputError("the protocol's epsilon must be a fraction's text, and its delta a decimal")
    if document["expires"] is not None:
        try:
            strict = datetime.strptime(document["expires"], _TIME).strftime(_TIME) == document["expires"]
        except (TypeError, ValueError):
            strict = False
        if not strict:
            raise InputError(f"the protocol's expiry is no UTC time: {document['expires']!r}")


def save(document: Mapping[str, Any], path: str | Path, overwrite: bool = False) -> None:
    """Write a document, indented for people; the fingerprint does not depend on the layout."""
    check_document(document)
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, indent=1)
    with AtomicFile(path, overwrite=overwrite) as file:
        file.write(text.encode() + b"\n")


def load(path: str | Path, model: str | None = None) -> dict[str, Any]:
    """Read a document and check it.

    Parameters
    ----------
    path : str or Path
        A JSON file.
    model : {"local", "shuffled"}, optional
        Refuse documents of the other.
    """
    content = read_at_most(path, LARGEST_FILE)
    if len(content) > LARGEST_FILE:
        raise InputError(f"{str(path)!r} is too large to be a protocol")
    return loads(content, model)


def loads(content: bytes, model: str | None = None) -> dict[str, Any]:
    """Read a document from bytes and check it."""
    document = parse(content, "the protocol", LARGEST_FILE)
    check_document(document, model)
    checked: dict[str, Any] = document
    return checked
