"""What a decoder gives."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.quantizers.base import Floats


@dataclass(frozen=True)
class Answer:
    """Answers to queries, one per row, as sums over the records.

    Attributes
    ----------
    total : ndarray
        Estimated sum of similarities.
    standard_error : ndarray
        Its standard error: noise, and approximation where that is random.
    bias : ndarray
        Typical size of the systematic approximation error per record (the release multiplies it by the count); zero for
        unbiased estimates.
    count_covariance : ndarray or float
        Covariance of `total` and the published count; 0 where they are drawn apart.
    """

    total: Floats
    standard_error: Floats
    bias: Floats
    count_covariance: Floats | float = 0.0
