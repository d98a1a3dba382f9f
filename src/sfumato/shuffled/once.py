"""A question that a device answers once, for good: the answer is charged to its account on disk before it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sfumato.errors import InputError
from sfumato.local.account import DeviceAccount

_ANSWERED = b"\1"
_BEFORE = "this device answered before: send that answer again, a second one would cost more"


def charge_once(account: DeviceAccount, question: str, epsilon: Fraction) -> None:
    """Charge for the answer to a question, or refuse because it was given before.

    What is charged stays charged: a device that stopped before it sent its answer does not get a second one.

    Parameters
    ----------
    account : DeviceAccount
        The device's account.
    question : str
        What is asked, such as a protocol's fingerprint.
    epsilon : Fraction
        What the answer costs.

    Raises
    ------
    InputError
        If it was answered before.
    BudgetError
        If the account is used up; nothing is charged then.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     account = DeviceAccount(f"{folder}/account.json", budget=5)
    ...     charge_once(account, "some protocol", Fraction(2))
    ...     charge_once(account, "some protocol", Fraction(2))
    Traceback (most recent call last):
    sfumato.errors.InputError: this device answered before: send that answer again, a second one would cost more
    """
    first: list[bool] = []

    def fresh(_: Sequence[float]) -> bytes:
        first.append(True)
        return _ANSWERED

    account.remembered(question, (), epsilon, fresh)
    if not first:
        raise InputError(_BEFORE)


def check_once(account: DeviceAccount, question: str, epsilon: Fraction) -> None:
    """Raise what `charge_once` would raise now; nothing is charged."""
    if account.keeps(question):
        raise InputError(_BEFORE)
    account.check(epsilon)
