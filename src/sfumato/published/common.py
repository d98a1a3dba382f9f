"""What the published mechanisms share: reading a request, refusals that say the cost, rates that fit the samplers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.methods.method import Prediction
from sfumato.methods.request import SMALLEST_DENSITY, Request
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import Real, brief
from sfumato.quantizers.base import Encoder, Floats, Integers
from sfumato.quantizers.box import Box
from sfumato.quantizers.clamping import kept_rows

# Places in the box where a prediction looks at noise and misfit: enough for two digits.
PROBES = 24
LARGEST_SIZE, FINE_SIZE = 64, 8
SMALLEST_OPTION, LARGEST_OPTION = 1e-6, 1e100
# What releases may say of their integers' scale and of the density that biases are stated for.
LARGEST_SCALE = 1 << 31
DENSITY = Real(SMALLEST_DENSITY, 1.0)


class Blocks(Encoder):
    """Encodes rows block by block, so that what a block is computed from fits the cache."""

    block_values: ClassVar[int]

    @abstractmethod
    def _integers(self, rows: Floats) -> Integers:
        """Integers of a few rows that the box has kept."""

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows."""
        kept = kept_rows(self.box, rows)
        encoded = np.empty((len(kept), self.size), dtype=np.int64)
        for part in self._blocks(len(kept)):
            encoded[part] = self._integers(kept[part])
        return encoded

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers block by block."""
        kept = kept_rows(self.box, rows)
        for part in self._blocks(len(kept)):
            sums += self._integers(kept[part]).sum(axis=0)
        return len(kept)

    def _blocks(self, count: int) -> list[slice]:
        step = max(1, self.block_values // self.size)
        return [slice(start, start + step) for start in range(0, count, step)]


def refuse_bounds(request: Request) -> str | None:
    """Say so when there is no public box."""
    return "it needs bounds=, the public box that holds the points" if request.bounds is None else None


def public_box(request: Request) -> Box:
    """Return the request's box."""
    return request.box


def shown(count: int) -> str:
    """Write a number that may be larger than floating point holds, for messages.

    Examples
    --------
    >>> shown(1234), shown(10**1000)
    ('1.23e+03', 'over 1e+300')
    """
    return f"{float(count):.3g}" if count < 10**300 else "over 1e+300"


def probes(box: Box) -> Floats:
    """Scatter fixed places over a box: multiples of irrational numbers, modulo 1."""
    steps = np.sqrt(np.array([2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37], dtype=np.float64))
    turns = np.outer(np.arange(1, PROBES + 1), np.resize(steps, box.dimension) + np.arange(box.dimension) // 12)
    return np.asarray(np.array(box.lower) + (turns % 1.0) * (np.array(box.upper) - np.array(box.lower)))


def best_size(predicted: Callable[[int], float], most: int) -> int:
    """Size with the least predicted error, to an eighth; the error falls and then rises, which ends the search."""
    best, least, size = 1, math.inf, 1
    while size <= min(most, LARGEST_SIZE):
        error = predicted(size)
        if error < least:
            best, least = size, error
        elif error > 4 * least:
            break
        size += max(1, size // FINE_SIZE)
    return best


def within_limits(request: Request, prediction: Prediction) -> Prediction:
    """Return the prediction, or say which budget for time or space it exceeds."""
    limits = request.limits
    for what, needed, most in (
        ("bytes of file", prediction.file_size, limits.file_size),
        ("multiplications for each record", prediction.work_per_record, limits.work_per_record),
        ("multiplications for each query", prediction.work_per_query, limits.work_per_query),
    ):
        if needed > most:
            raise InputError(f"it takes {needed:.3g} {what}, and the budgets allow {most:.3g}")
    return prediction


def dense_prediction(
    request: Request,
    variance: float,
    integers: int,
    work: float,
    parameters: Mapping[str, Any],
    density: float,
    query_work: float | None = None,
) -> Prediction:
    """Make the prediction of a mechanism whose error has this variance without the count's part."""
    prediction = Prediction(
        rmse=math.sqrt(variance + request.typical_count_error(density)),
        integers=integers,
        file_size=request.file_size(integers, width=1),
        work_per_record=work,
        work_per_query=float(work if query_work is None else query_work),
        parameters=parameters,
    )
    return within_limits(request, prediction)


def number_option(request: Request, name: str, default: float) -> float:
    """Read a positive number from the options."""
    value = request.options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not SMALLEST_OPTION <= value <= LARGEST_OPTION:
        raise InputError(
            f"option {name} must be a number from {SMALLEST_OPTION:g} to {LARGEST_OPTION:g}; got {brief(value)}"
        )
    return float(value)
