"""Checked landmarks: the features of a public sample, and unbiased Fourier sums of the same records beside them.

Source: the Nystroem features of `landmarks`, the random Fourier features of `fourier` and `sharded`; the difference
between the two is a kernel of its own. With f and g the landmarks' features, k(x, y) = f(x).g(y) + h(x, y), and
h(x, y) = E_w[(phi_w(x) - proj)(phi_w(y) - proj)], where proj takes a frequency's (cos, sin) at a point to its
projection onto the landmarks' directions: phi_w(y) - sum_z c_z(y) phi_w(z), c(y) = W g(y), W the projection of
`landmarks`. So h is positive definite, h(y, y) = 1 - |g(y)|^2, and the Fourier sums measure what landmarks miss.

Integers: those of both parts, one after the other. Bound of one record: the sum of the parts' (l1, l2^2) bounds.

Reading. The landmarks' answer is A(y) = k(y, Z).b, with weights b on the landmarks: W times the released features, and
the completion. T_j are the Fourier sums of frequency j, R_j = T_j - sum_z b_z phi_j(z) what A does not explain of them,
and E(y) = mean_j R_j.phi_j(y). The measured difference is E less its projection onto the landmarks' directions,

    D(y) = E(y) - g(y).W' E(Z) - n g(y).W' c(Z),

c the completion, whose projection E less its own does not hold. D is an unbiased estimate, over the draw of frequencies
and noise, of what A misses at y (for records whose features were not clamped). But for the last part it is the mean of
m terms R_j.(phi_j(y) - proj), one for each frequency, and v(y), their sample variance over m, estimates its variance:
noise, coins and approximation together, as the release itself shows them. The terms' mean square is near
S (1 - |g(y)|^2) / 2, S the mean of |R_j|^2: where landmarks reach y, the error of D is small.

Answer: A(y) + l(y) D(y), with a weight from the release alone (the same query has the same answer):
l = max((1 - 9 v / D^2)+, t / (t + v)).
- The first is for a difference of its own, beyond three deviations (the non-negative garrote): where v is far above
  what a good sample misses, false alarms cost little.
- The second is for all queries, the weight of least error where A misses a mean square of t. Records like the public
  sample miss what its size leaves to chance, in mean square `Resemblance.bias_share` times 1 - |g(y)|^2. |R|^2 has the
  mean H + known noise, H the squared length of the mean of what A misses, of which a sample of L points misses
  (1 - |f|^2) / L by chance. What H has beyond that and three of its own deviations is real; a query like the records
  sees the share P of it at most, P the mean kernel value of the records. So t is the sum of both,
  (bias_share + P (H - ...)+) (1 - |g(y)|^2).

Error bar: squared, the noise of A, v, and (1 - l)^2 (D^2 - v)+, what was measured and not corrected. It assumes nothing
of the records: landmarks that resemble them give smaller errors, and bars no smaller than the check can confirm.

In cells (`cells`) the sums are those of records with weights: all of this holds for them, n being the sum of the
weights as far as the sums show it. It counts what the sums are compared with, and cancels from answers and bars.

`bias_bound`: by Cauchy and Schwarz A misses at most sqrt(H (1 - |g(y)|^2)); H is at most its estimate plus five
deviations, and at most what the residual says (`landmarks`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.laws import NoiseLaw
from sfumato.public.codec import Object, Schema
from sfumato.public.ranges import DRAWN_BYTES, check_reader_cost
from sfumato.quantizers.answer import Answer, Combined, answer_from_terms
from sfumato.quantizers.base import MOST_DRAWN, Bound, Floats, Integers, Known, Quantizer, drawn_again, stored_array
from sfumato.quantizers.box import Box
from sfumato.quantizers.fourier import FourierQuantizer, ShardedFourier
from sfumato.quantizers.landmarks import LandmarkQuantizer
from sfumato.quantizers.resemblance import CONFIDENT

Pairs = FourierQuantizer | ShardedFourier
PAIRS: dict[str, type[Pairs]] = {kind.name: kind for kind in (FourierQuantizer, ShardedFourier)}
CLEAR = 3.0  # deviations from which a difference at a query is believed
SURE = 3.0  # and one at all queries
BLOCK_NUMBERS = 1 << 21
EXPLAINED_BYTES = 8  # of one number of W' times the waves at the landmarks, which are kept
# Products that these take, once for all answers of a release: up to half a minute, where a small file takes seconds.
# A wave at a landmark takes as long as so many products.
MOST_EXPLAINED, WAVE_PRODUCTS = 2**40, 4096


@dataclass(frozen=True, eq=False)
class Difference:
    """What the Fourier sums of one release show of what its landmarks miss.

    Attributes
    ----------
    sums : ndarray
        R, in the Fourier sums' integers.
    energy, energy_error : float
        H, per record squared, and its standard error.
    completed : ndarray, shape (rank,)
        n W' c(Z): g(y).completed is the completion's projection.
    expected : float
        As a sum over the records, what is t(y) where landmarks reach nothing: t(y) is it times 1 - |g(y)|^2.
    """

    sums: Floats
    energy: float
    energy_error: float
    completed: Floats
    expected: float


@dataclass(frozen=True, eq=False)
class CheckedLandmarks(Quantizer):
    """Landmark features and Fourier pairs of the same records; see the module's text.

    Attributes
    ----------
    landmarks : LandmarkQuantizer
        The features that answer.
    pairs : FourierQuantizer or ShardedFourier
        The pairs that check, over the same box.
    """

    landmarks: LandmarkQuantizer
    pairs: Pairs

    name: ClassVar[str] = "checked-landmarks"
    kernels = ShiftInvariantKernel
    schema = Schema({"quantizer": name}, landmarks=Object(), pairs=Object())

    def __post_init__(self) -> None:
        if self.landmarks.box != self.pairs.box or self.pairs.width != 2:
            raise InputError("landmarks are checked by pairs of cosines and sines over the same box")

    @property
    def parts(self) -> tuple[LandmarkQuantizer, Pairs]:
        """Both, in the order of their integers."""
        return self.landmarks, self.pairs

    @property
    def box(self) -> Box:
        """The box of both parts."""
        return self.landmarks.box

    @property
    def width(self) -> int:
        """All integers: there is nothing to average over."""
        return self.landmarks.size + self.pairs.size

    @property
    def query_products(self) -> int:
        """Kernel values, projection and cosines of one query."""
        rank = self.landmarks.rank
        return len(self._points) * (self.dimension + rank) + self.pairs.terms * (self.dimension + rank)

    @property
    def query_numbers(self) -> int:
        """Kernel values, features and terms."""
        return max(self.landmarks.query_numbers, self.pairs.terms)

    @property
    def bound(self) -> Bound:
        """Bounds of one record: those of both parts together."""
        first, second = self.landmarks.bound, self.pairs.bound
        return Bound(first.l1 + second.l1, first.l2_squared + second.l2_squared, max(first.largest, second.largest))

    @property
    def _points(self) -> Floats:
        return self.landmarks.fitted.points

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows, the landmarks' first."""
        return np.concatenate([self.landmarks.encode(rows), self.pairs.encode(rows, coins)], axis=1)

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers to the sums of both parts, in one pass over the rows."""
        first, second = self._cut(sums)
        kept = self.landmarks.accumulate(rows, first)
        if self.pairs.accumulate(rows, second, coins) != kept:
            raise AssertionError("both parts keep the rows of one box")
        return kept

    def _cut(self, sums: Any) -> tuple[Any, Any]:
        return sums[: self.landmarks.size], sums[self.landmarks.size :]

    @property
    def _decoding(self) -> float:
        """What an integer of the Fourier sums stands for."""
        return self.pairs.shards / self.pairs.gain

    def _angles(self, Y: Floats) -> Floats:
        return np.asarray(2 * np.pi * self.pairs.phases.turns(Y))

    def _pairs_at(self, Y: Floats) -> Floats:
        """(cos, sin) of every frequency, shape (len(Y), 2 m)."""
        angles = self._angles(Y)
        return np.stack([np.cos(angles), np.sin(angles)], axis=2).reshape(len(Y), self.pairs.size)

    @cached_property
    def _directions(self) -> Floats:
        """W, which is in units of 2^-bits in the file."""
        return np.ldexp(self.landmarks.projection, -self.landmarks.bits)

    @cached_property
    def _explained(self) -> Floats:
        """W' times the (cos, sin) of every frequency at the landmarks, and c times them in the last row."""
        weights = np.column_stack([self._directions, self.landmarks.completion])
        total, block = np.zeros((weights.shape[1], self.pairs.size)), max(1, BLOCK_NUMBERS // self.pairs.size)
        for start in range(0, len(weights), block):
            part = slice(start, start + block)
            waves = self._pairs_at(self._points[part])
            for row in range(0, len(total), block):  # all rows at once would take the memory of the result again
                rows = slice(row, row + block)
                total[rows] += weights[part, rows].T @ waves
        return total

    @cached_property
    def _seen(self) -> dict[tuple[bytes, Known], Difference]:
        return {}

    def difference(self, sums: Floats, known: Known) -> Difference:
        """Measure what the landmarks' answer misses; once for all queries of one release."""
        key = sums.tobytes(), known
        found = self._seen.get(key)
        if found is None:
            found = self._measure(sums, known)
            self._seen.clear()
            self._seen[key] = found
        return found

    def _measure(self, sums: Floats, known: Known) -> Difference:
        own, waves = self._cut(sums)
        records = _records(known)
        left = waves - np.append(own[:-1] / self.landmarks.amplitude, records) @ self._explained / self._decoding
        energy, error = self._similarity(left, known)
        similar = max(self._similarity(waves, known)[0], 0.0)
        real = similar * max(energy - self.energy_by_chance - SURE * error, 0.0)
        expected = (self.landmarks.resemblance.bias_share + real) * records**2
        return Difference(left, energy, error, records * self._projected_completion, expected)

    @cached_property
    def _projected_completion(self) -> Floats:
        """W' c(Z), per record."""
        return np.asarray(self.landmarks.features(self._points)[1].T @ self.landmarks.completion)

    @property
    def energy_by_chance(self) -> float:
        """H of records like the public sample."""
        return self.landmarks.resemblance.residual / len(self._points)

    def _similarity(self, waves: Floats, known: Known) -> tuple[float, float]:
        found = self.pairs.similarity(waves, replace(known.of_part(1), count=max(_records(known), 1.0)))
        assert found is not None
        return found

    def _terms(self, Y: Floats, features: Floats, found: Difference) -> Floats:
        """Terms of D, shape (len(Y), m)."""
        terms, block = np.empty((len(Y), self.pairs.terms)), max(1, BLOCK_NUMBERS // self.pairs.size)
        for start in range(0, len(Y), block):
            part = slice(start, start + block)
            weighed = self._apart(Y[part], features[part]) * (found.sums * self._decoding)
            terms[part] = weighed.reshape(-1, self.pairs.terms, 2).sum(axis=2)
        return terms

    def _apart(self, Y: Floats, features: Floats) -> Floats:
        """(cos, sin) of every frequency less their projection, shape (len(Y), 2 m)."""
        return np.asarray(self._pairs_at(Y) - features @ self._explained[:-1])

    def _missed(self, Y: Floats, features: Floats, found: Difference) -> tuple[Floats, Floats]:
        """D and v at queries, as sums over the records; v is infinite where one term shows no spread."""
        answer = answer_from_terms(self._terms(Y, features, found))
        return answer.total - features @ found.completed, np.square(answer.standard_error)

    @staticmethod
    def _share(missed: Floats, variance: Floats, features: Floats, found: Difference) -> Floats:
        """Weight l of D in the answers."""
        own = 1 - CLEAR**2 * variance / np.maximum(np.square(missed), 1e-300)
        expected = found.expected * np.maximum(1 - np.square(features).sum(axis=1), 0.0)
        return np.asarray(np.maximum(np.maximum(own, 0.0), expected / np.maximum(expected + variance, 1e-300)))

    def read(self, Y: Floats, sums: Floats, known: Known) -> Answer:
        """Correct the landmarks' answers by the measured difference, and state what was not corrected as bias."""
        own, _ = self._cut(sums)
        found = self.difference(sums, known)
        values, features = self.landmarks.features(Y)
        missed, variance = self._missed(Y, features, found)
        share = self._share(missed, variance, features, found)
        records = _records(known)
        total = features @ own[:-1] / self.landmarks.amplitude + records * (values @ self.landmarks.completion)
        noise = known.of_part(0).noise_variance * np.square(features).sum(axis=1) / self.landmarks.amplitude**2
        bias = (1 - share) * np.sqrt(np.maximum(np.square(missed) - variance, 0.0)) / max(records, 1.0)
        return Answer(total + share * missed, np.sqrt(noise + variance), bias)

    def combined(self, Y: Floats, coefficients: Floats, sums: Floats, known: Known) -> Combined:
        """Combine answers: the noise of the combined features, and the spread of the combined difference."""
        found, answers = self.difference(sums, known), np.empty(len(Y))
        terms, features, stated = np.zeros((1, self.pairs.terms)), np.zeros(self.landmarks.rank), 0.0
        block = max(1, BLOCK_NUMBERS // self.pairs.size)
        for start in range(0, len(Y), block):
            part = slice(start, start + block)
            answer, own = self.read(Y[part], sums, known), self.landmarks.features(Y[part])[1]
            each = self._terms(Y[part], own, found)
            answers[part], missed = answer.total, each.mean(axis=1) - own @ found.completed
            stated += known.count * float(coefficients[part] @ (np.sign(missed) * answer.bias))
            terms += coefficients[part] @ each
            features += coefficients[part] @ own
        noise = known.of_part(0).noise_variance * float(features @ features) / self.landmarks.amplitude**2
        spread = float(answer_from_terms(terms).standard_error[0]) ** 2
        return Combined(float(coefficients @ answers), noise + spread, answers, abs(stated))

    def weights(self, Y: Floats) -> Floats:
        """Weights of A + D without completion, which is unbiased."""
        _, features = self.landmarks.features(Y)
        apart = self._apart(Y, features)
        own = features - apart @ self._explained[:-1].T / self.pairs.terms
        first = np.column_stack([own / self.landmarks.amplitude, np.zeros(len(Y))])
        return np.concatenate([first, apart * (self._decoding / self.pairs.terms)], axis=1)

    def error_paths(
        self, Y: Floats, sums: Floats, noise: NoiseLaw, groups: int, draws: int, seed: int
    ) -> Floats | None:
        """Draw the landmarks' noise again, and weigh the terms of D by normal multipliers."""
        few = len(Y) * self.pairs.terms <= 8 * MOST_DRAWN
        drawn = drawn_again(noise, self.size, draws, seed) if few else None
        if drawn is None:
            return None
        found, features = self._measure(sums, Known(noise.variance)), self.landmarks.features(Y)[1]
        terms = self._terms(Y, features, found)
        terms -= terms.mean(axis=1, keepdims=True)
        multipliers = np.random.default_rng(seed).normal(size=(draws, self.pairs.terms))
        own = drawn[:, : self.landmarks.rank]
        return np.asarray(own @ features.T / self.landmarks.amplitude + multipliers @ terms.T / self.pairs.terms)

    def bias_bound(self, Y: Floats, sums: Floats, known: Known) -> Floats:
        """Limit of what the answers miss, whatever the records are; see the module's text."""
        found, (_, features) = self.difference(sums, known), self.landmarks.features(Y)
        reach = np.maximum(1 - np.square(features).sum(axis=1), 0.0)
        missed, variance = self._missed(Y, features, found)
        energy, part = max(found.energy, 0.0) + CONFIDENT * found.energy_error, 1.0
        if known.records:  # weighted records have less of an energy of their own than was taken off
            energy, part = energy + self.pairs.shards / known.records, known.records / known.count
        rounding = (math.sqrt(self.landmarks.rank) + 2) / self.landmarks.amplitude
        measured = part * np.sqrt(energy * reach) + rounding
        least = np.minimum(self.landmarks.bias_bound(Y, self._cut(sums)[0], known.of_part(0)), measured)
        return np.asarray((1 - self._share(missed, variance, features, found)) * least)

    def records_shown(self, sums: Floats, known: Known) -> tuple[float, float]:
        """Estimate the number of records as if they resembled the landmarks."""
        reference, amplitude = self.landmarks.reference, self.landmarks.amplitude
        length = max(math.sqrt(float(reference @ reference)), 1e-9)
        noise = math.sqrt(known.of_part(0).noise_variance) / (amplitude * length)
        return float(sums[: len(reference)] @ reference) / (amplitude * length**2), noise

    def similarity(self, sums: Floats, known: Known) -> tuple[float, float] | None:
        """Estimate P from the Fourier sums."""
        return self.pairs.similarity(self._cut(sums)[1], known.of_part(1))

    def findings(self, sums: Floats, known: Known) -> dict[str, float]:
        """Mean residual of the records, its limit, that of public points; and the difference that was measured.

        `difference` is H, the squared length of what the landmarks' answers miss on average, with its standard error;
        `difference_by_chance` what a public sample like the records misses.
        """
        own = self.landmarks.findings(self._cut(sums)[0], known.of_part(0))
        del own["bias_inflation"]  # the check replaces what resemblance was inferred from
        found = self.difference(sums, known)
        return own | {
            "difference": found.energy,
            "difference_error": found.energy_error,
            "difference_by_chance": self.energy_by_chance,
        }

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return both parts' descriptions, and the landmarks' arrays."""
        return self.schema.write(self), self.landmarks.to_document()[1]

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild both parts; what the pairs hold is checked against what the landmarks leave."""
        kind = PAIRS.get(str(fields["pairs"].get("quantizer")))
        if kind is None:
            raise ReleaseFileError("landmarks are checked by Fourier features")
        rank = stored_array(arrays, "projection", "i", (None, None)).shape[1]
        if not 0 < rank + 1 < size:
            raise ReleaseFileError(f"{rank} directions and their check do not fit {size} integers")
        own = LandmarkQuantizer.from_document(fields["landmarks"], arrays, kernel, rank + 1)
        _check_explained(own, size - rank - 1)
        made = cls(own, kind.from_document(fields["pairs"], {}, kernel, size - rank - 1))
        check_reader_cost(0, made.query_products)
        return made


def _check_explained(own: LandmarkQuantizer, waves: int) -> None:
    """Refuse landmarks that explain so many sums of waves that a small file takes much memory or time."""
    landmarks = len(own.fitted.points)
    check_reader_cost(landmarks * (own.dimension + own.rank))
    check_reader_cost((own.rank + 1) * waves * EXPLAINED_BYTES / DRAWN_BYTES)
    work = landmarks * waves * (own.dimension + own.rank + WAVE_PRODUCTS)
    if work > MOST_EXPLAINED:
        raise InputError(
            f"explaining {waves} sums by {landmarks} landmarks takes {work:.3g} products, and {MOST_EXPLAINED} are the "
            "most"
        )


def _records(known: Known) -> float:
    """Return how many records the sums stand for: all, or those that a cell's query sees."""
    return known.records or known.count
