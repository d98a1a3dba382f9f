"""A trained linear classifier: public weights, what they are applied to, and its part of a classifier's file.

Header: ``{"features", "steps", "weight_error", "loss", "guarantee", "columns", "written_by"}``; arrays ``weights``
(whole, one column a class, the intercept's row last) and ``center``. Everything is a function of what was published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.learn.softmax import LARGEST_WEIGHT, SCALE, WEIGHT_BITS, Features
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.loss import Loss
from sfumato.public.codec import Many, Nested, Object, Optional, Real, Schema, Text, Whole
from sfumato.quantizers.base import Floats, Integers
from sfumato.version import __version__

ARRAYS = {"weights", "center"}
_SCHEMA = Schema(
    features=Object(),
    steps=Whole(1, 10**6),
    weight_error=Real(0.0, 1e300),
    loss=Nested(Loss.from_document),
    guarantee=Nested(Guarantee.from_document),
    columns=Optional(Many(Text(), most=2**20)),
    written_by=Text(longest=100),
)


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Public weights of a softmax classifier.

    Attributes
    ----------
    features : Features
        What a point becomes.
    weights : ndarray of int64, shape (columns + 1, classes)
        Fixed point, unit 2^-16.
    steps : int
        How many gradients they are made of.
    weight_error : float
        Deviation of the noise in one weight, at most.
    loss : Loss
        What all steps reveal together.
    guarantee : Guarantee
        What is promised.
    columns : tuple of str or None
        Names of the points' columns.
    """

    features: Features
    weights: Integers
    steps: int
    weight_error: float
    loss: Loss
    guarantee: Guarantee
    columns: tuple[str, ...] | None = None
    written_by: str = f"sfumato {__version__}"

    @property
    def dimension(self) -> int:
        """Columns of a point."""
        return self.features.size - 1

    def scores(self, points: Floats) -> Floats:
        """Logits of each class, shape (points, classes)."""
        return np.asarray(self._features(points) @ np.ldexp(self.weights.astype(np.float64), -WEIGHT_BITS))

    def errors(self, points: Floats) -> Floats:
        """Return the standard deviation that noise adds to a score of each point."""
        return np.asarray(self.weight_error * np.linalg.norm(self._features(points), axis=1))

    def _features(self, points: Floats) -> Floats:
        """Points as numbers; those outside a box that drops records are read at its edge."""
        inside = np.clip(points, np.array(self.features.box.lower), np.array(self.features.box.upper))
        return np.asarray(self.features.integers(inside) / SCALE)

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the header's part and the arrays."""
        return _SCHEMA.write(self), {"weights": self.weights, "center": self.features.center}

    @classmethod
    def from_document(cls, document: Any, arrays: dict[str, NDArray[Any]], classes: int) -> LinearModel:
        """Read and check what `to_document` gave."""
        fields = _SCHEMA.read(document, "linear")
        if set(arrays) != ARRAYS:
            raise ReleaseFileError("a linear classifier holds the arrays weights and center, and no others")
        weights, center = arrays["weights"], arrays["center"]
        if weights.dtype.kind != "i" or center.dtype.kind != "f" or center.ndim != 1:
            raise ReleaseFileError("weights must be whole numbers and the centre a list of real ones")
        if weights.shape != (len(center) + 1, classes) or np.abs(weights).max() > LARGEST_WEIGHT:
            raise ReleaseFileError("weights must be one for each class and column, and one for its intercept")
        parts = Features.schema.read(fields.pop("features"), "linear.features")
        features = Features(parts["box"], center, parts["radius"])
        if fields["columns"] is not None and len(fields["columns"]) != len(center):
            raise InputError(f"the classifier names {len(fields['columns'])} columns and has {len(center)}")
        return cls(features=features, weights=weights, **fields)
