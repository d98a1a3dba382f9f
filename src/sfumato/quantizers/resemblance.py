"""Whether records resemble the landmarks, as far as a release shows it; that is post-processing.

Held-out public points say how large the bias of an answer is for records like them. A release lets that be checked: the
released mean of the features f is compared with the landmarks' own, D = |mean f - reference|^2 less the noise's part,
against E, the sampling error of a mean over so many landmarks.

- Up to 3 E the records count as resembling the landmarks, and the bias is the one of held-out public points.
- Beyond, it is sqrt(D / E) times as large: as if the directions that the features do not see differed from the
  landmarks as much as those that they see.
- If the released mean residual exceeds that of held-out public points by more than chance, records lie where the
  features do not reach. A count that is off moves all means by the same share, 1 in expectation with the count's
  variance; the mean of f along the reference shows it too, with the variance of the noise and of the landmarks'
  choice, and falls short where records lie elsewhere. The mean of both, weighted by their variances, is taken off,
  so that what is left is 0 for records like the landmarks and not for others, however noisy the count is. And if the
  noise, or a reference hardly larger than its own sampling error, leaves the comparison no power, nothing speaks for
  resemblance. In both cases there is no limit but the one that holds for any records.

No test sees records that agree with the public ones in every released number and still crowd together outside the
features; only `LandmarkQuantizer.bias_bound` covers those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.errors import InputError
from sfumato.public.codec import Documented, Real, Schema
from sfumato.quantizers.base import Floats
from sfumato.quantizers.nystrom import Estimate, Spectrum

# Noise and count beyond so many standard deviations: below 1 in 2,000 each, for Laplace noise.
CONFIDENT = 5.0
AGREEMENT = 3.0
# The reference must be larger than what would count as agreement.
POWER = 0.5


@dataclass(frozen=True)
class Resemblance(Documented):
    """What is known of records that resemble the landmarks, from held-out public points.

    Attributes
    ----------
    bias_share : float
        Mean square of the completed answer's bias at y, divided by 1 - |g(y)|^2.
    residual, residual_error : float
        Mean of 1 - |f|^2 and its standard error.
    spread : float
        E of the module's text.
    """

    bias_share: float
    residual: float
    residual_error: float
    spread: float

    schema = Schema(**dict.fromkeys(("bias_share", "residual", "residual_error", "spread"), Real(0.0, 1e12)))

    @classmethod
    def of(cls, estimate: Estimate, spectrum: Spectrum) -> Resemblance:
        """Take the figures of an estimate."""
        share = estimate.bias**2 / max(estimate.residual, 1e-6)
        return cls(share, estimate.residual, estimate.residual_error, spectrum.spread(estimate.rank))

    def __post_init__(self) -> None:
        if not all(isinstance(value, float) and 0 <= value < math.inf for value in vars(self).values()):
            raise InputError("the figures of resemblance must be finite and not negative")

    def inflation(
        self, mean: Floats, reference: Floats, residual: float, noise: float, count_share: float, along: float = 0.0
    ) -> float:
        """Tell how many times larger than on held-out public points the bias may be; infinite if nothing limits it.

        Parameters
        ----------
        mean, reference : ndarray, shape (rank,)
            The released mean of f, and the landmarks' own.
        residual : float
            The released mean of 1 - |f|^2.
        noise : float
            Variance of the noise on one coordinate of either.
        count_share : float
            Variance of the count over its square.
        along : float
            Variance of the landmarks' mean of f along its own direction.

        Examples
        --------
        >>> expected = Resemblance(bias_share=1e-7, residual=0.9, residual_error=0.01, spread=1e-4)
        >>> expected.inflation(np.array([0.2, 0.0]), np.array([0.2, 0.01]), 0.9, 1e-9, 0.0)
        1.0
        >>> expected.inflation(np.array([0.2, 0.0]), np.array([0.2, 0.01]), 0.99, 1e-9, 0.0)
        inf
        """
        seen, strength = float(np.square(mean - reference).sum()), float(np.square(reference).sum())
        slack, spread = _slack(len(mean), noise, seen), max(self.spread + count_share * strength, 1e-300)
        if AGREEMENT * spread + slack > POWER * strength:
            return math.inf
        error = (along + noise) / strength
        weight = count_share / (count_share + error) if count_share else 0.0
        share = 1 + weight * (float(mean @ reference) / strength - 1)
        by_chance = math.hypot(math.sqrt(noise), math.sqrt(weight * error) * self.residual, self.residual_error)
        if residual - share * self.residual > CONFIDENT * by_chance:
            return math.inf
        excess = (seen - len(mean) * noise) / spread
        return 1.0 if excess <= AGREEMENT + slack / spread else math.sqrt(excess)


def can_be_shown(spread: float, strength: float, rank: int, noise: float, count_share: float) -> bool:
    """Tell from public facts whether a release of records that resemble the landmarks would show it.

    Parameters
    ----------
    spread, strength : float
        E of the module's text, and the squared length of the reference.
    rank, noise, count_share
        As in `Resemblance.inflation`.
    """
    expected = spread + count_share * strength
    return AGREEMENT * expected + _slack(rank, noise, expected + rank * noise) <= POWER * strength


def _slack(rank: int, noise: float, seen: float) -> float:
    """Two standard deviations of the noise's part in a squared difference.

    Laplace noise has a fourth moment of 6 squared variances; Gaussian noise has less.
    """
    return 2 * math.sqrt(5 * rank * noise * noise + 4 * noise * seen)
