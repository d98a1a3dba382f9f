"""The curator's run: check the budget, sum exactly, charge the ledger, then draw the noise.

Order matters. Nothing is charged for a run that fails or is interrupted while it sums. The charge is on disk before
the first noise is drawn, so no release can exist that the ledger does not show. The count is bought first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sfumato.engines import Engine, Progress, Threads
from sfumato.errors import InputError
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.ledger import Account
from sfumato.privacy.noise import DiscreteLaplace, wrapped
from sfumato.quantizers.base import Integers
from sfumato.release import Count, Release
from sfumato.sources import Source


@dataclass(frozen=True)
class Curator:
    """Runs mechanisms on one source of points.

    Attributes
    ----------
    source : Source
        The points.
    account : Account or None
        Where spending is recorded and limited.
    bits : SecureBits
        Source of noise and coins.
    engine : Engine
        Where the sums run.
    progress : callable or None
        Told about rows done, for the curator's eyes only.
    """

    source: Source
    account: Account | None
    bits: SecureBits
    engine: Engine = field(default_factory=Threads)
    progress: Progress | None = None

    def buy_count(self, request: Request, mechanism: Mechanism | None = None) -> Count:
        """Spend the count's share of the budget on a noisy number of rows, before the sizes are planned.

        `mechanism`, built with a placeholder for n, tells whether what follows will fit in the account.
        """
        law = request.count_law
        if law is None:
            raise InputError("n is public under neighbours='replace': there is no count to buy")
        if not self.source.repeatable:
            raise InputError("a paid count reads the data twice, and this source can be read once; pass n_hint instead")
        box = mechanism.encoder.box if mechanism is not None and request.outside == "drop" else None
        if self.account is not None:
            # Another n may choose a method that spends the delta which this one leaves: the whole must fit.
            settled = mechanism is not None and mechanism.guarantee.delta == request.delta
            loss = mechanism.cost(count_is_bought=False)[1] if mechanism is not None and settled else None
            self.account.check(
                request.epsilon, request.delta, neighbours=request.neighbours, unit=request.unit, loss=loss
            )
        kept = self.engine.count(self.source, box)
        if self.account is not None:
            self.account.charge("count", law.epsilon, neighbours=request.neighbours, unit=request.unit)
        return _noisy_count(kept, law, self.bits)

    def run(self, mechanism: Mechanism, count: Count | None = None) -> Release:
        """Sum under the mechanism and release; `count` is passed when it has been bought already."""
        mechanism.check_count(count is not None)
        guarantee, account = mechanism.guarantee, self.account
        terms: dict[str, Any] = {}
        if account is not None:
            epsilon, loss = mechanism.cost(count_is_bought=count is not None)
            terms = {"neighbours": guarantee.neighbours, "unit": guarantee.unit, "loss": loss}
            account.check(epsilon, guarantee.delta, **terms)
        sums, kept, seen = self.engine.sum(self.source, mechanism.encoder, self.bits, self.progress)
        if account is not None:
            account.charge(mechanism.method, epsilon, guarantee.delta, **terms)
        return publish(mechanism, sums, kept, seen, self.bits, count)


def publish(
    mechanism: Mechanism, sums: Integers, kept: int, seen: int, bits: SecureBits, count: Count | None = None
) -> Release:
    """Draw the noise on exact sums of `kept` of the `seen` rows; whoever calls this has charged for it."""
    if mechanism.count_law is None:
        # Only a relation with a public n may see it; a mechanism that reads the count off its sums needs none here.
        public = mechanism.guarantee.neighbours == "replace"
        count = Count(max(seen, 1) if public else 1, 0.0, public=public)
    elif count is None:
        count = _noisy_count(kept, mechanism.count_law, bits)
    values = mechanism.publish(sums, count, bits)
    if mechanism.count_reader is not None:
        count = mechanism.count_reader(values)
    return mechanism.release(values, count)


def _noisy_count(kept: int, law: DiscreteLaplace, bits: SecureBits) -> Count:
    noisy = wrapped(kept + int(law.sample(bits, 1)[0]))
    return Count(max(noisy, 1), law.variance, public=False)
