"""Public randomness: fixed numbers for every implementation to reproduce, and the right laws.

Each statistical test fails by chance with probability about 1e-6; seeds are fixed, so an unchanged stream never does.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import InputError
from sfumato.public.portable import BLOCK, FloatArray, PublicStream

FALSE_ALARM = 1e-6
SIX_SIGMA = 6.0
COUNT = 200_000

LAWS: dict[str, tuple[float, ...]] = {"uniforms": (), "normals": (), "cauchys": (), "laplaces": (), "stables": (1.5,)}


def draw(stream: PublicStream, law: str, count: int) -> FloatArray:
    result: FloatArray = getattr(stream, law)(count, *LAWS[law])
    return result


def test_words_are_the_key_stream_of_openssl() -> None:
    # openssl enc -aes-256-ctr -K $(sha256 of prefix, label and seed) -iv 0 on zero bytes, read as little-endian words
    expected = [4818412892423725540, 18432910998368650076, 15364497347114934190, 16408599954130205874]
    assert PublicStream(2**256 - 2, "café").words(4).tolist() == expected


VECTORS = {
    ("uniforms", ()): ([495603265, 859326279, 945192720, 110418062, 105989256, 122845834], "808423e9268eca24"),
    ("normals", ()): ([415066606, -1269028798, 432940770, 326487675, 1738943077, 1521647548], "56817f13577404f5"),
    ("cauchys", ()): ([-130279856, 1480909261, 2718930505, -3207165472, -3350776145, -2857607271], "971aac2a40e6ae00"),
    ("laplaces", ()): ([-85879954, 985525070, 1534856725, -1698105467, -1742060158, -1583583962], "30830aedb1d576ad"),
    ("stables", (1.0,)): (
        [-130279856, 2718930505, -3350776145, -1343944993, 379002085, 305374067],
        "2862019002cb08b2",
    ),
    ("stables", (1.5,)): (
        [-117886333, 2861945578, -3124637265, -1559435207, 309818295, 331228059],
        "0f637dd09b5a417f",
    ),
    ("stables", (2.0,)): (
        [-122081172, 3012413649, -3011141370, -1808406441, 304908053, 375525876],
        "e8754c1c5d0a207f",
    ),
}


@pytest.mark.parametrize(("law", "arguments"), VECTORS)
def test_vectors(law: str, arguments: tuple[float, ...]) -> None:
    rounded, digest = VECTORS[law, arguments]
    first = getattr(PublicStream(20240607, "test vectors"), law)(6, *arguments)
    assert np.rint(first * 2**30).astype(np.int64).tolist() == rounded
    # The digest covers every bit of a draw that ends inside a block.
    many = getattr(PublicStream(20240607, "test vectors"), law)(20_001, *arguments)
    assert hashlib.sha256(many.astype("<f8").tobytes()).hexdigest().startswith(digest)


@pytest.mark.parametrize("law", LAWS)
def test_calls_continue_the_stream(law: str) -> None:
    whole = draw(PublicStream(1, "split"), law, 3 * BLOCK)
    stream = PublicStream(1, "split")
    parts = np.concatenate([draw(stream, law, size) for size in (2, BLOCK + 6, 2 * BLOCK - 8)])
    np.testing.assert_array_equal(whole, parts)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("count", [0, 1, 7])
def test_the_first_of_many_are_the_few(law: str, count: int) -> None:
    few, many = (draw(PublicStream(1, "prefix"), law, size) for size in (count, 100))
    assert few.shape == (count,)
    np.testing.assert_array_equal(few, many[:count])


def test_words_may_be_split_inside_a_cipher_block() -> None:
    stream = PublicStream(1, "split")
    assert [*stream.words(1), *stream.words(4)] == PublicStream(1, "split").words(5).tolist()


def test_seed_and_label_both_matter() -> None:
    streams = [PublicStream(seed, label) for seed in (0, 1, 2**255) for label in ("", "a", "b", "a\0")]
    assert len({tuple(stream.words(2)) for stream in streams}) == len(streams)


@pytest.mark.parametrize("seed", [-1, 2**256, 1.0, True, "1", None])
def test_bad_seed(seed: object) -> None:
    with pytest.raises(InputError, match="public seed"):
        PublicStream(seed, "label")  # type: ignore[arg-type]


def test_numpy_seed_is_an_integer() -> None:
    assert PublicStream(np.int64(5), "x").words(1) == PublicStream(5, "x").words(1)  # type: ignore[arg-type]


@pytest.mark.parametrize("law", ["words", *LAWS])
def test_negative_count(law: str) -> None:
    with pytest.raises(InputError, match="negative"):
        getattr(PublicStream(1, "x"), law)(-1, *LAWS.get(law, ()))


@pytest.mark.parametrize("p", [0.99, 2.01, math.nan])
def test_stability_outside_its_range(p: float) -> None:
    with pytest.raises(InputError, match="between 1 and 2"):
        PublicStream(1, "x").stables(1, p)


class Fixed(PublicStream):
    """A stream whose words are all the same."""

    def __init__(self, word: int) -> None:
        super().__init__(0, "fixed")
        self.word = word

    def words(self, count: int) -> np.ndarray:
        return np.full(count, self.word, dtype=np.uint64)


@pytest.mark.parametrize("word", [0, 2**64 - 1, 2**63, 2**63 - 1])
def test_extreme_words_give_finite_numbers(word: int) -> None:
    uniform = Fixed(word).uniforms(1)[0]
    assert 0 < uniform < 1
    assert uniform == ((word >> 12) * 2 + 1) / 2**53
    for law in LAWS:
        assert np.isfinite(draw(Fixed(word), law, 2)).all()
    assert np.isfinite(Fixed(word).stables(2, 1.0)).all()
    assert np.isfinite(Fixed(word).stables(2, 2.0)).all()


def test_uniforms_are_symmetric() -> None:
    for word in (0, 1 << 12, 123456789 << 20):
        assert 1.0 - Fixed(word).uniforms(1)[0] == Fixed(2**64 - 1 - word).uniforms(1)[0]


@pytest.mark.parametrize("word", [0, 1 << 40, 1 << 62, 2**63 + 2**50, 2**64 - 1])
def test_inversions_follow_their_quantile_functions(word: int) -> None:
    uniform = Fixed(word).uniforms(1)[0]
    assert Fixed(word).cauchys(1)[0] == pytest.approx(stats.cauchy.ppf(uniform), rel=1e-10)
    assert Fixed(word).laplaces(1)[0] == pytest.approx(stats.laplace.ppf(uniform), rel=1e-10)


@pytest.mark.parametrize(
    ("law", "arguments", "distribution"),
    [
        ("uniforms", (), stats.uniform()),
        ("normals", (), stats.norm()),
        ("cauchys", (), stats.cauchy()),
        ("laplaces", (), stats.laplace()),
        ("stables", (1.0,), stats.cauchy()),
        ("stables", (2.0,), stats.norm(scale=math.sqrt(2))),
    ],
)
def test_kolmogorov_smirnov(law: str, arguments: tuple[float, ...], distribution: object) -> None:
    sample = getattr(PublicStream(3, "kolmogorov"), law)(COUNT, *arguments)
    assert stats.kstest(sample, distribution.cdf).pvalue > FALSE_ALARM  # type: ignore[attr-defined]
    # A scale that is 6 % off must be seen, or the test proves nothing.
    assert stats.kstest(1.06 * sample, distribution.cdf).pvalue < FALSE_ALARM  # type: ignore[attr-defined]


@pytest.mark.parametrize("p", [1.0, 1.1, 1.5, 1.9, 2.0])
@pytest.mark.parametrize("t", [0.1, 0.5, 1.0, 2.0])
def test_stable_characteristic_function(p: float, t: float) -> None:
    values = np.cos(t * PublicStream(4, "characteristic").stables(COUNT, p))
    # The variance of cos(tX) is (1 + phi(2t)) / 2 - phi(t)^2.
    expected = math.exp(-(t**p))
    deviation = math.sqrt(((1 + math.exp(-((2 * t) ** p))) / 2 - expected**2) / COUNT)
    assert abs(values.mean() - expected) < SIX_SIGMA * deviation


def test_stable_distribution_function() -> None:
    sample = PublicStream(5, "distribution").stables(COUNT, 1.5)
    for x in (-20.0, -1.0, 0.0, 0.3, 3.0, 50.0):
        probability = float(stats.levy_stable.cdf(x, 1.5, 0.0))
        deviation = math.sqrt(probability * (1 - probability) / COUNT)
        assert abs((sample <= x).mean() - probability) < SIX_SIGMA * deviation


@pytest.mark.parametrize("lag", [1, 2, 3])
def test_normals_are_uncorrelated(lag: int) -> None:
    sample = PublicStream(6, "lags").normals(COUNT)
    for transform in (np.asarray, np.square):
        values = transform(sample)
        assert abs(np.corrcoef(values[lag:], values[:-lag])[0, 1]) < SIX_SIGMA / math.sqrt(COUNT)


def test_bits_are_fair() -> None:
    words = PublicStream(8, "bits").words(COUNT)
    ones = np.unpackbits(words.view(np.uint8)).reshape(COUNT, 64).sum(axis=0, dtype=np.int64)
    assert np.abs(ones - COUNT / 2).max() < SIX_SIGMA * math.sqrt(COUNT) / 2
