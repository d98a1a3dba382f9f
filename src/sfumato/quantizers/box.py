"""Where points may live: a public box, and what happens to a row that is not in it.

The box is declared by the caller, never read off the data (law 2). Encoding is total: a row with a value that is not
a finite number is dropped, a finite value outside the box is clipped to its edge (or its row dropped, if so
declared). Whether a row is odd therefore changes only that row's own contribution, which the guarantee covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError
from sfumato.privacy.guarantee import check_choice
from sfumato.public.codec import Documented, Flag, Reals, Schema, Text, brief
from sfumato.public.domain import Domain
from sfumato.public.ranges import LARGEST_LENGTH, MOST_COLUMNS, check_bounds

Outside = str
OUTSIDE = ("clip", "drop")
FARTHEST_EDGE = 1e100  # in a document; a default box may be far wider than the limits of declared ones


@dataclass(frozen=True)
class Box(Documented):
    """A public box in data units.

    Attributes
    ----------
    lower, upper : tuple of float
        The edges, one per column.
    outside : {"clip", "drop"}
        What happens to a row with a finite value beyond the edges.
    declared : bool
        Whether the caller gave the edges; False for a default box around the origin.

    Examples
    --------
    >>> Box.from_bounds([(0, 1), (-5, 5)], dimension=2).upper
    (1.0, 5.0)
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    outside: Outside = "clip"
    declared: bool = True

    schema = Schema(
        lower=Reals(-FARTHEST_EDGE, FARTHEST_EDGE, MOST_COLUMNS),
        upper=Reals(-FARTHEST_EDGE, FARTHEST_EDGE, MOST_COLUMNS),
        outside=Text(*OUTSIDE),
        declared=Flag(),
    )

    def __post_init__(self) -> None:
        if len(self.lower) != len(self.upper):
            raise InputError(f"a box of {len(self.lower)} lower edges needs as many upper ones, not {len(self.upper)}")
        check_choice("outside", self.outside, OUTSIDE)
        for column, (low, high) in enumerate(zip(self.lower, self.upper, strict=True)):
            if not (np.isfinite(low) and np.isfinite(high) and low < high):
                raise InputError(f"bounds of column {column} must be finite with lower < upper, got ({low}, {high})")

    @classmethod
    def from_bounds(cls, bounds: Any, dimension: int, outside: Outside = "clip") -> Box:
        """Read the `bounds` argument: one (lower, upper) pair for all columns, one pair per column, or a box.

        The stated limits (`public.ranges`) hold for numbers; a box has passed them, or comes from a release of an
        earlier day.
        """
        if isinstance(bounds, Box) and bounds.dimension == dimension:
            return bounds
        try:
            table = np.asarray(bounds, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"bounds must be numbers: one (lower, upper) pair or one pair per column, got {brief(bounds)}"
            ) from None
        except OverflowError:  # of a whole number beyond all doubles, which may have too many digits to be shown
            raise InputError(f"bounds must lie within {LARGEST_LENGTH:g} of 0; use other units") from None
        if table.shape == (2,):
            table = np.tile(table, (dimension, 1))
        if table.ndim != 2 or table.shape[1] != 2:
            raise InputError(
                "bounds must be one (lower, upper) pair or one pair per column, i.e. an array of shape (columns, 2); "
                f"got shape {table.shape}"
            )
        if len(table) != dimension:
            raise InputError(
                f"bounds name {len(table)} columns but the points have {dimension}; pass one pair per column"
            )
        box = cls(tuple(table[:, 0].tolist()), tuple(table[:, 1].tolist()), outside)
        check_bounds(box.lower, box.upper)
        return box

    @classmethod
    def of(cls, domain: Domain) -> Box:
        """Take the box of a collection's public domain."""
        return cls(domain.lower, domain.upper, "clip", domain.declared)

    def domain(self) -> Domain:
        """Return the same box for devices."""
        return Domain(self.lower, self.upper, self.declared)

    @classmethod
    def centred(cls, reach: Sequence[float] | NDArray[np.float64], outside: Outside = "clip") -> Box:
        """Build the default box of points within `reach` of the origin in every column."""
        reach = [float(value) for value in reach]
        return cls(tuple(-value for value in reach), tuple(reach), outside, declared=False)

    @property
    def dimension(self) -> int:
        """Number of columns."""
        return len(self.lower)

    @property
    def half_widths(self) -> NDArray[np.float64]:
        """Half the extent of every column."""
        return np.asarray((np.array(self.upper) - np.array(self.lower)) / 2)

    @property
    def centre(self) -> NDArray[np.float64]:
        """Middle of every column."""
        return np.asarray((np.array(self.upper) + np.array(self.lower)) / 2)

    def holds(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Which rows are finite numbers inside the box."""
        inside = (rows >= np.array(self.lower)) & (rows <= np.array(self.upper))
        return np.asarray((np.isfinite(rows) & inside).all(axis=1))

    def condition(self) -> str:
        """Say what happens to odd rows, for the guarantee."""
        action = "clipped to their edge" if self.outside == "clip" else "dropped"
        limits = "the bounds"
        if not self.declared:
            nearest, farthest = f"{min(self.upper):g}", f"{max(self.upper):g}"
            reach = nearest if nearest == farthest else f"{nearest} to {farthest}, by column,"
            limits = f"a distance of {reach} from 0 (no bounds were given)"
        return f"rows with a value that is not a finite number are dropped; values outside {limits} are {action}"


@dataclass(frozen=True)
class Lattice:
    """A dyadic grid over a box: column j has step 2**exponents[j], and coordinates are integers relative to a centre.

    Steps are powers of two so that scaling is exact and `rint` is the only rounding: every machine and language puts
    a value on the same integer.
    """

    box: Box
    exponents: tuple[int, ...]

    @property
    def steps(self) -> NDArray[np.float64]:
        """Step of every column in data units."""
        return np.ldexp(1.0, np.array(self.exponents, dtype=np.int64))

    @property
    def centre(self) -> NDArray[np.float64]:
        """Integer coordinates of the box's centre."""
        return np.rint(self.box.centre / self.steps)

    @property
    def reach(self) -> NDArray[np.float64]:
        """Largest absolute integer coordinate of a kept row, per column."""
        steps, centre = self.steps, self.centre
        return np.maximum(
            np.abs(np.rint(np.array(self.box.upper) / steps) - centre),
            np.abs(np.rint(np.array(self.box.lower) / steps) - centre),
        )

    def place(self, rows: NDArray[Any], out: NDArray[np.float64]) -> int:
        """Write the integer coordinates of the kept rows to the top of `out` and return how many were kept."""
        return int(_place(rows, *self._arrays, self.box.outside == "drop", out))

    @cached_property
    def _arrays(self) -> tuple[NDArray[np.float64], ...]:
        """Edges, inverse steps and centre, made once: they are as many as there are columns."""
        inverse = np.ldexp(1.0, -np.array(self.exponents, dtype=np.int64))
        return np.array(self.box.lower), np.array(self.box.upper), inverse, self.centre

    def centred(self, Y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Real (unrounded, unclipped) lattice coordinates of queries, which are public and may lie outside the box."""
        with np.errstate(over="ignore"):
            coordinates = np.asarray(Y / self.steps - self.centre)
        if (np.abs(coordinates) > 2.0**52).any():
            raise InputError(
                "a query lies so far out that floating point cannot place it; pass queries nearer the data"
            )
        return coordinates


@njit(nogil=True, cache=True)
def _place(rows, lower, upper, inverse, centre, drop, out):  # type: ignore[no-untyped-def]
    kept = 0
    for i in range(rows.shape[0]):
        good = True
        for j in range(rows.shape[1]):
            value = np.float64(rows[i, j])
            if not np.isfinite(value):
                good = False
                break
            if value < lower[j] or value > upper[j]:
                if drop:
                    good = False
                    break
                value = lower[j] if value < lower[j] else upper[j]
            out[kept, j] = np.rint(value * inverse[j]) - centre[j]
        if good:
            kept += 1
    return kept
