"""One row a method: predicted error and cost for a request, or why the method does not apply.

The error of an answer depends on the data through P, the mean kernel value between two records, alone (the formulas
stand beside the methods). Where P is not public, sizes are chosen and the error is predicted for a typical P, and the
interval is the formula from P = 0, which is noise alone, to P = 1, which no data exceeds.

The constant answer, for comparison: everybody is told one number, the mean density P. Its error is the spread of the
density over queries that are distributed like the records. For a positive definite kernel with k(x, x) = 1 a density
is an inner product <phi(y), mu> with |phi(y)| = 1 and |mu|^2 = P, so it lies between 0 and sqrt(P); with mean P its
mean square is at most P^(3/2), and the error is at most sqrt(P^(3/2) - P^2), which a cluster beside scattered points
attains. On the papers' data sets it was 0.5 P to 0.7 P.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.errors import InputError
from sfumato.methods import projecting
from sfumato.methods.method import Method, Prediction
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request

CONSTANT = "constant"
# Spread of the density in units of its mean, as measured on the papers' data sets.
TYPICAL_SPREAD = 0.6
# P at which the largest spread, sqrt(P^1.5 - P^2), is largest.
WORST_DENSITY = 9 / 16


@dataclass(frozen=True)
class Row:
    """What a plan knows of one method.

    Attributes
    ----------
    method, summary : str
        The name, and one line about it.
    reason : str or None
        Why the method does not apply; the figures below are then None.
    error : float or None
        Predicted root mean square error of one answer.
    interval : (float, float) or None
        Where the error lies when P is not public; both ends are `error` when it is.
    file_size : int or None
        Most bytes of the release file.
    work, query_work : float or None
        Multiplications for the curator in all, and for one query.
    sizes : mapping
        The sizes chosen.
    options : mapping
        All options, as ``PrivateKDE(options=...)`` takes them.
    """

    method: str
    summary: str
    reason: str | None = None
    error: float | None = None
    interval: tuple[float, float] | None = None
    file_size: int | None = None
    work: float | None = None
    query_work: float | None = None
    sizes: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def applies(self) -> bool:
        """Whether the method can be used."""
        return self.reason is None

    def to_document(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        interval = None if self.interval is None else list(self.interval)
        return vars(self) | {"interval": interval, "sizes": dict(self.sizes), "options": dict(self.options)}


def compare(request: Request) -> tuple[Row, ...]:
    """Predict every method for a request: the best first, then baselines, then those that do not apply.

    Parameters
    ----------
    request : Request
        Public facts; ``options["density"]`` holds P where it is public.

    Raises
    ------
    InputError
        If no method applies.
    """
    rows = [_row(method, request) for method in METHODS.values()]
    applicable = sorted((row for row in rows if row.applies), key=_rank)
    if not applicable:
        own = request.own_options - set(projecting.OPTIONS)
        meant = [row for row in rows if own <= set(METHODS[row.method].options)]
        reasons = "; ".join(f"{row.method}: {row.reason}" for row in meant or rows)
        raise InputError(f"no method applies ({reasons})")
    return (*applicable, *(row for row in rows if not row.applies))


def _rank(row: Row) -> tuple[bool, float]:
    """Sort by error, with baselines, which are never chosen, at the end."""
    assert row.error is not None
    return METHODS[row.method].baseline, row.error


def _row(method: Method, request: Request) -> Row:
    unknown = sorted(request.own_options - {*method.options, *projecting.OPTIONS})
    reason = f"it has no option {unknown[0]!r}" if unknown else method.refuse(projecting.plain(request))
    if reason is None:
        try:
            return _predicted(method, request)
        except InputError as error:
            reason = str(error)
    return Row(method.name, method.summary, reason)


def _predicted(method: Method, request: Request) -> Row:
    known = "density" in request.options
    reduced = projecting.reduce(method, request) if projecting.wanted(request) else None
    if reduced is not None and (reason := method.refuse(reduced.request)) is not None:
        raise InputError(reason)

    def predict(density: float) -> Prediction:
        if reduced is None:
            return method.predict(request, density)
        return reduced.prediction(method.predict(reduced.request, density), density)

    prediction = predict(request.density)
    ends = (request.density, request.density) if known else (0.0, 1.0)
    low, high = (predict(density).rmse for density in ends)
    return Row(
        method=method.name,
        summary=method.summary,
        error=prediction.rmse,
        interval=(low, high),
        file_size=prediction.file_size,
        work=prediction.work_per_record * request.n,
        query_work=prediction.work_per_query,
        sizes=prediction.parameters,
        # A promised error fixes the sizes by itself; for all else they are spelled out.
        options=request.options if "alpha" in request.options else {**request.options, **prediction.parameters},
    )


def constant_row(request: Request) -> Row:
    """Predict the error of always answering the mean density, see the module's text."""
    worst = request.density if "density" in request.options else WORST_DENSITY
    return Row(
        method=CONSTANT,
        summary="always the same answer, the mean density",
        error=min(TYPICAL_SPREAD * request.density, largest_spread(request.density)),
        interval=(0.0, largest_spread(worst)),
        file_size=0,
        work=0.0,
        query_work=0.0,
    )


def largest_spread(density: float) -> float:
    """Largest standard deviation of the density over queries like the records, given its mean.

    Examples
    --------
    >>> round(largest_spread(0.02), 3)
    0.049
    """
    return math.sqrt(max(0.0, density**1.5 - density**2))
