"""What a noise law is, and how a release's document names one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from sfumato.errors import InputError
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.privacy.body import CubeNoise, DiscNoise
from sfumato.privacy.floored import FlooredLaplace
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace
from sfumato.privacy.reported import ReportNoise
from sfumato.privacy.stacked import StackedCubes
from sfumato.privacy.stacked_discs import StackedDiscs


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


@dataclass(frozen=True)
class SummedNoise:
    """The sum of independent noises, such as those of several sites; every one of them alone keeps its own promise.

    Examples
    --------
    >>> from fractions import Fraction
    >>> law = SummedNoise((DiscreteLaplace(Fraction(1, 10)), DiscreteLaplace(Fraction(1, 10))))
    >>> round(law.variance, 3)
    399.667
    """

    parts: tuple[NoiseLaw, ...]
    name: ClassVar[str] = "sum"

    def sample(self, bits: SecureBits, count: int) -> Integers:
        """Return `count` independent samples."""
        return np.asarray(np.sum([law.sample(bits, count) for law in self.parts], axis=0, dtype=np.int64))

    @property
    def variance(self) -> float:
        """Sum of the variances."""
        return math.fsum(law.variance for law in self.parts)

    def to_document(self) -> dict[str, Any]:
        """Return the law as JSON-safe values."""
        return {"law": self.name, "parts": [law.to_document() for law in self.parts]}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> SummedNoise:
        """Read what `to_document` wrote."""
        parts = document.get("parts")
        if not isinstance(parts, list) or not parts or not all(isinstance(part, Mapping) for part in parts):
            raise InputError("a sum of noises must list its parts")
        if any(part.get("law") == cls.name for part in parts):
            raise InputError("a part of a sum of noises must not be a sum itself")
        return cls(tuple(law_from_document(part) for part in parts))


_READERS: dict[str, Callable[[Mapping[str, Any]], NoiseLaw]] = {
    DiscreteLaplace.name: DiscreteLaplace.from_document,
    DiscreteGaussian.name: DiscreteGaussian.from_document,
    DiscNoise.name: DiscNoise.from_document,
    CubeNoise.name: CubeNoise.from_document,
    FlooredLaplace.name: FlooredLaplace.from_document,
    ReportNoise.name: ReportNoise.from_document,
    StackedCubes.name: StackedCubes.from_document,
    StackedDiscs.name: StackedDiscs.from_document,
    SummedNoise.name: SummedNoise.from_document,
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
