"""What a release reveals, described apart from what it costs: pure parts, Gaussian parts, and what is off by a little.

An (epsilon, delta) is one point of a mechanism's privacy curve, and points add up badly. A `Loss` keeps the whole
curve: the epsilons of the pure parts, the squared signal-to-noise ratio of the Gaussian parts (which add up exactly),
the distance of the noise as drawn from the ideal noise, and a probability of failure. `privacy.accounting` prices it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import InputError
from sfumato.privacy.guarantee import promised_epsilon
from sfumato.public.codec import Documented, Many, Ratio, Real, Schema

LARGEST_MU_SQUARED = 10**6
MOST_PARTS = 2**20
_LARGEST_EXPONENT = 700.0  # exp of more overflows; nothing that large fits any budget


@dataclass(frozen=True, kw_only=True)
class Loss(Documented):
    """What one release, or several together, reveal about one unit.

    Parameters
    ----------
    pure : tuple of Fraction
        Epsilons of the parts that are pure.
    mu_squared : Fraction
        Sum of (l2 sensitivity / sigma)^2 over the parts with Gaussian noise; exact.
    distance : float
        Upper bound of the total variation distance between what is drawn and the pure and Gaussian parts above. It
        costs (1 + exp(epsilon)) times itself in delta; the distances of several releases add up, and are therefore
        stored rather than that product.
    failure : float
        Probability with which the limit may fail altogether; a mechanism known only by (epsilon, delta) is
        ``Loss(pure=(epsilon,), failure=delta)``.

    Examples
    --------
    >>> count = Loss(pure=(Fraction(1, 20),))
    >>> features = Loss(mu_squared=Fraction(1, 16), distance=1e-13)
    >>> (count + features + features).mu_squared
    Fraction(1, 8)
    """

    schema = Schema(
        pure=Many(Ratio(positive=True), MOST_PARTS),
        mu_squared=Ratio(),
        distance=Real(0.0, 1.0),
        failure=Real(0.0, 1.0),
    )

    pure: tuple[Fraction, ...] = ()
    mu_squared: Fraction = Fraction(0)
    distance: float = 0.0
    failure: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "pure", tuple(promised_epsilon(epsilon) for epsilon in self.pure))
        if not isinstance(self.mu_squared, int | Fraction) or not 0 <= self.mu_squared <= LARGEST_MU_SQUARED:
            raise InputError(
                f"mu_squared must be a fraction from 0 to {LARGEST_MU_SQUARED}, got {str(self.mu_squared)[:40]!r}"
            )
        object.__setattr__(self, "mu_squared", Fraction(self.mu_squared))
        for name in ("distance", "failure"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise InputError(f"{name} must be a probability from 0 to 1, got {value!r}")
            object.__setattr__(self, name, float(value))

    def __add__(self, other: Loss) -> Loss:
        """Loss of both on the same data."""
        return Loss(
            pure=self.pure + other.pure,
            mu_squared=self.mu_squared + other.mu_squared,
            distance=min(1.0, float(decimal_fraction(self.distance) + decimal_fraction(other.distance))),
            failure=min(1.0, float(decimal_fraction(self.failure) + decimal_fraction(other.failure))),
        )

    def slack_at(self, epsilon: float) -> float:
        """Delta at `epsilon` that is owed to distance and failure, whatever the pure and Gaussian parts cost."""
        return self.failure + (1 + math.exp(min(epsilon, _LARGEST_EXPONENT))) * self.distance

    def delta_at(self, epsilon: Fraction) -> float:
        """Delta at `epsilon` if the pure epsilons are simply subtracted first: an upper bound.

        Examples
        --------
        >>> loss = Loss(pure=(Fraction(1, 20),), mu_squared=Fraction(1, 16))
        >>> loss.delta_at(Fraction(1, 20)) == gaussian_delta(4.0, 0.0)
        True
        >>> loss.delta_at(Fraction(1, 30))
        1.0
        """
        rest = epsilon - sum(self.pure)
        if rest < 0:
            return 1.0
        if not self.mu_squared:
            return self.slack_at(float(rest))
        # Never 0, not even where floats cannot tell: no Gaussian noise is pure.
        gaussian = max(gaussian_delta(1 / math.sqrt(self.mu_squared), float(rest)), math.ulp(0.0))
        return gaussian + self.slack_at(float(rest))


def gaussian_delta(multiplier: float, epsilon: float) -> float:
    """Return the smallest delta of Gaussian noise of `multiplier` standard deviations per unit of sensitivity.

    Examples
    --------
    >>> round(gaussian_delta(4.22, 1.0) * 1e6, 2)
    1.02
    """
    from scipy.special import log_ndtr, ndtr  # a ledger of pure charges does without it

    half, level = 0.5 / multiplier, epsilon * multiplier
    return float(ndtr(half - level) - math.exp(epsilon + log_ndtr(-half - level)))


def decimal_fraction(value: float) -> Fraction:
    """Return a float as the decimal that it is written as, so that three times 1e-5 is 3e-5."""
    return Fraction(repr(value))
