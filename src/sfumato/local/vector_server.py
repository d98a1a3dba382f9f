"""`vector`, server half: the sum of what reports say about feature vectors, and answers g(y) . mean.

Estimates. ``codebook``: by symmetry the mean of a reported vector is G f, with gain G = k (same - other) / total times
the mean M_k of the k largest of h absolute normal numbers; so v / G is unbiased. Its variance along a unit direction is
at most 1 / G^2, in any number of features: what is reported is normal but for the direction of f. With k / (2 h) = p
and many vectors G is (e^epsilon - 1) phi(z_p) / (1 + (e^epsilon - 1) p), the gain of PrivUnit in many dimensions.
People who share a block share its vectors. Given a block, a report's mean is (same - other) / total times the sum of
its k likely vectors, of variance k along a direction that is not f's; two people have a common block of D with
probability 1 / D. That adds k (same - other)^2 / (total^2 G^2 D) if all have one f,
and less if they differ.

``coordinate``: a report s of coordinate j among D says s D c (same + other) / (same - other) along its direction,
unbiased but for clipping at c = clip / sqrt(D); variance clip^2 ((same + other) / (same - other))^2 along a unit
direction, clip = min(2.5, sqrt(D)).

For landmarks the answer adds the public completion b . k(Z, y) of `quantizers.nystrom`, and its error the bias that the
landmarks show for a point like themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import simpson
from scipy.stats import binom, halfnorm

from sfumato.compiled import njit
from sfumato.errors import InputError
from sfumato.kernels import Cauchy, Exponential, Gaussian, InnerProduct, Kernel, Laplacian
from sfumato.local.pool import numbers, row_table
from sfumato.local.server import Design, Payloads, Server, Sums, Tally
from sfumato.local.vector import (
    INDEX_BYTES,
    LABEL,
    MOST_BLOCKS,
    MOST_VECTORS,
    OUTPUT_BYTES,
    UNIT,
    LandmarkFeatures,
    Vector,
)
from sfumato.local.vector_reader import VectorReader, turned
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.response import OTHER, same_weight
from sfumato.public.domain import Domain
from sfumato.public.rows import NORMAL
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.nystrom import FEWEST_LANDMARKS, PublicSample, Spectrum, estimates
from sfumato.quantizers.similarities import similarities

# Parameters of features, their number, the mean square length of g(y), and the bias of an answer.
Candidate = tuple[dict[str, Any], int, float, float]
CLIP = 2.5
DEVICE_NUMBERS = 1 << 14  # public numbers that a device draws for one report
SERVER_NUMBERS, SERVER_VECTORS = 1 << 24, 1 << 19
CLOSE = 1.03
QUADRATURE, FARTHEST_NORMAL = 2001, 9.0
VECTOR_COUNTS = (2, 4, 8, 16, 32, 64, MOST_VECTORS)


@lru_cache(maxsize=4096)
def mean_of_largest(vectors: int, likely: int) -> float:
    """Mean of the `likely` largest of `vectors` absolute normal numbers.

    Examples
    --------
    >>> round(mean_of_largest(1, 1), 6), round(mean_of_largest(16, 1), 3)
    (0.797885, 2.077)
    """
    # A number x is among the largest if fewer than `likely` of the others exceed it.
    x = np.linspace(0.0, FARTHEST_NORMAL, QUADRATURE)
    among = binom.cdf(likely - 1, vectors - 1, halfnorm.sf(x))
    return float(simpson(x * halfnorm.pdf(x) * among, x=x)) * vectors / likely


def most_vectors(size: int) -> int:
    """Most vectors of so many numbers that a collection holds.

    Examples
    --------
    >>> most_vectors(3), most_vectors(1025)
    (524288, 16368)
    """
    return min(SERVER_NUMBERS // size, SERVER_VECTORS)


@dataclass(frozen=True)
class Randomiser:
    """One way to randomise: its parameters, the variance of a report, and that of a block which many people share."""

    parameters: dict[str, Any]
    variance: float
    shared: float = 0.0


def codebook(same: int, other: int, size: int, participants: int) -> Randomiser:
    """Find the smallest codebook for `size` features that is nearly as good as the best."""
    most = max(2, min(MOST_VECTORS, DEVICE_NUMBERS // (size + 1)))
    found = []
    for vectors in (count for count in VECTOR_COUNTS if count <= most):
        blocks = max(1, min(MOST_BLOCKS, participants, most_vectors(size + 1) // vectors))
        for likely in _likely(vectors, same / other):
            total = likely * same + (2 * vectors - likely) * other
            gain = likely * (same - other) / total * mean_of_largest(vectors, likely)
            shared = likely * ((same - other) / total / gain) ** 2
            parameters = {"blocks": blocks, "vectors": vectors, "likely": likely, "gain": gain}
            found.append((1 / gain**2 / participants + shared / blocks, 1 / gain**2, shared / blocks, parameters))
    enough = CLOSE * min(each[0] for each in found)
    _, variance, shared, parameters = next(each for each in found if each[0] <= enough)
    return Randomiser({"randomiser": "codebook", "same": same, "other": other, **parameters}, variance, shared)


def _likely(vectors: int, odds: float) -> list[int]:
    """Candidates for k: near the share of PrivUnit whose gain, phi(z_p) / (1 + (odds - 1) p), is largest."""
    shares = np.linspace(0.002, 0.5, 250)
    heights = np.exp(-(np.square(halfnorm.isf(2 * shares)) / 2)) / (1 + (odds - 1) * shares)
    best = float(shares[np.argmax(heights)]) * 2 * vectors
    return sorted({min(vectors, max(1, round(best + step))) for step in (-1, 0, 1)})


def coordinate(same: int, other: int, size: int) -> Randomiser:
    """Return the randomiser of one turned coordinate of `size`."""
    turned = 1 << (size - 1).bit_length()
    if turned > MOST_BLOCKS:
        raise InputError(f"the randomiser coordinate takes at most {MOST_BLOCKS} features; use the codebook")
    clip = min(CLIP, math.sqrt(turned))
    unbias = (same + other) / (same - other)
    # Turned coordinates are sums of signed features, i.e. in units of UNIT over sqrt(D).
    limit = max(1, math.floor(clip * UNIT))
    parameters = {"randomiser": "coordinate", "same": same, "other": other, "range": limit}
    return Randomiser(parameters, (clip * unbias) ** 2)


class VectorServer(Server):
    """Sums of reported vectors; see the module's text."""

    name = "vector"
    options = ("landmarks", "randomiser")
    device: Vector

    @classmethod
    def refuse(cls, request: Request) -> str | None:
        """Ask for inner products, or landmarks and a kernel that devices can evaluate."""
        kernel = request.kernel
        if isinstance(kernel, InnerProduct):
            return None
        if request.options.get("landmarks") is None:
            return "it is for inner products, or for landmarks: pass the option landmarks, a public sample"
        if not isinstance(kernel, Gaussian | Laplacian | Cauchy | Exponential) or len(kernel.scale.shape) == 2:
            return f"landmarks on devices do not take {kernel!r}"
        if isinstance(kernel, Exponential) and kernel.p != 2.0:
            return "landmarks on devices take the exponential kernel of p = 2 only"
        return None

    @classmethod
    def design(cls, request: Request) -> Design:
        """Take the randomiser, and for landmarks the rank, of least predicted error."""
        same = same_weight(request.epsilon)
        if same <= OTHER:
            raise InputError(f"epsilon = {request.epsilon} is too small for a report to say anything")
        if isinstance(request.kernel, InnerProduct):
            candidates: list[Candidate] = [({}, request.dimension, 1.0, 0.0)]
        else:
            candidates = _landmark_candidates(request)
        best: tuple[float, dict[str, Any]] | None = None
        for features, size, strength, bias in candidates:
            for made in _randomisers(request, same, size):
                noise = made.variance / request.n + made.shared
                error = strength * noise + bias**2
                if best is None or error < best[0]:
                    best = error, {**features, **made.parameters}
        if best is None:
            raise InputError("the option randomiser must be codebook or coordinate")
        size = len(best[1]["projection"][0]) if "projection" in best[1] else request.dimension
        sums = size if best[1]["randomiser"] == "codebook" else 1 << (size - 1).bit_length()
        return Design(best[1], _domain(request), best[0], INDEX_BYTES + OUTPUT_BYTES, sums)

    def __init__(self, device: Vector, kernel: Kernel) -> None:
        super().__init__(device, kernel)
        if device.randomiser == "codebook":
            vectors, size = device.blocks * device.vectors, device.features.size + 1
            if vectors > max(device.vectors, most_vectors(size)):
                raise InputError(
                    f"the protocol's codebook has {vectors} vectors of {size} numbers, and a collection draws "
                    f"{most_vectors(size)} at most"
                )

    def tally(self) -> Sums:
        """One sum for each feature or coordinate."""
        return Sums(VectorReader(self.device, self.kernel).size)

    @cached_property
    def vectors(self) -> NDArray[np.int32]:
        """All vectors of the codebook, shape (blocks * vectors, features + 1)."""
        made = self.device
        rows = made.blocks * made.vectors
        _, words = row_table(made.seed, LABEL, rows, 0, made.features.size + 1)
        return np.ascontiguousarray(numbers(NORMAL, words), dtype=np.int32)

    def count(self, payloads: Payloads, tally: Tally) -> NDArray[np.bool_]:
        """Add the vectors or signs that reports name; refuse those out of range."""
        index = payloads[:, 0].astype(np.int64) | payloads[:, 1].astype(np.int64) << 8
        outputs, made = payloads[:, 2].astype(np.int64), self.device
        if made.randomiser == "codebook":
            good = (index < made.blocks) & (outputs < 2 * made.vectors)
        else:
            good = (index < made.turned) & (outputs < 2)
        self._add(index[good], outputs[good], tally)
        return np.asarray(good)

    def _add(self, index: Integers, outputs: Integers, tally: Tally) -> None:
        assert isinstance(tally, Sums)
        if self.device.randomiser == "codebook":
            _add_vectors(self.vectors, index * self.device.vectors + outputs // 2, outputs & 1, tally.values)
        else:
            tally.add(index, 1 - 2 * outputs)

    def integers(self, points: Floats) -> Integers:
        """Feature vectors in units of 2**-15, as devices have them."""
        features = self.device.features
        if isinstance(features, LandmarkFeatures):
            values = self.kernel.value(points, np.array(features.landmarks)) @ np.array(features.projection)
        else:
            values = points / self.kernel.radius  # type: ignore[attr-defined]
        lengths = np.sqrt(np.square(values).sum(axis=1, keepdims=True))
        return np.asarray(np.rint(values * (UNIT / np.maximum(lengths, 1.0))), dtype=np.int64)

    def simulate(self, points: Floats, bits: SecureBits, tally: Tally) -> None:
        """Draw blocks or coordinates, and outputs."""
        F, made, count = self.integers(points), self.device, len(points)
        if made.randomiser == "codebook":
            index = bits.below(made.blocks, count)
            likely = np.empty((count, made.likely), dtype=np.int64)
            _likely_outputs(self.vectors, F, index, made.vectors, likely)
            outputs = _draw(likely, bits.below(made.total, count), made.same, made.other)
        else:
            index = bits.below(made.turned, count)
            whole = np.take_along_axis(turned(made, F.astype(np.float64)), index[:, None], axis=1)[:, 0]
            coordinates = whole.astype(np.int64)
            minus = bits.below(2 * made.range, count) >= made.range + np.clip(coordinates, -made.range, made.range)
            outputs = (minus ^ (bits.below(made.same + made.other, count) < made.other)).astype(np.int64)
        self._add(index, outputs, tally)

    def quantizer(self, tally: Tally) -> VectorReader:
        """Read the sums."""
        return VectorReader(self.device, self.kernel)

    def noise_variance(self, reports: int) -> float:
        """Of one sum: of normal numbers, and what shared blocks add; or of signs, one in many reports."""
        made = self.device
        if made.randomiser != "codebook":
            return reports / made.turned
        shared = made.likely * ((made.same - made.other) / made.total) ** 2 * reports / made.blocks
        return reports * 4.0**NORMAL.fraction_bits * (1 + shared)

    def influence(self) -> float:
        """Return how far the longest vector, or the opposite sign, moves an answer along a unit direction."""
        made = self.device
        if made.randomiser == "codebook":
            length = NORMAL.largest / 2.0**NORMAL.fraction_bits * math.sqrt(made.features.size)
            return 2 * length / float(self.parameters["gain"])
        unbias = (made.same + made.other) / (made.same - made.other)
        return 2 * unbias * made.range / UNIT * math.sqrt(made.turned)


def _randomisers(request: Request, same: int, size: int) -> list[Randomiser]:
    wanted = request.options.get("randomiser")
    found = []
    if wanted == "coordinate" or (wanted is None and size <= MOST_BLOCKS):
        found.append(coordinate(same, OTHER, size))
    if wanted in (None, "codebook"):
        found.append(codebook(same, OTHER, size, request.n))
    return found


def _domain(request: Request) -> Domain:
    if request.bounds is not None:
        return request.box.domain()
    kernel = request.kernel
    if not isinstance(kernel, InnerProduct):
        raise InputError("vector needs bounds= for landmarks")
    return Domain((-kernel.radius,) * request.dimension, (kernel.radius,) * request.dimension, declared=False)


def _landmark_candidates(request: Request) -> list[Candidate]:
    """Features, their number, their mean square length and their bias, for several ranks."""
    try:
        points = np.asarray(request.options["landmarks"], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        points = np.empty(0)
    if points.ndim != 2 or points.shape[1] != request.dimension or len(points) < FEWEST_LANDMARKS:
        raise InputError(f"landmarks must be a table of {FEWEST_LANDMARKS} rows or more, with the points' columns")
    fitted = similarities(request.kernel, points)
    spectrum = Spectrum.of(fitted.matrix())
    ranks = sorted({min(1 << power, spectrum.rank) for power in range(spectrum.rank.bit_length() + 1)})
    found = []
    # Parts of the landmarks are held out by their places: those of a list in some order would be of one kind.
    in_random_order = PublicSample.of(points, request.dimension).points
    for estimate in estimates(similarities(request.kernel, in_random_order), ranks):
        features = {
            "landmarks": points.tolist(),
            "projection": spectrum.projection(estimate.rank).tolist(),
            "completion": spectrum.completion(estimate.rank).tolist(),
            "bias": estimate.bias,
        }
        found.append((features, estimate.rank, estimate.strength, estimate.bias))
    return found


def _draw(likely: Integers, draws: Integers, same: int, other: int) -> Integers:
    """Draw outputs as `Vector.draw` does."""
    inside = likely.shape[1] * same
    outputs = (draws - inside) // other
    for member in likely.T:
        outputs += member <= outputs
    kept = np.take_along_axis(likely, np.minimum(draws // same, likely.shape[1] - 1)[:, None], axis=1)[:, 0]
    return np.where(draws < inside, kept, outputs)


@njit(nogil=True, cache=True)
def _add_vectors(vectors, rows, minus, sums):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        for j in range(len(sums)):
            value = np.int64(vectors[rows[i], j])
            sums[j] += -value if minus[i] else value


@njit(nogil=True, cache=True)
def _likely_outputs(vectors, F, blocks, count, likely):  # type: ignore[no-untyped-def]
    size = F.shape[1]
    products = np.empty(count, dtype=np.int64)
    for i in range(len(blocks)):
        square = np.int64(0)
        for j in range(size):
            square += F[i, j] * F[i, j]
        rest = max(np.int64(0), np.int64(UNIT * UNIT) - square)
        pad = np.int64(np.sqrt(rest))
        if pad * pad > rest:
            pad -= 1
        for v in range(count):
            row = blocks[i] * count + v
            total = np.int64(vectors[row, size]) * pad
            for j in range(size):
                total += np.int64(vectors[row, j]) * F[i, j]
            products[v] = total
        # The largest absolute values, the first of equals; then in the order of their numbers.
        order = np.argsort(-np.abs(products), kind="mergesort")[: likely.shape[1]]
        for place, v in enumerate(np.sort(order)):
            likely[i, place] = 2 * v + (products[v] < 0)


VECTOR = VectorServer.method("a vector like the point's features, out of a public codebook")
