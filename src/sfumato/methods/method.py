"""What plans and registries know of a method under any trust model: how to build it, when it applies, what it costs.

Pure methods and delta. A method marked `pure` needs no delta. Asked with delta > 0 it is refused, predicted and built
exactly as for delta = 0, so its release is (epsilon, 0)-differentially private, which is more than was asked for: the
guarantee states delta 0, the ledger is charged none, and the release's parameters hold the delta that was left. Plans
and "auto" weigh every other method both ways too; one that is named takes the delta that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.kernels import Product
from sfumato.methods.request import Request

UNSPENT_DELTA = "delta was not needed and is not spent"


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
    report_bytes : int
        For collections: bytes that one person sends.
    holds_for : str
        For collections: which points the guarantee keeps apart.
    """

    rmse: float
    integers: int
    file_size: int = 0
    work_per_record: float = 0.0
    work_per_query: float = 0.0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    worst: float = 0.0
    bias: float = 0.0
    report_bytes: int = 0
    holds_for: str = "every two points"


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
        From a request and a mean kernel value P to a `Prediction`; `prediction` asks it.
    build : callable
        From a request to what its registry builds: a curator's mechanism, the design of a local collection, the
        quantizer of a shuffled one; draws the public features. `built` asks it.
    baseline : bool
        Whether the method is there to be measured against: plans list it, and "auto" never takes it.
    metrics : tuple of str
        For distances: those that it is for.
    pure : bool
        Whether the method needs no delta; see the module's text.
    categories : bool
        Whether the method is for tables with categories (`kernels.Product`); all others are for numbers alone.
    """

    name: str
    summary: str
    options: tuple[str, ...]
    refuse: Callable[[Any], str | None]
    predict: Callable[[Any, float], Prediction]
    build: Callable[[Any], Any]
    baseline: bool = False
    metrics: tuple[str, ...] = ()
    pure: bool = False
    categories: bool = False

    def asked(self, request: Request) -> Request:
        """Return the request as this method takes it: without delta where none is needed."""
        return request.pure() if self.pure else request

    def reason(self, request: Request) -> str | None:
        """Say why the method does not apply, or return None."""
        metric = getattr(request.kernel, "metric", "similarities")
        if self.metrics and metric not in self.metrics:
            return f"it is for {' and '.join(self.metrics)}, not for {metric}"
        if isinstance(request.kernel, Product) and not self.categories:
            return "it is for columns of numbers, and there are categories"
        return self.refuse(self.asked(request))

    def prediction(self, request: Request, density: float) -> Prediction:
        """Predict error and cost, where `reason` has nothing against it."""
        return self.predict(self.asked(request), density)

    def built(self, request: Request) -> Any:
        """Build, where `reason` has nothing against it."""
        return self.build(self.asked(request))
