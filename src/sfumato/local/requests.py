"""Requests from what a user typed, or from a protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sfumato.errors import InputError
from sfumato.kernels import Kernel, get_kernel, kernel_from_document
from sfumato.local.server import Request
from sfumato.privacy.rational import exact_epsilon
from sfumato.public.codec import Ratio
from sfumato.public.document import LARGEST_DIMENSION, Domain, plain
from sfumato.quantizers.box import Box

LARGEST_PARTICIPANTS = 10**10


def make_request(
    kernel: str | Kernel,
    bandwidth: Any,
    dimension: int,
    epsilon: float | str | Fraction,
    participants: int,
    radius: float | None,
    eta: float | None,
    bounds: Any,
    options: Mapping[str, Any] | None,
) -> Request:
    """Check a user's arguments; see `Protocol`."""
    columns = _integer("dimension", dimension, LARGEST_DIMENSION)
    box = None if bounds is None else Box.from_bounds(bounds, columns)
    if box is not None:
        Domain(box.lower, box.upper).check_limits()
    return Request(
        kernel=_checked_kernel(get_kernel(kernel, bandwidth), columns),
        dimension=columns,
        participants=_integer("participants", participants, LARGEST_PARTICIPANTS),
        epsilon=exact_epsilon(epsilon),
        radius=None if radius is None else _positive("radius", radius, math.inf),
        eta=None if eta is None else _positive("eta", eta, 1.0),
        bounds=box,
        options=dict(options or {}),
    )


def request_from_document(document: Mapping[str, Any]) -> Request:
    """Return what a protocol was made for, as far as it says."""
    domain = Domain.from_document(document["domain"])
    return Request(
        kernel=kernel_from_document(plain(document["kernel"])),
        dimension=domain.dimension,
        participants=document["participants"],
        epsilon=Ratio().read(document["epsilon"], "epsilon"),
        bounds=Box(domain.lower, domain.upper) if domain.declared else None,
    )


def _checked_kernel(kernel: Kernel, dimension: int) -> Kernel:
    if not kernel.portable:
        raise InputError(f"{kernel!r} cannot be written into a protocol; devices need a kernel of the library")
    scale = getattr(kernel, "scale", None)
    if scale is not None:
        scale.check(dimension)
    return kernel


def _integer(name: str, value: object, largest: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or not 1 <= value.__index__() <= largest:
        raise InputError(f"{name} must be an integer from 1 to {largest}, got {value!r}")
    return int(value.__index__())


def _positive(name: str, value: object, limit: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < limit:
        raise InputError(f"{name} must be a finite number above 0{f' and below {limit:g}' if limit < 2 else ''}")
    return float(value)
