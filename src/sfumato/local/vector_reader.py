"""Answers of `vector`: weights g(y) times the summed reports; see `vector_server`."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from sfumato.local.pool_server import ProtocolReader
from sfumato.local.vector import SIGN_LABEL, UNIT, LandmarkFeatures, Vector
from sfumato.privacy.response import check_says
from sfumato.public.document import plain
from sfumato.public.rows import NORMAL, row_bytes
from sfumato.quantizers.base import Floats, LinearReader, Reading
from sfumato.quantizers.rotation import transform


class VectorReader(ProtocolReader, LinearReader):
    """Reads sums of reported vectors, or of the signs of turned coordinates."""

    name: ClassVar[str] = "local-vector"
    kind = Vector
    device: Vector

    def __init__(self, device: Vector, kernel: Any) -> None:
        check_says(device.same, device.other)
        self.device = device
        self.kernel = kernel
        self.parameters = plain(device.parameters)

    @property
    def width(self) -> int:
        """One sum for each feature, or turned coordinate."""
        return self.device.features.size if self.device.randomiser == "codebook" else self.device.turned

    def feature_weights(self, Y: Floats) -> Floats:
        """Features g(y) of queries: f(x) . g(y) approximates the kernel."""
        features = self.device.features
        if isinstance(features, LandmarkFeatures):
            return np.asarray(self.kernel.value(Y, np.array(features.landmarks)) @ np.array(features.projection))
        return np.asarray(Y / self.kernel.radius)

    def weights(self, Y: Floats) -> Floats:
        """Weights of the sums."""
        device, found = self.device, self.feature_weights(Y)
        if device.randomiser == "codebook":
            return np.asarray(found / (float(self.parameters["gain"]) * 2.0**NORMAL.fraction_bits))
        unbias = (device.same + device.other) / (device.same - device.other)
        # A coordinate in units of UNIT sqrt(D) is F times a row of signs; back, the rows are divided by D.
        return turned(device, found) * (unbias * device.range / UNIT)

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Multiply, and add what the landmarks say of the rest."""
        weights = self.weights(Y)
        total, bias = weights @ sums, np.full(len(Y), float(self.parameters.get("bias", 0.0)))
        return Reading(total, np.square(weights).sum(axis=1), bias)

    def reading(self, Y: Floats, sums: Floats, known: Any) -> Reading:
        """Add the public completion, which is a mean and needs the count."""
        reading, features = self.weigh(Y, sums), self.device.features
        if isinstance(features, LandmarkFeatures):
            completion = np.array(self.parameters["completion"])
            missed = self.kernel.value(Y, np.array(features.landmarks)) @ completion
            return Reading(reading.total + known.count * missed, reading.weight_squares, reading.bias)
        return reading

    @classmethod
    def of(cls, device: Any, kernel: Any) -> VectorReader:
        """Make the reader of a device; queries take the kernel."""
        return cls(device, kernel)


def turned(device: Vector, features: Floats) -> Floats:
    """Turn vectors of features into coordinates: random signs, then Hadamard's matrix of the next power of two."""
    size = device.features.size
    signs = np.frombuffer(row_bytes(device.seed, SIGN_LABEL, 0, size), dtype=np.uint8)
    rows = np.zeros((len(features), device.turned))
    rows[:, :size] = np.where(signs & 1, -1.0, 1.0) * features
    transform(rows)
    return rows
