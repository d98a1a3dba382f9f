"""The methods of shuffled collections: how a point becomes numbers, and what an answer costs in accuracy.

All classes share one draw of public features: a draw for each class would give each its own approximation error, and
comparing densities would compare those errors.

"auto" takes the first method that applies, in the order in which they are defined here. Their predictions stand in one
table and are not all comparable: that of landmarks rests on how much the records resemble public points, that of
hashing on typical collisions. A Fourier series and random pairs are compared, by predicted error. The number of
instances is the smallest of a list whose predicted error is nearly the least; of a series, see `modes`.

A Fourier series on a box as bits: which modes are sent, and how often.

Every bit costs the same and has the same noise, whatever its weight in an answer, so that a mode of a large coefficient
is sent several times (`quantizers.lattice`). With k_j pairs of mode j, a = 4 V / n^2 + 1 / (2 n) the variance of one
mean of bits in units of the range, an answer has the mean square error

    4 a sum over the modes sent of c_j^2 / k_j + 2 sum over the others of c_j^2 + wrapping^2,

and more where queries lie near the records (`quantizers.lattice`), by which periods and numbers are compared.

What one more pair gains falls with every pair of its mode, from 2 c_j^2 (1 - 2 a) for the first to 4 a c_j^2 / (k (k +
1)) for the one after k, so that taking the largest gains one after the other is best. V depends on how many pairs there
are, not on which.

How many: a pair costs everybody two messages, and past the modes that matter all it buys is averaging over bits. Up
to `FEW` messages the error alone decides; more are asked for where these have over `WORTH` times the least error, and
then no more than come within twice the least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.kernels import InnerProduct, Kernel, ShiftInvariantKernel, kernel_from_document
from sfumato.methods.method import Method, Prediction
from sfumato.methods.registry import SHUFFLED
from sfumato.methods.request import Request
from sfumato.public import document as documents
from sfumato.public.arguments import says
from sfumato.public.codec import brief
from sfumato.quantizers import (
    Box,
    FourierQuantizer,
    HashingQuantizer,
    InnerProductQuantizer,
    InnerProductSigns,
    LandmarkQuantizer,
    LatticeQuantizer,
    Quantizer,
    quantizer_from_document,
)
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.clamping import Ball
from sfumato.quantizers.hashes import family_for
from sfumato.quantizers.inner_product import CLIP
from sfumato.quantizers.nystrom import PublicSample, Spectrum, estimates
from sfumato.quantizers.series import MARGINS, MOST_MODE, Modes, modes
from sfumato.quantizers.similarities import Similarities, similarities
from sfumato.shuffled.accuracy import KINDS, accuracy
from sfumato.shuffled.bitsum import central_gaussian_rmse
from sfumato.shuffled.bitsum.calibration import published_response, published_three_nb
from sfumato.shuffled.bitsum.signed import geometric_difference_variance
from sfumato.shuffled.features import BitFeatures, RotatedLandmarks
from sfumato.shuffled.groups import Budget

MOST_COLUMNS = 3
MOST_PAIRS = 1024
SIZES = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)  # numbers of instances
FEW, WORTH = 192, 4


def _no_series(request: Request) -> str | None:
    """Why a series does not apply."""
    kernel = request.kernel
    if not isinstance(kernel, ShiftInvariantKernel) or not kernel.separable or not kernel.portable:
        return "a Fourier series on a box needs a kernel by name that is a product over the columns"
    if request.bounds is None:
        return "a Fourier series needs public bounds: pass bounds=, one (lower, upper) pair for each column"
    if request.dimension > MOST_COLUMNS:
        return f"a Fourier series is for up to {MOST_COLUMNS} columns"
    if max(_extents(kernel, _box(request))) > MOST_MODE:
        return f"the bounds span more than {MOST_MODE} bandwidths: pass tighter bounds or larger bandwidths"
    return None


def _box(request: Request) -> Box:
    return Box.from_bounds(request.bounds, request.dimension)


def _extents(kernel: ShiftInvariantKernel, box: Box) -> tuple[float, ...]:
    return tuple(float(length) for length in 2 * box.half_widths / kernel.column_scales(box.dimension))


def best_series(request: Request, pairs: int, variance: float) -> LatticeQuantizer:
    """Choose periods and pairs of least predicted error.

    Parameters
    ----------
    request : Request
        The public facts.
    pairs : int
        How many.
    variance : float
        V, of one sum of bits.
    """
    assert isinstance(request.kernel, ShiftInvariantKernel)
    kernel, box = request.kernel, _box(request)
    mean = 4 * variance / request.n**2 + 1 / (2 * request.n)
    choices = [modes(kernel, _extents(kernel, box), margin, MOST_PAIRS) for margin in MARGINS]
    repeats = [allotted(found.coefficients, pairs, mean) for found in choices]
    pairs_of = zip(choices, repeats, strict=True)
    errors = [_error(found, each, mean, request.density) for found, each in pairs_of]
    best = int(np.argmin(errors))
    chosen = np.repeat(choices[best].modes, repeats[best], axis=0)
    return LatticeQuantizer(kernel, box, choices[best].periods, chosen, np.ones(pairs, dtype=np.int64))


def allotted(coefficients: Floats, pairs: int, mean: float) -> Integers:
    """Share pairs out among modes, see the module's text.

    Examples
    --------
    >>> allotted(np.array([0.3, 0.1, 0.01]), 8, mean=0.01)
    array([5, 2, 1])
    """
    # Every mode before the i-th has as many pairs as it, so that it has the i-th part of all at most.
    most = pairs // np.arange(1, len(coefficients) + 1)
    which = np.repeat(np.arange(len(coefficients)), most)
    before = np.arange(len(which)) - np.repeat(np.cumsum(most) - most, most)
    later = 2 * mean / (np.maximum(before, 1) * (before + 1.0))
    gains = np.square(coefficients)[which] * np.where(before == 0, max(1 - 2 * mean, mean), later)
    order = np.argsort(-gains, kind="stable")[:pairs]
    return np.bincount(which[order], minlength=len(coefficients))


def _error(found: Modes, repeats: Integers, mean: float, density: float) -> float:
    sizes, repeats = np.abs(found.coefficients[repeats > 0]), repeats[repeats > 0]
    missed = found.missed(sizes.sum(), np.square(sizes).sum(), density)
    return 4 * mean * float((np.square(sizes) / repeats).sum()) + float(missed)


SCALE, SIGNS_SCALE = 2**18, 2**12
COUNTERS = 16  # of a hash function
MOST_RANK = 255
CANDIDATES = (64, 128, 256, 512, 1024, 2048)  # numbers of instances
NEARLY_BEST = 1.05

Refusal = Callable[[Request], str | None]
Maker = Callable[[Request, int], Quantizer]  # of about so many integers, each of which becomes one bit
Sized = list[tuple[float, Quantizer]]  # by predicted error
Choice = Callable[[Sized], Quantizer]
_MAKERS: dict[str, Maker] = {}


def request_for(
    kernel: Kernel,
    dimension: int,
    seed: int,
    *,
    epsilon: Fraction = Fraction(1),
    delta: float = 0.0,
    n: int = 1,
    bounds: Any = None,
    landmarks: Any = None,
    **options: Any,
) -> Request:
    """Return what is known in public when a method is chosen."""
    given = Request(kernel, dimension, epsilon, n, seed, delta, "replace", bounds, options, trust="shuffled")
    return given if landmarks is None else replace(given, landmarks=PublicSample.of(landmarks, dimension))


def named(name: str, request: Request) -> Method:
    """Return a method by its name; "auto" is the first that applies.

    Examples
    --------
    >>> named("auto", request_for(InnerProduct(), 3, seed=1)).name
    'inner-product'
    """
    if not says(name, "auto"):
        if not isinstance(name, str) or name not in SHUFFLED:
            raise InputError(f"quantizer must be 'auto' or one of {', '.join(SHUFFLED)}; got {brief(name)}")
        return SHUFFLED[name]
    for method in SHUFFLED.values():
        if method.baseline or method.refuse(request) is not None:
            continue
        if method is LATTICE:
            return min((LATTICE, FOURIER), key=lambda each: each.predict(request, request.density).rmse)
        return method
    raise InputError(f"no quantizer is known for {request.kernel!r}; pass landmarks=, or a kernel that has one")


def make(name: str, request: Request, instances: int) -> Quantizer:
    """Make the quantizer of a method with about so many integers."""
    method = named(name, request)
    if (reason := method.refuse(request)) is not None:
        raise InputError(reason)
    return _MAKERS[method.name](request, instances)


def _fourier(request: Request, instances: int) -> Quantizer:
    assert isinstance(request.kernel, ShiftInvariantKernel)
    pairs = max(1, instances // 2)
    return FourierQuantizer.draw(request.kernel, request.dimension, pairs, request.feature_seed, bounds=request.bounds)


def _lattice(request: Request, instances: int) -> Quantizer:
    pairs = max(1, instances // 2)
    return best_series(request, pairs, _variance(request, 2 * pairs))


def _hashing(request: Request, instances: int) -> Quantizer:
    rows, seed = max(1, instances // COUNTERS), request.feature_seed
    return HashingQuantizer.draw(request.kernel, request.dimension, rows, seed, width=COUNTERS, bounds=request.bounds)


def _ball(request: Request, scale: int) -> Ball:
    assert isinstance(request.kernel, InnerProduct)
    return Ball.around(request.kernel, request.dimension, scale, request.bounds)


def _inner_product(request: Request, instances: int) -> Quantizer:
    return InnerProductQuantizer(_ball(request, SCALE), CLIP, request.feature_seed)  # an instance a column


def _signs(request: Request, instances: int) -> Quantizer:
    return InnerProductSigns(_ball(request, SIGNS_SCALE), instances, request.feature_seed)


def _landmarks(request: Request, instances: int) -> Quantizer:
    assert request.landmarks is not None
    box = None if request.bounds is None else Box.from_bounds(request.bounds, request.dimension)
    fitted, spectrum = _spanned(request.landmarks, request.kernel, box)
    rank = max(1, min(instances - 1, spectrum.rank, MOST_RANK))
    inner = LandmarkQuantizer.fit(fitted, estimates(fitted, [rank])[0], SCALE, spectrum)
    return RotatedLandmarks(inner, request.feature_seed)


@lru_cache(maxsize=4)
def _spanned(sample: PublicSample, kernel: Kernel, box: Box | None) -> tuple[Similarities, Spectrum]:
    """Decompose the sample's kernel matrix, once for all sizes."""
    bounds = None if box is None else list(zip(box.lower, box.upper, strict=True))
    fitted = similarities(kernel, sample.points, bounds, "clip")
    return fitted, Spectrum.of(fitted.matrix())


def _no_inner_product(request: Request) -> str | None:
    return (
        None if isinstance(request.kernel, InnerProduct) else f"it is for the inner product, not {request.kernel.name}"
    )


def _no_landmarks(request: Request) -> str | None:
    if request.landmarks is None:
        return "the quantizer 'landmarks' needs public points that resemble the records: pass landmarks="
    return None if request.kernel.portable else "landmarks need a kernel by name, which a document can carry"


def _no_pairs(request: Request) -> str | None:
    if isinstance(request.kernel, ShiftInvariantKernel) and request.kernel.portable:
        return None
    return f"Fourier pairs need a shift-invariant kernel by name, not {request.kernel.name}"


def _no_hashes(request: Request) -> str | None:
    return f"no hash functions are known for {request.kernel.name}" if family_for(request.kernel) is None else None


def _method(
    name: str, summary: str, refuse: Refusal, maker: Maker, baseline: bool = False, choose: Choice | None = None
) -> Method:
    def build(request: Request) -> Quantizer:
        return _sized(name, maker, request, choose or _fewest)

    def predict(request: Request, density: float) -> Prediction:
        quantizer = build(request)
        found = accuracy(quantizer, _rough(request, quantizer), request.n, density)
        return Prediction(found.rmse, quantizer.size, parameters={"instances": quantizer.size})

    _MAKERS[name] = maker
    return Method(name, summary, ("bitsum", "instances"), refuse, predict, build, baseline)


def _sized(name: str, maker: Maker, request: Request, choose: Choice) -> Quantizer:
    """Make the quantizer; without a number of instances, with the number that its method chooses by predicted error."""
    if "instances" in request.options:
        instances = request.positive_option("instances", 1)
        made = maker(request, instances)
        if made.size != instances:
            raise InputError(f"{name} has {made.size} instances here, not {instances}; pass that number or 'auto'")
        return made
    found: list[tuple[float, Quantizer]] = []
    for size in SIZES if choose is few_messages else CANDIDATES:
        quantizer = maker(request, size)
        if found and quantizer.size == found[-1][1].size:
            break  # an instance a column, or landmarks that span no more
        variance = _rough(request, quantizer)
        found.append((accuracy(quantizer, variance, request.n, request.density).rmse, quantizer))
    return choose(found)


def _fewest(found: Sized) -> Quantizer:
    """Take the fewest instances whose predicted error is nearly the least."""
    best = min(error for error, _ in found)
    return next(quantizer for error, quantizer in found if error <= NEARLY_BEST * best)


def few_messages(found: Sized) -> Quantizer:
    """Take few messages unless they cost much of the accuracy, see `modes`."""
    best = min(error for error, _ in found)
    few = [(error, quantizer) for error, quantizer in found if quantizer.size <= FEW]
    if min(error for error, _ in few) <= WORTH * best:
        return _fewest(few)
    return next(quantizer for error, quantizer in found if error <= 2 * best)


def _rough(request: Request, quantizer: Quantizer) -> float:
    return _variance(request, BitFeatures(quantizer).changed)


def _variance(request: Request, changed: int) -> float:
    budget = Budget(request.epsilon, request.delta, changed)
    return rough_variance(str(request.options.get("bitsum", "rr")), request.n, budget)


def rough_variance(name: str, n: int, budget: Budget) -> float:
    """Estimate the variance of a bit sum in no time, to choose the number of instances.

    Examples
    --------
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
        if isinstance(quantizer, LatticeQuantizer) and quantizer.counted:
            raise InputError("the number of participants is known, and is no coordinate")
        domain = box.domain()
        domain.check_limits()
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as problem:
        raise InputError(f"the protocol does not describe its features: {problem!s:.300}") from problem
    if domain.to_document() != document["domain"]:
        raise InputError("the bounds of the features are not those of the protocol")
    return kernel, BitFeatures(quantizer)


INNER_PRODUCT = _method("inner-product", "rotated and clipped columns", _no_inner_product, _inner_product)
SIGNS = _method("inner-product-signs", "signs of random sums, as published", _no_inner_product, _signs, baseline=True)
LANDMARKS = _method("landmarks", "features of public points, rotated and clipped", _no_landmarks, _landmarks)
LATTICE = _method("lattice", "a Fourier series on the bounds", _no_series, _lattice, choose=few_messages)
FOURIER = _method("fourier", "random Fourier pairs", _no_pairs, _fourier)
HASHING = _method("hashing", "counters of hash functions", _no_hashes, _hashing)
