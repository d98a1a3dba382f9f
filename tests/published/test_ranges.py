"""Mechanisms with an algorithm of their own keep to 64 bits, for any number of columns and of records."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.kernels import Gaussian
from sfumato.kernels.unscaled import Distance
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.gaussian import gaussian_multiplier
from sfumato.privacy.noise import DiscreteLaplace, comparing_rate, wrapped
from sfumato.published.gridded import LARGEST_ANSWER, NodeQueries, SecretSteps
from sfumato.published.learners import MultiplicativeWeights, SmallDatabase, concentrated
from sfumato.published.moments import Halves
from sfumato.published.noisy_sample import SecretSample, largest_sample, largest_step, loss
from sfumato.published.trees import column_epsilon
from sfumato.release import Count

# One node a column, two a column, and a few wide columns among many narrow ones.
SHAPES: list[Any] = [(1, (0, 3)), (26, (0, 0.4)), (14, (0, 1)), (30, [(0, 2)] * 2 + [(0, 0.1)] * 28), (200, (0, 0.4))]


def algorithm(method: str, columns: int, bounds: Any, n: int = 2048, **options: Any) -> Any:
    """Build a mechanism's algorithm for a Gaussian of bandwidth 1."""
    facts: dict[str, Any] = {"kernel": Gaussian(1.0), "dimension": columns, "epsilon": Fraction(1), "n": n}
    request = Request(**facts, feature_seed=1, bounds=bounds, options=options)
    return METHODS.build(method, request).algorithm


def exact_answers(queries: NodeQueries, histogram: np.ndarray) -> list[int]:
    """Answers in Python's integers, the products over all columns with more than one node."""
    table = histogram.astype(object).reshape(queries.shape)
    for column, matrix in enumerate(queries.axes):
        table = np.moveaxis(np.tensordot(matrix.astype(object), table, axes=(0, column)), 0, column)
    return [int(value) for value in np.asarray(table).reshape(-1)]


@pytest.mark.parametrize(("columns", "bounds"), SHAPES)
@pytest.mark.parametrize("records", [1, 2047, 2**31, 2**36])
def test_answers_are_exact(columns: int, bounds: Any, records: int) -> None:
    queries: NodeQueries = algorithm("pmw", columns, bounds).queries
    histogram = np.zeros(queries.grid.cells, dtype=np.int64)
    histogram[:: max(1, len(histogram) // 5)] = records // 5
    histogram[-1] += records - histogram.sum()
    answers = queries.answers(histogram)
    assert answers.tolist() == exact_answers(queries, histogram)
    assert 0 <= answers.min() <= answers.max() <= records * queries.scale


@pytest.mark.parametrize(("columns", "bounds"), SHAPES)
@pytest.mark.parametrize("method", ["pmw", "smalldb", "noisy-sample"])
@pytest.mark.parametrize("records", [2047, 2**40 - 1, 2**42, 2**50, 2**52])
def test_one_record_changes_every_answer_by_at_most_the_scale(
    method: str, columns: int, bounds: Any, records: int
) -> None:
    """Beyond the first C records too, where one more may take another's place."""
    queries: NodeQueries = algorithm(method, columns, bounds).queries
    cells, rng = queries.grid.cells, np.random.default_rng(5)
    for _ in range(5):
        histogram = rng.multinomial(records, np.full(cells, 1 / cells))
        more = histogram.copy()
        more[rng.integers(cells)] += 1
        before, after = queries.answers(histogram), queries.answers(more)
        assert np.abs(after - before).max() <= queries.scale
        assert before.min() >= 0 and int(before.max()) * queries.times <= LARGEST_ANSWER


def test_what_weights_look_at_moves_by_at_most_the_scale() -> None:
    """The event whose probability went from 0 to 1 with one record: 26 columns, 2,047 and 2,048 records."""
    learner: MultiplicativeWeights = algorithm("pmw", 26, (0, 0.4), rounds=1)
    seen: list[list[int]] = []

    class Watched(SecretSteps):
        def choose(self, scores: Any, rate: Fraction) -> int:
            seen[-1].append(int(scores.max()))
            return super().choose(scores, rate)

        def measure(self, value: int, law: Any) -> int:
            seen[-1].append(value)
            return super().measure(value, law)

    for records in (2047, 2048):
        seen.append([])
        learner.learn(learner.queries.answers(np.array([records])), 2047, Watched(SecureBits.seeded(1)))
    assert max(abs(after - before) for before, after in zip(*seen, strict=True)) <= learner.queries.scale


def test_the_sum_over_a_sample_moves_by_as_much_as_is_claimed() -> None:
    sample: SecretSample = algorithm("noisy-sample", 20, (0, 0.4), n=100_000)
    nodes = np.zeros(84, dtype=np.int64)
    for records in (2047, 99864, 2**45):
        before, after = (sample.total(np.array([count]), nodes) for count in (records, records + 1))
        assert abs(after - before) <= largest_sample(sample.sample) * sample.queries.scale


@pytest.mark.parametrize("records", [100, 2**41, 2**52])
def test_scores_of_sets_fit(records: int) -> None:
    choice: SmallDatabase = algorithm("smalldb", 1, (0, 1), points=64)
    cells = choice.queries.grid.cells
    histogram = np.zeros(cells, dtype=np.int64)
    histogram[0] = records
    more = histogram + np.eye(cells, dtype=np.int64)[1]
    for count in (1, 10**6, 2**62):
        before, after = (choice.errors(choice.queries.answers(own), count) for own in (histogram, more))
        assert before.min() >= 0 and after.min() >= 0
        assert np.abs(after - before).max() <= choice.points * choice.queries.scale


@pytest.mark.parametrize("method", ["pmw", "smalldb", "noisy-sample"])
@pytest.mark.parametrize("count", [1, 2**62])
def test_any_noisy_count_gives_a_release(method: str, count: int) -> None:
    made = algorithm(method, 1, (0, 3))
    sums = np.append(np.full(made.queries.grid.cells, 2**10 * 2**40), 0)
    if method == "noisy-sample":
        sums[:-1] = 2**10 * 1000  # the coins of more records would take long
    values = made(sums, Count(count, 1.0, public=False), SecureBits.seeded(3))
    assert values.dtype == np.int64


def test_squares_beyond_64_bits_are_published_modulo_them() -> None:
    halves = Halves(DiscreteLaplace(Fraction(1, 5)), DiscreteLaplace(Fraction(1, 5)))
    count = Count(10, 1.0, public=False)
    near = halves(np.array([0, 2**63 - 1, 1]), count, SecureBits.seeded(1))
    wrapped_around = halves(np.array([0, -(2**63), 1]), count, SecureBits.seeded(1))
    assert (int(near[1]) - int(wrapped_around[1])) % 2**64 == 2**64 - 1


def test_wrapped_is_addition_of_64_bits() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-(2**63), 2**63 - 1, size=(2, 100), dtype=np.int64)
    with np.errstate(over="ignore"):
        assert [wrapped(int(x) + int(y)) for x, y in zip(a, b, strict=True)] == (a + b).tolist()


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3, 1.0, 20.0])
@pytest.mark.parametrize("records", [200, 10**6, 10**15])
def test_the_step_of_a_sample_costs_no_more_than_epsilon(epsilon: float, records: int) -> None:
    assert loss(largest_step(epsilon, 100, records), 100, records) <= epsilon


@pytest.mark.parametrize("epsilon", ["1e-9", "1e-6", "1e-3", "1", "100"])
@pytest.mark.parametrize("delta", [1e-100, 1e-6, 0.5])
def test_roots_lose_no_digits_for_a_small_epsilon(epsilon: str, delta: float) -> None:
    """Both budgets are rounded down by 1e-9, which rounding of the formula must not use up."""
    kernel, exact = {"kernel": Gaussian(1.0)}, Fraction(epsilon)
    facts: dict[str, Any] = {"dimension": 5, "epsilon": exact, "n": 100, "feature_seed": 0, "delta": delta}
    with localcontext() as context:
        context.prec = 60
        nats = -Decimal(delta).ln()
        features = Request(**kernel, **facts).feature_epsilon
        whole = Decimal(features.numerator) / Decimal(features.denominator)
        rho = ((whole + nats).sqrt() - nats.sqrt()) ** 2
        assert Decimal(1 - 2e-9) < Decimal(concentrated(Request(**kernel, **facts))) / rho <= 1
        request = Request(kernel=Distance("l1"), bounds=(0, 1), neighbours="replace", **facts)
        each = column_epsilon(request, 5)
        slope, whole = (10 * nats).sqrt(), Decimal(epsilon)
        composed = ((slope**2 + 10 * whole).sqrt() - slope) / 5
        assert Decimal(each.numerator) / Decimal(each.denominator) <= max(composed, whole / 5)


def test_noise_that_is_compared_cannot_wrap() -> None:
    assert comparing_rate(Fraction(1, 2**50)) == Fraction(1, 2**50)
    with pytest.raises(InputError, match="comparisons"):
        comparing_rate(Fraction(1, 2**50 + 1))


@pytest.mark.parametrize(
    ("epsilon", "delta", "message"),
    [(1000.0, 1e-6, "epsilon up to 100"), (1e-9, 1e-100, "so little budget"), (1e-12, 1e-12, "so little budget")],
)
def test_budgets_beyond_gaussian_noise_are_refused(epsilon: float, delta: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        gaussian_multiplier(epsilon, delta)
