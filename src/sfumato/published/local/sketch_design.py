"""Parameters of a shared sketch, chosen from what is public: hash family and grid, metric, a radius, the best (L, R).

Every participant reports all L rows, so that the hash functions' own randomness does not fall with n. With q the
rehash's collision probability, P and Q the probabilities of the true and of one other bucket, K the density at the
query, a = 1 / ((P - Q)(1 - q)) and p = q + (1 - q) K the chance of a shared bucket, the mean of L rows has variance

    (1 / L) { A + B q / (1 - q) + (a^2 / n) (p P (1 - P) + (1 - p) Q (1 - Q)) }

A is the variance over hash functions of the share of people in the query's bucket, B the mean sum of the squared
shares of all other buckets. They depend on the data; for the choice, and for predictions, A = 0.09, B = 0.1 and
K = 0.1 stand for them. A median of several groups' means has about pi / 2 times the variance.

A radius is part of what is promised, so it must not be read off the participants' points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.deferred import require
from sfumato.errors import InputError
from sfumato.kernels import Angular, Kernel
from sfumato.local.hashing import row_hash
from sfumato.local.pool import MOST_NUMBERS, held_numbers
from sfumato.local.promises import LEAST_GRINDING, MOST_GRINDING
from sfumato.local.rows_server import RowsServer
from sfumato.local.server import Design
from sfumato.methods.request import Request
from sfumato.privacy.response import Window
from sfumato.public.codec import brief
from sfumato.public.domain import Domain
from sfumato.published.local.calibration import Calibration, calibrate, tail
from sfumato.published.local.closeness import Closeness, Steps, closeness_of
from sfumato.published.local.sketch import MOST_ROWS, calibrated, difference
from sfumato.quantizers.box import Box

# The assumptions of the published choice: K, A and B.
PUBLISHED_DENSITY, PUBLISHED_SPREAD, PUBLISHED_OTHERS = 0.1, 0.09, 0.1
WIDTHS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
LARGEST_CHOICE = 2048
LADDER = 120
STEPS_OF_J = 40


@dataclass(frozen=True)
class Typical:
    """What is assumed of the data: K, A and B of the module's text."""

    density: float = PUBLISHED_DENSITY
    spread: float = PUBLISHED_SPREAD
    others: float = PUBLISHED_OTHERS


def sketch_variance(
    law: Window, rows: int, participants: int, collision: float, groups: int = 1, typical: Typical | None = None
) -> float:
    """Predict the mean squared error of an answer, see the module's text.

    Examples
    --------
    >>> law = Window.of(Fraction(1), 4)
    >>> round(sketch_variance(law, 20, 100_000, 0.25), 5)
    0.00617
    """
    typical = typical or Typical()
    truth, other, q = law.truth, law.other, collision
    shared = q + (1 - q) * typical.density
    noise = shared * truth * (1 - truth) + (1 - shared) * other * (1 - other)
    blow_up = 1 / ((truth - other) * (1 - q))
    inflation = 1.0 if groups == 1 else math.pi / 2
    return inflation * (typical.spread + typical.others * q / (1 - q) + blow_up**2 * noise / participants) / rows


@dataclass(frozen=True)
class Size:
    """A size of the sketch, its calibration and its predicted error."""

    rows: int
    buckets: int
    calibration: Calibration
    variance: float


def best_size(
    epsilon: Fraction,
    participants: int,
    eta: float,
    difference: Callable[[int], tuple[float, float]],
    collision: Callable[[int], float],
    *,
    rule: str = "exact",
    rows: int | None = None,
    widths: Iterable[int] = WIDTHS,
    groups: int = 1,
    grinding: int = 0,
) -> Size:
    """Find the rows and buckets of least predicted error.

    Parameters
    ----------
    epsilon, participants, eta, rule, grinding
        See `calibrate`.
    difference : callable
        From R to the chance that a row tells points at the radius apart, and the paper's bound of it.
    collision : callable
        From R to q.
    rows : int, optional
        L, if it is given.
    widths : iterable of int
        Candidates for R.
    groups : int
        L'.
    """

    def size(count: int, buckets: int) -> Size:
        chance, line = difference(buckets)
        found = calibrate(epsilon, count, chance, eta, rule, line, grinding)
        law = Window.of(found.gamma, buckets)
        return Size(count, buckets, found, sketch_variance(law, count, participants, collision(buckets), groups))

    about = math.ldexp(eta, -grinding)
    sizes = (
        size(count, buckets)
        for buckets in widths
        for count in ([rows] if rows is not None else _candidates(difference(buckets)[0], about, groups))
    )
    return min(sizes, key=lambda found: found.variance)


def _candidates(difference: float, eta: float, groups: int) -> list[int]:
    """Numbers of rows worth trying: a ladder, and the most rows for each small number that may differ."""
    found = {round(LARGEST_CHOICE ** (i / LADDER)) for i in range(LADDER + 1)}
    for j in range(1, STEPS_OF_J):
        low, high = j, LARGEST_CHOICE + 1  # Pr[X > j] <= eta at `low`, not at `high`
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if tail(middle, difference, j) <= eta else (low, middle)
        found.add(low)
    return sorted({max(groups, count // groups * groups) for count in found})


# What a device needs to hash and to place points; `rows` chooses it.
FAMILY = ("family", "law", "power", "random_widths", "point_bits", "scales", "origin")


@dataclass(frozen=True)
class Sketch:
    """A sketch for a request, its size still open: hash family and grid, bounds, what the caller claims of hashes."""

    request: Request
    family: Mapping[str, Any]
    domain: Domain
    claimed: Steps | None

    @classmethod
    def of(cls, request: Request) -> Sketch:
        """Take over the family and the grid of `rows`; directions live between -1 and 1, whatever the points do."""
        unit = Box((-1.0,) * request.dimension, (1.0,) * request.dimension)
        simple = replace(
            request,
            epsilon=Fraction(1),
            n=1,
            bounds=unit if isinstance(request.kernel, Angular) else request.bounds,
            options={"rows_each": 1, "buckets": 2, "pool": 1},
        )
        base = RowsServer.design(simple)
        family = {name: base.parameters[name] for name in FAMILY if name in base.parameters}
        return cls(request, family, base.domain, _claimed(request.options))

    @cached_property
    def closeness(self) -> Closeness:
        """The metric of the guarantee."""
        if self.claimed is not None:
            return self.claimed.closeness()
        return closeness_of(self.request.kernel.to_document())

    @property
    def natural(self) -> int | None:
        """Number of buckets that need no rehash."""
        return 1 << self.family["power"] if self.family["family"] == "signs" else None

    @property
    def widths(self) -> tuple[int, ...]:
        """Candidates for R."""
        return tuple(width for width in WIDTHS if self.natural is None or width <= self.natural)

    @property
    def groups(self) -> int:
        """L'."""
        return self.chosen("groups", 1, 1, MOST_ROWS)

    def chosen(self, option: str, default: int, least: int, most: int) -> int:
        """Read a whole number among the options."""
        value = self.request.options.get(option, default)
        if type(value) is not int or not least <= value <= most:
            raise InputError(f"{option} must be an integer from {least} to {most}, got {brief(value)}")
        return value

    def _hashing(self, buckets: int) -> dict[str, Any]:
        return {**self.family, "buckets": buckets, "rehash": buckets != self.natural}

    def collision(self, buckets: int) -> float:
        """Return q for R buckets."""
        return float(row_hash(self._hashing(buckets), bytes(32), self.request.dimension).collision)

    @property
    def grinding(self) -> int:
        """How many tries of the seed eta pays for, as a power of two."""
        return self.chosen("grinding", LEAST_GRINDING, 0, MOST_GRINDING)

    def calibration(self, rows: int, buckets: int, eta: float, rule: str) -> Calibration:
        """Return gamma at the request's radius for one size."""
        q, radius = self.collision(buckets), self.request.radius or 0.0
        return calibrated(
            self.request.epsilon, rows, self.closeness, radius, self.family["scales"], q, eta, rule, self.grinding
        )

    def best(self, eta: float, rule: str) -> Size:
        """Find the size of least predicted error among those that the options allow."""
        request, radius = self.request, self.request.radius or 0.0

        def apart(buckets: int) -> tuple[float, float]:
            q = self.collision(buckets)
            chance = difference(self.closeness, radius, self.family["scales"], q)
            return chance, max(chance, (1 - q) * self.closeness.published(radius))

        buckets = request.options.get("buckets")
        return best_size(
            request.epsilon,
            request.n,
            eta,
            apart,
            self.collision,
            rule=rule,
            rows=None if request.options.get("rows") is None else self.chosen("rows", 1, self.groups, MOST_ROWS),
            widths=self.widths if buckets is None else (self.chosen("buckets", 2, 2, self.widths[-1]),),
            groups=self.groups,
            grinding=self.grinding,
        )

    def design(self, rows: int, buckets: int, parameters: Mapping[str, Any], variance: float) -> Design:
        """Put a design together."""
        whole = {**self._hashing(buckets), "rows": rows, "groups": self.groups, **parameters}
        most = MOST_NUMBERS // held_numbers(row_hash(whole, bytes(32), self.request.dimension))
        if rows > most:
            raise InputError(f"readers of so many columns hold {most} rows of a sketch, got {rows}: pass rows={most}")
        payload = -(-rows * (buckets - 1).bit_length() // 8)
        return Design(whole, self.domain, variance, payload, rows * buckets, pure=False)


def _claimed(options: Mapping[str, Any]) -> Steps | None:
    names = ("r1", "r2", "p1", "p2")
    given = [options.get(name) for name in names]
    if all(value is None for value in given):
        return None
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in given):
        raise InputError("a sensitive hash family is stated by the four numbers r1, r2, p1 and p2")
    return Steps(*(float(value) for value in given))  # type: ignore[arg-type]


NEIGHBOUR = 100


def public_radius(kernel: Kernel, points: ArrayLike, neighbour: int = NEIGHBOUR) -> float:
    """Choose a radius from public points: their mean distance to the 100th nearest neighbour, to two digits.

    Parameters
    ----------
    kernel : Kernel
        It decides the metric; for `Angular` the radius is an angle in radians.
    points : array-like, shape (n, dimension)
        Public points, or synthetic ones that are like the participants'.
    neighbour : int
        Which neighbour.

    Examples
    --------
    >>> from sfumato.kernels import L2LSH
    >>> public_radius(L2LSH(1.0), np.linspace(0.0, 1.0, 1001)[:, None])
    0.053
    """
    rows = np.asarray(points, dtype=np.float64)
    if rows.ndim != 2 or len(rows) <= neighbour:
        raise InputError(f"a radius from public points needs a table of more than {neighbour} rows")
    require("curator")
    from sklearn.neighbors import NearestNeighbors

    metric = closeness_of(kernel.to_document()).metric
    if metric == "angle":
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    search = NearestNeighbors(n_neighbors=neighbour, metric="euclidean" if metric == "angle" else metric)
    far = search.fit(rows > 0.5 if metric == "jaccard" else rows).kneighbors()[0][:, -1]
    # The angle from the chord.
    radius = float(np.mean(2 * np.arcsin(np.minimum(far / 2, 1)) if metric == "angle" else far))
    if radius <= 0:
        raise InputError("the public points are all alike; pass radius= itself")
    return float(f"{radius:.1e}")
