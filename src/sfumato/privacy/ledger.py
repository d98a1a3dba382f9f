"""The ledger: what each data set has spent, kept apart from what it costs, and never above the budget that was set.

Every spending is a frozen event, written to disk and locked against other processes before any noise is drawn. A
charge that returned is on disk; a process that dies in between may leave a charge without a release, never a release
without a charge. The budget's rule (`privacy.accounting`) turns the charges into what they cost together. Nothing about
the data is in a ledger: no counts, no hashes, no times. docs/ledger.md explains it to curators.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TypedDict, Unpack

from sfumato.errors import BudgetError, InputError, LedgerError
from sfumato.owner import user_folder
from sfumato.privacy.accounting import Standing, basic_composition
from sfumato.privacy.datasets import account_among, refuse_overlap
from sfumato.privacy.guarantee import promised_epsilon
from sfumato.privacy.journal import Journal, Record
from sfumato.privacy.loss import Budget, Charge, Event, Loss, account_name, event_from_record, visible_form

__all__ = ["Account", "Ledger", "basic_composition", "default_ledger_path"]

Epsilon = int | float | str | Decimal | Fraction


class Terms(TypedDict, total=False):
    """What a charge may state besides its amounts; see `Account.charge`."""

    neighbours: str
    unit: str
    note: str
    loss: Loss | None


def default_ledger_path() -> Path:
    """Return where the command line keeps its ledger.

    ``SFUMATO_LEDGER`` from the environment, else ``sfumato/ledger.jsonl`` in the user's folder for state
    (``XDG_STATE_HOME``, by default ``~/.local/state``).

    Examples
    --------
    >>> default_ledger_path().suffix == ".jsonl" or "SFUMATO_LEDGER" in os.environ
    True
    """
    if chosen := os.environ.get("SFUMATO_LEDGER"):
        if not os.path.isabs(chosen):
            raise LedgerError(
                f"SFUMATO_LEDGER is {chosen!r}, which would be another ledger, with budgets of its own, in every "
                "folder; set it to an absolute path, or pass --ledger"
            )
        return Path(chosen)
    state = user_folder("XDG_STATE_HOME", ".local/state")
    if state is None:
        raise LedgerError(
            "the ledger's default place is ~/.local/state/sfumato/ledger.jsonl, and no home folder is known here; set "
            "SFUMATO_LEDGER to the path of a file that will be kept, or pass --ledger"
        )
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
        self._read: tuple[list[Record], list[Event]] = [], []

    @property
    def path(self) -> Path | None:
        """The file, as an absolute path without links; None in memory."""
        return None if self._journal.path is None else Path(self._journal.path)

    @property
    def names(self) -> tuple[Path, ...]:
        """The file by `path`, and by the path that it was opened by where links make that another one."""
        return tuple(map(Path, self._journal.names))

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the accounts that have a budget or a charge."""
        return tuple(sorted({event.dataset for event in self._events(self._journal.records())}))

    def account(self, dataset: str) -> Account:
        """Return the account of a data set; it need not exist yet.

        Parameters
        ----------
        dataset : str
            The curator's name for the data, of which spaces around it and codes that look alike are no part. The same
            data under two names would be spent twice. An absolute path is taken letter by letter where there is such a
            file, and for a known one that looks alike where there is none.
        """
        name = account_name(dataset)
        if os.path.isabs(name) and not os.path.lexists(name) and name not in (known := self.datasets):
            alike = (each for each in known if visible_form(each) == visible_form(name))
            name = next(alike, name)
        return Account(self, name)

    def account_of(self, data: str | os.PathLike[str]) -> Account:
        """Return the account of a file or folder that was given no name (`datasets.account_among`).

        It charges nothing if another account came to hold the same records meanwhile.

        Examples
        --------
        >>> Ledger().account_of("/data/../data/trips.csv").dataset
        '/data/trips.csv'
        """
        return Account(self, account_among(self.datasets, data), unnamed=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other thread and process from adding an event; the block itself must add none, nor fork.

        Examples
        --------
        >>> ledger = Ledger()
        >>> with ledger.locked():
        ...     ledger.datasets
        ()
        """
        with self._journal.locked():
            yield

    def _events(self, records: list[Record]) -> list[Event]:
        known, events = self._read
        if records is known:  # the journal gives the same list as long as the file is the same
            return events
        events = []
        for number, record in enumerate(records, 2):  # line 1 is the version
            try:
                events.append(event_from_record(record))
            except InputError as error:
                raise self._journal.damaged(number, str(error)) from error
        self._read = records, events
        return events

    def _standing(self, dataset: str, records: list[Record] | None = None) -> Standing:
        events = self._events(self._journal.records() if records is None else records)
        own = [event for event in events if event.dataset == dataset]
        budgets = [event for event in own if isinstance(event, Budget)]
        charges = tuple(event for event in own if isinstance(event, Charge))
        return Standing(dataset, budgets[-1] if budgets else None, charges)

    def _append(self, event: Event, unnamed: bool) -> None:
        """Add an event unless the standing of its data set, read under the lock, refuses it."""

        def decide(records: list[Record]) -> Record:
            if unnamed:
                refuse_overlap(tuple({each.dataset for each in self._events(records)}), event.dataset)
            self._standing(event.dataset, records).refuse(event)
            record = event.to_document()
            event_from_record(record)  # what could not be read back would close the whole ledger
            return record

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

    def __init__(self, ledger: Ledger, dataset: str, unnamed: bool = False) -> None:
        self.ledger = ledger
        self.dataset = account_name(dataset)
        self._unnamed = unnamed
        self._tried: set[str] = set()

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
    def own_charges(self) -> tuple[Charge, ...]:
        """Those of the charges that were made by this object, and not by another process or another run."""
        return tuple(charge for charge in self.charges if charge.id in self._tried)

    @property
    def rule(self) -> str:
        """Rule by which charges add up: the budget's, and "basic" if no budget was set."""
        return self.ledger._standing(self.dataset).rule

    @property
    def spent(self) -> tuple[Fraction, float]:
        """Epsilon and delta that the charges cost together.

        Under another rule than "basic", delta is the budget's, and epsilon is what the charges cost at that delta.
        """
        return self.ledger._standing(self.dataset).spent

    @property
    def remaining(self) -> tuple[Fraction, float] | None:
        """Budget less what is spent; None if no budget was set.

        Under another rule than "basic" this shows how full the account is. What a further release may cost depends on
        its noise: ask `affords`.
        """
        return self.ledger._standing(self.dataset).remaining

    def set_budget(self, epsilon: Epsilon, delta: float = 0.0, rule: str = "basic") -> None:
        """Set, raise or lower what may be spent in all.

        Parameters
        ----------
        epsilon, delta : number
            The new budget, what is spent already included.
        rule : {"basic", "gdp", "zcdp", "pld"}
            How charges add up, see docs/accounting.md. Choose it before the first release. With "pld" you state that
            ``accounting.CONDITIONS["pld"]`` holds.

        Raises
        ------
        InputError
            If more than that is spent already.

        Examples
        --------
        >>> account = Ledger().account("survey")
        >>> account.set_budget(1, 1e-6, rule="gdp")
        >>> account.rule
        'gdp'
        """
        epsilon = promised_epsilon(epsilon)
        self.ledger._append(Budget(dataset=self.dataset, epsilon=epsilon, delta=delta, rule=rule), self._unnamed)

    def check(self, epsilon: Epsilon, delta: float = 0.0, **terms: Unpack[Terms]) -> None:
        """Raise what `charge` would raise now, and spend nothing; the arguments are those of `charge`.

        The ledger's lock is taken and given back, so that one that cannot be locked or written is found here.
        """
        self._refuse(epsilon, delta, terms)
        self.ledger._journal.check_ready()

    def affords(self, epsilon: Epsilon, delta: float = 0.0, **terms: Unpack[Terms]) -> bool:
        """Whether a charge would fit in the budget now; spends nothing. The arguments are those of `charge`."""
        try:
            self._refuse(epsilon, delta, terms)
        except BudgetError:
            return False
        return True

    def charge(self, mechanism: str, epsilon: Epsilon, delta: float = 0.0, **terms: Unpack[Terms]) -> Charge:
        """Spend. When this returns, the charge is on disk; draw the noise only then.

        Parameters
        ----------
        mechanism : str
            What the budget is spent on.
        epsilon, delta : number
            How much is spent.
        neighbours : {"add-remove", "replace"}, default="add-remove"
            The neighbouring relation under which epsilon and delta hold.
        unit : {"record", "user"}, default="record"
            What they protect.
        note : str
            A remark for the curator; it must not tell anything about the data.
        loss : Loss, optional
            What the mechanism reveals, where more is known than epsilon and delta; rules other than "basic" use it.

        Raises
        ------
        BudgetError
            If it does not fit in what is left.
        LedgerError
            If the account is kept under another relation or unit, the file is damaged, or the lock is not free.
        """
        charge = self._charge(mechanism, epsilon, delta, terms)
        self._tried.add(charge.id)  # first: what fails afterwards may be on disk
        self.ledger._append(charge, self._unnamed)
        return charge

    def _refuse(self, epsilon: Epsilon, delta: float, terms: Terms) -> None:
        self.ledger._standing(self.dataset).refuse(self._charge("check", epsilon, delta, terms))

    def _charge(self, mechanism: str, epsilon: Epsilon, delta: float, terms: Terms) -> Charge:
        relation: Terms = {"neighbours": "add-remove", "unit": "record", **terms}
        spent = promised_epsilon(epsilon)
        return Charge(dataset=self.dataset, mechanism=mechanism, epsilon=spent, delta=delta, **relation)

    def __copy__(self) -> Account:
        return self

    def __deepcopy__(self, memo: object) -> Account:
        return self

    def __reduce__(self) -> tuple[type[Account], tuple[Ledger, str, bool]]:
        return Account, (self.ledger, self.dataset, self._unnamed)

    def __repr__(self) -> str:
        return f"{self.ledger!r}.account({self.dataset!r})"
