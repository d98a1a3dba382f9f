"""Rule "linear": a softmax classifier by a few noisy gradient steps over all records.

Source: full-batch noisy gradient descent (Song, Chaudhuri, Sarwate 2013; Bassily, Smith, Thakurta 2014) with a heavy
ball (Polyak 1964); the integers are those of `learn.softmax`.

Guarantee. Every query is a sum of records' integers under independent discrete Gaussian noise: the centre times a whole
number p (one record changes it by at most p sqrt(s^2 + b^2) in l2 norm) if it is bought, then T gradients (at most q
sqrt(s^2 + b^2)), each at weights that are a function of what was published before. A query of l2 sensitivity D under
noise of deviation sigma is (D / sigma)-Gaussian differentially private but for the lattice's distance
(`privacy.gaussian`). Adaptive composition adds up the squares (Dong, Roth, Su 2022) and the distances: T steps are one
Gaussian mechanism with mu^2 = sum (D / sigma)^2, which (epsilon, delta) fixes. Large p and q make sigma wide and the
distances small; what they take of delta is reserved, a thousandth or, at a large epsilon, more. `Loss` holds exactly
that, and the ledger is charged for all of it before the first noise is drawn. Adding or removing a record, label
included; n is private, and steps are divided by the noisy count that comes with the centre, or by n_hint.

Choices, all from public facts. Let z be the noise multiplier of one Gaussian mechanism for (epsilon, delta) and n the
hint. T steps of size a with momentum m run for the time t = a T / (1 - m). A step's noise has deviation z sqrt(T) / n,
so that noise adds at most t z / n to the score of a point of length 1, whatever T is: the time alone trades noise
against what is learnt. t = `SPREAD` n / z sets that noise to `SPREAD` = 0.8, a little less than a unit of a logit
(chosen on made-up mixtures, digits and cod-rna, where .4 to 1.6 differ little). Softmax in the unit ball with the
intercept has a curvature of at most L = (1 + 1/16) / 2, and the heavy ball is stable for a <= 2 (1 + m) / L: with m =
0.9 that leaves t <= 71 T, so T = t / 71 up to `MOST_STEPS`. Residuals are cut at length 1: those of an untrained model
have sqrt(1 - 1/K), and only records that are badly misjudged are cut.

Variance. Without records a weight's noise is a^2 sigma^2 sum_j ((1 - m^j) / (1 - m))^2 / (n s q)^2, j = 1..T, which
`weight_error` is the root of; where the loss is curved, later steps take part of it back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.engines import Engine, Progress
from sfumato.errors import InputError
from sfumato.learn.softmax import (
    INTERCEPT,
    LARGEST_SHARE,
    LARGEST_WEIGHT,
    SCALE,
    WEIGHT_BITS,
    Features,
    FeatureSums,
    Gradient,
    LinearModel,
)
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.gaussian import LARGEST_SIGMA, gaussian_multiplier, lattice_distance
from sfumato.privacy.guarantee import Guarantee, checked_delta, exact_epsilon
from sfumato.privacy.ledger import Account
from sfumato.privacy.loss import Loss
from sfumato.privacy.noise import DiscreteGaussian
from sfumato.public.ranges import MOST_RECORDS, check_budget, check_whole
from sfumato.quantizers.base import Floats, Integers
from sfumato.sources import Source

SPREAD = 0.8  # noise in a score, in units of a logit
MOMENTUM = 0.9
LARGEST_STEP = 2 * (1 + MOMENTUM) / ((1 + (INTERCEPT / SCALE) ** 2) / 2)
FEWEST_STEPS, MOST_STEPS, STEPS_ALLOWED = 10, 60, 1000
CENTER_SHARE = Fraction(1, 20)  # of mu^2
SHORTEST_RADIUS = 0.1  # of the ball's radius, however close to it the centre is
SMALLEST_SHARE = 16
RESERVED = (1e-3, 1e-2, 0.1, 0.5)  # of delta, for the lattice: the first that is enough
OPTIONS = ("steps", "center_share")
NAME = "linear"


@dataclass(frozen=True)
class Plan:
    """Steps and noise of one training, from public facts.

    Attributes
    ----------
    epsilon, delta
        The promise.
    n : int
        Public guess of the number of records.
    dimension, classes : int
        Columns and classes.
    steps : int
        T.
    center_share : Fraction
        Part of mu^2 that buys the centre; 0 for none.
    reserved : float
        Part of delta that is left to the lattice.

    Examples
    --------
    >>> plan = Plan.of(epsilon=1, delta=1e-5, n=20_000, dimension=384, classes=4, buys_center=True)
    >>> plan.steps, plan.share, round(plan.step, 2)
    (60, 4096, 7.15)
    >>> float(plan.loss.delta_at(plan.epsilon)) <= 1e-5
    True
    """

    epsilon: Fraction
    delta: float
    n: int
    dimension: int
    classes: int
    steps: int
    center_share: Fraction
    reserved: float = RESERVED[0]

    @classmethod
    def of(
        cls,
        *,
        epsilon: Any,
        delta: Any,
        n: Any,
        dimension: int,
        classes: int,
        buys_center: bool,
        options: Mapping[str, Any] | None = None,
    ) -> Plan:
        """Check the facts and choose the number of steps."""
        options = options or {}
        if unknown := sorted(set(options) - set(OPTIONS)):
            raise InputError(f"unknown option {unknown[0]!r}; rule 'linear' knows {', '.join(OPTIONS)}")
        if epsilon is None:
            raise InputError("epsilon is missing: pass epsilon=, the privacy budget of the classifier")
        if n is None:
            raise InputError("n_hint is missing: pass n_hint=, a public guess of the number of records in all")
        n = check_whole("n_hint", n, MOST_RECORDS)
        promised, delta = exact_epsilon(epsilon), checked_delta(delta)
        check_budget(promised, delta)
        if not delta:
            raise InputError("rule 'linear' adds Gaussian noise: pass delta=, or rule='nearest-mean' for a pure one")
        if classes < 2:
            raise InputError("rule 'linear' needs two classes or more")
        share = Fraction(0)
        if buys_center:
            given = options.get("center_share", CENTER_SHARE)
            share = given if isinstance(given, Fraction) else exact_epsilon(given)
            if not Fraction(1, 1000) <= share <= Fraction(1, 2):
                raise InputError(f"option center_share must lie between 0.001 and 0.5, got {float(share):g}")
        time = SPREAD * n / gaussian_multiplier(float(promised), delta)
        best = math.ceil(time * (1 - MOMENTUM) / LARGEST_STEP)
        steps = options.get("steps", max(FEWEST_STEPS, min(best, MOST_STEPS)))
        steps = check_whole("option steps", steps, STEPS_ALLOWED)
        plan = cls(promised, delta, n, dimension, classes, steps, share)
        if plan.share < SMALLEST_SHARE or (share and plan.center_scale < 1):
            raise InputError("so little budget does not fit 64-bit noise; pass a larger epsilon or delta")
        plans = (replace(plan, reserved=part) for part in RESERVED)
        return next((each for each in plans if each.covers), plan)

    @property
    def multiplier(self) -> float:
        """Deviation of one Gaussian mechanism for the whole budget, in units of its sensitivity."""
        return gaussian_multiplier(float(self.epsilon), self.delta * (1 - self.reserved))

    @property
    def step(self) -> float:
        """Size a of a step of the mean gradient, residuals in units of 1."""
        time = SPREAD * self.n / self.multiplier
        # On a grid, so that the last digits of a calibration do not reach the weights.
        return max(1, math.floor(1024 * min(time * (1 - MOMENTUM) / self.steps, LARGEST_STEP))) / 1024

    @property
    def _step_multiplier(self) -> float:
        return self.multiplier * math.sqrt(self.steps / (1 - self.center_share))

    @property
    def share(self) -> int:
        """Resolution q of the shares."""
        return _resolution(self._step_multiplier)

    @property
    def _center_multiplier(self) -> float:
        return self.multiplier / math.sqrt(self.center_share)

    @property
    def center_scale(self) -> int:
        """The number p of which the centre's sums are multiples: noise is wider, and its lattice finer, by as much."""
        return _resolution(self._center_multiplier)

    @property
    def center_noise(self) -> DiscreteGaussian:
        """Noise of the centre."""
        return _noise(self._center_multiplier, (SCALE**2 + INTERCEPT**2) * self.center_scale**2)

    @property
    def noise(self) -> DiscreteGaussian:
        """Noise of every gradient."""
        return _noise(self._step_multiplier, (SCALE**2 + INTERCEPT**2) * self.share**2)

    @property
    def loss(self) -> Loss:
        """What all queries together reveal."""
        length, sigma = SCALE**2 + INTERCEPT**2, self.noise.sigma
        mu_squared = self.steps * Fraction(length * self.share**2, sigma**2)
        distance = self.steps * lattice_distance(sigma, (self.dimension + 1) * self.classes)
        if self.center_share:
            first = self.center_noise.sigma
            mu_squared += Fraction(length * self.center_scale**2, first**2)
            distance += lattice_distance(first, self.dimension + 1)
        return Loss(mu_squared=mu_squared, distance=distance)

    @property
    def covers(self) -> bool:
        """Whether the promise covers the loss, to the last digit."""
        return bool(self.loss.delta_at(self.epsilon) <= self.delta)

    def check(self) -> None:
        """Refuse a loss that the promise does not cover."""
        if not self.covers:
            raise InputError(f"delta {self.delta:g} is too small for integer noise; pass a larger delta")

    def weight_error(self, n: int) -> float:
        """Deviation of the noise in one weight after all steps, where nothing takes it back."""
        gains = (1 - MOMENTUM ** np.arange(1, self.steps + 1)) / (1 - MOMENTUM)
        return self.step * self.noise.sigma * float(np.sqrt(np.square(gains).sum())) / (n * SCALE * self.share)


def _resolution(multiplier: float) -> int:
    """Return the scale of sums under noise: a power of two, less where little budget makes the noise too wide."""
    room = LARGEST_SIGMA / (multiplier * math.sqrt(SCALE**2 + INTERCEPT**2))
    return min(LARGEST_SHARE, 1 << max(0, math.floor(math.log2(room)))) if room >= 1 else 0


def _noise(multiplier: float, l2_squared: int) -> DiscreteGaussian:
    return DiscreteGaussian(max(2, math.ceil(multiplier * math.sqrt(l2_squared) * (1 + 1e-12))))


@dataclass(frozen=True)
class Training:
    """One training: the plan, what a point is, and the promise.

    Attributes
    ----------
    plan : Plan
        Steps and noise.
    features : Features
        Points before a centre is bought, or around a public one.
    guarantee : Guarantee
        What is promised.
    """

    plan: Plan
    features: Features
    guarantee: Guarantee

    def run(
        self,
        coded: Source,
        account: Account | None,
        bits: SecureBits,
        engine: Engine,
        progress: Progress | None = None,
        columns: tuple[str, ...] | None = None,
    ) -> LinearModel:
        """Train on coded rows: check the budget, sum, charge for the whole training, and only then draw noise."""
        if not coded.repeatable:
            raise InputError(
                "rule 'linear' reads the data once for every step, and this source can be read only once: pass an "
                "array, a table or a file, or rule='nearest-mean'"
            )
        plan, loss = self.plan, self.plan.loss
        plan.check()
        terms: dict[str, Any] = {"neighbours": self.guarantee.neighbours, "unit": self.guarantee.unit, "loss": loss}
        if account is not None:
            account.check(plan.epsilon, plan.delta, **terms)
        charged, features, n = False, self.features, plan.n
        told = None if progress is None else _spread(progress, plan.steps + bool(plan.center_share))
        weights = np.zeros((features.size, plan.classes))
        velocity = np.zeros_like(weights)

        def noisy(summand: FeatureSums | Gradient, law: DiscreteGaussian, scale: int = 1) -> Integers:
            nonlocal charged
            sums = engine.sum(coded, summand, None, told)[0]
            if account is not None and not charged:
                account.charge(f"classifier/{NAME}", plan.epsilon, plan.delta, **terms)
            charged = True
            return scale * sums + law.sample(bits, len(sums))

        if plan.center_share:
            features, n = _centred(features, noisy(FeatureSums(features), plan.center_noise, plan.center_scale), plan)
        for _ in range(plan.steps):
            sums = noisy(Gradient(features, _whole(weights), plan.share), plan.noise)
            velocity = MOMENTUM * velocity + sums.reshape(weights.shape) / (float(n) * SCALE * plan.share)
            weights = weights - plan.step * velocity
        return LinearModel(features, _whole(weights), plan.steps, plan.weight_error(n), loss, self.guarantee, columns)

    def untrained(self, columns: tuple[str, ...] | None) -> LinearModel:
        """Return a model as large as any that `run` can give, to know the size of its file."""
        plan, weights = self.plan, np.full((self.features.size, self.plan.classes), LARGEST_WEIGHT)
        return LinearModel(self.features, weights, plan.steps, 1 / 3e-100, plan.loss, self.guarantee, columns)


def _spread(progress: Progress, passes: int) -> Progress:
    """Report rows of several passes as if there were one."""
    read = 0

    def told(rows: int) -> None:
        nonlocal read
        before, read = read // passes, read + rows
        progress(read // passes - before)

    return told


def _whole(weights: Floats) -> Integers:
    """Weights in fixed point, as the gradient takes them."""
    return np.clip(np.rint(np.ldexp(weights, WEIGHT_BITS)), -LARGEST_WEIGHT, LARGEST_WEIGHT).astype(np.int64)


def _centred(features: Features, sums: Integers, plan: Plan) -> tuple[Features, int]:
    """Features around the noisy mean, of the radius that is left on average, and the noisy count.

    Records no longer than r have a mean squared distance of at most r^2 - |mean|^2 to their mean; what noise adds to
    |mean|^2 on average is known and taken off. The count is kept within 16 times the hint either way, so that a wrong
    one cannot make steps that never end.
    """
    count = float(np.clip(sums[-1] / (INTERCEPT * plan.center_scale), plan.n / 16, plan.n * 16))
    unit = count * SCALE * plan.center_scale
    mean = sums[:-1] / unit
    noise = len(mean) * plan.center_noise.variance / unit**2
    left = 1.0 - max(0.0, math.fsum(np.square(mean)) - noise)  # whatever the order of the columns
    radius = features.radius * math.sqrt(max(left, SHORTEST_RADIUS**2))
    center = features.center + np.clip(mean, -1.0, 1.0) * features.radius
    return Features(features.box, center, radius), max(1, round(count))
