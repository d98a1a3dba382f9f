"""`CurvedPoints`: a quantizer behind the public map of columns on circles and spheres (`kernels.curved`).

Each record alone decides its image, of which every bit is the same everywhere, and the inner quantizer's bounds hold
for every image: the guarantee is its own. The map is exact, so it adds nothing to the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels.curved import Curved
from sfumato.public.codec import Nested, Object, Schema
from sfumato.quantizers.answer import Answer, Floats, Known
from sfumato.quantizers.base import Quantizer
from sfumato.quantizers.box import Box
from sfumato.quantizers.mapped import Mapped


@dataclass(frozen=True, eq=False)
class CurvedPoints(Mapped):
    """A quantizer of images; it reads points of the table's own columns.

    Attributes
    ----------
    kernel : Curved
        The columns' kinds.
    inner : Quantizer
        The quantizer of images.
    bounds : Box
        Where points live: flat columns within their bounds, the others in one turn.
    """

    kernel: Curved
    inner: Quantizer
    bounds: Box

    name: ClassVar[str] = "curved-points"
    kernels = Curved
    schema = Schema({"quantizer": name}, box=Nested(Box.from_document), inner=Object())

    def __post_init__(self) -> None:
        columns = len(self.kernel.spread(range(self.bounds.dimension)))
        if self.inner.dimension != columns:
            raise InputError("the quantizer behind circles and spheres must take the columns of their images")

    @property
    def box(self) -> Box:
        """The box of the points."""
        return self.bounds

    def place(self, rows: NDArray[Any]) -> Floats:
        """Images of records."""
        return self.kernel.mapped(rows)

    def apply(self, Y: Floats) -> Floats:
        """Images of queries."""
        return self.kernel.mapped(Y)

    def moved(self, Y: Floats, answer: Answer, sums: Floats, known: Known) -> Floats:
        """Nothing: the map is exact."""
        return np.zeros(len(Y))

    def bias_bound(self, Y: Floats, sums: Floats, known: Known) -> Floats:
        """Return the inner quantizer's at the images."""
        return self.inner.bias_bound(self.apply(Y), sums, known)

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the public description; the kernel has the columns' kinds."""
        inner, arrays = self.inner.to_document()
        return {"quantizer": self.name, "box": self.box.to_document(), "inner": inner}, arrays

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild the quantizer behind the map."""
        from sfumato.quantizers import quantizer_from_document

        if fields["inner"].get("quantizer") == cls.name:
            raise ReleaseFileError("columns are bent once")
        inner = quantizer_from_document(fields["inner"], arrays, kernel.images, size)
        if not isinstance(inner, Quantizer):
            raise ReleaseFileError(f"points on circles are encoded, and {inner.name} only reads")
        return cls(kernel, inner, fields["box"])
