"""Admission by one-time tokens that are signed blindly: each admits one report, and nobody can tell whose it was.

Source: RSA blind signatures (Denis, Jacobs and Wood, RSA Blind Signatures, RFC 9474, 2023), the variant
RSABSSA-SHA384-PSS-Randomized, as Privacy Pass uses them. A device draws a message, blinds it, and has it signed by an
issuer who knows that the device may take part; the issuer sees a uniformly random number. The device takes the blinding
off, and what it holds is an ordinary RSASSA-PSS signature of a message that the issuer never saw.

Unlinkable. The issuer sees z = m r^e mod n with r uniform among the units: z is uniform whatever m is, so that issuer
and server together cannot match tokens with devices, however many they see. What they can see is time and address; send
a report later than the token was drawn, and through a relay.

A token is a nonce (32 bytes, the random prefix of the RFC's `Prepare`) and the signature (256 bytes for a key of 2048
bits). The message that follows the nonce is `TEXT` and the collection's fingerprint, so that a token admits to one
collection.

`cryptography` has no raw RSA. The issuer's power is Python's, which takes a time that depends on the number; the number
is therefore multiplied by a random one first (base blinding, as the RFC recommends), so that the time tells nothing.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from sfumato.errors import InputError
from sfumato.privacy.process import check_openssl
from sfumato.storage import AtomicFile, read_at_most

KEY_BITS = (2048, 3072, 4096)
NONCE_BYTES = 32
SALT_BYTES = 48
TEXT = b"sfumato-token-1\0"
_LARGEST_KEY_FILE = 10_000
_PSS = padding.PSS(mgf=padding.MGF1(hashes.SHA384()), salt_length=SALT_BYTES)


def token_text(fingerprint: str) -> bytes:
    """Return what a token of a collection says after its nonce."""
    return TEXT + bytes.fromhex(fingerprint)


class IssuerPublicKey:
    """The public half of an issuer's key.

    Parameters
    ----------
    text : str
        Its SubjectPublicKeyInfo in hexadecimal digits.
    """

    def __init__(self, text: str) -> None:
        try:
            key = serialization.load_der_public_key(bytes.fromhex(text))
        except (ValueError, UnsupportedAlgorithm):
            raise InputError("an issuer's public key is a SubjectPublicKeyInfo in hexadecimal digits") from None
        if not isinstance(key, rsa.RSAPublicKey) or key.key_size not in KEY_BITS:
            raise InputError(f"an issuer's public key must be RSA of {', '.join(map(str, KEY_BITS))} bits")
        self.text, self._key, self.numbers = text, key, key.public_numbers()
        self.signature_bytes = key.key_size // 8
        self.token_bytes = NONCE_BYTES + self.signature_bytes

    def admits(self, token: bytes, fingerprint: str) -> bool:
        """Whether a token was signed for this collection."""
        if len(token) != self.token_bytes:
            return False
        nonce, signature = token[:NONCE_BYTES], token[NONCE_BYTES:]
        return self.verified(signature, nonce + token_text(fingerprint))

    def takes(self, blinded: bytes) -> bool:
        """Whether this is a number that can be signed: of the modulus' length and below it."""
        return len(blinded) == self.signature_bytes and int.from_bytes(blinded) < self.numbers.n

    def verified(self, signature: bytes, prepared: bytes) -> bool:
        """Whether a signature is of this message."""
        try:
            self._key.verify(signature, prepared, _PSS, hashes.SHA384())
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class BlindRequest:
    """What a device keeps while the issuer signs.

    Attributes
    ----------
    prepared : bytes
        The message with its random prefix.
    blinded : bytes
        What is sent to the issuer.
    inverse : int
        Takes the blinding off.
    """

    prepared: bytes
    blinded: bytes
    inverse: int

    def to_bytes(self) -> bytes:
        """Return what a device keeps until the token is there."""
        size = len(self.blinded)
        return struct.pack("<H", size) + self.blinded + self.inverse.to_bytes(size) + self.prepared

    @classmethod
    def from_bytes(cls, content: bytes) -> BlindRequest:
        """Read back what `to_bytes` wrote."""
        size, content = int.from_bytes(content[:2], "little"), content[2:]
        if not 0 < 2 * size < len(content):
            raise InputError("what was kept of the token's request is cut off: ask for another invitation")
        return cls(content[2 * size :], content[:size], int.from_bytes(content[size : 2 * size]))

    def finished(self, signed: bytes, key: IssuerPublicKey) -> bytes:
        """Return the signature; raise `InputError` if the issuer did not sign."""
        if len(signed) == key.signature_bytes:
            number = int.from_bytes(signed) * self.inverse % key.numbers.n
            signature = number.to_bytes(key.signature_bytes)
            if key.verified(signature, self.prepared):
                return signature
        raise InputError("the issuer's answer is no signature under its own key; ask again, or tell the organiser")


def blind(text: bytes, key: IssuerPublicKey, *, nonce: bytes | None = None) -> BlindRequest:
    """Begin a token: prepare a message and blind it.

    Examples
    --------
    >>> issuer = IssuerKey.generate()
    >>> request = blind(token_text("0" * 64), issuer.public)
    >>> token = request.prepared[:NONCE_BYTES] + request.finished(issuer.sign_blindly(request.blinded), issuer.public)
    >>> issuer.public.admits(token, "0" * 64), issuer.public.admits(token, "1" * 64)
    (True, False)
    """
    prepared = (secrets.token_bytes(NONCE_BYTES) if nonce is None else nonce) + text
    return blinded_with(prepared, key, secrets.token_bytes(SALT_BYTES), _unit(key.numbers.n))


def blinded_with(prepared: bytes, key: IssuerPublicKey, salt: bytes, factor: int) -> BlindRequest:
    """Blind a prepared message with given coins."""
    n, e, size = key.numbers.n, key.numbers.e, key.signature_bytes
    message = int.from_bytes(_encoded(prepared, salt, size))
    if math.gcd(message, n) != 1:  # would factor the key; of probability 2**-1000
        raise InputError("the message shares a factor with the issuer's key, which is broken")
    return BlindRequest(prepared, (message * pow(factor, e, n) % n).to_bytes(size), pow(factor, -1, n))


def _unit(n: int) -> int:
    while True:
        factor = secrets.randbelow(n)
        if factor > 1 and math.gcd(factor, n) == 1:
            return factor


def _encoded(prepared: bytes, salt: bytes, length: int) -> bytes:
    """EMSA-PSS-ENCODE of RFC 8017 for one bit less than the key has, with SHA-384 and MGF1."""
    digest = hashlib.sha384(bytes(8) + hashlib.sha384(prepared).digest() + salt).digest()
    block = bytes(length - len(salt) - len(digest) - 2) + b"\1" + salt
    mask = _mask(digest, len(block))
    masked = bytearray(one ^ two for one, two in zip(block, mask, strict=True))
    masked[0] &= 0x7F
    return bytes(masked) + digest + b"\xbc"


def _mask(seed: bytes, length: int) -> bytes:
    blocks = range(-(-length // hashlib.sha384().digest_size))
    return b"".join(hashlib.sha384(seed + number.to_bytes(4)).digest() for number in blocks)[:length]


class IssuerKey:
    """An issuer's private key, for this purpose only and for one collection, or one time.

    Parameters
    ----------
    key : RSAPrivateKey
        Of 2048, 3072 or 4096 bits.
    """

    def __init__(self, key: rsa.RSAPrivateKey) -> None:
        if key.key_size not in KEY_BITS:
            raise InputError(f"an issuer's key must be RSA of {', '.join(map(str, KEY_BITS))} bits")
        self._key, self._numbers = key, key.private_numbers()

    @classmethod
    def generate(cls) -> IssuerKey:
        """Draw a new key."""
        check_openssl()
        return cls(rsa.generate_private_key(65537, KEY_BITS[0]))

    @classmethod
    def load(cls, path: str | Path) -> IssuerKey:
        """Read a PEM file."""
        content = read_at_most(path, _LARGEST_KEY_FILE)
        try:
            key = serialization.load_pem_private_key(content, None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise InputError(f"{str(path)!r} holds no issuer's key (PEM, without a password)") from None
        if not isinstance(key, rsa.RSAPrivateKey):
            raise InputError(f"{str(path)!r} holds another kind of key than RSA")
        return cls(key)

    def save(self, path: str | Path) -> None:
        """Write a new PEM file that only its owner can read."""
        form = serialization.PrivateFormat.PKCS8
        content = self._key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        with AtomicFile(path, private=True) as file:
            file.write(content)

    @cached_property
    def public(self) -> IssuerPublicKey:
        """The public half."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return IssuerPublicKey(self._key.public_key().public_bytes(serialization.Encoding.DER, form).hex())

    def sign_blindly(self, blinded: bytes) -> bytes:
        """Sign what a device blinded; raise `InputError` if it is no number below the modulus."""
        private, (e, n) = self._numbers, (self._numbers.public_numbers.e, self._numbers.public_numbers.n)
        number, size = int.from_bytes(blinded), self.public.signature_bytes
        if not self.public.takes(blinded):
            raise InputError(f"a blinded message is {size} bytes, a number below the issuer's modulus")
        factor = _unit(n)
        hidden = number * pow(factor, e, n) % n
        low, high = pow(hidden, private.dmp1, private.p), pow(hidden, private.dmq1, private.q)
        power = high + private.q * ((low - high) * private.iqmp % private.p)
        signed = power * pow(factor, -1, n) % n
        if pow(signed, e, n) != number:  # a fault in the computation would give the key away
            raise InputError("the signature came out wrong, and was not sent")
        return signed.to_bytes(size)
