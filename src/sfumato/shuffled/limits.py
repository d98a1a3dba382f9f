"""What keeps a device from taking part, found before anything is drawn or spent.

A document says truly what it costs, which may be anything: a device takes part only within limits of its own, and
answers once, for good: the answer is charged to its account on disk before it is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import InputError
from sfumato.local.account import DeviceAccount
from sfumato.local.client import check_limits

if TYPE_CHECKING:
    from sfumato.shuffled.groups import Group
    from sfumato.shuffled.protocol import Protocol

# What a device agrees to unless its owner says otherwise; never taken from a document.
MAX_EPSILON, MAX_DELTA = Fraction(8), 1e-4
MOST_MESSAGES = 1 << 24  # of one participant, nearly a gigabyte
_ANSWERED = b"\1"
_BEFORE = "this device answered before: send that answer again, a second one would cost more"


def check_promise(protocol: Protocol, max_epsilon: float | str | Fraction, max_delta: float) -> None:
    """Raise `InputError` if all that leaves the device, its class included, costs more than its owner allows."""
    promise = protocol.guarantee("communication")
    check_limits(promise.epsilon, promise.delta, max_epsilon, max_delta)


def check_size(group: Group) -> None:
    """Raise `InputError` if a group's members send more messages than a device makes."""
    if group.messages > MOST_MESSAGES:
        raise InputError(
            f"everybody would have to send {group.messages} messages, more than {MOST_MESSAGES}; ask for a "
            "protocol with the bit sum 'rr', fewer instances or a larger epsilon"
        )


def check_open(protocol: Protocol, now: datetime | None = None) -> None:
    """Raise `InputError` if the collection is over, or has no key to seal messages with."""
    if protocol.expired(now):
        raise InputError("the collection or its key has expired; ask the organiser for a new protocol")
    _ = protocol.key


def check_before_class(
    protocol: Protocol, account: DeviceAccount | None, max_epsilon: float | str | Fraction, max_delta: float
) -> None:
    """Raise whatever would refuse the messages, whichever class is reported: a report of the class may cost by itself.

    Raises
    ------
    InputError
        If the collection is over, has no key, goes beyond the limits, or was answered before.
    BudgetError
        If the account does not have both left, what the class costs and what the messages cost.
    """
    check_open(protocol)
    check_promise(protocol, max_epsilon, max_delta)
    for group in protocol.groups:
        check_size(group)
    if account is not None:
        response, collection = protocol.labels, protocol.fingerprint
        price = Fraction(0) if response is None else response.price(account, collection)
        check_once(account, collection, protocol.promise.budget.epsilon + price)


def account_of(ledger: str | Path | None, budget: float | str | Fraction | None) -> DeviceAccount | None:
    """Return the device's account; its budget is its owner's choice, so that a document cannot set it."""
    if (ledger is None) != (budget is None):
        raise InputError("an account is a file and its budget, the largest sum of epsilons: pass both, or none of them")
    return None if ledger is None or budget is None else DeviceAccount(ledger, budget)


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
