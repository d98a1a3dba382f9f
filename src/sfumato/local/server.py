"""The contract of a local mechanism, server half: design, count, simulate, read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.kernels import Kernel
from sfumato.local.mechanism import HEADER_BYTES, Device
from sfumato.local.tally import Tally
from sfumato.privacy.bits import SecureBits
from sfumato.public.document import plain
from sfumato.public.domain import Domain
from sfumato.quantizers.base import Floats, Reader
from sfumato.quantizers.box import Box

Payloads = NDArray[np.uint8]
# What a prediction assumes where the organiser does not give the mean density of queries like the points.
TYPICAL_DENSITY = 0.1


@dataclass(frozen=True)
class Request:
    """What is public when a mechanism is chosen.

    Attributes
    ----------
    kernel : Kernel
        What similar means.
    dimension, participants : int
        Columns of a point; how many people are expected to report.
    epsilon : Fraction
        Of the whole report of one person.
    radius, eta : float or None
        For guarantees that weaken with distance: inside `radius`, except with probability `eta` over the hashes.
    bounds : Box or None
        Where points live, if the organiser said so.
    options : mapping
        What only one mechanism knows.
    """

    kernel: Kernel
    dimension: int
    participants: int
    epsilon: Fraction
    radius: float | None = None
    eta: float | None = None
    bounds: Box | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def density(self) -> float:
        """Mean answer that predictions assume: the option "density", or a typical one."""
        value = self.options.get("density", TYPICAL_DENSITY)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise InputError(f"density must be a number above 0 and at most 1, got {value!r}")
        return float(value)

    @property
    def spread(self) -> float:
        """Variance, over hash functions, of the share of the points in a query's bucket (A), as is typical."""
        return self.density**2 / 2

    @property
    def others(self) -> float:
        """Mean sum of the squared shares of all other buckets (B): A + B is the mean kernel value less its square."""
        return max(self.density - self.density**2 - self.spread, 0.0)


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

    def __init__(self, device: Device, kernel: Kernel) -> None:
        self.device = device
        self.kernel = kernel
        self.parameters: Mapping[str, Any] = plain(device.parameters)

    @property
    def box(self) -> Box:
        """The domain, as quantizers take it."""
        domain = self.device.domain
        return Box.of(domain)

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
