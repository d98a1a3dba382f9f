"""What the servers of `rows` and `phases` share.

The grid on which points become integers, chosen from what is public; counting payloads of a group and one digit for
each of its rows; reading what was counted, from the protocol that a release carries.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.local.device import Device, device_for
from sfumato.local.pool import MOST_NUMBERS, check_pool
from sfumato.local.pooled import GROUP_BYTES, PoolDevice
from sfumato.local.server import Payloads, Server, Tally
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.response import Response
from sfumato.public.codec import Nested, Schema, brief, refuse
from sfumato.public.document import check_document, plain
from sfumato.public.domain import Domain
from sfumato.quantizers.base import Floats, Integers, TermReader
from sfumato.quantizers.box import Box

MOST_POINT_BITS, FEWEST_POINT_BITS, DEFAULT_POINT_BITS = 20, 8, 10
WIDEST_DEFAULT_REACH, NARROWEST_DEFAULT_REACH = 17, 8
# The table of Cauchy numbers is cut at its 2^-18 quantile. Sums over more columns are too often without the large ones
# that they should have: beyond, kernel values would be off by more than 0.015.
MOST_CAUCHY_COLUMNS = 1 << 10


@dataclass(frozen=True)
class PointGrid:
    """Units of the points' integers: bounds, bits of a characteristic length, units per data unit, and the origin."""

    domain: Domain
    point_bits: int
    scales: tuple[float, ...]
    origin: str

    def parameters(self) -> dict[str, Any]:
        """Return the protocol's fields."""
        return {"point_bits": self.point_bits, "scales": list(self.scales), "origin": self.origin}


def fit_grid(request: Request, lengths: Floats, largest: int, *, sum_bits: int, together: bool = True) -> PointGrid:
    """Choose the finest grid on which projections of the domain stay exact, measured from its middle.

    Without bounds the widest default is taken on which points keep 10 bits per length. Coordinates are multiplied with
    numbers up to `largest`; sums, over all columns where these count `together`, stay below ``2**sum_bits``.
    """

    def bits(reach: Floats) -> int:
        spans = reach / lengths
        span = float(spans.sum() if together else spans.max())
        return min(MOST_POINT_BITS, math.floor(sum_bits - math.log2(span * largest)))

    domain = _declared(request)
    if domain is None:
        for power in range(WIDEST_DEFAULT_REACH, NARROWEST_DEFAULT_REACH - 1, -1):
            reach = lengths * 2.0**power
            if bits(reach) >= DEFAULT_POINT_BITS:
                break
        domain = Domain(tuple((-reach).tolist()), tuple(reach.tolist()), declared=False)
    point_bits = bits(np.array(domain.upper) - np.array(domain.middle))
    if point_bits < FEWEST_POINT_BITS:
        raise InputError(
            f"the bounds span too many bandwidths for exact integers in {request.dimension} dimensions; pass tighter "
            "bounds or a larger bandwidth"
        )
    return PointGrid(domain, point_bits, tuple((2.0**point_bits / lengths).tolist()), "middle")


def refuse_columns(request: Request) -> str | None:
    """Say why the Cauchy numbers of devices do not serve so many columns, or return None."""
    if request.dimension <= MOST_CAUCHY_COLUMNS:
        return None
    return f"Cauchy numbers on devices are for {MOST_CAUCHY_COLUMNS} columns at most; project the points to fewer"


def unit_grid(request: Request, largest: int, *, sum_bits: int) -> PointGrid:
    """Choose the grid of directions: the domain is [-1, 1] by default, integers are measured from zero."""
    domain = _declared(request) or Domain((-1.0,) * request.dimension, (1.0,) * request.dimension, declared=False)
    reach = np.maximum(np.abs(domain.lower), np.abs(domain.upper))
    length = float(reach.max())
    point_bits = min(MOST_POINT_BITS, math.floor(sum_bits - math.log2(request.dimension * largest)))
    return PointGrid(domain, point_bits, (2.0**point_bits / length,) * request.dimension, "zero")


def member_grid(request: Request) -> PointGrid:
    """Choose the grid of sets: above 1/2, a value rounds to 1 and its column is a member."""
    domain = _declared(request) or Domain((0.0,) * request.dimension, (1.0,) * request.dimension, declared=False)
    return PointGrid(domain, 0, (1.0,) * request.dimension, "zero")


def _declared(request: Request) -> Domain | None:
    if request.bounds is None:
        return None
    return Domain(request.bounds.lower, request.bounds.upper)


class PoolServer(Server):
    """Counts the digits of reports, row by row."""

    device: PoolDevice

    @property
    def rows(self) -> int:
        """Rows of the pool."""
        return self.device.groups * self.device.rows_each

    @cached_property
    def codes(self) -> int:
        """How many codes a report may hold."""
        return int(self.device.outcomes**self.device.rows_each)

    @abstractmethod
    def add_digits(self, rows: Integers, digits: Integers, tally: Tally) -> None:
        """Add one digit for each of the rows."""

    @abstractmethod
    def random_digits(self, X: Integers, rows: Integers, bits: SecureBits) -> Integers:
        """Randomise the i-th point in the i-th row."""

    def count(self, payloads: Payloads, tally: Tally) -> NDArray[np.bool_]:
        """Split payloads into a group and digits; refuse those out of range."""
        groups = payloads[:, 0].astype(np.int64) | payloads[:, 1].astype(np.int64) << 8
        codes = np.ascontiguousarray(payloads[:, GROUP_BYTES:]).view("<u4")[:, 0].astype(np.int64)
        good = (groups < self.device.groups) & (codes < self.codes)
        groups, codes = groups[good], codes[good]
        for i in range(self.device.rows_each):
            codes, digits = np.divmod(codes, self.device.outcomes)
            self.add_digits(groups * self.device.rows_each + i, digits, tally)
        return good

    def simulate(self, points: Floats, bits: SecureBits, tally: Tally) -> None:
        """Draw groups and digits for many people."""
        made = self.device
        X = np.rint((points - np.array(made.origin)) * np.array(made.scales)).astype(np.int64)
        groups = bits.below(made.groups, len(X))
        for i in range(made.rows_each):
            rows = groups * made.rows_each + i
            self.add_digits(rows, self.random_digits(X, rows, bits), tally)


def pool_groups(request: Request, rows_each: int, largest: int, option: str, each: int) -> int:
    """Return the number of groups: one for each person, as far as a report can name them and readers can hold them.

    Every row has `each` numbers.
    """
    wanted = request.options.get(option)
    largest = max(rows_each, min(largest, MOST_NUMBERS // each))
    if wanted is None:
        return max(1, min(request.n, largest // rows_each))
    if type(wanted) is not int or not rows_each <= wanted <= largest:
        raise InputError(f"{option} must be an integer from {rows_each} to {largest}, got {brief(wanted)}")
    return wanted // rows_each


def integer_choices(request: Request, name: str, default: range) -> range | tuple[int]:
    """Return the values that an integer option may take: the caller's, or all."""
    value = request.options.get(name)
    if value is None:
        return default
    if type(value) is not int or value not in default:
        raise InputError(f"{name} must be an integer from {default[0]} to {default[-1]}, got {brief(value)}")
    return (value,)


def respond(response: Response, starts: Integers, bits: SecureBits) -> Integers:
    """Draw an output for each start, independently: `Response.draw` for many."""
    draws = bits.below(response.total, len(starts))
    inner = response.width * response.same
    steps = np.where(draws < inner, draws // response.same, response.width + (draws - inner) // response.other)
    return np.asarray((starts + steps) % response.outcomes)


class ProtocolReader:
    """What readers share that follow, all of them, from the protocol that a release carries."""

    name: ClassVar[str]
    kind: ClassVar[type[Device]]  # of the device, which knows the public functions
    device: Device

    @property
    def box(self) -> Box:
        """The protocol's domain."""
        domain = self.device.domain
        return Box.of(domain)

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the protocol; everything is drawn again from its seed."""
        return {"quantizer": self.name, "protocol": dict(self.device.document)}, {}

    @classmethod
    def from_document(
        cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], kernel: Any, size: int
    ) -> Self:
        """Rebuild from a release."""
        device = Schema({"quantizer": cls.name}, protocol=Nested(_released)).read(document, "quantizer")["protocol"]
        if isinstance(device, cls.kind):
            cls.check_cost(device)
        reader = cls.of(device, kernel) if isinstance(device, cls.kind) else None
        if reader is None or reader.size != size:  # type: ignore[attr-defined]
            raise ReleaseFileError("the release's protocol does not describe its values")
        if plain(device.document["kernel"]) != kernel.to_document():
            raise ReleaseFileError("the release's kernel is not that of its protocol")
        return reader

    @classmethod
    def check_cost(cls, device: Any) -> None:
        """Refuse what takes too long to draw; nothing here."""

    @classmethod
    def of(cls, device: Any, kernel: Any) -> Self:
        """Make the reader of a device of its kind."""
        return cls(device)  # type: ignore[call-arg]


def _released(document: Any, path: str) -> Device:
    if not isinstance(document, Mapping):
        raise refuse(path, "an object", document)
    check_document(document, "local", released=True)
    return device_for(document, released=True)


class PoolReader(ProtocolReader, TermReader):
    """Counts of reports, one term for each row of the pool."""

    device: PoolDevice

    def __init__(self, device: PoolDevice) -> None:
        self.device = device

    @property
    def terms(self) -> int:
        """Rows of the pool."""
        return self.device.groups * self.device.rows_each

    @classmethod
    @abstractmethod
    def held(cls, device: Any) -> int:
        """Count the numbers of one row."""

    @classmethod
    def check_cost(cls, device: PoolDevice) -> None:
        """Refuse a pool that takes too much memory."""
        check_pool(device.groups * device.rows_each, cls.held(device))

    def lattice(self, Y: Floats, farthest: int) -> Integers:
        """Integers of queries, which may lie anywhere."""
        with np.errstate(over="ignore"):
            coordinates = np.rint((Y - np.array(self.device.origin)) * np.array(self.device.scales))
        return np.asarray(np.clip(coordinates, -float(farthest), float(farthest)), dtype=np.int64)

    def steadied(self, terms: Floats, answered: Floats) -> Floats:
        """Take off what a row's number of reports does to its term; the mean of the terms stays as it is.

        People choose rows at random, so rows have unequal numbers of reports. Their sum is fixed, so this is no error
        of the answer, but it would spread the terms, and with them the error bar, by the square of the answer.
        """
        people = answered.sum() / self.device.rows_each
        share = terms.mean(axis=1, keepdims=True) / max(people, 1.0)
        return np.asarray(terms - share * (answered * self.device.groups - people))
