"""The contract of a hash family, public random functions that put similar points together, and a test of it.

A family draws `rows` independent hash functions for a kernel. A bucket is a tuple of `length` integers, and

    Pr[cells(x) == cells(y)] = k(x, y)

over the draw of one function. Everything secret is exact: points arrive as integers on the family's lattice (rounded
and clipped row by row), parameters are integers drawn from the public stream, and `cells` must be a function of each
row alone, bit for bit. Sums of integer products below 2**53 in float64 have that property in any order.

To add a family of your own: subclass `HashFamily`, decorate it with `register_family`, and let `check_family` compare
it with the kernel that it claims. A release that uses it can be read wherever the module that registers it is
imported.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import InputError
from sfumato.kernels import Kernel
from sfumato.public.portable import PublicStream
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.box import Lattice

# The rehash needs integers below this in magnitude to be exactly universal.
LARGEST_CELL = 2**40
# Lattice coordinates of queries, which may lie anywhere, are cut here, where no sum of products leaves 64 bits.
FARTHEST_QUERY = 2.0**36


class HashFamily(ABC):
    """`rows` public hash functions of one kernel; see the module's text.

    Attributes
    ----------
    name : str
        The family's name in documents.
    kernels : tuple of type
        The kernels that it hashes.
    """

    name: ClassVar[str]
    kernels: ClassVar[tuple[type[Kernel], ...]]

    @classmethod
    @abstractmethod
    def draw(
        cls, kernel: Any, rows: int, dimension: int, stream: PublicStream, bounds: Any = None, outside: str = "clip"
    ) -> Self:
        """Draw hash functions; the same arguments give the same integers on every machine.

        Parameters
        ----------
        kernel : Kernel
            One of `kernels`.
        rows, dimension : int
            How many functions, of how many columns.
        stream : PublicStream
            Where the randomness comes from.
        bounds, outside
            Public bounds of the points, see `Box`.
        """

    @classmethod
    def refuse(cls, kernel: Any, dimension: int, bounds: Any) -> str | None:
        """Say why the family cannot hash this kernel here, or return None."""
        return None

    @classmethod
    def buckets(cls, kernel: Any, dimension: int, bounds: Any) -> int | None:
        """Count the buckets, when they are the integers from 0 on (length 1); None when there are too many to tell."""
        return None

    @classmethod
    def work(cls, kernel: Any, dimension: int, bounds: Any) -> float:
        """Count the multiplications of one hash function at one point."""
        return float(dimension)

    @classmethod
    def drawn(cls, kernel: Any, dimension: int, bounds: Any) -> float:
        """Count the public numbers that one hash function takes, about, so that a hostile release is refused first."""
        return 5.0 * dimension

    @property
    @abstractmethod
    def lattice(self) -> Lattice:
        """The grid on which points become integers."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """Number of hash functions."""

    @property
    def length(self) -> int:
        """Integers of one bucket."""
        return 1

    @abstractmethod
    def cells(self, coordinates: Floats) -> Integers:
        """Buckets of points, shape (points, rows, length), of magnitude below 2**40.

        Parameters
        ----------
        coordinates : ndarray of float64, shape (points, columns)
            Integers relative to the lattice's centre.
        """

    @abstractmethod
    def parameters(self) -> tuple[NDArray[Any], ...]:
        """Public integers that decide the buckets; releases carry their fingerprint."""

    def part(self, start: int, stop: int) -> HashFamily | None:
        """Return some of the functions as a family of their own, for speed; None if the family cannot be cut."""
        return None

    def query_cells(self, Y: Floats) -> Integers:
        """Buckets of queries, which are public: rounded to the lattice, and neither clipped nor dropped."""
        coordinates = np.rint(Y / self.lattice.steps) - self.lattice.centre
        return self.cells(np.clip(coordinates, -FARTHEST_QUERY, FARTHEST_QUERY))


_FAMILIES: dict[str, type[HashFamily]] = {}
_Family = TypeVar("_Family", bound=type[HashFamily])


def register_family(family: _Family) -> _Family:
    """Class decorator: make a family known by its name, and its kernels hashable."""
    _FAMILIES[family.name] = family
    return family


def family_for(kernel: Kernel | None) -> type[HashFamily] | None:
    """Return the family that hashes a kernel, or None."""
    found = (family for family in _FAMILIES.values() if type(kernel) in family.kernels)
    return next(found, None)


FALSE_ALARM = 1e-6


@dataclass(frozen=True)
class FamilyCheck:
    """What a check found.

    Attributes
    ----------
    pairs, rows : int
        Pairs of points compared, and hash functions drawn.
    worst : tuple of int
        Rows of the pair that agrees least with the kernel.
    claimed, observed : float
        Kernel value of that pair, and share of the hash functions under which it collided.
    p_value : float
        Probability of a deviation as large in any of the pairs, if the family is right.
    """

    pairs: int
    rows: int
    worst: tuple[int, int]
    claimed: float
    observed: float
    p_value: float

    @property
    def holds(self) -> bool:
        """Whether the family may be right; a right one fails once in a million checks."""
        return self.p_value >= FALSE_ALARM


def check_family(
    family: type[HashFamily],
    kernel: Kernel,
    points: ArrayLike,
    *,
    bounds: Any = None,
    rows: int = 20_000,
    seed: int = 1,
) -> FamilyCheck:
    """Compare how often points collide with the kernel, for every pair of them and of copies of them.

    Parameters
    ----------
    family : type
        The hash family.
    kernel : Kernel
        The kernel that it claims.
    points : array-like, shape (points, columns)
        Points within the bounds, some close and some far; they are rounded to the family's lattice first.
    bounds : optional
        Public bounds, see `Box`.
    rows : int
        Hash functions to draw.
    seed : int
        Public seed.

    Returns
    -------
    FamilyCheck

    Raises
    ------
    InputError
        If buckets have the wrong shape or size, or depend on anything but their own row.

    Examples
    --------
    >>> from sfumato.kernels import L1LSH, L2LSH
    >>> from sfumato.quantizers.hashes import PStable
    >>> points = np.random.default_rng(0).normal(size=(5, 3))
    >>> check_family(PStable, L2LSH(1.0), points).holds
    True
    """
    from scipy.stats import binom  # takes longer to load than all of this

    table = np.asarray(points, dtype=np.float64)
    drawn = family.draw(kernel, rows, table.shape[1], PublicStream(seed, "hashing/check"), bounds)
    coordinates = np.empty(table.shape)
    if drawn.lattice.place(table, coordinates) < len(table):
        raise InputError("every point of the check must be finite")
    coordinates = np.vstack([coordinates, coordinates])  # copies must collide always
    cells = drawn.cells(coordinates)
    _check_contract(drawn, family.buckets(kernel, table.shape[1], bounds), coordinates, cells)
    first, second = np.triu_indices(len(coordinates), 1)
    hits = np.array([(cells[i] == cells[j]).all(axis=1).sum() for i, j in zip(first, second, strict=True)])
    rounded = (coordinates + drawn.lattice.centre) * drawn.lattice.steps
    claimed = kernel.value(rounded, rounded)[first, second]
    tails = 2 * np.minimum(binom.cdf(hits, rows, claimed), binom.sf(hits - 1, rows, claimed))
    worst = int(np.argmin(tails))
    return FamilyCheck(
        pairs=len(hits),
        rows=rows,
        worst=(int(first[worst] % len(table)), int(second[worst] % len(table))),
        claimed=float(claimed[worst]),
        observed=float(hits[worst] / rows),
        p_value=min(1.0, float(tails[worst]) * len(hits)),
    )


def _check_contract(family: HashFamily, buckets: int | None, coordinates: Floats, cells: Integers) -> None:
    shape = (len(coordinates), family.rows, family.length)
    if cells.shape != shape or cells.dtype != np.int64:
        raise InputError(f"cells must give int64 of shape {shape}; got {cells.dtype} of shape {cells.shape}")
    if np.abs(cells).max() >= LARGEST_CELL:
        raise InputError("cells must be below 2**40 in magnitude; use more integers a bucket")
    if buckets is not None and not ((cells >= 0) & (cells < buckets)).all():
        raise InputError(f"a family of {buckets} buckets must give integers from 0 to {buckets - 1}")
    alone = np.concatenate([family.cells(row[None]) for row in coordinates])
    if not np.array_equal(alone, cells):
        raise InputError("a row's cells must not depend on the rows beside it; see the contract in hashes.base")
