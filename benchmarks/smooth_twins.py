"""Broken twins of smooth kernels and projections, as (mechanism, mistake, case), for `benchmarks.twins`.

Their twins with 30 % less noise come from their audits' own cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from sfumato.audit import Case
from sfumato.audit.attacks import Outputs, run
from sfumato.audit.cases import projections
from sfumato.audit.cases.smooth import published_cases, sum_cases
from sfumato.central import exponential_sums
from sfumato.methods.mechanism import Mechanism
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.privacy.stacked_discs import StackedDiscs
from sfumato.published import as_published


def _whole_budget_for_every_term(mechanism: Mechanism, rows: NDArray[Any], runs: int, bits: SecureBits) -> Outputs:
    """Spend the whole budget on each term, as if their releases did not add up."""
    law = mechanism.noise
    if isinstance(law, DiscreteLaplace):
        terms = len(mechanism.quantizer.strata)
        return run(replace(mechanism, noise=DiscreteLaplace(law.rate * terms)), rows, runs, bits)
    assert isinstance(law, StackedDiscs)
    total = mechanism.guarantee.epsilon
    radii = [part.bound.largest for part in mechanism.quantizer.parts]  # type: ignore[attr-defined]
    parts = [replace(part, rate=total / radius) for part, radius in zip(law.parts, radii, strict=True)]
    return run(replace(mechanism, noise=StackedDiscs(tuple(parts), law.blocks)), rows, runs, bits)


def _centred_on_the_records(mechanism: Mechanism, rows: NDArray[Any], runs: int, bits: SecureBits) -> Outputs:
    """Measure records from their own mean before they are projected, as principal components do."""
    return run(mechanism, rows - rows.mean(axis=0), runs, bits)


TWINS: tuple[tuple[str, str, Callable[[], Case]], ...] = (
    (
        exponential_sums.NAME,
        "the whole budget for every term",
        lambda: replace(sum_cases()["one more"], run=_whole_budget_for_every_term).case(),
    ),
    (
        as_published.EXPONENTIAL_SUMS,
        "the whole budget for every term",
        lambda: replace(published_cases()["one more"], run=_whole_budget_for_every_term).case(),
    ),
    (
        projections.NAME,
        "a projection that depends on the records",
        lambda: replace(projections.projection_cases()["others"], run=_centred_on_the_records).case(),
    ),
)
