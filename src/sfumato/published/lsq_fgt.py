"""`lsq-fgt`: the Hermite expansion in cells with Laplace noise, as published.

Source: Algorithm 1 with sections 3.2, B.1 (refined sensitivity) and E.1 of Wagner et al. (2023); one pair (f, g),
so I = J repetitions, of which a query takes the median. Corrected: the count is paid for; the powers are integers with
exact bounds; the sensitivity printed in B.1 is too small (see `published.hermite`).

Guarantee. A record adds to the orders of one cell integers of total absolute value at most l1 = J sum_r floor(2^(B -
|r|)), 2 l1 when a record is replaced. Discrete Laplace noise of rate e_f / l1 on every integer of every cell, empty
ones too, multiplies the probability of any output by at most exp(e_f); the count at e_c composes to epsilon.

Error of one answer: 2 (f l1 / e_f)^2 |g(y)|^2 of noise, with |g(y)|^2 about the same everywhere (it is averaged over a
cell), times pi / (2 J) for a median of J > 1; and the misfit of truncation and cut-off, P |k - f.g| / |k| in L2 over x.
At J = 1 the noise grows with rho to a limit near that of all orders: sqrt(2) 4.7 / (e_f n) in two dimensions.

rho by default: log(e_f n) - d log log(e_f n), the source's rule with its hidden constants set to 1.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import Gaussian
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.guarantee import check_choice
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.published.common import dense_prediction, probes, public_box, refuse_bounds, shown
from sfumato.published.hermite import CUTOFFS, MOST_RHO, HermiteQuantizer, cells_of
from sfumato.quantizers.box import Box
from sfumato.quantizers.portable_kernels import axis_lengths

NAME = "lsq-fgt"
OPTIONS = ("rho", "cutoff", "groups")
BITS = 20
MOST_INTEGERS = 2**24
# The neighbourhood of a query that a prediction looks at: odd, so that there is a middle cell.
MOST_NEIGHBOURS = 2**12


def rule(epsilon: float, n: float, dimension: int) -> int:
    """Orders of one column by the source's rule."""
    size = max(math.log(max(epsilon * n, math.e)), 1.0)
    return min(MOST_RHO, max(1, round(size - dimension * math.log(size))))


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    if not isinstance(request.kernel, Gaussian) or len(request.kernel.scale.shape) == 2:
        return "it needs a gaussian kernel with one bandwidth, or one for each column"
    reason = refuse_bounds(request)
    if reason is None and _cells(request) > MOST_INTEGERS:
        cells = shown(_cells(request))
        reason = f"the bounds hold {cells} cells of one bandwidth, and {MOST_INTEGERS} fit; pass tighter ones"
    return reason


def _cells(request: Request) -> int:
    return math.prod(_column_cells(request))


def _column_cells(request: Request) -> tuple[int, ...]:
    assert isinstance(request.kernel, Gaussian)
    return cells_of(public_box(request), axis_lengths(request.kernel, request.dimension))


def _sizes(request: Request) -> tuple[int, str, int]:
    request.check_options(*OPTIONS)
    groups = request.positive_option("groups", 1)
    cutoff = request.options.get("cutoff", CUTOFFS[0])
    check_choice("option cutoff", cutoff, CUTOFFS)
    cells = _cells(request) * groups
    wanted = rule(float(request.feature_epsilon), request.n, request.dimension)
    while wanted > 1 and cells * wanted**request.dimension > MOST_INTEGERS:
        wanted -= 1
    rho = request.positive_option("rho", wanted)
    if rho > MOST_RHO:
        raise InputError(f"option rho must be at most {MOST_RHO}, got {rho}")
    if cells * rho**request.dimension > MOST_INTEGERS:
        raise InputError(
            f"rho {rho} takes {cells} cells x {rho}^{request.dimension} orders = {cells * rho**request.dimension:.3g} "
            f"integers, and {MOST_INTEGERS} fit; pass a smaller rho, fewer groups or tighter bounds"
        )
    return rho, str(cutoff), groups


@lru_cache(maxsize=512)
def _middle(dimension: int, rho: int, cutoff: str) -> tuple[float, float]:
    """Mean squares of |g(y)| and of the misfit over the cell in the middle of enough others, in units of 1."""
    side = 11
    while side > 1 and side**dimension > MOST_NEIGHBOURS:
        side -= 2
    box = Box((0.0,) * dimension, (float(side),) * dimension)
    quantizer = HermiteQuantizer(Gaussian(1.0), box, rho, cutoff, bits=BITS, density=1.0)
    places = probes(Box((0.0,) * dimension, (1.0,) * dimension)) + side // 2
    squares, misfits = quantizer.weight_squares(places)
    return float(squares.mean()), float(np.square(misfits).mean())


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    rho, cutoff, groups = _sizes(request)
    squares, misfit = _middle(request.dimension, rho, cutoff)
    sensitivity = request.factor * groups * (2 - 2.0 ** (1 - rho)) ** request.dimension
    median = math.pi / (2 * groups) if groups > 1 else 1.0
    noise = 2 * (sensitivity / (float(request.feature_epsilon) * request.n)) ** 2 * squares * median
    orders = rho**request.dimension
    side = 2 * math.sqrt(rho if cutoff == CUTOFFS[0] else 16) + 1
    near = math.prod(min(cells, side) for cells in _column_cells(request))
    return dense_prediction(
        request,
        noise + misfit * density**2,
        groups * _cells(request) * orders,
        float(orders * request.dimension),
        {"rho": rho, "cutoff": cutoff, "groups": groups},
        density,
        query_work=near * orders * groups,
    )


def build(request: Request) -> Mechanism:
    """Choose rho from the request."""
    rho, cutoff, groups = _sizes(request)
    quantizer = HermiteQuantizer(
        request.kernel, public_box(request), rho, cutoff, groups, bits=BITS, density=request.density
    )
    return Mechanism.of(
        request,
        NAME,
        quantizer,
        DiscreteLaplace.at_most(request.feature_epsilon / (request.factor * quantizer.bound.l1)),
        parameters={"rho": rho, "cutoff": cutoff, "groups": groups},
    )


METHOD = Method(
    NAME,
    "Hermite expansion with Laplace noise, as published",
    OPTIONS,
    refuse,
    predict,
    build,
    baseline=True,
    pure=True,
)
