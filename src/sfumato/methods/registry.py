"""Methods by the names people type: a table for each trust model, one for distances, one way to choose and to build.

The library's own methods are named by their modules and imported when a table is first asked, so that this room knows
nothing of the rooms that build on it. "auto" takes the least predicted error among the methods that apply; baselines,
which are there to be measured against, are listed and never taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from sfumato.errors import InputError
from sfumato.methods import curving, projecting
from sfumato.methods.method import Mechanism, Method
from sfumato.methods.ranking import choose
from sfumato.methods.request import Request
from sfumato.quantizers.base import Quantizer

if TYPE_CHECKING:
    from sfumato.local.server import Design

Built = TypeVar("Built")


class Registry(Mapping[str, Method], Generic[Built]):
    """Methods by name, in the order in which plans list them, and what they build.

    Parameters
    ----------
    *modules : str
        Modules of the library; every `Method` that one defines is taken, in the order of its definitions.
    """

    def __init__(self, *modules: str) -> None:
        self._modules = list(modules)
        self._methods: dict[str, Method] = {}

    def _loaded(self) -> dict[str, Method]:
        while self._modules:
            module = import_module(self._modules[0])
            found = [value for value in vars(module).values() if isinstance(value, Method)]
            self._methods.update((method.name, method) for method in found)
            del self._modules[0]
        return self._methods

    def __getitem__(self, name: str) -> Method:
        return self._loaded()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())

    def register(self, method: Method) -> Method:
        """Add a method of one's own: plans list it, "auto" weighs it, and its name can be typed where others can."""
        if method.name in self or method.name == "auto":
            raise InputError(f"there is a method {method.name!r} already; choose another name")
        self._methods[method.name] = method
        return method

    def choose(self, request: Request) -> str:
        """Name the method with the least predicted error among those that apply (a data-free choice); no baselines."""
        return choose(self.values(), request).method

    def build(self, name: str, request: Request) -> Built:
        """Build the named method; "auto" takes the one with the least predicted error."""
        if request.curved:
            straightened = curving.straighten(request)
            return cast(Built, straightened.wrap(cast(Mechanism, self.build(name, straightened.request))))
        allowed = request.delta
        if name == "auto":
            row = choose(self.values(), request)
            name, request = row.method, request.pure() if row.unspent_delta else request
        if name not in self:
            raise InputError(f"unknown method {name!r}; known are auto, {', '.join(sorted(self))}")
        chosen, reduced = self[name], None
        if request.projected:
            reduced = projecting.reduce(chosen, request)
            request = reduced.request
        reason = chosen.reason(request)
        if reason is not None:
            raise InputError(f"{name} does not apply: {reason}")
        made: Any = chosen.built(request)
        if allowed and isinstance(made, Mechanism) and not made.guarantee.delta:
            made = replace(made, parameters={**made.parameters, "unspent_delta": allowed})
        if reduced is not None:
            made = reduced.wrap(made)
        return cast(Built, made)


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
