"""`rows`, server half: each person answers for few rows of a large public pool of hash functions.

Source: generalised randomised response on LSH buckets (Zhou et al. 2024), but with few rows each out of many
instead of all of few: the variance over hash functions then falls with the pool, and nobody splits epsilon over many
rows. `rows` proves the guarantee, which is pure.

Estimate. A person holding x reports the bucket of a query y in a given row with probability p2 = Q + (P - Q) p1, where
p1 = k + (1 - k) q is the probability over hash functions that x and y share a bucket, k = k(x, y), q the rehash's exact
collision probability, P = same / total, Q = other / total. So ([report == bucket of y] - Q - (P - Q) q) / ((P - Q)
(1 - q)) has mean k. The answer is its mean over all reports; summed row by row it is the Monte Carlo mean of the pool's
rows, whose spread gives the error bar.

Variance. One answer of one person has variance c^2 p2 (1 - p2), c = 1 / ((P - Q) (1 - q)), over hash functions, the
choice of the row and the coins; the n s answers of all people together c^2 p2 (1 - p2) / (n s). People who answer for
the same row share its hash function, which adds (A + B / (R - 1)) / D for a pool of D rows of R buckets, A the
variance over hash functions of the share of the people in y's bucket, B the mean sum of the squared shares of the
others; without a rehash others are not mistaken for y's, and B drops out.

One report can move n times an answer by at most c, whatever it says: `influence`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import L1LSH, L2LSH, Angular, Hat, Jaccard, Kernel, Laplacian
from sfumato.local.device import Device
from sfumato.local.hashing import MOST_BUCKETS, RowHash, row_hash
from sfumato.local.pool import SUM_BITS, HashPool, held_numbers
from sfumato.local.pool_server import (
    PointGrid,
    PoolReader,
    PoolServer,
    fit_grid,
    integer_choices,
    member_grid,
    pool_groups,
    refuse_columns,
    respond,
    unit_grid,
)
from sfumato.local.pooled import CODE_BYTES, GROUP_BYTES, LARGEST_POOL, Rows
from sfumato.local.server import Design, Sums, Tally, others, spread
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.response import OTHER, Response, check_says, same_weight
from sfumato.public.rows import CAUCHY, CELLS, NORMAL
from sfumato.quantizers.base import Floats, Integers

KERNELS = (L2LSH, L1LSH, Laplacian, Hat, Angular, Jaccard)
MOST_ROWS_EACH = 6
Sizes = tuple[float, dict[str, Any]]  # predicted variance, and parameters


@dataclass(frozen=True)
class RowAnswer:
    """What one answer for a row says about the kernel: a response on its buckets, and q of the rehash."""

    response: Response
    collision: float

    def __post_init__(self) -> None:
        check_says(self.response.gap * (1 - self.collision), 0.0)

    @property
    def range(self) -> float:
        """c: how far the two values of one answer lie apart."""
        return 1 / (self.response.gap * (1 - self.collision))

    @property
    def shift(self) -> float:
        """Probability with which an unrelated report names a query's bucket."""
        return self.response.other / self.response.total + self.response.gap * self.collision

    def variance(self, density: float) -> float:
        """Variance of one answer: that of the response, of which a share q + (1 - q) k is true, over (1 - q)^2."""
        return self.response.variance(self.collision + (1 - self.collision) * density) / (1 - self.collision) ** 2


class RowsServer(PoolServer):
    """Counts of (row, bucket); see the module's text."""

    name = "rows"
    options = ("pool", "rows_each", "buckets")
    device: Rows

    def __init__(self, device: Device, kernel: Kernel) -> None:
        super().__init__(device, kernel)
        self.pool = HashPool(self.device.hash, self.rows)

    @cached_property
    def answer(self) -> RowAnswer:
        """What one row's response says."""
        return RowAnswer(self.device.response, float(self.device.hash.collision))

    @classmethod
    def refuse(cls, request: Request) -> str | None:
        """Only kernels that a device can hash."""
        kernel = request.kernel
        if not isinstance(kernel, KERNELS):
            names = ", ".join(family.name for family in KERNELS)
            return f"{kernel!r} is not hashed on devices; rows takes {names}"
        if isinstance(kernel, L1LSH | L2LSH | Laplacian | Hat) and len(kernel.scale.shape) == 2:
            return "devices take one bandwidth, or one for each column, not a matrix"
        return refuse_columns(request) if isinstance(kernel, L1LSH) else None

    @classmethod
    def design(cls, request: Request) -> Design:
        """Minimise the predicted variance over rows a person and buckets a row."""
        family, grid = hash_family(request)
        variance, parameters = best_sizes(request, 1, lambda *sizes: row_sizes(request, family, *sizes))
        return pool_design(family, grid, parameters, variance, parameters["buckets"])

    def noise_variance(self, reports: int) -> float:
        """Of the most uncertain counter, at the mean number of reports a row."""
        response = self.device.response
        chances = (response.same / response.total, response.other / response.total)
        return reports * self.device.rows_each / self.rows * max(chance * (1 - chance) for chance in chances)

    def influence(self) -> float:
        """One report moves each of its rows' terms between two values."""
        return self.answer.range

    def tally(self) -> Sums:
        """One counter for each row and bucket."""
        return Sums(self.rows * self.device.outcomes)

    def add_digits(self, rows: Integers, digits: Integers, tally: Tally) -> None:
        """Count."""
        assert isinstance(tally, Sums)
        tally.add(rows * self.device.outcomes + digits)

    def random_digits(self, X: Integers, rows: Integers, bits: SecureBits) -> Integers:
        """Buckets through randomised response."""
        buckets = self.pool.buckets(X, np.arange(len(X)), rows).astype(np.int64)
        return respond(self.device.response, buckets, bits)

    def quantizer(self, tally: Tally) -> PoolReader:
        """Read counters."""
        return ReportedRows(self.device, self.pool)


class ReportedRows(PoolReader):
    """Debiased counts of the query's bucket in every row."""

    name = "local-rows"
    kind = Rows
    device: Rows

    def __init__(self, device: Rows, pool: HashPool | None = None) -> None:
        super().__init__(device)
        self.pool = pool or HashPool(device.hash, self.terms)
        self.answer = RowAnswer(device.response, float(device.hash.collision))

    @property
    def width(self) -> int:
        """Buckets a row."""
        return self.device.outcomes

    @classmethod
    def held(cls, device: Rows) -> int:
        """Hash functions and keys of a row."""
        return held_numbers(device.hash)

    @property
    def _factor(self) -> float:
        return self.device.groups * self.answer.range

    def term_values(self, Y: Floats, sums: Floats) -> Floats:
        """Gather one counter a row; the mean over rows estimates the sum over people."""
        table = sums.reshape(self.terms, self.width)
        places = self.pool.table(self.lattice(Y, self.pool.farthest))
        answered = table.sum(axis=1)
        counts = table[np.arange(self.terms), places]
        return self.steadied((counts - self.answer.shift * answered) * self._factor, answered)

    def weights(self, Y: Floats) -> Floats:
        """Weights g(y), dense; `term_values` does without them."""
        places = self.pool.table(self.lattice(Y, self.pool.farthest))
        chosen = np.full((len(Y), self.terms, self.width), -self.answer.shift)
        np.put_along_axis(chosen, places[:, :, None].astype(np.int64), 1 - self.answer.shift, axis=2)
        return chosen.reshape(len(Y), self.size) * self._factor


def best_sizes(request: Request, places: int, sizes: Callable[[int, int], Sizes | None]) -> Sizes:
    """Try all numbers of rows a person and buckets a row whose digits, `places` for each bucket, fit into a report."""
    best: Sizes | None = None
    for rows_each in integer_choices(request, "rows_each", range(1, MOST_ROWS_EACH + 1)):
        for buckets in integer_choices(request, "buckets", range(2, MOST_BUCKETS + 1)):
            if (places * buckets) ** rows_each > 1 << 8 * CODE_BYTES:
                continue
            made = sizes(rows_each, buckets)
            if made is not None and (best is None or made[0] < best[0]):
                best = made
    if best is None:
        raise InputError("the options rows_each and buckets do not fit into a report; leave one of them out")
    return best


def pool_design(
    family: dict[str, Any],
    grid: PointGrid,
    parameters: dict[str, Any],
    variance: float,
    outcomes: int,
    pure: bool = True,
) -> Design:
    """Put a design together: a counter for each outcome of each row."""
    size = parameters["groups"] * parameters["rows_each"] * outcomes
    made = family | grid.parameters() | parameters
    return Design(made, grid.domain, variance, GROUP_BYTES + CODE_BYTES, size, pure)


def hash_family(request: Request) -> tuple[dict[str, Any], PointGrid]:
    """Return the hash functions of a kernel, as a protocol names them, and the grid of the points."""
    kernel, d = request.kernel, request.dimension
    if isinstance(kernel, Angular):
        grid = unit_grid(request, NORMAL.largest, sum_bits=SUM_BITS)
        return {"family": "signs", "power": kernel.power}, grid
    if isinstance(kernel, Jaccard):
        return {"family": "minhash"}, member_grid(request)
    assert isinstance(kernel, L1LSH | L2LSH | Laplacian | Hat)
    lengths = kernel.scale.column_lengths(d)
    if isinstance(kernel, Laplacian | Hat):
        grid = fit_grid(request, lengths, CELLS.largest, sum_bits=SUM_BITS, together=False)
        return {"family": "grid", "random_widths": isinstance(kernel, Laplacian)}, grid
    law = CAUCHY if isinstance(kernel, L1LSH) else NORMAL
    return {"family": "p-stable", "law": law.name.lower()}, fit_grid(request, lengths, law.largest, sum_bits=SUM_BITS)


def row_sizes(request: Request, family: dict[str, Any], rows_each: int, buckets: int) -> Sizes | None:
    """Predicted variance and parameters; None for more buckets than a family has."""
    natural = 1 << family["power"] if family["family"] == "signs" else None
    if natural is not None and buckets > natural:
        return None
    same = same_weight(Fraction(request.epsilon) / rows_each)
    if same <= OTHER:
        raise InputError(f"epsilon = {request.epsilon} is too small for a report to say anything")
    parameters = {"rows_each": rows_each, "buckets": buckets, "rehash": buckets != natural}
    each = held_numbers(_functions(family, parameters, request.dimension))
    groups = pool_groups(request, rows_each, LARGEST_POOL, "pool", each)
    parameters |= {"groups": groups, "same": same, "other": OTHER}
    answer = row_answer(family, parameters, request.dimension)
    variance = answer.variance(request.density) / (request.n * rows_each)
    return variance + pool_variance(request, parameters, answer), parameters


def row_answer(family: dict[str, Any], parameters: dict[str, Any], dimension: int) -> RowAnswer:
    """Return what one row of a design says."""
    functions = _functions(family, parameters, dimension)
    response = Response(parameters["same"], parameters["other"], parameters["buckets"])
    return RowAnswer(response, float(functions.collision))


def _functions(family: dict[str, Any], parameters: dict[str, Any], dimension: int) -> RowHash:
    return row_hash({**family, **parameters, "point_bits": 0}, bytes(32), dimension)


def pool_variance(request: Request, parameters: dict[str, Any], answer: RowAnswer) -> float:
    """Return what people who share hash functions add: (A + B / (R - 1)) / D."""
    beside = others(request) / (parameters["buckets"] - 1) if answer.collision else 0.0
    rows: int = parameters["groups"] * parameters["rows_each"]
    return (spread(request) + beside) / rows


ROWS = RowsServer.method("hash buckets of public rows, by randomised response")
