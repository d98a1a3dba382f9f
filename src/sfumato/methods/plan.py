"""`plan`: from public facts to a chosen method, with the comparison that led to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

from sfumato.errors import InputError
from sfumato.kernels import Kernel, Product
from sfumato.methods import projecting
from sfumato.methods.limits import Limits
from sfumato.methods.ranking import Ranking, compare
from sfumato.methods.registry import METHODS
from sfumato.quantizers.box import Box

if TYPE_CHECKING:
    from sfumato.central.kde import PrivateKDE


@dataclass(frozen=True)
class Plan(Ranking):
    """A data-free choice of method and sizes, with its predicted error; made by `plan`.

    Attributes
    ----------
    categories : mapping or None
        The categories as the caller named them.
    """

    categories: Mapping[Any, Any] | None = None

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
            "constant": self.constant.to_document(),
        }

    def notes(self) -> list[str]:
        """Say what the figures assume, in sentences."""
        request, options = self.request, self.request.options
        known = "density" in options
        between = "" if known else "; between: its limits over every P"
        lines = [
            *super().notes(),
            f"P = {request.density:g} ({'given' if known else 'typical; pass the density where it is public'})",
            f"error: root mean square of one answer, over queries like the records{between}; file: bytes at most; "
            "work, a query: multiplications.",
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
        if not projecting.wanted(request) and (advice := projecting.advice(METHODS[self.method], request)):
            lines.append(advice)
        if not self.useful:
            lines.append(
                "A constant answer is predicted to be as good: this budget tells little about these data. More records "
                "or a larger epsilon help, and so does a larger bandwidth."
            )
        return lines


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
    unit: str = "record",
    options: Mapping[str, Any] | None = None,
    density: float | None = None,
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
    epsilon, kernel, bandwidth, delta, neighbours, bounds, landmarks, categories, unit, options
        As in `PrivateKDE`. An option that only some methods know leaves the others out.
    density : float, optional
        P, the mean kernel value between two records, if it is public: sizes are chosen for it, and the prediction is a
        point instead of an interval.
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
    from sfumato.central.kde import PrivateKDE

    model = PrivateKDE(
        kernel,
        bandwidth=bandwidth,
        epsilon=epsilon,
        delta=delta,
        bounds=bounds,
        landmarks=landmarks,
        categories=categories,
        neighbours=neighbours,
        n_hint=n_hint,
        unit=unit,
        options={**(options or {}), **given, **promise},
        feature_seed=0,
    )
    request = model.request(checked_dimension(dimension))
    if bounds is not None:
        numbers = dimension - len(getattr(request.kernel, "places", ()))
        Box.from_bounds(bounds, numbers, request.outside)
    limits = Limits(
        work_per_record=_budget("work", work) / request.n,
        work_per_query=_budget("query_work", query_work),
        file_size=_budget("file_size", file_size),
    )
    request = replace(request, limits=limits)
    return Plan(request, compare(METHODS.values(), request), categories)


def checked_dimension(dimension: Any) -> int:
    """Return the number of columns, which must be a positive whole number."""
    if isinstance(dimension, bool) or not isinstance(dimension, Integral) or dimension < 1:
        raise InputError(f"dimension must be a positive whole number, got {dimension!r}")
    return int(dimension)


def _budget(name: str, value: float | None) -> float:
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InputError(f"{name} must be a positive number, got {value!r}")
    return float(value)


def _promise(alpha: float | None, eta: float | None, all_queries: bool) -> dict[str, Any]:
    if (alpha is None) != (eta is None):
        raise InputError("alpha and eta belong together: pass both, or neither")
    if alpha is None:
        if all_queries:
            raise InputError("all_queries needs alpha and eta: pass the largest error and how often it may be exceeded")
        return {}
    return {"alpha": alpha, "eta": eta, **({"all_queries": True} if all_queries else {})}
