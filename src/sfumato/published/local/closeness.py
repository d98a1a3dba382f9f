"""Which points count as close, and how often a hash function tells close points apart.

A metric guarantee speaks of points within a radius. For a kernel that is a collision probability, Pr[h(x) = h(x')] =
k(x, x') over the draw of one hash function, so the chance that it separates two points within a distance t is at most
`separation(t)`, the largest 1 - k there:

- ``l2-lsh``, ``l1-lsh``, ``exponential`` (p = 2), ``laplacian``: the kernel falls with the l2 or l1 distance;
- ``hat``: a product of hats is at least 1 minus the l1 distance in bandwidths;
- ``angular``: 1 - (1 - t / pi)^power, t the angle in radians;
- ``jaccard``: t itself, the Jaccard distance;
- `Steps`: any (r1, r2, p1, p2)-sensitive family, of which no more is known than these four numbers.

Devices draw hash functions from tables, which separate a little more often, the more columns the more: `excess`, an
upper bound of that (the rest of this text has the proofs).

The paper bounds 1 - k by 0.8 t / bandwidth (l2) and 1.2 t / bandwidth + 0.1 (l1) instead; `published` is that line,
for the calibrations as published.

The standard library only: devices check with it what an organiser claims.

Tables: how much more often hash functions drawn from them tell points apart than those of the exact laws, at most. A
guarantee over the draw of hash functions is calibrated with the chance that one of them separates two points. Devices
draw from the tables of `public.rows`; their laws are close to the normal, the Cauchy and the cell law, and sums over
many columns add the differences up. Here are upper bounds of what that adds to the chance, for points a distance t
apart (in bandwidths) in d columns. They hold for every pair of lattice points and every d.

Notation. C is a number of the exact law, q its quantile function, T' the number from the table with exact nodes and a
continuous position between them, both from one uniform level u. n are the nodes; their gaps grow from the middle on,
because q is convex above 1/2 (normal, Cauchy). T is the device's number: T' with nodes rounded (half a unit), rounded
down (a unit) and at one of 2^16 positions in a cell (a gap over 2^16). On the mean |T - T'| is at most `ROUNDING`: 1.5
units + 2^-32 (n_last - n_first). An offset of 32 bits adds 2^-32 to the chance that a boundary lies between two places.

**Projections** (`l1-lsh`, `l2-lsh`). With delta the difference of two points, a random offset separates them with
probability f(sum_j delta_j T_j), f(s) = min(1, |s|). Three steps lead to the exact law:

1. T to T': f changes by |s - s'| at most, so this adds at most ROUNDING |delta|_1; |delta|_1 <= sqrt(d) t for l2.
2. T' to Z of the sign of C and size max(|T'|, |C|). T' is symmetric, and unimodal because gaps grow outwards; Z too:
   above the last crossing it has the density of C, which there is less than the table's, because q crosses the chord
   upwards, and falls. |T'| <= |Z|. For symmetric unimodal laws sums keep this order (Z. Birnbaum, "On random variables
   with comparable peakedness", 1948): |sum delta T'| is stochastically less than |sum delta Z|. This adds nothing.
3. Z to C: Z - C has the sign of C and the size W = max(0, |T'| - |C|), so this adds at most
   E min(1, |sum_j delta_j (Z_j - C_j)|).

*Normal*: Z_j - C_j are independent with mean 0, so step 3 adds at most t sqrt(E W^2), and W is at most the gap of its
cell: E W^2 <= 2^-16 sum of gap^2 < 0.0022^2.

*Cauchy*: step 3 adds at most sum_j e(|delta_j|), e(x) >= E min(1, x W) with e concave and e(0) = 0, hence d e(t / d).
Count cells from an end, k = 0 the last one. q(1 - v) = cot(pi v) is 1 / (pi v) less a convex function, so a chord
exceeds it by at most what it exceeds 1 / (pi v) by. With A = 2^16 / pi the mean of W in cell k is at most

    m_k = A (1 / (2 k) + 1 / (2 k + 2) - ln(1 + 1 / k)) <= A / (6 k^3),     m_0 = A (4/3 - ln 3),

the latter for a chord from A to 4 A, above A / x between x = 1/3 and 1. Jensen's inequality in every cell gives e(x) =
2^-15 sum_k min(1, x m_k). In few columns that is a few times 10^-4; in many it grows to 0.2 t.

**Grids** (`laplacian`, `hat`). Columns are separated independently, column j with probability E min(1, delta_j s) for a
slope s > 0. Within its cell of the table s exceeds the exact slope by its gap at most (by its upper end in the first
one), on the mean by 2^-16 n_last < 0.0056: that adds 0.0056 t in all, and ROUNDING t. `hat` has slopes of 1.

**Signs** (`angular`). One hyperplane separates unit vectors u and u' if a . u and a . u' have different signs. Replace
normal a_j by T'_j, column by column. Given the other columns, with sums R and R', the signs differ for a_j between (or
outside) -R / u_j and -R' / u'_j, so the chance changes by at most |F - Phi| there, F and Phi the two distribution
functions. Sums of independent variables with densities up to 0.4 have a density of at most 0.4 sqrt(2) over their
norm (B. Rogozin, 1987, and K. Ball's bound of cubes' slices, 1986). So where u_j^2 <= 1/2 the mean change is at most
0.8 |u_j| times the integral of |F - Phi|, which is E |T' - C|; over all columns 0.8 sqrt(d) E |T' - C|, and as much for
u'. One column of each may have u_j^2 > 1/2; there |F - Phi| <= 2^-16, because they agree at the nodes. E |T' - C| <
2e-5: in a convex cell the chord lies above the next cell's chord drawn on, hence by half of what its gap is less than
the next one on the mean, which telescopes to 2^-16 0.21 a side; the last cell adds 2^-16 0.38. Then T' to T: a . u
moves by at most 6.2e-6 sqrt(d), which changes a sign with probability 2 0.4 sqrt(2) 6.2e-6 sqrt(d). In all, for both:
2^-15 + (3.2e-5 + 1.5e-5) sqrt(d) for each hyperplane.

**Minimal words** (`jaccard`): only equal smallest words of 32 bits break the law, with probability d 2^-32 at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.errors import InputError
from sfumato.public.canonical_json import plain

OFFSET = 2.0**-32
NORMAL_ROUNDING, CAUCHY_ROUNDING, CELL_ROUNDING = 1.5e-6, 6.5e-5, 2.4e-5
NORMAL_EXCESS, CELL_EXCESS = 2.2e-3, 5.6e-3
SIGN_ERROR, SIGN_ERROR_GROWTH = 2.0**-15, 4.7e-5
END_CELLS = 64
_TOP = 2**16 / math.pi
# m_0, m_1, ... of the module's text, and their sum from END_CELLS on, which an integral bounds.
_CAUCHY_CELLS = (
    _TOP * (4 / 3 - math.log(3)),
    *(_TOP * (0.5 / k + 0.5 / (k + 1) - math.log1p(1 / k)) for k in range(1, END_CELLS)),
)
_CAUCHY_REST = _TOP / (12 * (END_CELLS - 1) ** 2)


def normal_projections(t: float, d: int) -> float:
    """Bound what tables add to the chance of `l2-lsh` at a Euclidean distance of t bandwidths.

    Examples
    --------
    >>> f"{normal_projections(0.1, 100):.1e}"
    '2.2e-04'
    """
    return (NORMAL_EXCESS + NORMAL_ROUNDING * math.sqrt(d)) * t + OFFSET


def cauchy_projections(t: float, d: int) -> float:
    """Bound what tables add to the chance of `l1-lsh` at an l1 distance of t bandwidths.

    Examples
    --------
    >>> [f"{cauchy_projections(0.05, d):.1e}" for d in (2, 3000, 10**6)]
    ['4.1e-04', '9.9e-03', '9.9e-03']
    """
    cells = math.fsum(min(1.0, t / d * mean) for mean in _CAUCHY_CELLS)
    return 2.0**-15 * (d * cells + t * _CAUCHY_REST) + CAUCHY_ROUNDING * t + OFFSET


def random_cells(t: float, d: int) -> float:
    """Bound what tables add to the chance of `laplacian` at an l1 distance of t bandwidths."""
    return (CELL_EXCESS + CELL_ROUNDING) * t + d * OFFSET


def fixed_cells(t: float, d: int) -> float:
    """Bound what 32-bit offsets add to the chance of `hat`, and 32-bit words to that of `jaccard`."""
    return d * OFFSET


def signs(power: int, d: int) -> float:
    """Bound what tables add to the chance of `angular` with so many hyperplanes.

    Examples
    --------
    >>> f"{signs(1, 2):.1e}", f"{signs(1, 10_000):.1e}"
    ('9.7e-05', '4.7e-03')
    """
    return power * (SIGN_ERROR + SIGN_ERROR_GROWTH * math.sqrt(d))


@dataclass(frozen=True)
class Closeness:
    """A metric, with the chance that one hash function separates points within a distance.

    Attributes
    ----------
    metric : str
        ``"euclidean"``, ``"manhattan"``, ``"angle"``, ``"jaccard"``, or a name of the caller's.
    separation : callable
        From a distance to the largest probability with which a hash function separates points within it.
    published : callable
        The bound that the paper puts in its place.
    excess : callable
        From a distance and a number of columns to what the tables of hash functions add to `separation` at most.
    """

    metric: str
    separation: Callable[[float], float]
    published: Callable[[float], float]
    excess: Callable[[float, int], float]


def l2_separation(t: float) -> float:
    """1 - k of `L2LSH` at t bandwidths.

    Examples
    --------
    >>> round(l2_separation(1.0), 6)
    0.631254
    """
    if t <= 0:
        return 0.0
    return math.erfc(math.sqrt(0.5) / t) - math.sqrt(2 / math.pi) * t * math.expm1(-0.5 / t**2)


def l1_separation(t: float) -> float:
    """1 - k of `L1LSH` at t bandwidths.

    Examples
    --------
    >>> round(l1_separation(1.0), 6)
    0.720636
    """
    if t <= 0:
        return 0.0
    return (2 * math.atan(t) + t * math.log1p(t**-2)) / math.pi


def _decay(t: float) -> float:
    return -math.expm1(-t)


def _line(slope: float, start: float, width: float) -> Callable[[float], float]:
    return lambda t: min(1.0, slope * t / width + start)


def _nothing(t: float, d: int) -> float:
    return 0.0


# Of each kernel: its metric, 1 - k at a distance in bandwidths, the slope and start of the line above it, and what
# tables add to it (devices have none for the exponential kernel).
_FALLING: dict[str, tuple[str, Callable[[float], float], float, float, Callable[[float, int], float]]] = {
    "l2-lsh": ("euclidean", l2_separation, 0.8, 0.0, normal_projections),
    "exponential": ("euclidean", _decay, 1.0, 0.0, _nothing),
    "l1-lsh": ("manhattan", l1_separation, 1.2, 0.1, cauchy_projections),
    "laplacian": ("manhattan", _decay, 1.0, 0.0, random_cells),
    "hat": ("manhattan", lambda t: min(t, 1.0), 1.0, 0.0, fixed_cells),
}


def closeness_of(kernel: Mapping[str, Any]) -> Closeness:
    """Return the metric of a kernel whose hash family is known.

    Parameters
    ----------
    kernel : mapping
        The kernel's document.

    Examples
    --------
    >>> closeness_of({"kernel": "l2-lsh", "bandwidth": 0.25}).metric
    'euclidean'
    >>> round(closeness_of({"kernel": "angular", "power": 1}).separation(0.1), 6)
    0.031831
    """
    document = plain(kernel)
    name = document.get("kernel")
    if name == "angular":
        power = document["power"]
        angle = lambda t: 1.0 if t >= math.pi else -math.expm1(power * math.log1p(-t / math.pi))  # noqa: E731
        return Closeness("angle", angle, angle, lambda t, d: signs(power, d))
    if name == "jaccard":
        return Closeness("jaccard", lambda t: min(1.0, t), lambda t: min(1.0, t), fixed_cells)
    if name not in _FALLING or document.get("p", 2.0) != 2.0:
        raise InputError(
            f"no distance is known within which the hashes of the kernel {name!r} separate seldom; use l2-lsh, l1-lsh "
            "or angular, or pass the options r1, r2, p1 and p2 of its hash family"
        )
    width = document["bandwidth"]
    if not isinstance(width, float):
        raise InputError("a radius needs one bandwidth for all columns, not one each; scale the columns instead")
    metric, separation, slope, start, excess = _FALLING[name]
    return Closeness(
        metric, lambda t: separation(t / width), _line(slope, start, width), lambda t, d: excess(t / width, d)
    )


@dataclass(frozen=True)
class Steps:
    """An (r1, r2, p1, p2)-sensitive family: points within r1 collide with probability p1 at least, within r2 with p2.

    Examples
    --------
    >>> Steps(0.1, 0.5, 0.9, 0.4).closeness().separation(0.3)
    0.6
    """

    r1: float
    r2: float
    p1: float
    p2: float

    def __post_init__(self) -> None:
        if not (0 < self.r1 < self.r2 and 0 <= self.p2 < self.p1 <= 1):
            raise InputError(
                "a sensitive family needs 0 < r1 < r2 and 0 <= p2 < p1 <= 1; "
                f"got r1={self.r1}, r2={self.r2}, p1={self.p1}, p2={self.p2}"
            )

    def separation(self, distance: float) -> float:
        """Known at two distances only; beyond r2 nothing is promised."""
        if distance <= self.r1:
            return 1.0 - self.p1
        return 1.0 - self.p2 if distance <= self.r2 else 1.0

    def closeness(self) -> Closeness:
        """Return the same as a `Closeness`; what is claimed of hash functions includes their tables."""
        return Closeness("its own distance", self.separation, self.separation, _nothing)
