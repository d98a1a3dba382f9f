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
from sfumato.families import QUANTIZERS
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

# Quantizers of rooms that build on `quantizers`, by their names in documents.
QUANTIZERS.place(
    "sfumato.published.polynomials", {"bernstein": "BernsteinQuantizer", "even-trig": "TrigonometricQuantizer"}
)
QUANTIZERS.place("sfumato.published.histogram", {"histogram": "HistogramQuantizer"})
QUANTIZERS.place("sfumato.published.hermite", {"hermite": "HermiteQuantizer"})
QUANTIZERS.place("sfumato.published.queries", {"queries": "KernelQueries", "whitened-queries": "WhitenedQueries"})
QUANTIZERS.place("sfumato.published.synthetic", {"constant": "Constant", "grid-records": "GridRecords"})
QUANTIZERS.place("sfumato.distances.hat", {"hat": "HatQuantizer"})
QUANTIZERS.place("sfumato.distances.moments", {"moments": "MomentQuantizer"})
QUANTIZERS.place("sfumato.distances.projection", {"projected": "ProjectedQuantizer"})
QUANTIZERS.place("sfumato.published.moments", {"published-moments": "PublishedMoments"})
QUANTIZERS.place("sfumato.published.tree", {"interval-tree": "IntervalTree"})
QUANTIZERS.place("sfumato.published.trees", {"consistent-tree": "ConsistentTree"})
QUANTIZERS.place("sfumato.published.huang_roth", {"convex-hypothesis": "ConvexHypothesis"})
QUANTIZERS.place("sfumato.local.rows_server", {"local-rows": "ReportedRows"})
QUANTIZERS.place("sfumato.local.phases_server", {"local-phases": "ReportedPhases"})
QUANTIZERS.place("sfumato.local.metric_phases_server", {"local-metric-phases": "MetricReportedPhases"})
QUANTIZERS.place("sfumato.local.metric_rows_server", {"local-metric-rows": "MetricReportedRows"})
QUANTIZERS.place("sfumato.local.vector_reader", {"local-vector": "VectorReader"})
QUANTIZERS.place(
    "sfumato.published.local.readers", {"local-sketch": "SketchReader", "reported-points": "ReportedPoints"}
)
QUANTIZERS.place("sfumato.shuffled.features", {"rotated-landmarks": "RotatedLandmarks"})
QUANTIZERS.place("sfumato.learn.squared_distance", {"projected-squares": "ProjectedSquares"})

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
