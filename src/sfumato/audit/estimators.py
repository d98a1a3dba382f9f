"""Lower bounds on what a mechanism leaks, from samples of an attacker's statistic or from exact probabilities.

Source: an attack as a statistical test (P. Kairouz, S. Oh, P. Viswanath, "The Composition Theorem for Differential
Privacy", ICML 2015), with the exact binomial intervals of C. Clopper and E. Pearson.

Every (epsilon, delta)-DP mechanism satisfies Pr[E | D] <= e^epsilon Pr[E | D'] + delta for every event E and either
order of the neighbours D and D', so that any event gives epsilon >= log((Pr[E | D] - delta) / Pr[E | D']). An event
may be chosen freely as long as it is not chosen by the samples that judge it: here one half of the samples chooses a
threshold of the statistic, its direction and the order of D and D', and the other half counts. What is returned
exceeds the truth with a probability of at most 1 - confidence, whatever the mechanism and the statistic; a clumsy
statistic only makes the bound weak. Gaussian DP is treated in the same way: mu-GDP means Pr[E | D] <= Phi(mu +
Phi^-1(Pr[E | D'])) for every event.

Several independent views of one pair of neighbours (`Views`). The loss of a view v is log(P(v) / Q(v)). Its law under
P, on a grid of steps to which losses are rounded down, is convolved with itself; rounding down makes the result a lower
bound of the truth, by less than a step for each view.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.signal import fftconvolve
from scipy.special import ndtri
from scipy.stats import beta

from sfumato.errors import InputError

Floats = NDArray[np.float64]
Score = Callable[[Floats, Floats], Floats]

CONFIDENCE = 1 - 1e-6
MOST_THRESHOLDS = 1000


def epsilon_lower_bound(
    inside: ArrayLike, outside: ArrayLike, delta: float = 0.0, confidence: float = CONFIDENCE
) -> float:
    """Certify a lower bound of epsilon from samples of one statistic under two neighbouring data sets.

    Parameters
    ----------
    inside, outside : array-like
        Independent samples of the statistic under the one and the other data set, of any sizes; infinities are allowed.
    delta : float
        The delta of the claim.
    confidence : float
        Probability with which the bound holds.

    Returns
    -------
    float
        0 where nothing can be certified.

    Examples
    --------
    An answer that is right with probability 3/4 has epsilon = log 3 = 1.0986:

    >>> says_yes = np.arange(80_000) % 4 > 0
    >>> round(epsilon_lower_bound(says_yes, ~says_yes), 2)
    1.04
    """
    if not 0 <= delta < 1:
        raise InputError(f"delta must be a number from 0 to below 1, got {delta!r}")

    def score(low: Floats, high: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(low - delta, 0.0)) - np.log(high))

    return _certify(inside, outside, score, confidence)


def mu_lower_bound(inside: ArrayLike, outside: ArrayLike, confidence: float = CONFIDENCE) -> float:
    """Certify a lower bound of mu, the parameter of Gaussian DP.

    Parameters
    ----------
    inside, outside : array-like
        Independent samples of the statistic under the one and the other data set.
    confidence : float
        Probability with which the bound holds.

    Returns
    -------
    float
        0 where nothing can be certified.

    Examples
    --------
    >>> from scipy.special import ndtri
    >>> noise = np.random.default_rng(0).permutation(ndtri((np.arange(80_000) + 0.5) / 80_000))
    >>> round(mu_lower_bound(noise + 1, noise), 1)
    0.9
    """
    return _certify(inside, outside, lambda low, high: np.asarray(ndtri(low) - ndtri(high)), confidence)


def exact_epsilon(log_p: ArrayLike, log_q: ArrayLike, delta: float = 0.0) -> float:
    """Epsilon of a pair of output laws that are known exactly.

    Parameters
    ----------
    log_p, log_q : array-like
        Logarithms of the outputs' probabilities under neighbouring data sets, outputs along the last axis; several
        pairs of data sets may be stacked before it. For delta = 0 a common factor may be left out.
    delta : float
        For delta = 0 the result is the largest absolute log ratio; else the smallest epsilon of that delta.

    Returns
    -------
    float
        Infinite if an output of more than delta is possible under one data set only.

    Examples
    --------
    >>> round(exact_epsilon(np.log([0.75, 0.25]), np.log([0.25, 0.75])), 4)
    1.0986
    """
    low, high = np.asarray(log_p, dtype=np.float64), np.asarray(log_q, dtype=np.float64)
    possible = np.maximum(low, high) > -np.inf
    with np.errstate(invalid="ignore"):  # outputs that are possible under neither
        largest = float(np.max(np.abs(low - high), initial=0.0, where=possible))
    if not delta:
        return largest
    p, q = np.exp(low), np.exp(high)
    if _hockey_stick(p, q, 0.0) <= delta:
        return 0.0
    top = min(largest, 700.0)  # e^epsilon overflows beyond
    if _hockey_stick(p, q, top) > delta:
        return largest
    return float(brentq(lambda epsilon: _hockey_stick(p, q, epsilon) - delta, 0.0, top, xtol=1e-10))


def exact_delta(log_p: ArrayLike, log_q: ArrayLike, epsilon: float) -> float:
    """Delta at a given epsilon of a pair of output laws that are known exactly.

    Parameters
    ----------
    log_p, log_q : array-like
        Logarithms of the outputs' probabilities, outputs along the last axis.
    epsilon : float
        At least 0.

    Returns
    -------
    float
        The sum over outputs of max(0, p - e^epsilon q), in the worse order of the two laws, of the worst pair.

    Examples
    --------
    >>> round(exact_delta(np.log([0.75, 0.25]), np.log([0.25, 0.75]), np.log(2)), 4)
    0.25
    """
    return _hockey_stick(np.exp(np.asarray(log_p, np.float64)), np.exp(np.asarray(log_q, np.float64)), epsilon)


def _hockey_stick(p: Floats, q: Floats, epsilon: float) -> float:
    factor = math.exp(epsilon)
    forth, back = np.maximum(p - factor * q, 0.0).sum(axis=-1), np.maximum(q - factor * p, 0.0).sum(axis=-1)
    return float(np.max(np.maximum(forth, back), initial=0.0))


@dataclass(frozen=True)
class _Counts:
    """How many of `total` samples fall into each of some events."""

    hits: NDArray[np.int64]
    total: int

    def lower(self, miss: float) -> Floats:
        """Clopper-Pearson lower bounds of the events' probabilities, each wrong with probability `miss` at most."""
        return np.where(self.hits > 0, beta.ppf(miss, np.maximum(self.hits, 1), self.total - self.hits + 1), 0.0)

    def upper(self, miss: float) -> Floats:
        """Clopper-Pearson upper bounds."""
        missed = self.total - self.hits
        return np.where(missed > 0, beta.isf(miss, self.hits + 1, np.maximum(missed, 1)), 1.0)


def _certify(inside: ArrayLike, outside: ArrayLike, score: Score, confidence: float) -> float:
    """Choose the event of highest score on the first halves and return its score on the second halves, at least 0."""
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be a number between 0 and 1, got {confidence!r}")
    samples = _checked(inside, "inside"), _checked(outside, "outside")
    halves = [(values[: values.size // 2], values[values.size // 2 :]) for values in samples]
    choosing, judging = [half[0] for half in halves], [half[1] for half in halves]
    if not choosing[0].size or not choosing[1].size:
        return 0.0
    miss = (1 - confidence) / 2  # one half for either probability
    thresholds = _thresholds(np.concatenate(choosing))
    best: tuple[float, int, int, float] = (0.0, 0, 0, 0.0)
    for direction in (1, -1):
        for order in (0, 1):
            high, low = (_count(choosing[side], thresholds, direction) for side in (order, 1 - order))
            scores = score(high.lower(miss), low.upper(miss))
            at = int(np.argmax(scores))
            best = max(best, (float(scores[at]), direction, order, float(thresholds[at])))
    _, direction, order, threshold = best
    if not direction:
        return 0.0
    high, low = (_count(judging[side], np.array([threshold]), direction) for side in (order, 1 - order))
    return max(0.0, float(score(high.lower(miss), low.upper(miss))[0]))


def _checked(values: ArrayLike, name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or np.isnan(array).any():
        raise InputError(f"{name} must be a list of numbers, one for each run of the mechanism, none of them NaN")
    return array


def _thresholds(values: Floats) -> Floats:
    """Choose values to cut at: all of them or, of many, some of all ranks, densest at both ends."""
    distinct = np.unique(values)
    last = distinct.size - 1
    if last < MOST_THRESHOLDS:
        return distinct
    tail = np.geomspace(1, last, MOST_THRESHOLDS // 4).astype(np.int64) - 1
    ranks = np.concatenate([tail, np.linspace(0, last, MOST_THRESHOLDS // 4).astype(np.int64)])
    return np.asarray(distinct[np.unique([ranks, last - ranks])])


def _count(values: Floats, thresholds: Floats, direction: int) -> _Counts:
    """Count the values at or above (direction 1), or at or below (-1), each threshold."""
    ordered = np.sort(values)
    if direction > 0:
        return _Counts(values.size - np.searchsorted(ordered, thresholds, side="left"), values.size)
    return _Counts(np.searchsorted(ordered, thresholds, side="right"), values.size)


STEPS = 1 << 13  # over the losses of one view


@dataclass(frozen=True)
class Views:
    """Independent views of neighbours, each with the same two laws.

    Attributes
    ----------
    log_p, log_q : ndarray, shape (pairs, views)
        Logarithms of the probabilities of every view under neighbours; several pairs of neighbours one above the other.
    times : int
        How many views are seen.

    Examples
    --------
    Two coins that fall rightly with probability 3/4:

    >>> answers = Views(np.log([[0.75, 0.25]]), np.log([[0.25, 0.75]]), times=2)
    >>> round(answers.epsilon(0.0), 3), round(answers.epsilon(0.355), 3)
    (2.197, 1.2)
    """

    log_p: Floats
    log_q: Floats
    times: int = 1

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon for this delta, or a little less."""
        return max(self._epsilon(p, q, delta) for p, q in self._orders())

    def _orders(self) -> Iterator[tuple[Floats, Floats]]:
        for p, q in zip(self.log_p, self.log_q, strict=True):
            yield p, q
            yield q, p

    def _epsilon(self, log_p: Floats, log_q: Floats, delta: float) -> float:
        here = log_p > -np.inf
        probabilities, losses = np.exp(log_p[here]), log_p[here] - log_q[here]
        finite = np.isfinite(losses)
        certain = float(probabilities[~finite].sum())  # views that are possible under P alone
        missing = 1 - (1 - certain) ** self.times
        if not delta:
            return np.inf if certain else self.times * float(losses.max())
        if missing > delta:
            return np.inf
        law, losses = self._composed(probabilities[finite], losses[finite])

        def excess(epsilon: float) -> float:
            above = losses > epsilon
            return missing + float((law[above] * -np.expm1(epsilon - losses[above])).sum()) - delta

        return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, float(losses[-1])))

    def _composed(self, probabilities: Floats, losses: Floats) -> tuple[Floats, Floats]:
        """Law of the sum of all views' losses, and the losses."""
        low = float(losses.min())
        step = max((float(losses.max()) - low) / STEPS, 1e-12)
        steps = np.floor((losses - low) / step + 1e-9).astype(np.int64)
        law = one = np.bincount(steps, probabilities).astype(np.float64)
        for _ in range(self.times - 1):
            law = np.maximum(fftconvolve(law, one), 0.0)
        return law, np.asarray(self.times * low + step * np.arange(len(law)), dtype=np.float64)
