"""`squared-distance`: sums of squared distances to projected and clipped records, for the classifier of that rule.

Source: section 4 and appendix H of Backurs et al. (2024), which projects embeddings, clips them, releases a
structure for squared distances for each class and takes the class with the least distance; both parameters were tuned
on the private data there. Here they follow from what is public.

Maps. A record no longer than the radius r becomes integers (`Ball`), these are rotated publicly at random, and the
first k coordinates, times sqrt(d / k), are clipped at h = clip r / sqrt(k) each. Centred moments of the clipped
coordinates are released (`distances.moments`, which has the guarantee: all it needs is that the coordinates lie in the
box, which clipping ensures).

Answers. A coordinate of a record of length r is like a normal number of deviation r / sqrt(k). Clipping it multiplies
its covariance with a query by A = erf(clip / sqrt(2)) and leaves the part E = E min(Z^2, clip^2), Z normal, of its
square. Answers undo both on average: sum |x - y|^2 = Q + n (1 - E) r^2 - 2 Z.y' / A + n |y|^2, y' the projected query.
That is right for records as long as the radius; shorter ones are clipped less, and distances to them are overstated.

Choice of clip. Cube noise and Gaussian noise both grow in proportion to clip, so the error of an answer goes with
clip / A, which falls from 2.5 at clip = 2.5 to sqrt(pi / 2) = 1.25 as clip goes to 0; at clip = 1/2 it is 1.31, and
coordinates still are more than signs.

Choice of k. The difference of two classes' scores for a query of length r, in units of 2 r^2: Laplace-like (cube) noise
adds the variance 2 k (clip / A)^2 / (3 (e n)^2) with n records in a class, and a projection to k of d directions adds
s^2 (1 / k - 1 / d), s the distance between the classes' means. With the guess s = 1/2 the least sum is at k = (A /
clip) sqrt(3/2) s e n, or d if that is less. Gaussian noise does not depend on k, so then k = d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.distances.moments import MomentQuantizer
from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import InnerProduct
from sfumato.kernels.unscaled import Distance
from sfumato.methods.method import Mechanism
from sfumato.methods.registry import DISTANCES
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import Nested, Real, Schema, Text, brief
from sfumato.quantizers.base import Bound, Floats, Integers, Known, LinearQuantizer, Reading
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import Ball
from sfumato.quantizers.rotation import MOST_ROTATED, ROTATION_BITS, check_rotation, rotation

METHODS = ("auto", "moments", "moments-gaussian")
OPTIONS = ("projections", "clip")
SCALE = 2**18
CLIP = 0.5
SEPARATION = 0.5  # public guess of the distance between two classes' means, in radii
LEAST_PROJECTIONS = 8
_FIELDS = Schema(
    {"quantizer": "projected-squares"},
    ball=Nested(Ball.from_document),
    clip=Real(0.01, 100.0),
    seed=Text(longest=20),
    inner=Nested(lambda document, _: document),
)


@dataclass(frozen=True, eq=False)
class ProjectedSquares(LinearQuantizer):
    """Moments of projected and clipped records, read as squared distances; see the module's text.

    Attributes
    ----------
    ball : Ball
        The records' integers.
    inner : MomentQuantizer
        Moments of the clipped coordinates, in a cube around 0.
    clip : float
        Largest coordinate, in units of radius / sqrt(k).
    seed : int
        Public seed of the rotation.

    Examples
    --------
    >>> ball, cube = Ball.around(InnerProduct(), 4, SCALE), clipped_box(1.0, 4, clip=3.0)
    >>> inner = MomentQuantizer(cube, tuple(range(4)), (2**20,) * 6)
    >>> squares = ProjectedSquares(ball, inner, clip=3.0, seed=1)
    >>> sums = squares.encode(np.array([[1.0, 0.0, 0.0, 0.0]])).sum(axis=0)
    >>> squares.weigh(np.array([[0.0, 1.0, 0.0, 0.0]]), sums.astype(float)).total.round(1)
    array([2.])
    """

    ball: Ball
    inner: MomentQuantizer
    clip: float
    seed: int

    name: ClassVar[str] = "projected-squares"

    def __post_init__(self) -> None:
        if not 1 <= self.projections <= self.dimension <= MOST_ROTATED:
            raise InputError(f"projections must lie between 1 and the columns, of which there are {self.dimension}")
        check_rotation(self.dimension)
        if self.inner.box != clipped_box(self.ball.radius, self.projections, self.clip):
            raise InputError("the moments behind a projection must be those of its clipped coordinates")

    @property
    def box(self) -> Box:
        """Where values may lie."""
        return self.ball.box

    @property
    def projections(self) -> int:
        """How many directions, k."""
        return self.inner.dimension

    @property
    def width(self) -> int:
        """The moments' sums."""
        return self.inner.size

    @property
    def bound(self) -> Bound:
        """Bounds of the moments, which hold for every record."""
        return self.inner.bound

    @cached_property
    def _directions(self) -> Floats:
        return np.ascontiguousarray(rotation(self.dimension, self.seed)[:, : self.projections])

    @property
    def _stretch(self) -> float:
        return math.sqrt(self.dimension / self.projections)

    def _images(self, rows: NDArray[Any]) -> Floats:
        """Projected coordinates: products of integers that are exact in any order, times one number."""
        products = self.ball.integers(rows).astype(np.float64) @ self._directions
        return np.asarray(products * (self._stretch * self.ball.radius * 2.0**-ROTATION_BITS / self.ball.amplitude))

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows."""
        return self.inner.encode(self._images(rows))

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers to `sums`."""
        return self.inner.accumulate(self._images(rows), sums)

    def weights(self, Y: Floats) -> Floats:
        """Weights of the moments, with what clipping takes undone on average."""
        covariance, squares = clipped_parts(self.clip)
        images = Y @ self._directions * (self._stretch * 2.0**-ROTATION_BITS / covariance)
        weights = self.inner.weights(images)
        lost = (1 - squares) * self.ball.radius**2
        weights[:, -1] += (np.square(Y).sum(axis=1) - np.square(images).sum(axis=1) + lost) / self.inner.scales[-1]
        return weights

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Weigh the sums; the bias is what a projection to k directions moves an inner product by."""
        weights = self.weights(Y)
        product = weights[:, -1] / self.inner.scales[-1] if self.inner.counted else 0.0
        moved = math.sqrt(max(0.0, 1 / self.projections - 1 / self.dimension))
        bias = 2 * moved * self.ball.radius * np.linalg.norm(Y, axis=1)
        return Reading(weights @ sums, np.square(weights).sum(axis=1), bias, count_product=product)

    def reading(self, Y: Floats, sums: Floats, known: Known) -> Reading:
        """Read answers, and add to the bias what clipping moves them by, as far as the sums show it.

        Records shorter than the radius are clipped less than the answers undo; how long they are is read off the mean
        of their clipped squares. Records that lie close together share the errors of one rotation, each by the spread
        of a normal coordinate's clipped product around what its square explains.
        """
        reading = self.weigh(Y, sums)
        radius_squared = self.ball.radius**2
        covariance, squares = clipped_parts(self.clip)
        length = float(self.weigh(np.zeros((1, self.dimension)), sums).total[0]) / known.count
        kept = min(max(length / radius_squared - (1 - squares), 0.0), squares)
        ratio = record_length(kept, self.clip)
        product = np.abs(length + np.square(Y).sum(axis=1) - reading.total / known.count) / 2
        undone = abs(1 - covariance / clipped_parts(self.clip / ratio)[0])
        shared = rotation_spread(self.clip) / math.sqrt(self.projections)
        bias = 2 * product * (undone + shared) + abs(length - ratio**2 * radius_squared)
        return replace(reading, bias=reading.bias + bias)

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the public description; the rotation is drawn again from its seed."""
        inner, arrays = self.inner.to_document()
        document = {
            "quantizer": self.name,
            "ball": self.ball.to_document(),
            "clip": self.clip,
            "seed": str(self.seed),
            "inner": inner,
        }
        return document, arrays

    @classmethod
    def from_document(
        cls, document: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int
    ) -> ProjectedSquares:
        """Rebuild from a release."""
        if kernel != Distance("sqeuclidean"):
            raise ReleaseFileError("projected squares are read as squared distances")
        fields = _FIELDS.read(document, "quantizer")
        inner = MomentQuantizer.from_document(fields["inner"], arrays, kernel, size)
        return cls(fields["ball"], inner, fields["clip"], int(fields["seed"]))


def clipped_box(radius: float, projections: int, clip: float) -> Box:
    """Where clipped coordinates lie."""
    half = clip * radius / math.sqrt(projections)
    return Box((-half,) * projections, (half,) * projections)


def clipped_parts(clip: float) -> tuple[float, float]:
    """Return A and E of the module's text: what clipping leaves of a covariance and of a square.

    Examples
    --------
    >>> [round(part, 4) for part in clipped_parts(0.5)]
    [0.3829, 0.1851]
    """
    inside = math.erf(clip / math.sqrt(2))
    density = math.exp(-(clip**2) / 2) / math.sqrt(2 * math.pi)
    return inside, inside - 2 * clip * density + clip**2 * (1 - inside)


def record_length(kept: float, clip: float) -> float:
    """Length of records in radii whose clipped squares have the mean `kept` (in squared radii), at most 1.

    Examples
    --------
    >>> round(record_length(clipped_parts(0.5)[1], 0.5), 3), round(record_length(0.01, 0.5), 3)
    (1.0, 0.1)
    """
    lengths = np.linspace(0.01, 1.0, 200)
    means = [length**2 * clipped_parts(clip / length)[1] for length in lengths.tolist()]
    return float(np.interp(kept, means, lengths))


@lru_cache(maxsize=64)
def rotation_spread(clip: float) -> float:
    """Deviation of Z min(|Z|, clip) sign Z, Z normal, around its regression on Z^2, relative to its mean A.

    Examples
    --------
    >>> round(rotation_spread(0.5), 2)
    0.32
    """
    places, weights = np.polynomial.hermite_e.hermegauss(160)
    weights = weights / weights.sum()
    products = places * np.clip(places, -clip, clip)
    mean = float(weights @ products)
    variance = float(weights @ products**2) - mean**2
    explained = (float(weights @ (products * places**2)) - mean) ** 2 / 2
    return math.sqrt(max(variance - explained, 0.0)) / clipped_parts(clip)[0]


def best_projections(dimension: int, n: int, epsilon: float, clip: float) -> int:
    """Choose k for `n` records a class, see the module's text.

    Examples
    --------
    >>> best_projections(384, 5000, 1.0, clip=0.5), best_projections(384, 5000, 0.05, clip=0.5)
    (384, 117)
    """
    best = clipped_parts(clip)[0] / clip * math.sqrt(1.5) * SEPARATION * epsilon * n
    return min(dimension, max(LEAST_PROJECTIONS, round(best)))


def build(method: str, request: Request) -> Mechanism:
    """Build the mechanism that every class is released by; `request.n` is the number of records of one class."""
    kernel = request.kernel
    assert isinstance(kernel, InnerProduct)
    request.check_options(*OPTIONS)
    if method not in METHODS:
        raise InputError(f"rule 'squared-distance' knows the methods {', '.join(METHODS)}; got {brief(method)}")
    if request.dimension > MOST_ROTATED:
        raise InputError(f"rule 'squared-distance' is for up to {MOST_ROTATED} columns; there are {request.dimension}")
    if method == "auto":
        method = "moments-gaussian" if request.delta else "moments"
    clip = _clip(request)
    projections = _projections(request, method, clip)
    ball = Ball.around(kernel, request.dimension, SCALE, request.bounds, request.outside)
    box = clipped_box(kernel.radius, projections, clip)
    options = {name: value for name, value in request.options.items() if name not in (*OPTIONS, "outside")}
    inner = Request(
        kernel=Distance("sqeuclidean"),
        dimension=projections,
        epsilon=request.epsilon,
        n=request.n,
        feature_seed=request.feature_seed,
        delta=request.delta,
        bounds=list(zip(box.lower, box.upper, strict=True)),
        options=options,
        private=request.private,
    )
    made = DISTANCES.build(method, inner)
    assert isinstance(made.encoder, MomentQuantizer)
    clipped = f"records are projected on {projections} public directions, and clipped at {box.upper[0]:.3g} in each"
    return replace(
        made.on(ProjectedSquares(ball, made.encoder, clip, request.feature_seed)),
        method=f"projected-{method}",
        guarantee=replace(made.guarantee, conditions=(ball.box.condition(), ball.condition(), clipped)),
        parameters={**made.parameters, "projections": projections, "clip": clip},
    )


def _clip(request: Request) -> float:
    clip = request.options.get("clip", CLIP)
    if isinstance(clip, bool) or not isinstance(clip, int | float) or not 0.01 <= clip <= 100:
        raise InputError(f"option clip must be a number from 0.01 to 100, got {brief(clip)}")
    return float(clip)


def _projections(request: Request, method: str, clip: float) -> int:
    best = request.dimension
    if method == "moments":
        best = best_projections(request.dimension, request.n, float(request.feature_epsilon), clip)
    return request.size_option("projections", best, request.dimension)
