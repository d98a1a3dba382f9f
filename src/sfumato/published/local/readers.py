"""Answers from what published devices report: points, and buckets of a shared sketch.

Reported points (`dm`, `pm`, `sw`, `gi`) are read as they are. Every published integer belongs to a report, `dimension`
of them in a row; a report stands for the point at the box's centre plus its integers times `units`. The answer is the
mean kernel value of these points, the density of the true points blurred by the randomness. Its error bar holds the
spread between reports, exactly, and as a bias what the blur takes from a density: `blur` is 1 minus the mean kernel
value between a report and its true point.

Counters of a shared sketch are read by the estimate of `sketch_servers`. The error bar is the spread of the rows'
estimates, which holds the hash functions' randomness and the coins' together, and for sketches whose randomness is not
taken off the bias f (1 - 2 k) of a typical k.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.local.device import device_for
from sfumato.local.pool import Buckets, HashPool, check_pool, directions, held_numbers
from sfumato.local.rows_server import RowAnswer
from sfumato.local.server import server_class
from sfumato.methods.request import TYPICAL_DENSITY
from sfumato.public.codec import Many, Real, Schema
from sfumato.public.document import check_document
from sfumato.public.ranges import MOST_COLUMNS
from sfumato.published.local.sketch import SketchDevice
from sfumato.quantizers.answer import answer_from_terms
from sfumato.quantizers.base import Floats, Known, LinearReader, Reading
from sfumato.quantizers.box import Box
from sfumato.quantizers.described import Described, described

BLOCK = 4096
LARGEST_UNIT = 1e70  # of one unit of a report
CHANCE = Real(0.0, 1.0)


@dataclass(frozen=True, eq=False)
class ReportedPoints(Described, LinearReader):
    """Reads `reports` random points; see the module's text.

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> reader = ReportedPoints(Gaussian(1.0), Box((0.0,), (2.0,)), (0.5,), reports=2, blur=0.0)
    >>> reader.points(np.array([-2.0, 2.0])).ravel()
    array([0., 2.])
    """

    kernel: Any
    bounds: Box
    units: tuple[float, ...]
    reports: int
    blur: float

    name: ClassVar[str] = "reported-points"
    fixed_weights: ClassVar[bool] = False
    schema: ClassVar[Schema] = described(
        name, units=Many(Real(0.0, LARGEST_UNIT), most=MOST_COLUMNS, least=1), blur=CHANCE
    )

    @property
    def width(self) -> int:
        """All integers of all reports."""
        return self.reports * len(self.units)

    @property
    def query_numbers(self) -> int:
        """Kernel values at so many reports at a time."""
        return BLOCK

    @cached_property
    def _origin(self) -> Floats:
        low, high = np.array(self.bounds.lower), np.array(self.bounds.upper)
        return np.asarray(low + (high - low) / 2)

    def points(self, sums: Floats) -> Floats:
        """Return the reported points in data units."""
        return np.asarray(self._origin + sums.reshape(-1, len(self.units)) * np.array(self.units))

    def weights(self, Y: Floats) -> NoReturn:
        """Refuse: an answer is no weighted sum of the integers."""
        raise InputError("the density of reported points is not a weighted sum of the reports; use query")

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Sum the kernel over the reports; its spread between reports is the noise."""
        points, total, squares = self.points(sums), np.zeros(len(Y)), np.zeros(len(Y))
        for start in range(0, len(points), BLOCK):
            values = self.kernel.value(points[start : start + BLOCK], Y)
            total += values.sum(axis=0)
            squares += np.einsum("ij,ij->j", values, values)
        spread = np.maximum(squares - total**2 / max(self.reports, 1), 0.0)
        # A density of a was blurred to about (1 - blur) a, of which a typical one is known beforehand.
        unblurred = total / max(self.reports, 1) / max(1 - self.blur, 1e-9)
        return Reading(total, spread, self.blur * np.clip(unblurred, TYPICAL_DENSITY, 1.0))

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild for as many reports as there are integers."""
        if len(fields["units"]) != fields["box"].dimension:
            raise ReleaseFileError(f"reported points of {fields['box'].dimension} columns need a unit for each")
        return super().from_fields({**fields, "reports": size // len(fields["units"])}, arrays, kernel, size)


class SketchReader(LinearReader):
    """Reads L x R counters.

    Parameters
    ----------
    device : SketchDevice
        Knows the public functions.
    answer : RowAnswer or None
        What an estimate takes off; None for matches as they are.
    flips : float
        Chance of a wrong bucket that is not taken off.
    """

    name: ClassVar[str] = "local-sketch"

    def __init__(self, device: SketchDevice, answer: RowAnswer | None, flips: float = 0.0) -> None:
        self.device = device
        self.pool = HashPool(device.hash, device.rows)
        self.shift = 0.0 if answer is None else answer.shift
        self.range = 1.0 if answer is None else answer.range
        self.flips = flips

    @property
    def box(self) -> Box:
        """The protocol's domain."""
        domain = self.device.domain
        return Box.of(domain)

    @property
    def width(self) -> int:
        """All counters."""
        return self.device.rows * self.device.hash.buckets

    @property
    def query_numbers(self) -> int:
        """One counter of every row."""
        return int(self.device.rows)

    def _places(self, Y: Floats) -> Buckets:
        Y, far = directions(Y) if self.device.angular else Y, float(self.pool.farthest)
        with np.errstate(over="ignore"):
            X = np.clip(np.rint((Y - np.array(self.device.origin)) * np.array(self.device.scales)), -far, far)
        return self.pool.table(X.astype(np.int64))

    def row_values(self, Y: Floats, sums: Floats) -> Floats:
        """Estimate of every row, shape (queries, rows)."""
        table = sums.reshape(self.device.rows, self.device.hash.buckets)
        counts = table[np.arange(self.device.rows), self._places(Y)]
        return np.asarray((counts - self.shift * table.sum(axis=1)) * self.range)

    def weights(self, Y: Floats) -> Floats:
        """Weights of the mean over rows, which is the answer of one group."""
        chosen = np.full((len(Y), self.device.rows, self.device.hash.buckets), -self.shift)
        np.put_along_axis(chosen, self._places(Y)[:, :, None].astype(np.int64), 1 - self.shift, axis=2)
        return chosen.reshape(len(Y), self.size) * self.range / self.device.rows

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Read answers in units of a noise variance of 1."""
        return self.reading(Y, sums, Known(1.0))

    def reading(self, Y: Floats, sums: Floats, known: Known) -> Reading:
        """Take the mean of the rows, or the median of the groups' means."""
        answer = answer_from_terms(self.row_values(Y, sums), self.device.groups)
        density = answer.total / max(sums.sum() / self.device.rows, 1.0)
        bias = self.flips * np.abs(1 - 2 * np.clip(density, 0.0, 1.0))
        # The rows show their own spread: a file may state any noise, none included.
        unit = max(known.noise_variance, 1.0)
        return Reading(answer.total, answer.standard_error**2 / unit, bias, spread=unit)

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the protocol; everything is drawn again from its seed."""
        return {"quantizer": self.name, "protocol": dict(self.device.document)}, {}

    @classmethod
    def from_document(
        cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], kernel: Any, size: int
    ) -> SketchReader:
        """Rebuild from a release."""
        check_document(document["protocol"], "local", released=True)
        device = device_for(document["protocol"], released=True)
        if not isinstance(device, SketchDevice) or device.rows * device.hash.buckets != size:
            raise ReleaseFileError("the release's protocol does not describe its values")
        check_pool(device.rows, held_numbers(device.hash))
        server = server_class(device.name)(device, kernel)
        reader = server.quantizer(server.tally())
        if not isinstance(reader, cls):
            raise ReleaseFileError("the release's protocol does not describe a sketch")
        return reader
