"""`dm`, `pm`, `sw` and `gi`, server halves: keep every report, and answer with the density of the reported points.

See `point` for the laws and their guarantee, `readers` for the answers. The predicted error of an answer a
is (blur a)^2 + a (1 - a) / n, where the blur, 1 minus the mean kernel value between a report and its point, is
computed from reports for the middle of the bounds: points blurred further than the bandwidth give no density at all.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels import InnerProduct
from sfumato.local.device import Device
from sfumato.local.pool import draw_spheres, draw_windows, rounded_at_random
from sfumato.local.server import Design, Payloads, Records, Server, Tally
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.public.document import exact
from sfumato.published.local.point import (
    INDEX_BYTES,
    LARGEST_REPORT,
    LATTICE_BYTES,
    PM_POSITIONS,
    POSITION_BYTES,
    STEPS,
    SW_STEPS,
    DuchiDevice,
    PiecewiseDevice,
    PlanarDevice,
    SquareDevice,
    piecewise_scale,
    planar_law,
    planar_step,
    too_many_columns,
)
from sfumato.published.local.readers import CHANCE, ReportedPoints
from sfumato.quantizers.base import Floats, Integers

PREDICTION_REPORTS = 500
ROWS_AT_ONCE = 1 << 14
NOISE_MARGIN = 32  # standard deviations; at rate mu in one column, more noise has a probability of about 1e-18


class PointServer(Server):
    """Keeps reports as rows of `dimension` integers."""

    automatic = False
    device_class: ClassVar[type[Device]]
    device: Any

    @classmethod
    def refuse(cls, request: Request) -> str | None:
        """Bounds are needed, and a kernel with values on points."""
        if isinstance(request.kernel, InnerProduct):
            return "its reports are points for a density; use vector for inner products"
        return "it needs bounds=" if request.bounds is None else None

    @classmethod
    def parameters_of(cls, request: Request) -> dict[str, Any]:
        """Parameters of the protocol."""
        return {}

    @classmethod
    def design(cls, request: Request) -> Design:
        """Nothing to choose; the blur tells the error."""
        if request.bounds is None:
            raise ValueError("`refuse` asks for bounds")
        domain = request.bounds.domain()
        document = {
            "mechanism": exact(cls.parameters_of(request)),
            "domain": domain.to_document(),
            "epsilon": str(request.epsilon),
            "seed": "0" * 64,
        }
        server = cls(cls.device_class(document), request.kernel)
        blur = server.measured_blur()
        return Design(
            parameters={**cls.parameters_of(request), "blur": blur},
            domain=domain,
            variance=(blur * request.density) ** 2 + request.density * (1 - request.density) / request.n,
            payload_bytes=server.device.payload_bytes,
            size=request.n * domain.dimension,
            pure=not server.device.within,
        )

    def measured_blur(self) -> float:
        """1 minus the mean kernel value between a report and its point, for the middle of the bounds."""
        middle = np.array([self.device.domain.middle])
        reports = self.respond(np.repeat(middle, PREDICTION_REPORTS, axis=0), SecureBits.seeded("prediction"))
        points = ReportedPoints(self.kernel, self.box, self.units, len(reports), 0.0).points(reports.astype(float))
        return round(1.0 - float(self.kernel.value(points, middle).mean()), 6)

    @property
    @abstractmethod
    def units(self) -> tuple[float, ...]:
        """Data units of one integer, per column."""

    @abstractmethod
    def respond(self, points: Floats, bits: SecureBits) -> Integers:
        """Draw reports for points, shape (points, dimension)."""

    @abstractmethod
    def parse(self, payloads: Payloads) -> tuple[Integers, NDArray[np.bool_]]:
        """Return the reports in payloads, and which of them are in range."""

    @cached_property
    def half_widths(self) -> Floats:
        """Half the extent of each column."""
        return self.box.half_widths

    def steps(self, points: Floats, steps: int) -> Integers:
        """Whole steps from the lower bounds, as devices take them."""
        low, high = np.array(self.box.lower), np.array(self.box.upper)
        return np.asarray(np.clip(np.rint((points - low) / (high - low) * steps), 0, steps), dtype=np.int64)

    def tally(self) -> Tally:
        """Keep every report."""
        return Records(self.box.dimension)

    def count(self, payloads: Payloads, tally: Tally) -> NDArray[np.bool_]:
        """Keep the reports that are in range."""
        reports, good = self.parse(payloads)
        _records(tally).append(reports[good])
        return good

    def simulate(self, points: Floats, bits: SecureBits, tally: Tally) -> None:
        """Draw reports block by block."""
        for start in range(0, len(points), ROWS_AT_ONCE):
            _records(tally).append(self.respond(points[start : start + ROWS_AT_ONCE], bits))

    def quantizer(self, tally: Tally) -> ReportedPoints:
        """Read the reports as points."""
        reports = len(_records(tally).rows())
        return ReportedPoints(
            self.kernel,
            self.box,
            self.units,
            reports,
            CHANCE.read(self.parameters.get("blur"), "mechanism.blur"),
        )

    def noise_variance(self, reports: int) -> float:
        """Return 1: the reader's spread is the variance itself."""
        return 1.0

    def influence(self) -> float:
        """Return 1, the most that a kernel value can be."""
        return 1.0


def _records(tally: Tally) -> Records:
    if not isinstance(tally, Records):
        raise TypeError("reported points are kept in Records")
    return tally


def _little(payloads: Payloads, size: int) -> Integers:
    """Unsigned little-endian integers of `size` bytes, shape (reports, integers)."""
    return np.ascontiguousarray(payloads).view(f"<u{size}").astype(np.int64)


class DuchiServer(PointServer):
    """`dm`."""

    name = "dm"
    device_class = DuchiDevice

    @property
    def units(self) -> tuple[float, ...]:
        """Half the extent, times B."""
        return tuple((self.half_widths * self.device.law.scale).tolist())

    def respond(self, points: Floats, bits: SecureBits) -> Integers:
        """Draw signs, then reports by rejection, as `Signs.draw` does."""
        law, shape = self.device.law, points.shape
        signs = bits.below(STEPS, points.size).reshape(shape) < self.steps(points, STEPS)
        out = np.empty(shape, dtype=np.int64)
        missing = np.arange(len(points))
        while missing.size:
            report = _coins(bits, missing.size, shape[1])
            agrees = 2 * (report == signs[missing]).sum(axis=1) > shape[1]
            kept = agrees | (bits.below(law.odds.heads, missing.size) < law.odds.unit)
            out[missing[kept]] = np.where(report[kept], 1, -1)
            missing = missing[~kept]
        return out

    def parse(self, payloads: Payloads) -> tuple[Integers, NDArray[np.bool_]]:
        """Bits, the surplus ones 0."""
        found = np.unpackbits(payloads, axis=1, bitorder="little").astype(np.int64)
        size = self.box.dimension
        return 2 * found[:, :size] - 1, np.asarray(~found[:, size:].any(axis=1))


def _coins(bits: SecureBits, rows: int, columns: int) -> NDArray[np.bool_]:
    words = bits.words(rows * -(-columns // 64)).astype("<u8").view(np.uint8).reshape(rows, -1)
    return np.unpackbits(words, axis=1)[:, :columns].astype(bool)


class PiecewiseServer(PointServer):
    """`pm`."""

    name = "pm"
    device_class = PiecewiseDevice

    @property
    def units(self) -> tuple[float, ...]:
        """Half the extent, times what makes the report unbiased."""
        blow_up = self.box.dimension / self.device.columns * piecewise_scale(self.device.law)
        return tuple((self.half_widths * blow_up).tolist())

    def respond(self, points: Floats, bits: SecureBits) -> Integers:
        """Draw the columns, then a position for each."""
        law, (rows, size) = self.device.law, points.shape
        columns = _distinct(bits, rows, size, self.device.columns)
        steps = np.take_along_axis(self.steps(points, STEPS), columns, axis=1)
        starts = rounded_at_random(steps * (law.positions - law.width), STEPS, bits)
        reports = np.zeros((rows, size), dtype=np.int64)
        np.put_along_axis(reports, columns, 2 * draw_windows(law, starts, bits) + 1 - law.positions, axis=1)
        return reports

    def parse(self, payloads: Payloads) -> tuple[Integers, NDArray[np.bool_]]:
        """Different columns, each with a position."""
        size, count = self.box.dimension, self.device.columns
        parts = payloads.reshape(len(payloads), count, INDEX_BYTES + POSITION_BYTES)
        columns = _little(parts[:, :, :INDEX_BYTES], INDEX_BYTES)[:, :, 0]
        positions = _little(parts[:, :, INDEX_BYTES:], POSITION_BYTES)[:, :, 0]
        ordered = np.sort(columns, axis=1)
        good = (columns < size).all(axis=1) & (positions < PM_POSITIONS).all(axis=1)
        good &= (np.diff(ordered, axis=1) > 0).all(axis=1)
        reports = np.zeros((len(payloads), size), dtype=np.int64)
        values = 2 * positions + 1 - PM_POSITIONS
        np.put_along_axis(reports, np.minimum(columns, size - 1), values, axis=1)
        return reports, np.asarray(good)


def _distinct(bits: SecureBits, rows: int, size: int, count: int) -> Integers:
    """`count` distinct columns for each row, every choice equally likely: the first steps of a shuffle."""
    order = np.tile(np.arange(size), (rows, 1))
    every = np.arange(rows)
    for i in range(count):
        other = i + bits.below(size - i, rows)
        order[every, i], order[every, other] = order[every, other], order[every, i].copy()
    return order[:, :count]


class SquareServer(PointServer):
    """`sw`."""

    name = "sw"
    device_class = SquareDevice

    @property
    def units(self) -> tuple[float, ...]:
        """Integers are half steps from the middle."""
        return tuple((self.half_widths / SW_STEPS).tolist())

    def _centred(self, positions: Integers) -> Integers:
        return np.asarray(2 * (positions - self.device.reach) - SW_STEPS)

    def respond(self, points: Floats, bits: SecureBits) -> Integers:
        """Draw every column's position."""
        return self._centred(draw_windows(self.device.law, self.steps(points, SW_STEPS), bits))

    def parse(self, payloads: Payloads) -> tuple[Integers, NDArray[np.bool_]]:
        """Positions in range."""
        positions = _little(payloads, POSITION_BYTES)
        return self._centred(positions), np.asarray((positions < self.device.law.positions).all(axis=1))


class PlanarServer(PointServer):
    """`gi`."""

    name = "gi"
    device_class = PlanarDevice

    @classmethod
    def refuse(cls, request: Request) -> str | None:
        """Ask for a radius too, and one whose lattice over the bounds fits the report's integers."""
        if request.radius is None:
            return "it needs radius="
        reason = too_many_columns(request.dimension) or super().refuse(request)
        if reason is not None or request.bounds is None:
            return reason
        law = planar_law(request.epsilon, request.dimension)
        noise = NOISE_MARGIN * math.sqrt(law.variance) + law.first_shell * math.sqrt(request.dimension)
        reach = float(request.bounds.half_widths.max())
        if reach / planar_step(request.radius, request.dimension) + noise < LARGEST_REPORT:
            return None
        return (
            f"a radius of {request.radius:g} is too small for bounds of half-width {reach:g}: "
            "reports would be cut at 32 bits; choose a larger radius or narrower bounds"
        )

    @classmethod
    def parameters_of(cls, request: Request) -> Mapping[str, Any]:  # type: ignore[override]
        """Return the radius."""
        return {"radius": float(request.radius or math.nan)}

    @property
    def units(self) -> tuple[float, ...]:
        """The lattice's step."""
        return (self.device.step,) * self.box.dimension

    def respond(self, points: Floats, bits: SecureBits) -> Integers:
        """Put points on the lattice and add noise."""
        places = np.rint((points - np.array(self.device.domain.middle)) / self.device.step).astype(np.int64)
        reports = places + draw_spheres(self.device.law, len(points), bits)
        return np.asarray(np.clip(reports, -LARGEST_REPORT, LARGEST_REPORT))

    def parse(self, payloads: Payloads) -> tuple[Integers, NDArray[np.bool_]]:
        """32-bit integers, of which the smallest is never drawn."""
        reports = np.ascontiguousarray(payloads).view(f"<i{LATTICE_BYTES}").astype(np.int64)
        return reports, np.asarray((reports >= -LARGEST_REPORT).all(axis=1))


DUCHI = DuchiServer.method("two values a coordinate")
PIECEWISE = PiecewiseServer.method("the piecewise mechanism, a coordinate at a time")
SQUARE = SquareServer.method("the square wave, a coordinate at a time")
PLANAR = PlanarServer.method("noise of geo-indistinguishability on the point")
