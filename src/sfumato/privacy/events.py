"""What happens to a data set's budget, as frozen events; what they cost together is `privacy.accounting`'s question."""

from __future__ import annotations

import re
import secrets
import unicodedata
from dataclasses import dataclass, field, fields
from fractions import Fraction

from sfumato.errors import InputError
from sfumato.privacy.guarantee import (
    NEIGHBOURS,
    UNITS,
    check_choice,
    checked_delta,
    checked_text,
    fraction_from_text,
    promised_epsilon,
)
from sfumato.privacy.journal import Record
from sfumato.privacy.loss import Loss

RULES = ("basic", "gdp", "zcdp", "pld")
# Characters that count as printable and show nothing.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_ROUNDING = 1e-9  # relative; a loss and the delta that was calibrated from it agree no better than floats do


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
    return " ".join(shown.split()) or NOTHING_VISIBLE


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The event that a data set's budget was set; the last one counts.

    Parameters
    ----------
    dataset : str
        The account; see `account_name`.
    epsilon, delta : number
        What may be spent in all.
    rule : {"basic", "gdp", "zcdp", "pld"}
        How charges add up, see `privacy.accounting`.

    Examples
    --------
    >>> Budget(dataset="survey", epsilon=1, delta=1e-6, rule="gdp").rule
    'gdp'
    """

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
class Charge:
    """The event that a data set's budget was spent.

    Parameters
    ----------
    dataset : str
        The account; see `account_name`.
    mechanism : str
        What the budget was spent on, such as a method's name.
    epsilon : Fraction
        What was spent.
    delta : float
        What was spent besides.
    neighbours : {"add-remove", "replace"}
        The neighbouring relation under which epsilon and delta hold.
    unit : {"record", "user"}
        What they protect.
    note : str
        The curator's remark.
    loss : Loss or None
        What was revealed, where more is known than epsilon and delta; it must not exceed them.
    id : str
        32 random hexadecimal digits; says nothing about the data.

    Examples
    --------
    >>> charge = Charge(dataset="survey", mechanism="lsq-rff", epsilon=0.5, neighbours="replace", unit="record")
    >>> charge.epsilon, len(charge.id)
    (Fraction(1, 2), 32)
    """

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
_KINDS: dict[str, type[Budget] | type[Charge]] = {"budget": Budget, "charge": Charge}


def event_record(event: Event) -> Record:
    """Return an event as plain JSON types.

    Examples
    --------
    >>> event_record(Budget(dataset="survey", epsilon=Fraction(1, 3)))
    {'dataset': 'survey', 'epsilon': '1/3', 'delta': 0.0, 'rule': 'basic', 'event': 'budget'}
    """
    record = {field.name: getattr(event, field.name) for field in fields(event)}
    record["epsilon"] = str(event.epsilon)
    record["event"] = next(name for name, kind in _KINDS.items() if isinstance(event, kind))
    if isinstance(event, Charge) and event.loss is not None:
        record["loss"] = event.loss.to_document()
    return record


def event_from_record(record: Record) -> Event:
    """Read back what `event_record` wrote, and records of version 1, which have neither rule nor loss.

    Raises
    ------
    InputError
        If it is not an event, or a field is missing, unknown or invalid.
    """
    values = dict(record)
    kind = values.pop("event", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InputError(f"its event must be one of {', '.join(_KINDS)}, got {kind!r}")
    epsilon = fraction_from_text("epsilon", values.pop("epsilon", None))
    if values.get("loss") is not None:
        values["loss"] = Loss.from_document(values["loss"])
    try:
        return _KINDS[kind](epsilon=epsilon, **values)
    except TypeError:
        raise InputError(f"its fields are not those of a {kind}") from None
