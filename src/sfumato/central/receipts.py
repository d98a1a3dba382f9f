"""Receipts of a sketch: which releases of its records were paid for, so that none goes out unpaid.

For every shard in a sketch, by a name drawn at random, the charges of each release of its records. Sketches with
records in common share the lists, so that none of them can be released behind another's back, and the names, so that no
record is counted twice. Whoever calls holds the lock of `central.sketch`.
"""

from __future__ import annotations

import os
import secrets
from fractions import Fraction
from typing import Any

from sfumato.errors import BudgetError, InputError
from sfumato.privacy.ledger import Account
from sfumato.public.codec import Many, Optional, Text, refuse

Charges = dict[str, list[str | None]]
NO_PROCESS = -1


class Receipts:
    """The charges of every shard, None for a release that no ledger knows of.

    Parameters
    ----------
    shards : dict, optional
        Lists of charges by the names of the shards; one new shard by default.
    """

    def __init__(self, shards: Charges | None = None) -> None:
        self.shards = {secrets.token_hex(16): []} if shards is None else shards
        self.process = os.getpid()

    def take_in(self, part: Receipts) -> None:
        """Share the lists of another sketch that is merged into this one."""
        if self.shards.keys() & part.shards.keys():
            raise InputError("two of the sketches hold the rows of the same shard; merge every shard once")
        self.shards.update(part.shards)
        if part.process != os.getpid():
            self.process = NO_PROCESS  # a fork's copies stay copies, and need a ledger

    def check(self, epsilon: Fraction, ledger: Account | None) -> None:
        """Refuse a release that could be the second one and is not paid for as such."""
        if ledger is None and os.getpid() != self.process:
            problem = (
                "a fork copied this sketch, and either copy could be released: pass ledger=, an account in a file, or "
                "release it in the process that made it"
            )
            raise BudgetError(problem, requested=epsilon, remaining=Fraction(0))
        before = {charge for charges in self.shards.values() for charge in charges}
        known = set() if ledger is None or not before else {charge.id for charge in ledger.charges}
        if not before <= known:
            problem = (
                "these records were released before: pass ledger=, the account that was charged then, so that both "
                "releases are paid for"
            )
            raise BudgetError(problem, requested=epsilon, remaining=Fraction(0))

    def add(self, charge: str | None) -> None:
        """Note a release of all records."""
        for charges in self.shards.values():
            charges.append(charge)

    def to_document(self) -> dict[str, list[str | None]]:
        """Return the JSON form."""
        return {shard: list(charges) for shard, charges in self.shards.items()}

    @classmethod
    def from_document(cls, document: Any, path: str) -> Receipts:
        """Read back what `to_document` wrote."""
        name, charges = Text(longest=100), Many(Optional(Text(longest=100)), most=2**20)
        if not isinstance(document, dict) or not document:
            raise refuse(path, "an object with the charges of every shard", document)
        return cls({name.read(shard, path): list(charges.read(each, path)) for shard, each in document.items()})
