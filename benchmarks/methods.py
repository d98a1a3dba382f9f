"""What the accuracy cases ask of a method: its own best size for the true density, and the error it predicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sfumato.methods.ranking import choose
from sfumato.methods.registry import METHODS, offered
from sfumato.methods.request import Request


@dataclass(frozen=True)
class Facts:
    """What a prediction may use: the request, and what is true of the data.

    Attributes
    ----------
    request : Request
        Budget, relation and n; n is the true number of points.
    density : float
        P, the mean kernel value over held-out points, which estimates the mean over pairs of points.
    """

    request: Request
    density: float

    def best(self, name: str, times: float) -> dict[str, Any]:
        """Options at a multiple of the method's own best size, chosen with the true density."""
        request = replace(self.request, options={**self.request.options, "density": self.density})
        size = METHODS[name].predict(request, self.density).parameters["n_features"]
        return {"n_features": max(1, round(times * size))}

    def applies(self, name: str, options: Mapping[str, Any]) -> bool:
        """Tell whether the method takes the request with these options."""
        request = self.request.with_options(**options)
        return any(method.name == name and method.reason(request) is None for method in offered(request))

    def predict(self, name: str, options: Mapping[str, Any]) -> tuple[float, float, float]:
        """Root mean square error predicted for these options: at the true density, and its limits over all of them."""
        request = replace(self.request, options={**self.request.options, **options})
        methods = {method.name: method for method in offered(request)}
        at = methods[choose(methods.values(), request).method if name == "auto" else name].predict
        return at(request, self.density).rmse, at(request, 1e-12).rmse, at(request, 1.0).rmse
