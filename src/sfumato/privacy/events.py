"""What happens to a data set's budget, as frozen events; what they cost together is another question."""

from __future__ import annotations

import re
import secrets
from dataclasses import asdict, dataclass, field
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


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The event that a data set's budget was set; the last one counts."""

    dataset: str
    epsilon: Fraction
    delta: float = 0.0

    def __post_init__(self) -> None:
        checked_text("dataset", self.dataset)
        object.__setattr__(self, "epsilon", promised_epsilon(self.epsilon))
        object.__setattr__(self, "delta", checked_delta(self.delta))


@dataclass(frozen=True, kw_only=True)
class Charge:
    """The event that a data set's budget was spent.

    Parameters
    ----------
    dataset : str
        The account.
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
    id: str = field(default_factory=lambda: secrets.token_hex(16))

    def __post_init__(self) -> None:
        checked_text("dataset", self.dataset)
        checked_text("mechanism", self.mechanism)
        object.__setattr__(self, "epsilon", promised_epsilon(self.epsilon))
        object.__setattr__(self, "delta", checked_delta(self.delta))
        check_choice("neighbours", self.neighbours, NEIGHBOURS)
        check_choice("unit", self.unit, UNITS)
        checked_text("note", self.note, empty=True)
        if not isinstance(self.id, str) or not re.fullmatch("[0-9a-f]{32}", self.id):
            raise InputError(f"id must be 32 hexadecimal digits, got {self.id!r}")


Event = Budget | Charge
_KINDS: dict[str, type[Budget] | type[Charge]] = {"budget": Budget, "charge": Charge}


def event_record(event: Event) -> Record:
    """Return an event as plain JSON types.

    Examples
    --------
    >>> event_record(Budget(dataset="survey", epsilon=Fraction(1, 3)))
    {'dataset': 'survey', 'epsilon': '1/3', 'delta': 0.0, 'event': 'budget'}
    """
    kind = next(name for name, kind in _KINDS.items() if isinstance(event, kind))
    return {**asdict(event), "epsilon": str(event.epsilon), "event": kind}


def event_from_record(record: Record) -> Event:
    """Read back what `event_record` wrote.

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
    try:
        return _KINDS[kind](epsilon=epsilon, **values)
    except TypeError:
        raise InputError(f"its fields are not those of a {kind}") from None
