"""What a caller asks for, under any trust model: public facts only.

Every choice of mechanism and size is a function of a `Request`: a curator's release of a density or of distances, a
collection from devices, a shuffled one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import Curved, Kernel, Product
from sfumato.kernels.base import Scale
from sfumato.kernels.unscaled import Distance
from sfumato.privacy.guarantee import UNITS, Guarantee, check_choice, exact_epsilon
from sfumato.privacy.noise import CountNoise
from sfumato.public.codec import brief
from sfumato.public.ranges import (
    LARGEST_OPTION,
    MOST_COLUMNS,
    MOST_RECORDS,
    check_bounds,
    check_budget,
    check_length,
    check_whole,
)
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import OUTSIDE, Box
from sfumato.quantizers.nystrom import PublicSample

INTEGER_BYTES = 8
# The fixed part of a header with its checksum, and one column's bounds, grid and name; both measured, with room.
HEADER_BYTES, COLUMN_BYTES = 2500, 128
MOST_TERMS = 2**40
Made = TypeVar("Made")


@dataclass(frozen=True)
class Limits:
    """What a release may cost, in what does not depend on the machine; infinite unless said.

    Attributes
    ----------
    work_per_record, work_per_query : float
        Multiplications for one record (curator) and for one query (anyone).
    file_size : float
        Bytes of the release file; sizes are upper bounds, eight bytes an integer and the header.
    """

    work_per_record: float = math.inf
    work_per_query: float = math.inf
    file_size: float = math.inf


def header_size(kernel: Kernel, dimension: int) -> int:
    """Most bytes of a release file that are not features, for column names of up to 32 letters."""
    return HEADER_BYTES + COLUMN_BYTES * dimension + len(json.dumps(kernel.to_document()))


def _whole(value: float) -> int:
    return max(0, math.floor(min(value, MOST_TERMS)))


LIMIT = "max_records_per_user"
# Options that every method of a trust model knows.
GENERAL_OPTIONS = {
    "central": ("count_share", "density", LIMIT, "outside"),
    "local": ("density",),
    "shuffled": ("density",),
}
# Options of any method on points of fewer columns, see `methods.projecting`.
PROJECTION_OPTIONS = ("project", "project_to")
COUNT_SHARE = Fraction(1, 20)
# The papers' bandwidths give mean kernel values near this; sizes chosen for it are within 12 % of the best for a
# fourfold other one.
TYPICAL_DENSITY = 0.02
# Deviation of the density over queries like the records, in units of its mean, as measured on the papers' data sets.
TYPICAL_SPREAD = 0.6
SMALLEST_DENSITY = 1e-12
# Least part of the budget that the count, and what is left, may have.
SMALLEST_SHARE = Fraction(1, 10**6)


@dataclass(frozen=True)
class Request:
    """Public facts about a wanted release.

    Attributes
    ----------
    kernel : Kernel
        What similar means; a `Distance` for a release of distances.
    dimension : int
        Columns of a point.
    epsilon : Fraction
        Total budget of the release, count included; in a collection, of all that one person sends.
    delta : float
        0 for pure differential privacy.
    neighbours : {"add-remove", "replace"}
        The neighbouring relation; n is private under the first and public under the second.
    n : int
        A public guess of the number of records kept, or a paid estimate: it sets sizes, never the answer. In a
        collection, how many people are expected to take part.
    bounds : array-like or None
        Public bounds, see `Box`; of the columns of numbers, where there are categories.
    options : mapping
        The general options, and what only one method knows.
    limits : Limits
        Budgets for time and space, which sizes respect.
    feature_seed : int
        Public seed of the features.
    private : bool
        False when the noise is seeded.
    unit : {"record", "user"}
        What is hidden; users need the option ``max_records_per_user``.
    weighted : bool
        Whether the records have weights.
    landmarks : PublicSample or None
        Public points that resemble the records.
    trust : {"central", "local", "shuffled"}
        Who sees the points.
    radius, eta : float or None
        For guarantees that weaken with distance: inside `radius`, except with probability `eta` over the hashes.
    copies : int
        Sets of sums beside each other, one for every cell of a table: a record adds to one of them.
    seen : float
        Mean kernel value of the records that an answer sees, in units of its noise, over P of all records: below 1 in
        cells.
    """

    kernel: Kernel
    dimension: int
    epsilon: Fraction
    n: int
    feature_seed: int = 0
    delta: float = 0.0
    neighbours: str = "add-remove"
    bounds: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    private: bool = True
    limits: Limits = field(default_factory=Limits)
    unit: str = "record"
    weighted: bool = False
    landmarks: PublicSample | None = None
    trust: str = "central"
    radius: float | None = None
    eta: float | None = None
    copies: int = 1
    seen: float = 1.0

    def __post_init__(self) -> None:
        check_choice("trust", self.trust, tuple(GENERAL_OPTIONS))
        check_choice("unit", self.unit, UNITS)
        name = "n_hint" if self.trust == "central" else "participants"
        object.__setattr__(self, "dimension", check_whole("dimension", self.dimension, MOST_COLUMNS))
        object.__setattr__(self, "n", check_whole(name, self.n, MOST_RECORDS))
        check_budget(self.epsilon, self.delta)
        check_kernel(self.kernel)
        if isinstance(self.kernel, Product):
            self.kernel.of_numbers(self.dimension)
        if isinstance(self.bounds, Box):
            check_bounds(self.bounds.lower, self.bounds.upper)
        if self.of_distances and "density" in self.options:
            raise InputError("option density is for kernels: distances have none")
        if self.weighted and self.neighbours == "replace":
            raise InputError(
                "weights need neighbours='add-remove': how many records their coins keep is private, and "
                "neighbours='replace' makes the number of records public"
            )
        if self.unit == "record":
            if LIMIT in self.options:
                raise InputError(f"option {LIMIT} is for users: pass unit='user' too, or leave it out")
            return
        if LIMIT not in self.options:
            raise InputError(
                f"unit='user' needs options={{'{LIMIT}': k}}: how many records of one user may count. More keep more "
                "of the data and need more noise; choose it without looking at the data"
            )
        if self.neighbours == "replace":
            raise InputError(
                "unit='user' needs neighbours='add-remove': replacing a user changes the number of records, which "
                "neighbours='replace' makes public"
            )

    @cached_property
    def records_per_user(self) -> int:
        """Most records of one unit of privacy: 1 where the unit is a record."""
        return self.positive_option(LIMIT, 1)

    @property
    def density(self) -> float:
        """Public guess of P, the mean kernel value between two records, for which sizes are chosen."""
        value = self.options.get("density", TYPICAL_DENSITY)
        if isinstance(value, bool) or not isinstance(value, int | float) or not SMALLEST_DENSITY <= value <= 1:
            raise InputError(
                f"density must be a number above 0 ({SMALLEST_DENSITY:g} at least) and at most 1, got {brief(value)}"
            )
        return float(value)

    @property
    def read_share(self) -> float:
        """Mean square of the weight that a record has in an answer: below 1 where an answer reads some of them."""
        return 1 / self.copies

    @property
    def of_distances(self) -> bool:
        """Whether distances are asked for, not a density."""
        return isinstance(self.kernel, Distance)

    @property
    def metric(self) -> Distance:
        """The distance, for a release of distances."""
        if not isinstance(self.kernel, Distance):
            raise InputError(f"a release of distances needs a distance, not {self.kernel!r}")
        return self.kernel

    @cached_property
    def count_epsilon(self) -> Fraction:
        """Part of the budget that buys the count (law 4); nothing when n is public.

        The sums of most methods for distances hold the number of records, which then costs nothing: there only the
        option ``count_share`` buys one apart.
        """
        if self.neighbours == "replace":
            if "count_share" in self.options:
                raise InputError("option count_share has no use under neighbours='replace', where n is public")
            return Fraction(0)
        if self.of_distances and "count_share" not in self.options:
            return Fraction(0)
        share = self.options.get("count_share", COUNT_SHARE)
        share = share if isinstance(share, Fraction) else exact_epsilon(share)
        if not SMALLEST_SHARE <= share <= 1 - SMALLEST_SHARE:
            raise InputError(f"count_share must lie between 0 and 1, a millionth from either, got {float(share):g}")
        return self.epsilon * share

    @property
    def reads_count(self) -> bool:
        """Whether the count is read off the sums: it is private and not bought apart."""
        return self.neighbours == "add-remove" and not self.count_epsilon

    @cached_property
    def feature_epsilon(self) -> Fraction:
        """What is left for the features."""
        return self.epsilon - self.count_epsilon

    @cached_property
    def count_law(self) -> CountNoise | None:
        """Noise of a count that is bought, which a record changes by 1 and a user by as many as they have; or None."""
        return CountNoise.of(self.count_epsilon, self.records_per_user) if self.count_epsilon else None

    def once(self, name: str, make: Callable[[], Made]) -> Made:
        """Return what `make` finds for this request, once: a plan and a release ask for the same design many times."""
        if name not in self._found:
            self._found[name] = make()
        found: Made = self._found[name]
        return found

    @cached_property
    def _found(self) -> dict[str, Any]:
        return {}

    def count_error(self, density: float) -> float:
        """Variance that the noisy count, and coins that choose records, add to an answer of size `density`."""
        law = self.count_law
        coins = density * (1 - density) / self.n if self.weighted or self.unit == "user" else 0.0
        return coins if law is None else coins + law.variance * (density / self.n) ** 2

    def typical_count_error(self, density: float) -> float:
        """Return the mean of `count_error` over queries like the records, whose mean answer is `density`.

        The count's part goes by the mean square of the answers, (1 + spread^2) P^2 and P^(3/2) at most (`ranking`).
        """
        law = self.count_law
        more = min(TYPICAL_SPREAD**2, density**-0.5 - 1) if density > 0 else 0.0
        extra = 0.0 if law is None else law.variance * more * (density / self.n) ** 2
        return self.count_error(density) + extra

    @cached_property
    def factor(self) -> int:
        """How many records' features differ between neighbours: replacing one removes a record and adds another."""
        return (2 if self.neighbours == "replace" else 1) * self.records_per_user

    @property
    def own_options(self) -> set[str]:
        """Names of the options that are not general ones."""
        return set(self.options) - set(GENERAL_OPTIONS[self.trust])

    @property
    def curved(self) -> bool:
        """Whether columns lie on circles or spheres, see `methods.curving`."""
        return isinstance(self.kernel, Curved)

    @property
    def projected(self) -> bool:
        """Whether a projection is asked for, which a curator can make."""
        return self.trust == "central" and not self.options.keys().isdisjoint(PROJECTION_OPTIONS)

    def with_options(self, **options: Any) -> Request:
        """Return the same request with more options."""
        return replace(self, options={**self.options, **options})

    def pure(self) -> Request:
        """Return the same request without delta, for mechanisms that need none."""
        return self.once("pure", lambda: replace(self, delta=0.0)) if self.delta else self

    @property
    def outside(self) -> str:
        """What happens to finite values outside the bounds."""
        outside = self.options.get("outside", "clip")
        check_choice("outside", outside, OUTSIDE)
        return str(outside)

    @cached_property
    def box(self) -> Box:
        """Where the records live, for methods whose noise depends on it."""
        if self.bounds is None:
            raise InputError(
                "bounds are missing: pass bounds=, one (lower, upper) pair or one per column, chosen without looking "
                "at the data: how far a record can be sets the noise"
            )
        return Box.from_bounds(self.bounds, self.dimension, self.outside)

    @property
    def lengths(self) -> Floats:
        """Widths of the columns."""
        return np.asarray(2 * self.box.half_widths)

    def check_options(self, *known: str) -> None:
        """Refuse options that the method does not know."""
        allowed = {*GENERAL_OPTIONS[self.trust], *known}
        unknown = sorted(set(self.options) - allowed)
        if unknown:
            raise InputError(f"unknown option {brief(unknown[0])}; this method knows {', '.join(sorted(allowed))}")

    def positive_option(self, name: str, default: int) -> int:
        """Read a positive whole number from the options."""
        return check_whole(f"option {name}", self.options.get(name, default), LARGEST_OPTION)

    def size_option(self, name: str, best: int, most: int) -> int:
        """Read a size from the options, or take the best one that the limits allow."""
        value = self.positive_option(name, max(1, min(best, most)))
        if value > most:
            raise InputError(f"option {name} is {value}, and the budgets for time and space allow {most}")
        return value

    def most_terms(self, width: int) -> int:
        """Most features of `width` integers that the limits on file and queries allow."""
        room = self.limits.work_per_query / self.dimension
        if not math.isinf(self.limits.file_size):
            room = min(room, (self.limits.file_size - self.file_size(0, width)) / self._term_size(width))
        return _whole(room)

    @property
    def most_terms_of_a_record(self) -> int:
        """Most features that a record may touch under the limit on the curator's work."""
        return _whole(self.limits.work_per_record / self.dimension)

    def too_tight(self, width: int) -> str | None:
        """Say so when the limits leave no room for a single feature of `width` integers."""
        if min(self.most_terms(width), self.most_terms_of_a_record) >= 1:
            return None
        return (
            "the budgets leave no room for a single feature, which takes a file of "
            f"{self.file_size(1, width)} bytes and {self.dimension} multiplications for each record and query"
        )

    def file_size(self, terms: int, width: int) -> int:
        """Most bytes of a release of `terms` features."""
        return header_size(self.kernel, self.dimension) + terms * self._term_size(width)

    def _term_size(self, width: int) -> int:
        """Most bytes of one feature: its sums, and its frequency and offset when they have to be stored."""
        return INTEGER_BYTES * (width if self.kernel.portable else width + self.dimension + 1)

    def guarantee(self, *conditions: str) -> Guarantee:
        """Return the promise of a release that spends the whole budget."""
        from sfumato.engines.contributions import WEIGHTS_CONDITION, limit_condition  # a plan opens no data

        if self.unit == "user":
            conditions = (*conditions, limit_condition(self.records_per_user))
        if self.weighted:
            conditions = (*conditions, WEIGHTS_CONDITION)
        return Guarantee(
            trust=self.trust,
            neighbours=self.neighbours,
            unit=self.unit,
            epsilon=self.epsilon,
            delta=self.delta,
            n_public=self.neighbours == "replace",
            conditions=conditions,
            private=self.private,
        )


def check_kernel(kernel: Kernel) -> None:
    """Refuse a bandwidth outside the stated limits."""
    if isinstance(kernel, Product):
        if kernel.numbers is not None:
            check_kernel(kernel.numbers)
        return
    scale = getattr(kernel, "scale", None)
    if not isinstance(scale, Scale):
        return
    lengths = np.abs(scale.numbers)
    check_length("bandwidth", float(lengths.max()))
    # A matrix shrinks lengths by its inverse; what a column of zeros in it means, `Scale` has refused.
    check_length("bandwidth", float(lengths.min() if lengths.ndim < 2 else 1 / np.abs(scale.inverse).max()))
