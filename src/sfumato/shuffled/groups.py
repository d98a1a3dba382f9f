"""A group of participants, one for each class: the bit sum that hides its members, and how many messages each sends.

The number of messages is one for all members of a group, so that a submission's size says nothing.
Whoever has fewer messages adds cover: messages that are sealed like all others and that the analyzer drops. The number
is also the most that one client can do to a collection, whatever it sends. It is the least one that a draw of the bit
sum's coins exceeds with probability f, for the worst bits; a client whose draw does not fit draws again.

Guarantee: drawing again changes the law of a client's messages by f at most in total variation, and the law of what n
honest clients send together by n f. If the bit sums keep (e, d) without it, then for every event E of the view

    Pr'[E | x] <= Pr[E | x] + n f <= e^e Pr[E | x'] + d + n f <= e^e Pr'[E | x'] + d + (1 + e^e) n f,

which is what `overflow` adds to delta; honest clients beyond n are given away. Cover adds nothing: how much of it there
is follows from the number of clients and of the other messages. `pure` promises delta = 0, which holds up to an
`overflow` of 2^-128 that its guarantee names.

f is bounded by Chernoff: Pr[T > c] <= exp(K(t) - t (c + 1)) for every t >= 0, with K the sum of the instances' exact
log moments (`BitSum.message_exponent`), at the largest number of ones that a point has. The best t is searched for;
the bound holds for any.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from sfumato.errors import InputError
from sfumato.public.codec import Many, Nested, Schema, Text, Whole, brief
from sfumato.shuffled.bitsum import NAMES, BitSum, calibrate
from sfumato.shuffled.bitsum.bit_sum import LARGEST_PARTICIPANTS, ComposableBitSum, checked_participants
from sfumato.shuffled.bitsum.calibration import KINDS, LARGEST_EPSILON, checked_messages
from sfumato.shuffled.bitsum.rr import RandomisedResponse, SampledResponse
from sfumato.shuffled.bitsum.search import Search
from sfumato.shuffled.bitsum.signed import Pure
from sfumato.shuffled.features import BitFeatures
from sfumato.shuffled.labels import MOST_CLASSES, Label, checked_classes, plain_label

SHARE = 1 / 1000  # of delta, for draws that do not fit
MOST_PADDING = 64  # times the fewest messages that a document may ask for; honest ones ask for those
# What devices certify for one protocol, in standard deviations of the flips (`certifying`): about a minute at most.
MOST_CERTIFIED = 2**16
PURE_OVERFLOW = 2.0**-128
_LARGEST_TILT = 30.0
_LEAST_CERTIFIED = 8.0
_LEAST_SAMPLED = 128  # of randomised response with a message budget: a curve for each number of messages
_ROUNDING = 1e-9  # relative, of the exponents; they are computed to about 1e-13
_KIND_NAMES = {kind: name for name, kind in KINDS.items()}


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
        How many everybody sends, cover included.

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
        return {
            "label": self.label,
            "participants": self.bitsum.n,
            "bitsum": _KIND_NAMES[type(self.bitsum)],
            "parameters": self.bitsum.schema.write(self.bitsum),
            "messages": self.messages,
        }

    @classmethod
    def from_document(cls, document: Any, path: str = "group") -> Group:
        """Read back what `to_document` wrote."""
        read = _GROUP.read(document, path)
        kind = KINDS[read["bitsum"]]
        parameters = kind.schema.read(read["parameters"], f"{path}.parameters")
        return cls(read["label"], kind(n=read["participants"], **parameters), read["messages"])  # type: ignore[call-arg]

    def certify(self, budget: Budget, features: BitFeatures) -> None:
        """Refuse parameters that do not keep what is promised: a document is no proof."""
        protocol, epsilon = self.bitsum, budget.epsilon
        try:
            with np.errstate(all="ignore"):
                self._check_messages(budget, features)
                kept = self._keeps(budget, features)
        except (ArithmeticError, ValueError, IndexError) as problem:  # noise far beyond what anybody calibrates
            if isinstance(problem, InputError):
                raise
            kept = False
        if not kept:
            raise InputError(
                f"the protocol's noise does not keep epsilon {float(epsilon):g} and delta {budget.delta:g} with "
                f"{protocol.n} participants who send {self.messages} messages each; do not take part, and ask the "
                "organiser for a document made with sfumato"
            )

    def _check_messages(self, budget: Budget, features: BitFeatures) -> None:
        """Refuse cover without end: what a device seals is the organiser's choice, and needs a reason."""
        few = self.messages // MOST_PADDING
        if not few or budget.epsilon > LARGEST_EPSILON:
            return
        unfit = overflow(self.bitsum, features.instances, features.ones, few, float(budget.epsilon))
        if unfit <= _allowed(budget.delta):
            raise InputError(
                f"everybody would have to send {self.messages} messages, and {few} would be enough; do not take part, "
                "and ask the organiser for a document made with sfumato"
            )

    def _keeps(self, budget: Budget, features: BitFeatures) -> bool:
        protocol, epsilon = self.bitsum, budget.epsilon
        if epsilon > LARGEST_EPSILON:
            return False
        unfit = overflow(protocol, features.instances, features.ones, self.messages, float(epsilon))
        if isinstance(protocol, Pure):
            return protocol.is_private(epsilon / budget.changed) and unfit <= PURE_OVERFLOW
        assert isinstance(protocol, ComposableBitSum)
        if not 0 < budget.delta >= unfit / SHARE:
            return False
        return (
            Search(protocol.n, budget.changed, float(epsilon), budget.delta).certify(protocol) + unfit <= budget.delta
        )


def _label(value: Any, path: str) -> Label | None:
    try:
        return None if value is None else plain_label(value)
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None


_GROUP = Schema(
    label=Nested(_label),
    participants=Whole(1, LARGEST_PARTICIPANTS),
    bitsum=Text(*KINDS),
    parameters=Nested(lambda value, _: value),  # read by the bit sum's own schema
    messages=Whole(1, 2**53),
)
_GROUPS = Many(Nested(Group.from_document), most=MOST_CLASSES, least=1)


def groups_from_documents(documents: Any, path: str = "groups") -> tuple[Group, ...]:
    """Read the groups of a protocol, with distinct labels; one without a label stands alone."""
    groups = _GROUPS.read(documents, path)
    labels = [group.label for group in groups]
    if len(set(labels)) < len(labels) or (None in labels and len(labels) > 1):
        raise InputError("the groups of a protocol must have distinct labels")
    return groups


def check_summary(groups: tuple[Group, ...], participants: Any, bitsum: Any) -> None:
    """Refuse a document whose summary says something else than its groups."""
    least = min(group.participants for group in groups)
    if participants != least:
        raise InputError(f"the protocol names {participants!r} participants, and its smallest group has {least}")
    kinds = {_KIND_NAMES[type(group.bitsum)] for group in groups}
    own = {"rr", "sampled-rr"} if bitsum == "rr" else {str(bitsum).removesuffix("-published")}
    if bitsum not in NAMES or not kinds <= own:
        raise InputError(f"the protocol names the bit sum {bitsum!r}, and its groups use {', '.join(sorted(kinds))}")


def calibrated(name: str, n: int, budget: Budget, features: BitFeatures, messages: float | None) -> tuple[BitSum, int]:
    """Calibrate the bit sum of a group for the instances that compose, and say how many messages everybody sends.

    A message budget is for all instances.
    """
    epsilon, delta = budget.epsilon, budget.delta
    each = None if messages is None else checked_messages(messages) * budget.changed / features.instances
    fixed = name in ("rr", "rr-published") and messages is None  # one message an instance: every draw fits
    left = delta if fixed else (1 - SHARE) * delta
    bitsum = calibrate(name, n=n, instances=budget.changed, epsilon=epsilon, delta=left, messages=each).protocol
    return bitsum, fewest_messages(bitsum, features.instances, features.ones, float(epsilon), delta)


def overflow(bitsum: BitSum, instances: int, ones: int, messages: int, epsilon: float) -> float:
    """Return what draws that do not fit add to delta, an upper bound.

    Parameters
    ----------
    bitsum : BitSum
        Of one instance.
    instances, ones : int
        Bits of a point, and how many of them may be 1.
    messages : int
        How many a client sends.
    epsilon : float
        Of all instances together.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sfumato.shuffled.bitsum.unsigned import PoissonNoise
    >>> noise = PoissonNoise(1000, Fraction(500))
    >>> [overflow(noise, 64, 64, messages, 1.0) < 1e-8 for messages in (100, 160)]
    [False, True]
    """
    fits = bitsum.most_messages is not None and messages >= bitsum.most_messages * instances
    return 0.0 if fits else math.exp(min(_log_overflow(bitsum, instances, ones, messages, epsilon), 0.0))


def fewest_messages(bitsum: BitSum, instances: int, ones: int, epsilon: float, delta: float) -> int:
    """Return the least number of messages whose overflow is within its share of delta."""
    allowed = _allowed(delta)
    high = instances
    while overflow(bitsum, instances, ones, high, epsilon) > allowed:
        high *= 2
    low = 0  # nothing fits
    while high - low > 1:
        middle = (low + high) // 2
        fits = overflow(bitsum, instances, ones, middle, epsilon) <= allowed
        low, high = (low, middle) if fits else (middle, high)
    return high


def _allowed(delta: float) -> float:
    """Return the overflow that is calibrated for, a little less than its share of delta: others compute it again."""
    return (1 - SHARE) * (SHARE * delta if delta else PURE_OVERFLOW)


def certifying(bitsum: BitSum) -> float:
    """Return what certifying a bit sum takes, in units of about a millisecond.

    The curves of randomised response have as many steps as its flips deviate, and with a message budget as many for
    each number of messages that may be sent; all others take little.

    Examples
    --------
    >>> round(certifying(RandomisedResponse(10**9, Fraction(1, 3))))
    14915
    """
    if not isinstance(bitsum, RandomisedResponse | SampledResponse):
        return _LEAST_CERTIFIED
    flips = math.sqrt(bitsum.n * bitsum.flip * (1 - bitsum.flip))
    if isinstance(bitsum, SampledResponse):
        flips = _LEAST_SAMPLED + flips * (1 + math.sqrt(bitsum.n * bitsum.send * (1 - bitsum.send))) / 4
    return _LEAST_CERTIFIED + flips


def check_certifying(bitsums: Iterable[BitSum]) -> None:
    """Refuse groups whose different noise takes devices too long to certify.

    Examples
    --------
    >>> check_certifying(RandomisedResponse(n, Fraction(1, 4)) for n in range(1000, 1100))
    >>> check_certifying(RandomisedResponse(n, Fraction(1, 4)) for n in range(1000, 9000))
    Traceback (most recent call last):
    sfumato.errors.InputError: the noise of 8000 different groups takes too long to certify ...
    """
    different = list(bitsums)
    if sum(map(certifying, different)) > MOST_CERTIFIED:
        raise InputError(
            f"the noise of {len(different)} different groups takes too long to certify on devices: give classes of "
            "similar size the same number of participants, the smallest of theirs, or take a larger epsilon"
        )


def _log_overflow(bitsum: BitSum, instances: int, ones: int, messages: int, epsilon: float) -> float:
    """Logarithm of (1 + e^epsilon) n Pr[messages of a client > messages], from above."""

    def bound(tilt: float) -> float:
        moment = ones * bitsum.message_exponent(tilt, 1) + (instances - ones) * bitsum.message_exponent(tilt, 0)
        reach = tilt * (messages + 1)
        return moment - reach + _ROUNDING * (moment + reach)

    # Up to the largest tilt: close to it the moments are large, and lose digits.
    largest = min(_LARGEST_TILT, 0.999 * bitsum.largest_tilt)
    ends = math.log(largest) - 15, math.log(largest)
    found = minimize_scalar(lambda log_tilt: bound(math.exp(log_tilt)), bounds=ends, method="bounded")
    return math.log(bitsum.n) + math.log1p(math.exp(epsilon)) + min(float(found.fun), 0.0)


def labels_of(classes: Sequence[Any] | None) -> tuple[Label | None, ...]:
    """Return the labels of the groups; one group without a label where there are no classes."""
    return (None,) if classes is None else checked_classes(classes)


def classes_for(classes: Sequence[Any] | None) -> tuple[Label, ...]:
    """Return the classes that labels are hidden among."""
    if classes is None:
        raise InputError("label_epsilon is for classes: pass classes=, or leave it out")
    return checked_classes(classes)


def participants_of(participants: Any, labels: tuple[Label | None, ...]) -> list[int]:
    """Return the number of participants of every group."""
    if isinstance(participants, Mapping):
        counts = {plain_label(name): count for name, count in participants.items()}
        if set(counts) != set(labels):
            raise InputError(
                f"participants must give a number for each class of {list(labels)}, got {brief(participants)}"
            )
        return [checked_participants(counts[label]) for label in labels]  # type: ignore[index]
    if isinstance(participants, Sequence):
        if len(participants) != len(labels):
            raise InputError(f"participants must give a number for each of {len(labels)} classes")
        return list(map(checked_participants, participants))
    return [checked_participants(participants)] * len(labels)
