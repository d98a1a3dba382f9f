"""The density of reported points, read as it is: what the random points of `dm`, `pm`, `sw` and `gi` give.

Every published integer belongs to a report, `dimension` of them in a row; a report stands for the point at the box's
centre plus its integers times `units`. The answer is the mean kernel value of these points, the density of the true
points blurred by the randomness. Its error bar holds the spread between reports, exactly, and as a bias what the
blur takes from a density: `blur` is 1 minus the mean kernel value between a report and its true point.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.methods.request import TYPICAL_DENSITY
from sfumato.quantizers.base import Floats, LinearReader, Reading
from sfumato.quantizers.box import Box

BLOCK = 4096


@dataclass(frozen=True, eq=False)
class ReportedPoints(LinearReader):
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

    @property
    def box(self) -> Box:
        """Where true points lived."""
        return self.bounds

    @property
    def width(self) -> int:
        """All integers of all reports."""
        return self.reports * len(self.units)

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

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the public description."""
        document = {
            "quantizer": self.name,
            "box": self.bounds.to_document(),
            "units": list(self.units),
            "blur": self.blur,
        }
        return document, {}

    @classmethod
    def from_document(
        cls, document: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int
    ) -> ReportedPoints:
        """Rebuild from a release."""
        box, units = Box.from_document(document["box"]), tuple(map(float, document["units"]))
        if len(units) != box.dimension or size % len(units):
            raise ReleaseFileError(f"{size} integers are no list of points of {len(units)} columns")
        return cls(kernel, box, units, size // len(units), float(document["blur"]))
