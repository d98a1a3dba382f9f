"""A participant's side: a point in, sealed messages out.

Each bit of each instance becomes messages of its own, and the messages leave in random order, so that their places say
nothing. To whoever carries them, the shuffler included, they are all alike; how many there are is the same for everyone
in `rr` and depends on the bits and on coins in the other protocols, which is why the shuffler is trusted with it.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.shuffled.permuting import permutation
from sfumato.shuffled.sealing import seal
from sfumato.shuffled.submission import Submission

if TYPE_CHECKING:
    from sfumato.shuffled.protocol import Protocol


class Client:
    """One participant in one collection; made by `Protocol.client`.

    Parameters
    ----------
    protocol : Protocol
        The public document.
    label : int or str, optional
        The class that was reported, where there are classes.

    Examples
    --------
    >>> from sfumato.shuffled import AnalyzerKey, Protocol
    >>> protocol = Protocol("gaussian", bandwidth=1.0, dimension=2, epsilon=1, delta=1e-5, participants=500,
    ...                     instances=64, key=AnalyzerKey.generate())
    >>> messages = protocol.client().messages([0.3, -1.0])
    >>> len(messages), {len(message) for message in messages}
    (64, {53})
    """

    def __init__(self, protocol: Protocol, label: Any = None) -> None:
        if protocol.classes is not None and label is None:
            raise InputError("the protocol has classes: pass label=, the class that was reported")
        self._context = protocol.context(label)
        self._group = protocol.group(label)[1]
        self._protocol = protocol
        self._sent = False

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
        """
        protocol = self._protocol
        if protocol.expired(now):
            raise InputError("the collection or its key has expired; ask the organiser for a new protocol")
        if self._sent:
            raise InputError("this participant's messages were made already; send those again, a second set costs more")
        public, secure = protocol.key, SecureBits() if secure is None else secure
        point = np.asarray(x, dtype=object).reshape(1, -1)
        features = protocol.features
        bits = features.bits(features.points(point), secure)[0]
        counts = self._group.bitsum.randomise(bits, secure)
        numbers = np.arange(features.instances)
        instances = np.concatenate([np.repeat(numbers, counts.ones), np.repeat(numbers, counts.zeros)])
        contents = np.repeat([1, 0], [counts.ones.sum(), counts.zeros.sum()])
        order = permutation(secure, instances.size)
        self._sent = True
        return Submission(seal(instances[order], contents[order], public, self._context))
