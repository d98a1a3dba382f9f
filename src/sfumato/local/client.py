"""A client: the part of a collection that runs where the point lives, with the standard library only.

What a report costs. Every report made from fresh coins reveals up to epsilon about the point that it was made from; k
of them reveal up to k epsilon, and their mean converges to the truth. A device account (`DeviceAccount`) adds that up
and refuses to go beyond its budget.

Permanent randomisation (``permanent=True``) keeps the report made for a point and sends that same report whenever the
same point is to be reported again under the same protocol. It protects an unchanged point against any number of
collections at the price of one report: there is nothing to average. It does not hide that the point changed (another
report comes), it costs epsilon for every further point, and it lets whoever sees both reports know that they are from
one device. A collector counts repeats once.

A person's own point comes as text from standard input or a file, never from the command line: what stands there is
shown to every user of the machine, and kept in the shell's history.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato.errors import InputError
from sfumato.local.account import DeviceAccount
from sfumato.local.coins import Coins
from sfumato.local.device import ID_BYTES, Device, device_for
from sfumato.privacy.guarantee import amount_text, checked_delta, promised_epsilon
from sfumato.public.canonical_json import canonical
from sfumato.public.document import check_document, exact, expired, fingerprint, plain, prefix, seed_of
from sfumato.storage import read_at_most

# What a device agrees to unless its owner says otherwise; never taken from a document.
MAX_EPSILON, MAX_DELTA = Fraction(4), 1e-6
MOST_CHARACTERS = 1 << 24
_FORM = "pass one number for each column, with spaces between, on standard input or in a file"
_BETWEEN = re.compile(r"[\s,;]+")


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
    max_epsilon : float, str or Fraction
        The most that one report may cost, whatever the document says.
    max_delta : float
        Largest probability with which the promise may fail: delta, or eta over the hash functions.
    unchecked : bool
        Agree to a promise that rests on an organiser's word: that nobody chose the seed, or what hash functions do.

    Raises
    ------
    InputError
        If the document promises anything else than what its mechanism does on this device, or goes beyond the limits.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        account: DeviceAccount | None = None,
        permanent: bool = False,
        coins: Coins | None = None,
        not_private: bool = False,
        *,
        max_epsilon: float | str | Fraction = MAX_EPSILON,
        max_delta: float = MAX_DELTA,
        unchecked: bool = False,
    ) -> None:
        check_document(document, "local")
        if permanent and account is None:
            raise InputError("permanent randomisation needs an account to keep the reports: pass ledger=, a file")
        self.document = document
        self.account = account
        self.permanent = permanent
        self.reports = 0
        self._device = promised_device(document)
        check_consent(self._device, not_private, unchecked)
        check_limits(self._device.epsilon, self._device.failure, max_epsilon, max_delta)
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


def promised_device(document: Mapping[str, Any]) -> Device:
    """Build the device of a checked protocol; raise `InputError` unless the protocol promises what the device does.

    The promise is computed from the mechanism's own parameters and compared with the document's field by field, so
    that there is nothing more and nothing less in it. The seed must be the one that belongs to the document.
    """
    device = device_for(document)
    true, stated = exact(device.guarantee().to_document()), document["guarantee"]
    for field in sorted({*true, *stated}):
        given, real = (_shown(promise, field) for promise in (stated, true))
        if given != real:
            raise InputError(
                f"the protocol promises another {field!r} than {device.name} keeps ({given:.200} instead of "
                f"{real:.200}): do not report under it, and tell the organiser"
            )
    if plain(document["delta"]) != 0:
        raise InputError("the protocol has another 'delta' than 0, which it promises: do not report under it")
    if document["seed"] != seed_of(document):
        raise InputError("the protocol's seed does not belong to its other fields: do not report under it")
    return device


def _shown(promise: Mapping[str, Any], field: str) -> str:
    # By way of the canonical text, in which true is not 1.
    return canonical({field: promise[field]}).decode() if field in promise else "nothing"


def check_consent(device: Device, not_private: bool, unchecked: bool) -> None:
    """Raise `InputError` unless the caller agreed to what a device cannot protect or cannot check."""
    if not device.private and not not_private:
        raise InputError(
            f"NOT PRIVATE: {device.name} reports what the device holds; pass not_private=True to report all the same"
        )
    if device.unchecked() and not unchecked:
        raise InputError(
            f"the promise rests on the organiser's word ({'; '.join(device.unchecked())}); pass unchecked=True to "
            "report all the same"
        )


def check_limits(epsilon: Fraction, failure: float, max_epsilon: float | str | Fraction, max_delta: float) -> None:
    """Raise `InputError` if a report would cost, or a promise would fail, more than the device's owner allows."""
    most, largest = promised_epsilon(max_epsilon), checked_delta(max_delta)
    if epsilon > most:
        raise InputError(
            f"a report costs an epsilon of {amount_text(epsilon)}, and this device allows {amount_text(most)}: pass "
            "max_epsilon= to allow more"
        )
    if failure > largest:
        raise InputError(
            f"the promise may fail with probability {failure!r}, and this device allows {largest!r}: pass max_delta= "
            "to allow more"
        )


def read_point(path: str | Path = "-") -> list[float]:
    """Return the numbers in a file, between spaces, commas or line ends; "-" is standard input.

    From a terminal one line is read, else everything.

    Raises
    ------
    InputError
        If there is no number, or something that is none. The text itself is not repeated.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "point.txt")
    ...     _ = path.write_text("0.25, -1e3 nan")
    ...     read_point(path)
    [0.25, -1000.0, nan]
    """
    try:
        if str(path) != "-":
            content = read_at_most(path, MOST_CHARACTERS)
            text = content.decode() if len(content) <= MOST_CHARACTERS else ""
        elif sys.stdin.isatty():
            print("Your point, one number for each column, in one line:", file=sys.stderr)
            text = sys.stdin.readline(MOST_CHARACTERS + 1)
        else:
            text = sys.stdin.read(MOST_CHARACTERS + 1)
        numbers = [float(part) for part in _BETWEEN.split(text) if part]
    except ValueError:
        raise InputError(f"the point holds something that is no number: {_FORM}") from None
    if not numbers or len(text) > MOST_CHARACTERS:
        raise InputError(f"there is no point, or one that is far too long: {_FORM}")
    return numbers
