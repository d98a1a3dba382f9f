"""Several bandwidths, kernels or rules compared on the private points under one guarantee: in cross-validation's place.

Criterion: least-squares cross-validation (Rudemo 1982, Bowman 1984). With K the kernel divided by its integral I, the
integrated squared error of a density estimate is, up to what all candidates share and in expectation,

    J = R(K) / n + E[(K*K)(x, y) - 2 K(x, y)],   R(K) = (K*K)(0),

over pairs of different records, and private answers add V (s / I)^2 where s is the predicted noise of one answer and V
the volume of the bounds; the last term and R(K) / n are public.

Mechanism. Every record falls, by a secret coin of its own, into one of n_hint groups, of which at most 65,536 are kept.
A group of exactly two records adds to each candidate's sum the integer rint(512 ((K*K) - 2 K) I), and 512 to one more
sum, which counts pairs; any other group adds nothing. All sums are released with discrete Laplace noise, and candidates
are compared by the noisy sums alone.

Guarantee. ((K*K) - 2 K) I lies between c - 2 and c, c = (K*K)(0) I <= 1, so that an integer is at most
b = rint(512 (2 - c)) in size, which a clamp enforces. Given the coins, adding a record changes one group: its pair
appears, disappears, or nothing changes (`statistics`). So all sums together change by L = 512 + sum of b in l1;
averaging over the coins keeps that, and noise of rate epsilon / L is epsilon-DP for any number of candidates. A record
that takes another's place takes its coin too, so that one group changes: its pair appears or disappears (L), or stays a
pair with other integers. These are clamped from -b to t = 512 c / 8, rounded up (Gaussians have at most c^2 / 8), and
change by at most the sum of b + t: replacing costs the larger of the two. The choice is post-processing, and one charge
covers it. With rules of thumb among the candidates, half of epsilon buys the columns' histograms first (`private`):
they add up.

Variance. A noisy mean M over m pairs has variance (1 + M^2) 2 / (rate 512 m)^2: m is noisy too. Beside it stands the
sampling of pairs. Where the density is flat across a kernel, (K*K - 2 K) I has the mean -I and the mean square I times
at most 1.02 (a Gaussian in one column), so that its variance is about the size of its mean at most; of a mean that
noise hides it is known that less than one pair was near. Narrow candidates have the most of both, in units of a
density, and would win by it: the choice is by the score plus two deviations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.bandwidth.private import Purchase, opened
from sfumato.bandwidth.public import RULES
from sfumato.bandwidth.statistics import MOST_GROUPS, PAIRS_PER_RECORD, ColumnSpreads, placed
from sfumato.central.curator import Payer, account_of
from sfumato.central.survey import look_at
from sfumato.engines import Engine, engine_of
from sfumato.errors import InputError
from sfumato.kernels import Gaussian, Kernel, Laplacian, get_kernel
from sfumato.methods.plan import plan
from sfumato.privacy.bits import SecureBits, noise_bits
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.loss import Charge
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.public.arguments import listed
from sfumato.public.codec import brief
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import whole_within
from sfumato.sources import Source

SEARCH = "bandwidth-search"
UNIT = 512
FARTHEST_EXPONENT = 600.0
WORST_NOISE = 0.5  # of a kernel's height: beyond, sums of pairs tell nothing

Candidate = Gaussian | Laplacian


@dataclass(frozen=True)
class Scored:
    """A candidate with what it was found to be worth.

    Attributes
    ----------
    kernel : Kernel
        The candidate, with its bandwidth.
    score, error : float
        The noisy criterion, smaller is better, in units that all candidates share, and its deviation: noise and pairs.
    """

    kernel: Kernel
    score: float
    error: float


@dataclass(frozen=True)
class BandwidthSearch:
    """The candidates, compared and paid for; public.

    Attributes
    ----------
    candidates : tuple of Scored
        The best first.
    guarantee : Guarantee
        What all of it together promises to every record.
    charge : Charge or None
        The entry in the ledger, if there is one.
    """

    candidates: tuple[Scored, ...]
    guarantee: Guarantee
    charge: Charge | None = None

    @property
    def kernel(self) -> Kernel:
        """The best candidate: pass it to `PrivateKDE`."""
        return self.candidates[0].kernel

    @property
    def bandwidth(self) -> float | tuple[float, ...]:
        """The best candidate's bandwidth."""
        found = self.kernel.bandwidth
        return tuple(found.tolist()) if isinstance(found, np.ndarray) else float(found or 0.0)

    def to_document(self) -> dict[str, Any]:
        """Return the public facts as JSON values."""
        rows = [
            {"kernel": each.kernel.to_document(), "score": each.score, "error": each.error} for each in self.candidates
        ]
        lengths = list(self.bandwidth) if isinstance(self.bandwidth, tuple) else self.bandwidth
        return {"bandwidth": lengths, "candidates": rows, "guarantee": self.guarantee.to_document()}


@dataclass(frozen=True)
class PairScores:
    """Sums over secret pairs, one a candidate and the number of pairs last; see the module's text."""

    box: Box
    kernels: tuple[Candidate, ...]
    n: int

    @property
    def bounds(self) -> Integers:
        """Largest size of a pair's integers."""
        heights = [own_height(kernel, self.box.dimension) for kernel in self.kernels]
        return np.array([round(UNIT * (2 - height)) for height in heights] + [UNIT], dtype=np.int64)

    @property
    def tops(self) -> Integers:
        """Largest integers of a pair, one a candidate."""
        heights = [own_height(kernel, self.box.dimension) for kernel in self.kernels]
        return np.array([math.ceil(UNIT * height / 8) for height in heights], dtype=np.int64)

    def l1(self, neighbours: str) -> int:
        """Most that one record changes all sums together."""
        appears = int(self.bounds.sum())
        return max(appears, int((self.bounds[:-1] + self.tops).sum())) if neighbours == "replace" else appears

    @property
    def pairs(self) -> float:
        """Expected number of pairs."""
        return PAIRS_PER_RECORD * min(self.n, MOST_GROUPS)

    def count(self, engine: Engine, source: Source, bits: SecureBits) -> Integers:
        """Exact sums over the pairs that the coins make."""
        kept = min(self.n, MOST_GROUPS)
        sizes, members = np.zeros(kept, dtype=np.int64), np.zeros((2, kept, self.box.dimension))
        for batch in engine.rows(source):
            rows = placed(batch, self.box)
            groups = bits.below(self.n, len(rows))
            for row, group in zip(rows[groups < kept], groups[groups < kept].tolist(), strict=True):
                if sizes[group] < 2:
                    members[sizes[group], group] = row
                sizes[group] += 1
        # All groups are computed, in their places, so that no pair's integers move with another's being there.
        differences = np.abs(members[0] - members[1])
        limits = zip(self.kernels, self.bounds.tolist()[:-1], self.tops.tolist(), strict=True)
        numbers = [self._integers(kernel, differences, -most, top) for kernel, most, top in limits]
        table = np.stack([*numbers, np.full(kept, UNIT, dtype=np.int64)])
        return np.asarray(table @ (sizes == 2).astype(np.int64))

    def _integers(self, kernel: Candidate, differences: Floats, least: int, most: int) -> Integers:
        scaled = differences / kernel.column_scales(self.box.dimension)
        return whole_within(np.rint(UNIT * (convolved(kernel, scaled) - 2 * height(kernel, scaled))), least, most)


def height(kernel: Candidate, scaled: Floats) -> Floats:
    """Kernel values of differences in bandwidths, one row a pair."""
    return np.asarray(np.exp(-(scaled**2 if isinstance(kernel, Gaussian) else scaled).sum(axis=1)))


def convolved(kernel: Candidate, scaled: Floats) -> Floats:
    """Return the kernel's convolution with itself, over its integral.

    Examples
    --------
    >>> import numpy as np
    >>> convolved(Gaussian(1.0), np.zeros((1, 2))), convolved(Laplacian(1.0), np.zeros((1, 2)))
    (array([0.5]), array([0.25]))
    """
    if isinstance(kernel, Gaussian):
        return np.asarray(2.0 ** (-scaled.shape[1] / 2) * np.exp(-(scaled**2).sum(axis=1) / 2))
    return np.asarray(np.prod((1 + scaled) / 2 * np.exp(-scaled), axis=1))  # each at most 1/2: nothing overflows


def own_height(kernel: Candidate, dimension: int) -> float:
    """Return the convolution at 0."""
    return float(2.0 ** (-dimension / 2) if isinstance(kernel, Gaussian) else 2.0**-dimension)


def search(
    X: Any,
    candidates: Sequence[Any],
    *,
    epsilon: Any,
    bounds: Any,
    n_hint: int,
    release_epsilon: Any = None,
    kernel: str = "gaussian",
    neighbours: str = "add-remove",
    outside: str = "clip",
    ledger: Payer = None,
    random_state: int | None = None,
    engine: Engine | str | None = None,
    look: bool = False,
) -> BandwidthSearch:
    """Compare candidates on the private points, and choose: one guarantee and one charge for all of it.

    Parameters
    ----------
    X : array, data frame, path or source
        The private points.
    candidates : sequence
        Bandwidths (a number, or one a column), kernels (`Gaussian` or `Laplacian` with lengths), and rules of thumb
        ("scott", "silverman"), chosen without looking at the points.
    epsilon : float, str or Fraction
        What the comparison costs; the release that follows is paid for apart.
    bounds, n_hint, neighbours, outside, ledger, random_state, engine, look
        As in `private`.
    release_epsilon : float, str or Fraction, optional
        Epsilon of the release to come: the noise that it will have is part of the criterion. Without it the estimate
        that has no noise is judged, which suits smaller bandwidths.
    kernel : {"gaussian", "laplacian"}
        The kernel of candidates that are bandwidths.

    Returns
    -------
    BandwidthSearch

    Examples
    --------
    >>> import numpy as np
    >>> points = np.random.default_rng(0).normal(size=(20_000, 2))
    >>> found = search(points, [0.01, 0.5, 8.0], epsilon=1, bounds=(-8, 8), n_hint=20_000, random_state=1)
    >>> found.bandwidth
    0.5
    """
    source, box, total, n = opened(X, epsilon, n_hint, neighbours, bounds, outside)
    candidates = listed("candidates", candidates)
    rules = [each for each in candidates if isinstance(each, str)]
    fixed = [_checked(each, kernel, source.dimension) for each in candidates if not isinstance(each, str)]
    if not fixed and not rules:
        raise InputError("there are no candidates: pass bandwidths, kernels, 'scott' or 'silverman'")
    if unknown := [rule for rule in rules if rule not in RULES]:
        raise InputError(f"candidates are bandwidths, kernels, 'scott' or 'silverman'; got {brief(unknown[0])}")
    if rules and not source.repeatable:
        raise InputError("rules of thumb read the data twice, and this source can be read once")
    purchase = Purchase(box, n, None, rules[0] if rules else "scott", Gaussian.name, total, neighbours)
    share = total / 2 if rules else total
    blank = PairScores(box, (*fixed, *(Gaussian(1.0) for _ in rules)), n)
    _check_noise(blank, law(blank, share, neighbours))
    if release_epsilon is not None:  # what a plan refuses is refused while nothing is charged
        for each in blank.kernels:
            _release_noise(each, blank, release_epsilon)
    half, spreads = replace(purchase, epsilon=share), ColumnSpreads(box, "scott", n)
    rules_noise = half.law(spreads)
    account = account_of(ledger, X)
    if account is not None:
        account.check(total, neighbours=neighbours)
    if look:
        look_at(source, box)
    bits, chosen, charge = noise_bits(random_state), engine_of(engine, source=source), None
    kernels = (*fixed,)
    if rules:
        counts = spreads.count(chosen, source, bits)
        charge = None if account is None else account.charge(SEARCH, total, neighbours=neighbours)
        noisy, spread = counts + rules_noise.sample(bits, counts.size), math.sqrt(rules_noise.variance)
        kernels += tuple(Gaussian(replace(spreads, rule=rule).read(noisy, spread)) for rule in rules)
    scores = PairScores(box, kernels, n)
    counts, noise = scores.count(chosen, source, bits), law(scores, share, neighbours)
    if account is not None and charge is None:
        charge = account.charge(SEARCH, total, neighbours=neighbours)
    noisy = counts + noise.sample(bits, counts.size)
    compared = judged(scores, noisy, math.sqrt(noise.variance), release_epsilon)
    return BandwidthSearch(compared, purchase.guarantee(bits.private), charge)


def law(scores: PairScores, epsilon: Fraction, neighbours: str) -> DiscreteLaplace:
    """Noise on each sum."""
    return DiscreteLaplace(epsilon / scores.l1(neighbours))


def judged(scores: PairScores, noisy: Integers, deviation: float, release_epsilon: Any) -> tuple[Scored, ...]:
    """Read the criterion off the noisy sums, the best candidate first; total, whatever they are."""
    d, n = scores.box.dimension, scores.n
    pairs = max(float(noisy[-1]) / UNIT, deviation / UNIT, 1.0)
    integrals = [kernel.log_integral(d) for kernel in scores.kernels]
    least = min(integrals)  # scores are in units of the narrowest candidate's height
    log_volume = float(np.log(2 * scores.box.half_widths).sum())
    found = []
    for kernel, total, integral in zip(scores.kernels, noisy[:-1].tolist(), integrals, strict=True):
        unit = math.exp(max(least - integral, -FARTHEST_EXPONENT))
        mean = total / (UNIT * pairs) * (1 - 1 / n)
        score = unit * (mean + own_height(kernel, d) / n)
        noise = deviation / UNIT * math.hypot(1.0, mean)
        error = math.hypot(noise, math.sqrt(max(-mean * pairs, 1.0))) / pairs
        if release_epsilon is not None:
            try:
                spread = _release_noise(kernel, scores, release_epsilon)
            except InputError:  # a length that a rule read off noise, of which there is no release
                spread = math.inf
            score += unit**2 * spread**2 * math.exp(min(log_volume - least, FARTHEST_EXPONENT))
        found.append(Scored(kernel, score, unit * error))
    return tuple(sorted(found, key=lambda each: each.score + 2 * each.error))


def _release_noise(kernel: Candidate, scores: PairScores, epsilon: Any) -> float:
    """Predicted error of an answer far from all records."""
    box = scores.box
    bounds = list(zip(box.lower, box.upper, strict=True))
    made = plan(n_hint=scores.n, dimension=box.dimension, epsilon=epsilon, kernel=kernel, bounds=bounds)
    return made.error_at(0.0)


def _checked(candidate: Any, name: str, dimension: int) -> Candidate:
    made = candidate if isinstance(candidate, Kernel) else get_kernel(name, candidate)
    if not isinstance(made, Gaussian | Laplacian) or not made.separable:
        raise InputError(f"a search compares the kernels gaussian and laplacian with lengths, not {made!r}")
    made.column_scales(dimension)  # refuses lengths for other columns
    return made


def _check_noise(scores: PairScores, noise: DiscreteLaplace) -> None:
    """Refuse a search that noise would decide, unpaid."""
    spread = math.sqrt(noise.variance) / (UNIT * scores.pairs)
    if spread > WORST_NOISE:
        raise InputError(
            f"epsilon is too small to compare {len(scores.kernels)} candidates on {scores.n} records: noise has a "
            f"deviation of {spread:.2g} kernel heights. Pass more epsilon, or fewer candidates"
        )
