"""The Monte Carlo answer: the mean of independent terms, or the median of J means of them.

Source: Algorithm 1 of 000_373b91ba792b499d.txt (client).

Error bar. A release holds I terms t_i(y), uncorrelated and with the same mean over the draw of features and noise
(the number of people times the density). Their sample variance s^2 therefore estimates, without bias and without any
assumption about the data, the variance of their mean as s^2 / I: approximation error and privacy noise together.
Where terms come in parts of different laws (`Quantizer.strata`), each part has its own mean and sample variance.
Dividing by the noisy count adds (answer * sd(count) / count)^2. A median of J means has about pi/2 times the variance
of one mean.

This is post-processing of a release: it costs no privacy.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sfumato.decoders.answer import Answer
from sfumato.quantizers.base import Floats, Quantizer


def montecarlo(quantizer: Quantizer, sums: Floats, Y: Floats, groups: int = 1) -> Answer:
    """Answer queries from the summed features.

    Parameters
    ----------
    quantizer : Quantizer
        The maps (f, g).
    sums : ndarray of float, shape (quantizer.size,)
        Noisy sums of f.
    Y : ndarray, shape (queries, dimension)
        Query points.
    groups : int
        J: 1 for the mean, more for a median of means.
    """
    terms = quantizer.term_values(Y, sums)
    answer = answer_from_terms(terms, groups) if len(quantizer.strata) == 1 else _stratified(terms, quantizer.strata)
    return replace(answer, bias=np.full(len(Y), quantizer.term_bias)) if quantizer.term_bias else answer


def answer_from_terms(terms: Floats, groups: int = 1) -> Answer:
    """Answer from the values of the terms, shape (answers, terms); an answer may be any weighted sum of queries."""
    answers, count = terms.shape
    if groups == 1:
        total, inflation = terms.mean(axis=1), 1.0
    else:
        size = count // groups
        total = np.median(terms[:, : size * groups].reshape(answers, groups, size).mean(axis=2), axis=1)
        inflation = math.pi / 2
    if count < 2:
        return Answer(total, np.full(answers, np.inf), np.zeros(answers))
    centre = terms.mean(axis=1)
    variance = np.maximum(np.einsum("ij,ij->i", terms, terms) - count * centre**2, 0) / (count - 1)
    return Answer(total, np.sqrt(inflation * variance / count), np.zeros(answers))


def _stratified(terms: Floats, strata: tuple[int, ...]) -> Answer:
    """Add up the parts' answers, each part in the share that its terms have of all."""
    pieces = np.split(terms, np.cumsum(strata)[:-1], axis=1)
    answers = [answer_from_terms(piece * (piece.shape[1] / terms.shape[1])) for piece in pieces]
    total = np.sum([answer.total for answer in answers], axis=0)
    error = np.sqrt(np.sum([answer.standard_error**2 for answer in answers], axis=0))
    return Answer(total, error, np.zeros(len(terms)))
