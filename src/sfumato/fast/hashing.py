"""`HashingKDE`: sampling from hash buckets, with a relative error where densities are small. NOT PRIVATE.

Source: hashing-based estimators, which Backurs et al. (2024) (appendix G) puts behind its projections. A table
keeps the buckets of one random hash function, whose collision probability p(x, y) is known. For a query y, draw a point
x of y's bucket, uniformly, and take Z = k(x, y) / p(x, y) * (points in the bucket) / (points in the table): a point is
in the bucket with probability p and drawn from it with one over its size, so the mean of Z is the density at y. An
empty bucket gives Z = 0.

Variance. Where p is about sqrt(k), the relative variance of one table is about 1 / sqrt(density), against 1 / density
for a random sample: T tables give a relative error of 1 / (sqrt(T) density^(1/4)). Tables hold samples of the points,
which add 1 / (points density) to the relative variance of each.

The hash has p near sqrt(k): binning at twice the bandwidth for the Laplacian kernel, where p = sqrt(k) exactly; else J
p-stable functions together, p = c(|x - y| / w)^J with J and w such that p^2 = k at the smallest density of interest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from sfumato.errors import InputError
from sfumato.fast.features import box_of, checked_part
from sfumato.kernels import L1LSH, L2LSH, Exponential, Gaussian, Kernel, Laplacian, Rational, get_kernel
from sfumato.kernels.exact import as_points
from sfumato.public.portable import PublicStream
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.hashes import HashFamily, family_for
from sfumato.quantizers.projection import Projection
from sfumato.quantizers.projection_error import refuse_kernel

POINTS_PER_TABLE = 10.0  # in units of 1 / smallest density
MOST_TABLES, FEWEST_TABLES = 20_000, 30
MOST_FUNCTIONS = 24


@dataclass(frozen=True)
class Proposal:
    """A hash whose collision probability is ``kernel.value ** power``."""

    kernel: Kernel
    power: int

    @classmethod
    def of(cls, kernel: Kernel, smallest: float) -> Proposal:
        """Choose the hash for a kernel, see the module's text."""
        length = kernel.bandwidth
        if not isinstance(length, float):
            raise InputError("hashing-based estimates need a kernel with one bandwidth for all columns")
        if isinstance(kernel, Laplacian):
            return cls(Laplacian(2 * length), 1)
        reach = _distance(kernel, length, smallest)
        if isinstance(kernel, Rational):
            family = L1LSH if kernel.distance == "l1" else L2LSH
            return cls(family(_width(family, reach, math.sqrt(smallest))), 1)
        if isinstance(kernel, Gaussian) or (isinstance(kernel, Exponential) and kernel.p == 2.0):
            # Functions of width twice the reach: each separates points at the reach rarely, all together often enough.
            each = -math.log(float(L2LSH(2 * reach).value([[0.0]], [[reach]])[0, 0]))
            functions = round(-math.log(smallest) / 2 / each)
            return cls(L2LSH(2 * reach), min(max(functions, 1), MOST_FUNCTIONS))
        raise InputError(f"no hash with a probability near the root of {kernel.name} is known; use FastKDE")

    def probability(self, points: Floats, query: Floats) -> Floats:
        """Collision probability of each point with the query."""
        return np.asarray(self.kernel.value(points, query[None])[:, 0] ** self.power)


def _distance(kernel: Kernel, length: float, value: float) -> float:
    """Distance at which the kernel has a value."""

    def excess(log_distance: float) -> float:
        return float(kernel.value([[0.0]], [[math.exp(log_distance)]])[0, 0]) - value

    middle = math.log(length)
    return math.exp(float(brentq(excess, middle - 30, middle + 60)))


def _width(family: type[L1LSH] | type[L2LSH], reach: float, value: float) -> float:
    """Bucket width at which points `reach` apart collide with probability `value`."""

    def excess(log_width: float) -> float:
        return float(family(math.exp(log_width)).value([[0.0]], [[reach]])[0, 0]) - value

    return math.exp(float(brentq(excess, math.log(reach) - 40, math.log(reach) + 40)))


@dataclass(frozen=True, eq=False)
class Table:
    """Points of one table, sorted by their buckets' keys."""

    keys: Integers
    rows: Integers

    def bucket(self, key: int) -> Integers:
        """Rows of the points in a bucket."""
        low, high = np.searchsorted(self.keys, key, "left"), np.searchsorted(self.keys, key, "right")
        return self.rows[low:high]


class HashingKDE:
    """Mean kernel values by sampling from hash buckets, without privacy.

    Parameters
    ----------
    kernel : str or Kernel
        Laplacian, Gaussian, Exponential (p = 2) or Rational, with one bandwidth.
    bandwidth : optional
        For a kernel given by name.
    relative_error : float
        Wanted standard error relative to the density, at densities of `smallest` and above.
    smallest : float
        The smallest density of interest.
    project_to : int, optional
        Project the points to so many columns first (`quantizers.projection`, "fast"), as the source does; the kernel
        must be one of the Euclidean distance.
    seed : int
        Seed of hash functions, samples and projection.

    Examples
    --------
    >>> points = np.random.default_rng(0).normal(size=(20_000, 3))
    >>> model = HashingKDE("laplacian", 1.0, relative_error=0.1, smallest=0.01).fit(points)
    >>> model
    <HashingKDE NOT PRIVATE: Laplacian(bandwidth=1.0), 20000 points, 3 columns, 1000 tables of 1000 points>
    >>> exact = model.kernel.exact_density(points, points[:20])
    >>> bool(np.sqrt(np.mean((model.query(points[:20]) / exact - 1) ** 2)) < 0.15)
    True
    """

    def __init__(
        self,
        kernel: str | Kernel = "gaussian",
        bandwidth: Any = None,
        *,
        relative_error: float = 0.1,
        smallest: float = 0.01,
        project_to: int | None = None,
        seed: int = 0,
    ) -> None:
        relative_error, smallest = checked_part("relative_error", relative_error), checked_part("smallest", smallest)
        self.kernel = get_kernel(kernel, bandwidth)
        self.relative_error, self.smallest, self.seed = relative_error, smallest, seed
        if project_to is not None and (reason := refuse_kernel(self.kernel)) is not None:
            raise InputError(reason)
        self.project_to = project_to
        self._projection: Projection | None = None
        self.proposal = Proposal.of(self.kernel, smallest)
        needed = math.ceil(1 / (relative_error**2 * math.sqrt(smallest)))
        if needed > MOST_TABLES:
            raise InputError(
                f"a relative error of {relative_error:g} at {smallest:g} takes {needed} tables, and {MOST_TABLES} are "
                "allowed; allow a larger relative_error, or a larger smallest density"
            )
        self.tables = max(needed, FEWEST_TABLES)
        self._built: list[Table] = []

    def fit(self, X: ArrayLike) -> HashingKDE:
        """Sort samples of the points into tables."""
        points = as_points(X, "X")
        if not len(points):
            raise InputError("X holds no rows, so its mean kernel value is not defined")
        if self.project_to is not None:
            self._projection = Projection(box_of(points), "fast", self.project_to, self.seed)
        self._points = points if self._projection is None else self._projection.place(points)
        count, columns = self._points.shape
        self.points_per_table = min(count, math.ceil(POINTS_PER_TABLE / self.smallest))
        functions = self.tables * self.proposal.power
        family = family_for(self.proposal.kernel)
        assert family is not None
        self._family = family.draw(
            self.proposal.kernel, functions, columns, PublicStream(self.seed, "fast/hashing"), box_of(self._points)
        )
        random = np.random.default_rng(self.seed)
        coordinates = np.empty(self._points.shape)
        self._family.lattice.place(self._points, coordinates)
        self._built = []
        for table in range(self.tables):
            rows = random.choice(count, self.points_per_table, replace=False)
            keys = self._keys(table, coordinates[rows])
            order = np.argsort(keys, kind="stable")
            self._built.append(Table(keys[order], rows[order]))
        return self

    @overload
    def query(self, Y: ArrayLike, return_std: Literal[False] = False) -> Floats: ...
    @overload
    def query(self, Y: ArrayLike, return_std: Literal[True]) -> tuple[Floats, Floats]: ...
    def query(self, Y: ArrayLike, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Mean kernel value at each query, one drawn point a table; with its standard error if it is asked for."""
        if not self._built:
            raise InputError("call fit with the points first")
        queries = as_points(Y, "Y")
        if self._projection is not None:
            queries = self._projection.apply(queries)
        lattice, random = self._family.lattice, np.random.default_rng(self.seed + 1)
        placed = np.rint(queries / lattice.steps) - lattice.centre
        keys = np.stack([self._keys(table, placed) for table in range(self.tables)])
        answers, errors = np.empty(len(queries)), np.empty(len(queries))
        for index, query in enumerate(queries):
            values = self._values(query, keys[:, index], random)
            answers[index], errors[index] = values.mean(), values.std(ddof=1) / math.sqrt(len(values))
        return (answers, errors) if return_std else answers

    def _values(self, query: Floats, keys: Integers, random: np.random.Generator) -> Floats:
        """Z of every table."""
        buckets = [table.bucket(key) for table, key in zip(self._built, keys.tolist(), strict=True)]
        sizes = np.array([len(bucket) for bucket in buckets])
        hit = np.flatnonzero(sizes)
        values = np.zeros(len(buckets))
        if len(hit):
            places = np.floor(random.random(len(hit)) * sizes[hit]).astype(np.int64)
            drawn = self._points[[buckets[table][place] for table, place in zip(hit, places, strict=True)]]
            ratio = self.kernel.value(drawn, query[None])[:, 0] / self.proposal.probability(drawn, query)
            values[hit] = ratio * sizes[hit] / self.points_per_table
        return values

    def _keys(self, table: int, coordinates: Floats) -> Integers:
        """Fold a point's buckets under the table's functions into one number each."""
        start = table * self.proposal.power
        part: HashFamily | None = self._family.part(start, start + self.proposal.power)
        assert part is not None
        cells = part.cells(coordinates).reshape(len(coordinates), -1)
        keys = np.zeros(len(coordinates), dtype=np.uint64)
        with np.errstate(over="ignore"):
            for column in range(cells.shape[1]):
                keys = (keys ^ cells[:, column].view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
                keys ^= keys >> np.uint64(29)
        return keys.view(np.int64)

    def __repr__(self) -> str:
        if not self._built:
            return f"<HashingKDE NOT PRIVATE: {self.kernel!r}, not fitted>"
        count, columns = self._points.shape
        tables = f"{self.tables} tables of {self.points_per_table} points"
        return f"<HashingKDE NOT PRIVATE: {self.kernel!r}, {count} points, {columns} columns, {tables}>"
