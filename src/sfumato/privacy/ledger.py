"""The ledger: what each data set has spent, kept apart from what it costs, and never above the budget that was set.

Every spending is a frozen event, written to disk and locked against other processes before any noise is drawn. A
charge that returned is on disk; a process that dies in between may leave a charge without a release, never a release
without a charge. A composition rule turns the events of one data set into what they cost together. Nothing about the
data is in a ledger: no counts, no hashes, no times. docs/ledger.md explains it to curators.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from pathlib import Path

from sfumato.errors import BudgetError, InputError, LedgerError
from sfumato.privacy.events import Budget, Charge, Event, event_from_record, event_record
from sfumato.privacy.guarantee import amount_text, checked_text, promised_epsilon
from sfumato.privacy.journal import Journal, Record

Epsilon = int | float | str | Decimal | Fraction


def basic_composition(charges: Iterable[Charge]) -> tuple[Fraction, float]:
    """Return what charges on the same data cost together: the sums of epsilon and of delta.

    Examples
    --------
    >>> one = Charge(dataset="d", mechanism="m", epsilon=0.1, delta=1e-5, neighbours="add-remove", unit="record")
    >>> basic_composition([one, one, one])
    (Fraction(3, 10), 3e-05)
    """
    charges = list(charges)
    epsilon = sum((charge.epsilon for charge in charges), Fraction(0))
    # Summed as the decimals that they are written as, so that three times 1e-5 is 3e-5 and fits a budget of 3e-5.
    delta = sum((_decimal(charge.delta) for charge in charges), Fraction(0))
    return epsilon, float(delta)


def default_ledger_path() -> Path:
    """Return where the command line keeps its ledger.

    Returns
    -------
    Path
        ``SFUMATO_LEDGER`` from the environment, else ``sfumato/ledger.jsonl`` in the user's folder for state
        (``XDG_STATE_HOME``, by default ``~/.local/state``).

    Examples
    --------
    >>> default_ledger_path().suffix == ".jsonl" or "SFUMATO_LEDGER" in os.environ
    True
    """
    if chosen := os.environ.get("SFUMATO_LEDGER"):
        return Path(chosen)
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():  # the standard says to ignore relative ones
        state = Path.home() / ".local" / "state"
    return state / "sfumato" / "ledger.jsonl"


class Ledger:
    """All accounts in one file, or in memory.

    Copies of a ledger are the same ledger, so that cloning an estimator never copies its budget. A ledger in a file
    may be used by many threads and processes at once, and is pickled as its path; one in memory cannot be pickled.

    Parameters
    ----------
    path : str, Path or None
        A file of JSON lines, made at the first event, and its folder too. None keeps the ledger in memory.

    Examples
    --------
    >>> account = Ledger().account("survey 2024")
    >>> account.set_budget(1)
    >>> spent = account.charge("lsq-rff", 0.8)
    >>> account.remaining
    (Fraction(1, 5), 0.0)
    >>> account.charge("lsq-rff", 0.5)
    Traceback (most recent call last):
    sfumato.errors.BudgetError: data set 'survey 2024': epsilon = 0.5, delta = 0.0 is requested, and epsilon = 0.2, ...
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._journal = Journal(path)

    @property
    def path(self) -> Path | None:
        """The file, as an absolute path without links; None in memory."""
        return None if self._journal.path is None else Path(self._journal.path)

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the accounts that have a budget or a charge."""
        return tuple(sorted({event.dataset for event in self._events(self._journal.records())}))

    def account(self, dataset: str) -> Account:
        """Return the account of a data set; it need not exist yet.

        Parameters
        ----------
        dataset : str
            The curator's name for the data. The same data under two names would be spent twice.
        """
        return Account(self, dataset)

    def _events(self, records: list[Record]) -> list[Event]:
        events = []
        for number, record in enumerate(records, 2):  # line 1 is the version
            try:
                events.append(event_from_record(record))
            except InputError as error:
                raise self._journal.damaged(number, str(error)) from error
        return events

    def _standing(self, dataset: str, records: list[Record] | None = None) -> _Standing:
        events = self._events(self._journal.records() if records is None else records)
        own = [event for event in events if event.dataset == dataset]
        budgets = [event for event in own if isinstance(event, Budget)]
        charges = tuple(event for event in own if isinstance(event, Charge))
        return _Standing(dataset, budgets[-1] if budgets else None, charges)

    def _append(self, event: Event) -> None:
        """Add an event unless the standing of its data set, read under the lock, refuses it."""

        def decide(records: list[Record]) -> Record:
            self._standing(event.dataset, records).refuse(event)
            return event_record(event)

        self._journal.append(decide)

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: object) -> Ledger:
        return self

    def __reduce__(self) -> tuple[type[Ledger], tuple[str]]:
        if self._journal.path is None:
            raise TypeError("a ledger in memory cannot be pickled: the copy would be a second budget; use Ledger(path)")
        return Ledger, (self._journal.path,)

    def __repr__(self) -> str:
        return f"Ledger({self._journal.path!r})"


class Account:
    """What one data set may spend and has spent; get it from `Ledger.account`.

    One account keeps one neighbouring relation and one unit, those of its first charge: epsilons of different ones do
    not add up. Without a budget, charges are recorded and never refused. Copies are the same account.

    Examples
    --------
    >>> account = Ledger().account("survey")
    >>> account.charge("lsq-rff", 0.5, note="first look").epsilon
    Fraction(1, 2)
    >>> account.spent, account.budget, account.remaining
    ((Fraction(1, 2), 0.0), None, None)
    """

    def __init__(self, ledger: Ledger, dataset: str) -> None:
        self.ledger = ledger
        self.dataset = checked_text("dataset", dataset)

    @property
    def budget(self) -> tuple[Fraction, float] | None:
        """Epsilon and delta that may be spent in all; None if no budget was set."""
        budget = self.ledger._standing(self.dataset).budget
        return None if budget is None else (budget.epsilon, budget.delta)

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Every spending, oldest first."""
        return self.ledger._standing(self.dataset).charges

    @property
    def spent(self) -> tuple[Fraction, float]:
        """Epsilon and delta that the charges cost together."""
        return basic_composition(self.charges)

    @property
    def remaining(self) -> tuple[Fraction, float] | None:
        """Epsilon and delta that are left; None if no budget was set."""
        return self.ledger._standing(self.dataset).remaining

    def set_budget(self, epsilon: Epsilon, delta: float = 0.0) -> None:
        """Set, raise or lower what may be spent in all.

        Parameters
        ----------
        epsilon, delta : number
            The new budget, what is spent already included.

        Raises
        ------
        InputError
            If more than that is spent already.
        """
        self.ledger._append(Budget(dataset=self.dataset, epsilon=promised_epsilon(epsilon), delta=delta))

    def check(
        self, epsilon: Epsilon, delta: float = 0.0, *, neighbours: str = "add-remove", unit: str = "record"
    ) -> None:
        """Raise what `charge` would raise now, and spend nothing.

        Parameters
        ----------
        epsilon, delta, neighbours, unit
            As in `charge`.
        """
        charge = self._charge("check", epsilon, delta, neighbours, unit, note="")
        self.ledger._standing(self.dataset).refuse(charge)

    def charge(
        self,
        mechanism: str,
        epsilon: Epsilon,
        delta: float = 0.0,
        *,
        neighbours: str = "add-remove",
        unit: str = "record",
        note: str = "",
    ) -> Charge:
        """Spend. When this returns, the charge is on disk; draw the noise only then.

        Parameters
        ----------
        mechanism : str
            What the budget is spent on.
        epsilon, delta : number
            How much is spent.
        neighbours : {"add-remove", "replace"}
            The neighbouring relation under which epsilon and delta hold.
        unit : {"record", "user"}
            What they protect.
        note : str
            A remark for the curator; it must not tell anything about the data.

        Returns
        -------
        Charge

        Raises
        ------
        BudgetError
            If it does not fit in what is left.
        LedgerError
            If the account is kept under another relation or unit, the file is damaged, or the lock is not free.
        """
        charge = self._charge(mechanism, epsilon, delta, neighbours, unit, note)
        self.ledger._append(charge)
        return charge

    def _charge(self, mechanism: str, epsilon: Epsilon, delta: float, neighbours: str, unit: str, note: str) -> Charge:
        return Charge(
            dataset=self.dataset,
            mechanism=mechanism,
            epsilon=promised_epsilon(epsilon),
            delta=delta,
            neighbours=neighbours,
            unit=unit,
            note=note,
        )

    def __copy__(self) -> Account:
        return self

    def __deepcopy__(self, memo: object) -> Account:
        return self

    def __reduce__(self) -> tuple[type[Account], tuple[Ledger, str]]:
        return Account, (self.ledger, self.dataset)

    def __repr__(self) -> str:
        return f"{self.ledger!r}.account({self.dataset!r})"


@dataclass(frozen=True)
class _Standing:
    """One data set's events at one moment."""

    dataset: str
    budget: Budget | None
    charges: tuple[Charge, ...]

    @property
    def remaining(self) -> tuple[Fraction, float] | None:
        if self.budget is None:
            return None
        epsilon, delta = basic_composition(self.charges)
        return self.budget.epsilon - epsilon, float(_decimal(self.budget.delta) - _decimal(delta))

    def refuse(self, event: Event) -> None:
        """Raise unless `event` may come next."""
        if isinstance(event, Budget):
            return self._refuse_budget(event)
        self._refuse_relation(event)
        if self.budget is None or self.remaining is None:
            return
        epsilon, delta = basic_composition([*self.charges, event])
        if epsilon > self.budget.epsilon or delta > self.budget.delta:
            raise BudgetError(
                f"data set {self.dataset!r}: {_pair(event.epsilon, event.delta)} is requested, and "
                f"{_pair(*self.remaining, ROUND_FLOOR)} remains of {_pair(self.budget.epsilon, self.budget.delta)}; "
                "ask for less, or raise the budget if the promise made to the people in the data allows it",
                requested=event.epsilon,
                remaining=self.remaining[0],
            )

    def _refuse_budget(self, budget: Budget) -> None:
        epsilon, delta = basic_composition(self.charges)
        if epsilon > budget.epsilon or delta > budget.delta:
            raise InputError(
                f"data set {self.dataset!r}: {_pair(epsilon, delta)} is spent already, which is more than "
                f"{_pair(budget.epsilon, budget.delta, ROUND_FLOOR)}; set a budget that covers it"
            )

    def _refuse_relation(self, charge: Charge) -> None:
        if not self.charges:
            return
        first = self.charges[0]
        if (first.neighbours, first.unit) != (charge.neighbours, charge.unit):
            raise LedgerError(
                f"data set {self.dataset!r} is charged under neighbours={first.neighbours!r}, unit={first.unit!r}, and "
                f"this charge holds under neighbours={charge.neighbours!r}, unit={charge.unit!r}; epsilons of "
                "different relations do not add up. Make the release under the relation and unit of the account"
            )


def _pair(epsilon: Fraction, delta: float, rounding: str = ROUND_CEILING) -> str:
    return f"epsilon = {amount_text(epsilon, rounding)}, delta = {delta!r}"


def _decimal(delta: float) -> Fraction:
    """Return a float as the decimal that it is written as."""
    return Fraction(repr(delta))
