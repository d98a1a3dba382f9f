"""Audits of the published mechanisms come close to the claims, so that keeping them means something."""

from __future__ import annotations

import pytest

from sfumato.audit import ATTACKS, ExactCase, audit, load_library
from tests.audit.calibration_checks import check_close
from tests.published.requests import ALL

load_library()

# How much of the claim the exact cases must show.
CLOSE = {
    "lsq-fgt": (1.0, 1.0),
    "histogram": (1.0, 1.0),
    "bernstein": (0.99, 0.99),
    "even-trig": (1.0, 0.75),
    "laplace-queries": (0.99, 0.99),
    "gaussian-queries": (0.8,),
    "hrw": (),
    "pmw": (0.75,),
    "smalldb": (0.99,),
    "noisy-sample": (0.8, 0.25),
}


@pytest.mark.parametrize("name", ALL)
def test_exact_losses_are_close_to_the_claims(name: str) -> None:
    results = [audit(case) for case in ATTACKS[name]() if isinstance(case, ExactCase)]
    assert len(results) == len(CLOSE[name])
    for result, share in zip(results, CLOSE[name], strict=True):
        check_close(result, share * (1 - 1e-9))
