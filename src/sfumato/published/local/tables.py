"""How much more often hash functions drawn from tables tell points apart than those of the exact laws, at most.

A guarantee over the draw of hash functions is calibrated with the chance that one of them separates two points. Devices
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

The standard library only: devices calibrate with it.
"""

from __future__ import annotations

import math

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
