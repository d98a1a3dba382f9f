"""A participant's side: a point in, sealed messages out.

Each bit of each instance becomes messages of its own, and the messages leave in random order, so that their places say
nothing. To whoever carries them, the shuffler included, they are all alike, and how many there are is the same for all
members of a group: whoever has fewer to send adds cover (`groups`).

Once. A second set of messages is a second participation. The process remembers that one was made; a device account on
disk (`sfumato.local.account`) does so for good, adds up what all collections cost, and is written before a coin falls.

What keeps a device from taking part, found before anything is drawn or spent.

A document says truly what it costs, which may be anything: a device takes part only within limits of its own, and
answers once, for good: the answer is charged to its account on disk before it is drawn.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import numpy as np

from sfumato.errors import InputError
from sfumato.local.account import DeviceAccount
from sfumato.local.client import check_limits
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.privacy.process import check_openssl, process_mark
from sfumato.shuffled import MAX_DELTA, MAX_EPSILON
from sfumato.shuffled.bitsum.shares import permutation
from sfumato.shuffled.messages import Submission
from sfumato.shuffled.sealing import COVER, seal

if TYPE_CHECKING:
    from sfumato.shuffled.bitsum import Counts
    from sfumato.shuffled.groups import Group
    from sfumato.shuffled.protocol import Protocol


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
        If the collection is over, has no key, goes beyond the limits, or was answered before, or the process may seal
        nothing.
    BudgetError
        If the account does not have both left, what the class costs and what the messages cost.
    """
    check_open(protocol)
    check_openssl()
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


class Client:
    """One participant in one collection; made by `Protocol.client`.

    Parameters
    ----------
    protocol : Protocol
        The public document.
    label : int or str, optional
        The class that was reported, where there are classes.
    account : DeviceAccount, optional
        Where participations are remembered; without one, whoever calls sees to it that each person takes part once.
    max_epsilon : float, str or Fraction
        The most that taking part may cost, the reported class included, whatever the document says.
    max_delta : float
        Largest probability with which the promise may fail.

    Raises
    ------
    InputError
        If the protocol goes beyond the limits, asks for too many messages, or has no such class.

    Examples
    --------
    >>> from sfumato.shuffled import AnalyzerKey, Protocol
    >>> protocol = Protocol("gaussian", bandwidth=1.0, dimension=2, epsilon=1, delta=1e-5, participants=500,
    ...                     instances=64, key=AnalyzerKey.generate())
    >>> messages = protocol.client().messages([0.3, -1.0])
    >>> len(messages), {len(message) for message in messages}
    (64, {53})
    """

    def __init__(
        self,
        protocol: Protocol,
        label: Any = None,
        account: DeviceAccount | None = None,
        *,
        max_epsilon: float | str | Fraction = MAX_EPSILON,
        max_delta: float = MAX_DELTA,
    ) -> None:
        check_promise(protocol, max_epsilon, max_delta)
        if protocol.classes is not None and label is None:
            raise InputError("the protocol has classes: pass label=, the class that was reported")
        self._context = protocol.context(label)
        self._group = protocol.group(label)[1]
        self._protocol = protocol
        self._account = account
        self._sent = False
        self._process = process_mark()
        self._sending = threading.Lock()  # two threads must not both find that nothing was sent
        check_size(self._group)

    def messages(self, x: Any, *, secure: SecureBits | None = None, now: datetime | None = None) -> Submission:
        """Return the sealed messages for a point, once: a second set would be a second participation.

        They come with a random identity for the shuffler. Send the same submission again if it was not acknowledged.

        Parameters
        ----------
        x : sequence of numbers
            The point; values outside the bounds are clipped, what is no finite number counts as the middle.
        secure : SecureBits, optional
            The coins; secret by default.
        now : datetime, optional
            The time, with its zone; the clock's by default.

        Raises
        ------
        InputError
            If messages were made before, the collection is over, or the point has another number of columns.
        BudgetError
            If the device's account is used up.
        """
        protocol = self._protocol
        check_open(protocol, now)
        public, secure = protocol.key, SecureBits() if secure is None else secure
        if process_mark() != self._process:
            raise InputError(
                "a fork copied this participant, and either copy could send messages: make one in the process that "
                "sends them"
            )
        check_openssl()  # sealing asks it too, and by then the account is charged
        with self._sending:
            if self._sent:
                raise InputError(
                    "this participant's messages were made already; send those again, a second set costs more"
                )
            point = protocol.features.points(np.asarray(x, dtype=object).reshape(1, -1))
            if self._account is not None:
                charge_once(self._account, protocol.fingerprint, protocol.promise.budget.epsilon)
            self._sent = True
        counts = self._fitting(protocol.features.bits(point, secure)[0], secure)
        numbers, cover = np.arange(protocol.features.instances), self._group.messages - _size(counts)
        named = np.concatenate([numbers, numbers, [COVER[0]]])
        instances = np.repeat(named, np.concatenate([counts.ones, counts.zeros, [cover]]))
        contents = np.repeat([1, 0, COVER[1]], [counts.ones.sum(), counts.zeros.sum(), cover])
        order = permutation(secure, self._group.messages)
        return Submission(seal(instances[order], contents[order], public, self._context))

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        # The one door for copy, deepcopy and pickle.
        raise TypeError(
            "a participant cannot be copied or pickled: the copy would not know that messages were made, and a second "
            "set costs more. Make one where the messages are made, by Protocol.client"
        )

    def _fitting(self, bits: Integers, secure: SecureBits) -> Counts:
        """Draw the messages of every instance, again if they are more than everybody sends."""
        while True:
            counts = self._group.bitsum.randomise(bits, secure)
            if _size(counts) <= self._group.messages:
                return counts


def _size(counts: Counts) -> int:
    return int(counts.ones.sum() + counts.zeros.sum())
