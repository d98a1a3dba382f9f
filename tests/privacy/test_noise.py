from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction

import numba
import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sfumato.errors import InputError
from sfumato.privacy import bits as bits_module
from sfumato.privacy import noise
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.laws import law_from_document
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace, geometric

FALSE_ALARM = 1e-6
Law = DiscreteLaplace | DiscreteGaussian

SMALL = [
    DiscreteLaplace(Fraction(4)),
    DiscreteLaplace(Fraction(5, 2)),
    DiscreteLaplace(Fraction(1)),
    DiscreteLaplace(Fraction(2, 7)),
    DiscreteLaplace(Fraction(1, 40)),
    DiscreteGaussian(1),
    DiscreteGaussian(2),
    DiscreteGaussian(7),
    DiscreteGaussian(100),
]
LARGE = [
    DiscreteLaplace(Fraction(1, 10**6)),
    DiscreteLaplace(Fraction(123457, 10**14)),
    DiscreteLaplace(Fraction(1, 2**56)),
    DiscreteGaussian(10**4),
    DiscreteGaussian(2**30),
]


def probabilities(law: Law) -> tuple[np.ndarray, np.ndarray]:
    """Return the integers that carry all but about 1e-15 of the mass, and their probabilities."""
    reach = math.ceil(40 / law.rate) if isinstance(law, DiscreteLaplace) else 9 * law.sigma
    values = np.arange(-reach, reach + 1)
    return values, np.array([law.probability(int(value)) for value in values])


def cells(law: Law, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut the integers into intervals that expect at least 50 samples; return their starts and probabilities."""
    values, mass = probabilities(law)
    starts, weights, gathered = [values[0]], [], 0.0
    for value, probability in zip(values, mass, strict=True):
        if gathered * samples >= 50:
            starts.append(value)
            weights.append(gathered)
            gathered = 0.0
        gathered += probability
    if gathered * samples < 50:  # a cell that expects a half is off by chance once in ten thousand
        starts.pop()
        gathered += weights.pop()
    weights.append(gathered)
    return np.array(starts), np.array(weights) / sum(weights)


def p_value(law: Law, sample: np.ndarray) -> float:
    """Chi-square test that a sample follows the law's own probabilities."""
    starts, weights = cells(law, sample.size)
    counts = np.bincount(np.clip(np.searchsorted(starts, sample, "right") - 1, 0, None), minlength=starts.size)
    return float(stats.chisquare(counts, weights * sample.size).pvalue)


def distribution(law: Law, z: np.ndarray) -> np.ndarray:
    """Pr[Z <= z] for a large scale, where the laws are as good as continuous between the half integers."""
    if isinstance(law, DiscreteLaplace):
        return stats.laplace.cdf((z + 0.5) * float(law.rate))
    return stats.norm.cdf((z + 0.5) / law.sigma)


def with_smaller_scale(law: Law) -> Law:
    """A twin whose noise is 30 % low."""
    if isinstance(law, DiscreteLaplace):
        rate = law.rate * Fraction(10, 7)
        return DiscreteLaplace(rate if rate > Fraction(1, 10**6) else Fraction(1, int(1 / rate)))
    return DiscreteGaussian(round(law.sigma * 0.7))


@pytest.mark.parametrize("law", SMALL, ids=repr)
class TestSmallScales:
    @pytest.mark.once
    def test_probabilities_sum_to_one(self, law: Law) -> None:
        values, mass = probabilities(law)
        assert math.fsum(mass) == pytest.approx(1, rel=1e-13)
        if isinstance(law, DiscreteLaplace):
            weights = np.exp(-np.abs(values) * float(law.rate))
        else:
            weights = np.exp(-(values**2) / (2 * law.sigma**2))
        np.testing.assert_allclose(mass, weights / math.fsum(weights), rtol=1e-12)

    @pytest.mark.once
    def test_variance_is_that_of_the_probabilities(self, law: Law) -> None:
        values, mass = probabilities(law)
        assert law.variance == pytest.approx(math.fsum(mass * values.astype(float) ** 2), rel=1e-11)

    def test_samples_follow_the_probabilities(self, law: Law) -> None:
        sample = law.sample(SecureBits.seeded(f"follow {law}"), 400_000)
        assert p_value(law, sample) > FALSE_ALARM
        zeros = stats.binomtest(int((sample == 0).sum()), sample.size, law.probability(0))
        assert zeros.pvalue > FALSE_ALARM

    def test_sample_variance(self, law: Law) -> None:
        squares = law.sample(SecureBits.seeded(f"variance {law}"), 400_000).astype(float) ** 2
        tolerance = stats.norm.isf(FALSE_ALARM / 2) * squares.std() / math.sqrt(squares.size)
        assert abs(squares.mean() - law.variance) < tolerance


@pytest.mark.parametrize("law", [law for law in SMALL if law != DiscreteGaussian(1)], ids=repr)
def test_scale_30_percent_low_is_caught(law: Law) -> None:
    twin = with_smaller_scale(law)
    assert p_value(law, twin.sample(SecureBits.seeded(f"low {law}"), 400_000)) < FALSE_ALARM


@pytest.mark.parametrize("law", [law for law in SMALL if law.variance < 1000], ids=repr)
def test_off_by_one_is_caught(law: Law) -> None:
    sample = law.sample(SecureBits.seeded(f"off by one {law}"), 400_000)
    assert p_value(law, sample + 1) < FALSE_ALARM
    assert p_value(law, sample + np.sign(sample)) < FALSE_ALARM


@pytest.mark.parametrize("rate", [Fraction(1), Fraction(1, 40)])
def test_zero_with_two_signs_is_caught(rate: Fraction) -> None:
    bits = SecureBits.seeded(f"two signs {rate}")
    twin = geometric(bits, 400_000, rate) * (1 - 2 * bits.below(2, 400_000))
    assert p_value(DiscreteLaplace(rate), twin) < FALSE_ALARM


@pytest.mark.parametrize("law", LARGE, ids=repr)
class TestLargeScales:
    def test_samples_follow_the_distribution_and_the_twin_is_caught(self, law: Law) -> None:
        scale = math.sqrt(law.variance)
        starts = np.concatenate([[-np.inf], np.round(np.linspace(-4, 4, 65) * scale), [np.inf]])
        weights = np.diff(distribution(law, starts - 1))

        def test(sample: np.ndarray) -> float:
            return float(stats.chisquare(np.histogram(sample, starts)[0], weights * sample.size).pvalue)

        bits = SecureBits.seeded(f"large {law}")
        assert test(law.sample(bits, 200_000)) > FALSE_ALARM
        assert test(with_smaller_scale(law).sample(bits, 200_000)) < FALSE_ALARM

    @pytest.mark.parametrize("modulus", [2, 3, 16, 1000])
    def test_last_digits_are_uniform(self, law: Law, modulus: int) -> None:
        sample = law.sample(SecureBits.seeded(f"digits {law}"), 200_000)
        assert stats.chisquare(np.bincount(sample % modulus, minlength=modulus)).pvalue > FALSE_ALARM

    @pytest.mark.once
    def test_variance_of_a_large_scale(self, law: Law) -> None:
        expected = 2 / float(law.rate) ** 2 if isinstance(law, DiscreteLaplace) else float(law.sigma) ** 2
        assert law.variance == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("rate", [Fraction(3), Fraction(1), Fraction(3, 7), Fraction(1, 25)])
def test_geometric(rate: Fraction) -> None:
    sample = geometric(SecureBits.seeded(f"geometric {rate}"), 400_000, rate)
    last = int(math.log(400_000 / 50) / rate)
    mass = -math.expm1(-rate) * np.exp(-float(rate) * np.arange(last))
    mass = np.append(mass, math.exp(-float(rate) * last))

    def test(values: np.ndarray) -> float:
        counts = np.bincount(np.minimum(values, last), minlength=last + 1)
        return float(stats.chisquare(counts, mass * values.size).pvalue)

    assert sample.min() == 0
    assert test(sample) > FALSE_ALARM
    assert test(sample + 1) < FALSE_ALARM


@pytest.mark.parametrize("rate", [Fraction(1000), Fraction(2**56)])
def test_a_rate_that_leaves_no_noise_gives_zeros(rate: Fraction) -> None:
    assert not DiscreteLaplace(rate).sample(SecureBits.seeded(1), 1000).any()
    assert DiscreteLaplace(rate).variance == pytest.approx(0, abs=1e-300)
    assert DiscreteLaplace(rate).probability(0) == 1


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(3)])
@pytest.mark.parametrize("sensitivity", [2, 5])
def test_sensitivity_off_by_one_is_caught(epsilon: Fraction, sensitivity: int) -> None:
    law, twin = DiscreteLaplace(epsilon / sensitivity), DiscreteLaplace(epsilon / (sensitivity - 1))
    assert p_value(law, twin.sample(SecureBits.seeded(2), 200_000)) < FALSE_ALARM

    def worst_loss(used: DiscreteLaplace) -> float:
        outputs = range(-20, 21)
        return max(math.log(used.probability(y) / used.probability(y - sensitivity)) for y in outputs)

    assert worst_loss(law) == pytest.approx(float(epsilon), rel=1e-12)
    assert worst_loss(twin) > 1.1 * epsilon


@pytest.mark.parametrize("law", [DiscreteLaplace(Fraction(1, 10)), DiscreteGaussian(8)], ids=repr)
def test_opendp_samples_the_same_law(law: Law) -> None:
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    if isinstance(law, DiscreteLaplace):
        measurement = dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=float(1 / law.rate))
    else:
        measurement = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=float(law.sigma))
    oracle = np.array(measurement([0] * 40_000))
    starts, _ = cells(law, 20_000)

    def two_sample(sample: np.ndarray) -> float:
        table = [
            np.bincount(np.clip(np.searchsorted(starts, side, "right") - 1, 0, None), minlength=starts.size)
            for side in (oracle, sample)
        ]
        return float(stats.chi2_contingency(np.array(table)).pvalue)

    assert p_value(law, oracle) > FALSE_ALARM
    assert two_sample(law.sample(SecureBits.seeded("oracle"), 40_000)) > FALSE_ALARM
    assert two_sample(with_smaller_scale(law).sample(SecureBits.seeded("oracle"), 40_000)) < FALSE_ALARM


DRAWS: dict[str, Callable[[SecureBits, int], np.ndarray]] = {
    "geometric": lambda bits, count: geometric(bits, count, Fraction(3, 7)),
    "laplace": DiscreteLaplace(Fraction(3, 7)).sample,
    "gaussian": DiscreteGaussian(3).sample,
    "below": lambda bits, count: bits.below(3 * 2**60, count),
}


@pytest.mark.once
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("chunk", [1, 2, 7, 100])
def test_chunk_boundaries_leave_no_trace(
    monkeypatch: pytest.MonkeyPatch, draw: Callable[[SecureBits, int], np.ndarray], chunk: int
) -> None:
    expected = draw(SecureBits.seeded("chunks"), 1000)
    monkeypatch.setattr(bits_module, "SMALLEST_CHUNK_WORDS", chunk)
    monkeypatch.setattr(bits_module, "LARGEST_CHUNK_WORDS", chunk)
    np.testing.assert_array_equal(draw(SecureBits.seeded("chunks"), 1000), expected)


@pytest.mark.once
def test_words_are_consumed_in_order() -> None:
    law = DiscreteLaplace(Fraction(3, 7))
    sample = law.sample(SecureBits.seeded("order"), 20_000)
    straight = np.empty(20_000, dtype=np.int64)
    words = SecureBits.seeded("order").words(800_000)
    done, used = noise.fill_laplace(words, straight, 0, np.uint64(3), np.uint64(7))
    assert done == 20_000 and used < words.size
    np.testing.assert_array_equal(sample, straight)


def test_dropping_the_words_of_unfinished_samples_would_be_caught() -> None:
    law, bits = DiscreteLaplace(Fraction(1, 10)), SecureBits.seeded("dropped")
    twin, done = np.empty(100_000, dtype=np.int64), 0
    while done < twin.size:
        done, _ = noise.fill_laplace(bits.words(20), twin, done, np.uint64(1), np.uint64(10))
    assert p_value(law, twin) < FALSE_ALARM


@pytest.mark.once
@given(
    st.integers(1, 2**56), st.integers(1, 2**56), st.integers(0, 2**56), st.sampled_from([0, 1, 2, 5, 127, 128, 256])
)
def test_geometric_arithmetic_is_exact_modulo_2_to_the_64(
    numerator: int, denominator: int, remainder: int, units: int
) -> None:
    remainder %= denominator
    # The words that make the sampler choose this remainder and this many units; see the coins' definition.
    accept = [denominator - 1] if remainder else []
    words = np.array([remainder, *accept, *([0, 1] * units), 1], dtype=np.uint64)
    out = np.empty(1, dtype=np.int64)
    used = noise.fill_geometric(words, out, 0, np.uint64(numerator), np.uint64(denominator))
    assert used == (1, words.size)
    assert int(out[0]) % 2**64 == (remainder + denominator * units) // numerator % 2**64


@pytest.mark.once
@pytest.mark.parametrize(("units", "finished"), [(0, 0), (256, 1)])
def test_only_a_true_minus_zero_is_refused(units: int, finished: int) -> None:
    words = np.array([0, *([0, 1] * units), 1, 1], dtype=np.uint64)
    out = np.empty(1, dtype=np.int64)
    assert noise.fill_laplace(words, out, 0, np.uint64(1), np.uint64(2**56)) == (finished, words.size)


@pytest.mark.once
def test_kernels_hold_no_floating_point() -> None:
    def uses_floats(function: Callable[..., object], *arguments: object) -> bool:
        compiled = numba.njit(function)  # afresh, because cached code cannot be inspected
        compiled(*arguments)
        return any("double" in code or "float" in code for code in compiled.inspect_llvm().values())

    out, words, number = np.empty(10, dtype=np.int64), SecureBits.seeded(1).words(1000), np.uint64(3)
    assert uses_floats(lambda word: word / 2, number)
    assert not uses_floats(bits_module.next_below.py_func, words, 0, number)
    assert not uses_floats(bits_module._fill_below.py_func, words, out, 0, number)
    assert not uses_floats(noise._inverse_coin.py_func, words, 0, number)
    assert not uses_floats(noise._fraction_coin.py_func, words, 0, number, number)
    assert not uses_floats(noise.next_geometric.py_func, words, 0, number, number)
    assert not uses_floats(noise._signed.py_func, words, 0, number, False)
    assert not uses_floats(noise._gaussian_accepts.py_func, words, 0, number, number)
    assert not uses_floats(noise.fill_geometric.py_func, words, out, 0, number, number)
    assert not uses_floats(noise.fill_laplace.py_func, words, out, 0, number, number)
    assert not uses_floats(noise.fill_gaussian.py_func, words, out, 0, number)


@pytest.mark.once
@pytest.mark.parametrize("law", SMALL + LARGE, ids=repr)
def test_laws_survive_json(law: Law) -> None:
    document = json.loads(json.dumps(law.to_document()))
    assert law_from_document(document) == law
    assert type(law).from_document(document) == law


@pytest.mark.once
@pytest.mark.parametrize(
    "document",
    [
        {},
        {"law": "normal", "sigma": 1},
        {"law": ["discrete-laplace"], "rate": "1/2"},
        {"law": "discrete-laplace"},
        {"law": "discrete-laplace", "rate": 0.5},
        {"law": "discrete-laplace", "rate": "0.5"},
        {"law": "discrete-laplace", "rate": "1/0"},
        {"law": "discrete-laplace", "rate": "-1/2"},
        {"law": "discrete-laplace", "rate": f"1/{2**57}"},
        {"law": "discrete-laplace", "rate": "1/2", "shift": 1},
        {"law": "discrete-gaussian", "sigma": 1.5},
        {"law": "discrete-gaussian", "sigma": 0},
    ],
)
def test_broken_documents_are_refused(document: dict[str, object]) -> None:
    with pytest.raises(InputError):
        law_from_document(document)


@pytest.mark.once
@pytest.mark.parametrize("rate", [0.5, 1, Fraction(0), Fraction(-1, 2), Fraction(1, 2**56 + 1), Fraction(2**57)])
def test_rates_out_of_range_are_refused(rate: Fraction) -> None:
    with pytest.raises(InputError, match="rate"):
        DiscreteLaplace(rate)
    with pytest.raises(InputError, match="rate"):
        geometric(SecureBits(), 1, rate)


@pytest.mark.once
@pytest.mark.parametrize("sigma", [0, -1, 2**30 + 1, 1.0, True, np.int64(3)])
def test_sigmas_out_of_range_are_refused(sigma: int) -> None:
    with pytest.raises(InputError, match="sigma"):
        DiscreteGaussian(sigma)


@pytest.mark.once
@pytest.mark.parametrize("law", [SMALL[0], SMALL[-1]], ids=repr)
def test_counts(law: Law) -> None:
    assert law.sample(SecureBits(), 0).size == 0
    assert law.sample(SecureBits(), 1).dtype == np.int64
    with pytest.raises(InputError, match="0 or more"):
        law.sample(SecureBits(), -1)
