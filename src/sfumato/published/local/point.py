"""`dm`, `pm`, `sw` and `gi`, device halves: a participant reports a random point in the place of their own.

The server computes the density of the reported points; it is that of the true ones blurred by the randomness, which
makes answers biased. A column is first put on 65,536 steps between its bounds (`Steps`), or on a lattice (`gi`).

- **`dm`** (J. Duchi, M. Jordan, M. Wainwright, FOCS 2013). Each column t in [-1, 1] becomes a sign v_j, +1 with
  probability (1 + t_j) / 2. The report z in {-1, 1}^d has weight `heads` if z . v > 0 and `unit` otherwise. The total
  weight is the same for every v, so the odds are at most heads / unit <= e^epsilon. Ties z . v = 0 (d even) belong to
  one side: counted on both, they would be e^epsilon + 1 times as likely as z . v < 0.
- **`pm`** (N. Wang and others, ICDE 2019). k = max(1, min(d, floor(epsilon / 2.5))) columns, drawn at random, are
  reported with epsilon / k each; the others count as 0. One column is a `Window` among 4,096 positions, whose start
  is proportional to t and rounded at random, so that the mean of a report is exactly t.
- **`sw`** (Z. Li and others, SIGMOD 2020). Every column with epsilon / d: a window of 2 b + 1 positions around the true
  one, among 1,025 + 2 b. The positions beyond the bounds are part of the output; a window cut at the bounds would have
  a weight that depends on the point.
- **`gi`** (M. Andres and others, CCS 2013; in d columns N. Fernandes and others, ESORICS 2021). Points on a lattice of
  step h = radius / (m sqrt(d)), m = 32, plus `SphereNoise` of rate mu = epsilon / (m + 1). Rounding moves either point
  by at most h sqrt(d) / 2, so points a distance t apart are at most t / h + sqrt(d) lattice steps apart and their loss
  is at most mu ceil(t / (h sqrt(d)) + 1) = epsilon (ceil(m t / radius) + 1) / (m + 1): epsilon within the radius, and
  in proportion beyond. It holds for every pair (eta = 0). Coordinates, below 2^32, are computed in binary64 with an
  error of 2^-19 at most, for which the step is wider by 2^-16 of itself: that takes off m 2^-16. Reports beyond 32 bits
  are cut, a function of the report.

The standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.errors import InputError
from sfumato.local.coins import Coins, SphereNoise
from sfumato.local.device import Device
from sfumato.local.promises import check_radius, checked_radius, near, planar_condition, widest
from sfumato.privacy.response import Odds, Window

STEPS = 1 << 16
PM_POSITIONS = 1 << 12
PM_BUDGET = Fraction(5, 2)
SW_STEPS = 1 << 10
GI_FINENESS = 32
GI_STEP_MARGIN = 1 + 2.0**-16
LARGEST_REPORT = 2**31 - 1
# A device draws noise in so many columns in a few seconds, and in more in a time that grows with their power of 1.5.
MOST_PLANAR_COLUMNS = 1 << 10
INDEX_BYTES, POSITION_BYTES, LATTICE_BYTES = 4, 2, 4
MOST_COLUMNS = 1 << 14


class PointDevice(Device):
    """A device that reports a random point."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        if self.domain.dimension > MOST_COLUMNS:
            raise InputError(f"{self.name} reports at most {MOST_COLUMNS} columns")

    def steps(self, point: Sequence[float], steps: int) -> list[int]:
        """Whole steps from the lower bound of each column, of `steps` between the bounds."""
        domain = self.domain
        edges = zip(point, domain.lower, domain.upper, strict=True)
        return [min(max(round((x - low) / (high - low) * steps), 0), steps) for x, low, high in edges]


class Signs:
    """The law of `dm`: random signs that agree with given ones in more than half of the columns with higher odds."""

    def __init__(self, epsilon: Fraction, dimension: int) -> None:
        self.dimension = dimension
        self.odds = Odds.of(epsilon, 2)

    @property
    def agreeing(self) -> int:
        """Number of sign vectors z with z . v > 0: half of those that are not orthogonal to v."""
        d = self.dimension
        return ((1 << d) - (0 if d % 2 else math.comb(d, d // 2))) // 2

    @property
    def total(self) -> int:
        """Sum of the weights of all sign vectors."""
        return self.odds.heads * self.agreeing + self.odds.unit * ((1 << self.dimension) - self.agreeing)

    @property
    def scale(self) -> float:
        """B: B z is an unbiased report of t."""
        gain = (self.odds.heads - self.odds.unit) * math.comb(self.dimension - 1, self.dimension // 2)
        return float(Fraction(self.total, gain))

    def weight(self, signs: int, report: int) -> int:
        """Weight of a report given signs, both as bits."""
        agreements = self.dimension - (signs ^ report).bit_count()
        return self.odds.heads if 2 * agreements > self.dimension else self.odds.unit

    def draw(self, signs: int, coins: Coins) -> int:
        """Draw a report: a uniform one, kept for sure if it agrees and with probability unit / heads if not."""
        while True:
            report = coins.below(1 << self.dimension)
            if coins.below(self.odds.heads) < self.weight(signs, report):
                return report


class DuchiDevice(PointDevice):
    """`dm`; see the module's text."""

    name = "dm"

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.law = Signs(self.epsilon, self.domain.dimension)

    @property
    def payload_bytes(self) -> int:
        """A bit for each column."""
        return -(-self.domain.dimension // 8)

    def encode(self, point: Sequence[float], coins: Coins) -> bytes:
        """Draw the signs, then the report."""
        signs = sum((coins.below(STEPS) < step) << j for j, step in enumerate(self.steps(point, STEPS)))
        return self.law.draw(signs, coins).to_bytes(self.payload_bytes, "little")


def piecewise_columns(epsilon: Fraction, dimension: int) -> int:
    """Return k of `pm`: how many columns are reported.

    Examples
    --------
    >>> piecewise_columns(Fraction(1), 8), piecewise_columns(Fraction(6), 8)
    (1, 2)
    """
    return max(1, min(dimension, int(epsilon / PM_BUDGET)))


def piecewise_window(epsilon: Fraction) -> Window:
    """Return the law of one column of `pm`, of the published width 1 / (e^(epsilon / 2) + 1) of all positions."""
    share = 1 / (math.exp(min(float(epsilon), 60.0) / 2) + 1)
    return Window.of(epsilon, PM_POSITIONS, max(1, round(PM_POSITIONS * share)))


def piecewise_scale(law: Window) -> float:
    """Return what makes ``2 position + 1 - positions`` an unbiased report of t in [-1, 1]."""
    gain = (law.odds.heads - law.odds.unit) * law.width * (law.positions - law.width)
    return float(Fraction(law.total, gain))


class PiecewiseDevice(PointDevice):
    """`pm`; see the module's text."""

    name = "pm"

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.columns = piecewise_columns(self.epsilon, self.domain.dimension)
        self.law = piecewise_window(self.epsilon / self.columns)

    @property
    def payload_bytes(self) -> int:
        """An index and a position for each reported column."""
        return self.columns * (INDEX_BYTES + POSITION_BYTES)

    def encode(self, point: Sequence[float], coins: Coins) -> bytes:
        """Draw the columns, then a position for each."""
        steps = self.steps(point, STEPS)
        left = list(range(len(steps)))
        payload = b""
        for _ in range(self.columns):
            column = left.pop(coins.below(len(left)))
            start, rest = divmod(steps[column] * (self.law.positions - self.law.width), STEPS)
            position = self.law.draw(start + (coins.below(STEPS) < rest), coins)
            payload += column.to_bytes(INDEX_BYTES, "little") + position.to_bytes(POSITION_BYTES, "little")
        return payload


def square_reach(epsilon: float) -> float:
    """Return b of `sw` for a column of length 1: the reach of the likelier outputs.

    Examples
    --------
    >>> round(square_reach(1.0), 4), round(square_reach(1e-4), 3)
    (0.2561, 0.5)
    """
    if epsilon < 1e-2:
        return 0.5 - epsilon / 3  # the formula's digits cancel
    power = math.exp(-epsilon)
    return power * (epsilon - 1 + power) / (2 * (1 - power - epsilon * power))


def square_window(epsilon: Fraction) -> tuple[Window, int]:
    """Return the law of one column of `sw`, and b in positions."""
    reach = max(1, round(square_reach(float(epsilon)) * SW_STEPS))
    return Window.of(epsilon, SW_STEPS + 1 + 2 * reach, 2 * reach + 1), reach


class SquareDevice(PointDevice):
    """`sw`; see the module's text."""

    name = "sw"

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.law, self.reach = square_window(self.epsilon / self.domain.dimension)

    @property
    def payload_bytes(self) -> int:
        """A position for each column."""
        return POSITION_BYTES * self.domain.dimension

    def encode(self, point: Sequence[float], coins: Coins) -> bytes:
        """Draw every column's position; the window around step s starts at position s."""
        return b"".join(
            self.law.draw(step, coins).to_bytes(POSITION_BYTES, "little") for step in self.steps(point, SW_STEPS)
        )


def planar_law(epsilon: Fraction, dimension: int) -> SphereNoise:
    """Return the noise of `gi` in lattice steps."""
    return SphereNoise(dimension, epsilon / (GI_FINENESS + 1))


def too_many_columns(dimension: int) -> str | None:
    """Say why no device draws the noise of `gi` in so many columns, or return None.

    Examples
    --------
    >>> too_many_columns(3000)
    'its noise takes devices seconds in 1024 columns, which are the most, not 3000; project the points to fewer'
    """
    if dimension <= MOST_PLANAR_COLUMNS:
        return None
    return (
        f"its noise takes devices seconds in {MOST_PLANAR_COLUMNS} columns, which are the most, not {dimension}; "
        "project the points to fewer"
    )


def check_planar_columns(dimension: int) -> None:
    """Refuse a document that would keep a device busy for minutes."""
    if reason := too_many_columns(dimension):
        raise InputError(f"the protocol is not for devices: {reason}")


def planar_step(radius: float, dimension: int) -> float:
    """Lattice step h of `gi`."""
    return radius / (GI_FINENESS * math.sqrt(dimension)) * GI_STEP_MARGIN


class PlanarDevice(PointDevice):
    """`gi`; see the module's text."""

    name = "gi"

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.radius = checked_radius(self.parameters)
        self.step = planar_step(self.radius, self.domain.dimension)
        self.law = planar_law(self.epsilon, self.domain.dimension)

    def certify(self) -> None:
        """Check the radius: a millionth of the width at least, so that lattice coordinates stay below 2^32."""
        super().certify()
        check_planar_columns(self.domain.dimension)
        check_radius(self.radius, widest(self.domain))

    def conditions(self) -> tuple[str, ...]:
        """Return the radius."""
        return (planar_condition(self.radius),)

    @property
    def within(self) -> str:
        """The radius."""
        return near(self.radius)

    @property
    def payload_bytes(self) -> int:
        """A 32-bit integer for each column."""
        return LATTICE_BYTES * self.domain.dimension

    def encode(self, point: Sequence[float], coins: Coins) -> bytes:
        """Put the point on the lattice and add noise."""
        places = (round((x - middle) / self.step) for x, middle in zip(point, self.domain.middle, strict=True))
        reports = [place + noise for place, noise in zip(places, self.law.draw(coins), strict=True)]
        cut = (min(max(report, -LARGEST_REPORT), LARGEST_REPORT) for report in reports)
        return b"".join(report.to_bytes(LATTICE_BYTES, "little", signed=True) for report in cut)
