"""`plan`: from public facts to a chosen method, with the comparison that led to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import Kernel, Product
from sfumato.methods import projecting
from sfumato.methods.outlook import MARGINAL, NOISE, Outlook, apart_text, sample_density, verdict
from sfumato.methods.parameters import Parameters
from sfumato.methods.ranking import CONSTANT, Ranking, Row, compare, constant_error
from sfumato.methods.registry import METHODS, offered
from sfumato.methods.request import TYPICAL_DENSITY, Limits, Request
from sfumato.public.arguments import checked_options, says
from sfumato.public.codec import brief
from sfumato.public.ranges import LARGEST_NUMBER, MOST_COLUMNS, check_whole
from sfumato.quantizers.box import Box
from sfumato.quantizers.nystrom import PublicSample

if TYPE_CHECKING:
    from sfumato.central.kde import PrivateKDE

MOST_ROWS = 2000  # of a public sample


@dataclass(frozen=True)
class Plan(Ranking):
    """A data-free choice of method and sizes, with its predicted error; made by `plan`.

    Attributes
    ----------
    categories : mapping or None
        The categories as the caller named them.
    outlook : Outlook
        What is known or assumed of P.
    """

    categories: Mapping[Any, Any] | None = None
    outlook: Outlook = field(kw_only=True)

    def error_at(self, density: float, row: Row | None = None) -> float:
        """Predicted error of the chosen method, or of another row, if P is `density`."""
        row = self.chosen if row is None else row
        if row.method == CONSTANT:
            return constant_error(density)
        assert row.at is not None
        return row.at(density).rmse

    @property
    def relative_error(self) -> float:
        """Predicted error in units of the mean answer, for the assumed P."""
        return _over(self.error_at(self.outlook.assumed), self.outlook.assumed)

    @property
    def verdict(self) -> str:
        """Say whether answers will be "useful", "marginal" or "noise", over the range of P."""
        low, high = (_over(self.error_at(each), constant_error(each)) for each in (self.outlook.low, self.outlook.high))
        return verdict((low, high))

    @property
    def useful(self) -> bool:
        """Whether the chosen method is predicted to beat a constant answer for some P of the range."""
        return self.verdict != NOISE

    @property
    def interval(self) -> tuple[float, float]:
        """Where the chosen method's error lies if the mean density is not public; both ends are `error` if it is."""
        assert self.chosen.interval is not None
        return self.chosen.interval

    def estimator(self, **arguments: Any) -> PrivateKDE:
        """Return a `PrivateKDE` with the chosen method and sizes; `arguments` add a ledger or seeds."""
        request = self.request
        planned: dict[str, Any] = {
            "epsilon": request.epsilon,
            "delta": 0.0 if self.chosen.unspent_delta else request.delta,
            "method": self.method,
            "bounds": request.bounds,
            "landmarks": request.landmarks,
            "neighbours": request.neighbours,
            "n_hint": request.n,
            "unit": request.unit,
            "options": dict(self.chosen.options),
        }
        from sfumato.central.kde import PrivateKDE

        kernel: Any = request.kernel
        if isinstance(kernel, Product) and self.categories is not None:
            # Named categories find their columns in the data.
            kernel, planned["categories"] = kernel.numbers or "gaussian", self.categories
        return PrivateKDE(kernel, **planned | arguments)

    def to_document(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return super().to_document() | {
            "density": self.request.options.get("density"),
            "useful": self.useful,
            "verdict": self.verdict,
            "density_range": [self.outlook.low, self.outlook.high],
            "shown_density": self.outlook.assumed,
            "shown_error": self.error_at(self.outlook.assumed),
            "relative_error": self.relative_error if math.isfinite(self.relative_error) else None,
            "constant": self.constant.to_document(),
        }

    def title(self) -> str:
        """Say what was planned for, and whether it is worth having."""
        return f"{super().title()}\n{self.judgement()}"

    def _assumed(self) -> str:
        known = self.outlook
        values = f"{known.low:.2g}" if known.low == known.high else f"{known.low:.2g} to {known.high:.2g}"
        return f"\nP, the mean similarity of two records: {values} ({known.source})"

    def judgement(self) -> str:
        """Give the verdict, and the reason for it, in a sentence."""
        known, found = self.outlook, self.verdict
        error, constant = self.relative_error, _over(constant_error(known.assumed), known.assumed)
        text = f"verdict: {found}: an error of {error:.0%} of the mean answer at P = {known.assumed:.2g}, "
        text += f"and {constant:.0%} for the constant answer."
        if not math.isfinite(error) or error > 100:
            text = f"verdict: {found}: the error is more than a hundred times the mean answer, P = {known.assumed:.2g}."
        if found == NOISE and known.apart is not None and known.high < TYPICAL_DENSITY:
            text += f" The bandwidth is too small for these bounds: {apart_text(known.apart)}, if spread evenly."
        elif found == NOISE:
            text += " More records, a larger epsilon or a larger bandwidth help."
        elif found == MARGINAL and known.low < known.high:
            text += " It depends on P: a public sample or the density would tell."
        return text

    def columns(self) -> tuple[str, ...]:
        """Headings of the figures."""
        return ("error", "of the mean", "file", "work", "a query")

    def cells(self, row: Row) -> tuple[str, ...]:
        """Figures of a row, errors for the assumed P."""
        error, made = self.error_at(self.outlook.assumed, row), row.predicted
        relative = _over(error, self.outlook.assumed)
        share = f"{relative:.0%}" if relative <= 100 else "> 10000%"
        return f"{error:.3g}", share, f"{made.file_size:,}", f"{row.work:.2g}", f"{made.work_per_query:.2g}"

    def notes(self) -> list[str]:
        """Say what the figures assume, in sentences."""
        request, options = self.request, self.request.options
        known = "density" in options
        lines = [
            *super().notes(),
            f"error: root mean square of one answer, over queries like the records, at P = {self.outlook.assumed:.3g}; "
            "of the mean: in units of P; file: bytes at most; work, a query: multiplications.",
        ]
        if request.landmarks is not None:
            lines.append(
                "landmarks: the error is that of records which resemble the public points, measured on some of them "
                "held out; the release shows whether they do."
            )
        if "alpha" in options:
            scope = "all queries in the bounds together" if options.get("all_queries") else "each query"
            assumed = f", provided that P is at most {request.density:g}" if known else ""
            lines.append(
                f"Guarantee: an error of at most {options['alpha']:g} with probability 1 - {options['eta']:g}, for "
                f"{scope}, with {request.n} records or more{assumed}."
            )
        if self.method in METHODS and not request.projected:
            lines.extend(filter(None, [projecting.advice(METHODS[self.method], request)]))
        return lines


def _over(error: float, size: float) -> float:
    """Divide errors; nothing is infinitely wrong about nothing."""
    return error / size if size > 0 else math.inf


def plan(
    *,
    n_hint: int,
    dimension: int,
    epsilon: Any,
    kernel: str | Kernel = "gaussian",
    bandwidth: Any = None,
    delta: float = 0.0,
    neighbours: str = "add-remove",
    bounds: Any = None,
    landmarks: Any = None,
    categories: Mapping[Any, Any] | None = None,
    kinds: Mapping[Any, Any] | None = None,
    unit: str = "record",
    options: Mapping[str, Any] | None = None,
    density: float | None = None,
    public: Any = None,
    method: str = "auto",
    work: float | None = None,
    file_size: float | None = None,
    query_work: float | None = None,
    alpha: float | None = None,
    eta: float | None = None,
    all_queries: bool = False,
) -> Plan:
    """Compare all methods from public facts alone, and choose.

    Parameters
    ----------
    n_hint, dimension : int
        Public guess of the number of records, and the number of columns.
    epsilon, kernel, bandwidth, delta, neighbours, bounds, landmarks, categories, kinds, unit, options
        As in `PrivateKDE`, columns of `kinds` by their positions. An option that only some methods know leaves the
        others out.
    density : float, optional
        P, the mean kernel value between two records, if it is public: sizes are chosen for it, and the prediction is a
        point instead of an interval.
    public : array, frame, table or path, optional
        A public sample like the records: P is its mean kernel value between two rows.
    method : str
        "auto" takes the least predicted error; another name is put first, as it will be released.
    work, query_work : float, optional
        Most multiplications for the curator in all, and for one query. One core does some 10**9 a second.
    file_size : float, optional
        Most bytes of the release file.
    alpha, eta : float, optional
        Ask for an error of at most `alpha` with probability 1 - `eta` at each query (`lsq-rff`, median of means).
    all_queries : bool
        With `alpha` and `eta`: at all queries in the bounds together.

    Returns
    -------
    Plan
        Print it, or go on with ``plan.estimator().fit(X)``.

    Raises
    ------
    InputError
        If no method applies, or a parameter is wrong.

    Examples
    --------
    >>> made = plan(n_hint=100_000, dimension=10, bandwidth=1.0, epsilon=0.5)
    >>> made.method, round(made.error, 4)
    ('fourier', 0.0021)
    >>> made.estimator().method
    'fourier'
    """
    promise = _promise(alpha, eta, all_queries)
    given = {} if density is None else {"density": density}
    asked = Parameters(
        kernel=kernel,
        bandwidth=bandwidth,
        epsilon=epsilon,
        delta=delta,
        bounds=list(bounds.values()) if isinstance(bounds, Mapping) else bounds,
        landmarks=landmarks,
        categories=categories,
        kinds=kinds,
        neighbours=neighbours,
        n_hint=n_hint,
        unit=unit,
        options={**checked_options(options), **given, **promise},
        feature_seed=0,
    )
    request = asked.request(checked_dimension(dimension))
    if bounds is not None:
        numbers = dimension - len(getattr(request.kernel, "places", ()))
        Box.from_bounds(request.bounds, numbers, request.outside)
    limits = Limits(
        work_per_record=_budget("work", work) / request.n,
        work_per_query=_budget("query_work", query_work),
        file_size=_budget("file_size", file_size),
    )
    request, told = replace(request, limits=limits), None
    if public is not None:
        if density is not None:
            raise InputError("density and public both tell P: pass one of them")
        request = request.with_options(density=_sampled(request, public))
        told = "of the public sample"
    rows = _first(method, compare(offered(request), request))
    return Plan(request, rows, categories, outlook=Outlook.of(request, told))


def _first(method: str, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Put the method that was asked for in front."""
    if says(method, "auto"):
        return rows
    for row in rows:
        if says(method, row.method):
            if not row.applies:
                raise InputError(f"{method} does not apply: {row.reason}")
            return (row, *(other for other in rows if other is not row))
    raise InputError(f"unknown method {brief(method)}; known are auto, {', '.join(sorted(row.method for row in rows))}")


def _sampled(request: Request, public: Any) -> float:
    """Mean similarity of two rows of a public sample."""
    rows = PublicSample.of(public, request.dimension).points
    if len(rows) < 2:
        raise InputError("the public sample holds fewer than two rows of finite numbers")
    return sample_density(request.kernel, np.asarray(rows[:MOST_ROWS], dtype=np.float64))


def checked_dimension(dimension: Any) -> int:
    """Return the number of columns, which must be a positive whole number."""
    return check_whole("dimension", dimension, MOST_COLUMNS)


def _budget(name: str, value: float | None) -> float:
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST_NUMBER:
        raise InputError(f"{name} must be a positive number, got {brief(value)}")
    return float(value)


def _promise(alpha: float | None, eta: float | None, all_queries: bool) -> dict[str, Any]:
    if (alpha is None) != (eta is None):
        raise InputError("alpha and eta belong together: pass both, or neither")
    if alpha is None:
        if all_queries:
            raise InputError("all_queries needs alpha and eta: pass the largest error and how often it may be exceeded")
        return {}
    return {"alpha": alpha, "eta": eta, **({"all_queries": True} if all_queries else {})}
