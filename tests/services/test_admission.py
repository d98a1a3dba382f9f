"""Tokens: the RFC's numbers, unlinkable by construction, one report each."""

from __future__ import annotations

import secrets

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import InputError
from sfumato.services.admission import BlindRequest, IssuerKey, IssuerPublicKey, blind, blinded_with, token_text
from tests.services.make_vectors import issuer_key
from tests.services.rfc9474 import BLIND_SIGNATURE, BLINDED, INVERSE, PREPARED, SALT, SIGNATURE


def _like(content: bytes, ends: tuple[str, str]) -> bool:
    return content.hex().startswith(ends[0]) and content.hex().endswith(ends[1])


def test_numbers_of_the_standard() -> None:
    key = issuer_key()
    n = key.public.numbers.n
    request = blinded_with(PREPARED, key.public, SALT, pow(INVERSE, -1, n))
    assert request.inverse == INVERSE
    assert _like(request.blinded, BLINDED)
    signed = key.sign_blindly(request.blinded)
    assert _like(signed, BLIND_SIGNATURE)
    assert _like(request.finished(signed, key.public), SIGNATURE)


@pytest.fixture(scope="module")
def issuer() -> IssuerKey:
    return IssuerKey.generate()


def _token(issuer: IssuerKey, fingerprint: str) -> bytes:
    request = BlindRequest.from_bytes(blind(token_text(fingerprint), issuer.public).to_bytes())
    return request.prepared[:32] + request.finished(issuer.sign_blindly(request.blinded), issuer.public)


def test_a_token_admits_to_its_collection_alone(issuer: IssuerKey) -> None:
    token = _token(issuer, "0" * 64)
    assert issuer.public.admits(token, "0" * 64)
    assert not issuer.public.admits(token, "0" * 63 + "1")
    assert not IssuerKey.generate().public.admits(token, "0" * 64)
    for at in range(0, len(token), 7):
        forged = token[:at] + bytes([token[at] ^ 1]) + token[at + 1 :]
        assert not issuer.public.admits(forged, "0" * 64)
    assert not issuer.public.admits(token[:-1], "0" * 64)
    assert not issuer.public.admits(b"", "0" * 64)


def test_what_the_issuer_sees_is_uniform(issuer: IssuerKey) -> None:
    """The same message blinded often: high bits uniform over the modulus, a chi-square with false alarms of 1e-6."""
    n = issuer.public.numbers.n
    salt, prepared = secrets.token_bytes(48), secrets.token_bytes(80)
    seen = []
    for _ in range(2000):
        factor = secrets.randbelow(n - 2) + 2
        blinded = blinded_with(prepared, issuer.public, salt, factor).blinded
        seen.append(int.from_bytes(blinded) * 16 // n)
    assert stats.chisquare(np.bincount(seen, minlength=16)).pvalue > 1e-6


@pytest.mark.parametrize("blinded", [b"", b"\xff" * 256, bytes(255), bytes(257)])
def test_what_is_no_blinded_message_is_refused(blinded: bytes, issuer: IssuerKey) -> None:
    with pytest.raises(InputError, match="a number below the issuer's modulus"):
        issuer.sign_blindly(blinded)


def test_an_issuer_that_does_not_sign_is_noticed(issuer: IssuerKey) -> None:
    request = blind(token_text("0" * 64), issuer.public)
    with pytest.raises(InputError, match="no signature"):
        request.finished(bytes(256), issuer.public)
    with pytest.raises(InputError, match="no signature"):
        request.finished(b"", issuer.public)


def test_keys_of_unknown_kinds_and_requests_that_were_cut_off_are_refused(issuer: IssuerKey) -> None:
    der = bytearray.fromhex(issuer.public.text)
    der[der.index(b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01") + 8] = 99  # another algorithm, which nobody knows
    with pytest.raises(InputError, match="public key"):
        IssuerPublicKey(der.hex())
    kept = blind(token_text("0" * 64), issuer.public).to_bytes()
    for size in (0, 1, 2, 300, 514):
        with pytest.raises(InputError, match="cut off"):
            BlindRequest.from_bytes(kept[:size])
