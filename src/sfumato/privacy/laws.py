"""What a noise law is, and how a release's document names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.privacy.body import CubeNoise, DiscNoise
from sfumato.privacy.floored import FlooredLaplace
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace


class NoiseLaw(Protocol):
    """Integer noise, exactly sampled; a frozen value."""

    def sample(self, bits: SecureBits, count: int) -> Integers:
        """Return `count` integers."""
        ...

    @property
    def variance(self) -> float:
        """Variance of one coordinate."""
        ...

    def to_document(self) -> dict[str, Any]:
        """Return JSON-safe values that `law_from_document` reads."""
        ...


_READERS: dict[str, Callable[[Mapping[str, Any]], NoiseLaw]] = {
    DiscreteLaplace.name: DiscreteLaplace.from_document,
    DiscreteGaussian.name: DiscreteGaussian.from_document,
    DiscNoise.name: DiscNoise.from_document,
    CubeNoise.name: CubeNoise.from_document,
    FlooredLaplace.name: FlooredLaplace.from_document,
}


def law_from_document(document: Mapping[str, Any]) -> NoiseLaw:
    """Read a noise law that a `to_document` wrote.

    Examples
    --------
    >>> law_from_document({"law": "discrete-laplace", "rate": "1/10"})
    DiscreteLaplace(rate=Fraction(1, 10))
    """
    name = document.get("law")
    if not isinstance(name, str) or name not in _READERS:
        raise InputError(f"unknown noise law {name!r}; this version knows {', '.join(_READERS)}")
    return _READERS[name](document)
