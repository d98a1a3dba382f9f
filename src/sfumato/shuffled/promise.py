"""What a shuffled collection promises, told before it starts.

The guarantee is against whoever sees the communication, or against whoever sees the releases.

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

from dataclasses import dataclass
from fractions import Fraction

from sfumato.privacy.guarantee import Guarantee, amount_text
from sfumato.quantizers import InnerProductQuantizer, InnerProductSigns
from sfumato.shuffled.features import BitFeatures
from sfumato.shuffled.groups import Budget, Group
from sfumato.shuffled.labels import LabelResponse

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
        domain = box.domain().condition()
        if isinstance(quantizer, InnerProductQuantizer | InnerProductSigns):
            return domain, quantizer.ball.condition()
        return (domain,)
