"""A structure for l1 distances on projected points: Euclidean distances (`projection` says how far they are off)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.distances.columns import ColumnSums
from sfumato.distances.projection import Projection, embedding_error
from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels.distance import Distance
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers.base import Bound, Floats, Integers, LinearQuantizer, Reading
from sfumato.quantizers.box import Box


@dataclass(frozen=True, eq=False)
class ProjectedQuantizer(LinearQuantizer):
    """A structure for l1 distances on projected points.

    Attributes
    ----------
    projection : Projection
        The public map.
    inner : ColumnSums
        The structure, over the projection's box.
    """

    projection: Projection
    inner: ColumnSums

    name: ClassVar[str] = "projected"

    def __post_init__(self) -> None:
        if self.inner.box != self.projection.box or self.inner.metric != Distance("l1"):
            raise InputError("the structure behind a projection must be one for l1 over the projection's own box")

    @property
    def box(self) -> Box:
        """The declared box of the points."""
        return self.projection.bounds

    @property
    def width(self) -> int:
        """Sums of the inner structure."""
        return self.inner.size

    @property
    def sparsity(self) -> int:
        """Sums that a record touches."""
        return self.inner.sparsity

    @property
    def bound(self) -> Bound:
        """Bounds of the inner structure, which hold for every image."""
        return self.inner.bound

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows."""
        return self.inner.encode(self.projection.place(rows), coins)

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers to `sums`."""
        return self.inner.accumulate(self.projection.place(rows), sums, coins)

    def weights(self, Y: Floats) -> Floats:
        """Weights of the inner structure at the images."""
        return self.inner.weights(self.projection.apply(Y))

    def read(self, Y: Floats, sums: Floats) -> Reading:
        """Read the inner structure at the images; the embedding's typical error is part of the bias."""
        reading, projection = self.inner.read(self.projection.apply(Y), sums), self.projection
        away = np.square(Y - self.box.centre).sum(axis=1) / (float(np.square(self.box.half_widths).sum()) / 3)
        error = embedding_error(self.dimension, projection.count, projection.frames, away)
        missed = error * np.abs(reading.total) / max(self.count(sums), 1.0)
        return replace(reading, bias=np.hypot(reading.bias, missed))

    def count(self, sums: NDArray[Any]) -> float:
        """Return the number of records that the sums show."""
        return self.inner.count(sums)

    @property
    def count_squares(self) -> float:
        """Sum of the squared weights of that number."""
        return self.inner.count_squares

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the public description."""
        inner, arrays = self.inner.to_document()
        del inner["box"]  # it follows from the projection
        document = {
            "quantizer": self.name,
            "box": self.box.to_document(),
            "projections": self.projection.count,
            "seed": self.projection.seed,
            "clip": self.projection.clip,
            "frames": self.projection.frames,
            "inner": inner,
        }
        return document, arrays

    @classmethod
    def from_document(
        cls, document: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int
    ) -> ProjectedQuantizer:
        """Rebuild from a release."""
        from sfumato.quantizers import quantizer_from_document

        if int(document["projections"]) > size:
            raise ReleaseFileError(f"the header describes more projections than its {size} sums have room for")
        box = Box.from_document(document["box"])
        seed, clip = int(document["seed"]), float(document["clip"])
        projection = Projection(box, int(document["projections"]), seed, clip, bool(document["frames"]))
        inner = {**document["inner"], "box": projection.box.to_document()}
        made = quantizer_from_document(inner, arrays, Distance("l1"), size)
        if not isinstance(made, ColumnSums):
            raise ReleaseFileError(f"projections are read by a structure of columns, not by {made.name}")
        return cls(projection, made)
