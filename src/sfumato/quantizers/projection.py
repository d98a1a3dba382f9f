"""Random projections to fewer columns, and the quantizer behind one.

`Projection` keeps Euclidean distances in fewer columns, as a public step before any quantizer.

Source: Backurs et al. (2024), Theorem E.2 (Gaussian projections), Corollary E.3 (the fast transform of Ailon and
Chazelle) and Theorem F.2 (smooth kernels). A projection is drawn from a public seed, without looking at the records,
and applied to records and queries alike; the quantizer behind it sees k columns.

- ``dense``: image_i = g_i . x / sqrt(k), g_i independent normal vectors. Squared distances keep their mean; their
  relative variance over the draw is 2 / k. d k multiplications a record.
- ``fast``: random signs, a Walsh-Hadamard transform over D columns (d filled up to a power of two), and k of its D
  numbers chosen without replacement, over sqrt(k). Relative variance about (2 / k) (1 - k / D). D log2(D) additions a
  record.

Privacy. Each record alone decides its image, and the image is clipped to a public box, so one record adds to the sums
what the quantizer's own bound says, as if images were the records.

Integers (law 1). Values lie on one dyadic grid in all columns, 2^20 steps for the widest half of the box; normal
numbers are whole multiples of a power of two (they are below 8.6 in magnitude). Every partial sum is a whole number
below 2^53: products and transforms are exact in any order, and the scale is one rounding of each number.

Clipping. Image coordinates beyond `CLIP` r / sqrt(k), r the half diagonal of the box, are cut to that. A record as
far out as a corner of the box has a coordinate beyond with a probability of about 2e-9 over the draw.

What a projection adds to the error of an answer is in `projection_error`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import Kernel
from sfumato.public.codec import Digits, Nested, Object, Schema, Text, Whole, brief
from sfumato.public.portable import LARGEST_SEED, PublicStream
from sfumato.public.ranges import MOST_COLUMNS, check_reader_cost
from sfumato.quantizers.answer import Answer, Floats, Known
from sfumato.quantizers.base import Quantizer
from sfumato.quantizers.box import Box, Lattice
from sfumato.quantizers.mapped import Projected
from sfumato.quantizers.projection_error import (
    projection_error,
    projection_work,
    refuse_kernel,
    squared_distance_variance,
)
from sfumato.quantizers.rotation import padded, signed_transform

KINDS = ("dense", "fast")
VALUE_BITS, SUM_BITS, NORMAL_BITS = 20, 52, 4
CLIP = 6.0
DEFAULT_REACH = 2.0**10  # bandwidths each way from 0, where no bounds are given
MOST_NUMBERS = 2**27
ROW_BLOCKS = {"dense": 256, "fast": 32}  # rows that stay in the cache between rounding and projecting
Map = Callable[[Floats, Floats], None]


@dataclass(frozen=True)
class Projection:
    """A public linear map to fewer columns.

    Attributes
    ----------
    bounds : Box
        The public box of the points.
    kind : {"dense", "fast"}
        Normal vectors, or signs with a Walsh-Hadamard transform.
    columns : int
        k.
    seed : int
        Public seed.

    Examples
    --------
    >>> projection = Projection(Box((-1.0,) * 64, (1.0,) * 64), "fast", columns=32, seed=7)
    >>> image = projection.place(np.ones((1, 64)))
    >>> image.shape, round(float((image**2).sum()), 1)
    ((1, 32), 71.5)
    """

    bounds: Box
    kind: str
    columns: int
    seed: int

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"project must be 'dense' or 'fast', got {brief(self.kind)}")
        given = self.bounds.dimension
        most = padded(given) if self.kind == "fast" else MOST_COLUMNS
        if type(self.columns) is not int or not 1 <= self.columns <= most or given > MOST_COLUMNS:
            raise InputError(
                f"a projection of {given} columns must have between 1 and {most}, got {brief(self.columns)}"
            )
        if self.numbers > MOST_NUMBERS:
            raise InputError(f"a dense projection of {given} to {self.columns} columns is too large; use 'fast'")

    @cached_property
    def lattice(self) -> Lattice:
        """Grid of the values: one step for all columns."""
        exponent = math.frexp(float(self.bounds.half_widths.max()))[1] - VALUE_BITS
        return Lattice(self.bounds, (exponent,) * self.bounds.dimension)

    @cached_property
    def box(self) -> Box:
        """Where images lie after clipping."""
        radius = math.sqrt(math.fsum(float(half) ** 2 for half in self.bounds.half_widths))
        reach = CLIP * radius / math.sqrt(self.columns)
        return Box((-reach,) * self.columns, (reach,) * self.columns, "clip", declared=True)

    @cached_property
    def _map(self) -> Map:
        step = float(self.lattice.steps[0])
        return _mapping(self.kind, self.bounds.dimension, self.columns, self.seed, step)

    def place(self, rows: NDArray[Any]) -> Floats:
        """Images of the rows that the box keeps; exact up to one rounding of each number."""
        size = ROW_BLOCKS[self.kind]
        block = np.empty((min(size, len(rows)), self.bounds.dimension))
        images, total = np.empty((len(rows), self.columns)), 0
        for start in range(0, len(rows), size):
            kept = self.lattice.place(rows[start : start + size], block)
            self._map(block[:kept], images[total : total + kept])
            total += kept
        return images[:total]

    def apply(self, Y: Floats) -> Floats:
        """Images of queries, which may lie anywhere."""
        images = np.empty((len(Y), self.columns))
        self._map(self.lattice.centred(Y), images)
        return images

    @property
    def numbers(self) -> int:
        """Public numbers that the map takes."""
        return self.bounds.dimension * (self.columns if self.kind == "dense" else 4)

    @property
    def variance(self) -> float:
        """Relative variance of a squared distance over the draw."""
        return squared_distance_variance(self.kind, self.bounds.dimension, self.columns)

    @property
    def work(self) -> float:
        """Multiplications (or additions) for one point."""
        return projection_work(self.kind, self.bounds.dimension, self.columns)

    def condition(self) -> str:
        """Say what happens to points, for the guarantee."""
        return (
            f"{self.bounds.condition()}; points are projected to {self.columns} columns by public numbers, and images "
            f"beyond {self.box.upper[0]:g} are clipped"
        )


@lru_cache(maxsize=4)
def _mapping(kind: str, given: int, columns: int, seed: int, step: float) -> Map:
    """Return the map from lattice coordinates to images, which it writes to its second argument."""
    stream = PublicStream(seed, f"projection/{kind}")
    if kind == "dense":
        bits = SUM_BITS - NORMAL_BITS - VALUE_BITS - 1 - (given - 1).bit_length()
        normals = stream.normals(given * columns).reshape(columns, given)
        matrix = np.ascontiguousarray(np.rint(np.ldexp(normals, bits)).T)
        unit = math.ldexp(step, -bits) / math.sqrt(columns)

        def dense(points: Floats, images: Floats) -> None:
            np.dot(points, matrix, out=images)
            images *= unit

        return dense
    width = padded(given)
    signs = np.where(stream.words(width) >> np.uint64(63) == 0, 1.0, -1.0)
    chosen = np.sort(np.argsort(stream.words(width), kind="stable")[:columns])

    def fast(points: Floats, images: Floats) -> None:
        signed_transform(points, signs, chosen, step / math.sqrt(columns), images)

    return fast


@dataclass(frozen=True, eq=False)
class ProjectedPoints(Projected):
    """A quantizer of images; it reads points of all columns.

    Attributes
    ----------
    projection : Projection
        The public map.
    inner : Quantizer
        The quantizer of images, over the projection's box.
    kernel : Kernel
        For the error that the projection adds.
    """

    projection: Projection
    inner: Quantizer
    kernel: Kernel

    name: ClassVar[str] = "projected-points"
    kernels = Kernel
    schema = Schema(
        {"quantizer": name},
        box=Nested(Box.from_document),
        project=Text(*KINDS),
        columns=Whole(1, MOST_COLUMNS),
        seed=Digits(LARGEST_SEED),
        inner=Object(),
    )

    def __post_init__(self) -> None:
        if self.inner.dimension != self.projection.columns:
            raise InputError("the quantizer behind a projection must take the projection's columns")
        if (reason := refuse_kernel(self.kernel)) is not None:
            raise InputError(reason)

    def moved(self, Y: Floats, answer: Answer, sums: Floats, known: Known) -> Floats:
        """Typical error that the projection adds to answers of these sizes."""
        nodes = np.linspace(0.0, 1.0, 65)[1:-1] ** 2
        table = [projection_error(self.kernel, float(node), self.projection.variance) for node in nodes]
        return np.interp(answer.total / known.count, nodes, table)

    def bias_bound(self, Y: Floats, sums: Floats, known: Known) -> Floats:
        """Refuse: the projection's error is random and has none."""
        raise InputError("the bias of projected points has no limit: error bars state its typical size")

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the public description."""
        inner, arrays = self.inner.to_document()
        document = {
            "quantizer": self.name,
            "box": self.box.to_document(),
            "project": self.projection.kind,
            "columns": self.projection.columns,
            "seed": str(self.projection.seed),
            "inner": inner,
        }
        return document, arrays

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild the projection and the quantizer behind it."""
        from sfumato.quantizers import quantizer_from_document

        if fields["inner"].get("quantizer") == cls.name:
            raise ReleaseFileError("points are projected once")
        projection = Projection(fields["box"], fields["project"], fields["columns"], fields["seed"])
        check_reader_cost(projection.numbers)
        inner = quantizer_from_document(fields["inner"], arrays, kernel, size)
        if not isinstance(inner, Quantizer):
            raise ReleaseFileError(f"projected points are encoded, and {inner.name} only reads")
        return cls(projection, inner, kernel)
