"""What a noise law is, how a release's document names one, and noises that come together from several hands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np

from sfumato.errors import InputError
from sfumato.privacy.ball import BallNoise
from sfumato.privacy.bits import Integers, SecureBits
from sfumato.privacy.body import MOST_PARTS, CubeNoise, DiscNoise, Stack, StackedCubes, StackedDiscs, check_stack
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace, FlooredLaplace
from sfumato.public.codec import Documented, Many, Nested, Real, Schema, Text, Whole, refuse
from sfumato.public.ranges import MOST_INTEGERS

MOST_SITES = 2**16


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
class ReportNoise(Documented):
    """Noise of the local and the shuffled model, which participants added themselves: nobody here can draw it.

    Parameters
    ----------
    variance : float
        Of one published integer, or the largest of them where they differ.

    Examples
    --------
    >>> ReportNoise(2.5).to_document()
    {'law': 'reported', 'variance': 2.5}
    """

    schema = Schema({"law": "reported"}, variance=Real(0.0))
    variance: float

    def __post_init__(self) -> None:
        self.schema.fields["variance"].read(self.variance, "variance")

    def sample(self, bits: SecureBits, count: int) -> NoReturn:
        """Refuse: the participants drew it."""
        raise InputError("the participants added this noise on their own devices; it cannot be drawn again")


def _part_of_a_sum(document: Any, path: str) -> NoiseLaw:
    if isinstance(document, Mapping) and document.get("law") == "sum":
        raise refuse(f"{path}.law", "a law that is not a sum itself", "sum")
    return law_from_document(document, path)


@dataclass(frozen=True)
class SummedNoise(Documented):
    """The sum of independent noises, such as those of several sites; every one of them alone keeps its own promise.

    Examples
    --------
    >>> from fractions import Fraction
    >>> law = SummedNoise((DiscreteLaplace(Fraction(1, 10)), DiscreteLaplace(Fraction(1, 10))))
    >>> round(law.variance, 3)
    399.667
    """

    schema = Schema({"law": "sum"}, parts=Many(Nested(_part_of_a_sum), MOST_SITES, least=1))
    parts: tuple[NoiseLaw, ...]

    def sample(self, bits: SecureBits, count: int) -> Integers:
        """Return `count` independent samples."""
        return np.asarray(np.sum([law.sample(bits, count) for law in self.parts], axis=0, dtype=np.int64))

    @property
    def variance(self) -> float:
        """Sum of the variances."""
        return math.fsum(law.variance for law in self.parts)


def _part_of_a_stack(document: Any, path: str) -> NoiseLaw:
    if isinstance(document, Mapping) and document.get("law") in ("sum", "stacked"):
        raise refuse(f"{path}.law", "a law of one part", document["law"])
    return law_from_document(document, path)


@dataclass(frozen=True)
class StackedNoise(Stack):
    """Noises of different laws side by side, for sums of different features; every part keeps its own promise.

    Parameters
    ----------
    parts : tuple of NoiseLaw
        The law of each part.
    blocks : tuple of int
        Integers of each part.

    Examples
    --------
    >>> from fractions import Fraction
    >>> law = StackedNoise((DiscreteLaplace(Fraction(1, 10)), DiscNoise(1, Fraction(1, 60))), blocks=(3, 4))
    >>> law.sample(SecureBits.seeded(7), 7).shape
    (7,)
    """

    schema = Schema(
        {"law": "stacked"},
        parts=Many(Nested(_part_of_a_stack), MOST_PARTS, least=1),
        blocks=Many(Whole(1, MOST_INTEGERS), MOST_PARTS, least=1),
    )
    parts: tuple[NoiseLaw, ...]
    blocks: tuple[int, ...]

    def __post_init__(self) -> None:
        check_stack(self.parts, self.blocks)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Integers of each part."""
        return self.blocks


def part_variances(law: NoiseLaw) -> tuple[float, ...]:
    """Variance of a coordinate of each part of noises side by side; one number for every other law.

    Examples
    --------
    >>> from fractions import Fraction
    >>> part_variances(StackedNoise((ReportNoise(1.0), ReportNoise(4.0)), (2, 3)))
    (1.0, 4.0)
    """
    if isinstance(law, StackedNoise):
        return tuple(part.variance for part in law.parts)
    if isinstance(law, SummedNoise):
        rows = [part_variances(part) for part in law.parts]
        if len({len(row) for row in rows}) == 1:
            return tuple(math.fsum(column) for column in zip(*rows, strict=True))
    return (law.variance,)


def drawing_cost(law: NoiseLaw) -> float:
    """How many numbers one integer takes to draw, about; infinite where participants added the noise.

    Examples
    --------
    >>> from fractions import Fraction
    >>> each = DiscreteLaplace(Fraction(1, 10))
    >>> drawing_cost(SummedNoise((each, each))), drawing_cost(StackedNoise((each, ReportNoise(1.0)), (2, 3)))
    (2.0, inf)
    """
    if isinstance(law, ReportNoise):
        return math.inf
    if isinstance(law, SummedNoise):
        return math.fsum(drawing_cost(part) for part in law.parts)
    if isinstance(law, Stack):
        return max(drawing_cost(part) for part in law.parts)
    return law.tries if isinstance(law, CubeNoise | DiscNoise) else 1.0


_READERS: dict[str, Callable[[Any, str], NoiseLaw]] = {
    "discrete-laplace": DiscreteLaplace.from_document,
    "discrete-gaussian": DiscreteGaussian.from_document,
    "disc": DiscNoise.from_document,
    "cube": CubeNoise.from_document,
    "l2-ball": BallNoise.from_document,
    "floored-laplace": FlooredLaplace.from_document,
    "reported": ReportNoise.from_document,
    "stacked-cubes": StackedCubes.from_document,
    "stacked-discs": StackedDiscs.from_document,
    "stacked": StackedNoise.from_document,
    "sum": SummedNoise.from_document,
}


def law_from_document(document: Any, path: str = "noise") -> NoiseLaw:
    """Read a noise law that a `to_document` wrote.

    Examples
    --------
    >>> law_from_document({"law": "discrete-laplace", "rate": "1/10"})
    DiscreteLaplace(rate=Fraction(1, 10))
    """
    if not isinstance(document, Mapping):
        raise refuse(path, "an object", document)
    name = Text(*_READERS).read(document.get("law"), f"{path}.law")
    return _READERS[name](document, path)
