"""The loss of several independent views of one pair of neighbours, from the exact laws of a single view.

The loss of a view v is log(P(v) / Q(v)). Its law under P, on a grid of steps to which losses are rounded down, is
convolved with itself; rounding down makes the result a lower bound of the truth, by less than a step for each view.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.signal import fftconvolve

Floats = NDArray[np.float64]

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
