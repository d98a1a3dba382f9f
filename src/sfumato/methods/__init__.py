"""Methods turn a request, public facts alone, into a mechanism: one registry, one plan, and no data read here.

`plan` compares all methods for a request, picks one and says the error before anything is spent; `epsilon_for` and
`n_for` turn the question round, and `draw` shows predicted error against epsilon. docs/plan.md explains the figures.
"""

from __future__ import annotations

from sfumato.methods.inverse import draw, epsilon_for, n_for
from sfumato.methods.plan import Plan, plan
from sfumato.methods.ranking import CONSTANT, Row

__all__ = ["CONSTANT", "Plan", "Row", "draw", "epsilon_for", "n_for", "plan"]
