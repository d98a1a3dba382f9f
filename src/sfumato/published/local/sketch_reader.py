"""Answers from the counters of a shared sketch; see `sketch_servers` for the estimate.

The error bar is the spread of the rows' estimates, which holds the hash functions' randomness and the coins' together,
and for sketches whose randomness is not taken off the bias f (1 - 2 k) of a typical k.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ReleaseFileError
from sfumato.local.pool import Buckets, HashPool
from sfumato.local.registry import device_for
from sfumato.local.rows_server import RowAnswer
from sfumato.local.server import server_class
from sfumato.local.vectorised import directions
from sfumato.public.document import check_document
from sfumato.published.local.sketch import SketchDevice
from sfumato.quantizers.answer import answer_from_terms
from sfumato.quantizers.base import Floats, Known, LinearReader, Reading
from sfumato.quantizers.box import Box


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
        return Box(domain.lower, domain.upper, "clip", domain.declared)

    @property
    def width(self) -> int:
        """All counters."""
        return self.device.rows * self.device.hash.buckets

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
        return Reading(answer.total, answer.standard_error**2 / known.noise_variance, bias)

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
        server = server_class(device.name)(device, kernel)
        reader = server.quantizer(server.tally())
        if not isinstance(reader, cls):
            raise ReleaseFileError("the release's protocol does not describe a sketch")
        return reader
