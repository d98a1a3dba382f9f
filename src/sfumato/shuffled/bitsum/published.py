"""Calibrations as published: closed formulas, for comparison and for the pure guarantee.

Source: T. Wagner, "Learning from End User Data with Shuffled Differential Privacy over Kernel Densities", 2025, and the
protocols it takes up. `rr-published` and `3nb-published` split (epsilon, delta) over the instances by advanced
composition, half of delta for the composition and half for the instances, and use the formulas of Cheu et al. 2019
(Lemma 4.8, two regimes) and Ghazi et al. 2020 in each. The latter leave the constant of the
flood's rate open; here it is halved from 1 until the exact curve of one instance keeps (epsilon0, delta0). `pure` has
the parameters of Ghazi et al. 2023 for noise and dropped bits, with rho in (0, 1/2] and q below 1, which circulating
code exceeds; copies and flood are the cheapest that meet the proven condition of `sfumato.shuffled.bitsum.signed`.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from sfumato.errors import InputError
from sfumato.shuffled.bitsum.bit_sum import Floats, chance_above, rate_below
from sfumato.shuffled.bitsum.rr import RandomisedResponse
from sfumato.shuffled.bitsum.signed import Pure, ThreeNegativeBinomials

LARGEST_RHO = Fraction(1, 2)
_SHAPES = np.unique(np.geomspace(2, 3000, 24).astype(np.int64))
_RATES = np.geomspace(0.1, 1000, 30)  # of the flood, in units of epsilon - epsilon'
_NODES = 400
_MOST_ATTEMPTS = 500


def advanced_composition(instances: int, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the (epsilon0, delta0) of one instance by advanced composition."""
    spread = math.sqrt(2 * instances * math.log(2 / delta))

    def excess(epsilon0: float) -> float:
        return epsilon0 * math.expm1(epsilon0) * instances + epsilon0 * spread - epsilon

    return float(brentq(excess, 0.0, epsilon / spread, xtol=1e-15)), delta / (2 * instances)


def published_response(n: int, instances: int, epsilon: float, delta: float) -> RandomisedResponse:
    """Return randomised response with the flips of Cheu et al."""
    epsilon0, delta0 = advanced_composition(instances, epsilon, delta)
    needed = math.log(4 / delta0)
    if epsilon0 >= math.sqrt(192 * needed / n):
        random_messages = 64 * needed / epsilon0**2
    else:
        random_messages = n - epsilon0 * n**1.5 / math.sqrt(432 * needed)
    return RandomisedResponse(n, chance_above(random_messages / (2 * n)))


def published_three_nb(n: int, instances: int, epsilon: float, delta: float) -> ThreeNegativeBinomials:
    """Return 3NB with 0.99 epsilon0 for the noise and the flood of Ghazi et al."""
    epsilon0, delta0 = advanced_composition(instances, epsilon, delta)
    rate = 0.99 * epsilon0
    shape = math.ceil(3 * (1 + math.log(2 / delta0) + rate))
    flood_rate = epsilon0 / (epsilon0 + math.log(1 / delta0))
    while True:
        protocol = ThreeNegativeBinomials(n, rate_below(rate), shape, rate_below(flood_rate))
        if protocol.pair(1e-6 * delta0).orders(np.array([epsilon0])).max() <= delta0:
            return protocol
        flood_rate /= 2


def published_pure(n: int, instances: int, epsilon: Fraction, rho: Fraction) -> Pure:
    """Return the pure protocol with epsilon / instances for each instance."""
    if not 0 < rho <= LARGEST_RHO:
        raise InputError(f"rho must lie above 0 and not above 1/2; got {rho}.")
    share = epsilon / instances
    rate = rate_below(float(share - rho / 100 * min(share, Fraction(1))))
    drop = float(rho) / (20 * n * math.sinh(float(share) / 2) ** 2)
    if drop >= 1:
        raise InputError(
            f"The pure protocol would leave out every bit: epsilon {float(epsilon):g} over {instances} instances is "
            f"{float(share):.2g} each, too little for {n} participants (q = {drop:.2g} must stay below 1). "
            "Take a larger epsilon, fewer instances, more participants or a smaller rho."
        )
    shape, flood_rate, copies = _cheapest_flood(n, float(share), float(share - rate), drop)
    for more in range(_MOST_ATTEMPTS):  # the nodes of the search are not all there are
        protocol = Pure(
            n, rate, chance_above(drop), copies + more * max(1, copies // 1000), shape, rate_below(flood_rate)
        )
        if protocol.is_private(share):
            return protocol
    raise _no_flood(n, float(share))


def _cheapest_flood(n: int, epsilon: float, slack: float, drop: float) -> tuple[int, float, int]:
    """Shape and rate of the flood and number of copies with about the fewest messages."""
    best, cost = None, math.inf
    for shape in _SHAPES:
        for rate in slack * _RATES:
            copies = _fewest_copies(epsilon, slack, drop, int(shape), float(rate))
            if copies is not None and copies + shape / (rate * n) < cost:
                best, cost = (int(shape), float(rate), copies), copies + shape / (rate * n)
    if best is None:
        raise _no_flood(n, epsilon)
    return best


def _no_flood(n: int, epsilon: float) -> InputError:
    return InputError(
        f"no flood was found that makes an instance private at epsilon {epsilon:.2g} with {n} participants; "
        "take a larger epsilon or fewer instances"
    )


def _fewest_copies(epsilon: float, slack: float, drop: float, shape: int, rate: float) -> int | None:
    """Fewest copies for which the condition of the pure protocol holds at some nodes; None if none do."""
    last = math.ceil((shape - 1) / math.expm1(slack + rate))
    nodes = np.unique(np.concatenate([np.arange(min(last, 50) + 1), np.linspace(0, last, _NODES).astype(np.int64)]))
    left = 1 - math.exp(slack + rate) * nodes / np.maximum(nodes + (shape - 1.0), 1.0)
    needed = np.log(np.maximum(left, 1e-300)) - math.log(math.expm1(epsilon) * drop / (1 - drop))

    def rise(copies: int) -> Floats:
        log_ratio = gammaln(nodes + copies + shape) - gammaln(nodes + copies + 1.0)
        return np.asarray(log_ratio - gammaln(nodes + shape) + gammaln(nodes + 1.0) - rate * copies)

    low, high = 0, int((shape - 1) / rate) - last  # beyond the mode the flood falls
    if high < 1 or np.any(needed > rise(high)):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if np.all(needed <= rise(middle)) else (middle, high)
    return high
