"""A method under any trust model, when it applies, what it costs, how it is built; and the mechanism of a curator.

A `Registry` holds methods by the names people type. "auto" takes the least predicted error among those that apply;
baselines, which are there to be measured against, are listed and never taken.

Pure methods and delta. A method marked `pure` needs no delta. Asked with delta > 0 it is refused, predicted and built
exactly as for delta = 0, so its release is (epsilon, 0)-differentially private, which is more than was asked for: the
guarantee states delta 0, the ledger is charged none, and the release's parameters hold the delta that was left. Plans
and "auto" weigh every other method both ways too; one that is named takes the delta that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib import import_module
from typing import Any, Generic, Self, TypeVar, cast

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import Kernel, Product
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.laws import NoiseLaw
from sfumato.privacy.loss import Loss
from sfumato.privacy.noise import CountNoise
from sfumato.public.codec import brief
from sfumato.public.ranges import check_size
from sfumato.quantizers.base import Encoder, Integers, Quantizer, Reader
from sfumato.release import Count, Release

UNSPENT_DELTA = "delta was not needed and is not spent"
Built = TypeVar("Built")


@dataclass(frozen=True)
class Prediction:
    """Predicted error and cost of a mechanism, before any data is read.

    Attributes
    ----------
    rmse : float
        Root mean square error of one answer (mean kernel value, or sum of distances), the count's part included.
    integers, file_size : int
        Numbers in the release, and most bytes of its file.
    work_per_record, work_per_query : float
        Multiplications for one record (curator) and one query (anyone).
    parameters : mapping
        The sizes chosen.
    worst, bias : float
        For distances: the error at the worst query, and the most that the approximation can miss in one sum.
    report_bytes : int
        For collections: bytes that one person sends.
    holds_for : str
        For collections: which points the guarantee keeps apart.
    """

    rmse: float
    integers: int
    file_size: int = 0
    work_per_record: float = 0.0
    work_per_query: float = 0.0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    worst: float = 0.0
    bias: float = 0.0
    report_bytes: int = 0
    holds_for: str = "every two points"


@dataclass(frozen=True)
class Method:
    """One mechanism under the name people type.

    Attributes
    ----------
    name, summary : str
        The name, and one line for tables.
    options : tuple of str
        Names of the options that are the method's own.
    refuse : callable
        Says why the method does not apply to a request, or returns None; `reason` asks it.
    predict : callable
        From a request and a mean kernel value P to a `Prediction`; `prediction` asks it.
    build : callable
        From a request to what its registry builds: a curator's mechanism, the design of a local collection, the
        quantizer of a shuffled one; draws the public features. `built` asks it.
    baseline : bool
        Whether the method is there to be measured against: plans list it, and "auto" never takes it.
    metrics : tuple of str
        For distances: those that it is for.
    pure : bool
        Whether the method needs no delta; see the module's text.
    categories : bool
        Whether the method is for tables with categories (`kernels.Product`); all others are for numbers alone.
    """

    name: str
    summary: str
    options: tuple[str, ...]
    refuse: Callable[[Any], str | None]
    predict: Callable[[Any, float], Prediction]
    build: Callable[[Any], Any]
    baseline: bool = False
    metrics: tuple[str, ...] = ()
    pure: bool = False
    categories: bool = False

    def asked(self, request: Request) -> Request:
        """Return the request as this method takes it: without delta where none is needed."""
        return request.pure() if self.pure else request

    def reason(self, request: Request) -> str | None:
        """Say why the method does not apply, or return None."""
        metric = getattr(request.kernel, "metric", "similarities")
        if self.metrics and metric not in self.metrics:
            return f"it is for {' and '.join(self.metrics)}, not for {metric}"
        if isinstance(request.kernel, Product) and not self.categories:
            return "it is for columns of numbers, and there are categories"
        return self.refuse(self.asked(request))

    def prediction(self, request: Request, density: float) -> Prediction:
        """Predict error and cost, where `reason` has nothing against it."""
        return self.predict(self.asked(request), density)

    def built(self, request: Request) -> Any:
        """Build, where `reason` has nothing against it."""
        return self.build(self.asked(request))


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
        from sfumato.methods.ranking import choose

        return choose(self.values(), request).method

    def build(self, name: str, request: Request) -> Built:
        """Build the named method; "auto" takes the one with the least predicted error."""
        if not isinstance(name, str):
            raise InputError(f"method must be the name of a method, got {brief(name)}")
        if request.curved:
            from sfumato.methods import curving

            straightened = curving.straighten(request)
            return cast(Built, straightened.wrap(cast(Mechanism, self.build(name, straightened.request))))
        allowed = request.delta
        if name == "auto":
            from sfumato.methods.ranking import choose

            row = choose(self.values(), request)
            name, request = row.method, request.pure() if row.unspent_delta else request
        if name not in self:
            raise InputError(f"unknown method {brief(name)}; known are auto, {', '.join(sorted(self))}")
        chosen, reduced = self[name], None
        if request.projected:
            from sfumato.methods import projecting

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


@dataclass(frozen=True)
class Mechanism:
    """Everything public about a release to be: what is summed, which noise is added, what is promised.

    Attributes
    ----------
    method : str
        The name people type.
    kernel : Kernel
        What is approximated.
    encoder : Encoder
        What is summed.
    reader : Reader
        What reads the published integers: the encoder's own other half, where they are its sums.
    noise : NoiseLaw
        Law of the noise on the sums.
    count_law : CountNoise or None
        Law of the noise on the count; None when n is public.
    guarantee : Guarantee
        The promise, count included.
    groups : int
        J of the median of means; 1 is the plain mean.
    parameters : mapping
        Public parameters for the record (JSON values).
    feature_loss : Loss or None
        What the sums reveal, the count apart, if more is known than the guarantee says.
    algorithm : callable or None
        ``algorithm(sums, count, bits)`` makes the published integers from the exact sums, where a mechanism does more
        than add noise; `count` is the published one.
    count_reader : callable or None
        Reads a private count off the published integers, where they hold one; it costs nothing.
    bought : Fraction
        Epsilon of what was bought and charged before, on which the mechanism rests; the guarantee holds it too.
    """

    method: str
    kernel: Kernel
    encoder: Encoder
    reader: Reader
    noise: NoiseLaw
    count_law: CountNoise | None
    guarantee: Guarantee
    groups: int = 1
    parameters: Mapping[str, Any] = field(default_factory=dict)
    feature_loss: Loss | None = None
    algorithm: Callable[[Integers, Count, SecureBits], Integers] | None = None
    count_reader: Callable[[Integers], Count] | None = None
    bought: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        check_size(self.encoder.size)

    @classmethod
    def of(
        cls,
        request: Request,
        method: str,
        quantizer: Quantizer,
        noise: NoiseLaw,
        *conditions: str,
        parameters: Mapping[str, Any] | None = None,
        **parts: Any,
    ) -> Self:
        """Make the mechanism that a request asks for: its promise, its count's noise, and its n for the record.

        Parameters
        ----------
        request : Request
            Public facts; the guarantee spends the whole budget.
        method, quantizer, noise
            The name, what is summed and what reads the sums, and their noise.
        *conditions : str
            What the promise rests on beside the quantizer's box.
        parameters : mapping, optional
            Sizes for the record.
        **parts
            Other attributes of the class, in the place of what follows from the request.
        """
        given = {"encoder": quantizer, "reader": quantizer, "count_law": request.count_law, **parts}
        return cls(
            method=method,
            kernel=request.kernel,
            noise=noise,
            guarantee=request.guarantee(quantizer.box.condition(), *conditions),
            parameters={**(parameters or {}), "n_hint": request.n},
            **given,
        )

    def on(self, quantizer: Quantizer) -> Mechanism:
        """Return the same mechanism with another quantizer, which encodes and reads."""
        return replace(self, encoder=quantizer, reader=quantizer)

    def publish(self, sums: Integers, count: Count, bits: SecureBits) -> Integers:
        """Turn exact sums into what may be published: add the noise, or run the mechanism's own algorithm."""
        if self.algorithm is not None:
            return self.algorithm(sums, count, bits)
        return np.asarray(sums + self.noise.sample(bits, self.encoder.size))

    def release(self, values: Integers, count: Count) -> Release:
        """Wrap what was published."""
        return Release(
            method=self.method,
            guarantee=self.guarantee,
            kernel=self.kernel,
            reader=self.reader,
            values=values,
            noise=self.noise,
            count=count,
            groups=self.groups,
            parameters=dict(self.parameters),
        )

    def check_count(self, is_bought: bool) -> None:
        """Refuse a count that was bought and has no use."""
        if is_bought and self.count_reader is not None:
            raise InputError(f"{self.method} reads the count off its sums: pass count_share to buy one, or buy none")

    def cost(self, count_is_bought: bool) -> tuple[Fraction, Loss]:
        """Epsilon that a run charges, and what it reveals; what is bought already is charged already."""
        self.check_count(count_is_bought)
        count = Fraction(0) if self.count_law is None else self.count_law.epsilon
        epsilon = self.guarantee.epsilon - count - self.bought
        loss = self.feature_loss or Loss(pure=(epsilon,), failure=self.guarantee.delta)
        if count_is_bought or not count:
            return epsilon, loss
        return epsilon + count, loss + Loss(pure=(count,))
