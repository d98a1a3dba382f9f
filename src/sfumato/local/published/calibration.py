"""How much each row of a sketch may reveal, so that points within a radius stay alike: three calibrations of gamma.

Source: 001_deca9758d0d1a22e.txt, section 3.2. A participant reports L rows, each bucket by randomised response of
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

The standard library only: devices check with it what an organiser claims.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import InputError

RULES = ("exact", "theorem-1", "corollary-1")
SMALLEST_ETA = 1e-300
# The tail is computed in floating point: one that meets eta to the last digits is taken as above it.
TAIL_ROUNDING = 1e-9
SMALLEST_TERM = 1e-17
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
    """

    gamma: Fraction
    rows: int
    eta: float
    rule: str

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
        return float(self.gamma) * different_rows(self.rows, difference, self.eta)


def different_rows(rows: int, difference: float, eta: float) -> int:
    """Return the smallest j with Pr[Binomial(rows, difference) > j] <= eta.

    Examples
    --------
    >>> different_rows(100, 0.05, 0.1)
    8
    """
    low, high = -1, rows  # the tail is above eta at `low`, and not at `high`
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(rows, difference, middle) <= eta * (1 - TAIL_ROUNDING) else (middle, high)
    return high


def tail(rows: int, difference: float, j: int) -> float:
    """Pr[Binomial(rows, difference) > j], to about ten digits, however small.

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


def _tail(rows: int, difference: float, line: float, eta: float) -> float:
    return float(max(1, different_rows(rows, difference, eta)))


_ROWS_TOLD_APART: dict[str, Callable[[int, float, float, float], float]] = {
    "exact": _tail,
    "theorem-1": _hoeffding,
    "corollary-1": _chernoff,
}


def calibrate(
    epsilon: Fraction, rows: int, difference: float, eta: float, rule: str = "exact", line: float | None = None
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

    Examples
    --------
    >>> for rule in RULES:
    ...     print(rule, round(float(calibrate(Fraction(1), 100, 0.05, 0.1, rule).gamma), 3))
    exact 0.125
    theorem-1 0.064
    corollary-1 0.097
    """
    if rule not in RULES:
        raise InputError(f"calibration must be one of {', '.join(RULES)}; got {rule!r}")
    if not SMALLEST_ETA <= eta < 1:
        raise InputError(f"eta must be a probability above 0 and below 1, such as 1e-6; got {eta!r}")
    if rows < 1:
        raise InputError(f"the number of rows must be positive, got {rows}")
    if not 0 <= difference <= 1:
        raise InputError(f"the chance of different buckets must be from 0 to 1; got {difference!r}")
    apart = _ROWS_TOLD_APART[rule](rows, difference, difference if line is None else line, eta)
    # A whole number of rows divides epsilon exactly; the others are rounded up in their last digits.
    inverse = Fraction(int(apart)) if apart == int(apart) else Fraction(apart * (1 + 1e-12))
    gamma = epsilon / min(max(inverse, Fraction(1, 10**9)), Fraction(rows))
    return Calibration(_simple(gamma), rows, eta, rule)


def _simple(gamma: Fraction) -> Fraction:
    """Round down to a fraction that documents can hold."""
    if gamma.denominator <= GAMMA_DENOMINATOR:
        return gamma
    return Fraction(math.floor(gamma * GAMMA_DENOMINATOR), GAMMA_DENOMINATOR)
