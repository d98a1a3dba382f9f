"""`sqeuclidean-published`: squared distances from a noisy mean and a noisy sum of squares around the mean.

Source: section D.1 of Backurs et al. (2024). With the mean u of the records, sum_x |x - y|^2 = V + n |y - u|^2, V =
sum |x - u|^2. Half of the budget is spent on V, the other half on the mean, coordinate by coordinate. The paper takes
n as public; here it is bought with the count's share where it is private. The constants are the exact ones, a third of
those in the paper's proof.

Guarantee. Values are integers from 0 to t_j above the box's lower edge. Adding a record x to n others changes V by n /
(n + 1) |x - u|^2, between 0 and D = sum_j t_j^2; replacing one by at most D too, because both V lie between the V of
the others and that plus D. Rounding V down keeps an integer bound. The sums move by at most sum_j t_j. A user's
records come and go one after the other. Laplace noise of rates e / (2 k D) and e / (2 k sum_j t_j), k the records of a
user, is e-DP.

Range. The sums of values fit 64 bits for fewer than 2^50 records. The sum of squares is known modulo 2^64, and so is V,
which is the sum of squares less an exact fraction, rounded down: its noisy value is published modulo 2^64, which is a
function of V and the noise together.

Error, to first order: the noise of V, of the sums times 2 |u - y|, and of the count times |y|^2 - |u|^2 (from the
lower edge). A mean over the records is divided by the same count, whose error partly cancels: `count_product`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.distances.columns import QUERIES, RECORDS, distance_method, evenly
from sfumato.errors import InputError
from sfumato.methods.method import Mechanism, Prediction
from sfumato.methods.request import COUNT_SHARE, Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteLaplace, wrapped
from sfumato.public.codec import Many, Real, Schema
from sfumato.quantizers.base import Bound, Floats, Integers, LinearQuantizer, Reading
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import kept_rows, whole_within
from sfumato.quantizers.described import GIVEN_BOX, Described, described
from sfumato.release import Count

NAME, METRICS = "sqeuclidean-published", ("sqeuclidean",)
STEPS = 1 << 12  # of the widest column


@dataclass(frozen=True, eq=False)
class PublishedMoments(Described, LinearQuantizer):
    """Sums of values, of their squares, and the number of records; published as sums, V and number.

    Attributes
    ----------
    bounds : Box
        The public box.
    variances : tuple of float
        Noise variances of the published V and number, in units of that of a sum.

    Examples
    --------
    >>> moments = PublishedMoments(Box((0.0,), (1.0,)), (1.0, 0.0))
    >>> moments.encode(np.array([[0.0], [1.0]]))
    array([[       0,        0,        1],
           [    4096, 16777216,        1]])
    """

    bounds: Box
    variances: tuple[float, ...]

    name: ClassVar[str] = "published-moments"
    fixed_weights: ClassVar[bool] = False
    schema: ClassVar[Schema] = described(name, GIVEN_BOX, variances=Many(Real(0.0, 1e100), most=2, least=2))

    @property
    def width(self) -> int:
        """A sum for every column, squares and number."""
        return self.bounds.dimension + 2

    @property
    def unit(self) -> float:
        """Length of one step."""
        return float(2 * self.bounds.half_widths.max() / STEPS)

    @property
    def tops(self) -> tuple[int, ...]:
        """Largest integer of every column."""
        return tuple(math.ceil(length / self.unit) for length in 2 * self.bounds.half_widths)

    @property
    def bound(self) -> Bound:
        """Bounds of one record's integers, which the mechanism does not publish as they are."""
        square = sum(top**2 for top in self.tops)
        return Bound(sum(self.tops) + square + 1, square + square**2 + 1, max(square, 1))

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows."""
        steps = (kept_rows(self.bounds, rows) - np.array(self.bounds.lower)) / self.unit
        values = whole_within(np.rint(steps), 0, self.tops)
        return np.column_stack([values, np.square(values).sum(axis=1), np.ones(len(values), dtype=np.int64)])

    def weights(self, Y: Floats) -> Floats:
        """Refuse: the answer is not linear in what is published."""
        raise InputError(f"answers of {NAME} are not linear in what it publishes; use read")

    def weigh(self, Y: Floats, sums: Floats) -> Reading:
        """Answer from the noisy mean, V and number; errors to first order."""
        number = max(float(sums[-1]), 1.0)
        mean, offsets = sums[:-2] / number, (Y - np.array(self.bounds.lower)) / self.unit
        away = np.square(offsets - mean).sum(axis=1)
        by_number = np.square(offsets).sum(axis=1) - float(np.square(mean).sum())
        # The product first: far queries may have an infinite square, which no variance of 0 may be multiplied by.
        squares = 4 * away + self.variances[0] + np.square(math.sqrt(self.variances[1]) * by_number)
        return Reading(
            self.unit**2 * (sums[-2] + number * away),
            self.unit**4 * squares,
            np.zeros(len(Y)),
            count_product=self.unit**2 * self.variances[1] * by_number,
        )


@dataclass(frozen=True)
class Halves:
    """The mechanism on exact sums: one law for every column's sum, one for V; the count was bought before."""

    sums_law: DiscreteLaplace
    square_law: DiscreteLaplace

    def __call__(self, sums: Integers, count: Count, bits: SecureBits) -> Integers:
        """Return what is published."""
        around = wrapped(squares_around_mean(sums) + int(self.square_law.sample(bits, 1)[0]))
        noisy = sums[:-2] + self.sums_law.sample(bits, len(sums) - 2)
        return np.array([*noisy, around, count.value], dtype=np.int64)


def build(request: Request) -> Mechanism:
    """Choose the rates and the algorithm."""
    request.check_options()
    request = _with_count(request)
    tops = PublishedMoments(request.box, (0.0, 0.0)).tops
    half = request.feature_epsilon / (2 * request.records_per_user)
    sums_law = DiscreteLaplace(half / sum(tops))
    square_law = DiscreteLaplace(half / sum(top**2 for top in tops))
    count_variance = 0.0 if request.count_law is None else request.count_law.variance
    variances = square_law.variance / sums_law.variance, count_variance / sums_law.variance
    quantizer = PublishedMoments(request.box, variances)

    return Mechanism.of(
        request,
        NAME,
        quantizer,
        sums_law,
        algorithm=Halves(sums_law, square_law),
    )


def squares_around_mean(sums: Integers) -> int:
    """V, rounded down, from exact sums of values, of their squares, and the number of records.

    Examples
    --------
    >>> squares_around_mean(np.array([3, 5, 2]))
    0
    """
    *values, squares, number = map(int, sums)
    if not number:
        return 0
    return math.floor(squares - Fraction(sum(value**2 for value in values), number))


def _with_count(request: Request) -> Request:
    """Buy the count where it is private: the sums do not hold it."""
    return request.with_options(count_share=COUNT_SHARE) if request.reads_count else request


def forecast(request: Request) -> Prediction:
    """Predict the error for evenly spread records."""
    mechanism = build(request)
    quantizer = mechanism.encoder
    assert isinstance(quantizer, PublishedMoments)
    encoded = quantizer.encode(evenly(request.box, RECORDS, "records")).sum(axis=0)
    values = np.array([*encoded[:-2], squares_around_mean(encoded), RECORDS]) * (request.n / RECORDS)
    reading = quantizer.weigh(evenly(request.box, QUERIES, "queries"), values)
    squares = mechanism.noise.variance * reading.weight_squares
    return Prediction(
        rmse=math.sqrt(squares.mean()),
        worst=math.sqrt(squares.max()),
        integers=quantizer.size,
        parameters=mechanism.parameters,
    )


METHOD = distance_method(
    NAME,
    "noisy mean and squares around it, half of epsilon each (as published)",
    build,
    forecast,
    METRICS,
    baseline=True,
    pure=True,
)
