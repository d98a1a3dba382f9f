"""Parameters of a shared sketch, chosen from what is public: hash family and grid, metric, sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from sfumato.errors import InputError
from sfumato.kernels import Angular
from sfumato.local.hashing import row_hash
from sfumato.local.promises import LEAST_GRINDING, MOST_GRINDING
from sfumato.local.rows_server import RowsServer
from sfumato.local.server import Design
from sfumato.methods.request import Request
from sfumato.public.domain import Domain
from sfumato.published.local.calibration import Calibration
from sfumato.published.local.closeness import Closeness, Steps, closeness_of
from sfumato.published.local.sketch import MOST_ROWS, calibrated, difference
from sfumato.published.local.sketch_size import WIDTHS, Size, best_size
from sfumato.quantizers.box import Box

# What a device needs to hash and to place points; `rows` chooses it.
FAMILY = ("family", "law", "power", "random_widths", "point_bits", "scales", "origin")


@dataclass(frozen=True)
class Sketch:
    """A sketch for a request, its size still open.

    Attributes
    ----------
    request : Request
        What is public.
    family : mapping
        Hash family and grid.
    domain : Domain
        Bounds.
    claimed : Steps or None
        What the caller knows of the hash family, where the library knows less.
    """

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
            raise InputError(f"{option} must be an integer from {least} to {most}, got {value!r}")
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
