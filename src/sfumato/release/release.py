"""A release: the public, immutable function that anyone may query for ever.

It holds noisy integers, the public maps that read them, and the guarantee. Everything here is post-processing of what
the mechanism published, so queries cost no privacy, however many and however chosen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import Distance, InnerProduct, Kernel, Product, ShiftInvariantKernel
from sfumato.privacy.bits import warn_unless_private
from sfumato.privacy.guarantee import Guarantee, check_choice
from sfumato.privacy.laws import NoiseLaw, part_variances
from sfumato.public.codec import Documented, Flag, Real, Schema, Whole, brief
from sfumato.public.ranges import FARTHEST_QUERY, LARGEST_NUMBER, plain_number
from sfumato.public.shown import shown
from sfumato.quantizers.answer import Answer, Floats, Known
from sfumato.quantizers.base import BLOCK_NUMBERS, Integers, Mesh, Reader
from sfumato.release import format as container
from sfumato.release.saving import saved
from sfumato.release.shrinking import READINGS, Spread, shrink, spread_of
from sfumato.threads import spread
from sfumato.version import __version__

CLEAR_COUNT = 3  # standard errors from zero at which a count is fit to divide by
QUERY_BLOCK_TERMS = 1 << 20
AXES_AT_ONCE = 1 << 20  # numbers in a block of unit vectors


@dataclass(frozen=True)
class Count(Documented):
    """The number of records as published: a noisy value with its variance, or the exact public n."""

    value: int
    variance: float
    public: bool

    schema: ClassVar[Schema] = Schema(value=Whole(1, 2**63 - 1), variance=Real(0.0), public=Flag())


@dataclass(frozen=True, eq=False)
class Release:
    """A private density, ready to be queried.

    Attributes
    ----------
    method : str
        The mechanism's name.
    guarantee : Guarantee
        What is promised to every record.
    kernel : Kernel or None
        What similar means; None for a user's own kernel read from a file, which cannot carry it.
    reader : Reader
        The public maps.
    values : ndarray of int64
        The noisy sums.
    noise : NoiseLaw
        The law of the noise in `values`.
    count : Count
        The published number of records.
    groups : int
        J of the median of means.
    parameters : mapping
        Public parameters, for the record.
    columns : tuple of str or None
        Names of the points' columns.
    sampled : bool
        Whether coins chose the records that count (weights, limits per user), which error bars then include.
    stored_kernel : mapping or None
        The kernel's description in the file that the release was read from.
    """

    method: str
    guarantee: Guarantee
    kernel: Kernel | None
    reader: Reader
    values: Integers
    noise: NoiseLaw
    count: Count
    groups: int = 1
    parameters: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    sampled: bool = False
    version: str = __version__
    stored_kernel: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.values.shape != (self.reader.size,):
            raise ReleaseFileError(f"a release of {self.reader.size} sums holds {self.values.shape} values")
        if not 1 <= self.groups <= self.reader.terms:
            raise ReleaseFileError(f"{self.reader.terms} terms cannot be cut into {self.groups} groups")
        self.values.setflags(write=False)

    @property
    def kernel_document(self) -> Mapping[str, Any]:
        """The kernel's description."""
        return self.stored_kernel or (self.kernel.to_document() if self.kernel is not None else {})

    @property
    def dimension(self) -> int:
        """Columns of a query."""
        return self.reader.dimension

    @overload
    def query(self, Y: ArrayLike | Mesh, return_std: Literal[False] = False, read: str = "plain") -> Floats: ...
    @overload
    def query(self, Y: ArrayLike | Mesh, return_std: Literal[True], read: str = "plain") -> tuple[Floats, Floats]: ...
    def query(
        self, Y: ArrayLike | Mesh, return_std: bool = False, read: str = "plain"
    ) -> Floats | tuple[Floats, Floats]:
        """Mean kernel value (or distance) between the records and each query, not clipped.

        `Y` holds one query point a row, anywhere, with categories by their values, or is a `Mesh` of places (categories
        by their codes); `return_std` adds the standard error of each answer (noise, approximation and count). Plain
        answers are unbiased up to the method's stated bias. With ``read="shrunk"`` an answer that its noise could
        explain moves toward what the release shows of its own values: BIASED, with less squared error on average over
        queries like the records, and a bar that holds the bias (`release.shrinking`).
        """
        answers, errors, bias = self._answers(Y, mean=True)
        if self._shrinks(read):
            answers, errors = shrink(self.spread, answers, errors)
            errors = np.maximum(errors, bias)  # what the method misses, the release's own values miss too
        return (answers, errors) if return_std else answers

    def _shrinks(self, read: str) -> bool:
        check_choice("read", read, READINGS)
        if read == "shrunk" and isinstance(self.kernel, Distance | InnerProduct):
            raise InputError("read='shrunk' is for densities, which are never negative; leave it out")
        return read == "shrunk"

    @cached_property
    def spread(self) -> Spread | None:
        """What the release shows of the spread of its own values, for ``read="shrunk"``; None if nothing."""
        return spread_of(self)

    @overload
    def total(self, Y: ArrayLike | Mesh, return_std: Literal[False] = False) -> Floats: ...
    @overload
    def total(self, Y: ArrayLike | Mesh, return_std: Literal[True]) -> tuple[Floats, Floats]: ...
    def total(self, Y: ArrayLike | Mesh, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Sum over the records of the kernel value, or distance, between record and query.

        It does not depend on the published count. Parameters and results are those of `query`.
        """
        answers, errors, _ = self._answers(Y, mean=False)
        return (answers, errors) if return_std else answers

    def axis_totals(self, length: float) -> tuple[Floats, Floats]:
        """Return `total` and its standard error at the columns' unit vectors times a length, one answer a column."""
        length = plain_number(length)
        if isinstance(length, bool) or not isinstance(length, int | float) or not abs(length) <= LARGEST_NUMBER:
            raise InputError(f"length must be a finite number, got {brief(length)}")
        found = self.reader.read_axes(length, self.values.astype(np.float64), self.known)
        if found is not None:
            return self._finished(found, length * np.ones((1, self.dimension)), mean=False)
        # In blocks: all unit vectors are as many numbers as the square of the columns.
        block, columns = max(1, AXES_AT_ONCE // self.dimension), self.dimension
        starts = range(0, columns, block)
        axes = (length * np.eye(min(block, columns - start), columns, k=start) for start in starts)
        totals, errors = zip(*(self.total(each, return_std=True) for each in axes), strict=True)
        return np.concatenate(totals), np.concatenate(errors)

    def _mean(self, answer: Answer, largest: Floats | float) -> tuple[Floats, Floats]:
        """Divide by the count, whose error may go together with the answer's."""
        scale = self.count.value
        mean = answer.total / scale
        noise = answer.standard_error**2 + mean * (self.count.variance * mean - 2 * answer.count_covariance)
        share = np.clip(mean / largest, 0.0, 1.0)
        coins = largest**2 * share * (1 - share) / scale if self.sampled else 0.0
        error = np.sqrt(np.maximum(noise, 0.0) / scale**2 + answer.bias**2 + coins)
        if scale < CLEAR_COUNT * math.sqrt(self.count.variance):
            error = np.full_like(error, np.inf)  # a mean over nobody knows how many; `total` needs no count
        return mean, error

    def _sum(self, answer: Answer, largest: Floats | float) -> tuple[Floats, Floats]:
        coins = largest * np.maximum(answer.total, 0.0) if self.sampled else 0.0
        return answer.total, np.sqrt(answer.standard_error**2 + (answer.bias * self.count.value) ** 2 + coins)

    def _finished(self, answer: Answer, points: Floats, mean: bool) -> tuple[Floats, Floats]:
        """Return answers and errors; an error that overflowed on its way, of either sign, is infinite."""
        answers, errors = (self._mean if mean else self._sum)(answer, self._largest(points))
        return answers, np.where(np.isnan(errors), np.inf, errors)

    def _largest(self, points: Floats) -> Floats | float:
        """Return what one record can add to an answer at most, on which the variance of coins depends.

        Coins that choose records (weights, limits per user) add to a sum at most the largest value times the sum, and
        to a mean A of values up to 1 at most A (1 - A) / n.
        """
        if not isinstance(self.kernel, Distance):
            return 1.0
        box = self.reader.box
        return self.kernel.farthest(points, np.array(box.lower), np.array(box.upper))

    def _answers(self, Y: ArrayLike | Mesh, mean: bool) -> tuple[Floats, Floats, Floats]:
        sums = self.values.astype(np.float64)
        if isinstance(Y, Mesh):
            points = self._checked(Y.points)
            if (found := self.reader.read_mesh(Y, sums, self.known)) is not None:
                return *self._finished(found, points, mean), found.bias
        else:
            points = self._points(Y)
        answers, errors, bias = np.empty((3, len(points)))
        # A power of 2, so that the queries of a wide reader lie in a block as they would in a longer one.
        wide = 1 << max(0, (BLOCK_NUMBERS // self.reader.query_numbers).bit_length() - 1)
        block = min(max(1, QUERY_BLOCK_TERMS // max(self.reader.terms, 1024)), wide)

        def answer(start: int) -> None:
            part = slice(start, start + block)
            result = self.reader.read(points[part], sums, self.known)
            answers[part], errors[part] = self._finished(result, points[part], mean)
            bias[part] = result.bias

        starts = range(0, len(points), block)
        if len(starts) <= 1:
            for start in starts:
                answer(start)
        else:
            spread(starts, answer, lambda _: None)
        return answers, errors, bias

    def bias_bound(self, Y: ArrayLike) -> Floats:
        """Upper limit of the answers' approximation bias, for methods that can state one for any records.

        It is 0 for unbiased methods. For landmarks it holds with a probability above 99.9 % over the noise, whatever
        the records are; it is wide, and `query`'s standard errors assume less than it does.
        """
        points = self._points(Y)
        return self.reader.bias_bound(points, self.values.astype(np.float64), self.known)

    def findings(self) -> dict[str, float]:
        """Say what the release itself shows of how well its method suits the records.

        For landmarks that is how far the records lie outside their reach; for most methods there is nothing to show.
        """
        return self.reader.findings(self.values.astype(np.float64), self.known)

    @property
    def known(self) -> Known:
        """What a reader is told beside the sums."""
        parts = part_variances(self.noise)
        return Known(self.noise.variance, self.count.value, self.count.variance, self.groups, noise_parts=parts)

    def density(self, Y: ArrayLike, read: str = "plain") -> Floats:
        """Mean kernel value clipped to [0, 1], where it must lie; `read` as in `query`."""
        if isinstance(self.kernel, Distance):
            raise InputError("a release of distances is no density: use query for the mean distance, total for the sum")
        if isinstance(self.kernel, InnerProduct):
            raise InputError("a mean inner product may be negative and is no density: use query")
        return np.clip(self.query(Y, read=read), 0.0, 1.0)

    def log_density(self, Y: ArrayLike, read: str = "plain") -> Floats:
        """Log of the normalised density (integrating to one), in scikit-learn's units.

        Answers that are not above their own standard error are noise; they are raised to it, so that the logarithm
        exists. `read` as in `query`; shrunk answers are not negative.
        """
        if not isinstance(self.kernel, ShiftInvariantKernel):
            raise InputError("a normalised density needs a shift-invariant kernel that the release carries; use query")
        answers, errors = self.query(Y, return_std=True, read=read)
        floor = np.where(np.isfinite(errors) & (errors > 0), errors, np.finfo(np.float64).tiny)
        return np.asarray(np.log(np.maximum(answers, floor)) - self.kernel.log_integral(self.dimension))

    def _coded(self, Y: Any, kernel: Product) -> Floats:
        """Turn the values of categories into codes; frames are read by the release's column names."""
        from sfumato.sources import open_source

        named = self.columns is not None and not isinstance(Y, list | tuple | np.ndarray)
        names: Sequence[Any] = list(self.columns or ()) if named else range(self.dimension)
        kinds = {names[place]: kind for place, kind in zip(kernel.places, kernel.categories, strict=True)}
        points = open_source(Y, list(names), categories=kinds).whole() if len(Y) else np.empty((0, self.dimension))
        for place, kind in zip(kernel.places, kernel.categories, strict=True):
            if np.isnan(points[:, place]).any():
                known = ", ".join(kind.values[:10]) + (", ..." if len(kind.values) > 10 else "")
                raise InputError(f"a query's value in column {names[place]!r} is not one of its public values: {known}")
        return points

    def _points(self, Y: ArrayLike) -> Floats:
        if isinstance(self.kernel, Product):
            Y = self._coded(Y, self.kernel)
        try:
            points = np.asarray(Y, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InputError("queries must be numbers, one row per query") from None
        return self._checked(points)

    def _checked(self, points: Floats) -> Floats:
        if points.ndim != 2 or points.shape[1] != self.dimension:
            raise InputError(f"queries must have shape (queries, {self.dimension}), got {points.shape}")
        if not np.isfinite(points).all():
            raise InputError("queries must be finite numbers")
        box = self.reader.box
        if not (np.abs(points) <= FARTHEST_QUERY).all() and not box.holds(points).all():
            raise InputError(f"queries must lie within {FARTHEST_QUERY:g} of 0, or within the bounds")
        if not box.declared and not box.holds(points).all():
            raise InputError(
                f"a query lies beyond {max(box.upper):g}, where the default box ends and points were clipped: "
                "release again with bounds=, one (lower, upper) pair per column"
            )
        return points

    def statement(self) -> str:
        """Plain-language privacy statement."""
        return self.guarantee.statement()

    def describe(self) -> dict[str, Any]:
        """Everything public about the release, as JSON values."""
        document, _ = self.reader.to_document()
        return {
            "method": self.method,
            "guarantee": self.guarantee.to_document(),
            "kernel": dict(self.kernel_document),
            "quantizer": document,
            "noise": self.noise.to_document(),
            "count": self.count.to_document(),
            "groups": self.groups,
            "parameters": dict(self.parameters),
            "columns": None if self.columns is None else list(self.columns),
            "sampled": self.sampled,
            "written_by": f"sfumato {self.version}",
        }

    def __repr__(self) -> str:
        name = repr(self.kernel) if self.kernel is not None else f"kernel {self.kernel_document.get('name')!r}"
        spread = math.sqrt(self.count.variance)
        count = f"n = {self.count.value}" if self.count.public else f"n about {self.count.value} +- {spread:.0f}"
        unspent = "; delta was not needed and is not spent" if "unspent_delta" in self.parameters else ""
        return f"<Release {shown(self.method)}: {name}, {self.dimension} columns, {count}; {self.guarantee}{unspent}>"

    def plot(
        self,
        ax: Any = None,
        *,
        columns: Sequence[str | int] | None = None,
        at: Mapping[str, Any] | None = None,
        extent: Any = None,
        size: int = 128,
        title: str | None = None,
        longitude_latitude: bool = False,
        contours: bool = True,
        uncertainty: bool = True,
    ) -> Any:
        """Draw the density on matplotlib axes: a heat map of two columns or a curve of one, with the guarantee.

        What is drawn is said as in `sfumato.maps.evaluate`. Columns that are degrees of longitude and latitude get true
        proportions and a scale bar; `uncertainty` hatches where the answer may be noise alone. Returns the axes.
        """
        from sfumato.maps.field import evaluate
        from sfumato.maps.figure import draw_on

        field = evaluate(self, columns=columns, at=at, extent=extent, size=size, title=title)
        return draw_on(ax, field, contours=contours, uncertainty=uncertainty, geographic=longitude_latitude)

    def sample(self, count: int, *, extent: Any = None, start: Any = None, random_state: int | None = None) -> Floats:
        """Draw synthetic points from the released density; it costs no privacy. See `sfumato.maps.sample`."""
        from sfumato.maps.sampling import sample

        return sample(self, count, extent=extent, start=start, random_state=random_state)

    def _repr_html_(self) -> str:
        """Show a small card in notebooks."""
        from sfumato.maps.page import card

        return card(self)

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        _, stored = self.reader.to_document()
        return container.encode(self.describe(), {"values": self.values, **stored})

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write the release to one file, atomically, and return its path.

        What was paid for is never lost: where there is a file of that name and `overwrite` is False, the next
        free name is taken (``patients-2.sfm``), with a warning; where the disk refuses, the error says where it is.
        """
        warn_unless_private(self.guarantee)
        return saved(path, self.to_bytes(), overwrite)
