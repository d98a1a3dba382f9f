"""From a tally to a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import InputError
from sfumato.local.server import Server
from sfumato.local.tally import Tally
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.laws import ReportNoise
from sfumato.public.document import plain
from sfumato.release import Count, Release

if TYPE_CHECKING:
    from sfumato.local.protocol import Protocol


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
    """Wrap what was counted.

    Parameters
    ----------
    protocol, server, tally
        What was collected, and how.
    reports : int
        Accepted reports, which is the public n.
    private : bool
        False where the coins came from a seed.
    conditions : tuple of str
        What else the guarantee is subject to.
    parameters : mapping, optional
        More public parameters.
    """
    if reports < 1:
        raise InputError("no report was accepted, so there is nothing to release")
    promised = Guarantee.from_document(plain(protocol.document["guarantee"]))
    guarantee = replace(promised, private=private and promised.private, conditions=(*promised.conditions, *conditions))
    return Release(
        method=protocol.mechanism,
        guarantee=guarantee,
        kernel=server.kernel,
        kernel_document=server.kernel.to_document(),
        quantizer=server.quantizer(tally),
        values=server.published(tally),
        noise=ReportNoise(server.noise_variance(reports)),
        count=Count(reports, 0.0, public=True),
        parameters={
            "protocol": protocol.fingerprint,
            "influence_of_one_report": server.influence() / reports,
            **(parameters or {}),
        },
    )
