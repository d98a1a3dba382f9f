"""What noise gives away about a change of the integers beneath it: from the law and the change, and nothing else.

This is the second opinion on every calibration: no number here comes from the code that chose the noise.

Laplace and K-norm noise, for outputs y and neighbours x, x + v: log Pr[y|x] - log Pr[y|x + v] is at most rate |v|, with
the l1 norm for (floored) Laplace noise, the l2 norm of every block for ball noise (`privacy.ball`), and for cube and
disc noise the norm of the body, rounded up to an integer, of every block (`privacy.body`); blocks add up. Exact
fractions, but for roots, which are rounded up.

Laplace noise under a delta (`laplace_epsilon`). The loss of one coordinate that moves by s is rate L, L = s - 2
min(max(Z, 0), s) with Z the noise: its exact law is convolved over all coordinates. Where s is large, L is rounded up
to multiples of a unit, which only raises the result.

Gaussian noise (`gaussian_epsilon`). With mu^2 = |v|^2 / sigma^2, rounded continuous noise has delta = Phi(mu/2 - e/mu)
- exp(e) Phi(-mu/2 - e/mu), exactly. Discrete noise is within a total variation t of it over the m coordinates that
move, t <= sqrt((1 + chi^2)^m - 1) / 2, which adds (1 + exp(e)) t. chi^2 of one coordinate is integrated here: with
x = z / sigma, the ratio of the two laws is C E_u[exp(-u^2 / (2 sigma^2)) cosh(x u / sigma)], u uniform in [-1/2, 1/2].

Concentrated steps (`concentrated_epsilon`): rho-zCDP gives every order's bound of C. Canonne, G. Kamath, T. Steinke
(2020, proposition 12), the least of which is taken.

`log_weights` is the likelihood that an attacker who knows the law would compute.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.signal import fftconvolve
from scipy.special import log_ndtr

from sfumato.errors import InputError
from sfumato.privacy.ball import BallNoise
from sfumato.privacy.body import CubeNoise, DiscNoise, Stack, StackedCubes
from sfumato.privacy.laws import NoiseLaw
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace, FlooredLaplace

Changes = NDArray[np.int64]
Floats = NDArray[np.float64]

LARGEST_EPSILON = 700.0  # exp of more overflows
ROOT_UNIT = 1 << 40  # lengths are rounded up to multiples of its inverse
UNITS = 1 << 17  # of loss, each way, in which Laplace noise is composed


@dataclass(frozen=True)
class Revealed:
    """What one unit of privacy gives away in all; parts of different kinds add up.

    Attributes
    ----------
    pure : Fraction
        Largest log ratio of the parts that are pure.
    mu_squared : Fraction
        Squared change over sigma, of Gaussian noise.
    distance : float
        Total variation between that noise and the ideal one.
    rho : float
        Of concentrated steps.
    moved : tuple of (Fraction, int)
        Rate and change of every coordinate beneath Laplace noise, where a delta may be spent on it.
    """

    pure: Fraction = Fraction(0)
    mu_squared: Fraction = Fraction(0)
    distance: float = 0.0
    rho: float = 0.0
    moved: tuple[tuple[Fraction, int], ...] = ()

    def __add__(self, other: Revealed) -> Revealed:
        """Return what both give away together."""
        return Revealed(
            self.pure + other.pure,
            self.mu_squared + other.mu_squared,
            self.distance + other.distance,
            self.rho + other.rho,
            self.moved + other.moved,
        )

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon for this delta; pure parts are simply added to what the others take.

        Examples
        --------
        >>> Revealed(pure=Fraction(1, 2), moved=((Fraction(1, 4), 2),)).epsilon(0.0)
        1.0
        >>> round(Revealed(mu_squared=Fraction(1, 16)).epsilon(1e-6), 3)
        1.061
        """
        composed = self.pure + sum(rate * change for rate, change in self.moved)
        if self.rho or self.mu_squared:
            if not delta:
                return math.inf
            if self.rho and self.mu_squared:
                raise InputError("Gaussian noise and concentrated steps of one mechanism are not composed here")
            if self.rho:
                return float(composed) + concentrated_epsilon(self.rho, delta)
            return float(composed) + gaussian_epsilon(math.sqrt(self.mu_squared), self.distance, delta)
        if delta and self.moved:
            return float(self.pure) + min(float(composed - self.pure), laplace_epsilon(self.moved, delta))
        return float(composed)


def revealed(law: NoiseLaw, change: Changes) -> Revealed:
    """Return what a law gives away about one change of all its integers.

    Parameters
    ----------
    law : NoiseLaw
        One of the library's laws.
    change : ndarray of int
        What neighbours differ by.

    Examples
    --------
    >>> revealed(CubeNoise(2, Fraction(1, 10)), np.array([3, -5, 0, 1])).epsilon(0.0)
    0.6
    """
    if isinstance(law, DiscreteLaplace | FlooredLaplace):
        return Revealed(moved=tuple((law.rate, abs(int(moved))) for moved in change[change != 0]))
    if isinstance(law, DiscreteGaussian):
        squares = sum(int(moved) ** 2 for moved in change)
        return Revealed(
            mu_squared=Fraction(squares, law.sigma**2),
            distance=lattice_distance(law.sigma, int(np.count_nonzero(change))),
        )
    if isinstance(law, BallNoise):
        return Revealed(pure=law.rate * sum(_length(block) for block in change.reshape(-1, law.size)))
    if isinstance(law, CubeNoise | DiscNoise):
        return Revealed(pure=law.rate * int(norms(law, change[None])[0]))
    if isinstance(law, Stack):
        return sum((revealed(part, piece[0]) for part, piece in _stack(law, change[None])), Revealed())
    raise InputError(f"what {law!r} gives away is not known; add it to sfumato.audit.losses")


def norms(law: NoiseLaw, changes: Changes) -> Floats:
    """Return a number for every change (one a row) that grows with what the law gives away about it.

    Examples
    --------
    >>> norms(DiscreteGaussian(5), np.array([[3, 4], [0, 1]]))
    array([25.,  1.])
    """
    if isinstance(law, DiscreteLaplace | FlooredLaplace):
        return np.asarray(np.abs(changes).sum(axis=1), dtype=np.float64)
    if isinstance(law, DiscreteGaussian):
        return np.asarray(np.square(changes.astype(np.float64)).sum(axis=1))
    if isinstance(law, BallNoise):
        blocks = changes.astype(np.float64).reshape(len(changes), -1, law.size)
        return np.asarray(np.linalg.norm(blocks, axis=2).sum(axis=1))
    if isinstance(law, CubeNoise):
        return np.asarray(np.abs(changes).reshape(len(changes), -1, law.size).max(axis=2).sum(axis=1), np.float64)
    if isinstance(law, DiscNoise):
        squares = np.square(changes.reshape(len(changes), -1, law.pairs, 2)).sum(axis=3).max(axis=2)
        return np.asarray(_root_above(squares).sum(axis=1), dtype=np.float64)
    if isinstance(law, Stack):
        each = [float(part.rate) * norms(part, piece) for part, piece in _stack(law, changes)]
        return np.asarray(np.sum(each, axis=0))
    raise InputError(f"what {law!r} gives away is not known; add it to sfumato.audit.losses")


def _stack(law: Stack, changes: Changes) -> list[tuple[Any, Changes]]:
    """Every part's law with its own of the changes, in all draws of the stack."""
    draws = changes.reshape(len(changes), -1, law.block)
    pieces = np.split(draws, np.cumsum(law.sizes)[:-1], axis=2)
    return [(part, piece.reshape(len(changes), -1)) for part, piece in zip(law.parts, pieces, strict=True)]


def _length(block: Changes) -> Fraction:
    """Return the length of a vector: exact where it is whole, else rounded up."""
    square = sum(int(moved) ** 2 for moved in block)
    if math.isqrt(square) ** 2 == square:
        return Fraction(math.isqrt(square))
    return Fraction(math.isqrt(square * ROOT_UNIT**2) + 1, ROOT_UNIT)


def _root_above(squares: Changes) -> Changes:
    """Round square roots up, exactly."""
    roots = np.ceil(np.sqrt(squares.astype(np.float64))).astype(np.int64)
    roots = np.where(np.square(roots) < squares, roots + 1, roots)
    return np.where((roots > 0) & (np.square(roots - 1) >= squares), roots - 1, roots)


def laplace_epsilon(moved: tuple[tuple[Fraction, int], ...], delta: float) -> float:
    """Return the least epsilon of Laplace noise of one rate on coordinates that move, never too small.

    Parameters
    ----------
    moved : tuple of (Fraction, int)
        Rate and change of every coordinate; the rates must agree.
    delta : float
        Above 0.

    Examples
    --------
    One coordinate: the loss is 1/2 or -1/2, and delta buys little.

    >>> round(laplace_epsilon(((Fraction(1, 2), 1),), 1e-6), 4)
    0.5
    >>> round(laplace_epsilon(((Fraction(1, 20), 1),) * 100, 1e-6), 2)
    2.21
    """
    (rate,) = {rate for rate, _ in moved}
    total = sum(change for _, change in moved)
    unit = -(-total // UNITS)
    law, low = np.ones(1), 0
    for change, times in Counter(change for _, change in moved).items():
        one, first = _loss_law(float(rate), change, unit)
        for bit in bin(times)[2:][::-1]:
            if bit == "1":
                law, low = np.maximum(fftconvolve(law, one), 0.0), low + first
            one, first = np.maximum(fftconvolve(one, one), 0.0), 2 * first
    losses = float(rate) * unit * (low + np.arange(len(law)))

    def excess(epsilon: float) -> float:
        above = losses > epsilon
        return float((law[above] * -np.expm1(epsilon - losses[above])).sum()) - delta

    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, float(losses[-1])))


def _loss_law(rate: float, change: int, unit: int) -> tuple[Floats, int]:
    """Probabilities of ceil(L / unit), from the least on, and the least."""
    low, high = -(change // unit), -(-change // unit)
    # ceil(L / unit) is at least k if L is above unit (k - 1), i.e. if the noise is at most this.
    most = (change - unit * (np.arange(low, high + 1) - 1) - 1) // 2
    at_least = 1 - np.exp(-rate * (most + 1.0)) / (1 + math.exp(-rate))
    at_least[0] = 1.0
    return at_least - np.append(at_least[1:], 0.0), low


def gaussian_epsilon(mu: float, distance: float, delta: float) -> float:
    """Return the least epsilon of Gaussian noise for a change of `mu` deviations.

    Examples
    --------
    >>> round(gaussian_epsilon(1 / 4.22, 0.0, 1.02e-6), 2)
    1.0
    """

    def excess(epsilon: float) -> float:
        ahead, behind = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        return float(math.exp(ahead) * -math.expm1(behind - ahead) + (1 + math.exp(epsilon)) * distance - delta)

    if mu == 0 or excess(0.0) <= 0:
        return 0.0
    high = 1e-3
    while excess(high) > 0:
        high *= 2
        if high > LARGEST_EPSILON:
            return math.inf
    return float(brentq(excess, 0.0, high, xtol=1e-12))


def lattice_distance(sigma: int, coordinates: int) -> float:
    """Return a bound of the total variation between discrete and rounded Gaussian noise on so many coordinates.

    Examples
    --------
    >>> 1e-14 < lattice_distance(2**20, 1) < 1e-13
    True
    """
    u, u_weights = np.polynomial.legendre.leggauss(24)
    x, x_weights = np.polynomial.hermite_e.hermegauss(80)
    u, u_weights, x_weights = u / 2, u_weights / 2, x_weights / x_weights.sum()
    shrink = np.expm1(-(u**2) / (2.0 * sigma**2))
    grow = 2 * np.sinh(np.outer(x, u) / (2 * sigma)) ** 2
    off = (shrink + grow + shrink * grow) @ u_weights  # the ratio less 1, without cancellation
    off = off + 2 * math.exp(-2 * (math.pi * sigma) ** 2) * (1 + off)
    chi_squared = float(x_weights @ off**2)
    return min(1.0, math.sqrt(math.expm1(min(coordinates * math.log1p(chi_squared), LARGEST_EPSILON))) / 2)


def concentrated_epsilon(rho: float, delta: float) -> float:
    """Return the least epsilon that rho-zCDP promises for a delta.

    Examples
    --------
    >>> round(concentrated_epsilon(0.01, 1e-6), 3)
    0.622
    """

    def bound(log_excess: float) -> float:
        order = 1 + math.exp(log_excess)
        return rho * order + (math.log(1 / delta) - math.log(order)) / (order - 1) + math.log1p(-1 / order)

    return max(0.0, float(minimize_scalar(bound, bounds=(-12.0, 20.0), method="bounded").fun))


def log_weights(law: NoiseLaw, noise: NDArray[np.number]) -> NDArray[np.float64]:
    """Log probability of noise vectors, up to a constant of the law.

    Parameters
    ----------
    law : NoiseLaw
        One of the library's laws.
    noise : ndarray, shape (..., size)
        Noise vectors along the last axis; whole blocks for the laws that come in blocks.

    Returns
    -------
    ndarray, shape (...)

    Examples
    --------
    >>> from fractions import Fraction
    >>> log_weights(DiscreteLaplace(Fraction(1, 2)), np.array([[0, 0], [3, -1]]))
    array([-0., -2.])
    """
    if isinstance(law, DiscreteLaplace):
        energy = float(law.rate) * np.abs(noise).sum(axis=-1)
    elif isinstance(law, FlooredLaplace):
        energy = float(law.rate) * np.where(noise >= 0, noise, -1 - noise).sum(axis=-1)
    elif isinstance(law, DiscreteGaussian):
        energy = np.square(noise.astype(np.float64)).sum(axis=-1) / (2.0 * law.sigma**2)
    elif isinstance(law, CubeNoise):
        blocks = noise.reshape(*noise.shape[:-1], -1, law.size)
        energy = float(law.rate) * np.abs(blocks).max(axis=-1).sum(axis=-1)
    elif isinstance(law, BallNoise):
        blocks = noise.astype(np.float64).reshape(*noise.shape[:-1], -1, law.size)
        energy = float(law.rate) * np.linalg.norm(blocks, axis=-1).sum(axis=-1)
    elif isinstance(law, DiscNoise):
        pairs = noise.astype(np.float64).reshape(*noise.shape[:-1], -1, law.pairs, 2)
        radii = np.ceil(np.sqrt(np.square(pairs).sum(axis=-1))).max(axis=-1)
        energy = float(law.rate) * np.maximum(radii, 1.0).sum(axis=-1)
    elif isinstance(law, StackedCubes):
        ends = np.cumsum([part.size for part in law.parts])[:-1]
        pieces = np.split(noise.reshape(*noise.shape[:-1], -1, law.block), ends, axis=-1)
        norms = [float(part.rate) * np.abs(piece).max(axis=-1) for part, piece in zip(law.parts, pieces, strict=True)]
        energy = np.sum(norms, axis=0).sum(axis=-1)
    elif isinstance(law, Stack):
        parts = _stack(law, noise.reshape(-1, noise.shape[-1]).astype(np.int64))
        energy = -np.sum([log_weights(part, piece) for part, piece in parts], axis=0).reshape(noise.shape[:-1])
    else:
        raise InputError(f"the likelihood of {law!r} is not known; pass a statistic of your own")
    return np.asarray(-energy)
