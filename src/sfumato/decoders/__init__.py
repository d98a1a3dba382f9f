"""Decoders turn a release and a query into an answer with an error bar."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sfumato.decoders.answer import Answer
from sfumato.decoders.linear import linear
from sfumato.decoders.montecarlo import montecarlo
from sfumato.quantizers.base import Floats, Known, LinearQuantizer, Quantizer
from sfumato.quantizers.projection import ProjectedPoints

__all__ = ["Answer", "decode", "linear", "montecarlo"]


def decode(
    quantizer: Quantizer,
    sums: Floats,
    Y: Floats,
    *,
    noise_variance: float,
    groups: int = 1,
    count: float = 1.0,
    count_variance: float = 0.0,
) -> Answer:
    """Answer queries by the decoder that suits the quantizer: see `linear` and `montecarlo`.

    Projected points are answered at their images, with the projection's typical error as a part of the bias.
    """
    if isinstance(quantizer, ProjectedPoints):
        answer = decode(
            quantizer.inner,
            sums,
            quantizer.projection.apply(Y),
            noise_variance=noise_variance,
            groups=groups,
            count=count,
            count_variance=count_variance,
        )
        return replace(answer, bias=np.hypot(answer.bias, quantizer.errors(answer.total / count)))
    if isinstance(quantizer, LinearQuantizer):
        return linear(quantizer, sums, Y, Known(noise_variance, count, count_variance))
    return montecarlo(quantizer, sums, Y, groups)
