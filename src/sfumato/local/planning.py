"""Which mechanism for a collection: all of them with their predicted error, from what is public alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.errors import InputError
from sfumato.local.registry import device_for, mechanisms, server_class
from sfumato.local.server import Design, Request
from sfumato.public.document import exact, make_document, sealed

CONSTANT = "constant"
# Standard deviation of the density over queries like the points, in units of its mean: what a constant answer misses.
CONSTANT_SPREAD = 0.6


@dataclass(frozen=True)
class PlanRow:
    """One mechanism of a plan.

    Attributes
    ----------
    mechanism : str
        Its name, or "constant" for an answer that asks nobody.
    error : float or None
        Predicted root mean square error of an answer; None where the mechanism does not apply.
    design : Design or None
        The parameters.
    reason : str or None
        Why it does not apply.
    automatic : bool
        Whether "auto" may choose it.
    """

    mechanism: str
    error: float | None
    design: Design | None = None
    reason: str | None = None
    automatic: bool = True

    def cells(self) -> tuple[str, ...]:
        """Return the row as text: name, error, bytes a report, integers kept, kind of guarantee."""
        if self.error is None:
            return (self.mechanism, "-", "-", "-", self.reason or "")
        if self.design is None:
            return (self.mechanism, f"{self.error:.2e}", "0", "0", "nobody is asked")
        design = self.design
        promise = "every two points" if design.pure else "within the radius"
        return (self.mechanism, f"{self.error:.2e}", str(design.report_bytes), str(design.size), promise)


@dataclass(frozen=True)
class LocalPlan:
    """All mechanisms, the best first; made by `Protocol.plan`."""

    request: Request
    rows: tuple[PlanRow, ...]

    @property
    def chosen(self) -> PlanRow:
        """The mechanism with the least predicted error among those that "auto" may choose."""
        for row in self.rows:
            if row.design is not None and row.automatic:
                return row
        reasons = "; ".join(f"{row.mechanism}: {row.reason}" for row in self.rows if row.reason and row.automatic)
        raise InputError(f"no local mechanism fits: {reasons}")

    @property
    def useful(self) -> bool:
        """Whether the chosen mechanism is predicted to beat a constant answer."""
        constant = next(row.error for row in self.rows if row.mechanism == CONSTANT)
        assert self.chosen.error is not None and constant is not None
        return self.chosen.error < constant

    def row(self, mechanism: str) -> PlanRow:
        """Return the row of one mechanism."""
        for row in self.rows:
            if row.mechanism == mechanism:
                return row
        raise InputError(f"unknown local mechanism {mechanism!r}; known: {', '.join(mechanisms())}")

    def to_document(self) -> list[dict[str, Any]]:
        """Return the rows as JSON values."""
        return [
            {
                "mechanism": row.mechanism,
                "error": row.error,
                "report_bytes": None if row.design is None else row.design.report_bytes,
                "size": None if row.design is None else row.design.size,
                "pure": None if row.design is None else row.design.pure,
                "reason": row.reason,
            }
            for row in self.rows
        ]

    def __str__(self) -> str:
        heading = ("mechanism", "error", "bytes", "integers", "epsilon holds for")
        table = [heading, *(row.cells() for row in self.rows)]
        widths = [max(len(cells[i]) for cells in table) for i in range(4)]
        lines = ["  ".join([*(cells[i].ljust(widths[i]) for i in range(4)), cells[4]]).rstrip() for cells in table]
        advice = f"auto takes {self.chosen.mechanism}" if self.useful else "nothing is predicted to beat a constant"
        return "\n".join([*lines, f"assumed mean density: {self.request.density:g}; {advice}"])


def make_plan(request: Request) -> LocalPlan:
    """Compare all mechanisms and the constant answer."""
    check_options(request)
    rows = [_row(name, request) for name in mechanisms()]
    rows.append(PlanRow(CONSTANT, CONSTANT_SPREAD * request.density, automatic=False))
    return LocalPlan(request, tuple(sorted(rows, key=lambda row: math.inf if row.error is None else row.error)))


def _row(name: str, request: Request) -> PlanRow:
    server = server_class(name)
    reason = server.refuse(request)
    if reason is None:
        try:
            design = server.design(request)
        except InputError as problem:
            reason = str(problem)
        else:
            return PlanRow(name, math.sqrt(design.variance), design, automatic=server.automatic)
    return PlanRow(name, None, reason=reason, automatic=server.automatic)


def check_options(request: Request) -> None:
    """Refuse options that no mechanism knows."""
    known = {"density", *(option for name in mechanisms() for option in server_class(name).options)}
    if unknown := sorted(set(request.options) - known):
        raise InputError(f"unknown options {', '.join(unknown)}; known: {', '.join(sorted(known))}")


def choose(request: Request, mechanism: str) -> tuple[str, Design]:
    """Return a mechanism's name and design; "auto" takes the best of the plan."""
    if mechanism == "auto":
        row = make_plan(request).chosen
        assert row.design is not None
        return row.mechanism, row.design
    server = server_class(mechanism)
    check_options(request)
    if (reason := server.refuse(request)) is not None:
        raise InputError(f"the mechanism {mechanism!r} does not fit: {reason}")
    return mechanism, server.design(request)


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
        participants=request.participants,
        guarantee={},
        mechanism=parameters,
        seed=nonce,
        expires=expires,
    )
    return sealed({**draft, "guarantee": exact(device_for(draft).guarantee().to_document())})
