from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import InputError
from sfumato.privacy import bits as bits_module
from sfumato.privacy import body
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.body import CubeNoise, DiscNoise
from sfumato.privacy.laws import law_from_document

FALSE_ALARM = 1e-6
FEWEST_EXPECTED = 25
Law = DiscNoise | CubeNoise

LAWS: list[Law] = [
    DiscNoise(1, Fraction(1)),
    DiscNoise(1, Fraction(1, 2)),
    DiscNoise(1, Fraction(1, 7)),
    DiscNoise(1, Fraction(1, 50)),
    DiscNoise(2, Fraction(3, 4)),
    DiscNoise(2, Fraction(1, 2)),
    DiscNoise(3, Fraction(1, 10)),
    DiscNoise(20, Fraction(1, 20)),
    CubeNoise(1, Fraction(1, 2)),
    CubeNoise(2, Fraction(2)),
    CubeNoise(2, Fraction(1, 50)),
    CubeNoise(3, Fraction(1, 2)),
    CubeNoise(5, Fraction(3, 7)),
]


def points(law: Law, radius: int) -> int:
    """Integer points of the body of this radius; none below the smallest radius of the law."""
    if isinstance(law, CubeNoise):
        return (2 * radius + 1) ** law.size if radius >= 0 else 0
    return _disc_points(radius) ** law.pairs if radius >= 1 else 0


@cache
def _chords(radius: int) -> tuple[int, int]:
    """Points of a disc, and the sum of the squares of their first coordinates; roots this small are exact."""
    a = np.arange(-radius, radius + 1)
    lengths = 2 * np.floor(np.sqrt(radius * radius - a * a)).astype(np.int64) + 1
    return int(lengths.sum()), int((a * a * lengths).sum())


def _disc_points(radius: int) -> int:
    return _chords(radius)[0]


def shells(law: Law) -> tuple[np.ndarray, np.ndarray]:
    """Probability of each value of the norm, rounded up: (shell's points) e^(-rate norm), by the law's definition."""
    smallest = 1 if isinstance(law, DiscNoise) else 0
    norms = np.arange(smallest, math.ceil((45 + law.block) / law.rate) + 1)
    sizes = [points(law, int(norm)) - points(law, int(norm) - 1) for norm in norms]
    logs = np.array([math.log(size) for size in sizes]) - float(law.rate) * norms
    weights = np.exp(logs - logs.max())
    return norms, weights / weights.sum()


def norm(law: Law, sample: np.ndarray) -> np.ndarray:
    """The norm of each block as the law counts it."""
    blocks = sample.reshape(-1, law.block)
    if isinstance(law, CubeNoise):
        return np.abs(blocks).max(axis=1)
    squares = np.square(blocks).reshape(len(blocks), -1, 2).sum(axis=2).max(axis=1)
    return np.maximum(np.ceil(np.sqrt(squares)), 1).astype(np.int64)


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """Test counts against probabilities, with the rare cells, and what no cell holds, gathered in one."""
    total = counts.sum()
    frequent = probabilities * total >= FEWEST_EXPECTED
    observed = np.append(counts[frequent], total - counts[frequent].sum())
    expected = np.append(probabilities[frequent] * total, (1 - probabilities[frequent].sum()) * total)
    if expected[-1] < FEWEST_EXPECTED:
        observed, expected = observed[:-1], expected[:-1] * (observed[:-1].sum() / expected[:-1].sum())
    return float(stats.chisquare(observed, expected).pvalue)


def shell_p_value(law: Law, sample: np.ndarray) -> float:
    values, probabilities = shells(law)
    width = max(1, values.size // 200)  # of a cell, so that every cell holds something to test
    cells = (norm(law, sample) - values[0]) // width
    gathered = np.add.reduceat(probabilities, np.arange(0, values.size, width))
    return chi_square(np.bincount(np.minimum(cells, gathered.size - 1), minlength=gathered.size), gathered)


def low_noise(law: Law) -> Law:
    """A twin whose noise is 30 % low."""
    twin = law.rate * Fraction(10, 7)
    return CubeNoise(law.size, twin) if isinstance(law, CubeNoise) else DiscNoise(law.pairs, twin)


@pytest.mark.parametrize("law", LAWS, ids=repr)
class TestLaw:
    blocks = 60_000

    def sample(self, law: Law, blocks: int = blocks) -> np.ndarray:
        return law.sample(SecureBits.seeded(repr(law)), blocks * law.block)

    def test_norms_follow_the_law_and_not_that_of_less_noise(self, law: Law) -> None:
        blocks = self.blocks if law.block <= 6 else self.blocks // 10
        assert shell_p_value(law, self.sample(law, blocks)) > FALSE_ALARM
        twin = low_noise(law).sample(SecureBits.seeded("twin"), self.blocks // 10 * law.block)
        assert shell_p_value(law, twin) < FALSE_ALARM

    def test_variance(self, law: Law) -> None:
        exact = exact_variance(law)
        assert law.variance == pytest.approx(exact, rel=1.2 * float(law.rate))
        # Of 6,000 squares of one coordinate, the deviation goes so much with the mean that one in 60,000 failed.
        blocks = self.blocks if law.block <= 2 else self.blocks // 10
        squares = self.sample(law, blocks).astype(np.float64).reshape(-1, law.block) ** 2
        means = squares.mean(axis=1)  # coordinates of one block depend on each other
        tolerance = stats.norm.isf(FALSE_ALARM / 2) * means.std() / math.sqrt(means.size)
        assert abs(means.mean() - exact) < tolerance

    def test_coordinates_are_symmetric_and_uncorrelated(self, law: Law) -> None:
        sample = self.sample(law, self.blocks // 10).reshape(-1, law.block)
        positive, negative = int((sample > 0).sum()), int((sample < 0).sum())
        limit = stats.norm.isf(FALSE_ALARM / 2)
        assert abs(positive - negative) < limit * math.sqrt(positive + negative)
        if law.block > 1:
            products = sample[:, 0].astype(np.float64) * sample[:, 1]
            assert abs(products.mean()) < limit * products.std() / math.sqrt(products.size)

    @pytest.mark.once
    def test_survives_json(self, law: Law) -> None:
        document = json.loads(json.dumps(law.to_document()))
        assert law_from_document(document) == law
        assert type(law).from_document(document) == law


def exact_variance(law: Law) -> float:
    """E[z_1^2] by the law's definition: the radius first, then a point of its body."""
    smallest = 1 if isinstance(law, DiscNoise) else 0
    radii = range(smallest, math.ceil((45 + law.block) / law.rate) + 1)
    logs = np.array([math.log(points(law, radius)) - float(law.rate) * radius for radius in radii])
    weights = np.exp(logs - logs.max())
    return float((weights * [_mean_square(law, radius) for radius in radii]).sum() / weights.sum())


def _mean_square(law: Law, radius: int) -> float:
    if isinstance(law, CubeNoise):
        return radius * (radius + 1) / 3
    count, squares = _chords(radius)
    return squares / count


@pytest.mark.parametrize(
    ("law", "reach"),
    [
        (DiscNoise(1, Fraction(1, 2)), 14),
        (DiscNoise(1, Fraction(1, 4)), 20),
        (DiscNoise(2, Fraction(1)), 3),
        (DiscNoise(2, Fraction(1, 2)), 2),
        (CubeNoise(2, Fraction(1, 2)), 12),
        (CubeNoise(3, Fraction(1)), 3),
        (CubeNoise(4, Fraction(1)), 2),
    ],
    ids=repr,
)
def test_every_point_has_its_probability(law: Law, reach: int) -> None:
    samples = 150_000 if isinstance(law, CubeNoise) else 300_000  # with half, many points of discs are too rare
    values, probabilities = shells(law)
    lattice = np.array(list(product(range(-reach, reach + 1), repeat=law.block)))
    sizes = np.array([points(law, int(value)) - points(law, int(value) - 1) for value in values[: 2 * reach + 1]])
    norms = norm(law, lattice)
    expected = (probabilities[: sizes.size] / sizes)[norms - values[0]]
    sample = law.sample(SecureBits.seeded(f"points {law}"), samples * law.block).reshape(samples, -1)
    near = np.abs(sample).max(axis=1) <= reach
    base = (2 * reach + 1) ** np.arange(law.block)[::-1]
    counts = np.bincount((sample[near] + reach) @ base, minlength=len(lattice))
    everywhere = np.append(counts, samples - counts.sum()), np.append(expected, max(0.0, 1 - expected.sum()))
    assert chi_square(*everywhere) > FALSE_ALARM
    shifted = np.roll(everywhere[0][:-1], 1)  # one coordinate off by one
    assert chi_square(np.append(shifted, everywhere[0][-1]), everywhere[1]) < FALSE_ALARM


@pytest.mark.parametrize("law", [DiscNoise(2, Fraction(1, 10)), CubeNoise(3, Fraction(1, 10))], ids=repr)
def test_blocks_are_independent_and_coordinates_of_a_block_are_not(law: Law) -> None:
    blocks = 40_000
    norms = norm(law, law.sample(SecureBits.seeded("independent"), blocks * law.block)).astype(np.float64)
    limit = stats.norm.isf(FALSE_ALARM / 2) / math.sqrt(blocks)
    for lag in (1, 2, 3):
        assert abs(np.corrcoef(norms[:-lag], norms[lag:])[0, 1]) < limit
    sample = np.abs(law.sample(SecureBits.seeded("dependent"), blocks * law.block).reshape(blocks, -1))
    assert np.corrcoef(sample[:, 0], sample[:, -1])[0, 1] > 5 * limit


@pytest.mark.parametrize("pairs", [1, 3, 20])
def test_wide_disc_noise_has_the_continuous_law(pairs: int) -> None:
    law = DiscNoise(pairs, Fraction(1, 10**5))
    blocks = 8000 if pairs < 20 else 2000
    sample = law.sample(SecureBits.seeded(f"wide {pairs}"), blocks * law.block).reshape(blocks, pairs, 2)
    radii = np.hypot(sample[:, :, 0], sample[:, :, 1])
    largest = radii.max(axis=1)
    assert stats.kstest(largest / 1e5, stats.gamma(2 * pairs).cdf).pvalue > FALSE_ALARM
    angles = np.arctan2(sample[:, :, 1], sample[:, :, 0]).reshape(-1) / (2 * math.pi) + 0.5
    assert stats.kstest(angles, "uniform").pvalue > FALSE_ALARM
    if pairs > 1:  # a pair that is not the largest is uniform in the disc up to the largest
        others = np.sort(radii / largest[:, None], axis=1)[:, :-1]
        assert stats.kstest((others**2).reshape(-1), "uniform").pvalue > FALSE_ALARM


@pytest.mark.parametrize("size", [1, 4])
def test_wide_cube_noise_has_the_continuous_law(size: int) -> None:
    law = CubeNoise(size, Fraction(1, 10**7))
    sample = np.abs(law.sample(SecureBits.seeded(f"wide {size}"), 20_000 * size)).reshape(-1, size)
    assert stats.kstest(sample.max(axis=1) / 1e7, stats.gamma(size).cdf).pvalue > FALSE_ALARM


def octagon_points(radius: int) -> int:
    corner = 2 * radius - math.isqrt(2 * radius * radius)
    return (2 * radius + 1) ** 2 - 2 * corner * (corner + 1)


class TestOctagon:
    @pytest.mark.once
    @pytest.mark.parametrize("radius", [1, 2, 3, 7, 20, 41])
    def test_its_points_are_counted_and_hold_the_disc(self, radius: int) -> None:
        a, b = np.mgrid[-radius : radius + 1, -radius : radius + 1]
        inside = np.abs(a) + np.abs(b) <= math.isqrt(2 * radius * radius)
        assert inside.sum() == octagon_points(radius)
        assert inside[a**2 + b**2 <= radius**2].all()

    @pytest.mark.once
    def test_its_share_of_the_square_never_exceeds_the_constant(self) -> None:
        radii = [*range(1, 20_000), *(2**power - step for power in range(15, 30) for step in range(50))]
        assert all(100_000 * octagon_points(radius) < 82_844 * (2 * radius + 1) ** 2 for radius in radii)
        assert 100_000 * octagon_points(2**29) > 82_842 * (2**30 + 1) ** 2  # and comes close to it

    @pytest.mark.parametrize("radius", [1, 2, 5, 1000, 2**29 - 1])
    def test_coins_fall_with_its_share(self, radius: int) -> None:
        words, tosses = SecureBits.seeded(f"octagon {radius}").words(400_000), 60_000
        heads = at = 0
        for _ in range(tosses):
            fell, at = body._octagon_coins(words, at, radius, 1)
            heads += fell
        share = Fraction(100_000 * octagon_points(radius), 82_844 * (2 * radius + 1) ** 2)
        assert stats.binomtest(heads, tosses, float(share)).pvalue > FALSE_ALARM


@pytest.mark.once
@pytest.mark.parametrize("value", [0, 1, 2, 3, 4, 2**52 - 1, 2**58 - 1, 2**58, (2**29) ** 2 - 1, 2 * (2**29 - 1) ** 2])
def test_roots_are_exact(value: int) -> None:
    assert body._root(value) == math.isqrt(value)


DRAWS: dict[str, Callable[[SecureBits, int], np.ndarray]] = {
    "discs": DiscNoise(3, Fraction(1, 9)).sample,
    "cubes": CubeNoise(6, Fraction(1, 9)).sample,
}


@pytest.mark.once
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_chunk_boundaries_leave_no_trace(
    monkeypatch: pytest.MonkeyPatch, draw: Callable[[SecureBits, int], np.ndarray], chunk: int
) -> None:
    expected = draw(SecureBits.seeded("chunks"), 180)
    monkeypatch.setattr(bits_module, "SMALLEST_CHUNK_WORDS", chunk)
    monkeypatch.setattr(bits_module, "LARGEST_CHUNK_WORDS", chunk)
    np.testing.assert_array_equal(draw(SecureBits.seeded("chunks"), 180), expected)


@pytest.mark.once
@pytest.mark.parametrize("law", [DiscNoise(2, Fraction(1)), CubeNoise(4, Fraction(1))], ids=repr)
def test_samples_come_in_whole_blocks(law: Law) -> None:
    assert law.block == 4
    assert law.sample(SecureBits.seeded(1), 0).size == 0
    assert law.sample(SecureBits.seeded(1), 12).dtype == np.int64
    for count in (1, 6):
        with pytest.raises(InputError, match="whole blocks of 4"):
            law.sample(SecureBits.seeded(1), count)


def test_a_rate_that_leaves_no_noise_in_the_cube() -> None:
    assert not CubeNoise(3, Fraction(1000)).sample(SecureBits.seeded(2), 3000).any()


@pytest.mark.once
@pytest.mark.parametrize("law", [DiscNoise, CubeNoise])
@pytest.mark.parametrize(
    ("size", "rate"),
    [
        (0, Fraction(1)),
        (-1, Fraction(1)),
        (True, Fraction(1)),
        (1.0, Fraction(1)),
        (2**24 + 1, Fraction(1)),
        (1, 0.5),
        (1, 1),
        (1, Fraction(0)),
        (1, Fraction(-1, 2)),
        (1, Fraction(1, 2**56 + 1)),
        (1, Fraction(2**57)),
        (1, Fraction(1, 2**55)),  # too wide
    ],
)
def test_parameters_out_of_range_are_refused(law: type[Law], size: int, rate: Fraction) -> None:
    with pytest.raises(InputError):
        law(size, rate)


@pytest.mark.once
def test_the_width_of_disc_noise_is_limited_by_its_pairs() -> None:
    DiscNoise(1, Fraction(3, 2**22))
    with pytest.raises(InputError, match="too wide"):
        DiscNoise(2, Fraction(3, 2**22))
    with pytest.raises(InputError, match="does not fit"):
        CubeNoise(2, Fraction(2, 2**55))


@pytest.mark.once
def test_cubes_that_would_be_tried_for_ever_are_refused() -> None:
    """A radius of 0, which a high rate leaves, is accepted once in 2^D D! times."""
    assert math.isclose(CubeNoise(3, Fraction(1000)).tries, 48)
    for size, rate in ((12, "1000000/1"), (2**24, "1/1000")):
        with pytest.raises(InputError, match="too narrow for integers; use a larger scale"):
            law_from_document({"law": "cube", "size": size, "rate": rate})


@pytest.mark.once
@pytest.mark.parametrize(
    "document",
    [
        {"law": "disc", "pairs": "1", "rate": "1/2"},
        {"law": "disc", "pairs": 1.0, "rate": "1/2"},
        {"law": "disc", "pairs": True, "rate": "1/2"},
        {"law": "disc", "pairs": 0, "rate": "1/2"},
        {"law": "disc", "pairs": 1, "rate": 0.5},
        {"law": "disc", "pairs": 1, "rate": "0/2"},
        {"law": "disc", "pairs": 1, "rate": "1/0"},
        {"law": "cube", "size": -3, "rate": "1/2"},
        {"law": "cube", "size": 1, "rate": "1"},
        {"law": "ball", "size": 1, "rate": "1/2"},
    ],
)
def test_broken_documents_are_refused(document: dict[str, object]) -> None:
    with pytest.raises(InputError):
        law_from_document(document)
