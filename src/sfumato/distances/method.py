"""What the plan and the registry know of a method for distances, and how its error is predicted without data.

A prediction takes records and queries that are spread evenly over the bounds (public pseudo-random points), runs the
mechanism's own exact sums and its own reading on them, and adds the noise that the reading's weights carry. The noise
does not depend on the records; what an approximation misses does, and is predicted for evenly spread ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.distances.request import DistanceRequest
from sfumato.methods.mechanism import Mechanism
from sfumato.public.ranges import check_size
from sfumato.public.streams import PublicStream
from sfumato.quantizers.base import Floats, LinearQuantizer
from sfumato.quantizers.box import Box

RECORDS, QUERIES = 1024, 256


@dataclass(frozen=True)
class Forecast:
    """Predicted error and size of a release, before any data is read.

    Attributes
    ----------
    rmse : float
        Root mean square error of one sum of distances, over queries spread evenly over the bounds.
    worst : float
        The same at the worst of those queries.
    bias : float
        Most that the approximation (not noise, nor a random embedding) can miss in one sum, for the worst records.
    integers : int
        Numbers in the release.
    parameters : mapping
        The sizes chosen.
    """

    rmse: float
    worst: float
    bias: float
    integers: int
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DistanceMethod:
    """One mechanism for distances under the name people type.

    Attributes
    ----------
    name, summary : str
        The name, and one line for tables.
    metrics : tuple of str
        Distances that it is for.
    options : tuple of str
        Names of its own options.
    refuse : callable
        Says why the method does not apply to a request for one of its distances, or returns None.
    build : callable
        From a request to the mechanism.
    forecast : callable
        From a request to a `Forecast`.
    baseline : bool
        Whether the method is there to be measured against: plans list it, and "auto" never takes it.
    """

    name: str
    summary: str
    metrics: tuple[str, ...]
    options: tuple[str, ...]
    refuse: Callable[[DistanceRequest], str | None]
    build: Callable[[DistanceRequest], Mechanism]
    forecast: Callable[[DistanceRequest], Forecast]
    baseline: bool = False

    def reason(self, request: DistanceRequest) -> str | None:
        """Say why the method does not apply, or return None."""
        metric = request.metric.metric
        if metric not in self.metrics:
            return f"it is for {' and '.join(self.metrics)}, not for {metric}"
        return self.refuse(request)


def evenly(box: Box, count: int, label: str) -> Floats:
    """Public points spread evenly over a box, the same for every call."""
    uniforms = PublicStream(0, label).uniforms(count * box.dimension).reshape(count, box.dimension)
    return np.asarray(box.lower) + uniforms * 2 * box.half_widths


def forecast_by_reading(request: DistanceRequest, mechanism: Mechanism, bias: float) -> Forecast:
    """Predict the error of a mechanism that adds noise to sums; `bias` is the most that a sum can miss."""
    quantizer = mechanism.quantizer
    assert isinstance(quantizer, LinearQuantizer)
    check_size(quantizer.size)
    records, queries = evenly(request.box, RECORDS, "records"), evenly(request.box, QUERIES, "queries")
    sums = np.zeros(quantizer.size, dtype=np.int64)
    quantizer.accumulate(records, sums)
    reading = quantizer.read(queries, sums.astype(np.float64))
    missed = reading.total / RECORDS - request.metric.exact_density(records, queries)
    squares = mechanism.noise.variance * reading.weight_squares + np.square(request.n * missed)
    return Forecast(
        rmse=math.sqrt(squares.mean()),
        worst=math.sqrt(squares.max()),
        bias=bias,
        integers=quantizer.size,
        parameters=mechanism.parameters,
    )
