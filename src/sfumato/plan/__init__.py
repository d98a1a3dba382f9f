"""The plan: choose a mechanism and its sizes from public facts alone, and say the error before anything is spent.

Nothing here reads data. `plan` compares all methods for a request and picks one, `epsilon_for` and `n_for` turn the
question round, and `draw` shows predicted error against epsilon. docs/plan.md explains the figures.
"""

from __future__ import annotations

from sfumato.plan.comparison import CONSTANT, Row
from sfumato.plan.drawing import draw
from sfumato.plan.inverse import epsilon_for, n_for
from sfumato.plan.planning import Plan, plan

__all__ = ["CONSTANT", "Plan", "Row", "draw", "epsilon_for", "n_for", "plan"]
