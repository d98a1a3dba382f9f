"""How the error of a release of distances is predicted without data.

A prediction takes records and queries that are spread evenly over the bounds (public pseudo-random points), runs the
mechanism's own exact sums and its own reading on them, and adds the noise that the reading's weights carry. The noise
does not depend on the records; what an approximation misses does, and is predicted for evenly spread ones.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.methods.mechanism import Mechanism
from sfumato.methods.method import Prediction
from sfumato.methods.request import Request
from sfumato.public.ranges import check_size
from sfumato.public.streams import PublicStream
from sfumato.quantizers.answer import Floats, Known
from sfumato.quantizers.box import Box

RECORDS, QUERIES = 1024, 256


def evenly(box: Box, count: int, label: str) -> Floats:
    """Public points spread evenly over a box, the same for every call."""
    uniforms = PublicStream(0, label).uniforms(count * box.dimension).reshape(count, box.dimension)
    return np.asarray(box.lower) + uniforms * 2 * box.half_widths


def forecast_by_reading(request: Request, mechanism: Mechanism, bias: float) -> Prediction:
    """Predict the error of a mechanism that adds noise to sums; `bias` is the most that a sum can miss."""
    quantizer = mechanism.quantizer
    check_size(quantizer.size)
    records, queries = evenly(request.box, RECORDS, "records"), evenly(request.box, QUERIES, "queries")
    sums = np.zeros(quantizer.size, dtype=np.int64)
    quantizer.accumulate(records, sums)
    answer = quantizer.read(queries, sums.astype(np.float64), Known(mechanism.noise.variance, RECORDS))
    missed = answer.total / RECORDS - request.metric.exact_density(records, queries)
    squares = answer.standard_error**2 + np.square(request.n * missed)
    return Prediction(
        rmse=math.sqrt(squares.mean()),
        worst=math.sqrt(squares.max()),
        bias=bias,
        integers=quantizer.size,
        parameters=mechanism.parameters,
    )
