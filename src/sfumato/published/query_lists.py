"""What the mechanisms for a given list of queries share: reading the list, and where its records may live."""

from __future__ import annotations

import numpy as np

from sfumato.errors import InputError
from sfumato.methods.request import Request
from sfumato.public.ranges import LARGEST_LENGTH
from sfumato.published.common import public_box
from sfumato.published.queries import around
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import Box
from sfumato.quantizers.portable_kernels import refuse_kernel

OPTIONS = ("queries",)
SCALE = 2**15 - 1
MOST_QUERIES = 2**16


def refuse_list(request: Request) -> str | None:
    """Why a mechanism for a list of queries does not apply."""
    reason = refuse_kernel(request.kernel)
    if reason is None and "queries" not in request.options:
        reason = "it answers a given list of queries: pass options={'queries': array}, one row a query"
    return reason


def listed(request: Request) -> Floats:
    """Read the list."""
    request.check_options(*OPTIONS)
    try:
        queries = np.array(request.options["queries"], dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("option queries must be numbers, one row a query") from None
    if queries.ndim != 2 or queries.shape[1] != request.dimension or not len(queries):
        raise InputError(f"option queries must have shape (m, {request.dimension}), got {queries.shape}")
    if not (np.abs(queries) <= LARGEST_LENGTH).all():
        raise InputError(f"option queries must hold finite numbers within {LARGEST_LENGTH:g} of 0; use other units")
    if len(queries) > MOST_QUERIES:
        raise InputError(f"{len(queries)} queries are too many for a list; {MOST_QUERIES} fit")
    return queries


def records_box(request: Request, queries: Floats) -> Box:
    """Return the request's box, or one so wide that records outside it are far from every query."""
    if request.bounds is not None:
        return public_box(request)
    return around(queries, request.kernel.column_scales(request.dimension), request.outside)  # type: ignore[attr-defined]
