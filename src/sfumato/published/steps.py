"""The two private steps of the mechanisms that learn as they go: choose among candidates, and measure one number.

Choosing is the exponential mechanism (F. McSherry and K. Talwar, 2007) on integer scores, exactly: a candidate drawn
uniformly is taken with probability exp(-rate (best - score)), and another is drawn if it is not, so that Pr[i] is
proportional to exp(rate score_i). The coin is an exact geometric variable of that rate, which is at least m with
probability exp(-rate m). Nothing is rounded. Scores lie within 2^62 of 0, so that their differences fit 64 bits.

Guarantee. If neighbours change every score by at most D, Pr[i] changes by at most exp(2 rate D) =: exp(e). Adding one
number to all scores changes nothing, so the log ratio of any two outputs' probabilities moves by at most 2 rate D in
all: the mechanism has bounded range, and is e^2 / 8-zCDP (M. Cesar and R. Rogers, "Bounding, Concentrating, and
Truncating", 2021). Measuring adds discrete Laplace noise of rate e / D, which is e-DP, or discrete Gaussian noise of
standard deviation sigma, which is D^2 / (2 sigma^2)-zCDP (`privacy.noise`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from scipy.special import logsumexp

from sfumato.privacy.bits import SecureBits
from sfumato.privacy.laws import NoiseLaw
from sfumato.privacy.noise import geometric, wrapped
from sfumato.quantizers.base import Floats, Integers

FIRST_TRIES = 64
MOST_TRIES = 1 << 18


class Steps(Protocol):
    """Where an algorithm takes its random steps."""

    def choose(self, scores: Integers, rate: Fraction) -> int:
        """Choose i with probability proportional to exp(rate * scores[i])."""
        ...

    def measure(self, value: int, law: NoiseLaw) -> int:
        """Add noise to a number."""
        ...


@dataclass(frozen=True)
class SecretSteps:
    """Steps with secret coins.

    Examples
    --------
    >>> SecretSteps(SecureBits.seeded(1)).choose(np.array([0, 1000, 3]), Fraction(1))
    1
    """

    bits: SecureBits

    def choose(self, scores: Integers, rate: Fraction) -> int:
        """Choose i with probability proportional to exp(rate * scores[i])."""
        lag = scores.max() - scores
        tries = FIRST_TRIES
        while True:
            candidates = self.bits.below(len(scores), tries)
            taken = np.flatnonzero(geometric(self.bits, tries, rate) >= lag[candidates])
            if len(taken):
                return int(candidates[taken[0]])
            tries = min(2 * tries, MOST_TRIES)

    def measure(self, value: int, law: NoiseLaw) -> int:
        """Add noise to a number."""
        return wrapped(value + int(law.sample(self.bits, 1)[0]))


def log_law(scores: Integers, rate: Fraction) -> Floats:
    """Logarithms of the probabilities with which `choose` takes each candidate.

    Examples
    --------
    >>> np.exp(log_law(np.array([0, 1]), Fraction(1))).round(4)
    array([0.2689, 0.7311])
    """
    exponents = float(rate) * (scores - scores.max())
    return np.asarray(exponents - logsumexp(exponents))
