"""What charges on the same data cost together, by four rules of composition, and what an account refuses.

- "basic": epsilons and deltas add up.
- "gdp": every part becomes Gaussian differential privacy; the squares of mu add up. Exact for Gaussian noise.
- "zcdp": every part becomes zero-concentrated differential privacy; the rhos add up. Better for many pure charges.
- "pld": the privacy loss distributions are convolved; the smallest of all, but it holds under a condition.

Guarantee. The first three hold however each charge is chosen, even from the answers of earlier releases: what a curator
may still spend is one number that only falls (a privacy filter). "pld" holds if the list of amounts was fixed before
the first release (`CONDITIONS`). Under "gdp" and "zcdp" a thousandth of delta is set aside for what is neither pure nor
Gaussian: distances and probabilities of failure. docs/accounting.md proves this.

Numbers err on the safe side: distributions are rounded pessimistically, and results are rounded up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from functools import lru_cache
from typing import Any

from sfumato.deferred import require
from sfumato.errors import BudgetError, InputError, LedgerError
from sfumato.privacy.guarantee import added, amount_text, check_choice
from sfumato.privacy.loss import (
    RULES,
    SMALLEST_MU_SQUARED,
    Budget,
    Charge,
    Event,
    Loss,
    decimal_fraction,
    gaussian_delta,
)

CONDITIONS = {
    "pld": "the epsilon, delta and mechanism of every release were fixed before the first release was made; "
    "stopping early is allowed",
}
RESERVED_SHARE = 1e-3  # of delta under "gdp" and "zcdp"; the calibration of Gaussian noise sets the same share aside
_MARGIN = 1 + 1e-9  # covers the rounding of the functions used here
_FOURIER_ERROR = 1e-12  # in delta; measured errors of the convolutions stay below 1e-14
_GRID_POINTS = 2**17
_LARGEST_PURE = 700  # beyond, the convolution overflows
_SIGNIFICANT_DIGITS = 6


def basic_composition(charges: Iterable[Charge]) -> tuple[Fraction, float]:
    """Return what charges on the same data cost together: the sums of epsilon and of delta.

    Examples
    --------
    >>> one = Charge(dataset="d", mechanism="m", epsilon=0.1, delta=1e-5, neighbours="add-remove", unit="record")
    >>> basic_composition([one, one, one])
    (Fraction(3, 10), 3e-05)
    """
    charges = list(charges)
    epsilon = added(charge.epsilon for charge in charges)
    return epsilon, float(added(decimal_fraction(charge.delta) for charge in charges))


def compose(charges: Iterable[Charge], rule: str = "basic", delta: float = 0.0) -> Fraction | None:
    """Return the epsilon that charges on the same data cost together at a given delta.

    The charges are under one neighbouring relation and unit; delta is for all of them together. The epsilon is rounded
    up to six digits unless epsilons were just added; None if the rule gives no epsilon at this delta.

    Examples
    --------
    >>> one = Charge(dataset="d", mechanism="m", epsilon=1, delta=1e-6, neighbours="replace", unit="record",
    ...              loss=Loss(mu_squared=Fraction(1, 18)))
    >>> compose([one, one], "basic", 2e-6), float(compose([one, one], "gdp", 2e-6))
    (Fraction(2, 1), 1.39686)
    """
    charges = tuple(charges)
    check_choice("rule", rule, RULES)
    if not charges:
        return Fraction(0)
    costs = [basic_composition(charges)[0]] if _may_add(charges, rule, delta) else []
    costs += [cost for bound in _bounds(charges, rule, delta) if (cost := bound.cost()) is not None]
    return min(costs, default=None)


def covers(charges: Iterable[Charge], rule: str, epsilon: Fraction, delta: float) -> bool:
    """Whether charges on the same data keep within a budget.

    Accepting a charge whenever this holds afterwards is what the rules allow.

    Examples
    --------
    >>> one = Charge(dataset="d", mechanism="m", epsilon=0.5, neighbours="replace", unit="record")
    >>> covers([one, one], "basic", Fraction(1), 0.0), covers([one, one], "basic", Fraction(9, 10), 0.0)
    (True, False)
    """
    charges = tuple(charges)
    check_choice("rule", rule, RULES)
    if not charges or (_may_add(charges, rule, delta) and basic_composition(charges)[0] <= epsilon):
        return True
    return any(bound.fits(float(epsilon)) for bound in _bounds(charges, rule, delta))


def _may_add(charges: tuple[Charge, ...], rule: str, delta: float) -> bool:
    """Whether the sum of the epsilons is a cost under the rule.

    If later charges are chosen from earlier answers, some answers may lead to charges that fit by addition and others
    to charges that fit by "gdp" or "zcdp"; both would use delta. Addition of pure charges uses none.
    """
    added = basic_composition(charges)[1]
    return added <= delta and (rule in ("basic", "pld") or added == 0)


def _bounds(charges: tuple[Charge, ...], rule: str, delta: float) -> list[_Bound]:
    """Bounds that the rule may use besides addition."""
    if rule == "basic" or not delta:
        return []
    loss = sum((charge.known_loss for charge in charges), Loss())
    names = ("gdp", "zcdp", "pld") if rule == "pld" else (rule,)
    return [_Bound(name, loss, delta) for name in names]


@dataclass(frozen=True)
class _Bound:
    """The (epsilon, delta)s of a loss by one of the three ways to compose its parts."""

    name: str
    loss: Loss
    delta: float

    def fits(self, epsilon: float) -> bool:
        """Whether the loss is (epsilon, delta)."""
        return self._needed(epsilon) <= epsilon

    def cost(self) -> Fraction | None:
        """Least epsilon that fits, rounded up; None if none was found."""
        epsilon = 0.0
        for _ in range(50):  # a larger epsilon may need more slack, hence more epsilon
            needed = self._needed(epsilon)
            if needed <= epsilon:
                return Fraction(repr(epsilon))
            if math.isinf(needed):
                return None
            digits = Context(prec=_SIGNIFICANT_DIGITS, rounding=ROUND_CEILING)
            epsilon = float(digits.create_decimal_from_float(needed))
        return None

    def _needed(self, epsilon: float) -> float:
        """Epsilon that the pure and Gaussian parts need if the slack is what it is at `epsilon`."""
        slack, reserved = self.loss.slack_at(epsilon), RESERVED_SHARE * self.delta
        if self.name == "pld":
            rest = self.delta - slack - _FOURIER_ERROR
        else:
            rest = self.delta - reserved if slack <= reserved else 0.0
        return _LEAST[self.name](self.loss, rest / _MARGIN) if rest > 0 else math.inf


@lru_cache(maxsize=64)
def _gdp_epsilon(loss: Loss, delta: float) -> float:
    """Least epsilon at `delta` of the Gaussian mechanism that reveals at least as much as the parts of `loss`.

    An epsilon-DP mechanism is mu-GDP with Phi(mu / 2) = exp(epsilon) / (1 + exp(epsilon)): the trade-off curve of
    randomised response, the worst of them, is two chords of the Gaussian's, which is convex.
    """
    from scipy.optimize import brentq
    from scipy.special import log_expit, ndtri_exp

    pure = math.fsum(4 * float(ndtri_exp(log_expit(-float(epsilon)))) ** 2 for epsilon in loss.pure)
    mu = math.sqrt(pure + float(loss.mu_squared))
    if mu == 0:
        return 0.0

    def excess(epsilon: float) -> float:
        return gaussian_delta(1 / mu, epsilon) - delta

    return float(brentq(excess, 0.0, mu**2 / 2 + 40 * mu, xtol=1e-15)) if excess(0.0) > 0 else 0.0


@lru_cache(maxsize=64)
def _zcdp_epsilon(loss: Loss, delta: float) -> float:
    """Least epsilon at `delta` of rho-zCDP; epsilon-DP is epsilon^2 / 2 of it, Gaussian noise mu^2 / 2."""
    require("curator")
    import numpy as np
    from dp_accounting import ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    rho = (float(loss.mu_squared) + math.fsum(float(epsilon) ** 2 for epsilon in loss.pure)) / 2
    # Every order gives a bound. The same orders for every rho, so that the least of the bounds grows with rho.
    accountant = RdpAccountant(1 + np.geomspace(0.02, 1e6, 4000))
    accountant.compose(ZCDpEvent(rho))
    return float(accountant.get_epsilon(delta))


@lru_cache(maxsize=64)
def _pld_epsilon(loss: Loss, delta: float) -> float:
    """Least epsilon at `delta` of the convolved privacy loss distributions."""
    if any(epsilon > _LARGEST_PURE for epsilon in loss.pure):
        return math.inf
    return float(_convolution(loss.pure, loss.mu_squared).get_epsilon_for_delta(delta))


@lru_cache(maxsize=16)
def _convolution(pure: tuple[Fraction, ...], mu_squared: Fraction) -> Any:
    """Privacy loss distribution of pure and Gaussian parts together, rounded pessimistically to a grid."""
    require("curator")
    from dp_accounting.pld import common, privacy_loss_distribution

    squares = float(mu_squared) + math.fsum(float(epsilon) ** 2 for epsilon in pure)
    scale = math.sqrt(max(squares, float(SMALLEST_MU_SQUARED)))  # squares of tiny epsilons are 0 in floating point
    # A power of two, so that multiples are exact and a finer grid contains every coarser one.
    step = 2.0 ** math.ceil(math.log2((20 * scale + scale**2) / _GRID_POINTS))
    total: Any = privacy_loss_distribution.identity(step)
    if mu_squared:
        total = privacy_loss_distribution.from_gaussian_mechanism(
            1 / math.sqrt(mu_squared), value_discretization_interval=step
        )
    # Rounding an epsilon up once costs less than rounding both of its losses up, as the library would do.
    for steps, times in sorted(Counter(math.ceil(epsilon / Fraction(step)) for epsilon in pure).items()):
        parameters = common.DifferentialPrivacyParameters(steps * step, 0.0)
        part = privacy_loss_distribution.from_privacy_parameters(parameters, step).self_compose(times)
        total = total.compose(part, tail_mass_truncation=1e-15)
    return total


_LEAST: dict[str, Callable[[Loss, float], float]] = {"gdp": _gdp_epsilon, "zcdp": _zcdp_epsilon, "pld": _pld_epsilon}


@dataclass(frozen=True)
class Standing:
    """One data set's events at one moment."""

    dataset: str
    budget: Budget | None
    charges: tuple[Charge, ...]

    @property
    def rule(self) -> str:
        """Rule by which the charges add up."""
        return "basic" if self.budget is None else self.budget.rule

    @property
    def spent(self) -> tuple[Fraction, float]:
        """What the charges cost together; under another rule than "basic", at the budget's delta."""
        if self.budget is None or self.rule == "basic" or not self.charges:
            return basic_composition(self.charges)
        # Every charge was taken because the budget covers it, so the budget bounds what rounding up would exceed.
        cost = compose(self.charges, self.rule, self.budget.delta)
        return self.budget.epsilon if cost is None else min(cost, self.budget.epsilon), self.budget.delta

    @property
    def remaining(self) -> tuple[Fraction, float] | None:
        """Budget less what is spent; None without a budget."""
        if self.budget is None:
            return None
        epsilon, delta = self.spent
        return self.budget.epsilon - epsilon, float(decimal_fraction(self.budget.delta) - decimal_fraction(delta))

    def refuse(self, event: Event) -> None:
        """Raise unless `event` may come next."""
        if isinstance(event, Budget):
            return self._refuse_budget(event)
        self._refuse_relation(event)
        charges = (*self.charges, event)
        if self.budget is None or covers(charges, self.rule, self.budget.epsilon, self.budget.delta):
            return
        epsilon, delta = self.remaining or (Fraction(0), 0.0)
        if self.rule == "basic":
            shortage = (
                f"{_pair(epsilon, delta, ROUND_FLOOR)} remains of {_pair(self.budget.epsilon, self.budget.delta)}"
            )
        else:
            limit = amount_text(self.budget.epsilon, ROUND_FLOOR)
            shortage = (
                f"with it {_cost(charges, self.budget)} would be spent, against epsilon = "
                f"{amount_text(self.spent[0])} now and a budget of epsilon = {limit}"
            )
        raise BudgetError(
            f"data set {self.dataset!r}: {_pair(event.epsilon, event.delta)} is requested, and {shortage}; "
            "ask for less, or raise the budget if the promise made to the people in the data allows it",
            requested=event.epsilon,
            remaining=epsilon,
        )

    def _refuse_budget(self, budget: Budget) -> None:
        if not covers(self.charges, budget.rule, budget.epsilon, budget.delta):
            spent = _pair(*basic_composition(self.charges)) if budget.rule == "basic" else _cost(self.charges, budget)
            raise InputError(
                f"data set {self.dataset!r}: {spent} is spent already, which is more than "
                f"{_pair(budget.epsilon, budget.delta, ROUND_FLOOR)}; set a budget that covers it"
            )

    def _refuse_relation(self, charge: Charge) -> None:
        for before in self.charges:  # all of them: earlier versions kept names apart that are one account now
            if (before.neighbours, before.unit) != (charge.neighbours, charge.unit):
                raise LedgerError(
                    f"data set {self.dataset!r} is charged under neighbours={before.neighbours!r}, "
                    f"unit={before.unit!r}, and this charge holds under neighbours={charge.neighbours!r}, "
                    f"unit={charge.unit!r}; epsilons of different relations do not add up. Make the release under the "
                    "relation and unit of the account"
                )


def _pair(epsilon: Fraction, delta: float, rounding: str = ROUND_CEILING) -> str:
    return f"epsilon = {amount_text(epsilon, rounding)}, delta = {delta!r}"


def _cost(charges: tuple[Charge, ...], budget: Budget) -> str:
    """Say what charges cost at the budget's delta."""
    epsilon = compose(charges, budget.rule, budget.delta)
    where = f"at delta = {budget.delta!r} by rule {budget.rule!r}"
    if epsilon is None:
        return f"more than any epsilon {where}, because too much is known by its delta alone (see docs/accounting.md),"
    return f"epsilon = {amount_text(epsilon)} {where}"
