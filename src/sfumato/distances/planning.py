"""`plan` for distances: all methods compared from public facts, with what the papers promise beside the predictions."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from sfumato.distances.estimator import PrivateDistance
from sfumato.distances.forecast import QUERIES, RECORDS, evenly
from sfumato.distances.request import DistanceRequest
from sfumato.distances.theory import PaperError, earlier_error, lower_bound, published_error
from sfumato.errors import InputError
from sfumato.kernels.distance import Distance
from sfumato.methods.method import Method, Prediction
from sfumato.methods.registry import DISTANCES
from sfumato.privacy.guarantee import amount_text, checked_delta
from sfumato.privacy.rational import exact_epsilon

TEXT_WIDTH = 110
USUAL_ALPHA = 0.1  # relative error for which the published bound is stated, where the caller names none


@dataclass(frozen=True)
class Row:
    """What a plan knows of one method: its forecast, or the reason why it does not apply."""

    method: str
    summary: str
    baseline: bool
    reason: str | None = None
    forecast: Prediction | None = None


@dataclass(frozen=True)
class DistancePlan:
    """A data-free comparison of methods for one distance; made by `plan`.

    Attributes
    ----------
    request : DistanceRequest
        The public facts.
    rows : tuple of Row
        The chosen method first, then the others by error, then those that do not apply.
    typical : float
        The sum of distances for records and queries spread evenly over the bounds.
    published, earlier : PaperError or None
        What Backurs et al. (2024) and Huang and Roth promise, without constants.
    lower : float or None
        What no pure structure can stay below.
    """

    request: DistanceRequest
    rows: tuple[Row, ...]
    typical: float
    published: PaperError
    earlier: PaperError | None
    lower: float | None

    @property
    def method(self) -> str:
        """Name of the chosen method."""
        return self.rows[0].method

    @property
    def error(self) -> float:
        """Predicted root mean square error of one sum of distances by the chosen method."""
        assert self.rows[0].forecast is not None
        return self.rows[0].forecast.rmse

    def estimator(self, **arguments: Any) -> PrivateDistance:
        """Return a `PrivateDistance` with the chosen method; `arguments` add a ledger or seeds."""
        request, metric = self.request, self.request.metric
        planned: dict[str, Any] = {
            "p": metric.p,
            "epsilon": request.epsilon,
            "delta": request.delta,
            "bounds": request.bounds,
            "method": self.method,
            "neighbours": request.neighbours,
            "n_hint": request.n,
            "options": dict(request.options),
        }
        return PrivateDistance(metric.metric, **planned | arguments)

    def to_document(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "metric": self.request.metric.to_document(),
            "n_hint": self.request.n,
            "dimension": self.request.dimension,
            "epsilon": str(self.request.epsilon),
            "delta": self.request.delta,
            "neighbours": self.request.neighbours,
            "chosen": self.method,
            "typical": self.typical,
            "methods": [asdict(row) for row in self.rows],
            "published": asdict(self.published),
            "earlier": None if self.earlier is None else asdict(self.earlier),
            "lower_bound": self.lower,
        }

    def table(self) -> Table:
        """Return the methods that apply, for a terminal."""
        table = Table(box=None, pad_edge=False)
        table.add_column("method", no_wrap=True)
        for heading in ("error", "relative", "worst query", "bias at most", "integers"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("sizes")
        for row in self.rows:
            if row.forecast is not None:
                table.add_row(row.method, *self._cells(row.forecast), style="bold" if row is self.rows[0] else "")
        return table

    def _cells(self, forecast: Prediction) -> list[str]:
        sizes = ", ".join(f"{name} {value:.4g}" for name, value in forecast.parameters.items() if name != "n_hint")
        errors = (forecast.rmse, forecast.rmse / self.typical, forecast.worst, forecast.bias)
        return [*(f"{error:.3g}" for error in errors), f"{forecast.integers:,}", sizes]

    def notes(self) -> list[str]:
        """Say what the figures mean, and what the papers promise, in sentences."""
        lines = [f"{row.method} does not apply: {row.reason}" for row in self.rows if row.reason is not None]
        lines.append(
            f"error: root mean square of one sum of distances, about {self.typical:.4g} for records and queries spread "
            "evenly; bias at most: for the worst records."
        )
        lines.append(
            f"Backurs et al. (2024), {self.published.source}: error (1 + {self.published.relative:g}, "
            f"{self.published.additive:.3g}), up to constants and logarithms."
        )
        if self.earlier is not None:
            lines.append(f"Huang and Roth, {self.earlier.source} there: (1, {self.earlier.additive:.3g}), likewise.")
        if self.lower is not None:
            lines.append(f"Lower bound (Theorems C.1 and C.2, pure): {self.lower:.3g} at some query.")
        return lines

    def title(self) -> str:
        """Say what was planned for, in one line."""
        request = self.request
        delta = f", delta = {request.delta:g}" if request.delta else ""
        budget = f"epsilon = {amount_text(request.epsilon)}{delta}, {request.neighbours} one {request.unit}"
        return f"n = {request.n}, {request.dimension} columns, {request.metric}, {budget}"

    def __rich__(self) -> Group:
        return Group(Text(self.title()), self.table(), *map(Text, self.notes()))

    def __str__(self) -> str:
        out = io.StringIO()
        Console(file=out, width=TEXT_WIDTH).print(self.__rich__())
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def plan(
    metric: str = "l1",
    *,
    n_hint: int,
    dimension: int,
    epsilon: Any,
    bounds: Any,
    p: float | None = None,
    delta: float = 0.0,
    neighbours: str = "add-remove",
    options: Mapping[str, Any] | None = None,
) -> DistancePlan:
    """Compare the methods for a distance; no data is read and nothing is spent.

    Parameters
    ----------
    metric, p, epsilon, delta, bounds, neighbours, options
        As for `PrivateDistance`.
    n_hint, dimension : int
        Records and columns.

    Returns
    -------
    DistancePlan

    Examples
    --------
    >>> made = plan("l1", n_hint=1000, dimension=1, epsilon=1, bounds=(0, 1))
    >>> made.method, round(made.error, 2), made.lower
    ('hat', 2.25, 0.02)
    """
    request = DistanceRequest(
        kernel=Distance(metric, p),
        dimension=dimension,
        epsilon=exact_epsilon(epsilon),
        n=n_hint,
        feature_seed=0,
        delta=checked_delta(delta),
        neighbours=neighbours,
        bounds=bounds,
        options=dict(options or {}),
    )
    rows = [_row(method, request) for method in DISTANCES.values() if request.metric.metric in method.metrics]
    known = sorted((row for row in rows if row.forecast is not None), key=_rank)
    if not known or known[0].baseline:
        reasons = "; ".join(f"{row.method}: {row.reason}" for row in rows if not row.baseline)
        raise InputError(f"no method applies ({reasons})")
    records, queries = evenly(request.box, RECORDS, "records"), evenly(request.box, QUERIES, "queries")
    return DistancePlan(
        request=request,
        rows=(*known, *(row for row in rows if row.forecast is None)),
        typical=request.n * float(request.metric.exact_density(records, queries).mean()),
        published=published_error(request, float(request.options.get("alpha", USUAL_ALPHA))),
        earlier=earlier_error(request),
        lower=lower_bound(request),
    )


def _row(method: Method, request: DistanceRequest) -> Row:
    unknown = sorted(request.own_options - set(method.options))
    reason = f"it has no option {unknown[0]!r}" if unknown else method.reason(request)
    if reason is None:
        try:
            return Row(method.name, method.summary, method.baseline, forecast=method.predict(request, 0.0))
        except InputError as error:
            reason = str(error)
    return Row(method.name, method.summary, method.baseline, reason)


def _rank(row: Row) -> tuple[bool, float]:
    """Order rows: methods before baselines, small errors before large ones."""
    assert row.forecast is not None
    return row.baseline, row.forecast.rmse
