"""`plan` for distances: all methods compared from public facts, with what the papers promise beside the predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.distances.estimator import PrivateDistance
from sfumato.distances.forecast import QUERIES, RECORDS, evenly
from sfumato.distances.theory import PaperError, earlier_error, lower_bound, published_error
from sfumato.errors import InputError
from sfumato.kernels.distance import Distance
from sfumato.methods.ranking import Ranking, Row, compare
from sfumato.methods.registry import DISTANCES
from sfumato.methods.request import Request
from sfumato.privacy.guarantee import checked_delta
from sfumato.privacy.rational import exact_epsilon

USUAL_ALPHA = 0.1  # relative error for which the published bound is stated, where the caller names none


@dataclass(frozen=True)
class DistancePlan(Ranking):
    """A data-free comparison of methods for one distance; made by `plan`.

    Attributes
    ----------
    request, rows
        As in `Ranking`.
    typical : float
        The sum of distances for records and queries spread evenly over the bounds.
    published, earlier : PaperError or None
        What Backurs et al. (2024) and Huang and Roth promise, without constants.
    lower : float or None
        What no pure structure can stay below.
    """

    typical: float
    published: PaperError
    earlier: PaperError | None
    lower: float | None

    def estimator(self, **arguments: Any) -> PrivateDistance:
        """Return a `PrivateDistance` with the chosen method; `arguments` add a ledger or seeds."""
        request, metric = self.request, self.request.metric
        planned: dict[str, Any] = {
            "p": metric.p,
            "epsilon": request.epsilon,
            "delta": 0.0 if self.chosen.unspent_delta else request.delta,
            "bounds": request.bounds,
            "method": self.method,
            "neighbours": request.neighbours,
            "n_hint": request.n,
            "options": dict(request.options),
        }
        return PrivateDistance(metric.metric, **planned | arguments)

    def to_document(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return super().to_document() | {
            "typical": self.typical,
            "published": asdict(self.published),
            "earlier": None if self.earlier is None else asdict(self.earlier),
            "lower_bound": self.lower,
        }

    def columns(self) -> tuple[str, ...]:
        """Headings of the figures."""
        return ("error", "relative", "worst query", "bias at most", "integers")

    def cells(self, row: Row) -> tuple[str, ...]:
        """Figures of a row that applies."""
        made = row.predicted
        errors = (made.rmse, made.rmse / self.typical, made.worst, made.bias)
        return (*(f"{error:.3g}" for error in errors), f"{made.integers:,}")

    def sizes(self, row: Row) -> str:
        """Name the sizes of a row's method."""
        return ", ".join(f"{name} {value:.4g}" for name, value in row.sizes.items() if name != "n_hint")

    def shown(self) -> tuple[Row, ...]:
        """Rows of the table: the methods that apply."""
        return tuple(row for row in self.rows if row.applies)

    def notes(self) -> list[str]:
        """Say what the figures mean, and what the papers promise, in sentences."""
        lines = super().notes()
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
    request = Request(
        kernel=Distance(metric, p),
        dimension=dimension,
        epsilon=exact_epsilon(epsilon),
        n=n_hint,
        delta=checked_delta(delta),
        neighbours=neighbours,
        bounds=bounds,
        options=dict(options or {}),
    )
    rows = compare((each for each in DISTANCES.values() if request.metric.metric in each.metrics), request)
    if rows[0].baseline:
        reasons = "; ".join(f"{row.method}: {row.reason}" for row in rows if not row.baseline)
        raise InputError(f"no method applies ({reasons})")
    records, queries = evenly(request.box, RECORDS, "records"), evenly(request.box, QUERIES, "queries")
    return DistancePlan(
        request=request,
        rows=rows,
        typical=request.n * float(request.metric.exact_density(records, queries).mean()),
        published=published_error(request, float(request.options.get("alpha", USUAL_ALPHA))),
        earlier=earlier_error(request),
        lower=lower_bound(request),
    )
