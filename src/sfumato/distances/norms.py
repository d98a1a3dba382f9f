"""Norms of one record's integers in one column of hats, by the scales s of the nodes and S_l of the levels.

Notation as in `hat`: a record lies at the fraction t of its bin, u_0 = tri(t) and u_(l+1) = tri(u_l), where tri(u) =
min(2 u, 2 - 2 u).

l1. The nodes sum to s exactly. For numbers c_l >= 0 with c_l + c_(l-1) / 2 >= S_l, u_(l+1) <= 2 - 2 u_l gives sum_l
S_l u_l <= sum_l c_l (u_l + u_(l+1) / 2) <= sum_l c_l; the least such numbers are c_l = max(0, S_l - c_(l-1) / 2), and
where none is cut off at 0 a record reaches the bound. For S_l = rho^l, rho >= 1/2, it is below (2/3) / (1 - rho).

l2. t (1 - t) = u_0^2 / 4 + u_0 (1 - u_0) / 2, hence t (1 - t) = sum_l 2^-l u_l^2 / 4 (the variance of a Brownian
bridge by levels). So S_l^2 <= s^2 / 2^(l+1) gives s^2 ((1 - t)^2 + t^2) + sum_l S_l^2 u_l^2 <= s^2: the hats are free.
Rounding adds at most 2 s + 2. With other scales the sum of all largest squares is the bound.
"""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def largest_l1(scales: tuple[int, ...]) -> int:
    """Bound the l1 norm of one record's integers in one column, by scales of nodes and levels.

    Examples
    --------
    >>> largest_l1((100, 40, 25))
    145
    """
    total = carried = 0  # twice to the power of the level times c_l and their sum
    for level, scale in enumerate(scales[1:]):
        carried = max(0, (scale << level) - carried)
        total = 2 * total + carried if level else carried
    return scales[0] + (total >> max(len(scales) - 2, 0))


@lru_cache(maxsize=4096)
def largest_l2_squared(scales: tuple[int, ...]) -> int:
    """Bound the squared l2 norm of one record's integers in one column, by scales of nodes and levels.

    Examples
    --------
    >>> largest_l2_squared((100, 70, 50)), largest_l2_squared((100, 80))
    (10202, 16602)
    """
    nodes = scales[0]
    fits = all(scale**2 << (1 + level) <= nodes**2 for level, scale in enumerate(scales[1:]))
    hats = 0 if fits else sum(scale**2 for scale in scales[1:])
    return nodes**2 + hats + 2 * nodes + 2
