"""Checked landmarks: the measured difference is what its definition says, unbiased, of the stated variance."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.central.checking import MOST_PAIRS
from sfumato.central.landmarks import RANKS
from sfumato.errors import InputError
from sfumato.kernels import Gaussian
from sfumato.privacy.ball import BallNoise
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.body import DiscNoise
from sfumato.privacy.laws import StackedNoise, SummedNoise, law_from_document, part_variances
from sfumato.public import ranges
from sfumato.public.ranges import reader_memory
from sfumato.quantizers import (
    CheckedLandmarks,
    FourierQuantizer,
    LandmarkQuantizer,
    ShardedFourier,
    quantizer_from_document,
)
from sfumato.quantizers import checked as checked_module
from sfumato.quantizers.base import Known
from sfumato.quantizers.nystrom import MOST_LANDMARKS, estimates
from sfumato.quantizers.phases import Phases
from sfumato.quantizers.similarities import similarities

KERNEL, BOUNDS, COLUMNS, RANK = Gaussian(1.5), (-6.0, 6.0), 3, 6
RANDOM = np.random.default_rng(0)
PUBLIC = RANDOM.normal(size=(60, COLUMNS))
# A third of the records is of a kind that the public sample lacks.
RECORDS = np.concatenate([RANDOM.normal(size=(400, COLUMNS)), 0.5 * RANDOM.normal(size=(200, COLUMNS)) + 2.5])
QUERIES = np.concatenate([RECORDS[:20], RECORDS[-20:]])
EXACT = KERNEL.exact_density(RECORDS, QUERIES)
FITTED = similarities(KERNEL, PUBLIC, BOUNDS)
ESTIMATE = estimates(FITTED, [RANK])[0]
OWN = LandmarkQuantizer.fit(FITTED, ESTIMATE, scale=2**18)


def checked(seed: int, pairs: int = 200, per_group: int = 20) -> CheckedLandmarks:
    phases = Phases.draw(KERNEL, COLUMNS, pairs, seed, BOUNDS)
    grouped = ShardedFourier(phases, per_group, 2**12) if per_group < pairs else FourierQuantizer(phases, radius=2**12)
    return CheckedLandmarks(OWN, grouped)


def summed(quantizer: CheckedLandmarks, seed: str = "coins") -> np.ndarray:
    sums = np.zeros(quantizer.size, dtype=np.int64)
    assert quantizer.accumulate(RECORDS, sums, SecureBits.seeded(seed)) == len(RECORDS)
    return sums


def test_sums_are_those_of_the_parts_and_within_the_bound() -> None:
    quantizer = checked(1)
    encoded = quantizer.encode(RECORDS, SecureBits.seeded("coins"))
    assert np.array_equal(encoded[:, : OWN.size], OWN.encode(RECORDS))
    assert np.array_equal(encoded[:, OWN.size :], quantizer.pairs.encode(RECORDS, SecureBits.seeded("coins")))
    bound = quantizer.bound
    assert np.abs(encoded).sum(axis=1).max() <= bound.l1
    assert np.square(encoded).sum(axis=1).max() <= bound.l2_squared and np.abs(encoded).max() <= bound.largest


def test_the_difference_is_its_definition() -> None:
    """E less its projection, written out with all features: the answer corrected in full has the weights of `weights`.

    That holds without completion. With it, whatever it is, the answer corrected in full has the same mean over the draw
    of frequencies: 200 draws, within six standard errors at all 40 queries, of which five fail one run in 20,000.
    """
    plain = replace(OWN, completion=np.zeros(len(PUBLIC)))
    strange = replace(OWN, completion=np.linspace(-0.02, 0.05, len(PUBLIC)))
    apart = []
    for seed in range(200):
        answers = []
        for own in (plain, strange):
            quantizer = replace(checked(seed, pairs=40), landmarks=own)
            sums, known = summed(quantizer).astype(np.float64), Known(0.0, float(len(RECORDS)))
            values, features = own.features(QUERIES)
            missed, _ = quantizer._missed(QUERIES, features, quantizer.difference(sums, known))
            answers.append(
                features @ sums[: own.rank] / own.amplitude + known.count * (values @ own.completion) + missed
            )
            if own is plain:
                assert np.allclose(answers[0], quantizer.weights(QUERIES) @ sums, rtol=1e-9)
        apart.append(answers[1] - answers[0])
    errors = np.array(apart)
    assert (np.abs(errors.mean(axis=0)) < 6 * errors.std(axis=0) / math.sqrt(200) + 1e-3).all()


def test_the_corrected_answer_is_unbiased() -> None:
    """Mean over 300 draws of frequencies and coins, within six of its standard errors, where landmarks miss much."""
    answers = []
    for seed in range(300):
        quantizer = checked(seed, pairs=40)
        sums = summed(quantizer, f"coins {seed}").astype(np.float64)
        answers.append(quantizer.weights(QUERIES) @ sums / len(RECORDS))
    errors = np.array(answers) - EXACT
    assert (np.abs(errors.mean(axis=0)) < 6 * errors.std(axis=0) / math.sqrt(300)).all()
    known = Known(0.0, float(len(RECORDS)))
    alone = OWN.reading(QUERIES, OWN.encode(RECORDS).sum(axis=0).astype(np.float64), known).total / len(RECORDS) - EXACT
    assert np.abs(alone).max() > 10 * np.abs(errors.mean(axis=0)).max()  # what landmarks alone would miss


@pytest.mark.parametrize("per_group", [20, 200])
def test_the_variance_is_the_stated_one(per_group: int) -> None:
    """Mean square of the corrected answers over v and the noise of landmarks, 150 runs of noise and frequencies.

    Runs are independent: the mean of their means has a standard error of 3 % or less, of which 15 % are five.
    """
    law = StackedNoise(
        (BallNoise(OWN.size, Fraction(1, 2**19)), DiscNoise(min(per_group, 20), Fraction(1, 2**13))),
        (OWN.size, 400),
    )
    known = Known(law.variance, float(len(RECORDS)), noise_parts=part_variances(law))
    ratios = []
    for seed in range(150):
        quantizer = checked(seed, per_group=per_group)
        bits = SecureBits.seeded(f"run {seed}")
        sums = (summed(quantizer, f"coins {seed}") + law.sample(bits, quantizer.size)).astype(np.float64)
        found, features = quantizer.difference(sums, known), OWN.features(QUERIES)[1]
        missed, variance = quantizer._missed(QUERIES, features, found)
        values = OWN.features(QUERIES)[0]
        alone = features @ sums[: OWN.rank] / OWN.amplitude + known.count * (values @ OWN.completion)
        noise = law.parts[0].variance * np.square(features).sum(axis=1) / OWN.amplitude**2
        errors = alone + missed - EXACT * len(RECORDS)
        ratios.append((np.square(errors) / (variance + noise)).mean())
    assert abs(np.mean(ratios) - 1) < 0.15


def test_a_large_difference_is_corrected_and_a_small_one_is_not() -> None:
    quantizer = checked(3)
    found = replace(quantizer.difference(summed(quantizer).astype(np.float64), Known(0.0, 600.0)), expected=0.0)
    missed, variance, features = np.array([0.0, 2.0, 2.99, 3.01, 30.0]), np.ones(5), np.zeros((5, RANK))
    share = quantizer._share(missed, variance, features, found)
    assert not share[:3].any() and 0 < share[3] < 0.01 and share[4] == pytest.approx(0.99)
    assert (quantizer._share(missed, variance, features, replace(found, expected=1.0)) >= 0.5).all()


def test_the_same_query_has_the_same_answer_and_single_answers_combine_to_themselves() -> None:
    quantizer = checked(4)
    sums, known = summed(quantizer).astype(np.float64), Known(1e6, 600.0, noise_parts=(1e6, 4e6))
    whole = quantizer.read(QUERIES, sums, known)
    for place in (0, 25, 39):
        one = quantizer.read(QUERIES[place : place + 1], sums, known)
        assert one.total[0] == pytest.approx(whole.total[place], rel=1e-12)
        combined = quantizer.combined(QUERIES[place : place + 1], np.ones(1), sums, known)
        assert combined.total == pytest.approx(whole.total[place], rel=1e-12)
        assert math.sqrt(combined.variance) == pytest.approx(whole.standard_error[place], rel=1e-9)


def test_simulated_errors_have_the_stated_spread() -> None:
    """1,000 paths: a relative standard error of 2.3 % each, of which 15 % are six."""
    quantizer = checked(5)
    law = StackedNoise((BallNoise(OWN.size, Fraction(1, 2**18)), DiscNoise(20, Fraction(1, 2**12))), (OWN.size, 400))
    sums = (summed(quantizer) + law.sample(SecureBits.seeded("noise"), quantizer.size)).astype(np.float64)
    known = Known(law.variance, 600.0, noise_parts=part_variances(law))
    paths = quantizer.error_paths(QUERIES, sums, law, 1, 1000, seed=1)
    assert paths is not None
    ratio = paths.std(axis=0) / quantizer.read(QUERIES, sums, known).standard_error
    assert ratio.min() > 0.85 and ratio.max() < 1.15


def test_parts_over_different_boxes_are_refused() -> None:
    phases = Phases.draw(KERNEL, COLUMNS, 4, 1, (-5, 5))
    with pytest.raises(InputError, match="same box"):
        CheckedLandmarks(OWN, ShardedFourier(phases, 2, 100))


def test_a_reader_of_many_directions_and_waves_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """31 numbers of 8 bytes for each of 400 sums: more than all that is drawn takes."""
    quantizer = replace(checked(1), landmarks=LandmarkQuantizer.fit(FITTED, estimates(FITTED, [30])[0], scale=2**18))
    document, arrays = quantizer.to_document()

    def load() -> int:
        return quantizer_from_document(document, arrays, KERNEL, quantizer.size).size

    with reader_memory(31 * 400 * 8):
        assert load() == quantizer.size
    with reader_memory(31 * 400 * 8 - 1), pytest.raises(InputError, match="max_memory"):
        load()
    work = len(PUBLIC) * 400 * (COLUMNS + 30 + checked_module.WAVE_PRODUCTS)
    monkeypatch.setattr(checked_module, "MOST_EXPLAINED", work)
    assert load() == quantizer.size
    monkeypatch.setattr(checked_module, "MOST_EXPLAINED", work - 1)
    with pytest.raises(InputError, match="explaining 400 sums by 60 landmarks"):
        load()


def test_an_answer_of_too_many_products_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    quantizer = checked(1)
    monkeypatch.setattr(ranges, "MOST_PRODUCTS", quantizer.query_products - 1)
    with pytest.raises(InputError, match="products"):
        quantizer_from_document(*quantizer.to_document(), KERNEL, quantizer.size)


def test_the_largest_release_that_is_made_can_be_read() -> None:
    waves = 2 * MOST_PAIRS
    assert (MOST_LANDMARKS + 1) * waves * checked_module.EXPLAINED_BYTES <= ranges.READER_MEMORY
    work = MOST_LANDMARKS * waves * (10_000 + max(RANKS) + checked_module.WAVE_PRODUCTS)
    assert work <= checked_module.MOST_EXPLAINED


class TestStackedNoise:
    LAW = StackedNoise((BallNoise(3, Fraction(1, 50)), DiscNoise(2, Fraction(1, 40))), (3, 8))

    def test_every_part_has_its_own_variance(self) -> None:
        """20,000 draws: relative standard errors below 2 %, of which 10 % are more than five."""
        drawn = self.LAW.sample(SecureBits.seeded("stack"), 11 * 20_000).reshape(-1, 11)
        assert np.allclose(drawn[:, :3].var(axis=0), self.LAW.parts[0].variance, rtol=0.1)
        assert np.allclose(drawn[:, 3:].var(axis=0), self.LAW.parts[1].variance, rtol=0.1)
        assert self.LAW.variance == max(part_variances(self.LAW))

    def test_documents_and_sums(self) -> None:
        assert law_from_document(self.LAW.to_document()) == self.LAW
        both = SummedNoise((self.LAW, self.LAW))
        assert part_variances(both) == tuple(2 * variance for variance in part_variances(self.LAW))
        for law in (both, self.LAW):
            with pytest.raises(InputError, match="a law of one part"):
                law_from_document({"law": "stacked", "parts": [law.to_document()], "blocks": [3]})

    def test_parts_and_blocks_belong_together(self) -> None:
        for blocks in ((3,), (3, 0), (3, 2.0)):
            with pytest.raises(InputError, match="positive number"):
                StackedNoise(self.LAW.parts, blocks)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="whole draws"):
            self.LAW.sample(SecureBits.seeded("stack"), 12)
