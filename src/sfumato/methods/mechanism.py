"""A mechanism ready to run: public parts chosen from a request, before any data is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels import Kernel
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.laws import NoiseLaw
from sfumato.privacy.loss import Loss
from sfumato.privacy.noise import CountNoise
from sfumato.public.ranges import check_size
from sfumato.quantizers.base import Integers, Quantizer, Reader
from sfumato.release import Count, Release


@dataclass(frozen=True)
class Mechanism:
    """Everything public about a release to be: what is summed, which noise is added, what is promised.

    Attributes
    ----------
    method : str
        The name people type.
    kernel, quantizer : Kernel, Quantizer
        What is approximated and how.
    noise : NoiseLaw
        Law of the noise on the sums.
    count_law : CountNoise or None
        Law of the noise on the count; None when n is public.
    guarantee : Guarantee
        The promise, count included.
    groups : int
        J of the median of means; 1 is the plain mean.
    parameters : mapping
        Public parameters for the record (JSON values).
    feature_loss : Loss or None
        What the sums reveal, the count apart, if more is known than the guarantee says.
    algorithm : callable or None
        ``algorithm(sums, count, bits)`` makes the published integers from the exact sums, where a mechanism does more
        than add noise; `count` is the published one.
    reader : Reader or None
        Reads the published integers where they are not the quantizer's sums.
    count_reader : callable or None
        Reads a private count off the published integers, where they hold one; it costs nothing.
    """

    method: str
    kernel: Kernel
    quantizer: Quantizer
    noise: NoiseLaw
    count_law: CountNoise | None
    guarantee: Guarantee
    groups: int = 1
    parameters: Mapping[str, Any] = field(default_factory=dict)
    feature_loss: Loss | None = None
    algorithm: Callable[[Integers, Count, SecureBits], Integers] | None = None
    reader: Reader | None = None
    count_reader: Callable[[Integers], Count] | None = None

    def __post_init__(self) -> None:
        check_size(self.quantizer.size)

    @property
    def published(self) -> Reader:
        """What reads the published integers."""
        return self.quantizer if self.reader is None else self.reader

    def publish(self, sums: Integers, count: Count, bits: SecureBits) -> Integers:
        """Turn exact sums into what may be published: add the noise, or run the mechanism's own algorithm."""
        if self.algorithm is not None:
            return self.algorithm(sums, count, bits)
        return np.asarray(sums + self.noise.sample(bits, self.quantizer.size))

    def release(self, values: Integers, count: Count) -> Release:
        """Wrap what was published."""
        return Release(
            method=self.method,
            guarantee=self.guarantee,
            kernel=self.kernel,
            kernel_document=self.kernel.to_document(),
            quantizer=self.published,
            values=values,
            noise=self.noise,
            count=count,
            groups=self.groups,
            parameters=dict(self.parameters),
        )

    def cost(self, count_is_bought: bool) -> tuple[Fraction, Loss]:
        """Epsilon that a run charges, and what it reveals; a count that is bought already is charged already."""
        if count_is_bought and self.count_reader is not None:
            raise InputError(f"{self.method} reads the count off its sums: pass count_share to buy one, or buy none")
        count = Fraction(0) if self.count_law is None else self.count_law.epsilon
        epsilon = self.guarantee.epsilon - count
        loss = self.feature_loss or Loss(pure=(epsilon,), failure=self.guarantee.delta)
        if count_is_bought or not count:
            return epsilon, loss
        return epsilon + count, loss + Loss(pure=(count,))
