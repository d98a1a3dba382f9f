"""What callers pass to a protocol, turned into what it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato.errors import InputError
from sfumato.local.account import DeviceAccount
from sfumato.quantizers import Quantizer
from sfumato.shuffled import quantizing
from sfumato.shuffled.features import BitFeatures
from sfumato.shuffled.groups import Budget, rough_variance
from sfumato.shuffled.labels import Label, checked_classes, plain_label

CANDIDATES = (64, 128, 256, 512, 1024, 2048)  # numbers of instances
NEARLY_BEST = 1.05


def checked_dimension(dimension: Any) -> int:
    """Return the number of columns if it is one."""
    if isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1:
        raise InputError(f"dimension must be a positive int, the number of columns; got {dimension!r}")
    return dimension


def account_of(ledger: str | Path | None, budget: float | str | Fraction | None) -> DeviceAccount | None:
    """Return the device's account; its budget is its owner's choice, so that a document cannot set it."""
    if (ledger is None) != (budget is None):
        raise InputError("an account is a file and its budget, the largest sum of epsilons: pass both, or none of them")
    return None if ledger is None or budget is None else DeviceAccount(ledger, budget)


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
            raise InputError(f"participants must give a number for each class of {list(labels)}, got {participants!r}")
        return [counts[label] for label in labels]  # type: ignore[index]
    if isinstance(participants, Sequence):
        if len(participants) != len(labels):
            raise InputError(f"participants must give a number for each of {len(labels)} classes")
        return list(participants)
    return [participants] * len(labels)


def quantizer_for(
    wanted: quantizing.Wanted, name: str, instances: int | str, bitsum: str, n: int, epsilon: Any, delta: float
) -> Quantizer:
    """Build the quantizer; "auto" takes the fewest instances whose predicted error is nearly the least."""
    chosen = quantizing.choose(name, wanted)
    if instances != "auto":
        if isinstance(instances, bool) or not isinstance(instances, int) or instances < 1:
            raise InputError(f"instances must be a positive int or 'auto', got {instances!r}")
        made = quantizing.build(chosen, wanted, instances)
        if made.size != instances:
            raise InputError(f"{chosen} has {made.size} instances here, not {instances}; pass that number or 'auto'")
        return made
    if chosen == "inner-product":
        return quantizing.build(chosen, wanted, wanted.dimension)
    found: list[tuple[float, Quantizer]] = []
    for size in CANDIDATES:
        quantizer = quantizing.build(chosen, wanted, size)
        if found and quantizer.size == found[-1][1].size:
            break  # landmarks span no more
        budget = Budget(epsilon, delta, BitFeatures(quantizer).changed)
        variance = rough_variance(bitsum, n, budget)
        found.append((quantizing.accuracy(quantizer, variance, n).rmse, quantizer))
    best = min(error for error, _ in found)
    return next(quantizer for error, quantizer in found if error <= NEARLY_BEST * best)
