"""Bounded feature vectors on a device: the point itself for inner products, Nystroem features for a public sample.

A vector of length at most 1 becomes integers in units of 2**-15; a longer one is scaled down to length 1. Floats decide
the integers of one's own point only; the randomness afterwards is exact, so no guarantee rests on them.

- ``inner-product``: x / radius.
- ``landmarks``: f(x) = sum_z k(x, z) M_z for public landmarks z and rows M_z of the protocol's projection
  (`quantizers.nystrom`), for Gaussian, Laplacian, exponential and Cauchy kernels.

`vector`, device half: one random number about a feature vector of length at most 1, for inner products or landmarks.

Two randomisers; the design takes the one of less predicted variance.

- ``codebook``: PrivUnit (A. Bhowmick and others, "Protection against reconstruction and its applications in private
  federated learning", 2018) on a finite public codebook. The vector gets one more coordinate, which makes its length 1.
  A block of the pool holds h normal vectors v_1 ... v_h, drawn independently of the point; the outputs are these and
  their opposites. Let T be the k of the 2 h outputs with the largest inner products with the vector: v_j or -v_j,
  whichever is positive, for the k largest absolute values, the first of equals. An output in T has weight `same`,
  every other one `other`. T always has k members, so the total weight does not depend on the point.
- ``coordinate``: a random coordinate of the vector turned by a public rotation (random signs, then Hadamard's matrix of
  the next power of two), clipped at `clip` over the root of their number, rounded at random to the sign of that range,
  and randomised response on the sign with weights `same` and `other`.

Guarantee: epsilon for every two points, without exceptions. Block or coordinate do not depend on the point, and given
them every output has one of two weights out of the same total, ``same <= other e^epsilon``.

A payload is the block or coordinate as 16 bits and the output as 8 bits, 2 j for v_j and 2 j + 1 for its opposite. The
standard library only; `vector_server` has the estimates.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.errors import InputError
from sfumato.local.coins import Coins
from sfumato.local.device import MOST_BITS, WEIGHT, Device
from sfumato.local.hashing import little_endian
from sfumato.local.promises import check_magnitude
from sfumato.privacy.response import check_weights
from sfumato.public.codec import Field, Many, Real, Text, Whole
from sfumato.public.document import plain
from sfumato.public.domain import LARGEST
from sfumato.public.rows import NORMAL, WORD_BYTES, row_bytes

UNIT = 1 << 15
MOST_FEATURES = 1 << 12
FARTHEST = 1e100  # bandwidths; kernels are 0 long before, and squares of it are finite
KERNELS = ("gaussian", "laplacian", "exponential", "cauchy")
LABEL, SIGN_LABEL = "local/vector", "local/vector/signs"
INDEX_BYTES, OUTPUT_BYTES = 2, 1
MOST_BLOCKS, MOST_VECTORS = 1 << 16, 128
COMMON: dict[str, Field[Any]] = {"randomiser": Text(), "same": WEIGHT, "other": WEIGHT}
FIELDS: dict[str, dict[str, Field[Any]]] = {
    "codebook": {
        "blocks": Whole(1, MOST_BLOCKS),
        "vectors": Whole(1, MOST_VECTORS),
        "likely": Whole(1, MOST_VECTORS),
        "gain": Real(1e-50, 1e50),  # answers are divided by it
    },
    "coordinate": {"range": Whole(1, (1 << MOST_BITS) - 1)},
}


class Features(ABC):
    """Feature vectors of one protocol."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many features."""

    @abstractmethod
    def values(self, point: Sequence[float]) -> list[float]:
        """Features of a point, of any length."""

    def integers(self, point: Sequence[float]) -> list[int]:
        """Features in units of 2**-15, scaled into the ball of length 1."""
        return into_ball(self.values(point))


def into_ball(values: Sequence[float]) -> list[int]:
    """Round features to units, scaled down to length 1 if they are longer; what is not finite counts as 0.

    Examples
    --------
    >>> into_ball([3.0, 4.0]), into_ball([0.5]), into_ball([1.0, math.inf])
    ([19661, 26214], [16384], [32768, 0])
    """
    finite = [value if abs(value) <= LARGEST else 0.0 for value in values]
    shrink = UNIT / max(1.0, math.sqrt(math.fsum(value * value for value in finite)))
    return [round(value * shrink) for value in finite]


class InnerProductFeatures(Features):
    """The point over the kernel's radius."""

    def __init__(self, kernel: Mapping[str, Any], dimension: int) -> None:
        self.radius = check_magnitude("radius", kernel["radius"])
        self.dimension = dimension

    @property
    def size(self) -> int:
        """One for each column."""
        return self.dimension

    def values(self, point: Sequence[float]) -> list[float]:
        """Coordinates."""
        return [x / self.radius for x in point]


class LandmarkFeatures(Features):
    """Kernel values at landmarks, projected."""

    def __init__(self, kernel: Mapping[str, Any], given: Mapping[str, Any], dimension: int) -> None:
        self.name = kernel["kernel"]
        widths = kernel["bandwidth"]
        self.widths = [widths] * dimension if isinstance(widths, float) else list(widths)
        for width in self.widths:
            check_magnitude("bandwidth", width)
        self.landmarks: tuple[tuple[float, ...], ...] = given["landmarks"]
        self.projection: tuple[tuple[float, ...], ...] = given["projection"]
        if self.name not in KERNELS or kernel.get("p", 2.0) != 2.0 or len(self.widths) != dimension:
            raise InputError(f"landmarks on devices take the kernels {', '.join(KERNELS)}, without a matrix bandwidth")
        if len(self.projection) != len(self.landmarks) or len(set(map(len, self.projection))) > 1:
            raise InputError("the protocol's projection does not fit its landmarks")

    @property
    def size(self) -> int:
        """Columns of the projection."""
        return len(self.projection[0])

    def similarity(self, x: Sequence[float], z: Sequence[float]) -> float:
        """Kernel value."""
        u = [min(max((a - b) / width, -FARTHEST), FARTHEST) for a, b, width in zip(x, z, self.widths, strict=True)]
        if self.name == "laplacian":
            return math.exp(-math.fsum(map(abs, u)))
        if self.name == "cauchy":
            return 1 / math.prod(1 + value * value for value in u)
        square = math.fsum(value * value for value in u)
        return math.exp(-square if self.name == "gaussian" else -math.sqrt(square))

    def values(self, point: Sequence[float]) -> list[float]:
        """Project the similarities."""
        similarities = [self.similarity(point, z) for z in self.landmarks]
        columns = zip(*self.projection, strict=True)
        return [math.fsum(k * m for k, m in zip(similarities, column, strict=True)) for column in columns]


def landmark_fields(dimension: int) -> dict[str, Field[Any]]:
    """Return the fields of landmarks: the points, their projection, what completes an answer, and its bias."""
    number = Real(-LARGEST, LARGEST)
    return {
        "landmarks": Many(Many(number, dimension, dimension), MOST_FEATURES, 1),
        "projection": Many(Many(number, MOST_FEATURES, 1), MOST_FEATURES, 1),
        "completion": Many(number, MOST_FEATURES, 1),
        "bias": Real(0.0),
    }


class Vector(Device):
    """The randomisers of `vector`; see the module's text."""

    name = "vector"

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        kernel = plain(document["kernel"])
        inner = kernel.get("kernel") == "inner-product"
        self.randomiser = Text(*FIELDS).read(self.parameters.get("randomiser"), "mechanism.randomiser")
        landmarks = {} if inner else landmark_fields(self.domain.dimension)
        given = self.read(**COMMON, **FIELDS[self.randomiser], **landmarks)
        self.same, self.other = check_weights(given["same"], given["other"], self.epsilon)
        self.features: Features
        if inner:
            self.features = InnerProductFeatures(kernel, self.domain.dimension)
        else:
            self.features = LandmarkFeatures(kernel, given, self.domain.dimension)
        if self.randomiser == "codebook":
            self.blocks: int = given["blocks"]
            self.vectors: int = given["vectors"]
            self.likely: int = given["likely"]
            if self.likely > self.vectors:
                raise InputError("the protocol's codebook is out of range")
        else:
            self.range: int = given["range"]
            if self.turned > MOST_BLOCKS:
                raise InputError(f"the randomiser coordinate takes at most {MOST_BLOCKS} features; use the codebook")

    @property
    def payload_bytes(self) -> int:
        """An index and an output."""
        return INDEX_BYTES + OUTPUT_BYTES

    @property
    def turned(self) -> int:
        """Coordinates after the rotation: the next power of two."""
        return 1 << (self.features.size - 1).bit_length()

    @property
    def total(self) -> int:
        """Sum of the weights of a block's outputs."""
        return self.likely * self.same + (2 * self.vectors - self.likely) * self.other

    def encode(self, point: Sequence[float], coins: Coins) -> bytes:
        """Draw a block or coordinate, then an output."""
        F = self.features.integers(point)
        if self.randomiser == "codebook":
            index = coins.below(self.blocks)
            output = self.draw(self.likely_outputs(index, F), coins)
        else:
            index = coins.below(self.turned)
            output = self.draw_sign(self.coordinate(index, F), coins)
        return index.to_bytes(INDEX_BYTES, "little") + output.to_bytes(OUTPUT_BYTES, "little")

    def likely_outputs(self, block: int, F: Sequence[int]) -> list[int]:
        """Return the outputs T of a block for a vector, in increasing order."""
        whole = [*F, padding(F)]
        size = WORD_BYTES * len(whole)
        products = []
        for j in range(self.vectors):
            vector = NORMAL.numbers(little_endian(row_bytes(self.seed, LABEL, block * self.vectors + j, size)))
            products.append(sum(map(int.__mul__, vector, whole)))
        order = sorted(range(self.vectors), key=lambda j: (-abs(products[j]), j))
        return sorted(2 * j + (products[j] < 0) for j in order[: self.likely])

    def draw(self, likely: Sequence[int], coins: Coins) -> int:
        """Draw an output, given those of weight `same`."""
        number = coins.below(self.total)
        if number < self.likely * self.same:
            return likely[number // self.same]
        output = (number - self.likely * self.same) // self.other
        for member in likely:  # skip the likely ones
            output += member <= output
        return output

    def coordinate(self, index: int, F: Sequence[int]) -> int:
        """Coordinate of the turned vector in units of 2**-15 over the root of their number, clipped."""
        signs = row_bytes(self.seed, SIGN_LABEL, 0, len(F))
        total = sum(-f if ((i & index).bit_count() + signs[i]) & 1 else f for i, f in enumerate(F))
        return min(max(total, -self.range), self.range)

    def draw_sign(self, value: int, coins: Coins) -> int:
        """Round a coordinate to the sign of its range at random, then keep the sign or turn it; 0 is plus."""
        minus = coins.below(2 * self.range) >= self.range + value
        return int(minus ^ (coins.below(self.same + self.other) < self.other))


def padding(F: Sequence[int]) -> int:
    """Return the coordinate that makes the length 1.

    Examples
    --------
    >>> padding([UNIT]), padding([0]) == UNIT
    (0, True)
    """
    return math.isqrt(max(0, UNIT**2 - sum(f * f for f in F)))
