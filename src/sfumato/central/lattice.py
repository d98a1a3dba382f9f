"""`lattice`: a Fourier series on the declared box with Gaussian noise, for few columns and delta > 0.

Source: the rate of Hall, Rinaldo and Wasserman (2013) as a finite set of integers (`quantizers.product_lattice`).

Guarantee. A record's integers, the count's included, have an l2 norm of at most D, a hard bound; f records differ
between neighbours. Discrete Gaussian noise for f D is (epsilon, delta)-DP (`privacy.gaussian`, with its proof). The
count is one of the integers: nothing is bought apart, unless the option count_share says so.

Error of one answer, P the mean kernel value, c the noise multiplier, W = 2 sum |c_j| over the pairs, w the coefficient
of the mode 0, a^2 the count's part of the squared norm beside W, and U^2 = (P - w)^2 + (S P)^2 the mean square of an
answer less w (S P is its deviation over queries): MSE = (c f / n)^2 (W + a^2) (W + U^2 / a^2) + bias^2, which is least
at a^2 = U. Where P is not told it is assumed to be small, and a^2 has a larger least part: that costs 2 % of the error
if P is small indeed, and saves a third of it and more where answers are .3 and more. There is no Monte Carlo error.
More modes leave less bias and cost little noise; the number of modes and the periods are those of least predicted error
that the limits allow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import INTEGER_BYTES, Request, header_size
from sfumato.privacy.gaussian import LARGEST_EPSILON, calibrate, gaussian_multiplier, gaussian_noise, largest_length
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.product_lattice import RADIUS, ProductLattice, halves_of
from sfumato.quantizers.series import MARGINS, MOST_MODE, Modes, modes, products, series
from sfumato.release import Count

NAME = "lattice"
OPTIONS = ("n_features",)
MOST_COLUMNS, MOST_PAIRS = 5, 4096
SMALLEST_LENGTH = 2**12  # of a record: less would be too coarse
# Least part of the norm that the count has, however near the mean density is to the mode 0; and where P is a guess.
SMALLEST_COUNT, GUESSED_COUNT = 0.03, 0.08
# Deviation of the density over queries like the records, in units of its mean, as is typical.
SPREAD = 0.6
# Fewer modes are taken at a mean square error up to so many times the least.
NEARLY = 1.05


@dataclass(frozen=True, eq=False)
class Design:
    """A choice of modes with its predicted error.

    Attributes
    ----------
    found : Modes
        The modes to choose from.
    pairs : int
        How many of them.
    count_part : float
        a^2; 0 where the count is not among the sums.
    """

    found: Modes
    pairs: int
    count_part: float

    def mean_square_error(self, request: Request, density: float) -> float:
        """Predicted error of one answer."""
        return float(_errors(request, density, self.found, self.count_part)[self.pairs - 1])


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    kernel = request.kernel
    if not request.delta:
        return "it needs delta > 0"
    if request.epsilon > LARGEST_EPSILON:
        return f"it takes an epsilon up to {LARGEST_EPSILON:g}: with more, pass delta=0"
    if not isinstance(kernel, ShiftInvariantKernel) or not kernel.separable or not kernel.portable:
        return "it needs a kernel by name that is a product over the columns, with one bandwidth or one for each column"
    if request.bounds is None:
        return "it needs public bounds: pass bounds=, one (lower, upper) pair for each column"
    if request.dimension > MOST_COLUMNS:
        return f"it is for up to {MOST_COLUMNS} columns"
    if max(_extents(request)) > MOST_MODE:
        return f"the bounds span more than {MOST_MODE} bandwidths: pass tighter bounds or larger bandwidths"
    if not _most_pairs(request):
        return "the budgets leave no room for a single feature"
    try:
        _longest(request)
    except InputError as reason:
        return str(reason)
    return None


def _longest(request: Request) -> float:
    """Return the longest norm of a record; refuse a budget for which integer noise cannot be calibrated or sampled."""
    epsilon = _epsilon(request)
    longest = largest_length(request.factor, epsilon, request.delta)
    if longest < SMALLEST_LENGTH:
        raise InputError("so little budget does not fit 64-bit noise; pass a larger epsilon or delta")
    calibrate(request.factor * longest, 2 * MOST_PAIRS + 1, epsilon, request.delta)
    return longest


def _own_count(request: Request) -> bool:
    return request.neighbours == "add-remove" and "count_share" not in request.options


def _epsilon(request: Request) -> float:
    """Return what the sums cost."""
    return float(request.epsilon if _own_count(request) else request.feature_epsilon)


def _extents(request: Request) -> tuple[float, ...]:
    assert isinstance(request.kernel, ShiftInvariantKernel)
    box = request.box
    lengths = 2 * box.half_widths / request.kernel.column_scales(request.dimension)
    return tuple(float(length) for length in lengths)


def _pair_bytes(request: Request) -> int:
    """Bytes of a pair in a file: two sums, an amplitude, and the mode."""
    return INTEGER_BYTES * (3 + request.dimension)


def _most_pairs(request: Request) -> int:
    limits = request.limits
    room = (limits.file_size - header_size(request.kernel, request.dimension)) / _pair_bytes(request) - 1
    return int(
        min(MOST_PAIRS, room, limits.work_per_record / request.dimension, limits.work_per_query / request.dimension)
    )


def _design(request: Request) -> Design:
    """Choose periods and modes of least predicted error; a function of public facts only."""
    request.check_options(*OPTIONS)
    return request.once(NAME, lambda: _least(request))


def _least(request: Request) -> Design:
    most = _most_pairs(request)
    wanted = request.size_option("n_features", most, most)
    return min(_designs(request, wanted), key=lambda design: design.mean_square_error(request, request.density))


def _designs(request: Request, most: int) -> Iterator[Design]:
    assert isinstance(request.kernel, ShiftInvariantKernel)
    for margin in MARGINS:
        found = modes(request.kernel, _extents(request), margin, most)
        least = SMALLEST_COUNT if "density" in request.options else GUESSED_COUNT
        part = max(_away(request.density, found), least) if _own_count(request) else 0.0
        errors = _errors(request, request.density, found, part)
        best = int((errors <= NEARLY * errors.min()).argmax()) + 1
        yield Design(found, len(errors) if "n_features" in request.options else best, part)


def _away(density: float, found: Modes) -> float:
    """Return U, see the module's text."""
    return math.hypot(density - found.constant, SPREAD * density)


def _errors(request: Request, density: float, found: Modes, part: float) -> Floats:
    """Predicted mean square errors of the first one, two, three ... modes."""
    noise = (gaussian_multiplier(_epsilon(request), request.delta) * request.factor / request.n) ** 2
    away = _away(density, found)
    weight = 2 * np.cumsum(np.abs(found.coefficients))
    typical = math.hypot(density, SPREAD * density)
    missed = found.missed(np.cumsum(np.abs(found.coefficients)), np.cumsum(np.square(found.coefficients)), typical)
    features = noise * (weight + part) * (weight + (away**2 / part if part else 0.0))
    return np.asarray(features + missed + (0.0 if part else request.count_error(away)))


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    design = _design(request)
    pairs = design.pairs
    work = float(pairs * request.dimension)
    return Prediction(
        rmse=math.sqrt(design.mean_square_error(request, density)),
        integers=2 * pairs + (1 if design.count_part else 0),
        file_size=header_size(request.kernel, request.dimension) + (pairs + 1) * _pair_bytes(request),
        work_per_record=work,
        work_per_query=work,
        parameters={"n_features": pairs},
    )


def build(request: Request) -> Mechanism:
    """Choose the modes and calibrate the noise."""
    design, epsilon = _design(request), _epsilon(request)
    found, pairs = design.found, design.pairs
    norm = math.sqrt(2 * np.abs(found.coefficients[:pairs]).sum() + design.count_part)
    radii, unit = _radii(request, found, pairs, _longest(request) / norm)
    assert isinstance(request.kernel, ShiftInvariantKernel)
    quantizer = ProductLattice(
        kernel=request.kernel,
        domain=request.box,
        periods=found.periods,
        modes=found.modes[:pairs],
        amplitudes=radii,
        counted=max(1, round(unit * math.sqrt(design.count_part))) if design.count_part else 0,
    )
    squared = request.factor**2 * quantizer.bound.l2_squared
    noise, loss = gaussian_noise(squared, quantizer.size, epsilon, request.delta)
    parts = {"count_law": None, "count_reader": partial(read_count, quantizer.counted, noise.variance)}
    return Mechanism.of(
        request,
        NAME,
        quantizer,
        noise,
        parameters={"n_features": pairs},
        feature_loss=loss,
        **(parts if quantizer.counted else {}),
    )


TINY = 1e-100


def _radii(request: Request, found: Modes, pairs: int, unit: float) -> tuple[Integers, float]:
    """Radii of both halves of every pair, and the unit: their product is that times the root of twice the coefficient.

    The unit is at most the one that is passed. Both halves have the same largest radius and are rounded alike.
    """
    assert isinstance(request.kernel, ShiftInvariantKernel)
    parts = [series(request.kernel, *sides) for sides in zip(_extents(request), found.periods, strict=True)]
    chosen = found.modes[:pairs]
    roots = [
        np.sqrt(np.abs(products([parts[column] for column in half], chosen[:, list(half)])))
        for half in halves_of(request.dimension)
    ]
    tops = [max(float(root.max()), TINY) for root in roots]  # all are 0 where the kernel is flat over the bounds
    peaks = math.sqrt(2) * tops[0] * tops[1]
    largest = min(math.sqrt(unit * peaks), float(RADIUS))
    radii = [np.clip(np.rint(largest * root / top), 2, RADIUS) for root, top in zip(roots, tops, strict=True)]
    return np.stack(radii, axis=1).astype(np.int64), largest**2 / peaks


def read_count(counted: int, noise_variance: float, values: Integers) -> Count:
    """Read the count off the first of the sums."""
    return Count(max(1, round(int(values[0]) / counted)), noise_variance / counted**2, public=False)


METHOD = Method(NAME, "Fourier series on a box, Gaussian noise", OPTIONS, refuse, predict, build)
