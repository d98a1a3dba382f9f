"""What a release reveals, described apart from what it costs: pure parts, Gaussian parts, and what is off by a little.

An (epsilon, delta) is one point of a mechanism's privacy curve, and points add up badly. A `Loss` keeps the whole
curve: the epsilons of the pure parts, the squared signal-to-noise ratio of the Gaussian parts (which add up exactly),
the distance of the noise as drawn from the ideal noise, and a probability of failure. `privacy.accounting` prices it.

Events are what happens to a data set's budget; what they cost together is `privacy.accounting`'s question.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from sfumato.errors import InputError
from sfumato.privacy.guarantee import (
    LONGEST_TEXT,
    NEIGHBOURS,
    UNITS,
    added,
    check_choice,
    checked_delta,
    checked_text,
    promised_epsilon,
)
from sfumato.public.codec import Documented, Many, Nested, Optional, Ratio, Real, Schema, Text, brief, refuse
from sfumato.public.shown import INVISIBLE

LARGEST_MU_SQUARED = 10**6
SMALLEST_MU_SQUARED = Fraction(1, 10**60)  # but for 0: less is 0 in floating point, sooner or later
MOST_PARTS = 2**20
_LARGEST_EXPONENT = 700.0  # exp of more overflows; nothing that large fits any budget


@dataclass(frozen=True, kw_only=True)
class Loss(Documented):
    """What one release, or several together, reveal about one unit.

    Parameters
    ----------
    pure : tuple of Fraction
        Epsilons of the parts that are pure.
    mu_squared : Fraction
        Sum of (l2 sensitivity / sigma)^2 over the parts with Gaussian noise; exact.
    distance : float
        Upper bound of the total variation distance between what is drawn and the pure and Gaussian parts above. It
        costs (1 + exp(epsilon)) times itself in delta; the distances of several releases add up, and are therefore
        stored rather than that product.
    failure : float
        Probability with which the limit may fail altogether; a mechanism known only by (epsilon, delta) is
        ``Loss(pure=(epsilon,), failure=delta)``.

    Examples
    --------
    >>> count = Loss(pure=(Fraction(1, 20),))
    >>> features = Loss(mu_squared=Fraction(1, 16), distance=1e-13)
    >>> (count + features + features).mu_squared
    Fraction(1, 8)
    """

    schema = Schema(
        pure=Many(Ratio(positive=True), MOST_PARTS),
        mu_squared=Ratio(),
        distance=Real(0.0, 1.0),
        failure=Real(0.0, 1.0),
    )

    pure: tuple[Fraction, ...] = ()
    mu_squared: Fraction = Fraction(0)
    distance: float = 0.0
    failure: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "pure", tuple(promised_epsilon(epsilon) for epsilon in self.pure))
        squared = self.mu_squared
        if not isinstance(squared, int | Fraction) or not (
            squared == 0 or SMALLEST_MU_SQUARED <= squared <= LARGEST_MU_SQUARED
        ):
            raise InputError(
                f"mu_squared must be 0, or a fraction from 1e-60 to {LARGEST_MU_SQUARED}, got {str(squared)[:40]!r}"
            )
        object.__setattr__(self, "mu_squared", Fraction(self.mu_squared))
        for name in ("distance", "failure"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise InputError(f"{name} must be a probability from 0 to 1, got {brief(value)}")
            object.__setattr__(self, name, float(value))

    def __add__(self, other: Loss) -> Loss:
        """Loss of both on the same data."""
        return Loss(
            pure=self.pure + other.pure,
            mu_squared=added((self.mu_squared, other.mu_squared)),
            distance=min(1.0, float(decimal_fraction(self.distance) + decimal_fraction(other.distance))),
            failure=min(1.0, float(decimal_fraction(self.failure) + decimal_fraction(other.failure))),
        )

    def slack_at(self, epsilon: float) -> float:
        """Delta at `epsilon` that is owed to distance and failure, whatever the pure and Gaussian parts cost."""
        return self.failure + (1 + math.exp(min(epsilon, _LARGEST_EXPONENT))) * self.distance

    def delta_at(self, epsilon: Fraction) -> float:
        """Delta at `epsilon` if the pure epsilons are simply subtracted first: an upper bound.

        Examples
        --------
        >>> loss = Loss(pure=(Fraction(1, 20),), mu_squared=Fraction(1, 16))
        >>> loss.delta_at(Fraction(1, 20)) == gaussian_delta(4.0, 0.0)
        True
        >>> loss.delta_at(Fraction(1, 30))
        1.0
        """
        rest = epsilon - added(self.pure)
        if rest < 0:
            return 1.0
        if not self.mu_squared:
            return self.slack_at(float(rest))
        # Never 0, not even where floats cannot tell: no Gaussian noise is pure.
        gaussian = max(gaussian_delta(1 / math.sqrt(self.mu_squared), float(rest)), math.ulp(0.0))
        return gaussian + self.slack_at(float(rest))


def gaussian_delta(multiplier: float, epsilon: float) -> float:
    """Return the smallest delta of Gaussian noise of `multiplier` standard deviations per unit of sensitivity.

    It is a difference of nearly equal numbers where epsilon is small, so what rounding can take from it is added: the
    arguments are off by one part in 2^53, and so is the logarithm, which all count for more in the tails; this measured
    at most 2.1 parts in 2^53 of the terms below.

    Examples
    --------
    >>> round(gaussian_delta(4.22, 1.0) * 1e6, 2)
    1.02
    """
    from scipy.special import log_ndtr, ndtr  # a ledger of pure charges does without it

    half, level = 0.5 / multiplier, epsilon * multiplier
    first, second = float(ndtr(half - level)), math.exp(epsilon + float(log_ndtr(-half - level)))
    reach = min(half + level, 1e6)  # farther out both terms are 0
    rounding = first * (1 + min(max(level - half, 0.0), reach) * reach) + second * (1 + reach**2)
    return min(first - second + rounding * 2.0**-50, 1.0)


def decimal_fraction(value: float) -> Fraction:
    """Return a float as the decimal that it is written as, so that three times 1e-5 is 3e-5."""
    return Fraction(repr(value))


RULES = ("basic", "gdp", "zcdp", "pld")
_ROUNDING = 1e-9  # relative; a loss and the delta that was calibrated from it agree no better than floats do
_LINE = Text(longest=LONGEST_TEXT)
_SPENT = Schema(dataset=_LINE, epsilon=Ratio(positive=True), delta=Real(0.0, 1.0))
NOTHING_VISIBLE = "(nothing visible)"


def account_name(dataset: object) -> str:
    r"""Return the one form of a data set's name: texts that look alike but for spaces and codes are one account.

    An absolute path stays as it is: files whose names look alike are different files, and their links are looked for
    on the disk. All names of which nothing shows are one. What is not one line of printable text is refused.

    Examples
    --------
    >>> account_name(" survey  2024 "), account_name("cafe\u0301") == account_name("caf\u00e9")
    ('survey 2024', True)
    >>> account_name("/data/my  trips.csv")
    '/data/my  trips.csv'
    """
    text = checked_text("dataset", dataset)
    return text if os.path.isabs(text) else checked_text("dataset", visible_form(text) or NOTHING_VISIBLE)


def visible_form(text: str) -> str:
    """Return what shows of a text.

    Unicode's compatible composition (NFKC) without characters that show nothing, single spaces between words and none
    around them. Letters stay as they are: another case, or another alphabet's letter of the same shape, is another.
    """
    shown = INVISIBLE.sub("", unicodedata.normalize("NFKC", INVISIBLE.sub("", text)))
    return " ".join(shown.split())


@dataclass(frozen=True, kw_only=True)
class Budget(Documented):
    """The event that a data set's budget was set; the last one counts.

    Epsilon and delta are what may be spent in all; `rule` says how charges add up, see `privacy.accounting`.

    Examples
    --------
    >>> Budget(dataset="survey", epsilon=1, delta=1e-6, rule="gdp").rule
    'gdp'
    """

    schema = _SPENT.extended({"event": "budget"}, rule=Text(*RULES))

    dataset: str
    epsilon: Fraction
    delta: float = 0.0
    rule: str = "basic"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dataset", account_name(self.dataset))
        object.__setattr__(self, "epsilon", promised_epsilon(self.epsilon))
        object.__setattr__(self, "delta", checked_delta(self.delta))
        check_choice("rule", self.rule, RULES)
        if self.rule != "basic" and not self.delta:
            raise InputError(f"rule={self.rule!r} needs delta > 0; without a delta, amounts add up by rule='basic'")


@dataclass(frozen=True, kw_only=True)
class Charge(Documented):
    """The event that a data set's budget was spent.

    The fields are the arguments of `Account.charge`, the account's name (`account_name`), and an `id` of 32 random
    hexadecimal digits, which says nothing about the data. A `loss` must not exceed epsilon and delta.

    Examples
    --------
    >>> charge = Charge(dataset="survey", mechanism="lsq-rff", epsilon=0.5, neighbours="replace", unit="record")
    >>> charge.epsilon, len(charge.id)
    (Fraction(1, 2), 32)
    """

    schema = _SPENT.extended(
        {"event": "charge"},
        mechanism=_LINE,
        neighbours=Text(*NEIGHBOURS),
        unit=Text(*UNITS),
        note=_LINE,
        loss=Optional(Nested(Loss.from_document)),
        id=_LINE,
    )

    dataset: str
    mechanism: str
    epsilon: Fraction
    delta: float = 0.0
    neighbours: str
    unit: str
    note: str = ""
    loss: Loss | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(16))

    def __post_init__(self) -> None:
        object.__setattr__(self, "dataset", account_name(self.dataset))
        checked_text("mechanism", self.mechanism)
        object.__setattr__(self, "epsilon", promised_epsilon(self.epsilon))
        object.__setattr__(self, "delta", checked_delta(self.delta))
        check_choice("neighbours", self.neighbours, NEIGHBOURS)
        check_choice("unit", self.unit, UNITS)
        checked_text("note", self.note, empty=True)
        if not isinstance(self.id, str) or not re.fullmatch("[0-9a-f]{32}", self.id):
            raise InputError(f"id must be 32 hexadecimal digits, got {brief(self.id)}")
        self._check_loss()

    def _check_loss(self) -> None:
        if self.loss is None:
            return
        if not isinstance(self.loss, Loss) or self.loss == Loss():
            raise InputError(f"loss must be None or a Loss that says what was revealed, got {brief(self.loss)}")
        if self.loss.delta_at(self.epsilon) > self.delta * (1 + _ROUNDING):
            raise InputError(
                f"the loss exceeds epsilon = {float(self.epsilon):g}, delta = {self.delta!r}; charge what it costs"
            )

    @property
    def known_loss(self) -> Loss:
        """What was revealed as far as is known: the loss, else no more than epsilon and delta say."""
        return Loss(pure=(self.epsilon,), failure=self.delta) if self.loss is None else self.loss


Event = Budget | Charge


def event_from_record(record: Any) -> Event:
    """Read back an event's document, and those of version 1, which have neither rule nor loss."""
    if not isinstance(record, Mapping):
        raise refuse("", "an object", record)
    if Text("budget", "charge").read(record.get("event"), "event") == "budget":
        return Budget.from_document({"rule": "basic", **record})
    return Charge.from_document({"loss": None, **record})
