"""Options that belong together: a group is a data class, its fields are the options, and a command takes it whole.

`release`, `sum`, `distance` and `classify fit` read points, are paid for and run in the same way: each of these three
is a group, stated once. `grouped` shows typer the fields in place of the group.
"""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from sfumato.cli import engines, flags
from sfumato.cli.flags import POINTS, PRIVACY, Neighbours, Outside, flag
from sfumato.cli.ledger import account_to_charge
from sfumato.cli.paid import wanted_look
from sfumato.cli.typed import category_files, parse_bounds, parse_categories, parse_columns, parse_kinds
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.engines import Engine
    from sfumato.privacy.ledger import Account
    from sfumato.sources import Source

KernelOption = Annotated[str, flag("gaussian, laplacian, cauchy, ...", "NAME", panel=POINTS)]
LandmarksOption = Annotated[
    str | None,
    flag(
        "A file of public points like the records, with the same columns; it becomes part of the release.",
        "PUBLIC",
        panel=POINTS,
    ),
]
OutsideOption = Annotated[Outside, flag("What happens to finite values beyond the bounds.", panel=POINTS)]
WeightOption = Annotated[str | None, flag("A column of weights from 0 to 1.", "NAME", panel=POINTS)]
OptionOption = Annotated[
    list[str] | None,
    flag("What only this method knows, such as n_features=500. Repeatable.", "NAME=VALUE", panel=PRIVACY),
]
NeighboursOption = Annotated[
    Neighbours, flag("add-remove keeps n private; replace treats it as public.", panel=PRIVACY)
]
UserOption = Annotated[
    str | None, flag("The column that says whose record a row is: protect people, not rows.", "NAME", panel=PRIVACY)
]
LimitOption = Annotated[
    int | None,
    flag(
        "With --user-column: at most K records of each person count, chosen at random. 1 has the least noise.",
        "K",
        panel=PRIVACY,
        min=1,
    ),
]


@dataclass(frozen=True)
class Reading:
    """How rows become points."""

    columns: flags.Columns = None
    separator: flags.Separator = None
    decimal: flags.Decimal = None
    bounds: flags.Bounds = None

    def source(self, data: str | list[str], **more: Any) -> Source:
        """Open the points of one file, or of several with the same columns."""
        from sfumato.sources import open_source

        first = data if isinstance(data, str) else data[0]
        columns = parse_columns(self.columns, first)
        return open_source(data, columns, separator=self.separator, decimal=self.decimal, **more)

    def bounds_of(self, source: Source) -> Any:
        """Public bounds of the points' columns."""
        return parse_bounds(self.bounds, source)

    def public(self, data: str | None) -> Source | None:
        """Open a file of public points with the same columns; text is read as the records' is, or else as usual."""
        if data is None:
            return None
        try:
            return self.source(data)
        except InputError:
            return Reading(self.columns).source(data)


@dataclass(frozen=True)
class Kinds:
    """Columns that are no plain numbers."""

    category: flags.Categories = None
    circle: flags.Circles = None
    sphere: flags.Spheres = None
    mismatch: flags.Mismatch = None
    unseen: flags.UnseenOption = flags.Unseen.DROP

    def categories(self, data: str) -> dict[Any, Any]:
        """Columns of categories."""
        return parse_categories(self.category, self.mismatch, self.unseen, data)

    @property
    def files(self) -> list[str]:
        """Files of the categories' values."""
        return category_files(self.category)

    def curved(self, data: str) -> dict[Any, Any]:
        """Columns on circles and spheres."""
        return parse_kinds(self.circle, self.sphere, data)


@dataclass(frozen=True)
class Choices:
    """What is released of the records, and how."""

    outside: OutsideOption = Outside.CLIP
    landmarks: LandmarksOption = None
    kernel: KernelOption = "gaussian"
    method: flags.Method = "auto"
    option: OptionOption = None
    delta: flags.Delta = 0.0
    neighbours: NeighboursOption = Neighbours.ADD_REMOVE
    user_column: UserOption = None
    max_records_per_user: LimitOption = None
    weight_column: WeightOption = None


@dataclass(frozen=True)
class Payment:
    """Whose account pays, and what is drawn."""

    dataset: flags.Dataset = None
    ledger: flags.CuratorsLedger = None
    no_ledger: flags.NoLedger = False
    feature_seed: flags.FeatureSeed = None
    seed_noise_not_private: flags.Seed = None

    def account(self, data: str) -> Account | None:
        """Account that is charged."""
        return account_to_charge(data, self.dataset, self.ledger, self.no_ledger, self.seed_noise_not_private)

    @property
    def features(self) -> int:
        """The public seed, drawn where none was passed."""
        return secrets.randbits(63) if self.feature_seed is None else self.feature_seed


@dataclass(frozen=True)
class Run:
    """Where the sum runs, and how the run is told."""

    threads: flags.Threads = None
    engine: engines.EngineOption = engines.EngineName.THREADS
    master: engines.MasterOption = None
    force: flags.ForceRun = False
    as_json: flags.JsonRun = False
    quiet: flags.Quiet = False

    @property
    def where(self) -> Engine | str | None:
        """The engine; Spark starts here."""
        return engines.chosen_engine(self.engine, self.master)

    @property
    def show(self) -> bool:
        """Whether there is a progress bar."""
        return not (self.quiet or self.as_json)

    @property
    def told(self) -> dict[str, bool]:
        """How results are told."""
        return {"as_json": self.as_json, "quiet": self.quiet}


@dataclass(frozen=True)
class PaidRun(Run):
    """A run that is paid for, with a look before the charge."""

    look: flags.Look = None

    @property
    def looks(self) -> bool:
        """Whether to look."""
        return wanted_look(self.look)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups as keyword-only parameters, while typer sees their options.

    Examples
    --------
    >>> @grouped
    ... def spend(data: str, *, payment: Payment) -> None:
    ...     print(data, payment.dataset)
    >>> list(inspect.signature(spend).parameters)[:3]
    ['data', 'dataset', 'ledger']
    >>> spend(data="trips.csv", dataset="trips")
    trips.csv trips
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
    shown = [
        given.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, given in inspect.signature(command).parameters.items()
        if name not in groups
    ]
    for group in groups.values():
        types = get_type_hints(group, include_extras=True)
        for each in fields(group):
            assert each.default is not MISSING
            parameter = inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default)
            shown.append(parameter.replace(annotation=types[each.name]))

    @wraps(command)
    def run(**options: Any) -> None:
        made = {
            name: group(**{each.name: options.pop(each.name) for each in fields(group) if each.name in options})
            for name, group in groups.items()
        }
        command(**options, **made)

    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in shown}
    return run


def check_users(user_column: str | None, max_records_per_user: int | None) -> None:
    """Protecting people takes both a column that tells them apart and a limit for each."""
    if user_column is not None and max_records_per_user is None:
        raise InputError(
            "--max-records-per-user is missing: pass --max-records-per-user K, how many records of one person may "
            "count. More keep more of the data and need more noise; 1 has the least noise"
        )
    if user_column is None and max_records_per_user is not None:
        raise InputError("--max-records-per-user needs --user-column, the column that says whose record a row is")
