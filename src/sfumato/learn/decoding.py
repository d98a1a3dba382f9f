"""`decode`: what a release is about, in words of a public vocabulary.

Source: private class decoding, Wagner (2025) (3.3 and 4.4): the words of highest density. Every word here
has an error bar, and one that may have come to the top by noise alone is marked.

A word is marked as noise unless its answer exceeds the vocabulary's mean answer by z standard errors. z is the point
that the largest of V standard normal numbers, V the number of words, exceeds with a probability below 1 %: about 5 for
20,000 words. If the release were nothing but noise, a word would be left unmarked with a probability of about 1 %, and
2 % where the noise is that of a ball in few dimensions, whose length differs from release to release. The comparison is
with the mean and not with zero because all words resemble all texts a little: a word that is on the list only because
noise lifted it above its equals is far from zero.

This is post-processing of a release: it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from sfumato.errors import InputError
from sfumato.kernels import Distance
from sfumato.public.codec import brief
from sfumato.quantizers.base import Floats
from sfumato.release import Release
from sfumato.sources import open_source

FALSE_ALARM = 0.01
BATCH_ROWS = 16_384


@dataclass(frozen=True)
class Word:
    """A word of a decoded release.

    Attributes
    ----------
    word : str
        The word.
    value, std : float
        Its mean similarity to the records (for a release of distances, its mean distance), and the standard error.
    noise : bool
        Whether noise alone may have brought it here.
    """

    word: str
    value: float
    std: float
    noise: bool

    def __str__(self) -> str:
        return f"{self.word} {self.value:.4g} +- {self.std:.2g}{' (may be noise)' if self.noise else ''}"


def decode(release: Release, vocabulary: Any, words: Sequence[str] | Any, top: int = 10) -> list[Word]:
    """Name the words that a release's records resemble most.

    Parameters
    ----------
    release : Release
        The records' release, such as that of one class of a `DensityClassifier`.
    vocabulary : array, frame, table, path or Source
        Public embeddings of the words, one row a word, made as the records were.
    words : sequence of str
        The words, in the order of the rows.
    top : int
        How many to return.

    Returns
    -------
    list of Word
        Most similar first.

    Examples
    --------
    >>> from sfumato import PrivateKDE
    >>> records = np.tile([[0.6, 0.8, 0.0]], (1000, 1))
    >>> release = PrivateKDE("inner-product", bandwidth=1.0, epsilon=1.0, n_hint=1000).fit(records).release_
    >>> found = decode(release, np.eye(3), ["sea", "ship", "tax"], top=2)
    >>> [word.word for word in found], found[0].noise
    (['ship', 'sea'], False)
    """
    if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
        raise InputError(f"top must be a positive number of words, got {brief(top)}")
    if not isinstance(release, Release):
        raise InputError(f"decode reads a release, got {brief(release)}")
    source = open_source(vocabulary)
    try:
        if isinstance(words, set | frozenset):
            raise TypeError
        count, words = len(words), list(words)
    except TypeError:
        raise InputError(f"words must be a list in the order of the rows, got {brief(words)}") from None
    if source.dimension != release.dimension:
        raise InputError(
            f"the vocabulary has {source.dimension} columns and the release has {release.dimension}: embed the words "
            "as the records were embedded"
        )
    answers = [release.query(batch, return_std=True) for batch in source.batches(BATCH_ROWS)]
    values, errors = (np.concatenate([part[side] for part in answers] or [np.empty(0)]) for side in (0, 1))
    if len(values) != count:
        raise InputError(f"the vocabulary has {len(values)} rows and there are {count} words; pass one for each")
    sign = -1.0 if isinstance(release.kernel, Distance) else 1.0
    above = sign * (values - values.mean()) if len(values) else values
    order = np.argsort(-sign * values, kind="stable")[: int(top)]
    noise = may_be_noise(above, errors, len(values))
    return [Word(str(words[i]), float(values[i]), float(errors[i]), bool(noise[i])) for i in order]


def may_be_noise(above: Floats, errors: Floats, candidates: int) -> Any:
    """Tell which of the best among `candidates` answers noise alone explains.

    Examples
    --------
    >>> may_be_noise(np.array([4.0, 6.0]), np.array([1.0, 1.0]), candidates=20_000)
    array([ True, False])
    """
    limit = -float(ndtri(FALSE_ALARM / max(candidates, 1)))
    return ~(above > limit * errors)
