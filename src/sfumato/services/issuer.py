"""The issuer's server: signs one blinded token for each invitation, and never learns which token it was.

An invitation is a random code that the issuer hands to somebody who may take part, by letter or behind a login. The
server knows the SHA-256 of each code. A code is used once: the same request again gets the same signature, so that an
answer that was lost costs nobody their place; another request under the same code is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from sfumato.errors import InputError
from sfumato.services.admission import IssuerKey
from sfumato.services.limits import Limits
from sfumato.services.role import Role
from sfumato.services.signing import SignedProtocol
from sfumato.services.store import Item, Store, open_store
from sfumato.services.wire import Fate, Problem
from sfumato.storage import storage_errors

CODE_BYTES = 16
_HASH_DIGITS = 64


def new_codes(count: int) -> list[str]:
    """Draw invitations.

    Examples
    --------
    >>> {len(code) for code in new_codes(3)}
    {32}
    """
    return [secrets.token_hex(CODE_BYTES) for _ in range(count)]


def code_hash(code: str) -> str:
    """Return what the server knows of an invitation."""
    return hashlib.sha256(code.strip().encode()).hexdigest()


class IssuerRole(Role):
    """Admits devices to collections of either model.

    Parameters
    ----------
    folder, signed, limits, database
        See `Role`. Each document must name one of this issuer's keys.
    keys : sequence of IssuerKey
        Sign tokens, each for the collections that name it. An invitation is good for one token of a key, ever: the
        issuer does not see which collection a token is for, so that a key for each collection is what one wants.
    invitations : Path
        A file with the hash of an invitation on each line.
    """

    name: ClassVar[str] = "issuer"
    model: ClassVar[str] = ""

    def __init__(
        self,
        folder: str | Path,
        signed: Sequence[SignedProtocol],
        keys: Sequence[IssuerKey],
        invitations: Path,
        limits: Limits | None = None,
        database: str | None = None,
    ) -> None:
        super().__init__(folder, signed, limits, database)
        own = {key.public.text: key for key in keys}
        if any(one.issuer not in own for one in signed):
            raise InputError("a document names another issuer's key: sign it with --issuer and this key")
        self._keys = {name: own[str(one.issuer)] for name, one in self.signed.items()}
        with storage_errors("read", invitations):
            self._invited = set(invitations.read_text(encoding="ascii").split())
        if any(len(one) != _HASH_DIGITS for one in self._invited):
            raise InputError(f"{str(invitations)!r} must hold one SHA-256 of an invitation on each line")
        self._stores: dict[str, Store] = {}
        known = {self._keys[name].public.text for name in self.known}
        for text in dict.fromkeys(key.public.text for key in self._keys.values()):
            used = hashlib.sha256(bytes.fromhex(text)).hexdigest()
            self._stores[text] = open_store(self.place(used, 0), database, f"issuer{used}", text in known)
        self.begin()

    def step(self, fingerprint: str, group: int) -> None:
        """Nothing is due here."""

    def counts(self, fingerprint: str, group: int) -> dict[str, Any]:
        """Say also how many invitations were used."""
        used = self._stores[self._keys[fingerprint].public.text].count()
        return {**super().counts(fingerprint, group), "invitations": len(self._invited), "used": used}

    async def sign(self, fingerprint: str, code: bytes, blinded: bytes) -> bytes:
        """Sign for whoever holds an invitation."""
        if fingerprint not in self._keys:
            raise Problem("unknown-path", "this server does not take part in that collection")
        return await asyncio.to_thread(self._sign, fingerprint, code, blinded)

    def _sign(self, fingerprint: str, code: bytes, blinded: bytes) -> bytes:
        known = code_hash(code.decode("ascii", "replace"))
        if known not in self._invited:
            raise Problem("token", "there is no such invitation")
        if self.expired(fingerprint):
            raise Problem("closed", "its time is over")
        key, digest = self._keys[fingerprint], hashlib.sha256(blinded).digest()
        if not key.public.takes(blinded):  # before the invitation is used up
            raise Problem("token", "the blinded message is no number below the issuer's modulus")
        if self._stores[key.public.text].add([Item(bytes.fromhex(known), digest)]) != [Fate.HELD]:
            raise Problem("token", "the invitation was used before")
        return key.sign_blindly(blinded)

    async def close(self) -> None:
        """Close the storage."""
        for store in self._stores.values():
            store.close()
        await super().close()
