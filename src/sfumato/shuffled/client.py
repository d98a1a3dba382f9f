"""A participant's side: a point in, sealed messages out.

Each bit of each instance becomes messages of its own, and the messages leave in random order, so that their places say
nothing. To whoever carries them, the shuffler included, they are all alike, and how many there are is the same for all
members of a group: whoever has fewer to send adds cover (`groups`).

Once. A second set of messages is a second participation. The process remembers that one was made; a device account on
disk (`sfumato.local.account`) does so for good, adds up what all collections cost, and is written before a coin falls.
"""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import InputError
from sfumato.local.account import DeviceAccount
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.shuffled.bitsum.shares import permutation
from sfumato.shuffled.limits import MAX_DELTA, MAX_EPSILON, charge_once, check_open, check_promise, check_size
from sfumato.shuffled.messages import Submission
from sfumato.shuffled.sealing import COVER, seal

if TYPE_CHECKING:
    from sfumato.shuffled.bitsum import Counts
    from sfumato.shuffled.protocol import Protocol


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
        if self._sent:
            raise InputError("this participant's messages were made already; send those again, a second set costs more")
        public, secure = protocol.key, SecureBits() if secure is None else secure
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

    def _fitting(self, bits: Integers, secure: SecureBits) -> Counts:
        """Draw the messages of every instance, again if they are more than everybody sends."""
        while True:
            counts = self._group.bitsum.randomise(bits, secure)
            if _size(counts) <= self._group.messages:
                return counts


def _size(counts: Counts) -> int:
    return int(counts.ones.sum() + counts.zeros.sum())
