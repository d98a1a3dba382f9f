"""`grid`: tensor B-splines on a grid over public bounds with Laplace noise, the default in few dimensions.

A histogram whose cells overlap smoothly (`quantizers.grid`, where integers, weights and buckets are explained).

Guarantee. One record's integers are non-negative and sum to exactly s, at any degree, in nodes and in buckets alike;
f records differ between neighbours (add/remove 1, replace 2, times the records of a user), so l1 <= f s. Discrete
Laplace noise of rate e_f / (f s) on every sum multiplies the probability of any output by at most exp(e_f); the count
at e_c composes to epsilon. Nodes that no record touches get the same noise as all others.

Error of one answer, P the mean kernel value: MSE = 2 G (f / (e_f n))^2 + ((rho + rho_0) P)^2 + (P sd(count) / n)^2 with
G the product over the columns of the mean of |g_j(y)|^2 for y in the bounds, rho the part of the misfit of f(x).g(y),
relative to the kernel, that typical records leave (the root of the sum over the columns of squares, see `splines`), and
rho_0 the part at edges and single nodes that does not average out. A finer spacing means more noise (G grows like 1/h
for each column) and less misfit (it falls like h^(degree + 1)); a lower degree has less noise at a wide spacing.
Spacing and degree are those of a short list with the smallest error for the density asked for, where the choice counts
`CAUTION` rho: it needs public facts only. B buckets add G C / B, with C the sum over nodes of the squared shares of
records, taken as P over the sum of g, which is the number of nodes in reach of the kernel (records spread evenly over
them).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import INTEGER_BYTES, Request, header_size
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.public.codec import brief
from sfumato.quantizers import GridQuantizer
from sfumato.quantizers.grid import MOST_AXES, MOST_BUCKETS, MOST_WIDE, NARROW, SPACINGS, unit_of
from sfumato.quantizers.splines import DEGREES, Axis, DualSolver, table_error

NAME = "grid"
OPTIONS = ("spacing", "degree", "buckets")
SPACING_LIST = (0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.2)
# Below this spacing the smoothest splines have the least bias and no more noise: lower degrees are not tried.
COARSE = 0.25
# One node for a column is cheap in noise but coarse: both the usual limit and a strict one are tried.
NARROW_LIST = (NARROW, 0.1)
MOST_SUMS = 1 << 22
FEWEST_BUCKETS = 1 << 8
MOST_QUERY_WORK = 1 << 22
WORK_PER_NODE = 80  # multiplications for the dual weight of one node of one axis
# The choice counts so much bias in units of the typical one: records on lattices (whole years, days) have 4 times as
# much, and at half of the records the density is above its mean.
CAUTION = 4.5
SAMPLED_NODES = 1 << 16
GOLDEN_RATIO = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Figures:
    """What a plan needs to know of one axis: typical values of `splines.Dual` over the bounds, and window nodes."""

    squares: float
    sum: float
    typical: float
    certain: float
    window_nodes: int


@lru_cache(maxsize=4096)
def figures(
    kernel: ShiftInvariantKernel,
    axis: Axis,
    extent: float,
    rounding: float,
    solver_of: Callable[..., DualSolver] = DualSolver,
) -> Figures:
    """Measure the dual weights at places spread evenly, over the range and in the cells: 0 to `extent` bandwidths."""
    solver = solver_of(kernel.column_profile, axis)
    queries = min(max(SAMPLED_NODES // solver.window, 8), 96)
    dual = solver.at(extent * np.modf(GOLDEN_RATIO * np.arange(queries))[0])
    return Figures(
        squares=float(dual.squares.mean()),
        sum=float(dual.weights.sum(axis=1).mean()),
        typical=float(np.sqrt(np.square(dual.typical(rounding)).mean())),
        certain=float(np.sqrt(np.square(dual.certain).mean())),
        window_nodes=dual.weights.shape[1],
    )


@dataclass(frozen=True)
class Design:
    """One way to lay out the grid, with what it costs and how far it errs.

    Attributes
    ----------
    spacing, degree, narrow, buckets
        As in `GridQuantizer`.
    sums : int
        Integers of the release.
    work_per_record, work_per_query : int
        Multiplications.
    squares, typical, certain, share : float
        G, rho, rho_0, and C / P of the module's text.
    """

    spacing: float
    degree: int
    narrow: float
    buckets: int | None
    sums: int
    work_per_record: int
    work_per_query: int
    squares: float
    typical: float
    certain: float
    share: float

    @property
    def options(self) -> dict[str, Any]:
        """The options that ask for this design."""
        sizes: dict[str, Any] = {"spacing": self.spacing, "degree": self.degree}
        return sizes if self.buckets is None else {**sizes, "buckets": self.buckets}

    def mean_square_error(self, request: Request, density: float, caution: float = 1.0) -> float:
        """Predicted error of one answer, for a bias of `caution` times the typical one."""
        noise = 2 * self.squares * (request.factor / (float(request.feature_epsilon) * request.n)) ** 2
        collisions = 0.0 if self.buckets is None else self.squares * self.share * density / self.buckets
        return (
            noise
            + ((caution * self.typical + self.certain) * density) ** 2
            + collisions
            + request.typical_count_error(density)
        )


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    kernel = request.kernel
    if not isinstance(kernel, ShiftInvariantKernel) or not kernel.separable:
        return (
            "it needs a kernel that is a product over the columns: gaussian, laplacian, cauchy or stable-exponential, "
            "with one bandwidth or one for each column"
        )
    if request.bounds is None:
        return "it needs public bounds: pass bounds=, one (lower, upper) pair for each column"
    if request.dimension > MOST_AXES:
        return f"it takes at most {MOST_AXES} columns"
    try:
        _design(request)
    except _TooLargeError as reason:
        return str(reason)
    return None


class _TooLargeError(InputError):
    """No grid over the bounds fits the budgets."""


def _design(request: Request) -> Design:
    """Choose the design with the least predicted error; a function of public facts only."""
    return request.once(NAME, lambda: _least(request))


def _least(request: Request) -> Design:
    known = list(_designs(request))
    fitting = [design for design in known if fits(design, request)]
    if not known:
        raise _TooLargeError(
            f"more than {MOST_WIDE} columns are wider than {NARROW} bandwidths, and a grid takes {MOST_WIDE}: pass "
            "tighter bounds or larger bandwidths"
        )
    if not fitting:
        work = min(design.work_per_query for design in known)
        size = min(file_size(design.sums, request) for design in known)
        raise _TooLargeError(
            f"a query on the smallest grid over these bounds takes {work:.2g} multiplications and its file {size} "
            "bytes, which the budgets do not allow: pass tighter bounds or larger bandwidths"
        )
    return min(fitting, key=lambda design: design.mean_square_error(request, request.density, CAUTION))


def fits(design: Design, request: Request) -> bool:
    """Whether a design is within the budgets."""
    limits = request.limits
    return (
        design.work_per_record <= limits.work_per_record
        and design.work_per_query <= min(limits.work_per_query, MOST_QUERY_WORK)
        and file_size(design.sums, request) <= limits.file_size
    )


def file_size(sums: int, request: Request) -> int:
    """Most bytes of a release of so many sums."""
    return header_size(request.kernel, request.dimension) + INTEGER_BYTES * sums


def _designs(request: Request) -> Iterator[Design]:
    """All designs that the options allow."""
    spacings, degrees, most = spacings_of(request), _degrees(request), _most_sums(request)
    for degree, narrow, spacing in product(degrees, NARROW_LIST, spacings):
        if degree < max(degrees) and spacing < COARSE and len(spacings) > 1:
            continue
        try:
            design = lay_out(request, most, spacing, degree, narrow)
        except InputError as error:  # a column too long for this spacing
            if spacing == max(spacings) and narrow == NARROW:
                raise _TooLargeError(str(error)) from None
            continue
        if design is not None:
            yield design


def lay_out(
    request: Request,
    most: int,
    spacing: float,
    degree: int,
    narrow: float,
    solver: Callable[..., DualSolver] = DualSolver,
) -> Design | None:
    """Lay out one grid of `most` sums or fewer; None if too many columns are wide."""
    kernel = request.kernel
    assert isinstance(kernel, ShiftInvariantKernel)
    # Columns of one extent are alike, and there may be thousands: each extent is measured once.
    extents = (2 * request.box.half_widths / kernel.column_scales(request.dimension)).tolist()
    times = Counter(extents)
    axes = {extent: Axis.over(0.0, extent, 1.0, spacing, degree, narrow) for extent in times}
    single = {extent for extent, axis in axes.items() if axis.single}
    wide = sum(count for extent, count in times.items() if extent not in single)
    if wide > MOST_WIDE:
        return None
    rounding = table_error(degree, unit_of(wide)) if wide else 0.0
    measured = {extent: figures(kernel, axis, extent, rounding, solver) for extent, axis in axes.items()}
    parts = [measured[extent] for extent in extents]
    nodes = math.prod(axes[extent].nodes ** count for extent, count in times.items())
    buckets = None if nodes <= most else most
    return Design(
        spacing=spacing,
        degree=degree,
        narrow=narrow,
        buckets=buckets,
        sums=nodes if buckets is None else buckets,
        work_per_record=(degree + 1) ** wide,
        work_per_query=math.prod(measured[extent].window_nodes ** count for extent, count in times.items())
        + WORK_PER_NODE * sum(measured[extent].window_nodes * count for extent, count in times.items()),
        squares=math.prod(part.squares for part in parts),
        typical=math.hypot(*(part.typical for part in parts)),
        certain=sum(part.certain for part in parts),
        share=1 / math.prod(measured[extent].sum for extent in extents if extent not in single),
    )


def _most_sums(request: Request) -> int:
    """Most sums that are kept, a power of two: grids of more nodes are hashed into so many buckets."""
    if "buckets" in request.options:
        value = request.positive_option("buckets", 1)
        if value.bit_count() != 1 or not 1 < value <= MOST_BUCKETS:
            raise InputError(f"option buckets must be a power of two from 2 to {MOST_BUCKETS}, got {value}")
        return value
    room = (request.limits.file_size - header_size(request.kernel, request.dimension)) / INTEGER_BYTES
    whole = int(min(max(room, FEWEST_BUCKETS), MOST_SUMS))
    return 1 << (whole.bit_length() - 1)


def spacings_of(request: Request) -> tuple[float, ...]:
    """Spacings that the options allow."""
    value = request.options.get("spacing")
    if value is None:
        return SPACING_LIST
    if isinstance(value, bool) or not isinstance(value, int | float) or not SPACINGS[0] <= value <= SPACINGS[1]:
        raise InputError(f"option spacing must be a number from {SPACINGS[0]} to {SPACINGS[1]}, got {brief(value)}")
    return (float(value),)


def _degrees(request: Request) -> tuple[int, ...]:
    value = request.options.get("degree")
    if value is None:
        return DEGREES
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or value not in DEGREES:
        raise InputError(f"option degree must be 0, 1, 2 or 3, got {brief(value)}")
    return (int(value),)


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    request.check_options(*OPTIONS)
    return prediction(_design(request), request, density)


def prediction(design: Design, request: Request, density: float) -> Prediction:
    """Error and cost of a design."""
    return Prediction(
        rmse=math.sqrt(design.mean_square_error(request, density)),
        integers=design.sums,
        file_size=file_size(design.sums, request),
        work_per_record=float(design.work_per_record),
        work_per_query=float(design.work_per_query),
        parameters=design.options,
    )


def build(request: Request) -> Mechanism:
    """Choose spacing and buckets from the request."""
    request.check_options(*OPTIONS)
    design = _design(request)
    assert isinstance(request.kernel, ShiftInvariantKernel)
    quantizer = GridQuantizer(
        kernel=request.kernel,
        domain=request.box,
        spacing=design.spacing,
        degree=design.degree,
        narrow=design.narrow,
        buckets=design.buckets,
        seed=request.feature_seed,
    )
    return Mechanism.of(
        request,
        NAME,
        quantizer,
        DiscreteLaplace.at_most(request.feature_epsilon / (request.factor * quantizer.bound.l1)),
        parameters={**design.options, "narrow": design.narrow},
    )


METHOD = Method(
    NAME, "B-splines on a grid over public bounds, Laplace noise", OPTIONS, refuse, predict, build, pure=True
)
