"""The linear answer: fixed weights times noisy sums, with the noise variance that those weights carry.

Used where the kernel is approximated as a whole (grids, expansions, landmarks) instead of by averaging random terms.
The error is noise of variance `noise_variance * |g(y)|^2`, known exactly, and a bias that the quantizer states for each
query. Where the quantizer is random (hashed buckets), its randomness acts like more noise, which the sums show
(`Reading.spread`).

This is post-processing of a release: it costs no privacy.
"""

from __future__ import annotations

import numpy as np

from sfumato.decoders.answer import Answer
from sfumato.quantizers.base import Floats, Known, LinearQuantizer


def linear(quantizer: LinearQuantizer, sums: Floats, Y: Floats, known: Known) -> Answer:
    """Answer queries with a quantizer's fixed weights.

    Parameters
    ----------
    quantizer : LinearQuantizer
        The maps (f, g).
    sums : ndarray of float, shape (quantizer.size,)
        Noisy sums of f.
    Y : ndarray, shape (queries, dimension)
        Query points.
    known : Known
        Variance of the noise on one integer, and the count.
    """
    reading = quantizer.read_released(Y, sums, known)
    variance = np.maximum(known.noise_variance, reading.spread)
    error = np.sqrt(variance * reading.weight_squares)
    return Answer(reading.total, error, reading.bias, known.noise_variance * reading.count_product)
