"""Sfumato releases private densities and similarities: what a crowd looks like, without anyone's outline."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.errors import (
    BudgetError,
    EngineError,
    InputError,
    LedgerError,
    NotPrivateWarning,
    ReleaseFileError,
    SfumatoError,
    StorageError,
    TooFewError,
)
from sfumato.version import __version__

if TYPE_CHECKING:
    from sfumato import audit, bandwidth, fast, kernels, learn, local, maps, shuffled
    from sfumato.central.kde import PrivateKDE
    from sfumato.central.merging import merge_releases
    from sfumato.central.parts import Part, merge_parts
    from sfumato.central.sketch import RaceSketch
    from sfumato.distances.estimator import PrivateDistance
    from sfumato.methods import Plan, epsilon_for, n_for, plan
    from sfumato.privacy import ledger
    from sfumato.privacy.guarantee import Guarantee
    from sfumato.privacy.ledger import Ledger
    from sfumato.release import Release, load

# Loaded at first use: NumPy, Numba and scikit-learn take two seconds, which `sfumato --help` should not.
_NAMES = {
    "Guarantee": "sfumato.privacy.guarantee",
    "Ledger": "sfumato.privacy.ledger",
    "Part": "sfumato.central.parts",
    "Plan": "sfumato.methods",
    "PrivateDistance": "sfumato.distances.estimator",
    "PrivateKDE": "sfumato.central.kde",
    "RaceSketch": "sfumato.central.sketch",
    "Release": "sfumato.release",
    "epsilon_for": "sfumato.methods",
    "load": "sfumato.release",
    "merge_parts": "sfumato.central.parts",
    "merge_releases": "sfumato.central.merging",
    "n_for": "sfumato.methods",
    "plan": "sfumato.methods",
}
_MODULES = {
    "audit": "sfumato.audit",
    "bandwidth": "sfumato.bandwidth",
    "fast": "sfumato.fast",
    "kernels": "sfumato.kernels",
    "learn": "sfumato.learn",
    "ledger": "sfumato.privacy.ledger",
    "local": "sfumato.local",
    "maps": "sfumato.maps",
    "shuffled": "sfumato.shuffled",
}

__all__ = [
    "BudgetError",
    "EngineError",
    "Guarantee",
    "InputError",
    "Ledger",
    "LedgerError",
    "NotPrivateWarning",
    "Part",
    "Plan",
    "PrivateDistance",
    "PrivateKDE",
    "RaceSketch",
    "Release",
    "ReleaseFileError",
    "SfumatoError",
    "StorageError",
    "TooFewError",
    "__version__",
    "audit",
    "bandwidth",
    "epsilon_for",
    "fast",
    "kernels",
    "learn",
    "ledger",
    "load",
    "local",
    "maps",
    "merge_parts",
    "merge_releases",
    "n_for",
    "plan",
    "shuffled",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _NAMES:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    return getattr(import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return __all__
