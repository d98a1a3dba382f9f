"""The tables of methods by the names people type: one for each trust model, one for distances.

The library's own methods are named by their modules and imported when a table is first asked, so that this room knows
nothing of the rooms that build on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.methods.method import Mechanism, Method, Registry
from sfumato.methods.request import Request
from sfumato.quantizers.base import Quantizer

if TYPE_CHECKING:
    from sfumato.local.server import Design

METHODS: Registry[Mechanism] = Registry(
    "sfumato.central.fourier",
    "sfumato.central.fourier_gaussian",
    "sfumato.central.lattice",
    "sfumato.central.grid",
    "sfumato.central.exponential_sums",
    "sfumato.central.landmarks",
    "sfumato.central.inner_product",
    "sfumato.central.race",
    "sfumato.central.cells",
    "sfumato.published.lsq_rff",
    "sfumato.published.lsq_fgt",
    "sfumato.published.histogram",
    "sfumato.published.as_published",
    "sfumato.published.polynomials",
    "sfumato.published.learners",
    "sfumato.published.noisy_sample",
    "sfumato.published.listed_queries",
    "sfumato.published.hrw",
)
# Methods that must buy something of the records before they have a mechanism: estimators alone can run them.
BOUGHT: Registry[Any] = Registry("sfumato.central.reference")
DISTANCES: Registry[Mechanism] = Registry(
    "sfumato.distances.hats",
    "sfumato.distances.moments",
    "sfumato.published.trees",
    "sfumato.published.moments",
    "sfumato.published.huang_roth",
)
LOCAL: Registry[Design] = Registry(
    "sfumato.local.rows_server",
    "sfumato.local.phases_server",
    "sfumato.local.metric_phases_server",
    "sfumato.local.metric_rows_server",
    "sfumato.local.vector_server",
    "sfumato.published.local.sketch_servers",
    "sfumato.published.local.point_servers",
)
SHUFFLED: Registry[Quantizer] = Registry("sfumato.shuffled.methods")


def offered(request: Request) -> list[Method]:
    """Return the methods that an estimator of densities weighs: those that buy something first need plain columns."""
    return [*METHODS.values(), *(() if request.curved else BOUGHT.values())]
