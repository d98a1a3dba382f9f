"""What a reader gives: an answer with its error bar, from the mean of random terms or from fixed weights.

**Terms** (source: Algorithm 1 of Wagner et al. (2023), client). The answer is the mean of I terms t_i(y), or the
median of J means of them; the terms are uncorrelated and have the same mean over the draw of features and noise (the
number of people times the density). Their sample variance s^2 therefore estimates, without bias and without any
assumption about the data, the variance of their mean as s^2 / I: approximation error and privacy noise together. Where
terms come in parts of different laws (`TermReader.strata`), each part has its own mean and sample variance. A median of
J means has about pi/2 times the variance of one mean.

**Fixed weights**, where the kernel is approximated as a whole (grids, expansions, landmarks). The error is noise of
variance `noise_variance * |g(y)|^2`, known exactly, and a bias that the reader states for each query. Where the map is
random (hashed buckets), its randomness acts like more noise, which the sums show (`Reading.spread`).

Either way an answer is post-processing of a release and costs no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """What a release knows beside its sums.

    Attributes
    ----------
    noise_variance : float
        Variance of the noise on one integer, the largest where parts of the sums have different noise.
    count, count_variance : float
        The published number of records, and its variance.
    groups : int
        J of a median of means; 1 for the mean.
    noise_parts : tuple of float
        That of each part, where noises stand side by side; else empty or the one number.
    records : float
        Records that the sums stand for at least, where they are a part of all and show it badly; 0 if not known.
    """

    noise_variance: float
    count: float = 1.0
    count_variance: float = 0.0
    groups: int = 1
    records: float = 0.0
    noise_parts: tuple[float, ...] = ()

    def of_part(self, place: int) -> Known:
        """Return the same for one part of the sums."""
        return replace(
            self,
            noise_variance=self.noise_parts[place] if len(self.noise_parts) > 1 else self.noise_variance,
            noise_parts=(),
        )


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


@dataclass(frozen=True)
class Combined:
    """A weighted sum of answers, the errors of all of them taken together.

    Attributes
    ----------
    total, variance : float
        Its value, and its variance without bias.
    answers : ndarray
        The single answers; empty where they were not worked out, which needs `stated` to be 0.
    stated : float
        Sum of the biases that the reader states.
    weights : ndarray or None
        Weights of the sums, where the reader has fixed ones.
    """

    total: float
    variance: float
    answers: Floats
    stated: float = 0.0
    weights: Floats | None = None


@dataclass(frozen=True)
class Reading:
    """What fixed weights read off noisy sums.

    Attributes
    ----------
    total, weight_squares : ndarray
        g(y).sums and |g(y)|^2.
    bias : ndarray
        Typical bias of f(x).g(y) at y, per record.
    spread : float
        Variance of one of the sums as the sums themselves show it, where a random map (a hash) acts like more noise;
        0 where there is none.
    count_product : ndarray or float
        g(y).c where the published count is read off the same sums as c.sums, so that their errors go together; else 0.
    """

    total: Floats
    weight_squares: Floats
    bias: Floats
    spread: float = 0.0
    count_product: Floats | float = 0.0

    def answer(self, noise_variance: float) -> Answer:
        """Put the noise on the weights."""
        error = np.sqrt(np.maximum(noise_variance, self.spread) * self.weight_squares)
        return Answer(self.total, error, self.bias, noise_variance * self.count_product)


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


def answer_from_strata(terms: Floats, strata: tuple[int, ...]) -> Answer:
    """Add up the parts' answers, each part in the share that its terms have of all."""
    pieces = np.split(terms, np.cumsum(strata)[:-1], axis=1)
    answers = [answer_from_terms(piece * (piece.shape[1] / terms.shape[1])) for piece in pieces]
    total = np.sum([answer.total for answer in answers], axis=0)
    error = np.sqrt(np.sum([answer.standard_error**2 for answer in answers], axis=0))
    return Answer(total, error, np.zeros(len(terms)))
