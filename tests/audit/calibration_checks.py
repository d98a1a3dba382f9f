"""What is asked of the calibration checks of every room: they are complete, hold, come close, and catch their twins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from sfumato.audit import CALIBRATIONS, AuditCase, AuditResult, audit
from sfumato.audit.cases.twins_calibrations import harmless, offered, twins_of
from sfumato.audit.cases.variants import SUBJECTS, VARIANTS, Built, Variant, contributed, reveal
from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits

# The least part of the claim that some request of a variant must show.
CLOSE = 0.97
SALTED = bool(os.environ.get("SFUMATO_TEST_SALT"))


def check_close(result: AuditResult, share: float) -> None:
    """Ask of an audit that its claim holds, whatever the salt, and that its bound shows a share of the claim.

    How close it comes is a fact of its own public features, data and noise: under a salt these are others.
    """
    assert result.holds, result
    assert SALTED or result.lower_bound >= share * result.claim.value, result


def check_audit(case: AuditCase, trials: int, seed: str, share: float) -> AuditResult:
    """Audit a case and ask the same; of the trials that make a bound come close, a fifth are enough under a salt."""
    result = audit(case, trials // 5 if SALTED else trials, bits=SecureBits.seeded(seed))
    check_close(result, share)
    return result


def variants_offered(method: str, refuses: Callable[[Any], str | None]) -> set[Variant]:
    """Ask a method which variants it offers for any of the requests that it is checked on."""
    found = set()
    for subject in SUBJECTS[method]:
        for variant in VARIANTS:
            try:
                request = subject.request(variant)
            except InputError:
                continue
            if refuses(request) is None:
                found.add(variant)
    return found


def check_complete(method: str, refuses: Callable[[Any], str | None]) -> None:
    """Every variant that a method does not refuse has a case, and every request gives one."""
    cases = {case.name.split(";")[0] for case in CALIBRATIONS[method]()}
    assert cases == {str(variant) for variant in variants_offered(method, refuses)}
    assert all(list(subject.offered()) for subject in SUBJECTS[method]), "a request that is refused checks nothing"


def check_options(method: str, options: Iterable[str]) -> None:
    """Every option of a method is used in a request on which it is checked."""
    used = {name for subject in SUBJECTS[method] for name in subject.options}
    assert set(options) <= used, f"{method}: check a request with {sorted(set(options) - used)}"


def check_calibrations(method: str, close: dict[str, float]) -> None:
    """Every request holds, some request of every variant comes close, and the ledger is told as much as is revealed."""
    for variant, builds in offered(method).items():
        shares = []
        for built in builds:
            result = audit(built.case())
            assert result.exact and result.holds, (method, result)
            shares.append(result.lower_bound / result.claim.value)
            check_charge(built)
        assert SALTED or max(shares) >= close.get(str(variant), CLOSE), (method, str(variant), shares)


def check_charge(built: Built) -> None:
    """What a run charges is no less than what it reveals, part by part."""
    found, _ = reveal(built.mechanism, contributed(built.request))
    epsilon, loss = built.mechanism.cost(count_is_bought=False)
    assert epsilon == built.request.epsilon
    if found.mu_squared:
        assert loss.mu_squared >= found.mu_squared and loss.distance >= found.distance
        assert sum(loss.pure, Fraction(0)) >= found.pure
    else:
        assert sum(loss.pure, Fraction(0)) == epsilon and loss.failure == built.mechanism.guarantee.delta


def check_twins(method: str) -> None:
    """Every mistake is caught in every variant in which it is one, and none that is listed as harmless."""
    mistakes = 0
    for twin in twins_of(method):
        caught = any(not audit(case).holds for case in twin.cases)
        assert caught != harmless(method, twin.variant, twin.mistake), (method, str(twin.variant), twin.mistake)
        mistakes += caught
    assert mistakes >= len(offered(method))
