"""Where one data set's account stands, and what it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR
from fractions import Fraction

from sfumato.errors import BudgetError, InputError, LedgerError
from sfumato.privacy.accounting import basic_composition, compose, covers
from sfumato.privacy.events import Budget, Charge, Event
from sfumato.privacy.guarantee import amount_text
from sfumato.privacy.loss import decimal_fraction


@dataclass(frozen=True)
class Standing:
    """One data set's events at one moment.

    Attributes
    ----------
    dataset : str
        The account.
    budget : Budget or None
        What may be spent in all.
    charges : tuple of Charge
        Every spending, oldest first.

    Examples
    --------
    >>> standing = Standing("survey", Budget(dataset="survey", epsilon=1), ())
    >>> standing.spent, standing.remaining
    ((Fraction(0, 1), 0.0), (Fraction(1, 1), 0.0))
    """

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
