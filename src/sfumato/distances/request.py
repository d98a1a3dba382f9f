"""What a caller asks of a release of distances: public facts only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sfumato.errors import InputError
from sfumato.kernels.distance import Distance
from sfumato.methods.request import Request
from sfumato.privacy.noise import CountNoise
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import Box


@dataclass(frozen=True)
class DistanceRequest(Request):
    """Public facts about a wanted release of distances; `kernel` is a `Distance`.

    The sums of most methods hold the number of records, which then costs nothing. Only the option ``count_share`` buys
    one apart: a share of epsilon, to be spent before the sizes are chosen.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if "density" in self.options:
            raise InputError("option density is for kernels: distances have none")

    @property
    def metric(self) -> Distance:
        """The distance."""
        if not isinstance(self.kernel, Distance):
            raise InputError(f"a release of distances needs a distance, not {self.kernel!r}")
        return self.kernel

    @property
    def count_epsilon(self) -> Fraction:
        """Part of the budget that buys the count before anything else; usually none."""
        return super().count_epsilon if "count_share" in self.options else Fraction(0)

    @property
    def buys_count(self) -> bool:
        """Whether the count is bought apart."""
        return self.count_epsilon > 0

    @property
    def reads_count(self) -> bool:
        """Whether the count is read off the sums: it is private and not bought apart."""
        return self.neighbours == "add-remove" and not self.buys_count

    @property
    def count_law(self) -> CountNoise | None:
        """Noise of a count that is bought; None for one that is read off the sums or public."""
        return super().count_law if self.buys_count else None

    @property
    def box(self) -> Box:
        """Where the records live."""
        if self.bounds is None:
            raise InputError(
                "bounds are missing: pass bounds=, one (lower, upper) pair or one per column, chosen without looking "
                "at the data: how far a record can be sets the noise"
            )
        return Box.from_bounds(self.bounds, self.dimension, self.outside)

    @property
    def lengths(self) -> Floats:
        """Widths of the columns."""
        return np.asarray(2 * self.box.half_widths)

    def pure(self) -> DistanceRequest:
        """Return the same request without delta, for mechanisms that need none."""
        return replace(self, delta=0.0)

    def with_option(self, name: str, value: object) -> DistanceRequest:
        """Return the same request with one more option."""
        return replace(self, options={**self.options, name: value})
