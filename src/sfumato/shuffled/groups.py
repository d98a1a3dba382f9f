"""A group of participants, one for each class, and the bit-sum protocol that hides its members among each other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from sfumato.errors import InputError
from sfumato.public.codec import Ratio
from sfumato.shuffled.bitsum import NAMES, BitSum, calibrate, central_gaussian_rmse
from sfumato.shuffled.bitsum.negative_binomial import NegativeBinomialNoise
from sfumato.shuffled.bitsum.poisson import PoissonNoise
from sfumato.shuffled.bitsum.protocol import ComposableBitSum
from sfumato.shuffled.bitsum.published import published_response, published_three_nb
from sfumato.shuffled.bitsum.pure import Pure
from sfumato.shuffled.bitsum.rr import RandomisedResponse
from sfumato.shuffled.bitsum.sampled_rr import SampledResponse
from sfumato.shuffled.bitsum.search import Search
from sfumato.shuffled.bitsum.three_nb import ThreeNegativeBinomials, geometric_difference_variance
from sfumato.shuffled.features import BitFeatures
from sfumato.shuffled.labels import Label, plain_label
from sfumato.shuffled.sizes import PURE_OVERFLOW, SHARE, fewest_messages, overflow

_KINDS: dict[str, type[BitSum]] = {
    "rr": RandomisedResponse,
    "sampled-rr": SampledResponse,
    "poisson": PoissonNoise,
    "negative-binomial": NegativeBinomialNoise,
    "3nb": ThreeNegativeBinomials,
    "pure": Pure,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_FIELDS = {"label", "participants", "bitsum", "parameters", "messages"}


@dataclass(frozen=True)
class Budget:
    """What all instances together may reveal.

    Attributes
    ----------
    epsilon : Fraction
    delta : float
    changed : int
        Instances in which two points may differ.
    """

    epsilon: Fraction
    delta: float
    changed: int


@dataclass(frozen=True)
class Group:
    """Participants whose messages are shuffled and summed together.

    Attributes
    ----------
    label : int, str or None
        Their (reported) class; None where there are no classes.
    bitsum : BitSum
        The protocol of one instance, for at least `bitsum.n` honest participants.
    messages : int
        How many everybody sends, cover included, see `sizes`.

    Examples
    --------
    >>> group = Group("World", RandomisedResponse(1000, Fraction(1, 4)), 64)
    >>> Group.from_document(group.to_document()) == group
    True
    """

    label: Label | None
    bitsum: BitSum
    messages: int

    @property
    def participants(self) -> int:
        """Honest participants, at least."""
        return self.bitsum.n

    @property
    def every_instance(self) -> bool:
        """Whether every participant sends exactly one message for each instance."""
        return isinstance(self.bitsum, RandomisedResponse)

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form; fractions are text."""
        parameters = {name: str(value) for name, value in self.bitsum.parameters.items()}
        return {
            "label": self.label,
            "participants": self.bitsum.n,
            "bitsum": _NAMES[type(self.bitsum)],
            "parameters": parameters,
            "messages": self.messages,
        }

    @classmethod
    def from_document(cls, document: Any) -> Group:
        """Read back what `to_document` wrote."""
        if not isinstance(document, Mapping) or set(document) != _FIELDS or type(document["messages"]) is not int:
            raise InputError(
                "a group of participants must have a label, participants, a bit sum, its parameters and a number of "
                "messages"
            )
        kind = _KINDS.get(str(document["bitsum"]))
        if kind is None or not isinstance(document["parameters"], Mapping):
            raise InputError(f"the bit-sum protocol {document['bitsum']!r} is not known; update sfumato")
        integers = {field.name for field in fields(kind) if field.type == "int"}  # type: ignore[arg-type]
        given = {name: Ratio().read(text, name) for name, text in document["parameters"].items()}
        parameters = {name: int(value) if name in integers else value for name, value in given.items()}
        label = None if document["label"] is None else plain_label(document["label"])
        try:
            bitsum = kind(n=document["participants"], **parameters)  # type: ignore[call-arg]
        except TypeError:
            raise InputError(f"the parameters of the bit-sum protocol {document['bitsum']!r} are not its own") from None
        group = cls(label, bitsum, document["messages"])
        if group.to_document() != document:
            raise InputError("a group of participants says something that this version of sfumato does not know")
        return group

    def certify(self, budget: Budget, features: BitFeatures) -> None:
        """Refuse parameters that do not keep what is promised: a document is no proof."""
        protocol, epsilon = self.bitsum, budget.epsilon
        unfit = overflow(protocol, features.instances, features.ones, self.messages, float(epsilon))
        if isinstance(protocol, Pure):
            kept = protocol.is_private(epsilon / budget.changed) and unfit <= PURE_OVERFLOW
        else:
            assert isinstance(protocol, ComposableBitSum)
            search = Search(protocol.n, budget.changed, float(epsilon), budget.delta)
            kept = 0 < budget.delta >= unfit / SHARE and search.certify(protocol) + unfit <= budget.delta
        if not kept:
            raise InputError(
                f"the protocol's noise does not keep epsilon {float(epsilon):g} and delta {budget.delta:g} with "
                f"{protocol.n} participants who send {self.messages} messages each; do not take part, and ask the "
                "organiser for a document made with sfumato"
            )


def groups_from_documents(documents: Any) -> tuple[Group, ...]:
    """Read the groups of a protocol, with distinct labels; one without a label stands alone."""
    if not isinstance(documents, list) or not documents:
        raise InputError("a protocol must list its groups of participants")
    groups = tuple(map(Group.from_document, documents))
    labels = [group.label for group in groups]
    if len(set(labels)) < len(labels) or (None in labels and len(labels) > 1):
        raise InputError("the groups of a protocol must have distinct labels")
    return groups


def check_summary(groups: tuple[Group, ...], participants: Any, bitsum: Any) -> None:
    """Refuse a document whose summary says something else than its groups."""
    least = min(group.participants for group in groups)
    if participants != least:
        raise InputError(f"the protocol names {participants!r} participants, and its smallest group has {least}")
    kinds = {_NAMES[type(group.bitsum)] for group in groups}
    own = {"rr", "sampled-rr"} if bitsum == "rr" else {str(bitsum).removesuffix("-published")}
    if bitsum not in NAMES or not kinds <= own:
        raise InputError(f"the protocol names the bit sum {bitsum!r}, and its groups use {', '.join(sorted(kinds))}")


def calibrated(name: str, n: int, budget: Budget, features: BitFeatures, messages: float | None) -> tuple[BitSum, int]:
    """Calibrate the bit sum of a group for the instances that compose, and say how many messages everybody sends.

    A message budget is for all instances.
    """
    epsilon, delta = budget.epsilon, budget.delta
    each = None if messages is None else messages * budget.changed / features.instances
    fixed = name in ("rr", "rr-published") and messages is None  # one message an instance: every draw fits
    left = delta if fixed else (1 - SHARE) * delta
    bitsum = calibrate(name, n=n, instances=budget.changed, epsilon=epsilon, delta=left, messages=each).protocol
    return bitsum, fewest_messages(bitsum, features.instances, features.ones, float(epsilon), delta)


def rough_variance(name: str, n: int, budget: Budget) -> float:
    """Estimate the variance of a bit sum in no time, to choose the number of instances.

    Examples
    --------
    >>> round(rough_variance("rr", 10_000, Budget(Fraction(1), 1e-5, 768)) ** 0.5)
    103
    """
    epsilon, delta, instances = float(budget.epsilon), budget.delta, budget.changed
    if name == "pure":
        share = epsilon / instances
        drop = 1 / (40 * n * math.sinh(share / 2) ** 2)
        return geometric_difference_variance(share) / (1 - drop) ** 2 if drop < 1 else math.inf
    if name == "rr-published":
        return published_response(n, instances, epsilon, delta).variance
    if name == "3nb-published":
        return published_three_nb(n, instances, epsilon, delta).variance
    return central_gaussian_rmse(instances, epsilon, delta) ** 2 * (2 if name == "3nb" else 1)
