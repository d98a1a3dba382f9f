"""How much each row of a sketch may reveal, so that points within a radius stay alike: three calibrations of gamma.

Source: Zhou et al. (2024), section 3.2. A participant reports L rows, each bucket by randomised response of
parameter gamma. Two points whose buckets differ in X rows are told apart by at most gamma X (Lemma 1), and over the
draw of the hash functions X is binomial: L rows, each different with probability p (Lemma 2). So the loss of a pair
is at most epsilon, except with probability eta over the draw, if gamma <= epsilon / j for a j with Pr[X > j] <= eta.

- ``"theorem-1"``: j = L c + sqrt(L ln(1/eta) / 2), Hoeffding's bound, with c >= p the paper's line in the distance;
- ``"corollary-1"``: j = L (c + s), s the root of KL(p + s || p) = ln(1/eta) / L, Chernoff's bound;
- ``"exact"``: the smallest j with Pr[X > j] <= eta, from the binomial tail itself, and at least 1. Both bounds above
  are bounds of this tail, and a j rounded down only shrinks it, so this gamma is never smaller than theirs.

p = (1 - q)(1 - k) with q the collision probability of the rehash, and p = 1 - k where there is no rehash (the angular
kernel with its two buckets): leaving (R - 1) / R there would halve p and break the promise. For points closer than
the radius p is smaller, so that j covers them too. Nothing is gained below gamma = epsilon / L, which is plain LDP for
all pairs (`Calibration.worst_case` = gamma L, at most epsilon there); all three are cut there.

eta is a probability for each pair of points, over hash functions that all participants share: an unlucky draw leaves
some of them with neighbours from whom they are told apart by more. The worst case gamma L always holds.

Seeds can be tried. An organiser who wants to tell one pair apart tries documents until a seed is unlucky for it. The
seed is a hash of the whole document (`public.document`), so that with SHA-256 as a random function every try is a
fresh draw; each is unlucky with probability eta' at most if the tail is at most eta' (for its own parameters), and one
of 2^g tries is with probability 2^g eta' at most. So j is taken for eta' = eta 2^-g: "grinding" g, 64 by default. With
g = 0, the publication's assumption, nobody may have chosen the seed.

Such tails, below 1e-25, are bounded from above in decimal arithmetic of 50 digits with every operation rounded up
(`tail_above`), so that no rounding makes j too small; floating point only says where to look.

The standard library only: devices check with it what an organiser claims.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from sfumato.errors import InputError
from sfumato.local.promises import DIRECTIONS
from sfumato.privacy.guarantee import amount_text
from sfumato.public.codec import brief

RULES = ("exact", "theorem-1", "corollary-1")
SMALLEST_ETA = 1e-200
SMALLEST_TERM = 1e-17
# Beyond a sum of terms the rest of a tail is bounded by a geometric series, once that is so small a part of it.
SMALLEST_REST = Decimal("1e-20")
UP, DOWN = (
    Context(prec=50, rounding=mode, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[]) for mode in (ROUND_CEILING, ROUND_FLOOR)
)
BISECTIONS = 60
GAMMA_DENOMINATOR = 10**6


@dataclass(frozen=True)
class Calibration:
    """A gamma and what it promises.

    Attributes
    ----------
    gamma : Fraction
        Loss of one row.
    rows : int
        L.
    eta : float
        Probability, over the hash functions, with which a pair within the radius may lose more than epsilon.
    rule : str
        How gamma was found.
    grinding : int
        Base-2 logarithm of the number of seeds that may have been tried.
    """

    gamma: Fraction
    rows: int
    eta: float
    rule: str
    grinding: int = 0

    @property
    def worst_case(self) -> Fraction:
        """Loss that no pair of points exceeds, whatever the hash functions: gamma L."""
        return self.gamma * self.rows

    def loss(self, difference: float) -> float:
        """Loss that a pair of points exceeds with probability eta at most.

        Parameters
        ----------
        difference : float
            Probability p with which one row tells them apart.

        Examples
        --------
        >>> calibrate(Fraction(1), 100, 0.05, 1e-6).loss(0.05)
        1.0
        """
        return float(self.gamma) * different_rows(self.rows, difference, self.eta, self.grinding)


@lru_cache(maxsize=4096)
def different_rows(rows: int, difference: float, eta: float, grinding: int = 0) -> int:
    """Return the smallest j for which it is certain that Pr[Binomial(rows, difference) > j] <= eta 2^-grinding.

    Examples
    --------
    >>> different_rows(100, 0.05, 0.1), different_rows(100, 0.05, 1e-6, 64)
    (8, 40)
    """
    low, high, about = -1, rows, math.ldexp(eta, -grinding)  # the tail is above eta at `low`, and not at `high`
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(rows, difference, middle) <= about else (middle, high)
    allowed = DOWN.divide(Decimal(eta), Decimal(1 << grinding))
    while tail_above(rows, difference, high) > allowed:
        high += 1
    while high > 0 and tail_above(rows, difference, high - 1) <= allowed:
        high -= 1
    return high


def tail_above(rows: int, difference: float, j: int) -> Decimal:
    """Return an upper bound of Pr[Binomial(rows, difference) > j], less than 1e-19 of it above it.

    The tail is the sum over i > j of C(rows, i) p^i (1 - p)^(rows - i). Terms fall by the factors (rows - i) / (i + 1)
    p / (1 - p), which fall themselves, so that what follows a term of factor f < 1 is at most f / (1 - f) times it. All
    terms are positive: rounded up, products and sums stay above what they stand for.

    Examples
    --------
    >>> tail_above(10, 0.5, 8) == Decimal(11) / 2**10
    True
    """
    if j >= rows or difference <= 0:
        return Decimal(0)
    if difference >= 1:
        return Decimal(1)
    p = Decimal(difference)
    odds = UP.divide(p, DOWN.subtract(Decimal(1), p))
    term = UP.multiply(_power(p, j + 1), _power(UP.subtract(Decimal(1), p), rows - j - 1))
    term = UP.multiply(UP.create_decimal(math.comb(rows, j + 1)), term)
    total = term
    for i in range(j + 1, rows):
        factor = UP.multiply(UP.divide(Decimal(rows - i), Decimal(i + 1)), odds)
        if factor < 1:
            rest = UP.divide(UP.multiply(term, factor), DOWN.subtract(Decimal(1), factor))
            if rest <= UP.multiply(total, SMALLEST_REST):
                return UP.add(total, rest)
        term = UP.multiply(term, factor)
        total = UP.add(total, term)
    return total


def _power(base: Decimal, exponent: int) -> Decimal:
    """Take a power by squaring, every product rounded up."""
    result, square = Decimal(1), base
    while exponent:
        if exponent & 1:
            result = UP.multiply(result, square)
        square, exponent = UP.multiply(square, square), exponent >> 1
    return result


def tail(rows: int, difference: float, j: int) -> float:
    """Pr[Binomial(rows, difference) > j] in floating point, to about ten digits, however small.

    Examples
    --------
    >>> round(tail(10, 0.5, 8) * 2**10, 9)
    11.0
    """
    if j >= rows or difference <= 0:
        return 0.0
    if difference >= 1:
        return 1.0
    if j + 1 < rows * difference:  # from the middle on, the other tail
        return 1.0 - tail(rows, 1 - difference, rows - j - 1)
    odds = difference / (1 - difference)
    choices = math.lgamma(rows + 1) - math.lgamma(j + 2) - math.lgamma(rows - j)
    term = math.exp(choices + (j + 1) * math.log(difference) + (rows - j - 1) * math.log1p(-difference))
    total, i = term, j + 1
    while i < rows and term > total * SMALLEST_TERM:
        term *= (rows - i) / (i + 1) * odds
        total += term
        i += 1
    return total


def _hoeffding(rows: int, difference: float, line: float, eta: float) -> float:
    return rows * line + math.sqrt(rows * math.log(1 / eta) / 2)


def _chernoff(rows: int, difference: float, line: float, eta: float) -> float:
    if difference <= 0.0:
        return rows * line
    wanted = math.log(1 / eta) / rows
    if difference >= 1.0 or -math.log(difference) <= wanted:  # KL(1 || p): no s below 1 - p is enough
        return float(rows)
    low, high = 0.0, 1 - difference
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if divergence(difference + middle, difference) < wanted else (low, middle)
    return rows * (line + high)


def divergence(a: float, b: float) -> float:
    """Kullback-Leibler divergence between coins of probability a and b.

    Examples
    --------
    >>> round(divergence(0.5, 0.25), 6)
    0.143841
    """
    heads = a * math.log(a / b) if a > 0 else 0.0
    tails = (1 - a) * math.log((1 - a) / (1 - b)) if a < 1 else 0.0
    return heads + tails


_BOUNDS: dict[str, Callable[[int, float, float, float], float]] = {"theorem-1": _hoeffding, "corollary-1": _chernoff}


def calibrate(
    epsilon: Fraction,
    rows: int,
    difference: float,
    eta: float,
    rule: str = "exact",
    line: float | None = None,
    grinding: int = 0,
) -> Calibration:
    """Find gamma for points that one row tells apart with probability `difference` at most.

    Parameters
    ----------
    epsilon : Fraction
        Loss of a pair within the radius.
    rows : int
        L.
    difference : float
        p at the radius.
    eta : float
        Above 0 and below 1.
    rule : {"exact", "theorem-1", "corollary-1"}
        See the module's text.
    line : float, optional
        The paper's bound of `difference`, which its two rules use; `difference` itself by default.
    grinding : int
        g, see the module's text.

    Examples
    --------
    >>> for rule in RULES:
    ...     print(rule, round(float(calibrate(Fraction(1), 100, 0.05, 0.1, rule).gamma), 3))
    exact 0.125
    theorem-1 0.064
    corollary-1 0.097
    """
    if rule not in RULES:
        raise InputError(f"calibration must be one of {', '.join(RULES)}; got {brief(rule)}")
    if not SMALLEST_ETA <= eta < 1:
        raise InputError(f"eta must be a probability above 0 and below 1, such as 1e-6; got {brief(eta)}")
    if rows < 1:
        raise InputError(f"the number of rows must be positive, got {rows}")
    if not 0 <= difference <= 1:
        raise InputError(f"the chance of different buckets must be from 0 to 1; got {brief(difference)}")
    apart = Fraction(max(1, different_rows(rows, difference, eta, grinding)))
    if rule != "exact":
        # A bound of the tail cannot be less than the tail itself, but for the rounding of its last digits.
        bound = _BOUNDS[rule](rows, difference, difference if line is None else line, math.ldexp(eta, -grinding))
        apart = max(apart, Fraction(bound * (1 + 1e-12)))
    gamma = epsilon / min(apart, Fraction(rows))
    return Calibration(_simple(gamma), rows, eta, rule, grinding)


def _simple(gamma: Fraction) -> Fraction:
    """Round down to a fraction that documents can hold."""
    if gamma.denominator <= GAMMA_DENOMINATOR:
        return gamma
    return Fraction(math.floor(gamma * GAMMA_DENOMINATOR), GAMMA_DENOMINATOR)


def sketch_conditions(radius: float, metric: str, made: Calibration) -> tuple[str, ...]:
    """Say what `mldp-kde` and `fkm-lr` promise within a radius, and in the worst case."""
    tries = f", whichever of 2^{made.grinding} protocols the organiser picks" if made.grinding else ""
    return (
        *((DIRECTIONS,) if metric == "angle" else ()),
        f"epsilon is for points within {radius!r} of each other ({metric}), except with "
        f"probability {made.eta!r} for each pair over the public hash functions{tries}; farther apart the loss grows "
        "with the distance",
        f"the worst case, for any two points and any hash functions, is {amount_text(made.worst_case)} "
        f"(gamma {made.rows} times)",
    )
