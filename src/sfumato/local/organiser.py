"""What an organiser does before a collection: the request out of what was typed, the plan, the document."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sfumato.errors import InputError
from sfumato.kernels import Kernel, get_kernel, kernel_from_document
from sfumato.local.registry import device_for
from sfumato.local.server import Design
from sfumato.methods.ranking import Ranking, Row, compare
from sfumato.methods.registry import LOCAL
from sfumato.methods.request import Request
from sfumato.privacy.guarantee import fraction_from_text
from sfumato.privacy.rational import exact_epsilon
from sfumato.public.document import LARGEST_DIMENSION, Domain, exact, make_document, plain, sealed
from sfumato.quantizers.box import Box

LARGEST_PARTICIPANTS = 10**10
SIZES = ("rows", "rows_each", "groups", "buckets", "blocks", "vectors")  # parameters that a plan shows


class LocalPlan(Ranking):
    """All mechanisms for a collection, the best first; made by `Protocol.plan`."""

    def columns(self) -> tuple[str, ...]:
        """Headings of the figures."""
        return ("error", "bytes", "integers", "epsilon holds for")

    def cells(self, row: Row) -> tuple[str, ...]:
        """Figures of a row that applies, or of the constant answer."""
        made = row.predicted
        promise = made.holds_for if made.report_bytes else "nobody is asked"
        return f"{made.rmse:.2e}", str(made.report_bytes), str(made.integers), promise

    def sizes(self, row: Row) -> str:
        """Name the sizes of a row's method."""
        return ", ".join(f"{name} {value}" for name, value in row.sizes.items() if name in SIZES)

    def notes(self) -> list[str]:
        """Say what the figures assume, in sentences."""
        advice = f"auto takes {self.method}" if self.useful else "nothing is predicted to beat a constant"
        return [*super().notes(), f"assumed mean density: {self.request.density:g}; {advice}"]


def make_plan(request: Request) -> LocalPlan:
    """Compare all mechanisms."""
    return LocalPlan(request, compare(LOCAL.values(), request))


def choose(request: Request, mechanism: str) -> tuple[str, Design]:
    """Return a mechanism's name and design; "auto" takes the best."""
    name = LOCAL.choose(request) if mechanism == "auto" else mechanism
    return name, LOCAL.build(name, request)


def document_for(request: Request, mechanism: str, nonce: str | None, expires: Any) -> dict[str, Any]:
    """Put together a protocol for a request; what it promises is what a device makes of its parameters."""
    name, design = choose(request, mechanism)
    parameters: Mapping[str, Any] = {"name": name, **design.parameters}
    draft = make_document(
        model="local",
        kernel=request.kernel.to_document(),
        domain=design.domain,
        epsilon=str(request.epsilon),
        delta=0.0,
        participants=request.n,
        guarantee={},
        mechanism=parameters,
        seed=nonce,
        expires=expires,
    )
    return sealed({**draft, "guarantee": exact(device_for(draft).guarantee().to_document())})


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
        epsilon=exact_epsilon(epsilon),
        n=_integer("participants", participants, LARGEST_PARTICIPANTS),
        trust="local",
        neighbours="replace",
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
        epsilon=fraction_from_text("epsilon", document["epsilon"]),
        n=document["participants"],
        trust="local",
        neighbours="replace",
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
