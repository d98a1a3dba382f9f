"""What a caller asks of a release, as it was typed, and the public facts that follow from it.

Estimators and plans hold the same parameters; here they are checked, once, and become a `Request`. Nothing is read but
the columns' number, names and units.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import Curved, Kernel, Overlap, Product, get_kernel
from sfumato.kernels.curved import curved
from sfumato.kernels.degrees import check_longitude_first, metres
from sfumato.methods.request import COUNT_SHARE, Request
from sfumato.privacy.guarantee import NEIGHBOURS, check_choice, checked_delta, exact_epsilon
from sfumato.public.arguments import checked_mapping, checked_options, checked_seed, says
from sfumato.public.codec import brief
from sfumato.public.ranges import MOST_RECORDS, plain_number
from sfumato.quantizers.nystrom import PublicSample

PAID = "paid"
METRES = "metres"  # the unit of columns in which no length needs to be turned into degrees


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The parameters that decide a release; `PrivateKDE` says what each means."""

    epsilon: Any = None
    kernel: Any = "gaussian"
    bandwidth: Any = None
    bandwidth_metres: float | None = None
    latitude: float | None = None
    delta: Any = 0.0
    bounds: Any = None
    landmarks: Any = None
    categories: Mapping[Any, Any] | None = None
    kinds: Mapping[Any, Any] | None = None
    neighbours: str = "add-remove"
    n_hint: Any = None
    unit: str = "record"
    options: Mapping[str, Any] | None = None
    feature_seed: Any = None
    random_state: Any = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Parameters:
        """Take them out of an estimator's settings, which may hold more."""
        return cls(**{each.name: settings[each.name] for each in fields(cls) if each.name in settings})

    def request(
        self,
        dimension: int,
        weighted: bool = False,
        column_names: tuple[str, ...] | None = None,
        categories: Mapping[int, Overlap] | None = None,
        length_unit: str | None = None,
    ) -> Request:
        """Check the parameters and gather the public facts of the release to be.

        `categories` are those of the columns by their positions; without them named ones stand in the last columns.
        `length_unit` is that of coordinates whose reference system is known. While the count is still to be bought, n
        stands at more rows than anyone has: sizes are at their largest.
        """
        if self.epsilon is None:
            raise InputError(
                "epsilon is missing: pass epsilon=, the privacy budget of this release (smaller is more private)"
            )
        check_choice("neighbours", self.neighbours, NEIGHBOURS)
        if categories is None:
            categories = _placed(self.overlaps(), dimension)
        numbers = [place for place in range(dimension) if place not in categories]
        names = None if column_names is None else [column_names[place] for place in numbers]
        bounds = bounds_in_order(self.bounds, names, len(numbers))
        bandwidth = self.bandwidth
        if self.bandwidth_metres is not None:
            bandwidth = self._in_columns(names or [""] * len(numbers), bounds, length_unit)
        # A count that is bought first has its share, even where a method could do without.
        bought = {"count_share": COUNT_SHARE} if says(self.n_hint, PAID) else {}
        return Request(
            kernel=self._kernel(bandwidth, dimension, categories, column_names),
            landmarks=None if self.landmarks is None else PublicSample.of(self.landmarks, dimension, column_names),
            dimension=dimension,
            epsilon=exact_epsilon(self.epsilon),
            delta=checked_delta(self.delta),
            neighbours=self.neighbours,
            n=self._public_n(),
            bounds=bounds,
            options={**bought, **checked_options(self.options)},
            feature_seed=secrets.randbits(63) if self.feature_seed is None else checked_seed(self.feature_seed),
            private=self.random_state is None,
            unit=self.unit,
            weighted=weighted,
        )

    def overlaps(self) -> dict[Any, Overlap]:
        """Columns that are categories, by name or position."""
        if isinstance(self.kernel, Product):
            if self.categories is not None:
                raise InputError("the kernel has its categories: pass categories= with a kernel of numbers")
            return dict(zip(self.kernel.places, self.kernel.categories, strict=True))
        return {column: Overlap.of(values) for column, values in checked_mapping("categories", self.categories).items()}

    def _kernel(
        self, bandwidth: Any, dimension: int, categories: Mapping[int, Overlap], names: tuple[str, ...] | None
    ) -> Kernel:
        """Return the kernel of the numbers, or its product with the categories', or that of columns on circles."""
        kinds = checked_mapping("kinds", self.kinds)
        if kinds and (categories or isinstance(self.kernel, Curved)):
            raise InputError("kinds= goes with a kernel of numbers and without categories")
        if isinstance(self.kernel, Product):
            return self.kernel
        if categories and len(categories) == dimension:
            return Product(None, categories)
        if isinstance(self.kernel, str) and bandwidth is None:
            raise InputError(
                "bandwidth is missing: pass bandwidth=, in the points' units, chosen without looking at the data"
            )
        if kinds:
            return curved(partial(self._of_images, bandwidth), kinds, dimension, names)
        kernel = get_kernel(self.kernel, bandwidth)
        return Product(kernel, categories) if categories else kernel

    def _of_images(self, bandwidth: Any, spread: Callable[[Sequence[Any]], list[Any]]) -> Kernel:
        """Return the kernel of the images; of several bandwidths, each for a column of the table."""
        several = False
        with suppress(ValueError):  # of lists within lists, which the kernel refuses
            several = np.ndim(bandwidth) == 1
        return get_kernel(self.kernel, spread(list(bandwidth)) if several else bandwidth)

    def _in_columns(self, names: Sequence[str], bounds: Any, length_unit: str | None) -> Any:
        """Turn the bandwidth in metres into the columns' units, at a latitude that is public."""
        if self.bandwidth is not None:
            raise InputError("bandwidth and bandwidth_metres are two ways to say one thing: pass one of them")
        if length_unit == METRES:
            return self.bandwidth_metres
        check_longitude_first(names)
        latitude = _middle(bounds) if self.latitude is None else _number("latitude", self.latitude)
        if latitude is None:
            raise InputError(
                "latitude is missing: pass latitude=, a public one such as the city's, or bounds= for both columns, of "
                "which the middle is taken"
            )
        return [float(length) for length in metres(_number("bandwidth_metres", self.bandwidth_metres), latitude)]

    def _public_n(self) -> int:
        hint = plain_number(self.n_hint)
        if says(hint, PAID):
            if self.neighbours == "replace":
                raise InputError("n is public under neighbours='replace': pass n_hint as a number")
            return MOST_RECORDS  # stands for n until the count is bought: sizes are at their largest
        if hint is None:
            raise InputError(
                "n_hint is missing: pass n_hint=, a public guess of the number of records (a rough one will do), "
                "or n_hint='paid' to buy a noisy count from the budget first"
            )
        if isinstance(hint, bool) or not isinstance(hint, int) or not 1 <= hint <= MOST_RECORDS:
            raise InputError(f"n_hint must be a whole number from 1 to {MOST_RECORDS}, or 'paid'; got {brief(hint)}")
        return hint


def bounds_in_order(bounds: Any, names: Sequence[str] | None, count: int) -> Any:
    """Put bounds that name their columns into the columns' order; others are returned as they are.

    Examples
    --------
    >>> bounds_in_order({"lat": (52, 53), "lon": (4, 5)}, ["lon", "lat"], 2)
    [(4, 5), (52, 53)]
    """
    if not isinstance(bounds, Mapping):
        return bounds
    present = list(range(count)) if names is None else list(names)
    given = {_column(column, present, count): pair for column, pair in bounds.items()}
    missing = [present[place] for place in range(count) if place not in given]
    if missing:
        raise InputError(f"bounds leaves out the column {missing[0]!r}; pass a pair for each of {_listed(present)}")
    if len(given) < len(bounds):
        raise InputError("bounds names a column twice, by its name and by its position: name each once")
    return [given[place] for place in range(count)]


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a number, got {brief(value)}") from None


def _middle(bounds: Any) -> float | None:
    """Middle of the second of two columns; None of bounds that are not two pairs."""
    try:
        pairs = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    return float(pairs[1].mean()) if pairs.shape == (2, 2) else None


def _column(column: Any, present: Sequence[Any], count: int) -> int:
    if column in present:
        return list(present).index(column)
    if isinstance(column, int | np.integer) and not isinstance(column, bool) and 0 <= column < count:
        return int(column)
    raise InputError(f"bounds names the column {brief(column)}; the points' columns are {_listed(present)}")


def _listed(present: Sequence[Any]) -> str:
    return ", ".join(map(repr, present[:30]))


def _placed(categories: Mapping[Any, Overlap], dimension: int) -> dict[int, Overlap]:
    """Give every category a position, the named ones the last that are free: nothing predicted depends on which."""
    free = [place for place in range(dimension) if place not in categories]
    named = [column for column in categories if not isinstance(column, int)]
    if len(named) > len(free) or any(isinstance(column, int) and column >= dimension for column in categories):
        raise InputError(f"categories name more columns than the {dimension} that there are")
    places = dict(zip(named, free[len(free) - len(named) :], strict=True))
    return {places.get(column, column): category for column, category in categories.items()}
