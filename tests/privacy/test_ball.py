"""Ball noise: its law point by point, its margins and certified numbers, its variance, and twins that are caught.

Samples have fixed seeds; a test of a sample rejects the right law with probability 1e-6.
"""

from __future__ import annotations

import json
import math
from decimal import Context, Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from sfumato.audit import log_weights
from sfumato.audit.losses import norms, revealed
from sfumato.errors import InputError
from sfumato.privacy import ball
from sfumato.privacy.ball import STEPS, BallNoise, ball_fits
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.laws import law_from_document

FALSE_ALARM = 1e-6
FEWEST_EXPECTED = 25

LAWS = [
    BallNoise(1, Fraction(1)),
    BallNoise(1, Fraction(1, 9)),
    BallNoise(2, Fraction(7, 10)),
    BallNoise(2, Fraction(1, 3)),
    BallNoise(3, Fraction(1, 2)),
]


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """Test counts against probabilities, with the rare cells gathered in one."""
    total = counts.sum()
    frequent = probabilities * total >= FEWEST_EXPECTED
    observed = np.append(counts[frequent], counts[~frequent].sum())
    expected = np.append(probabilities[frequent], 1 - probabilities[frequent].sum()) * total
    return float(stats.chisquare(observed, expected).pvalue)


def every_point(law: BallNoise) -> tuple[np.ndarray, np.ndarray, int]:
    """All points that matter, their probabilities by the law's definition, and how far they reach."""
    reach = {1: 400, 2: 90, 3: 45}[law.size]
    lattice = np.array(list(product(range(-reach, reach + 1), repeat=law.size)))
    weights = np.exp(-float(law.rate) * np.sqrt(np.square(lattice).sum(axis=1)))
    return lattice, weights / weights.sum(), reach


def point_p_value(law: BallNoise, sample: np.ndarray) -> float:
    lattice, probabilities, reach = every_point(law)
    near = np.abs(sample).max(axis=1) <= reach
    base = (2 * reach + 1) ** np.arange(law.size)[::-1]
    counts = np.bincount((sample[near] + reach) @ base, minlength=len(lattice))
    return chi_square(
        np.append(counts, len(sample) - counts.sum()), np.append(probabilities, max(0.0, 1 - probabilities.sum()))
    )


def draw(law: BallNoise, blocks: int, seed: str = "ball") -> np.ndarray:
    return law.sample(SecureBits.seeded(f"{seed} {law}"), blocks * law.size).reshape(blocks, law.size)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_every_point_has_its_probability_and_less_noise_is_seen(law: BallNoise) -> None:
    blocks = 200_000
    sample = draw(law, blocks)
    assert point_p_value(law, sample) > FALSE_ALARM
    twin = BallNoise(law.size, law.rate * 7 / 10)  # whose law takes this one for noise that is 30 % low
    assert point_p_value(twin, sample) < FALSE_ALARM
    assert point_p_value(law, sample + np.eye(law.size, dtype=np.int64)[0]) < FALSE_ALARM  # off by one


@pytest.mark.once
@pytest.mark.parametrize("law", LAWS[:4], ids=repr)
def test_neighbours_lose_at_most_rate_times_length_and_no_less(law: BallNoise) -> None:
    lattice = every_point(law)[0]
    for change in list(product(range(-2, 3), repeat=law.size))[:: 1 if law.size < 3 else 7]:
        losses = log_weights(law, lattice) - log_weights(law, lattice - np.array(change))
        length = math.hypot(*change)
        assert np.abs(losses).max() == pytest.approx(float(law.rate) * length, rel=1e-12, abs=1e-12)
        claimed = revealed(law, np.array(change)).epsilon(0.0)
        assert length * float(law.rate) <= claimed + 1e-15
        assert claimed == pytest.approx(length * float(law.rate), rel=1e-9)
        assert norms(law, np.array([change]))[0] == pytest.approx(length)


WIDE = [
    (1, Fraction(1, 10**5)),
    (2, Fraction(1, 10**5)),
    (7, Fraction(1, 10**6)),
    (40, Fraction(1, 7)),
    (384, Fraction(1, 2**20)),
]


@pytest.mark.parametrize(("size", "rate"), WIDE)
def test_lengths_directions_and_variance(size: int, rate: Fraction) -> None:
    """The length is Gamma(d), a coordinate over it has the marginal of a sphere; less noise is rejected."""
    law, blocks = BallNoise(size, rate), 20_000 if size < 40 else 4000
    sample = draw(law, blocks).astype(np.float64)
    lengths = np.sqrt(np.square(sample).sum(axis=1))
    assert stats.kstest(lengths * float(rate), stats.gamma(size).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(lengths * float(rate) * 0.9, stats.gamma(size).cdf).pvalue < FALSE_ALARM
    if size > 2:
        share = np.square(sample[:, 0] / lengths)
        assert stats.kstest(share, stats.beta(0.5, (size - 1) / 2).cdf).pvalue > FALSE_ALARM
    if size > 1:
        products = sample[:, 0] * sample[:, 1]
        assert abs(products.mean()) < stats.norm.isf(FALSE_ALARM / 2) * products.std() / math.sqrt(blocks)
    means = np.square(sample).mean(axis=1)
    tolerance = stats.norm.isf(FALSE_ALARM / 2) * means.std() / math.sqrt(blocks)
    assert abs(means.mean() - law.variance) < tolerance < 0.2 * law.variance


@pytest.mark.once
def test_variance_is_about_half_of_laplace_noise_in_many_columns() -> None:
    law = BallNoise(384, Fraction(1, 2**20))
    laplace = 2 / (float(law.rate) / math.sqrt(384)) ** 2
    assert law.variance < 0.502 * laplace


class TestExactComparison:
    @pytest.mark.once
    @pytest.mark.parametrize("law", [BallNoise(2, Fraction(1, 3)), BallNoise(30, Fraction(1, 50))], ids=repr)
    def test_settling_every_comparison_changes_nothing(self, monkeypatch: pytest.MonkeyPatch, law: BallNoise) -> None:
        expected = draw(law, 300, "settled")
        monkeypatch.setattr(ball, "MARGIN", math.inf)
        np.testing.assert_array_equal(draw(law, 300, "settled"), expected)

    @pytest.mark.once
    def test_margins_hold(self) -> None:
        """What floating point says about X lies within its margin of the exact bounds; the margin is a bound."""
        for law in (BallNoise(1, Fraction(1)), BallNoise(2, Fraction(1, 3)), BallNoise(300, Fraction(3, 10**6))):
            bits = SecureBits.seeded(f"margins {law}")
            wanted = np.uint64(law.size), np.uint64(law._mean_step)
            proposals = bits.draw(ball.fill_proposals, 200 * (law.size + 1), 24.0, *wanted).reshape(200, -1)
            proposals[0, 1:] *= 1000  # such as a law of heavier tails would propose
            digits = bits.words(200)
            digits[1] = np.uint64(2**64 - 1)
            depth, margin = law._depth(proposals, digits)
            for row, u, near, slack in zip(proposals.tolist(), digits.tolist(), depth, margin, strict=True):
                if row[0] < STEPS:
                    continue
                low, high = law.bounds(row, u, 64)
                assert 0 <= high - low < 1e-6 + 1e-9 * near
                assert float(low) >= near - slack - 1e-300
                assert float(high) <= near + slack + ball.LARGEST_LOG_THETA * law.size

    @pytest.mark.once
    def test_digits_are_drawn_until_the_comparison_is_decided(self) -> None:
        law, proposal = BallNoise(2, Fraction(1, 3)), [5 * STEPS, 3, -4]
        u = 2**63
        low = law.bounds(proposal, u, 64)[0]
        level = int(math.exp(-float(low)) * 2**64)
        outcomes = set()
        for v in (level - 2**40, level + 2**40):
            outcomes.add(law.settled(proposal, u, v, SecureBits.seeded(1)))
        assert outcomes == {True, False}
        # V as close to e^-X as 64 digits can say: more are drawn, and either outcome comes.
        around = {law.settled(proposal, u, _nearest(law, proposal, u), SecureBits.seeded(seed)) for seed in range(40)}
        assert around == {True, False}

    @pytest.mark.once
    def test_a_radius_of_zero_keeps_only_zero(self) -> None:
        law = BallNoise(2, Fraction(1, 3))
        assert law.bounds([STEPS - 1, 1, 0], 0, 64)[1] == math.inf
        assert law.bounds([STEPS - 1, 0, 0], 0, 64)[1] < math.inf
        assert not law.settled([STEPS - 1, 1, 0], 0, 2**20, SecureBits.seeded(1))


def _nearest(law: BallNoise, proposal: list[int], u: int) -> int:
    """V's first 64 digits where U's first 64 digits leave both outcomes open."""
    low, high = law.bounds(proposal, u, 64)
    context = Context(prec=60)
    middle = (low + high) / 2
    exponent = context.divide(Decimal(-middle.numerator), Decimal(middle.denominator))
    return int(context.multiply(context.exp(exponent), Decimal(2**64)))


class TestCertified:
    @pytest.mark.once
    @pytest.mark.parametrize("precision", [64, 200, 1000])
    def test_pi_and_logarithms_between_their_bounds(self, precision: int) -> None:
        low, high = ball.pi(precision)
        fine = ball.pi(2 * precision + 100)
        assert low < fine[0] < fine[1] < high
        assert high - low < Fraction(1, 2**precision)
        assert float(low) == math.pi
        value = Fraction(355, 113)
        low, high = ball.log(value, precision)
        fine = ball.log(value, 2 * precision + 100)
        assert low < fine[0] < fine[1] < high
        assert high - low < Fraction(8, 2**precision)
        low, high = ball.exp((low, high), precision)
        assert low < value < high

    @pytest.mark.once
    @pytest.mark.parametrize("sigma", [1, 2, 3, 10**6])
    def test_theta_is_the_sum_of_the_gaussian_weights(self, sigma: int) -> None:
        low, high = ball.log_theta(sigma, 64)
        assert 0 <= low < high < low + Fraction(1, 2**60)
        assert high < Fraction(ball.LARGEST_LOG_THETA)
        if sigma > 3:
            return
        around, weights = ball.pi(200), [Fraction(0), Fraction(0)]
        for z in range(-60, 61):
            bounds = ball.exp((Fraction(-z * z, 2 * sigma**2),) * 2, 200)
            weights = [weights[0] + bounds[0], weights[1] + bounds[1]]
        squares = [(weights[0] / sigma) ** 2 / (2 * around[1]), (weights[1] / sigma) ** 2 / (2 * around[0])]
        logs = [ball.log(squares[0], 200)[0] / 2, ball.log(squares[1], 200)[1] / 2]
        assert low < logs[1] + Fraction(1, 10**40) and logs[0] < high


@pytest.mark.once
def test_documents() -> None:
    law = BallNoise(384, Fraction(19, 5242880))
    document = json.loads(json.dumps(law.to_document()))
    assert document == {"law": "l2-ball", "size": 384, "rate": "19/5242880"}
    assert law_from_document(document) == law


@pytest.mark.once
@pytest.mark.parametrize(
    "change",
    [
        {"size": 0},
        {"size": 2**16 + 1},
        {"size": True},
        {"size": 2.0},
        {"rate": "0/1"},
        {"rate": "1/0"},
        {"rate": 0.5},
        {"rate": "-1/9"},
        {"rate": "1/1"},  # too narrow for two
        {"rate": "1/33554432"},  # too wide
        {"rate": f"1/{2**57}"},
        {"law": "ball"},
        {"spare": 1},
    ],
)
def test_broken_documents_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(InputError):
        law_from_document({"law": "l2-ball", "size": 2, "rate": "1/9", **change})


@pytest.mark.once
@pytest.mark.parametrize(
    ("size", "rate"),
    [(0, Fraction(1)), (True, Fraction(1)), (1, 0.5), (1, Fraction(0)), (1, Fraction(-1)), (1, Fraction(2))],
)
def test_parameters_out_of_range_are_refused(size: int, rate: Fraction) -> None:
    with pytest.raises(InputError):
        BallNoise(size, rate)


@pytest.mark.once
def test_limits_are_as_stated() -> None:
    assert ball_fits(3, Fraction(2, 2**25)) and not ball_fits(4, Fraction(2, 2**25))
    assert ball_fits(4, Fraction(1, 2)) and not ball_fits(5, Fraction(1, 2))
    # The chance of a sigma beyond the limit: t = chi(d + 1) / rate, and the ratio of limit and mean length is 32.
    for size in (1, 2, 384):
        assert stats.chi2(size + 1).logsf(32.0**2 * (size + 1)) < -1000


@pytest.mark.once
def test_samples_come_in_whole_blocks() -> None:
    law = BallNoise(4, Fraction(1, 4))
    assert law.sample(SecureBits.seeded(1), 0).size == 0
    assert law.sample(SecureBits.seeded(1), 12).dtype == np.int64
    with pytest.raises(InputError, match="whole blocks of 4"):
        law.sample(SecureBits.seeded(1), 6)
