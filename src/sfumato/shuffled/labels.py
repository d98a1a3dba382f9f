"""The opt-in round: participants say which class they are in, with a locally private answer, before anything else.

Source: 3.3 of Wagner (2025); m-ary randomised response of P. Kairouz, K. Bonawitz, D. Ramage, 2016. The true class is
reported with probability e^e / (e^e - 1 + m), rounded down to a multiple of 2^-40, and each other one with the same
probability. Reports are public: they say how many take part in every reported class, which the bit sums need to know,
and in whose sums a participant's messages count.

Guarantee: e-differential privacy of the label without any trust: keep / other <= e^e, decided in exact arithmetic
(`sfumato.privacy.response`).

Unmixing. With M the matrix of response probabilities, M[reported, true], the sums of the reported classes are in
expectation M times those of the true ones. Multiplying by the inverse of M undoes that without bias, after the fact,
at the price of more noise; the numbers of members of the true classes come out the same way.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, LedgerError
from sfumato.local.account import DeviceAccount
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.privacy.guarantee import exact_positive
from sfumato.privacy.laws import ReportNoise
from sfumato.privacy.response import keeps_epsilon
from sfumato.public.codec import brief
from sfumato.quantizers.base import Encoder, Floats
from sfumato.release import Count, Release
from sfumato.shuffled.bitsum.bit_sum import CHANCE_DENOMINATOR, rate_below
from sfumato.shuffled.bitsum.shares import coins

LARGEST_LABEL_EPSILON = 20
MOST_CLASSES = 10_000
_ROUNDING = 1e-12
_PLACE_BYTES = 2  # holds every place among MOST_CLASSES

Label = int | str


@dataclass(frozen=True)
class LabelResponse:
    """Randomised response over a public list of classes.

    Parameters
    ----------
    classes : sequence of int or str
        All that may be reported.
    epsilon : number
        Of one report.

    Examples
    --------
    >>> response = LabelResponse(("World", "Sports", "Business"), 2)
    >>> round(float(response.keep), 3)
    0.787
    >>> response.report(["World"] * 8, SecureBits.seeded(7))
    ['Sports', 'World', 'World', 'World', 'World', 'World', 'Business', 'World']
    """

    classes: tuple[Label, ...]
    epsilon: int | float | str | Decimal | Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", checked_classes(self.classes))
        object.__setattr__(self, "epsilon", exact_positive(self.epsilon, "label_epsilon", LARGEST_LABEL_EPSILON))
        if len(self.classes) < 2:
            raise InputError("label_epsilon hides one class among others: pass two classes or more, or leave it out")

    @cached_property
    def keep(self) -> Fraction:
        """Probability of the true class."""
        power, others = math.exp(float(Fraction(self.epsilon))), len(self.classes) - 1
        keep = rate_below(power / (power + others) - _ROUNDING)
        if keep * len(self.classes) <= 1:
            raise InputError(
                f"label_epsilon = {brief(self.epsilon)} is too small for a report to say anything; pass a larger one"
            )
        while not keeps_epsilon(others * keep.numerator, keep.denominator - keep.numerator, Fraction(self.epsilon)):
            keep -= Fraction(1, CHANCE_DENOMINATOR)  # floats only propose
        return keep

    @cached_property
    def matrix(self) -> Floats:
        """Probabilities M[reported, true]."""
        size = len(self.classes)
        other = float((1 - self.keep) / (size - 1))
        return np.full((size, size), other) + np.eye(size) * (float(self.keep) - other)

    def codes(self, labels: Any) -> Integers:
        """Places of labels in the list of classes."""
        places = {name: place for place, name in enumerate(self.classes)}
        try:
            return np.array([places[plain_label(label)] for label in labels], dtype=np.int64)
        except KeyError as unknown:
            raise InputError(f"{unknown} is not one of the protocol's classes {list(self.classes)}") from None

    def report_codes(self, codes: Integers, secure: SecureBits) -> Integers:
        """Randomise places in the list of classes."""
        size = len(self.classes)
        truthful = coins(secure, codes.size, self.keep)
        others = (codes + 1 + secure.below(size - 1, codes.size)) % size
        return np.where(truthful, codes, others)

    def report(self, labels: Sequence[Label], secure: SecureBits | None = None) -> list[Label]:
        """Randomise labels, each on its own.

        Parameters
        ----------
        labels : sequence
            True classes.
        secure : SecureBits, optional
            The coins; secret by default.
        """
        reported = self.report_codes(self.codes(labels), SecureBits() if secure is None else secure)
        return [self.classes[code] for code in reported.tolist()]

    def answer(self, label: Label, account: DeviceAccount, collection: str, secure: SecureBits | None = None) -> Label:
        """Report one's own class: the device's account pays once, keeps the answer and gives it again ever after.

        The same answer comes whatever class is passed later: a second draw would tell more, a repetition does not.

        Parameters
        ----------
        label : int or str
            The true class.
        account : DeviceAccount
            Where the answer is kept; on disk before it is returned.
        collection : str
            The protocol's fingerprint. Each collection has an answer of its own, at its own price.
        secure : SecureBits, optional
            The coins; secret by default.
        """
        self.codes([label])  # an unknown class costs nothing
        names = sorted(self.classes, key=repr)

        def fresh(_: Sequence[float]) -> bytes:
            return names.index(self.report([label], secure)[0]).to_bytes(_PLACE_BYTES, "big")

        kept = account.remembered(self._question(collection), (), Fraction(self.epsilon), fresh)
        if (place := int.from_bytes(kept, "big")) >= len(names):
            raise LedgerError(f"{str(account.path)!r} keeps an answer that is no class of the protocol: it was altered")
        return names[place]

    def price(self, account: DeviceAccount, collection: str) -> Fraction:
        """Return what `answer` would charge now: nothing if it was given before."""
        return Fraction(0) if account.keeps(self._question(collection)) else Fraction(self.epsilon)

    def _question(self, collection: str) -> str:
        names = sorted(map(repr, self.classes))  # another order, or another epsilon, is the same question
        return hashlib.sha256(b"sfumato-labels\0" + json.dumps([collection, names]).encode()).hexdigest()

    def counts(self, reports: Sequence[Label]) -> dict[Label, int]:
        """Count the reports of every class: how many take part in each, for `Protocol(participants=...)`.

        Whoever may stay away in the second round must not be counted on: pass less than the counts where that happens.
        """
        counts = np.bincount(self.codes(reports), minlength=len(self.classes))
        return dict(zip(self.classes, counts.tolist(), strict=True))

    def unmix(self, releases: Mapping[Any, Release]) -> dict[Label, Release]:
        """Turn the releases of the reported classes into releases of the true ones; post-processing.

        Parameters
        ----------
        releases : mapping
            The release of every reported class, all with the same features.
        """
        parts = [releases[name] for name in self.classes]
        inverse: Floats = np.linalg.inv(self.matrix).astype(np.float64)
        values = np.array([part.values for part in parts], dtype=np.float64)
        variances = np.array([part.noise.variance for part in parts])
        sizes = np.array([part.count.value for part in parts], dtype=np.float64)
        true_sizes = np.maximum(inverse @ sizes, 1.0)
        spread = self._label_variance(inverse, true_sizes)
        encoder = parts[0].reader
        assert isinstance(encoder, Encoder)  # the features that the participants sent as bits
        largest = encoder.bound.largest
        return {
            name: replace(
                part,
                values=np.rint(weights @ values).astype(np.int64),
                noise=ReportNoise(float(weights**2 @ variances + largest**2 * spread[place])),
                count=Count(max(1, round(float(true_sizes[place]))), float(spread[place]), False),
                parameters={**part.parameters, "unmixed": True},
            )
            for place, (name, part, weights) in enumerate(zip(self.classes, parts, inverse, strict=True))
        }

    def _label_variance(self, inverse: Floats, sizes: Floats) -> Floats:
        """Variance that the coins of the reports give to the unmixed sizes."""
        second = (inverse**2 @ self.matrix) @ sizes
        return np.asarray(second - np.square(inverse @ self.matrix) @ sizes)


def plain_label(label: Any) -> Label:
    """Return a label as an int or text, out of NumPy's wrapping.

    Examples
    --------
    >>> plain_label(np.int64(3)), plain_label(np.str_("World"))
    (3, 'World')
    """
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, bool) or not isinstance(value, int | str) or (isinstance(value, int) and abs(value) >= 2**63):
        raise InputError(f"a class must be a whole number or a text, got {brief(label)}")
    return value


def checked_classes(classes: Sequence[Any] | NDArray[Any]) -> tuple[Label, ...]:
    """Return a list of distinct classes.

    Examples
    --------
    >>> checked_classes(["World", "Sports"])
    ('World', 'Sports')
    """
    listed = isinstance(classes, Sequence) or (isinstance(classes, np.ndarray) and classes.ndim == 1)
    if not listed or isinstance(classes, str | bytes):
        raise InputError(f"classes must be the public list of classes, got {brief(classes)}")
    names = tuple(map(plain_label, classes))
    if len(set(names)) != len(names) or not 1 <= len(names) <= MOST_CLASSES:
        raise InputError(f"classes must be from 1 to {MOST_CLASSES} distinct ones, got {brief(classes)}")
    return names
