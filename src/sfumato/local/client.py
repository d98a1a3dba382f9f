"""A client: the part of a collection that runs where the point lives, with the standard library only.

What a report costs. Every report made from fresh coins reveals up to epsilon about the point that it was made from; k
of them reveal up to k epsilon, and their mean converges to the truth. A device account (`DeviceAccount`) adds that up
and refuses to go beyond its budget.

Permanent randomisation (``permanent=True``) keeps the report made for a point and sends that same report whenever the
same point is to be reported again under the same protocol. It protects an unchanged point against any number of
collections at the price of one report: there is nothing to average. It does not hide that the point changed (another
report comes), it costs epsilon for every further point, and it lets whoever sees both reports know that they are from
one device. A collector counts repeats once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.errors import InputError
from sfumato.local.account import DeviceAccount
from sfumato.local.coins import Coins
from sfumato.local.mechanism import ID_BYTES, Device
from sfumato.local.registry import device_for
from sfumato.protocol import check_document, expired, fingerprint, plain, prefix


class Client:
    """Makes reports under one protocol.

    Parameters
    ----------
    document : mapping
        The protocol's document.
    account : DeviceAccount, optional
        Where spending is remembered; without one, whoever calls sees to it that each person reports once.
    permanent : bool
        Keep reports and repeat them, see the module's text; needs an account.
    coins : Coins, optional
        For tests; the operating system's by default.
    not_private : bool
        Report under a mechanism that keeps no epsilon at all, such as `race`; refused otherwise.

    Raises
    ------
    InputError
        If the document promises anything else than what its mechanism does on this device.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        account: DeviceAccount | None = None,
        permanent: bool = False,
        coins: Coins | None = None,
        not_private: bool = False,
    ) -> None:
        check_document(document, "local")
        if permanent and account is None:
            raise InputError("permanent randomisation needs an account to keep the reports: pass ledger=, a file")
        self.document = document
        self.account = account
        self.permanent = permanent
        self.reports = 0
        self._device = device_for(document)
        check_promise(document, self._device, not_private)
        self._coins = coins or Coins()
        self._prefix = prefix(document)
        self._fingerprint = fingerprint(document)

    @property
    def report_bytes(self) -> int:
        """Length of every report."""
        return len(self._prefix) + ID_BYTES + self._device.payload_bytes

    def report(self, point: Sequence[float]) -> bytes:
        """Randomise one point into a report that may be sent to anybody.

        Parameters
        ----------
        point : sequence of float
            One number for each column. Values outside the bounds are clipped; what is not finite counts as the middle.

        Raises
        ------
        InputError
            If the point has another number of columns, or the protocol has expired.
        BudgetError
            If the device's account is used up.
        """
        if expired(self.document):
            raise InputError(f"the protocol expired at {self.document['expires']}; ask the organiser for a new one")
        clipped = self._device.prepared(point)
        if self.account is None:
            return self._fresh(clipped)
        if self.permanent:
            return self.account.remembered(self._fingerprint, clipped, self._device.epsilon, self._fresh)
        self.account.charge(self._fingerprint, self._device.epsilon)
        return self._fresh(clipped)

    def _fresh(self, clipped: Sequence[float]) -> bytes:
        self.reports += 1
        return self._prefix + self._coins.take(ID_BYTES) + self._device.encode(clipped, self._coins)


def check_promise(document: Mapping[str, Any], device: Device, not_private: bool = False) -> None:
    """Raise `InputError` unless a document promises what its device does, and says so to whoever reads it.

    Parameters
    ----------
    document : mapping
        A checked protocol.
    device : Device
        Built from it.
    not_private : bool
        Whether the caller agrees to a mechanism that keeps no epsilon.
    """
    promise = document["guarantee"]
    if promise.get("epsilon") != document["epsilon"]:
        raise InputError("the protocol promises another epsilon than it spends: do not report under it")
    if plain(promise.get("delta")) != 0 or plain(document["delta"]) != 0 or promise.get("trust") != "local":
        raise InputError("the protocol does not promise a delta of 0 without trusted parties: do not report under it")
    if promise.get("private") is not device.private:
        truth = "private" if device.private else "NOT PRIVATE"
        raise InputError(f"the protocol does not say that {device.name} is {truth}: do not report under it")
    if not device.private and not not_private:
        raise InputError(
            f"NOT PRIVATE: {device.name} reports what the device holds; pass not_private=True to report all the same"
        )
    conditions = promise.get("conditions")
    stated = [*(conditions if isinstance(conditions, list) else ()), promise.get("within")]
    for sentence in device.conditions():
        if sentence not in stated:
            raise InputError(f"the protocol hides a condition of its promise: do not report under it ({sentence})")
