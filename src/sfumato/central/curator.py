"""The curator's run: check the budget, sum exactly, charge the ledger, then draw the noise.

Order matters. Nothing is charged for a run that fails or is interrupted while it sums. The charge is on disk before
the first noise is drawn, so no release can exist that the ledger does not show. The count is bought first.

A count that is bought apart is the test of a run: a file that was read with the wrong separator, labels that match no
class or rows that are all dropped leave few records, and everything else would be paid for in vain. So the count is
charged and drawn first, and the run stops there if it is far below what is expected.

Stopping costs no more than the count. Proof. The noisy count is e_c-private, and e_c is charged before it is drawn.
Whether the run goes on is a function of that count and of public numbers (n_hint, the law of the noise): it is
post-processing. A run that stops publishes a function of the noisy count alone, which is e_c-private. One that goes on
is the composition of the count with a mechanism that is (epsilon - e_c, delta)-private for every value of the count, so
it is (epsilon, delta)-private, as it was when both were charged together. The ledger shows what was drawn in either
case, and nothing else of the run (its file, its exit code) depends on the records.

Two charges cost what one for all of it would, by every rule of accounting. Each carries the loss of its own part: the
count's is pure e_c, the rest's is what `Mechanism.cost` says without the count. Losses add up part by part
(`privacy.loss`), so that the two have the very sum that one charge had. A charge for the whole would have to be taken
back when a run stops, and nothing is ever taken back from a ledger. A run that stops early is one that every rule
allows.

Mechanisms that read the count off their sums have no such test: when the count is known, all is paid for. A release of
theirs with a count far below what was expected is warned of, which is again a function of what was published.

`reference` buys moments after the count, and its landmarks are a function of both: what was charged before is not
charged again (`Mechanism.bought`), and the whole is checked against the account before anything is.

Who pays: the account that a ledger has for the data. scikit-learn makes easy what privacy makes dear, cross-validation
and scores of private points. Every fit spends epsilon, and a clone does not know of the others: without a ledger
nothing adds them up. A score of points that nobody released is a fact about them that no guarantee covers. Both are
warned of.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from sfumato.central.reference import MOMENTS, Purchase
from sfumato.engines import Engine, Progress, Threads
from sfumato.errors import InputError, OddDataWarning, TooFewError, UnpaidWarning
from sfumato.methods.method import Mechanism
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.guarantee import amount_text
from sfumato.privacy.ledger import Account, Ledger
from sfumato.privacy.noise import DiscreteLaplace, wrapped
from sfumato.quantizers.base import Integers
from sfumato.release import Count, Release
from sfumato.sources import Source
from sfumato.sources.opening import paths_of

Payer = Account | Ledger | str | os.PathLike[str] | None
# One account for all data that no file names: who shares it may be charged too much, and never too little.
IN_MEMORY = "data in memory"
INSTEAD = "sfumato.bandwidth.search compares candidates under one guarantee (docs/bandwidth.md)"


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
        count = noisy_count(kept, law, self.bits)
        check_expected(count.value, count.variance, None, law.epsilon, self.bits)
        return count

    def run(self, mechanism: Mechanism, count: Count | None = None, expected: int | None = None) -> Release:
        """Sum under the mechanism and release.

        Parameters
        ----------
        mechanism : Mechanism
            What is summed, and how it is published.
        count : Count, optional
            The count, where it has been bought already.
        expected : int, optional
            Public guess of the number of records: the run stops after the count if there are far fewer.
        """
        mechanism.check_count(count is not None)
        guarantee, account = mechanism.guarantee, self.account
        terms: dict[str, Any] = {"neighbours": guarantee.neighbours, "unit": guarantee.unit}
        if account is not None:
            epsilon, loss = mechanism.cost(count_is_bought=count is not None)
            account.check(epsilon, guarantee.delta, loss=loss, **terms)
        sums, kept, seen = self.engine.sum(self.source, mechanism.encoder, self.bits, self.progress)
        law = mechanism.count_law
        if count is None and law is not None:
            if account is not None:
                account.charge("count", law.epsilon, **terms)
            count = noisy_count(kept, law, self.bits)
            check_expected(count.value, count.variance, expected, law.epsilon, self.bits)
        if account is not None:
            epsilon, loss = mechanism.cost(count_is_bought=law is not None)
            account.charge(mechanism.method, epsilon, guarantee.delta, loss=loss, **terms)
        release = publish(mechanism, sums, kept, seen, self.bits, count)
        if mechanism.count_reader is not None and is_far_below(release.count.value, release.count.variance, expected):
            found = f"the release counts about {release.count.value:.0f} records, far below n_hint={expected}"
            warnings.warn(f"{found}, and all of it is paid for. {ADVICE}", OddDataWarning, 3)
        return release

    def run_bought(self, purchase: Purchase, expected: int | None = None) -> Release:
        """Buy the count and the moments of `reference`, and run the mechanism that they describe.

        The whole must fit in the account before anything is bought; `expected` is that of `run`.
        """
        request, account = purchase.request, self.account
        if not self.source.repeatable:
            raise InputError(
                "reference reads the data twice, and this source can be read once; pass a file or an array, or another "
                "method"
            )
        purchase.outline()  # what could not be built is refused while nothing is charged
        terms: dict[str, Any] = {"neighbours": request.neighbours, "unit": request.unit}
        if account is not None:
            account.check(request.epsilon, request.delta, **terms)
        sums, kept, seen = self.engine.sum(self.source, purchase.encoder, self.bits, self.progress)
        law, count = purchase.rest.count_law, None
        if law is not None:
            if account is not None:
                account.charge("count", law.epsilon, **terms)
            count = noisy_count(kept, law, self.bits)
            check_expected(count.value, count.variance, expected, law.epsilon, self.bits)
        if account is not None:
            account.charge(MOMENTS, purchase.epsilon, **terms)
        values = sums + purchase.noise.sample(self.bits, purchase.moments.size)
        return self.run(purchase.mechanism(values, seen if count is None else count.value), count, expected)


ADVICE = (
    "Rows are dropped for a wrong separator or decimal mark, missing values, labels that are no class, or values "
    "beyond the bounds with outside='drop': 'sfumato check', or look=True, shows it to the curator"
)


def is_far_below(noisy: float, variance: float, expected: int | None) -> bool:
    """Tell whether a noisy count is less than half of what was expected, and by more than its noise.

    Noise takes a count eight standard deviations down in one run of 160,000: no run that is as expected stops for it.
    Where nothing was expected, it is one that is not three standard deviations from 0, of which no mean can be read.
    """
    deviation = math.sqrt(variance)
    return noisy < (3 * deviation if expected is None else min(expected / 2, expected - 8 * deviation))


def check_expected(noisy: float, variance: float, expected: int | None, epsilon: Fraction, bits: SecureBits) -> None:
    """Stop a run whose paid count is far below what was expected: nothing more is charged.

    Nothing is expected where the count was bought to plan with. Seeded noise spends nothing, so that such a run is
    warned and goes on.
    """
    if not is_far_below(noisy, variance, expected):
        return
    wanted = "which noise alone could make" if expected is None else f"far below n_hint={expected}"
    found = f"about {noisy:.0f} records were kept (+- {math.sqrt(variance):.0f}), {wanted}"
    if not bits.private:
        warnings.warn(f"{found}: with noise that is not seeded the run would stop here. {ADVICE}", OddDataWarning, 3)
        return
    raise TooFewError(
        f"stopped after the count: {found}. Only the count was charged (epsilon = {amount_text(epsilon)}) and nothing "
        f"was released. {ADVICE}. If the count is right, pass n_hint= near it"
    )


def publish(
    mechanism: Mechanism, sums: Integers, kept: int, seen: int, bits: SecureBits, count: Count | None = None
) -> Release:
    """Draw the noise on exact sums of `kept` of the `seen` rows; whoever calls this has charged for it."""
    if mechanism.count_law is None:
        # Only a relation with a public n may see it; a mechanism that reads the count off its sums needs none here.
        public = mechanism.guarantee.neighbours == "replace"
        count = Count(max(seen, 1) if public else 1, 0.0, public=public)
    elif count is None:
        count = noisy_count(kept, mechanism.count_law, bits)
    values = mechanism.publish(sums, count, bits)
    if mechanism.count_reader is not None:
        count = mechanism.count_reader(values)
    return mechanism.release(values, count)


def noisy_count(kept: int, law: DiscreteLaplace, bits: SecureBits) -> Count:
    """Draw the noise of a count that has been charged."""
    noisy = wrapped(kept + int(law.sample(bits, 1)[0]))
    return Count(max(noisy, 1), law.variance, public=False)


def account_of(payer: Payer, data: Any) -> Account | None:
    """Account that a release of `data` is charged to.

    Parameters
    ----------
    payer : Account, Ledger, path or None
        An account is taken as it is. A ledger, or its path, has one for each file, as on the command line, and one for
        all data in memory, which is told apart by nothing: name it with ``Ledger(path).account(name)``.
    data : any
        What is released; only the paths of files are looked at, be it in a list or in a source that was opened.

    Examples
    --------
    >>> account_of(Ledger(), [[1.0]]).dataset, account_of(Ledger(), "/data/trips.csv").dataset
    ('data in memory', '/data/trips.csv')
    """
    if payer is None or isinstance(payer, Account):
        return payer
    if isinstance(payer, str | os.PathLike):
        payer = Ledger(os.fspath(payer))
    if not isinstance(payer, Ledger):
        raise InputError(f"ledger must be an account, a ledger or its path; got {type(payer).__name__}")
    paths = paths_of(data)
    if not paths:
        return payer.account(IN_MEMORY)
    accounts = {account.dataset: account for account in map(payer.account_of, paths)}
    if len(accounts) > 1:
        raise InputError(
            f"the files are of several accounts, such as {', '.join(map(repr, sorted(accounts)[:2]))}: say which one "
            "is charged (ledger=Ledger(path).account(NAME) in Python), or pass the folder that holds them"
        )
    return next(iter(accounts.values()))


def warn_of_validation() -> None:
    """Warn if scikit-learn's model selection called this fit."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("sklearn.model_selection"):
            warnings.warn(
                "cross-validation fits once for every candidate and fold, and each fit spends epsilon: the total is "
                "epsilon times the number of fits, not the epsilon that a model states, and the fold scores are "
                f"computed from private points. Pass ledger=, which adds up; {INSTEAD}",
                UnpaidWarning,
                stacklevel=3,
            )
            return
        frame = frame.f_back  # type: ignore[assignment]


def warn_of_score() -> None:
    """Warn that a score tells about the points that it is computed from."""
    warnings.warn(
        "a score is computed from the points that are passed: of private points it is a leak that no epsilon pays for, "
        f"and choosing by it spends more than is stated. Pass public points only; {INSTEAD}",
        UnpaidWarning,
        stacklevel=3,
    )
