"""Decoding: the right words, their error bars, and marks on words that are only noise."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import InputError, PrivateDistance, PrivateKDE
from sfumato.kernels import Gaussian
from sfumato.learn import DensityClassifier, Word, decode
from sfumato.learn.decoding import may_be_noise

from .conftest import CLASSES, texts

RANDOM = np.random.default_rng(3)
WORDS = [f"word{i}" for i in range(400)]
VOCABULARY = RANDOM.normal(size=(400, 30))
VOCABULARY /= np.linalg.norm(VOCABULARY, axis=1, keepdims=True)
POINTS, LABELS = texts(4000, 1)
SEEDED: dict[str, Any] = {"epsilon": 3, "classes": CLASSES, "n_hint": 4000, "random_state": 3, "feature_seed": 4}


def test_words_are_those_of_the_exact_means() -> None:
    model = DensityClassifier(**{**SEEDED, "epsilon": 1000}).fit(POINTS, LABELS)
    for name, release in model.releases_.items():
        similarities = VOCABULARY @ POINTS[name == LABELS].mean(axis=0)
        found = decode(release, VOCABULARY, WORDS, top=5)
        # Noise is 4e-6: two of the best differ by less, and change places, in one of 200 rounds.
        best = np.sort(similarities)[::-1][:5]
        assert len({word.word for word in found}) == 5
        assert np.allclose([similarities[WORDS.index(word.word)] for word in found], best, rtol=0, atol=6e-5)
        assert np.allclose([word.value for word in found], best, atol=1e-3)
        assert not any(word.noise for word in found)


def test_error_bars_are_the_releases_own() -> None:
    release = DensityClassifier(**SEEDED).fit(POINTS, LABELS).releases_["art"]
    answers, errors = release.query(VOCABULARY, return_std=True)
    for word in decode(release, VOCABULARY, WORDS, top=7):
        place = WORDS.index(word.word)
        assert (word.value, word.std) == (answers[place], errors[place])


def test_nothing_but_noise_is_marked() -> None:
    """60 releases of nobody leave a word unmarked with probability 2.2 % each: 10 or more with probability 7e-7."""
    release = PrivateKDE("inner-product", bandwidth=1.0, epsilon=1, n_hint=4000, feature_seed=1)
    missed = 0
    for seed in range(60):
        release.set_params(random_state=seed)
        # Nobody counts in the sums, and 4,000 do in the published number: the answers are noise and tell their error.
        empty = release.fit(np.zeros((4000, 30))).release_
        missed += any(not word.noise for word in decode(empty, VOCABULARY, WORDS, top=20))
    assert missed < 10


def test_a_word_among_its_equals_is_marked() -> None:
    """All words resemble the records alike, so whichever leads, leads by noise, though far from zero.

    As above, one release in 45 leaves a word unmarked.
    """
    common = np.ones(30) / np.sqrt(30)
    records = np.tile(common, (4000, 1))
    words = VOCABULARY - np.outer(VOCABULARY @ common, common) + 0.8 * common
    model = PrivateKDE("inner-product", bandwidth=1.0, epsilon=1, n_hint=4000, feature_seed=1)
    missed = 0
    for seed in range(60):
        found = decode(model.set_params(random_state=seed).fit(records).release_, words, WORDS)
        assert all(word.value > 10 * word.std for word in found)
        missed += any(not word.noise for word in found)
    assert missed < 10


@pytest.mark.parametrize("model", [PrivateKDE(Gaussian(1.0), epsilon=40, n_hint=4000, random_state=1, feature_seed=1)])
def test_other_kernels_and_distances(model: PrivateKDE) -> None:
    near = decode(model.fit(POINTS[LABELS == "art"]).release_, VOCABULARY, WORDS, top=40)
    distance = PrivateDistance(
        "sqeuclidean", epsilon=5, bounds=(-1, 1), n_hint=4000, random_state=1, feature_seed=1
    ).fit(POINTS[LABELS == "art"])
    far = decode(distance.release_, VOCABULARY, WORDS, top=40)
    assert [word.value for word in far] == sorted(word.value for word in far)
    assert len({word.word for word in near} & {word.word for word in far}) > 20


def test_a_vocabulary_may_be_a_file(tmp_path: Path) -> None:
    release = DensityClassifier(**SEEDED).fit(POINTS, LABELS).releases_["sea"]
    np.save(tmp_path / "words.npy", VOCABULARY)
    assert decode(release, tmp_path / "words.npy", np.array(WORDS)) == decode(release, VOCABULARY, WORDS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"words": WORDS[:-1]}, "400 rows and there are 399 words"),
        ({"vocabulary": VOCABULARY[:, :5]}, "5 columns and the release has 30"),
        ({"top": 0}, "top must be a positive number"),
        ({"top": True}, "top must be a positive number"),
    ],
)
def test_refusals(change: dict[str, Any], message: str) -> None:
    release = DensityClassifier(**SEEDED).fit(POINTS, LABELS).releases_["art"]
    with pytest.raises(InputError, match=message):
        decode(**{"release": release, "vocabulary": VOCABULARY, "words": WORDS, **change})


def test_more_words_than_there_are_and_the_text_of_a_word() -> None:
    release = DensityClassifier(**SEEDED).fit(POINTS, LABELS).releases_["art"]
    assert len(decode(release, VOCABULARY, WORDS, top=1000)) == 400
    assert str(Word("sea", 0.125, 0.01, True)) == "sea 0.125 +- 0.01 (may be noise)"


def test_the_limit_grows_with_the_number_of_candidates() -> None:
    # P(Z > 2.33) is 1 %, and P(Z > 4.26) is 1e-5.
    assert may_be_noise(np.array([2.3, 2.4, 5.0]), np.ones(3), 1).tolist() == [True, False, False]
    assert may_be_noise(np.array([4.2, 4.3, np.nan]), np.ones(3), 1000).tolist() == [True, False, True]
    assert may_be_noise(np.array([9.0]), np.array([np.inf]), 1).all()


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("SFUMATO_DATA"), reason="SFUMATO_DATA does not name the folder of real data")
def test_eight_of_ten_words_of_each_class_of_the_news_are_its_own() -> None:
    folder = Path(os.environ["SFUMATO_DATA"])
    train, words = (np.load(folder / f"minilm_{part}.npz") for part in ("agnews_train20k", "words20k"))
    points, labels = train["E"].astype(np.float32), train["y"]
    means = np.array([points[labels == c].mean(axis=0, dtype=np.float64) for c in range(4)])
    own = dict(zip(words["words"].tolist(), (words["E"] @ means.T).argmax(axis=1).tolist(), strict=True))
    model = DensityClassifier(epsilon=3, classes=range(4), n_hint=20_000, random_state=1, feature_seed=1)
    for label, release in model.fit(points, labels).releases_.items():
        found = decode(release, words["E"].astype(np.float32), words["words"])
        assert sum(own[word.word] == label for word in found) >= 8
        assert not any(word.noise for word in found)
