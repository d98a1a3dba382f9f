"""Broken twins of the sketches, as (mechanism, mistake, case), for `benchmarks.twins`.

Their twins with 30 % less noise come from their audits' own cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from sfumato.audit import Case
from sfumato.audit.attacks import Outputs, encoded_sums, noisy_counts, run
from sfumato.audit.cases.published import every_record
from sfumato.audit.cases.sketches import published_cases, race_cases, small_sketch
from sfumato.central import race
from sfumato.methods.mechanism import Mechanism
from sfumato.privacy.bits import SecureBits
from sfumato.published import as_published

RECORDS = 100


def _with_rate(mechanism: Mechanism, factor: Fraction) -> Mechanism:
    law: Any = mechanism.noise
    return replace(mechanism, noise=replace(law, rate=law.rate * factor))


def _added_not_replaced() -> Case:
    """Use the noise for one record more where one is replaced, which moves two counters of a row."""
    return every_record(_with_rate(small_sketch(race.NAME, 1, "replace", rows=2, width=2), Fraction(2)))


def _one_row_only() -> Case:
    """Pay for one row of two."""
    return every_record(_with_rate(small_sketch(race.NAME, 1, rows=2, width=2), Fraction(2)))


def _noise_on_used_counters(mechanism: Mechanism, rows: NDArray[Any], runs: int, bits: SecureBits) -> Outputs:
    sums = encoded_sums(mechanism.quantizer, rows, runs, bits)
    noise = mechanism.noise.sample(bits, sums.size).reshape(sums.shape)
    return Outputs(sums + noise * (sums != 0), noisy_counts(mechanism, rows, runs, bits))


def _noise_over_records(mechanism: Mechanism, rows: NDArray[Any], runs: int, bits: SecureBits) -> Outputs:
    """Divide the noise by the number of records, as circulating code does."""
    return run(_with_rate(mechanism, Fraction(RECORDS)), rows, runs, bits)


TWINS: tuple[tuple[str, str, Callable[[], Case]], ...] = (
    (race.NAME, "replacing counted as adding", _added_not_replaced),
    (race.NAME, "one row paid for", _one_row_only),
    (
        race.NAME,
        "no noise on empty counters",
        lambda: replace(race_cases()["one more"], run=_noise_on_used_counters).case(),
    ),
    (
        as_published.RACE,
        "noise divided by the number of records",
        lambda: replace(published_cases()["one more"], run=_noise_over_records).case(),
    ),
)
