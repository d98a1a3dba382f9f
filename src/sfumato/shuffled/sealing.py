"""Messages that only the analyzer can read: one bit of one instance, sealed to its public key, all of one length.

Source: hybrid public key encryption (RFC 9180), base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, from
`cryptography`. Every message has an ephemeral key of its own, so that equal contents look unrelated, and nothing in it
tells who sent it. The info binds it to one protocol (its fingerprint) and one group of participants: a message of
another collection does not open, nor does one of which a bit was changed.

A plaintext is the instance (4 bytes, little-endian) and the content (1 byte, 0 or 1); cover, which the analyzer drops,
names an instance that does not exist. A sealed message is the ephemeral public key (32 bytes), the ciphertext (5) and
the tag (16).
"""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from sfumato.errors import InputError
from sfumato.privacy.bits import Integers
from sfumato.privacy.process import check_openssl
from sfumato.public.codec import Field, Optional, Schema, Text, refuse
from sfumato.public.document import expired, expiry_text
from sfumato.storage import AtomicFile, read_at_most

_PLAINTEXT = struct.Struct("<IB")
MESSAGE_BYTES = 32 + _PLAINTEXT.size + 16
COVER = (2**32 - 1, 0)  # instance and content of a message that says nothing
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
_LABEL = b"sfumato-shuffled-2\0"
_LARGEST_KEY_FILE = 10_000


@dataclass(frozen=True)
class Hexadecimal(Field[str]):
    """So many lower-case hexadecimal digits."""

    digits: int

    def read(self, value: Any, path: str) -> str:
        """Return the digits."""
        if not isinstance(value, str) or len(value) != self.digits or not set(value) <= set("0123456789abcdef"):
            raise refuse(path, f"{self.digits} lower-case hexadecimal digits", value)
        return value


_KEY = Schema(id=Hexadecimal(16), public=Hexadecimal(64), expires=Optional(Text(longest=40)))


@dataclass(frozen=True)
class Context:
    """What messages are bound to.

    Attributes
    ----------
    fingerprint : str
        Of the protocol, 64 hexadecimal digits.
    group : int
        Place of the group of participants in the protocol.
    """

    fingerprint: str
    group: int

    @property
    def info(self) -> bytes:
        """Bytes that both sides must agree on."""
        return _LABEL + bytes.fromhex(self.fingerprint) + struct.pack("<I", self.group)


def key_id(public: bytes) -> str:
    """Return a short name of a public key: the first 8 bytes of its SHA-256."""
    return hashlib.sha256(public).hexdigest()[:16]


class AnalyzerKey:
    """The analyzer's private key; make one with `AnalyzerKey.generate`, and a new one for every collection.

    Examples
    --------
    >>> key = AnalyzerKey.generate()
    >>> ours, other = Context("0" * 64, 0), Context("0" * 64, 1)
    >>> sealed = seal(np.array([3]), np.array([1]), key.public, ours)
    >>> len(sealed[0]) == MESSAGE_BYTES, key.open(sealed[0], ours), key.open(sealed[0], other)
    (True, (3, 1), None)
    """

    def __init__(self, private: bytes) -> None:
        try:
            self._key = X25519PrivateKey.from_private_bytes(private)
        except ValueError:
            raise InputError("an analyzer's private key is 32 bytes") from None
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> AnalyzerKey:
        """Draw a new key from the operating system's secure generator."""
        return cls(os.urandom(32))

    @property
    def id(self) -> str:
        """Name of the public key."""
        return key_id(self.public)

    @property
    def private(self) -> bytes:
        """The secret, for worker processes of the analyzer."""
        return self._key.private_bytes_raw()

    def open(self, message: bytes, context: Context) -> tuple[int, int] | None:
        """Return the instance and the content of a message; None if it is not for this key and context, or damaged."""
        try:
            plaintext = _SUITE.decrypt(message, self._key, info=context.info)
        except (InvalidTag, ValueError):
            return None
        return _PLAINTEXT.unpack(plaintext) if len(plaintext) == _PLAINTEXT.size else None

    def save(self, path: str | Path) -> None:
        """Write the private key as PEM to a new file that its owner alone can read."""
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        content = self._key.private_bytes(encoding, form, serialization.NoEncryption())
        if os.path.lexists(path):
            raise InputError(f"{str(path)!r} exists already; a key is never overwritten: pass another path")
        with AtomicFile(path, private=True) as file:
            file.write(content)

    @classmethod
    def load(cls, path: str | Path) -> AnalyzerKey:
        """Read what `save` wrote."""
        content = read_at_most(path, _LARGEST_KEY_FILE)
        try:
            key = serialization.load_pem_private_key(content, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, X25519PrivateKey):
            raise InputError(f"{str(path)!r} holds no X25519 private key; pass the file that was written with the key")
        return cls(key.private_bytes_raw())

    def __repr__(self) -> str:
        return f"AnalyzerKey(id={self.id!r})"


def seal(instances: Integers, contents: Integers, public: bytes, context: Context) -> list[bytes]:
    """Seal one message for each instance and content."""
    check_openssl()
    recipient, info = X25519PublicKey.from_public_bytes(public), context.info
    pairs = zip(np.asarray(instances).tolist(), np.asarray(contents).tolist(), strict=True)
    return [_SUITE.encrypt(_PLAINTEXT.pack(instance, content), recipient, info=info) for instance, content in pairs]


def key_document(key: AnalyzerKey | bytes | None, expires: str | date | None) -> dict[str, Any] | None:
    """Describe a public key for a protocol: its name, its bytes, and when devices stop using it."""
    if key is None:
        return None
    if not isinstance(key, AnalyzerKey | bytes):
        raise InputError(f"key must be an AnalyzerKey or the 32 bytes of a public key, got {type(key).__name__}")
    public = key.public if isinstance(key, AnalyzerKey) else key
    moment = None if expires is None else expiry_text(expires)
    entry = {"id": key_id(public), "public": public.hex(), "expires": moment}
    check_key(entry)
    return entry


def check_key(entry: Any, path: str = "key") -> None:
    """Refuse a description that is not one."""
    if entry is None:
        return
    read = _KEY.read(entry, path)
    public = bytes.fromhex(read["public"])
    if read["id"] != key_id(public):
        raise refuse(f"{path}.id", "the name of the analyzer's public key", read["id"])
    try:
        expired(read)
    except ValueError:
        raise refuse(f"{path}.expires", "a UTC time such as '2027-01-31T00:00:00Z'", read["expires"]) from None
    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:  # a point of low order: every exchange with it gives zero
        raise InputError(
            "the analyzer's key in the protocol is no key: anybody can open what is sealed to it; do not take part, "
            "and ask the organiser for a document with a key from AnalyzerKey.generate()"
        ) from None
