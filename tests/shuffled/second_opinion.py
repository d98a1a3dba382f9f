"""A second opinion on delta: dp_accounting's privacy loss distributions, bounded from both sides.

It is given one case at a time, since it composes one pair of laws: here every instance moves in the same direction with
the same bits of the others. The certified delta covers this case, so it must not lie below the optimistic side; how far
it lies above the pessimistic side is what covering all cases, steps and tails costs.
"""

from __future__ import annotations

import numpy as np

from sfumato.shuffled.bitsum.curves import Pair


def bracket(pair: Pair, instances: int, epsilon: float, step: float) -> tuple[float, float]:
    """Return lower and upper bounds of delta if every instance follows a pair of laws in the worse of its orders.

    Parameters
    ----------
    pair : Pair
        The laws of one instance; what they leave out is added to the upper bound.
    instances : int
        How many are composed.
    epsilon : float
        Where delta is asked for.
    step : float
        Distance of the losses that dp_accounting rounds to.

    Examples
    --------
    >>> keep = np.array([0.25, 0.75])
    >>> low, high = bracket(Pair(keep, keep[::-1], np.log(keep / keep[::-1]), 0.0), 2, 1.2, 1e-3)
    >>> round(low, 3), round(high, 3)  # 9/16 - e^1.2 / 16
    (0.355, 0.355)
    """
    sides = []
    for pessimistic in (False, True):
        orders = (_composed(pair, order, instances, epsilon, step, pessimistic) for order in (1, -1))
        sides.append(max(orders))
    return sides[0], sides[1] + instances * pair.lost


def _composed(pair: Pair, order: int, instances: int, epsilon: float, step: float, pessimistic: bool) -> float:
    from dp_accounting.pld import privacy_loss_distribution as pld  # needs a second to load

    upper, lower = (pair.first, pair.second)[::order]
    distribution = pld.from_two_probability_mass_functions(
        dict(enumerate(np.log(lower))),
        dict(enumerate(np.log(upper))),
        pessimistic_estimate=pessimistic,
        value_discretization_interval=step,
        symmetric=False,
    )
    return float(distribution.self_compose(instances).get_delta_for_epsilon(epsilon))
