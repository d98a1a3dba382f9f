"""Methods by the names people type: one table for kernels, one for distances, one way to choose and to build.

The library's own methods are named by their modules and imported when a table is first asked, so that this room knows
nothing of the rooms that build on it. "auto" takes the least predicted error among the methods that apply; baselines,
which are there to be measured against, are listed and never taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from sfumato.errors import InputError
from sfumato.methods import projecting
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.method import Method
from sfumato.methods.request import Request
from sfumato.public.ranges import check_size


class Registry(Mapping[str, Method]):
    """Methods by name, in the order in which plans list them.

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
        asked = request if projecting.wanted(request) else None
        request = projecting.plain(request)
        choices = [method for method in self.values() if not method.baseline]
        candidates = [method for method in choices if request.own_options <= set(method.options)] or choices

        def refuse(method: Method) -> str | None:
            return method.reason(request) or (projecting.refuse(method, asked) if asked is not None else None)

        applicable = [method for method in candidates if refuse(method) is None]
        reasons = [f"{method.name}: {refuse(method)}" for method in candidates if method not in applicable]
        # A method's own options say which methods are meant; among those, "auto" chooses by the general ones.
        general, errors = request.without_own_options(), {}
        for method in applicable:
            try:
                errors[method.name] = method.predict(general, general.density).rmse
            except InputError as reason:
                reasons.append(f"{method.name}: {reason}")
        if not errors:
            raise InputError(f"no method applies to this request ({'; '.join(reasons)})")
        return min(errors, key=errors.__getitem__)

    def build(self, name: str, request: Request) -> Mechanism:
        """Build the named mechanism; "auto" takes the one with the least predicted error."""
        if name == "auto":
            name = self.choose(request)
        if name not in self:
            raise InputError(f"unknown method {name!r}; known are auto, {', '.join(sorted(self))}")
        chosen, reduced = self[name], None
        if projecting.wanted(request):
            reduced = projecting.reduce(chosen, request)
            request = reduced.request
        reason = chosen.reason(request)
        if reason is not None:
            raise InputError(f"{name} does not apply: {reason}")
        mechanism = chosen.build(request)
        check_size(mechanism.quantizer.size)
        return mechanism if reduced is None else reduced.wrap(mechanism)


METHODS = Registry(
    "sfumato.central.fourier",
    "sfumato.central.fourier_gaussian",
    "sfumato.central.lattice",
    "sfumato.central.grid",
    "sfumato.central.exponential_sums",
    "sfumato.central.landmarks",
    "sfumato.central.inner_product",
    "sfumato.central.race",
    "sfumato.published.lsq_rff",
    "sfumato.published.lsq_fgt",
    "sfumato.published.race",
    "sfumato.published.exponential_sums",
    "sfumato.published.bernstein",
    "sfumato.published.even_trig",
    "sfumato.published.pmw",
    "sfumato.published.smalldb",
    "sfumato.published.noisy_sample",
    "sfumato.published.laplace_queries",
    "sfumato.published.gaussian_queries",
    "sfumato.published.hrw",
)
DISTANCES = Registry(
    "sfumato.distances.hats",
    "sfumato.distances.squares",
    "sfumato.published.trees",
    "sfumato.published.moments",
    "sfumato.published.huang_roth",
)
