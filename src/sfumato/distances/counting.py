"""The number of records read off sums that hold it: a linear function of them, so it costs nothing and has an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import NDArray

from sfumato.privacy.laws import NoiseLaw
from sfumato.quantizers.base import Integers
from sfumato.release import Count


class Counting(Protocol):
    """Sums that hold the number of records."""

    def count(self, sums: NDArray[Any]) -> float:
        """Return the number of records that the sums show."""
        ...

    @property
    def count_squares(self) -> float:
        """Sum of the squared weights that it is read with."""
        ...


def count_reader(quantizer: Counting, noise: NoiseLaw) -> Callable[[Integers], Count]:
    """Return what reads the published count off noisy sums."""
    variance = noise.variance * quantizer.count_squares

    def read(values: Integers) -> Count:
        return Count(max(1, round(quantizer.count(values))), variance, public=False)

    return read
