"""HPKE (RFC 9180), base mode, with a given ephemeral key: `cryptography` draws its own, vectors need a fixed one."""

from __future__ import annotations

import hashlib
import hmac

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_KEM = b"KEM" + (0x20).to_bytes(2)
_SUITE = b"HPKE" + (0x20).to_bytes(2) + (1).to_bytes(2) + (1).to_bytes(2)


def _extract(salt: bytes, suite: bytes, label: bytes, key: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + key, "sha256")


def _expand(key: bytes, suite: bytes, label: bytes, info: bytes, size: int) -> bytes:
    message = size.to_bytes(2) + b"HPKE-v1" + suite + label + info
    return hmac.digest(key, message + b"\1", hashlib.sha256)[:size]


def sealed(plaintext: bytes, public: bytes, info: bytes, ephemeral: bytes) -> bytes:
    """Return the encapsulated key, the ciphertext and the tag."""
    key = X25519PrivateKey.from_private_bytes(ephemeral)
    enclosed = key.public_key().public_bytes_raw()
    shared = key.exchange(X25519PublicKey.from_public_bytes(public))
    secret = _expand(_extract(b"", _KEM, b"eae_prk", shared), _KEM, b"shared_secret", enclosed + public, 32)
    context = b"\0" + _extract(b"", _SUITE, b"psk_id_hash", b"") + _extract(b"", _SUITE, b"info_hash", info)
    derived = _extract(secret, _SUITE, b"secret", b"")
    cipher = AESGCM(_expand(derived, _SUITE, b"key", context, 16))
    return enclosed + cipher.encrypt(_expand(derived, _SUITE, b"base_nonce", context, 12), plaintext, b"")
