"""Secure aggregation instead of a shuffler: an aggregator learns the sum of everybody's integers and nothing else.

Source: P. Kairouz, Z. Liu, T. Steinke, "The Distributed Discrete Gaussian Mechanism for Federated Learning with Secure
Aggregation", 2021, and N. Agarwal, P. Kairouz, Z. Liu, "The Skellam Mechanism for Differentially Private Federated
Learning", 2021. Each participant adds a share of noise to the integers of their point and sends them modulo 2^48 to an
aggregator. There is no rounding to bits, and noise follows the l2 norm of the whole vector, so that it is more accurate
than bit sums wherever such an aggregator exists.

The aggregator is SIMULATED here (`Aggregator` adds up what it gets in the clear): the cryptography that hides single
vectors is left to whoever runs such a service. The guarantee is about its output.

Guarantee, n honest shares at least, D2 and D1 twice the l2 and l1 norms of one point's integers (replace one):

`discrete-gaussian`: a share has deviation s >= 4 on every coordinate. The sum of n shares differs from one discrete
Gaussian of variance n s^2 by a factor of e^t at most, t <= 10 (n - 1) exp(-pi^2 s^2) < 1e-58 for n up to 10^9 (theorem
of the first paper), which the calibration's rounding, 1e-9 of the noise, covers for up to a million coordinates. The
one Gaussian is calibrated exactly (`sfumato.privacy.gaussian`).

`skellam`: a share is the difference of two Poisson counts; shares add up exactly, to a variance of v. Renyi divergence
of order a: a D2^2 / (2 v) + min(((2 a - 1) D2^2 + 6 D1) / (4 v^2), 3 D1 / (2 v)) (theorem of the second paper), turned
into (epsilon, delta) over integer orders. Sampling takes time in proportion to the variance of a share.

Variance of a sum: n s^2, or v; more participants add more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from sfumato.deferred import brought_by
from sfumato.errors import InputError
from sfumato.kernels import InnerProduct, Kernel, get_kernel
from sfumato.methods.request import Request
from sfumato.privacy.bits import Integers, SecureBits, noise_bits
from sfumato.privacy.gaussian import calibrate
from sfumato.privacy.guarantee import Guarantee, check_choice, checked_delta, exact_epsilon
from sfumato.privacy.laws import ReportNoise
from sfumato.privacy.noise import DiscreteGaussian
from sfumato.public.document import seed_text
from sfumato.quantizers import InnerProductQuantizer, Quantizer
from sfumato.quantizers.clamping import Ball
from sfumato.release import Count, Release
from sfumato.shuffled.bitsum.bit_sum import checked_participants
from sfumato.shuffled.bitsum.shares import poisson
from sfumato.shuffled.features import BitFeatures, RotatedLandmarks
from sfumato.shuffled.methods import SCALE, make, named, request_for
from sfumato.sources import open_source

with brought_by("curator"):
    from dp_accounting.rdp.rdp_privacy_accountant import compute_delta

METHOD = "secure-aggregation"
NOISES = ("discrete-gaussian", "skellam")
MODULUS = 2**48
SMALLEST_SHARE = 4
INSTANCES = 1024
SKELLAM_SCALE = 24  # times the root of the number of coordinates: coarse, since sampling costs its square
_ORDERS = [*range(2, 65), *range(66, 257, 2), *range(260, 1025, 20)]
_UNIT = 2**16


class SecureAggregation:
    """A collection with a secure aggregator.

    Parameters
    ----------
    kernel, bandwidth, dimension, epsilon, delta, participants, instances, bounds, landmarks, seed
        As in `Protocol`; delta is above 0.
    noise : {"discrete-gaussian", "skellam"}
        What shares are drawn from.
    quantizer : {"auto", "fourier", "inner-product", "landmarks"}
        How a point becomes integers.

    Examples
    --------
    >>> protocol = SecureAggregation("inner-product", dimension=3, epsilon=1, delta=1e-5, participants=100, seed=1)
    >>> aggregator = Aggregator(protocol)
    >>> for _ in range(100):
    ...     aggregator.add(protocol.share([1.0, 0.0, 0.0]))
    >>> bool(abs(protocol.release(*aggregator.total()).query([[1.0, 0.0, 0.0]])[0] - 1) < 0.5)
    True
    """

    def __init__(
        self,
        kernel: str | Kernel,
        *,
        dimension: int,
        epsilon: Any,
        delta: float,
        participants: int,
        noise: str = "discrete-gaussian",
        bandwidth: Any = None,
        instances: int = INSTANCES,
        bounds: Any = None,
        landmarks: Any = None,
        quantizer: str = "auto",
        seed: int | str | None = None,
    ) -> None:
        check_choice("noise", noise, NOISES)
        self.kernel = get_kernel(kernel, bandwidth)
        self.participants = checked_participants(participants)
        self.epsilon, self.delta = exact_epsilon(epsilon), checked_delta(delta)
        if not self.delta:
            raise InputError("secure aggregation needs delta > 0; for delta = 0 use the bit sum 'pure'")
        request = request_for(
            self.kernel, dimension, int(seed_text(seed), 16), delta=self.delta, bounds=bounds, landmarks=landmarks
        )
        self.noise = noise
        name = named(quantizer, request).name
        if (quantizer, name) == ("auto", "lattice"):
            name = "fourier"  # whose integers shares are made of
        self.quantizer = _quantizer(name, request, instances, noise)
        self._points = BitFeatures(self.quantizer).points
        bound = self.quantizer.bound
        l2, l1 = math.nextafter(2 * math.sqrt(bound.l2_squared), math.inf), 2 * bound.l1
        if noise == "skellam":
            self._mean = _skellam_mean(l2, l1, self.participants, float(self.epsilon), self.delta)
        else:
            sigma = calibrate(l2, self.quantizer.size, float(self.epsilon), self.delta)
            self._law = DiscreteGaussian(max(SMALLEST_SHARE, math.ceil(sigma / math.sqrt(self.participants))))
        if self.participants * bound.largest + 40 * math.sqrt(self.variance(self.participants)) > MODULUS / 4:
            raise InputError("so many participants overflow the aggregator's 48 bits; pass fewer, or a larger epsilon")

    def variance(self, participants: int) -> float:
        """Variance of the noise of so many participants on one integer."""
        if self.noise == "skellam":
            return 2 * participants * float(self._mean)
        return participants * self._law.variance

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about the aggregator's output."""
        return self._guarantee(True)

    def _guarantee(self, private: bool) -> Guarantee:
        box, quantizer = self.quantizer.box, self.quantizer
        length = (quantizer.ball.condition(),) if isinstance(quantizer, InnerProductQuantizer) else ()
        return Guarantee(
            trust="shuffled",
            neighbours="replace",
            unit="user",
            epsilon=self.epsilon,
            delta=self.delta,
            n_public=True,
            conditions=(
                "in place of a shuffler, a secure aggregator reveals the sum of all participants and nothing else",
                f"at least {self.participants} participants follow the protocol, each once, with coins of their own",
                box.domain().condition(),
                *length,
            ),
            private=private,
        )

    def shares(self, X: Any, secure: SecureBits) -> Integers:
        """Noisy integers of participants modulo 2^48, one row each."""
        encoded = self.quantizer.encode(self._points(X))
        return np.asarray((encoded + self._noise(encoded.size, secure).reshape(encoded.shape)) % MODULUS)

    def share(self, x: Sequence[float], secure: SecureBits | None = None) -> Integers:
        """Return what one participant sends to the aggregator.

        Parameters
        ----------
        x : sequence of numbers
            The point.
        secure : SecureBits, optional
            The coins; secret by default.
        """
        secure = SecureBits() if secure is None else secure
        return np.asarray(self.shares(np.asarray(x, dtype=object).reshape(1, -1), secure)[0])

    def _noise(self, count: int, secure: SecureBits) -> Integers:
        if self.noise == "skellam":
            return poisson(secure, count, self._mean) - poisson(secure, count, self._mean)
        return self._law.sample(secure, count)

    def release(self, total: Integers, participants: int, private: bool = True) -> Release:
        """Turn the aggregator's output into a release.

        Parameters
        ----------
        total : ndarray of int
            The sum modulo 2^48.
        participants : int
            How many took part.
        private : bool
            Whether the coins were secret.
        """
        if participants < self.participants:
            raise InputError(
                f"{participants} participants took part and the guarantee needs {self.participants}: it is not released"
            )
        return Release(
            method=METHOD,
            guarantee=self._guarantee(private),
            kernel=self.kernel,
            reader=self.quantizer,
            values=(total + MODULUS // 2) % MODULUS - MODULUS // 2,
            noise=ReportNoise(self.variance(participants)),
            count=Count(participants, 0.0, True),
            parameters={"noise": self.noise, "participants": self.participants},
        )

    def simulate(self, X: Any, random_state: int | None = None) -> Release:
        """Add up the shares of everybody at once.

        Parameters
        ----------
        X : array, shape (participants, dimension)
            Everybody's points.
        random_state : int, optional
            Seeds all coins and marks the release NOT PRIVATE.
        """
        secure = noise_bits(random_state)
        points = open_source(X).whole()
        total = np.zeros(self.quantizer.size, dtype=np.int64)
        rows = max(1, (1 << 20) // self.quantizer.size)
        for start in range(0, len(points), rows):
            total += self.shares(points[start : start + rows], secure).sum(axis=0)
        return self.release(total % MODULUS, len(points), secure.private)


class Aggregator:
    """Stands in for a secure aggregation service: it would see no single vector, and lets out nothing but their sum."""

    def __init__(self, protocol: SecureAggregation) -> None:
        self._minimum, self._count = protocol.participants, 0
        self._total = np.zeros(protocol.quantizer.size, dtype=np.int64)

    def add(self, share: NDArray[np.int64]) -> None:
        """Take what one participant sends."""
        if share.shape != self._total.shape or share.dtype.kind != "i" or share.min() < 0 or share.max() >= MODULUS:
            raise InputError(f"a share must be {self._total.size} integers from 0 to 2**48 - 1")
        self._total = (self._total + share) % MODULUS
        self._count += 1

    def total(self) -> tuple[Integers, int]:
        """Return the sum modulo 2^48 and the number of participants; refused while they are too few."""
        if self._count < self._minimum:
            raise InputError(f"{self._count} participants took part and the guarantee needs {self._minimum}")
        return self._total, self._count


def _quantizer(name: str, request: Request, instances: int, noise: str) -> Quantizer:
    if name == "inner-product" and isinstance(request.kernel, InnerProduct):
        scale = SCALE if noise != "skellam" else math.ceil(SKELLAM_SCALE * math.sqrt(request.dimension))
        return InnerProductQuantizer(Ball.around(request.kernel, request.dimension, scale, request.bounds), None)
    if name not in ("fourier", "landmarks") or noise == "skellam":
        which = "inner products" if noise == "skellam" else "inner products, Fourier pairs and landmarks"
        raise InputError(f"{noise} shares are for {which}, not {name}")
    made = make(name, request, instances)
    return made.inner if isinstance(made, RotatedLandmarks) else made


def skellam_divergence(order: int, l2: float, l1: float, variance: float) -> float:
    """Bound of the Renyi divergence of Skellam noise of a variance, moved by l2 and l1.

    Examples
    --------
    >>> round(skellam_divergence(2, 10.0, 10.0, 1000.0), 6)
    0.10009
    """
    extra = ((2 * order - 1) * l2**2 + 6 * l1) / (4 * variance**2)
    return order * l2**2 / (2 * variance) + min(extra, 3 * l1 / (2 * variance))


def _skellam_mean(l2: float, l1: float, n: int, epsilon: float, delta: float) -> Fraction:
    """Least mean of the Poisson counts of one participant's share, in units of 2^-16."""

    def excess(log_variance: float) -> float:
        divergences = [skellam_divergence(order, l2, l1, math.exp(log_variance)) for order in _ORDERS]
        return math.log(max(compute_delta(_ORDERS, divergences, epsilon)[0], 1e-320)) - math.log(delta)

    low, high = 2 * math.log(l2) - 20, 2 * math.log(l2) + 30
    if excess(high) > 0:
        raise InputError(f"no Skellam noise keeps epsilon {epsilon:g} and delta {delta:g}; pass a larger epsilon")
    variance = math.exp(brentq(excess, low, high, xtol=1e-6)) * (1 + 1e-5)
    return Fraction(math.ceil(variance / (2 * n) * _UNIT), _UNIT)
