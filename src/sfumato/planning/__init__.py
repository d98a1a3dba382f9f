"""The plan: choose a mechanism and its sizes from public facts alone, and say the error before anything is spent.

Nothing here reads data. `plan` compares all methods for a request and picks one, `epsilon_for` and `n_for` turn the
question round, and `draw` shows predicted error against epsilon. docs/plan.md explains the figures.
"""

from __future__ import annotations

from sfumato.planning.choosing import Plan, plan
from sfumato.planning.comparison import CONSTANT, Row
from sfumato.planning.drawing import draw
from sfumato.planning.inverse import epsilon_for, n_for

__all__ = ["CONSTANT", "Plan", "Row", "draw", "epsilon_for", "n_for", "plan"]
