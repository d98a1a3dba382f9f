"""The contract of a local mechanism, server half: design, count, simulate, read.

A module that defines a server says at its end how plans list it, ``Server.method(summary)``; the table is
`methods.registry.LOCAL`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.kernels import Kernel
from sfumato.local.mechanism import HEADER_BYTES, Device
from sfumato.local.tally import Tally
from sfumato.methods.method import Method, Prediction
from sfumato.methods.registry import LOCAL
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.public.document import plain
from sfumato.public.domain import Domain
from sfumato.quantizers.base import Floats, Reader
from sfumato.quantizers.box import Box

Payloads = NDArray[np.uint8]


@dataclass(frozen=True)
class Design:
    """Parameters of a mechanism, chosen without data.

    Attributes
    ----------
    parameters : mapping
        The protocol's field ``"mechanism"`` apart from the name: integers, texts, and floats that are made exact.
    domain : Domain
        Bounds, the caller's or a default.
    variance : float
        Predicted mean squared error of an answer of the request's density.
    payload_bytes : int
        Length of a payload.
    size : int
        Integers that the collector keeps.
    pure : bool
        Whether epsilon holds for every two points; False where it holds within the radius only, or up to eta.
    private : bool
        False for a line to compare with that keeps no epsilon at all.
    """

    parameters: Mapping[str, Any]
    domain: Domain
    variance: float
    payload_bytes: int
    size: int
    pure: bool = True
    private: bool = True

    @property
    def report_bytes(self) -> int:
        """Length of a report on the wire."""
        return HEADER_BYTES + self.payload_bytes

    def prediction(self) -> Prediction:
        """Return what a plan shows of the design."""
        return Prediction(
            rmse=math.sqrt(self.variance),
            integers=self.size,
            parameters={name: value for name, value in self.parameters.items() if type(value) in (int, float)},
            report_bytes=self.report_bytes,
            holds_for="every two points" if self.pure else "within the radius",
        )


def spread(request: Request) -> float:
    """Variance, over hash functions, of the share of the points in a query's bucket (A), as is typical."""
    return request.density**2 / 2


def others(request: Request) -> float:
    """Mean sum of the squared shares of all other buckets (B): A + B is the mean kernel value less its square."""
    return max(request.density - request.density**2 - spread(request), 0.0)


@dataclass(frozen=True)
class LocalMethod(Method):
    """A method of the local model: what it builds is a `Design`, and `server` runs it."""

    server: type[Server] | None = None


class Server(ABC):
    """The part of a mechanism that runs at the organiser's and the collector's.

    Parameters
    ----------
    device : Device
        The device half, built from the same document.
    kernel : Kernel
        The protocol's kernel.
    """

    name: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()  # names of the options that `design` reads, beside "density"
    automatic: ClassVar[bool] = True  # whether "auto" may choose it; published baselines say False

    @classmethod
    def method(cls, summary: str) -> LocalMethod:
        """Return the mechanism as plans know it."""

        def predict(request: Request, density: float) -> Prediction:
            return build(request.with_options(density=density)).prediction()

        def build(request: Request) -> Design:
            request.check_options(*cls.options)
            return cls.design(request)

        return LocalMethod(cls.name, summary, cls.options, cls.refuse, predict, build, not cls.automatic, server=cls)

    def __init__(self, device: Device, kernel: Kernel) -> None:
        self.device = device
        self.kernel = kernel
        self.parameters: Mapping[str, Any] = plain(device.parameters)

    @property
    def box(self) -> Box:
        """The domain, as quantizers take it."""
        domain = self.device.domain
        return Box(domain.lower, domain.upper, "clip", domain.declared)

    @classmethod
    @abstractmethod
    def refuse(cls, request: Request) -> str | None:
        """Say why the mechanism does not fit, or return None."""

    @classmethod
    @abstractmethod
    def design(cls, request: Request) -> Design:
        """Choose the parameters; called only where `refuse` has nothing against it."""

    @abstractmethod
    def tally(self) -> Tally:
        """Return an empty tally: `Sums` of fixed size, or `Records` where every report is kept."""

    @abstractmethod
    def count(self, payloads: Payloads, tally: Tally) -> NDArray[np.bool_]:
        """Add payloads, shape (reports, payload_bytes), to the tally; say which were in range. Others add nothing."""

    @abstractmethod
    def simulate(self, points: Floats, bits: SecureBits, tally: Tally) -> None:
        """Add what devices that hold these (already clipped, finite) points would report: the same law."""

    @abstractmethod
    def quantizer(self, tally: Tally) -> Reader:
        """Return the public maps that read the tally; its `to_document` must rebuild it in `sfumato.load`."""

    @abstractmethod
    def noise_variance(self, reports: int) -> float:
        """Variance of one published integer because of the devices' coins, or the largest of them."""

    @abstractmethod
    def influence(self) -> float:
        """How far one report can move n times an answer at most, against what an honest one would have given."""

    def published(self, tally: Tally) -> NDArray[np.int64]:
        """Return the integers of the release."""
        return tally.integers()


def server_class(name: str) -> type[Server]:
    """Return the server half of a mechanism."""
    if name not in LOCAL:
        raise InputError(f"unknown local mechanism {name!r}; known: {', '.join(LOCAL)}")
    method = LOCAL[name]
    assert isinstance(method, LocalMethod) and method.server is not None
    return method.server
