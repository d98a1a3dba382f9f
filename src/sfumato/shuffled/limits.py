"""What keeps a device from taking part, found before anything is drawn or spent.

A document says truly what it costs, which may be anything: a device takes part only within limits of its own.
"""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.errors import InputError
from sfumato.local.client import check_limits
from sfumato.shuffled.once import check_once

if TYPE_CHECKING:
    from sfumato.local.account import DeviceAccount
    from sfumato.shuffled.groups import Group
    from sfumato.shuffled.protocol import Protocol

# What a device agrees to unless its owner says otherwise; never taken from a document.
MAX_EPSILON, MAX_DELTA = Fraction(8), 1e-4
MOST_MESSAGES = 1 << 24  # of one participant, nearly a gigabyte


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
