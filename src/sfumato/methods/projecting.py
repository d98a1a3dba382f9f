"""The options ``project`` and ``project_to``: any method on points of fewer columns (`quantizers.projection`).

``project`` is "dense" or "fast". ``project_to`` is a number of columns, or, if it is below 1, the largest error that
the projection may add to an answer; without it the projection may add a third of the method's own error, which makes
the whole 5 % larger. The method is planned and built for the images; budgets for time and space pay for the
projection too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from sfumato.errors import InputError
from sfumato.kernels import Kernel
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import COLUMN_BYTES, PROJECTION_OPTIONS, Request
from sfumato.public.codec import brief
from sfumato.quantizers.base import Quantizer
from sfumato.quantizers.box import Box
from sfumato.quantizers.projection import DEFAULT_REACH, KINDS, ProjectedPoints, Projection
from sfumato.quantizers.projection_error import columns_for, projection_error, refuse_kernel

PART_OF_ERROR = 1 / 3
FEWEST_COLUMNS = 50  # below, nobody would think of a projection


@dataclass(frozen=True)
class Reduced:
    """A request for images, and the projection that makes them.

    Attributes
    ----------
    given : Request
        The request for points, with the options of this module.
    request : Request
        The request for images, without them.
    projection : Projection
        The public map.
    """

    given: Request
    request: Request
    projection: Projection

    def added_error(self, density: float) -> float:
        """Error that the projection adds to an answer of the size `density`."""
        return projection_error(self.given.kernel, density, self.projection.variance)

    def prediction(self, inner: Prediction, density: float) -> Prediction:
        """Add error, work and space of the projection to a prediction for images."""
        work = self.projection.work
        return replace(
            inner,
            rmse=math.hypot(inner.rmse, self.added_error(density)),
            file_size=inner.file_size + COLUMN_BYTES * self.given.dimension,
            work_per_record=inner.work_per_record + work,
            work_per_query=inner.work_per_query + work,
            parameters={**inner.parameters, "project_to": self.projection.columns},
        )

    def wrap(self, mechanism: Mechanism) -> Mechanism:
        """Put the projection before a mechanism for images."""
        inner, projection = mechanism.encoder, self.projection
        if not isinstance(inner, Quantizer) or mechanism.reader is not inner or mechanism.algorithm is not None:
            raise InputError(f"{mechanism.method} does more than add noise to sums: it takes no projection")
        return replace(
            mechanism.on(ProjectedPoints(projection, inner, self.given.kernel)),
            guarantee=replace(self.given, delta=mechanism.guarantee.delta).guarantee(projection.condition()),
            parameters={
                **mechanism.parameters,
                "project": projection.kind,
                "project_to": projection.columns,
            },
        )


def plain(request: Request) -> Request:
    """Return the request without a projection."""
    if not request.projected:
        return request  # and with what was found for it
    options = {name: value for name, value in request.options.items() if name not in PROJECTION_OPTIONS}
    return replace(request, options=options)


def refuse(method: Method, request: Request) -> str | None:
    """Why a projection does not apply."""
    if "project" not in request.options:
        return "project_to says how far to project: pass project='fast' or 'dense' too"
    if request.options["project"] not in KINDS:
        return f"project must be 'dense' or 'fast', got {brief(request.options['project'])}"
    if request.landmarks is not None:
        return "a projection leaves landmarks behind: project the points and the landmarks first, or use no landmarks"
    if "queries" in method.options:
        return "it answers a list of queries, and takes no projection"
    return refuse_kernel(request.kernel)


def reduce(method: Method, request: Request) -> Reduced:
    """Choose the projection that a request with the option ``project`` asks for.

    Raises
    ------
    InputError
        If the kernel, the method or the sizes do not suit a projection; nothing is spent.
    """
    reason = refuse(method, request)
    if reason is not None:
        raise InputError(reason)
    bare, kind = plain(request), str(request.options["project"])
    columns = _columns(method, bare, kind, request.options.get("project_to"))
    box = _box(bare)
    projection = Projection(box, kind, columns, bare.feature_seed)
    limits = replace(
        bare.limits,
        work_per_record=max(0.0, bare.limits.work_per_record - projection.work),
        work_per_query=max(0.0, bare.limits.work_per_query - projection.work),
    )
    # The projection's own box decides what is kept; its images are always clipped.
    options = {name: value for name, value in bare.options.items() if name != "outside"}
    inner = replace(bare, dimension=columns, bounds=projection.box, options=options, limits=limits)
    return Reduced(request, inner, projection)


def _box(request: Request) -> Box:
    if request.bounds is not None:
        return request.box
    reach = DEFAULT_REACH * _length(request.kernel)
    return Box.centred([reach] * request.dimension, request.outside)


def _length(kernel: Kernel) -> float:
    assert isinstance(kernel.bandwidth, float)
    return kernel.bandwidth


def _columns(method: Method, request: Request, kind: str, wanted_size: Any) -> int:
    """Read the number of columns, or find the fewest that keep the error."""
    if isinstance(wanted_size, bool) or not isinstance(wanted_size, int | float | None) or wanted_size == 0:
        raise InputError(f"project_to must be a number of columns, or an error below 1, got {brief(wanted_size)}")
    if wanted_size is not None and wanted_size >= 1:
        if wanted_size != int(wanted_size):
            raise InputError(f"project_to must be a whole number of columns, got {brief(wanted_size)}")
        return int(wanted_size)
    if wanted_size is not None and wanted_size < 0:
        raise InputError(f"project_to must be positive, got {brief(wanted_size)}")
    target = wanted_size
    if target is None:
        target = PART_OF_ERROR * method.prediction(request, request.density).rmse
    return columns_for(request.kernel, request.dimension, kind, request.density, float(target))


def advice(method: Method, request: Request) -> str | None:
    """Say whether a projection would pay for a request without one; None where it cannot apply.

    It pays where it cuts the work for a record, or for a query, to less than half.
    """
    asked = replace(request, options={**request.options, "project": "fast"})
    if request.dimension < FEWEST_COLUMNS or refuse(method, asked) is not None:
        return None
    try:
        reduced = reduce(method, asked)
        with_it = reduced.prediction(method.prediction(reduced.request, request.density), request.density)
    except InputError:
        return "A projection (option project) would not pay: keeping the error takes all columns."
    without = method.prediction(request, request.density)
    saved = max(without.work_per_record / with_it.work_per_record, without.work_per_query / with_it.work_per_query)
    figures = (
        f"to {reduced.projection.columns} columns, an error of {with_it.rmse:.3g} for {without.rmse:.3g}, and "
        f"{with_it.work_per_record:.2g} for {without.work_per_record:.2g} multiplications a record, "
        f"{with_it.work_per_query:.2g} for {without.work_per_query:.2g} a query"
    )
    pays = "pays" if saved >= 2 else "would not pay"
    return f"A projection (option project='fast') {pays}: {figures}."
