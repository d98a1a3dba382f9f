"""What happens to a data set's budget, as frozen events; what they cost together is `privacy.accounting`'s question."""

from __future__ import annotations

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
    check_choice,
    checked_delta,
    checked_text,
    promised_epsilon,
)
from sfumato.privacy.loss import Loss
from sfumato.public.codec import Documented, Nested, Optional, Ratio, Real, Schema, Text, refuse

RULES = ("basic", "gdp", "zcdp", "pld")
# Characters that count as printable and show nothing.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_ROUNDING = 1e-9  # relative; a loss and the delta that was calibrated from it agree no better than floats do
_LINE = Text(longest=LONGEST_TEXT)
_SPENT = Schema(dataset=_LINE, epsilon=Ratio(positive=True), delta=Real(0.0, 1.0))
NOTHING_VISIBLE = "(nothing visible)"


def account_name(dataset: object) -> str:
    r"""Return the one form of a data set's name: texts that look alike but for spaces and codes are one account.

    Unicode's compatible composition (NFKC) without characters that show nothing, single spaces between words and none
    around them. Letters stay as they are: another case, or another alphabet's letter of the same shape, is another
    name. All names of which nothing shows are one. What is not one line of printable text is refused.

    Examples
    --------
    >>> account_name(" survey  2024 "), account_name("cafe\u0301") == account_name("caf\u00e9")
    ('survey 2024', True)
    """
    text = checked_text("dataset", dataset)
    shown = _INVISIBLE.sub("", unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)))
    return checked_text("dataset", " ".join(shown.split()) or NOTHING_VISIBLE)


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
            raise InputError(f"id must be 32 hexadecimal digits, got {self.id!r}")
        self._check_loss()

    def _check_loss(self) -> None:
        if self.loss is None:
            return
        if not isinstance(self.loss, Loss) or self.loss == Loss():
            raise InputError(f"loss must be None or a Loss that says what was revealed, got {self.loss!r}")
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
