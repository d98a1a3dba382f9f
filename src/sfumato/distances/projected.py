"""A structure for l1 distances on projected points: Euclidean distances (`projection` says how far they are off)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.distances.columns import ColumnSums
from sfumato.distances.projection import Projection, embedding_error
from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels.distance import Distance
from sfumato.quantizers.answer import Answer, Floats, Known
from sfumato.quantizers.box import Box
from sfumato.quantizers.projection import Mapped


@dataclass(frozen=True, eq=False)
class ProjectedQuantizer(Mapped):
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

    def place(self, rows: NDArray[Any]) -> Floats:
        """Images of records."""
        return self.projection.place(rows)

    def apply(self, Y: Floats) -> Floats:
        """Images of queries."""
        return self.projection.apply(Y)

    def moved(self, Y: Floats, answer: Answer, sums: Floats, known: Known) -> Floats:
        """Typical error of the embedding."""
        projection = self.projection
        away = np.square(Y - self.box.centre).sum(axis=1) / (float(np.square(self.box.half_widths).sum()) / 3)
        error = embedding_error(self.dimension, projection.count, projection.frames, away)
        return np.asarray(error * np.abs(answer.total) / max(self.count(sums), 1.0))

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
