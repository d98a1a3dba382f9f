"""What the mechanisms on a discretised box share: the grid, kernel queries at its nodes on integers, private steps.

The query class is the kernel at every node y of the grid: q_y(h) = sum_c h_c K(c, y) for a histogram h, with K(c, y) =
prod_j rint(s_1 k_j(c_j, y_j)), integers from 0 to s, where the product is over the columns of more than one node (in
the others every record is at the query's node, and the factor is 1) and s = s_1^(number of those columns). A record
adds to every query an integer from 0 to s, so adding, removing or replacing one changes every query by at most s.

Range. Mechanisms take at most 2^18 nodes, so at most 18 such columns, and s is 2^20 at most. The number of records is
private, and no limit of it may show in an error: answers are those of the first C records of the histogram, node by
node, where C s, and what a mechanism multiplies it by, is at most 2^62. A record more then leaves the first C as they
are, enters them, or takes the place of one: it changes every answer by at most s all the same. C is 2^36 or more. Only
2^53 records, which no run can read, would leave the 64 bits of the histogram's own sums.

Steps of the mechanisms that learn as they go: choose among candidates, and measure one number. Choosing is the
exponential mechanism (F. McSherry and K. Talwar, 2007) on integer scores, exactly: a candidate drawn uniformly is taken
with probability exp(-rate (best - score)), and another is drawn if it is not, so that Pr[i] is proportional to exp(rate
score_i). The coin is an exact geometric variable of that rate, which is at least m with probability exp(-rate m).
Nothing is rounded. Scores lie within 2^62 of 0, so that their differences fit 64 bits.

Guarantee. If neighbours change every score by at most D, Pr[i] changes by at most exp(2 rate D) =: exp(e). Adding one
number to all scores changes nothing, so the log ratio of any two outputs' probabilities moves by at most 2 rate D in
all: the mechanism has bounded range, and is e^2 / 8-zCDP (M. Cesar and R. Rogers, "Bounding, Concentrating, and
Truncating", 2021). Measuring adds discrete Laplace noise of rate e / D, which is e-DP, or discrete Gaussian noise of
standard deviation sigma, which is D^2 / (2 sigma^2)-zCDP (`privacy.noise`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import numpy as np

from sfumato.deferred import logsumexp
from sfumato.errors import InputError
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.laws import NoiseLaw
from sfumato.privacy.noise import geometric, wrapped
from sfumato.published.common import number_option, public_box, refuse_bounds, shown
from sfumato.published.synthetic import GridRecords
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.clamping import whole_within
from sfumato.quantizers.portable_kernels import axis_lengths, refuse_columns

SPACING = 0.5
# s near 2^20 leaves room for the noise.
SCALE_BITS = 20
# Answers, times what a mechanism multiplies them by, stay below this.
LARGEST_ANSWER = 2**62
# What stands for one synthetic record.
RECORD = 2**10


def refuse_grid(request: Request) -> str | None:
    """Why a discretised box does not apply."""
    return refuse_columns(request.kernel) or refuse_bounds(request)


def extents_of(request: Request) -> Floats:
    """Widths of the box in bandwidths."""
    lengths = axis_lengths(request.kernel, request.dimension)  # type: ignore[arg-type]
    return np.asarray(2 * public_box(request).half_widths / lengths)


def nodes_of(request: Request, spacing: float) -> tuple[int, ...]:
    """Count the cells of about `spacing` bandwidths of each column; their number in all may have many digits."""
    return tuple(max(1, math.ceil(extent / spacing - 1e-9)) for extent in extents_of(request).tolist())


def grid_of(request: Request, spacing: float, most: int) -> GridRecords:
    """Cut the box into cells of about `spacing` bandwidths, or say how many nodes that would take."""
    nodes = nodes_of(request, spacing)
    if math.prod(nodes) > most:
        raise InputError(
            f"a grid of {spacing:g} bandwidths takes {shown(math.prod(nodes))} nodes, and {most} are allowed: its work "
            "grows exponentially with the number of columns; pass options={'spacing': ...} or tighter bounds"
        )
    return GridRecords(request.kernel, public_box(request), nodes, RECORD)


def spacing_option(request: Request, default: float = SPACING) -> float:
    """Read the spacing of the grid, in bandwidths."""
    return number_option(request, "spacing", default)


@dataclass(frozen=True, eq=False)
class NodeQueries:
    """The kernel at every node of a grid, as integers: s of about `bits` bits, answers to be multiplied by `times`."""

    grid: GridRecords
    bits: int = SCALE_BITS
    times: int = 1

    def __post_init__(self) -> None:
        if self.most_records < 1:
            raise InputError(f"answers of {self.bits} bits times {self.times} do not fit 64-bit integers")

    @property
    def wide(self) -> tuple[int, ...]:
        """Columns of more than one node."""
        return tuple(column for column, count in enumerate(self.grid.nodes) if count > 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Nodes of those columns."""
        return tuple(self.grid.nodes[column] for column in self.wide)

    @property
    def unit(self) -> int:
        """s_1."""
        return int(2 ** max(1, self.bits // max(1, len(self.wide))))

    @cached_property
    def axes(self) -> list[Integers]:
        """Integer kernel matrix of each of those columns."""
        values = [self.grid.axis_values(column, self.grid.columns[column]) for column in self.wide]
        return [np.rint(self.unit * value).astype(np.int64) for value in values]

    @property
    def scale(self) -> int:
        """s, the most that one record adds to a query."""
        return int(self.unit ** len(self.wide))

    @property
    def most_records(self) -> int:
        """C, how many records answers are about at most; see the module's text."""
        return LARGEST_ANSWER // (self.scale * self.times)

    def histogram(self, sums: Integers) -> Integers:
        """Exact numbers of records at the nodes."""
        return np.asarray(sums[:-1] // self.grid.scale)

    def answers(self, histogram: Integers) -> Integers:
        """Answers to all queries, exactly, for the first C records."""
        within = np.minimum(np.cumsum(histogram), self.most_records)
        table = np.diff(within, prepend=0).reshape(self.shape)
        for column, matrix in enumerate(self.axes):
            table = np.moveaxis(np.tensordot(matrix, table, axes=(0, column)), 0, column)
        return np.asarray(table.reshape(-1), dtype=np.int64)

    def estimates(self, weights: Floats) -> Floats:
        """Answers of a weighted set of nodes, in floating point: the weights are public."""
        table = weights.reshape(self.shape)
        for column, matrix in enumerate(self._floats):
            table = np.moveaxis(np.tensordot(matrix, table, axes=(0, column)), 0, column)
        return np.asarray(table.reshape(-1))

    def rounded(self, estimates: Floats) -> Integers:
        """Public estimates of answers as integers, within the answers' own range."""
        return whole_within(np.rint(estimates), 0, self.most_records * self.scale)

    @cached_property
    def _floats(self) -> list[Floats]:
        return [matrix.astype(np.float64) for matrix in self.axes]

    def values(self, query: int) -> Floats:
        """Kernel values of one query at all nodes, from 0 to 1."""
        place = np.unravel_index(query, self.shape)
        product = np.ones(1)
        for column, matrix in enumerate(self._floats):
            product = np.multiply.outer(product, matrix[:, place[column]]).reshape(-1)
        return np.asarray(product / self.scale)


def published(grid: GridRecords, records: Floats, error: float) -> Integers:
    """Lay out synthetic records and the error of their sums as `GridRecords` reads them."""
    return whole_within(np.rint(np.append(records, error) * grid.scale), -LARGEST_ANSWER, LARGEST_ANSWER)


FIRST_TRIES = 64
MOST_TRIES = 1 << 18


class Steps(Protocol):
    """Where an algorithm takes its random steps."""

    def choose(self, scores: Integers, rate: Fraction) -> int:
        """Choose i with probability proportional to exp(rate * scores[i])."""
        ...

    def measure(self, value: int, law: NoiseLaw) -> int:
        """Add noise to a number."""
        ...


@dataclass(frozen=True)
class SecretSteps:
    """Steps with secret coins.

    Examples
    --------
    >>> SecretSteps(SecureBits.seeded(1)).choose(np.array([0, 1000, 3]), Fraction(1))
    1
    """

    bits: SecureBits

    def choose(self, scores: Integers, rate: Fraction) -> int:
        """Choose i with probability proportional to exp(rate * scores[i])."""
        lag = scores.max() - scores
        tries = FIRST_TRIES
        while True:
            candidates = self.bits.below(len(scores), tries)
            taken = np.flatnonzero(geometric(self.bits, tries, rate) >= lag[candidates])
            if len(taken):
                return int(candidates[taken[0]])
            tries = min(2 * tries, MOST_TRIES)

    def measure(self, value: int, law: NoiseLaw) -> int:
        """Add noise to a number."""
        return wrapped(value + int(law.sample(self.bits, 1)[0]))


def log_law(scores: Integers, rate: Fraction) -> Floats:
    """Logarithms of the probabilities with which `choose` takes each candidate.

    Examples
    --------
    >>> np.exp(log_law(np.array([0, 1]), Fraction(1))).round(4)
    array([0.2689, 0.7311])
    """
    exponents = float(rate) * (scores - scores.max())
    return np.asarray(exponents - logsumexp(exponents))
