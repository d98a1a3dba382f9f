"""`histogram`: noisy counts of cells, read as if every record sat in the middle of its cell; what people do today.

The answer is the noisy histogram convolved with the kernel. It is `grid` with steps for splines and the kernel's values
at the cells' middles for weights, there to be compared with: least-squares weights and smoother splines (`grid`) leave
less bias at the same noise.

Guarantee. A record adds s to one cell and nothing elsewhere; f records differ between neighbours, so l1 <= f s, and
discrete Laplace noise of rate e_f / (f s) on every cell, empty or not, keeps e_f; the count at e_c composes to epsilon.

Error of one answer, P the mean kernel value: MSE = 2 G (f / (e_f n))^2 + ((rho + rho_0) P)^2 + (P sd(count) / n)^2 as
in `sfumato.central.grid`, G the sum of the squared weights. The cells' width is the one of a list with the least of it
for the density asked for: public facts alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.central.grid import CAUTION, MOST_SUMS, Design, fits, lay_out, prediction, spacings_of
from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.quantizers.base import Floats
from sfumato.quantizers.grid import MOST_AXES, NARROW, GridQuantizer
from sfumato.quantizers.splines import DualSolver

NAME = "histogram"
OPTIONS = ("spacing",)


class MiddleSolver(DualSolver):
    """Weights of cells: the kernel's values at their middles, for which nothing is solved."""

    @property
    def _factor(self) -> Floats:
        return np.empty((0, 0))

    def _solve(self, places: Floats, factor: Floats) -> tuple[Floats, Floats, Floats]:
        points, _, _ = self._quadrature
        middles = (np.arange(self.window) + 0.5) * self.axis.spacing
        with np.errstate(over="ignore"):  # far away the kernel is 0
            values = self.profile(points - places[:, None, None])
            weights = self.profile(middles - places[:, None])
        return values, np.ascontiguousarray(weights), values - weights[:, :, None]


@dataclass(frozen=True, eq=False)
class HistogramQuantizer(GridQuantizer):
    """Counts of cells, read at their middles; parameters as for `GridQuantizer`, of degree 0 and without buckets."""

    degree: int = 0

    name: ClassVar[str] = "histogram"
    solver: ClassVar[type[DualSolver]] = MiddleSolver
    schema = GridQuantizer.schema.extended({"quantizer": name})

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild it, unless it is no histogram."""
        if fields["degree"] != 0 or fields["buckets"] is not None:
            raise ReleaseFileError("a histogram has degree 0 and no buckets, and the header says otherwise")
        return super().from_fields(fields, arrays, kernel, size)


def _designs(request: Request) -> list[Design]:
    """All widths that fit; a function of public facts only."""
    return request.once(NAME, lambda: _fitting(request))


def _fitting(request: Request) -> list[Design]:
    found = []
    for spacing in spacings_of(request):
        try:
            design = lay_out(request, MOST_SUMS, spacing, 0, NARROW, MiddleSolver)
        except InputError:  # a column too long for this width
            continue
        if design is not None and design.buckets is None and fits(design, request):
            found.append(design)
    return found


def _design(request: Request) -> Design:
    designs = _designs(request)
    if not designs:
        raise InputError("no histogram over these bounds is what the budgets allow: pass tighter bounds")
    return min(designs, key=lambda design: design.mean_square_error(request, request.density, CAUTION))


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    kernel = request.kernel
    if not isinstance(kernel, ShiftInvariantKernel) or not kernel.separable:
        return "it needs a kernel that is a product over the columns, with one bandwidth or one for each column"
    if request.bounds is None:
        return "it needs bounds=, the public box that holds the points"
    if request.dimension > MOST_AXES:
        return f"it takes at most {MOST_AXES} columns"
    return None if _designs(request) else "no histogram over these bounds is what the budgets allow"


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    request.check_options(*OPTIONS)
    design = _design(request)
    return replace(prediction(design, request, density), parameters={"spacing": design.spacing})


def build(request: Request) -> Mechanism:
    """Choose the width from the request."""
    request.check_options(*OPTIONS)
    assert isinstance(request.kernel, ShiftInvariantKernel)
    spacing = _design(request).spacing
    quantizer = HistogramQuantizer(request.kernel, request.box, spacing)
    rate = DiscreteLaplace.at_most(request.feature_epsilon / (request.factor * quantizer.bound.l1))
    return Mechanism.of(request, NAME, quantizer, rate, parameters={"spacing": spacing})


METHOD = Method(
    NAME,
    "counts of cells convolved with the kernel, Laplace noise",
    OPTIONS,
    refuse,
    predict,
    build,
    baseline=True,
    pure=True,
)
