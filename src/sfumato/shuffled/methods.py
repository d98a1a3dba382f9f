"""Which quantizer a protocol uses, by name, and what its answers cost in accuracy: the paper's bound and a prediction.

All classes share one draw of public features: a draw for each class would give each its own approximation error, and
comparing densities would compare those errors.

`published_error` is the supremum over queries of the root mean square error in Theorem 3.2 of Wagner (2025),
sqrt(4 b^2 + 16 R^4 S (S + (E/n)^2) / I) for I draws of a b-approximate (Q, R, S) family and bit sums of error E.

`Accuracy` is what is expected of one answer. With V = E^2, n participants, P a typical density:

| quantizer | family (Q, R, S), draws | noise | rounding | approximation |
|---|---|---|---|---|
| fourier, m pairs | (2, 1, 2), m | 4 V / (m n^2) | 1 / (2 m n) | P / (2 m) |
| inner-product, clip c | (d, c / sqrt(d), d), 1 | 4 c^2 V / (d n^2) | (c^2 - 1) / (d n) | (erfc(c / sqrt(2)) P)^2 |
| inner-product-signs, I | (1, sqrt(d), 1), I | 4 d V / (I n^2) | (d - 1) / (I n) | (P + P^2) / I |
| landmarks, r features of mean square G | (r, c / sqrt(r), r), 1 | 4 c^2 G V / (r n^2) | G (c^2 - 1) / (r n) | bias^2 |
| hashing, m rows of W | (W, 1, 1), m | V W / ((W - 1) m n^2) | 0 | H / m |

Queries of the inner product and records are taken as long as the radius. H, the variance of one row of hash counters,
is P^2 / 4 + (P - 5 P^2 / 4) / (W - 1) typically (`sfumato.central.race`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.central.landmarks import fit
from sfumato.errors import InputError
from sfumato.kernels import InnerProduct, Kernel, ShiftInvariantKernel, kernel_from_document
from sfumato.methods.request import TYPICAL_DENSITY
from sfumato.public import document as documents
from sfumato.public.domain import Domain
from sfumato.quantizers import (
    Box,
    FourierQuantizer,
    HashingQuantizer,
    InnerProductQuantizer,
    InnerProductSigns,
    LandmarkQuantizer,
    Quantizer,
    quantizer_from_document,
)
from sfumato.quantizers.ball import Ball
from sfumato.quantizers.hashes import family_for
from sfumato.quantizers.inner_product import CLIP
from sfumato.quantizers.nystrom import PublicSample
from sfumato.shuffled.bitsum import central_gaussian_rmse
from sfumato.shuffled.bitsum.published import published_response, published_three_nb
from sfumato.shuffled.bitsum.signed import geometric_difference_variance
from sfumato.shuffled.features import BitFeatures, RotatedLandmarks
from sfumato.shuffled.groups import Budget

NAMES = ("fourier", "inner-product", "inner-product-signs", "landmarks", "hashing")
KINDS = (FourierQuantizer, InnerProductQuantizer, InnerProductSigns, RotatedLandmarks, HashingQuantizer)
SCALE, SIGNS_SCALE = 2**18, 2**12
COUNTERS = 16  # of a hash function
MOST_RANK = 255
CANDIDATES = (64, 128, 256, 512, 1024, 2048)  # numbers of instances
NEARLY_BEST = 1.05


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is known in public when a quantizer is chosen."""

    kernel: Kernel
    dimension: int
    seed: int
    bounds: Any = None
    landmarks: Any = None


def choose(name: str, wanted: Wanted) -> str:
    """Return the name of a quantizer, "auto" resolved.

    Examples
    --------
    >>> choose("auto", Wanted(kernel=InnerProduct(), dimension=3, seed=1))
    'inner-product'
    """
    if name != "auto":
        if name not in NAMES:
            raise InputError(f"quantizer must be 'auto' or one of {', '.join(NAMES)}; got {name!r}")
        return name
    kernel = wanted.kernel
    if isinstance(kernel, InnerProduct):
        return "inner-product"
    if wanted.landmarks is not None:
        return "landmarks"
    if isinstance(kernel, ShiftInvariantKernel):
        return "fourier"
    if family_for(kernel) is not None:
        return "hashing"
    raise InputError(f"no quantizer is known for {kernel!r}; pass landmarks=, or a kernel that has one")


def build(name: str, wanted: Wanted, instances: int) -> Quantizer:
    """Build a quantizer of about so many integers, each of which becomes one bit.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    wanted : Wanted
        Kernel, dimension, seed and bounds.
    instances : int
        For "inner-product" it is the dimension, whatever is asked for.
    """
    kernel, dimension, seed, bounds = wanted.kernel, wanted.dimension, wanted.seed, wanted.bounds
    if name == "fourier":
        if not isinstance(kernel, ShiftInvariantKernel) or not kernel.portable:
            raise InputError(f"Fourier pairs need a shift-invariant kernel by name, not {kernel.name}")
        return FourierQuantizer.draw(kernel, dimension, max(1, instances // 2), seed, bounds=bounds)
    if name == "hashing":
        rows = max(1, instances // COUNTERS)
        return HashingQuantizer.draw(kernel, dimension, rows, seed, width=COUNTERS, bounds=bounds)
    if name == "landmarks":
        return _landmarks(wanted, instances)
    if not isinstance(kernel, InnerProduct):
        raise InputError(f"{name} is for the inner product, not {kernel.name}")
    if name == "inner-product-signs":
        return InnerProductSigns(Ball.around(kernel, dimension, SIGNS_SCALE, bounds), instances, seed)
    return InnerProductQuantizer(Ball.around(kernel, dimension, SCALE, bounds), CLIP, seed)


def _landmarks(wanted: Wanted, instances: int) -> RotatedLandmarks:
    if wanted.landmarks is None:
        raise InputError("the quantizer 'landmarks' needs public points that resemble the records: pass landmarks=")
    if not wanted.kernel.portable:
        raise InputError("landmarks need a kernel by name, which a document can carry")
    sample = PublicSample.of(wanted.landmarks, wanted.dimension)
    box = None if wanted.bounds is None else Box.from_bounds(wanted.bounds, wanted.dimension)
    found = fit(sample, wanted.kernel, box, "clip")
    rank = max(1, min(instances - 1, found.spectrum.rank, MOST_RANK))
    inner = LandmarkQuantizer.fit(found.fitted, found.at(rank), SCALE, found.spectrum)
    return RotatedLandmarks(inner, wanted.seed)


@dataclass(frozen=True)
class Accuracy:
    """Expected error of one answer.

    Attributes
    ----------
    noise, rounding, approximation : float
        Variances of a mean kernel value: bit sums, bits instead of numbers, features instead of the kernel.
    published : float
        The paper's upper bound of the root mean square error.
    """

    noise: float
    rounding: float
    approximation: float
    published: float

    @property
    def rmse(self) -> float:
        """Predicted root mean square error."""
        return math.sqrt(self.noise + self.rounding + self.approximation)


def published_error(*, radius: float, sparsity: float, draws: int, rmse: float, n: int, bias: float = 0.0) -> float:
    """Return the bound of Theorem 3.2.

    Parameters
    ----------
    radius, sparsity, draws, bias
        R, S, I and b of the family.
    rmse, n
        Error of a sum of bits, and participants.

    Examples
    --------
    >>> round(published_error(radius=2**0.5, sparsity=1, draws=768, rmse=103.7, n=10_000), 3)
    0.289
    """
    inner = sparsity * (sparsity + (rmse / n) ** 2)
    return math.sqrt(4 * bias**2 + 16 * radius**4 * inner / draws)


def accuracy(quantizer: Quantizer, bit_sum_variance: float, n: int, density: float = TYPICAL_DENSITY) -> Accuracy:
    """Predict the error of an answer; see the module's table.

    Parameters
    ----------
    quantizer : Quantizer
        Made by `build`.
    bit_sum_variance : float
        V.
    n : int
        Participants.
    density : float
        P.

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> quantizer = FourierQuantizer.draw(Gaussian(1.0), dimension=2, terms=384, seed=7)
    >>> round(accuracy(quantizer, 103.7**2, 10_000, density=0.1).rmse, 4)
    0.0115
    """
    noise, error = bit_sum_variance / n**2, math.sqrt(bit_sum_variance)
    if isinstance(quantizer, FourierQuantizer):
        pairs = quantizer.terms
        bound = published_error(radius=1.0, sparsity=2, draws=pairs, rmse=error, n=n)
        return Accuracy(4 * noise / pairs, 1 / (2 * pairs * n), density / (2 * pairs), bound)
    if isinstance(quantizer, HashingQuantizer):
        rows, width = quantizer.terms, quantizer.width
        bound = published_error(radius=1.0, sparsity=1, draws=rows, rmse=error, n=n)
        hashed = density**2 / 4 + max(density - 1.25 * density**2, 0.0) / (width - 1)
        return Accuracy(noise * width / ((width - 1) * rows), 0.0, hashed / rows, bound)
    if isinstance(quantizer, InnerProductSigns):
        draws, d = quantizer.terms, quantizer.dimension
        bound = published_error(radius=math.sqrt(d), sparsity=1, draws=draws, rmse=error, n=n)
        return Accuracy(4 * d * noise / draws, (d - 1) / (draws * n), (density + density**2) / draws, bound)
    clip, size, strength, bias = _clipped(quantizer, density)
    bound = published_error(radius=clip / math.sqrt(size), sparsity=size, draws=1, rmse=error, n=n, bias=bias)
    rounding = strength * (clip**2 - 1) / (size * n)
    return Accuracy(4 * clip**2 * strength * noise / size, rounding, bias**2, bound)


def _clipped(quantizer: Quantizer, density: float) -> tuple[float, int, float, float]:
    """Clip, features, mean square of the weights and bias of rotated and clipped features."""
    if isinstance(quantizer, InnerProductQuantizer):
        assert quantizer.clip is not None
        clip, strength, bias = quantizer.clip, 1.0, 0.0
    else:
        assert isinstance(quantizer, RotatedLandmarks)
        inner, clip = quantizer.inner, quantizer.clip
        strength = float(np.square(inner.features(inner.fitted.points)[1]).sum(axis=1).mean())
        bias = math.sqrt(inner.resemblance.bias_share * max(inner.resemblance.residual, 0.0))
    return clip, quantizer.size, strength, math.hypot(bias, math.erfc(clip / math.sqrt(2)) * density)


def checked_dimension(dimension: Any) -> int:
    """Return the number of columns if it is one."""
    if isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1:
        raise InputError(f"dimension must be a positive int, the number of columns; got {dimension!r}")
    return dimension


def quantizer_for(
    wanted: Wanted, name: str, instances: int | str, bitsum: str, n: int, epsilon: Any, delta: float
) -> Quantizer:
    """Build the quantizer; "auto" takes the fewest instances whose predicted error is nearly the least."""
    chosen = choose(name, wanted)
    if instances != "auto":
        if isinstance(instances, bool) or not isinstance(instances, int) or instances < 1:
            raise InputError(f"instances must be a positive int or 'auto', got {instances!r}")
        made = build(chosen, wanted, instances)
        if made.size != instances:
            raise InputError(f"{chosen} has {made.size} instances here, not {instances}; pass that number or 'auto'")
        return made
    if chosen == "inner-product":
        return build(chosen, wanted, wanted.dimension)
    found: list[tuple[float, Quantizer]] = []
    for size in CANDIDATES:
        quantizer = build(chosen, wanted, size)
        if found and quantizer.size == found[-1][1].size:
            break  # landmarks span no more
        budget = Budget(epsilon, delta, BitFeatures(quantizer).changed)
        variance = rough_variance(bitsum, n, budget)
        found.append((accuracy(quantizer, variance, n).rmse, quantizer))
    best = min(error for error, _ in found)
    return next(quantizer for error, quantizer in found if error <= NEARLY_BEST * best)


def rough_variance(name: str, n: int, budget: Budget) -> float:
    """Estimate the variance of a bit sum in no time, to choose the number of instances.

    Examples
    --------
    >>> from fractions import Fraction
    >>> round(rough_variance("rr", 10_000, Budget(Fraction(1), 1e-5, 768)) ** 0.5)
    103
    """
    epsilon, delta, instances = float(budget.epsilon), budget.delta, budget.changed
    if name == "pure":
        share = epsilon / instances
        drop = 1 / (40 * n * math.sinh(share / 2) ** 2)
        return geometric_difference_variance(share) / (1 - drop) ** 2 if drop < 1 else math.inf
    if name == "rr-published":
        return published_response(n, instances, epsilon, delta).variance
    if name == "3nb-published":
        return published_three_nb(n, instances, epsilon, delta).variance
    return central_gaussian_rmse(instances, epsilon, delta) ** 2 * (2 if name == "3nb" else 1)


def features_from(
    document: Mapping[str, Any], description: Any, arrays: dict[str, NDArray[Any]], size: int
) -> tuple[Kernel, BitFeatures]:
    """Rebuild the kernel and the features of a document; whatever does not fit together is refused."""
    try:
        kernel = kernel_from_document(documents.plain(document["kernel"]))
        quantizer = quantizer_from_document(description, arrays, kernel, size)
        box = quantizer.box
        if not isinstance(quantizer, KINDS) or quantizer.size != size:
            raise InputError(f"{size!r} instances were expected of a quantizer that shuffling knows")
        domain = Domain(box.lower, box.upper, box.declared)
        domain.check_limits()
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as problem:
        raise InputError(f"the protocol does not describe its features: {problem!s:.300}") from problem
    if domain.to_document() != document["domain"]:
        raise InputError("the bounds of the features are not those of the protocol")
    return kernel, BitFeatures(quantizer)
