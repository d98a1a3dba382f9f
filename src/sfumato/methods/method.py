"""What the plan and the registry know of a method: how to build it, when it applies, and what it will cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.methods.mechanism import Mechanism
from sfumato.methods.request import Request


@dataclass(frozen=True)
class Prediction:
    """Predicted error and cost of a mechanism, before any data is read.

    Attributes
    ----------
    rmse : float
        Root mean square error of one answer (mean kernel value, or sum of distances), the count's part included.
    integers, file_size : int
        Numbers in the release, and most bytes of its file.
    work_per_record, work_per_query : float
        Multiplications for one record (curator) and one query (anyone).
    parameters : mapping
        The sizes chosen.
    worst, bias : float
        For distances: the error at the worst query, and the most that the approximation can miss in one sum.
    """

    rmse: float
    integers: int
    file_size: int = 0
    work_per_record: float = 0.0
    work_per_query: float = 0.0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    worst: float = 0.0
    bias: float = 0.0


@dataclass(frozen=True)
class Method:
    """One mechanism under the name people type.

    Attributes
    ----------
    name, summary : str
        The name, and one line for tables.
    options : tuple of str
        Names of the options that are the method's own.
    refuse : callable
        Says why the method does not apply to a request, or returns None; `reason` asks it.
    predict : callable
        From a request and a mean kernel value P to a `Prediction`.
    build : callable
        From a request to the mechanism; draws the public features.
    baseline : bool
        Whether the method is there to be measured against: plans list it, and "auto" never takes it.
    metrics : tuple of str
        For distances: those that it is for.
    """

    name: str
    summary: str
    options: tuple[str, ...]
    refuse: Callable[[Any], str | None]
    predict: Callable[[Any, float], Prediction]
    build: Callable[[Any], Mechanism]
    baseline: bool = False
    metrics: tuple[str, ...] = ()

    def reason(self, request: Request) -> str | None:
        """Say why the method does not apply, or return None."""
        metric = getattr(request.kernel, "metric", "similarities")
        if self.metrics and metric not in self.metrics:
            return f"it is for {' and '.join(self.metrics)}, not for {metric}"
        return self.refuse(request)
