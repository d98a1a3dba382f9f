"""What a device has spent, in a small JSON file that is locked, written before any report is drawn, and never copied.

The file holds, for each protocol's fingerprint, how many reports were charged and at what epsilon, the budget of the
device over all protocols, and, under permanent randomisation, the reports themselves by a keyed hash of the point. The
hash's key stands in the same file, so whoever reads the file can test guesses of the point: protect it like the point.
It is for its owner alone (mode 0600). A checksum tells damage.

What is locked is what is written: symbolic links are resolved first, and a file with several names (hard links), of
which each would come to hold an account of its own, is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import ROUND_DOWN
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato.errors import BudgetError, InputError, LedgerError
from sfumato.locks import lock_file
from sfumato.owner import private_opener
from sfumato.privacy.guarantee import added, amount_text, promised_epsilon
from sfumato.public.canonical_json import LARGEST_TEXT, parse
from sfumato.public.codec import Ratio
from sfumato.storage import AtomicFile, checked_path, read_at_most, storage_errors

FORMAT, VERSION = "sfumato-device-account", 2
_WITHOUT_LOCKS = "two reports could spend the same budget; keep the account on a local disk (ledger=)"


class DeviceAccount:
    """The privacy account of one device.

    Parameters
    ----------
    path : str or Path
        The file; made at the first charge.
    budget : Fraction, float or str
        Largest sum of epsilons over all reports, ever. An existing file must have been made with the same.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     account = DeviceAccount(f"{folder}/account.json", budget=2)
    ...     account.charge("some protocol", Fraction(3, 2))
    ...     account.spent
    Fraction(3, 2)
    """

    def __init__(self, path: str | Path, budget: Fraction | float | str) -> None:
        self.path = Path(
            os.path.realpath(checked_path("the ledger's place", path))
        )  # two names of one file must share one lock
        self.budget = promised_epsilon(budget)

    @property
    def spent(self) -> Fraction:
        """Sum of all charges."""
        return _spent(self._read())

    def charge(self, protocol: str, epsilon: Fraction) -> None:
        """Write a charge down, or raise `BudgetError` and write nothing."""
        with self._locked() as content:
            self._charge(content, protocol, epsilon)

    def remembered(
        self, protocol: str, point: Sequence[float], epsilon: Fraction, fresh: Callable[[Sequence[float]], bytes]
    ) -> bytes:
        """Return the report kept for a point, or charge for a fresh one and keep it."""
        with self._locked() as content:
            kept = content["kept"].setdefault(protocol, {})
            name = _point_name(content["key"], point)
            if name not in kept:
                self._charge(content, protocol, epsilon)
                kept[name] = fresh(point).hex()
            return bytes.fromhex(kept[name])

    def keeps(self, protocol: str) -> bool:
        """Whether a report is kept under a protocol."""
        return bool(self._read()["kept"].get(protocol))

    def check(self, epsilon: Fraction) -> None:
        """Raise `BudgetError` if so much is not left; nothing is written."""
        self._check(self._read(), epsilon)

    def _check(self, content: dict[str, Any], epsilon: Fraction) -> None:
        left = self.budget - _spent(content)
        if epsilon > left:
            raise BudgetError(
                f"this device has {amount_text(max(left, Fraction(0)), ROUND_DOWN)} of its epsilon left and a report "
                f"takes {amount_text(epsilon)}: nothing was reported",
                epsilon,
                left,
            )

    def _charge(self, content: dict[str, Any], protocol: str, epsilon: Fraction) -> None:
        self._check(content, epsilon)
        if epsilon:  # what is kept may be free
            epsilon = promised_epsilon(epsilon)  # or what is written could not be read back
        charged = content["protocols"].setdefault(protocol, {"epsilon": str(epsilon), "reports": 0})
        if charged["epsilon"] != str(epsilon):
            raise LedgerError(f"{str(self.path)!r} holds another epsilon for this protocol")
        charged["reports"] += 1

    @contextmanager
    def _locked(self) -> Iterator[dict[str, Any]]:
        """Read, let the caller change, and write before the caller gets on."""
        with storage_errors("lock", self.path), open(f"{self.path}.lock", "ab", opener=private_opener) as lock:
            lock_file(lock.fileno(), lock.name, _WITHOUT_LOCKS, wait=True)
            content = self._read()
            yield content
            with AtomicFile(self.path, overwrite=True, private=True) as file:
                file.write(_canonical({**content, "sha256": _checksum(content)}))

    def _read(self) -> dict[str, Any]:
        with storage_errors("read", self.path):
            if not self.path.exists():
                return {
                    "format": FORMAT,
                    "version": VERSION,
                    "budget": str(self.budget),
                    "key": secrets.token_hex(16),
                    "protocols": {},
                    "kept": {},
                }
            found = self.path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise InputError(f"{str(self.path)!r} is no file, which an account must be; pass the path of a file")
            text, names = read_at_most(self.path, LARGEST_TEXT), found.st_nlink
        if names > 1:
            raise LedgerError(
                f"{str(self.path)!r} is one of {names} names (hard links) of an account: keep one of them, or each "
                "would come to allow the whole budget"
            )
        try:
            content = _checked(parse(text))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise LedgerError(
                f"{str(self.path)!r} is no device's account, or is damaged, and what was spent is lost with it: "
                "restore a backup, or begin a new account with what all reports ever sent leave of the budget"
            ) from None
        if content["budget"] != str(self.budget):
            raise LedgerError(
                f"{str(self.path)!r} was made with a budget of {content['budget']}, not {self.budget}: pass that one"
            )
        return content


def _checked(content: Any) -> dict[str, Any]:
    """Return an account as it was written, without its checksum; raise one of several errors if it is not."""
    if content["format"] != FORMAT or content["version"] not in (1, VERSION):
        raise ValueError
    if content["version"] == VERSION and content.pop("sha256") != _checksum(content):  # the first version had none
        raise ValueError
    Ratio().read(content["budget"], "budget")
    bytes.fromhex(content["key"])
    _spent(content)
    for kept in content["kept"].values():
        for report in kept.values():
            bytes.fromhex(report)
    return {**content, "version": VERSION}


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(_canonical(content)).hexdigest()


def _canonical(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True).encode()


def _spent(content: dict[str, Any]) -> Fraction:
    charges = content["protocols"].values()
    if not all(type(charge["reports"]) is int and charge["reports"] >= 0 for charge in charges):
        raise ValueError
    return added(Ratio().read(charge["epsilon"], "epsilon") * charge["reports"] for charge in charges)


def _point_name(key: str, point: Sequence[float]) -> str:
    message = struct.pack(f"<{len(point)}d", *(value + 0.0 for value in point))
    return hmac.new(bytes.fromhex(key), message, hashlib.sha256).hexdigest()[:32]
