"""What the accuracy cases need to know about a method: its own best size, and the error it predicts.

A method without an entry runs with the options of its case, and has no prediction to be held to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.central import lsq_rff
from sfumato.central.request import Request


@dataclass(frozen=True)
class Facts:
    """What a prediction may use: the request, and what is true of the data.

    Attributes
    ----------
    request : Request
        Budget, relation and n; n is the true number of points.
    density : float
        P, the mean kernel value over held-out points, which estimates the mean over pairs of points.
    density_square : float
        Mean square of the exact answers.
    """

    request: Request
    density: float
    density_square: float

    @property
    def count_term(self) -> float:
        """Mean square error that dividing by the noisy count adds."""
        law = self.request.count_law
        return 0.0 if law is None else law.variance * self.density_square / self.request.n**2


@dataclass(frozen=True)
class Method:
    """Options at a multiple of the method's own best size, and the root mean square error predicted for options."""

    best: Callable[[Facts, float], dict[str, Any]]
    predict: Callable[[Facts, Mapping[str, Any]], float]


def _lsq_rff_best(facts: Facts, scale: float) -> dict[str, Any]:
    request = facts.request
    best = lsq_rff.best_features(float(request.feature_epsilon), request.n, facts.density, request.factor)
    return {"n_features": max(1, round(scale * best))}


def _lsq_rff_predict(facts: Facts, options: Mapping[str, Any]) -> float:
    request = facts.request
    sums = lsq_rff.predicted_rmse(
        options["n_features"], float(request.feature_epsilon), request.n, facts.density, request.factor
    )
    return math.sqrt(sums**2 + facts.count_term)


METHODS = {lsq_rff.NAME: Method(_lsq_rff_best, _lsq_rff_predict)}
