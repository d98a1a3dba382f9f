"""What a shuffled collection costs and how accurate it is, told before it starts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.errors import InputError
from sfumato.methods.request import TYPICAL_DENSITY
from sfumato.shuffled.bitsum import central_gaussian_rmse
from sfumato.shuffled.quantizing import Accuracy, accuracy
from sfumato.shuffled.sealing import MESSAGE_BYTES
from sfumato.shuffled.submission import HEAD_BYTES

if TYPE_CHECKING:
    from sfumato.shuffled.protocol import Protocol


@dataclass(frozen=True)
class Plan:
    """Predicted cost and error of a collection, for its smallest group.

    Attributes
    ----------
    participants, instances : int
        n and I.
    messages : int
        Sealed messages of every participant, cover included.
    bytes : int
        What every participant sends.
    real_messages : float
        Messages of one participant without cover, on average.
    content_bits : float
        The same in bits, without sealing: content and number of the instance.
    bit_sum_rmse, central_rmse : float
        Error of one sum of bits, and of Gaussian noise that a trusted curator would add (infinite if delta = 0).
    accuracy : Accuracy
        Error of an answer.
    """

    participants: int
    instances: int
    messages: int
    bytes: int
    real_messages: float
    content_bits: float
    bit_sum_rmse: float
    central_rmse: float
    accuracy: Accuracy

    @classmethod
    def of(cls, protocol: Protocol, density: float | None = None) -> Plan:
        """Plan a protocol; `density` is the typical mean kernel value, 0.02 if it is not known."""
        typical = TYPICAL_DENSITY if density is None else density
        if not 0 < typical <= 1:
            raise InputError(f"density must be a number above 0 and at most 1, got {density!r}")
        group = min(protocol.groups, key=lambda each: each.participants)
        features, bitsum = protocol.features, group.bitsum
        mean_bit = 1 / protocol.quantizer.width if features.binary else 0.5
        real = features.instances * bitsum.messages(mean_bit)
        guarantee = protocol.guarantee("model")
        central = math.inf
        if guarantee.delta:
            central = central_gaussian_rmse(features.changed, float(guarantee.epsilon), guarantee.delta)
        return cls(
            participants=bitsum.n,
            instances=features.instances,
            messages=group.messages,
            bytes=HEAD_BYTES + group.messages * MESSAGE_BYTES,
            real_messages=real,
            content_bits=real * (bitsum.message_bits + math.ceil(math.log2(features.instances))),
            bit_sum_rmse=bitsum.rmse,
            central_rmse=central,
            accuracy=accuracy(protocol.quantizer, bitsum.variance, bitsum.n, typical),
        )

    def __str__(self) -> str:
        curator = "" if math.isinf(self.central_rmse) else f", {self.central_rmse:.4g} for a trusted curator"
        return (
            f"{self.participants} participants, {self.instances} instances: {self.messages} messages each "
            f"({self.bytes:.3g} bytes sealed; {self.real_messages:.4g} on average are no cover)\n"
            f"error of a sum of bits {self.bit_sum_rmse:.4g}{curator}\n"
            f"error of an answer about {self.accuracy.rmse:.2g}; the published bound is {self.accuracy.published:.2g}"
        )

    def to_document(self) -> dict[str, Any]:
        """Return the plan as JSON values; what is infinite is None."""
        return {
            "participants": self.participants,
            "instances": self.instances,
            "messages": self.messages,
            "bytes": self.bytes,
            "real_messages": self.real_messages,
            "content_bits": self.content_bits,
            "bit_sum_rmse": self.bit_sum_rmse,
            "central_rmse": self.central_rmse if math.isfinite(self.central_rmse) else None,
            "rmse": self.accuracy.rmse,
            "published_rmse": self.accuracy.published,
            "variances": {
                "noise": self.accuracy.noise,
                "rounding": self.accuracy.rounding,
                "approximation": self.accuracy.approximation,
            },
        }
