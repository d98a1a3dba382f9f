"""`cells`: tables with categories, a set of noisy sums for every combination of their values (`quantizers.cells`).

Guarantee. A record adds integers to the sums of its own cell alone, and there what the inner method's feature map adds;
f records differ between neighbours, in up to f cells. The l1 norm, the sum of the norms of a body and the l2 norm of
what they change are at most f times those of one record, whichever cells it falls into, and the inner method's noise is
made for that: it is drawn for every cell, empty or not. So the release keeps the inner method's promise. Gaussian noise
is calibrated anew for the coordinates that f records touch. The count at e_c composes to epsilon. The list of values is
public; which values occur is not.

Error of one answer, per inner method: C cells, Q the sum over cells of the squared similarity to the query's cell, M
the mean similarity of two records' cells, P the mean kernel value. M is between that of equally frequent values and 1,
where one value has all records; the geometric mean of the two is assumed. Noise has Q times the inner
variance. Random features miss k_numbers weighted by both records' similarities to the query, so their P / (2 m) becomes
P M / (2 m): in units of Q that is the inner error at the density P M / Q. Groups of records add the mean square of a
record's similarity to the query, Q / C, times 1 / (2 n m_g). A grid's bias is relative to the answer, P:
the inner error at P / sqrt(Q). So MSE = Q (inner MSE at that density, without the count) + (P sd(count) / n)^2. The
inner method is the one with the least of these; without columns of numbers a cell is one count, and the inner MSE is
2 (f / (e_f n))^2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sfumato.central import fourier, fourier_gaussian, grid
from sfumato.errors import InputError
from sfumato.kernels import Product
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import GENERAL_OPTIONS, INTEGER_BYTES, SMALLEST_DENSITY, Limits, Request, header_size
from sfumato.privacy.gaussian import gaussian_noise
from sfumato.privacy.loss import Loss
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace
from sfumato.public.codec import brief
from sfumato.quantizers.base import Quantizer
from sfumato.quantizers.cells import Cells, Tally

NAME = "cells"
TABLE = "table"
INNER: dict[str, Method] = {module.NAME: module.METHOD for module in (fourier, fourier_gaussian, grid)}
OPTIONS = ("inner", *sorted({option for method in INNER.values() for option in method.options}))
# Cells, and cells times the features of each.
MOST_CELLS, MOST_SUMS = 2**18, 2**24


@dataclass(frozen=True)
class Choice:
    """An inner method for the columns of numbers, with its predicted error in a table of cells.

    Attributes
    ----------
    request : Request
        What was asked for; without delta where the inner method needs none.
    method : Method
        The inner method.
    inner : Request
        What it is asked for.
    """

    request: Request
    method: Method
    inner: Request

    def prediction(self, density: float) -> Prediction:
        """Predict error and cost."""
        request, kernel = self.request, _product(self.request)
        adapted = _inner_density(self.method.name, kernel, density)
        found = self.method.prediction(self.inner, adapted)
        features = max(found.rmse**2 - self.inner.count_error(adapted), 0.0)
        return Prediction(
            rmse=math.sqrt(_squares(kernel) * features + request.count_error(density)),
            integers=kernel.cells * found.integers,
            file_size=header_size(kernel, request.dimension) + kernel.cells * found.file_size,
            work_per_record=found.work_per_record,
            work_per_query=found.work_per_query + kernel.cells * found.integers,
            parameters={"inner": self.method.name, **found.parameters},
        )


def _product(request: Request) -> Product:
    assert isinstance(request.kernel, Product)
    return request.kernel


def _squares(kernel: Product) -> float:
    """Return Q, see the module's text."""
    return math.prod(1 + (category.size - 1) * category.mismatch**2 for category in kernel.categories)


def _mean(kernel: Product) -> float:
    """Return M, as assumed."""
    even = ((1 + (category.size - 1) * category.mismatch) / category.size for category in kernel.categories)
    return math.sqrt(math.prod(even))


def _inner_density(name: str, kernel: Product, density: float) -> float:
    """Return the density at which the inner method has the error that it has in cells, in units of Q."""
    squares = _squares(kernel)
    return density / math.sqrt(squares) if name == grid.NAME else density * _mean(kernel) / squares


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    if not isinstance(request.kernel, Product):
        return "it needs categories: pass categories=, each with its public values"
    if (reason := too_many(request.kernel)) is not None or request.kernel.numbers is None:
        return reason
    return None if list(_choices(request)) else "; ".join(_reasons(request))


def too_many(kernel: Product) -> str | None:
    """Refuse more cells than there may be."""
    if kernel.cells <= MOST_CELLS:
        return None
    return f"the categories' values have {kernel.cells} combinations, and {MOST_CELLS} are the most; merge rare values"


def _inner_requests(request: Request) -> Iterator[tuple[Method, Request]]:
    """Ask every inner method that takes the request's options, with its delta or, a pure one, without."""
    kernel = _product(request)
    wanted = request.options.get("inner")
    if kernel.numbers is None:
        return
    if wanted is not None and wanted not in (*INNER, TABLE):
        raise InputError(f"option inner must be one of {', '.join(INNER)}, got {brief(wanted)}")
    for name, method in INNER.items():
        own = {option: value for option, value in request.options.items() if option != "inner"}
        fits = set(own) <= {*GENERAL_OPTIONS["central"], *method.options}
        if wanted in (None, name) and fits and (method.pure or request.delta):
            yield method, inner_request(replace(method.asked(request), options=own), name)


def inner_request(request: Request, name: str) -> Request:
    """Return what a method of numbers is asked for, by whose name the density is chosen."""
    kernel = _product(request)
    assert kernel.numbers is not None
    density = max(_inner_density(name, kernel, request.density), SMALLEST_DENSITY)
    return replace(
        request,
        kernel=kernel.numbers,
        dimension=len(kernel.of_numbers(request.dimension)),
        options={**request.options, "density": density},
        limits=_inner_limits(request, kernel),
        copies=kernel.cells,
        seen=_mean(kernel) ** 2 / _squares(kernel),
    )


def _inner_limits(request: Request, kernel: Product) -> Limits:
    """Share file and query among the cells; cells times features has a limit of its own."""
    limits, cells = request.limits, kernel.cells
    room = min(limits.file_size - header_size(kernel, request.dimension), MOST_SUMS * INTEGER_BYTES)
    assert kernel.numbers is not None
    header = header_size(kernel.numbers, request.dimension - len(kernel.places))
    return replace(
        limits, file_size=header + max(room, 0.0) / cells, work_per_query=limits.work_per_query / (1 + 2 * cells)
    )


def _choices(request: Request) -> Iterator[Choice]:
    for method, inner in _inner_requests(request):
        if method.reason(inner) is None:
            yield Choice(method.asked(request), method, inner)


def _reasons(request: Request) -> Iterator[str]:
    asked = list(_inner_requests(request))
    for method, inner in asked:
        yield f"{method.name}: {method.reason(inner)}"
    if not asked:
        yield "no inner method takes these options" + (" with delta > 0" if request.delta else " without delta")


def _best(request: Request) -> Choice:
    """Take the inner method of least predicted error."""
    return min(_choices(request), key=lambda choice: choice.prediction(request.density).rmse)


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    request.check_options(*OPTIONS)
    kernel = _product(request)
    if kernel.numbers is not None:
        return _best(request).prediction(density)
    noise = 2 * _squares(kernel) * (request.factor / (float(request.feature_epsilon) * request.n)) ** 2
    return Prediction(
        rmse=math.sqrt(noise + request.count_error(density)),
        integers=kernel.cells,
        file_size=header_size(kernel, request.dimension) + INTEGER_BYTES * kernel.cells,
        work_per_record=float(request.dimension),
        work_per_query=float(kernel.cells),
        parameters={"inner": TABLE},
    )


def build(request: Request) -> Mechanism:
    """Build the inner method for the columns of numbers, and give every cell its sums."""
    request.check_options(*OPTIONS)
    kernel, parts = _product(request), {}
    if kernel.numbers is None:
        request = request.pure()  # a table of counts needs no delta
        name, quantizer, sizes = TABLE, Cells(kernel, Tally()), {}
        noise: Any = DiscreteLaplace.at_most(request.feature_epsilon / request.factor)
    else:
        choice = _best(request)
        request = choice.request
        inner: Mechanism = choice.method.built(choice.inner)
        assert isinstance(inner.encoder, Quantizer)
        name, quantizer, noise = choice.method.name, Cells(kernel, inner.encoder), inner.noise
        sizes = {size: value for size, value in inner.parameters.items() if size != "n_hint"}
        if isinstance(noise, DiscreteGaussian):
            noise, parts["feature_loss"] = gaussian(request, quantizer)
    made = Mechanism.of(
        request, NAME, quantizer, noise, parameters={"inner": name, **sizes, "cells": kernel.cells}, **parts
    )
    # The edges are those of the numbers; codes have none.
    conditions = [] if kernel.numbers is None else [quantizer.inner.box.condition()]
    return replace(made, guarantee=request.guarantee(*conditions, kernel.condition()))


def gaussian(request: Request, quantizer: Cells) -> tuple[DiscreteGaussian, Loss]:
    """Calibrate Gaussian noise for f records, which may touch as many cells."""
    factor, bound = request.factor, quantizer.bound
    touched = min(factor * (bound.touched or quantizer.inner.size), quantizer.size)
    return gaussian_noise(factor**2 * bound.l2_squared, touched, float(request.feature_epsilon), request.delta)


METHOD = Method(
    NAME, "a set of sums for every combination of categories", OPTIONS, refuse, predict, build, categories=True
)
