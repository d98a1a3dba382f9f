"""What an organiser does: request, plan and document before a collection, the release after it, or a simulation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import Kernel, get_kernel, kernel_from_document
from sfumato.local.device import Device, device_for
from sfumato.local.pool import directions
from sfumato.local.server import Design, Records, Server, Tally
from sfumato.methods.ranking import Ranking, Row, compare
from sfumato.methods.registry import LOCAL
from sfumato.methods.request import Request
from sfumato.privacy.bits import noise_bits
from sfumato.privacy.guarantee import Guarantee, exact_epsilon
from sfumato.privacy.laws import ReportNoise
from sfumato.public.arguments import checked_options, says
from sfumato.public.codec import Ratio
from sfumato.public.document import Domain, exact, make_document, plain, sealed
from sfumato.public.ranges import LARGEST_NUMBER, MOST_COLUMNS, check_whole
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import Box
from sfumato.release import Count, Release
from sfumato.sources import Source, open_source

if TYPE_CHECKING:
    from sfumato.local.protocol import Protocol
    from sfumato.release import Release

LARGEST_PARTICIPANTS = 10**10
SIZES = ("rows", "rows_each", "groups", "buckets", "blocks", "vectors")  # parameters that a plan shows
BLOCK_PEOPLE = 1 << 16
CONDITION = "simulated: one party held all points and is trusted with them"


class LocalPlan(Ranking):
    """All mechanisms for a collection, the best first; made by `Protocol.plan`."""

    def columns(self) -> tuple[str, ...]:
        """Headings of the figures."""
        return (f"error at P = {self.request.density:.3g}", "bytes", "integers", "epsilon holds for")

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
        advice = f"auto takes {self.method}{'' if self.useful else '; nothing is predicted to beat a constant'}"
        return [*super().notes(), f"assumed mean density: {self.request.density:g}; {advice}"]


def make_plan(request: Request) -> LocalPlan:
    """Compare all mechanisms."""
    return LocalPlan(request, compare(LOCAL.values(), request))


def choose(request: Request, mechanism: str) -> tuple[str, Design]:
    """Return a mechanism's name and design; "auto" takes the best."""
    name = LOCAL.choose(request) if says(mechanism, "auto") else mechanism
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
    columns = check_whole("dimension", dimension, MOST_COLUMNS)
    box = None if bounds is None else Box.from_bounds(bounds, columns)
    if box is not None:
        Domain(box.lower, box.upper).check_limits()
    return Request(
        kernel=_checked_kernel(get_kernel(kernel, bandwidth), columns),
        dimension=columns,
        epsilon=exact_epsilon(epsilon),
        n=check_whole("participants", participants, LARGEST_PARTICIPANTS),
        trust="local",
        neighbours="replace",
        radius=None if radius is None else _positive("radius", radius, math.inf),
        eta=None if eta is None else _positive("eta", eta, 1.0),
        bounds=box,
        options=checked_options(options),
    )


def request_from_document(document: Mapping[str, Any]) -> Request:
    """Return what a protocol was made for, as far as it says."""
    domain = Domain.from_document(document["domain"])
    return Request(
        kernel=kernel_from_document(plain(document["kernel"])),
        dimension=domain.dimension,
        epsilon=Ratio().read(document["epsilon"], "epsilon"),
        n=document["participants"],
        trust="local",
        neighbours="replace",
        bounds=Box.of(domain) if domain.declared else None,
    )


def _checked_kernel(kernel: Kernel, dimension: int) -> Kernel:
    if not kernel.portable:
        raise InputError(f"{kernel!r} cannot be written into a protocol; devices need a kernel of the library")
    scale = getattr(kernel, "scale", None)
    if scale is not None:
        scale.check(dimension)
    return kernel


def _positive(name: str, value: object, limit: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < limit or value > LARGEST_NUMBER:
        raise InputError(f"{name} must be a finite number above 0{f' and below {limit:g}' if limit < 2 else ''}")
    return float(value)


def make_release(
    protocol: Protocol,
    server: Server,
    tally: Tally,
    reports: int,
    *,
    private: bool = True,
    conditions: tuple[str, ...] = (),
    parameters: Mapping[str, Any] | None = None,
) -> Release:
    """Wrap what was counted; the accepted `reports` are the public n."""
    if reports < 1:
        raise InputError("no report was accepted, so there is nothing to release")
    promised = Guarantee.from_document(plain(protocol.document["guarantee"]))
    guarantee = replace(promised, private=private and promised.private, conditions=(*promised.conditions, *conditions))
    return Release(
        method=protocol.mechanism,
        guarantee=guarantee,
        kernel=server.kernel,
        reader=server.quantizer(tally),
        values=server.published(tally),
        noise=ReportNoise(server.noise_variance(reports)),
        count=Count(reports, 0.0, public=True),
        parameters={
            "protocol": protocol.fingerprint,
            "influence_of_one_report": server.influence() / reports,
            **(parameters or {}),
        },
    )


def simulate(protocol: Protocol, X: Any, random_state: int | None = None) -> Release:
    """See `Protocol.simulate`."""
    source = X if isinstance(X, Source) else open_source(X)
    if source.dimension != protocol.document["dimension"]:
        raise InputError(f"the protocol has {protocol.document['dimension']} columns, the points {source.dimension}")
    server = protocol.server()
    bits = noise_bits(random_state)
    tally, people = server.tally(), 0
    for number, block in enumerate(source.batches(BLOCK_PEOPLE)):
        server.simulate(prepared(server.device, block.astype(np.float64)), bits.child(number), tally)
        people += len(block)
    return make_release(protocol, server, tally, people, private=bits.private, conditions=(CONDITION,))


def blank(protocol: Protocol, people: int) -> Release:
    """Return what a collection from `people` gives, with nothing counted: how long it is, and what is read in it."""
    server = protocol.server()
    tally = server.tally()
    if isinstance(tally, Records):  # which keeps every report, so that it is as long as there are people
        tally.append(np.zeros((people, tally.width), dtype=np.int64))
    return make_release(protocol, server, tally, people, conditions=(CONDITION,))


def prepared(device: Device, points: Floats) -> Floats:
    """Do to many points what `Device.prepared` does to one, bit for bit."""
    return clip(device.domain, directions(points) if device.angular else points)


def clip(domain: Domain, points: Floats) -> Floats:
    """Do to many points what `Domain.clip` does to one, bit for bit."""
    lower, upper = np.array(domain.lower), np.array(domain.upper)
    clipped = np.where(np.isfinite(points), np.clip(points, lower, upper), np.array(domain.middle))
    return np.asarray(clipped, dtype=np.float64)
