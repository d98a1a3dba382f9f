"""What a shuffled collection costs and how well it answers, told before it starts: the plan.

`published_error` is the supremum over queries of the root mean square error in Theorem 3.2 of Wagner (2025),
sqrt(4 b^2 + 16 R^4 S (S + (E/n)^2) / I) for I draws of a b-approximate (Q, R, S) family and bit sums of error E.

`Accuracy` is what is expected of one answer. With V = E^2, n participants, P a typical density:

| quantizer | family (Q, R, S), draws | noise | rounding | approximation |
|---|---|---|---|---|
| fourier, m pairs | (2, 1, 2), m | 4 V / (m n^2) | 1 / (2 m n) | P / (2 m) |
| inner-product, clip c | (d, c / sqrt(d), d), 1 | 4 c^2 V / (d n^2) | (c^2 - 1) / (d n) | (erfc(c / sqrt(2)) P)^2 |
| inner-product-signs, I | (1, sqrt(d), 1), I | 4 d V / (I n^2) | (d - 1) / (I n) | (P + P^2) / I |
| landmarks, r features of mean square G | (r, c / sqrt(r), r), 1 | 4 c^2 G V / (r n^2) | G (c^2 - 1) / (r n) | bias^2 |
| lattice, pairs of coefficients c_j | (2 m, max sqrt(2 c_j), 2 m), 1 | 16 V S / n^2 | 2 S / n | bias^2 + (q^2 P)^2 |
| hashing, m rows of W | (W, 1, 1), m | V W / ((W - 1) m n^2) | 0 | H / m |

S is the sum of the c_j^2, q what is lost of them (`quantizers.lattice`). Queries of the inner product and records are
taken as long as the radius. H, the variance of one row of hash counters, is P^2 / 4 + (P - 5 P^2 / 4) / (W - 1)
typically (`sfumato.central.race`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import InputError
from sfumato.methods.request import TYPICAL_DENSITY
from sfumato.public.codec import brief
from sfumato.public.ranges import plain_number
from sfumato.quantizers import (
    FourierQuantizer,
    HashingQuantizer,
    InnerProductQuantizer,
    InnerProductSigns,
    LatticeQuantizer,
    Quantizer,
)
from sfumato.shuffled.bitsum import central_gaussian_rmse
from sfumato.shuffled.features import RotatedLandmarks
from sfumato.shuffled.messages import HEAD_BYTES
from sfumato.shuffled.sealing import MESSAGE_BYTES

if TYPE_CHECKING:
    from sfumato.shuffled.protocol import Protocol


@dataclass(frozen=True)
class Accuracy:
    """Expected error of one answer.

    Attributes
    ----------
    noise, rounding, approximation : float
        Variances of a mean kernel value: bit sums, bits instead of numbers, features instead of the kernel.
    published : float
        The paper's upper bound of the root mean square error.
    """

    noise: float
    rounding: float
    approximation: float
    published: float

    @property
    def rmse(self) -> float:
        """Predicted root mean square error."""
        return math.sqrt(self.noise + self.rounding + self.approximation)


def published_error(*, radius: float, sparsity: float, draws: int, rmse: float, n: int, bias: float = 0.0) -> float:
    """Return the bound of Theorem 3.2.

    Parameters
    ----------
    radius, sparsity, draws, bias
        R, S, I and b of the family.
    rmse, n
        Error of a sum of bits, and participants.

    Examples
    --------
    >>> round(published_error(radius=2**0.5, sparsity=1, draws=768, rmse=103.7, n=10_000), 3)
    0.289
    """
    inner = sparsity * (sparsity + (rmse / n) ** 2)
    return math.sqrt(4 * bias**2 + 16 * radius**4 * inner / draws)


@dataclass(frozen=True)
class _Facts:
    """What errors depend on besides the quantizer: V / n^2, sqrt(V), n and P."""

    noise: float
    rmse: float
    n: int
    density: float


def accuracy(quantizer: Quantizer, bit_sum_variance: float, n: int, density: float = TYPICAL_DENSITY) -> Accuracy:
    """Predict the error of an answer, for V, n and P; see the module's table.

    Examples
    --------
    >>> from sfumato.kernels import Gaussian
    >>> quantizer = FourierQuantizer.draw(Gaussian(1.0), dimension=2, terms=384, seed=7)
    >>> round(accuracy(quantizer, 103.7**2, 10_000, density=0.1).rmse, 4)
    0.0115
    """
    facts = _Facts(bit_sum_variance / n**2, math.sqrt(bit_sum_variance), n, density)
    return _ERRORS[type(quantizer)](quantizer, facts)


def _error_of_pairs(quantizer: FourierQuantizer, facts: _Facts) -> Accuracy:
    pairs = quantizer.terms
    bound = published_error(radius=1.0, sparsity=2, draws=pairs, rmse=facts.rmse, n=facts.n)
    return Accuracy(4 * facts.noise / pairs, 1 / (2 * pairs * facts.n), facts.density / (2 * pairs), bound)


def _error_of_series(quantizer: LatticeQuantizer, facts: _Facts) -> Accuracy:
    size, squares, bias = quantizer.size, quantizer.weight_squares, quantizer.typical_bias
    radius, largest = math.sqrt(quantizer.largest_weight), quantizer.largest_bias
    bound = published_error(radius=radius, sparsity=size, draws=1, rmse=facts.rmse, n=facts.n, bias=largest)
    missed = bias**2 + (quantizer.lost**2 * facts.density) ** 2
    return Accuracy(4 * squares * facts.noise, squares / (2 * facts.n), missed, bound)


def _error_of_hashes(quantizer: HashingQuantizer, facts: _Facts) -> Accuracy:
    rows, width, density = quantizer.terms, quantizer.width, facts.density
    bound = published_error(radius=1.0, sparsity=1, draws=rows, rmse=facts.rmse, n=facts.n)
    hashed = density**2 / 4 + max(density - 1.25 * density**2, 0.0) / (width - 1)
    return Accuracy(facts.noise * width / ((width - 1) * rows), 0.0, hashed / rows, bound)


def _error_of_signs(quantizer: InnerProductSigns, facts: _Facts) -> Accuracy:
    draws, d, density = quantizer.terms, quantizer.dimension, facts.density
    bound = published_error(radius=math.sqrt(d), sparsity=1, draws=draws, rmse=facts.rmse, n=facts.n)
    return Accuracy(4 * d * facts.noise / draws, (d - 1) / (draws * facts.n), (density + density**2) / draws, bound)


def _error_of_products(quantizer: InnerProductQuantizer, facts: _Facts) -> Accuracy:
    assert quantizer.clip is not None
    return _clipped(quantizer.clip, quantizer.size, 1.0, 0.0, facts)


def _error_of_landmarks(quantizer: RotatedLandmarks, facts: _Facts) -> Accuracy:
    inner = quantizer.inner
    strength = float(np.square(inner.features(inner.fitted.points)[1]).sum(axis=1).mean())
    bias = math.sqrt(inner.resemblance.bias_share * max(inner.resemblance.residual, 0.0))
    return _clipped(quantizer.clip, quantizer.size, strength, bias, facts)


def _clipped(clip: float, size: int, strength: float, bias: float, facts: _Facts) -> Accuracy:
    """Error of so many rotated and clipped features, whose weights have this mean square."""
    bias, n = math.hypot(bias, math.erfc(clip / math.sqrt(2)) * facts.density), facts.n
    bound = published_error(radius=clip / math.sqrt(size), sparsity=size, draws=1, rmse=facts.rmse, n=n, bias=bias)
    rounding = strength * (clip**2 - 1) / (size * n)
    return Accuracy(4 * clip**2 * strength * facts.noise / size, rounding, bias**2, bound)


_ERRORS: dict[type[Quantizer], Callable[[Any, _Facts], Accuracy]] = {
    FourierQuantizer: _error_of_pairs,
    LatticeQuantizer: _error_of_series,
    HashingQuantizer: _error_of_hashes,
    InnerProductSigns: _error_of_signs,
    InnerProductQuantizer: _error_of_products,
    RotatedLandmarks: _error_of_landmarks,
}
KINDS = tuple(_ERRORS)


@dataclass(frozen=True)
class Plan:
    """Predicted cost and error of a collection, for its smallest group.

    Attributes
    ----------
    participants, instances : int
        n and I.
    messages : int
        Sealed messages of every participant, cover included.
    bytes : int
        What every participant sends.
    real_messages : float
        Messages of one participant without cover, on average.
    bit_sum_rmse, central_rmse : float
        Error of one sum of bits, and of Gaussian noise that a trusted curator would add (infinite if delta = 0).
    accuracy : Accuracy
        Error of an answer.
    density : float
        P, the mean kernel value between two records, for which that error holds.
    """

    participants: int
    instances: int
    messages: int
    bytes: int
    real_messages: float
    bit_sum_rmse: float
    central_rmse: float
    accuracy: Accuracy
    density: float

    @classmethod
    def of(cls, protocol: Protocol, density: float | None = None) -> Plan:
        """Plan a protocol; `density` is the typical mean kernel value, 0.02 if it is not known."""
        typical = TYPICAL_DENSITY if density is None else plain_number(density)
        if isinstance(typical, bool) or not isinstance(typical, int | float) or not 0 < typical <= 1:
            raise InputError(f"density must be a number above 0 and at most 1, got {brief(density)}")
        group = min(protocol.groups, key=lambda each: each.participants)
        features, bitsum = protocol.features, group.bitsum
        mean_bit = 1 / protocol.quantizer.width if features.binary else 0.5
        real = features.instances * bitsum.messages(mean_bit)
        guarantee = protocol.guarantee("model")
        central = math.inf
        if guarantee.delta:
            central = central_gaussian_rmse(features.changed, float(guarantee.epsilon), guarantee.delta)
        return cls(
            participants=bitsum.n,
            instances=features.instances,
            messages=group.messages,
            bytes=HEAD_BYTES + group.messages * MESSAGE_BYTES,
            real_messages=real,
            bit_sum_rmse=bitsum.rmse,
            central_rmse=central,
            accuracy=accuracy(protocol.quantizer, bitsum.variance, bitsum.n, typical),
            density=float(typical),
        )

    def facts(self) -> list[tuple[str, str]]:
        """Say what taking part costs and what error to expect, each under a word; the command line shows the same."""
        curator = "" if math.isinf(self.central_rmse) else f"; {self.central_rmse:.4g} for a trusted curator"
        return [
            (
                "sends",
                f"{self.messages:,} messages a person, {self.bytes:,} bytes sealed, of which {self.real_messages:.4g} "
                f"on average are no cover; {self.instances} instances",
            ),
            ("sum of bits", f"error {self.bit_sum_rmse:.4g} with {self.participants:,} participants{curator}"),
            (
                "error",
                f"about {self.accuracy.rmse:.2g} of a mean similarity, for P = {self.density:.3g} (the published bound "
                f"is {self.accuracy.published:.2g})",
            ),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{name}: {text}" for name, text in self.facts())

    def to_document(self) -> dict[str, Any]:
        """Return the plan as JSON values; what is infinite is None."""
        named, made = asdict(self), self.accuracy
        parts = {"noise": made.noise, "rounding": made.rounding, "approximation": made.approximation}
        del named["accuracy"]
        central = self.central_rmse if math.isfinite(self.central_rmse) else None
        return named | {
            "central_rmse": central,
            "rmse": made.rmse,
            "published_rmse": made.published,
            "variances": parts,
        }
