"""The one place that ranks: a row a method, predicted error and cost for a request, or why it does not apply.

Plans under every trust model are such rankings, and "auto" takes the first of one.

The error is the root mean square over queries that are distributed like the records. It depends on the data through P,
the mean kernel value between two records, which is the mean answer to such queries (the formulas stand beside the
methods); where an answer's own square enters, the typical spread below stands for it. Where P is not public, sizes are
chosen and the error is predicted for a typical P, and the interval is the formula from P = 0, which is noise alone, to
P = 1, which no data exceeds.

The constant answer, for comparison: everybody is told one number, the mean density P. Its error is the spread of the
density over queries that are distributed like the records. For a positive definite kernel with k(x, x) = 1 a density
is an inner product <phi(y), mu> with |phi(y)| = 1 and |mu|^2 = P, so it lies between 0 and sqrt(P); with mean P its
mean square is at most P^(3/2), and the error is at most sqrt(P^(3/2) - P^2), which a cluster beside scattered points
attains. On the papers' data sets it was 0.5 P to 0.7 P.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from sfumato.errors import InputError
from sfumato.methods import curving, projecting
from sfumato.methods.method import UNSPENT_DELTA, Method, Prediction
from sfumato.methods.request import GENERAL_OPTIONS, PROJECTION_OPTIONS, TYPICAL_SPREAD, Request
from sfumato.privacy.guarantee import amount_text
from sfumato.public.codec import brief

CONSTANT = "constant"
# P at which the largest spread, sqrt(P^1.5 - P^2), is largest.
WORST_DENSITY = 9 / 16
TEXT_WIDTH = 80


@dataclass(frozen=True)
class Row:
    """What a plan knows of one method.

    Attributes
    ----------
    method, summary : str
        The name, and one line about it.
    baseline : bool
        Whether "auto" never takes it.
    reason : str or None
        Why the method does not apply; there is then no prediction.
    prediction : Prediction or None
        Predicted error and cost.
    interval : (float, float) or None
        Where the error lies when P is not public; both ends are `error` when it is. For a curator's densities.
    at : callable or None
        The prediction for another P than the one that sizes are chosen for. For a curator's densities.
    work : float
        Multiplications for the curator in all.
    options : mapping
        All options, as the estimator takes them.
    unspent_delta : bool
        Whether the method would leave the delta that the request allows.
    """

    method: str
    summary: str
    baseline: bool = False
    reason: str | None = None
    prediction: Prediction | None = None
    interval: tuple[float, float] | None = None
    at: Callable[[float], Prediction] | None = field(default=None, compare=False, repr=False)
    work: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)
    unspent_delta: bool = False

    @property
    def applies(self) -> bool:
        """Whether the method can be used."""
        return self.prediction is not None

    @property
    def error(self) -> float | None:
        """Predicted root mean square error of one answer; None where the method does not apply."""
        return None if self.prediction is None else self.prediction.rmse

    @property
    def predicted(self) -> Prediction:
        """The prediction of a method that applies."""
        assert self.prediction is not None
        return self.prediction

    @property
    def sizes(self) -> Mapping[str, Any]:
        """The sizes chosen."""
        return {} if self.prediction is None else self.prediction.parameters

    def to_document(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        made = self.prediction
        return {
            "method": self.method,
            "summary": self.summary,
            "baseline": self.baseline,
            "reason": self.reason,
            "error": self.error,
            "interval": None if self.interval is None else list(self.interval),
            "integers": None if made is None else made.integers,
            "file_size": None if made is None else made.file_size,
            "work": None if made is None else self.work,
            "query_work": None if made is None else made.work_per_query,
            "worst": None if made is None else made.worst,
            "bias": None if made is None else made.bias,
            "report_bytes": None if made is None else made.report_bytes,
            "sizes": dict(self.sizes),
            "options": dict(self.options),
            "unspent_delta": self.unspent_delta,
        }


@dataclass(frozen=True)
class Ranking:
    """Methods compared from public facts: what the plans of all trust models are.

    Attributes
    ----------
    request : Request
        The public facts.
    rows : tuple of Row
        All methods: by error, then baselines by theirs, then those that do not apply.
    """

    request: Request
    rows: tuple[Row, ...]

    @property
    def chosen(self) -> Row:
        """The method with the least predicted error."""
        return self.rows[0]

    @property
    def method(self) -> str:
        """Name of the chosen method."""
        return self.chosen.method

    @property
    def error(self) -> float:
        """Predicted root mean square error of one answer of the chosen method."""
        return self.chosen.predicted.rmse

    @property
    def constant(self) -> Row:
        """The constant answer, which asks nobody; for kernels."""
        return constant_row(self.request)

    @property
    def useful(self) -> bool:
        """Whether the chosen method is predicted to beat a constant answer; for kernels."""
        return self.error < self.constant.predicted.rmse

    def row(self, method: str) -> Row:
        """Return the row of one method."""
        for row in self.rows:
            if row.method == method:
                return row
        raise InputError(f"unknown method {method!r}; known are {', '.join(row.method for row in self.rows)}")

    def title(self) -> str:
        """Say what was planned for, in one line."""
        request = self.request
        delta = f", delta = {request.delta:g}" if request.delta else ""
        budget = f"epsilon = {amount_text(request.epsilon)}{delta}, {request.neighbours} one {request.unit}"
        return f"n = {request.n}, {request.dimension} columns, {request.kernel!r}, {budget}{self._assumed()}"

    def _assumed(self) -> str:
        """Say which P the errors are for."""
        if self.request.of_distances:
            return ""
        return f", P = {self.request.density:g} ({'given' if 'density' in self.request.options else 'assumed'})"

    def columns(self) -> tuple[str, ...]:
        """Headings of the figures; for kernels those of a curator's release."""
        return (f"error at P = {self.request.density:.3g}", "between", "file", "work", "a query")

    def cells(self, row: Row) -> tuple[str, ...]:
        """Figures of a row that applies, one text a heading."""
        low, high = row.interval or (0.0, 0.0)
        between = "-" if low == high else f"{low:.2g} to {high:.2g}"
        made = row.predicted
        return f"{made.rmse:.3g}", between, f"{made.file_size:,}", f"{row.work:.2g}", f"{made.work_per_query:.2g}"

    def sizes(self, row: Row) -> str:
        """Name the sizes of a row's method."""
        return ", ".join(f"{name} {value}" for name, value in row.sizes.items())

    def shown(self) -> tuple[Row, ...]:
        """Rows of the table: the methods that apply, and the constant answer."""
        return (*(row for row in self.rows if row.applies), self.constant)

    def table(self) -> Table:
        """Return the methods that apply, for a terminal."""
        table = Table(box=None, pad_edge=False)
        table.add_column("method", no_wrap=True)
        for heading in self.columns():
            table.add_column(heading, justify="right", no_wrap=True)
        for row in self.shown():
            style = "bold" if row is self.chosen else ""
            table.add_row(row.method, *self.cells(row), style=style)
        return table

    def headline(self) -> str:
        """Say first what is chosen."""
        sizes = self.sizes(self.chosen)
        return f"chosen: {self.method}{f' ({sizes})' if sizes else ''}"

    def notes(self) -> list[str]:
        """Say in sentences which methods do not apply, and what is left of the budget."""
        others = [row.method for row in self.rows if not row.applies]
        lines = [f"does not apply: {', '.join(others)} (--reasons, or `reasons`, says why)."] if others else []
        return [*lines, f"{self.method}: {UNSPENT_DELTA}."] if self.chosen.unspent_delta else lines

    @property
    def reasons(self) -> dict[str, str]:
        """Why methods do not apply, by their names."""
        return {row.method: row.reason for row in self.rows if row.reason is not None}

    def to_document(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        request = self.request
        return {
            "n_hint": request.n,
            "dimension": request.dimension,
            "kernel": request.kernel.to_document(),
            "epsilon": str(request.epsilon),
            "delta": request.delta,
            "neighbours": request.neighbours,
            "unit": request.unit,
            "chosen": self.method,
            "assumed_density": None if request.of_distances else request.density,
            "methods": [row.to_document() for row in self.rows],
        }

    def __rich__(self) -> Group:
        return Group(Text(self.headline(), style="bold"), Text(self.title()), self.table(), *map(Text, self.notes()))

    def __str__(self) -> str:
        text = io.StringIO()
        Console(file=text, width=TEXT_WIDTH, highlight=False, color_system=None).print(self.__rich__())
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def compare(methods: Iterable[Method], request: Request) -> tuple[Row, ...]:
    """Predict every method for a request: the best first, then baselines, then those that do not apply.

    Parameters
    ----------
    methods : iterable of Method
        Those of a registry.
    request : Request
        Public facts; ``options["density"]`` holds P where it is public.

    Raises
    ------
    InputError
        If no method applies, or an option belongs to none.
    """
    if request.curved:
        request = curving.straighten(request).request
    known = list(methods)
    shared = {*GENERAL_OPTIONS[request.trust], *(PROJECTION_OPTIONS if request.trust == "central" else ())}
    names = shared.union(*(method.options for method in known))
    if unknown := sorted(set(request.options) - names):
        raise InputError(f"unknown option {brief(unknown[0])}; known are {', '.join(sorted(names))}")
    rows = [_better(method, request) for method in known]
    applicable = sorted((row for row in rows if row.applies), key=lambda row: (row.baseline, row.predicted.rmse))
    if not applicable:
        raise InputError(f"no method applies ({_reasons(known, rows, request)})")
    return (*applicable, *(row for row in rows if not row.applies))


def choose(methods: Iterable[Method], request: Request) -> Row:
    """Return the row of least predicted error among methods that apply (a data-free choice); no baselines."""
    return compare([method for method in methods if not method.baseline], request)[0]


def _reasons(methods: list[Method], rows: list[Row], request: Request) -> str:
    """Say why nothing applies: of the methods that know the request's options, or of all if there are none."""
    own = request.own_options - set(PROJECTION_OPTIONS)
    meant = [row for method, row in zip(methods, rows, strict=True) if own <= set(method.options)]
    return "; ".join(f"{row.method}: {row.reason}" for row in meant or rows)


def _better(method: Method, request: Request) -> Row:
    """Predict with the delta that the request allows and without: what buys nothing is not spent."""
    row = _row(method, request)
    if method.pure or not request.delta:
        return row
    pure = _row(method, request.pure())
    if pure.applies and (not row.applies or pure.predicted.rmse <= row.predicted.rmse):
        return replace(pure, unspent_delta=True)
    return row


# What arithmetic raises where public numbers are too large or too small for a formula.
BEYOND = (ArithmeticError, ValueError, MemoryError, RecursionError)


def _row(method: Method, request: Request) -> Row:
    unknown = sorted(request.own_options - {*method.options, *PROJECTION_OPTIONS})
    reason = f"it has no option {unknown[0]!r}" if unknown else None
    if reason is None:
        try:
            reason = method.reason(projecting.plain(request))
            if reason is None:
                return _sane(_predicted(method, request))
        except InputError as error:
            reason = str(error)
        except BEYOND:
            reason = "its formulas do not reach to these sizes, lengths or budgets"
    return Row(method.name, method.summary, method.baseline, reason)


def _sane(row: Row) -> Row:
    """Refuse a prediction that is no number."""
    if not math.isfinite(row.predicted.rmse):
        raise ArithmeticError
    return row


def _predicted(method: Method, request: Request) -> Row:
    reduced = projecting.reduce(method, request) if request.projected else None
    if reduced is not None and (reason := method.reason(reduced.request)) is not None:
        raise InputError(reason)

    @cache  # a table, its title and its verdict ask for the same few densities
    def predict(density: float) -> Prediction:
        if reduced is None:
            return method.prediction(request, density)
        return reduced.prediction(method.prediction(reduced.request, density), density)

    prediction, interval, shown = predict(request.density), None, None
    if request.trust == "central" and not request.of_distances:
        known = "density" in request.options
        interval = (prediction.rmse,) * 2 if known else (predict(0.0).rmse, predict(1.0).rmse)
        shown = predict
    # A promised error fixes the sizes by itself; for all else they are spelled out.
    spelled = {} if "alpha" in request.options else prediction.parameters
    return Row(
        method=method.name,
        summary=method.summary,
        baseline=method.baseline,
        prediction=prediction,
        interval=interval,
        at=shown,
        work=prediction.work_per_record * request.n,
        options={**request.options, **spelled},
        unspent_delta=method.pure and request.delta > 0,
    )


def constant_row(request: Request) -> Row:
    """Predict the error of always answering the mean density, see the module's text."""
    worst = request.density if "density" in request.options else WORST_DENSITY
    return Row(
        method=CONSTANT,
        summary="always the same answer, the mean density",
        prediction=Prediction(constant_error(request.density), 0),
        interval=(0.0, largest_spread(worst)),
    )


def constant_error(density: float) -> float:
    """Return the error of always answering the mean density, where that is `density`."""
    return min(TYPICAL_SPREAD * density, largest_spread(density))


def largest_spread(density: float) -> float:
    """Largest standard deviation of the density over queries like the records, given its mean.

    Examples
    --------
    >>> round(largest_spread(0.02), 3)
    0.049
    """
    return math.sqrt(max(0.0, density**1.5 - density**2))
