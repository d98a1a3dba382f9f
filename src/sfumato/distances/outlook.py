"""`plan` for distances: all methods compared from public facts, with what the papers promise beside the predictions.

What the papers promise is shown as errors (M, A) and lower bounds, without constants. Source: Table 1, Theorems 2.2,
A.2, B.3, B.4, C.1, C.2 and Corollaries D.2 to D.5 of Backurs et al. (2024). An answer has the error (M, A) if its mean
absolute error is at most M - 1 times the true sum plus A. Logarithmic factors and constants are left out, as in the
paper's table, so A shows how an error grows and not how large it is. Only Theorem C.1 has a constant: in one column and
for epsilon up to 0.2 no epsilon-DP structure answers all queries within 0.02 R / epsilon; it is shown times d, the
order of Theorem C.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.distances.columns import QUERIES, RECORDS, evenly
from sfumato.distances.estimator import PrivateDistance
from sfumato.errors import InputError
from sfumato.kernels.unscaled import Distance
from sfumato.methods.ranking import Ranking, Row, compare
from sfumato.methods.registry import DISTANCES
from sfumato.methods.request import Request
from sfumato.privacy.guarantee import checked_delta, exact_epsilon

LOWER_CONSTANT = 0.02


@dataclass(frozen=True)
class PaperError:
    """An error (M, A) as published.

    Attributes
    ----------
    source : str
        Where it is proved.
    relative, additive : float
        M - 1 and A.
    """

    source: str
    relative: float
    additive: float


def published_error(request: Request, alpha: float) -> PaperError:
    """Return the error of Backurs et al.'s structure for the request's distance.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sfumato.kernels import Distance
    >>> request = Request(Distance("l1"), 4, Fraction(1), n=1000, feature_seed=0, bounds=(0, 1))
    >>> published_error(request, alpha=0.25)
    PaperError(source='Theorem B.3', relative=0.25, additive=16.0)
    """
    epsilon, columns, delta = float(request.epsilon), request.dimension, request.delta
    width, metric = float(request.lengths.max()), request.metric
    if metric.metric == "sqeuclidean":
        return PaperError("Corollary D.5", 0.0, width**2 * columns / epsilon)
    if metric.metric == "l2":
        diagonal = math.sqrt(float((request.lengths**2).sum()))
        return PaperError("Corollary D.2", alpha, diagonal / (alpha**1.5 * epsilon))
    power = metric.power
    scale = width**power / (epsilon * math.sqrt(alpha))
    source = ("Theorem B.3", "Theorem B.4") if power == 1 else ("Corollary D.4", "Corollary D.4")
    if delta:
        return PaperError(source[1], alpha, columns * math.sqrt(math.log(power / delta)) * scale)
    return PaperError(source[0], alpha, columns**1.5 * scale)


def earlier_error(request: Request) -> PaperError | None:
    """Return the error of Huang and Roth's structure, where there is one."""
    epsilon, columns, n = float(request.epsilon), request.dimension, request.n
    if request.metric.metric == "l1":
        additive = float(request.lengths.max()) * (n * columns**7 / epsilon**2) ** (1 / 3)
        return PaperError("Theorem 2.2", 0.0, additive)
    if request.metric.metric == "l2":
        diagonal = math.sqrt(float((request.lengths**2).sum()))
        return PaperError("Theorem A.2", 0.0, diagonal * (n**15 * columns**7 / epsilon**2) ** (1 / 17))
    return None


def lower_bound(request: Request) -> float | None:
    """Return an error that no pure structure for l1 can stay below at all queries; None where none is known."""
    if request.metric.metric != "l1" or request.delta:
        return None
    return LOWER_CONSTANT * float(request.lengths.max()) * request.dimension / float(request.epsilon)


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
