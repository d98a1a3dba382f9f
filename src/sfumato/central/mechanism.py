"""A mechanism ready to run: public parts chosen from a request, before any data is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.kernels import Kernel
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.laws import NoiseLaw
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.quantizers import Quantizer


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
    count_law : DiscreteLaplace or None
        Law of the noise on the count; None when n is public.
    guarantee : Guarantee
        The promise, count included.
    groups : int
        J of the median of means; 1 is the plain mean.
    parameters : mapping
        Public parameters for the record (JSON values).
    """

    method: str
    kernel: Kernel
    quantizer: Quantizer
    noise: NoiseLaw
    count_law: DiscreteLaplace | None
    guarantee: Guarantee
    groups: int = 1
    parameters: Mapping[str, Any] = field(default_factory=dict)
