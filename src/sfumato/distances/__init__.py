"""Private sums of distances: l1, l2, squared l2 and l_p^p, from one-dimensional structures, moments and embeddings."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.distances.estimator import PrivateDistance
    from sfumato.distances.hats import interval_counts
    from sfumato.distances.outlook import DistancePlan, plan

# Loaded at first use: the quantizers' room looks up this one's, which build on it.
_NAMES = {
    "DistancePlan": "sfumato.distances.outlook",
    "PrivateDistance": "sfumato.distances.estimator",
    "interval_counts": "sfumato.distances.hats",
    "plan": "sfumato.distances.outlook",
}

__all__ = ["DistancePlan", "PrivateDistance", "interval_counts", "plan"]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'sfumato.distances' has no attribute {name!r}")
    return getattr(import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return __all__
