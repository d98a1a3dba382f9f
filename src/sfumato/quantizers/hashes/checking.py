"""A statistical test of a hash family against the kernel that it claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from sfumato.errors import InputError
from sfumato.kernels import Kernel
from sfumato.public.streams import PublicStream
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.hashes.base import LARGEST_CELL, HashFamily

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
