"""What a shuffled collection promises and costs, told before it starts: the guarantee, and the plan.

The promise is against whoever sees the communication, or against whoever sees the releases.

Source: corollary 3.4 of Wagner (2025), with a change of label included. One participant's record (x, c)
becomes (x', c'); L is the epsilon of the label's randomised response, (e, d) what the shuffled messages of one group
keep when one member's point is replaced.

Communication threat: the attacker sees who reported which label, and the shuffled messages of every group. Given the
reported label r the participant is in group r in both worlds, so that for every event E

    Pr[E | x, c] = sum_r Pr[r | c] Pr[E_r | x] <= sum_r Pr[r | c] (e^e Pr[E_r | x'] + d)
                <= e^(L + e) Pr[E | x', c'] + d:

(e + L, d)-DP for any change of point and label, and (e, d)-DP if only the point changes.

Model threat: the attacker sees the releases, and with them how many reported each label. That is post-processing of the
communication: (e, d)-DP if the point changes, (e + L, d)-DP if the label does. The counts show a changed label unless
randomised response hides it, so that nothing better than e + L is claimed for it.

Without label_epsilon labels are public: only points are protected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.errors import InputError
from sfumato.methods.request import TYPICAL_DENSITY
from sfumato.privacy.guarantee import Guarantee, amount_text
from sfumato.public.domain import Domain
from sfumato.quantizers import InnerProductQuantizer, InnerProductSigns
from sfumato.shuffled.bitsum import central_gaussian_rmse
from sfumato.shuffled.features import BitFeatures
from sfumato.shuffled.groups import Budget, Group
from sfumato.shuffled.labels import LabelResponse
from sfumato.shuffled.messages import HEAD_BYTES
from sfumato.shuffled.methods import Accuracy, accuracy
from sfumato.shuffled.sealing import MESSAGE_BYTES

if TYPE_CHECKING:
    from sfumato.shuffled.protocol import Protocol

THREATS = ("communication", "model")


@dataclass(frozen=True)
class Promise:
    """Everything that the guarantee of a protocol depends on."""

    budget: Budget
    groups: tuple[Group, ...]
    response: LabelResponse | None
    features: BitFeatures

    def guarantee(self, threat: str, private: bool = True) -> Guarantee:
        """Put the promise against a threat model as a value."""
        epsilon = self.budget.epsilon
        if self.response is not None and threat == "communication":
            epsilon += Fraction(self.response.epsilon)
        return Guarantee(
            trust="shuffled",
            neighbours="replace",
            unit="user",
            epsilon=epsilon,
            delta=self.budget.delta,
            n_public=True,
            conditions=(*self._people(), *self._sizes(), *self._labels(threat), *self._points()),
            private=private,
        )

    def _people(self) -> tuple[str, ...]:
        counts = sorted({group.participants for group in self.groups})
        least = str(counts[0]) if len(counts) == 1 else f"from {counts[0]} to {counts[-1]}, by class,"
        each = " in every class" if len(self.groups) > 1 else ""
        return (
            f"at least {least} participants{each} follow the protocol, each once, with coins of their own",
            "every message is shuffled on its own, and nothing (time, address, order) links the messages of a person",
        )

    def _sizes(self) -> tuple[str, ...]:
        if all(group.every_instance for group in self.groups):
            return ()
        sizes = sorted({group.messages for group in self.groups})
        number = str(sizes[0]) if len(sizes) == 1 else f"from {sizes[0]} to {sizes[-1]}, by class,"
        paid = "for which a thousandth of delta pays"
        if not self.budget.delta:
            paid = "with a probability below 2^-128 for all together, which is not counted"
        return (f"everybody sends {number} messages, cover included; a draw that does not fit is made again, {paid}",)

    def _labels(self, threat: str) -> tuple[str, ...]:
        if self.groups[0].label is None:
            return ()
        if self.response is None:
            return ("classes are public and not protected",)
        point, label = amount_text(self.budget.epsilon), Fraction(self.response.epsilon)
        both = amount_text(self.budget.epsilon + label)
        if threat == "communication":
            return (f"this covers a change of point and class; if only the point changes, epsilon = {point} holds",)
        return (f"the class stays the same and only the point changes; if the class changes, epsilon = {both} holds",)

    def _points(self) -> tuple[str, ...]:
        box, quantizer = self.features.quantizer.box, self.features.quantizer
        domain = Domain(box.lower, box.upper, box.declared).condition()
        if isinstance(quantizer, InnerProductQuantizer | InnerProductSigns):
            return domain, quantizer.ball.condition()
        return (domain,)


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
