"""`metric-phases`, server half.

Estimate. The estimate of `phases` with a resultant of its own for each row: noise of rate 1 / B on phases in units of
2**-shift turns has the mean cosine 1 / (1 + (sin(pi / 2**shift) / sinh(1 / (2 B)))^2), about 1 / (1 + s^2) with s = 2
pi B / 2**shift; cutting to M positions multiplies it by sinc(1 / M). A report's answer is divided by its row's
resultant, so it is unbiased whatever the frequency.

Variance: that of `phases` with the mean over frequencies of 1 / (2 m^2) in the place of 1 / (2 m^2).
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from sfumato.kernels import Kernel
from sfumato.local.device import Device
from sfumato.local.phases_server import COSINE_BITS, PhasePool, PhasesServer, ReportedPhases, resultant
from sfumato.local.pool import by_blocks, numbers, row_table
from sfumato.local.pool_server import integer_choices
from sfumato.local.pooled import (
    LAWS,
    MOST_ROWS_EACH,
    NORM_ERROR,
    POSITION_BITS,
    POSITIONS,
    SIGNIFICANT_BITS,
    MetricPhases,
)
from sfumato.local.server import Design, Tally
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.privacy.response import Response
from sfumato.quantizers.base import Floats, Integers

PREDICTION_ROWS = 2048
ROUNDING = math.sin(math.pi / POSITIONS) / (math.pi / POSITIONS)


def noise_resultant(scales: Integers, shift: int) -> Floats:
    """Mean cosine of discrete Laplace noise of scale B in units of 2**-shift turns.

    Examples
    --------
    >>> noise_resultant(np.array([1, 2**10, 2**16]), 16).round(4)
    array([1.    , 0.9905, 0.0247])
    """
    return np.asarray(1 / (1 + (math.sin(math.pi / 2.0**shift) / np.sinh(0.5 / scales)) ** 2))


def largest_scale(arc: float, shift: int) -> int:
    """Largest B whose noise has a mean cosine of at least `arc`.

    Examples
    --------
    >>> largest_scale(0.9905, 16)
    1021
    """
    return math.floor(0.5 / math.asinh(math.sin(math.pi / 2.0**shift) / math.sqrt(1 / arc - 1)))


def noise_scales(
    frequencies: Integers, scales: Floats, radius: float, share: float, steps_apart: float = 1.0
) -> Integers:
    """Scales B of many frequencies, as `MetricPhases.scale` has them; shape (rows,)."""
    norms = np.sqrt(np.square(frequencies * scales).sum(axis=1))
    moved = radius * norms + steps_apart * np.abs(frequencies).sum(axis=1) + 1
    return coarse_all(moved / share * (1 + NORM_ERROR))


def coarse_all(scales: Floats) -> Integers:
    """Round many scales up as `coarse` does.

    Examples
    --------
    >>> coarse_all(np.array([63.2, 1001.0]))
    array([  64, 1008])
    """
    whole = np.ceil(scales)
    unit = np.ldexp(1.0, np.maximum(np.frexp(whole)[1] - SIGNIFICANT_BITS, 0))
    return np.asarray(np.ceil(whole / unit) * unit, dtype=np.int64)


class MetricPhasesServer(PhasesServer):
    """Sums of cosines and sines, a resultant for each row; see the module's text."""

    name = "metric-phases"
    device: MetricPhases

    def __init__(self, device: Device, kernel: Kernel) -> None:
        super().__init__(device, kernel)
        self.resultants = Resultants(self.device, self.pool)

    @classmethod
    def refuse(cls, request: Request) -> str | None:
        """Ask for a radius."""
        return "it needs radius=, a Euclidean distance" if request.radius is None else super().refuse(request)

    @classmethod
    def design(cls, request: Request) -> Design:
        """Minimise the predicted variance over rows a person."""
        choices = integer_choices(request, "rows_each", range(1, MOST_ROWS_EACH + 1))
        designs = [cls._design(request, rows_each) for rows_each in choices]
        return min(designs, key=lambda design: design.variance)

    @classmethod
    def _design(cls, request: Request, rows_each: int) -> Design:
        base = PhasesServer.design(replace(request, options={**request.options, "rows_each": rows_each}))
        made, radius = base.parameters, float(request.radius or 0.0)
        arc = resultant(Response(made["same"], made["other"], POSITIONS, made["inside"]))
        law = LAWS[made["law"]]
        shift = made["point_bits"] + law.fraction_bits
        largest = largest_scale(arc / ROUNDING, shift)
        _, words = row_table(bytes(32), "prediction", PREDICTION_ROWS, 0, request.dimension)
        share = float(request.epsilon) / rows_each
        scales = noise_scales(numbers(law, words), np.array(made["scales"]), radius, share)
        resultants = np.maximum(np.where(scales > largest, 0.0, noise_resultant(scales, shift)) * ROUNDING, arc)
        answers, rows = request.n * rows_each, made["groups"] * rows_each
        variance = float(np.mean(0.5 / resultants**2)) / answers + request.density / (2 * rows)
        return replace(base, parameters={**made, "radius": radius, "largest": largest}, variance=variance, pure=False)

    def influence(self) -> float:
        """One report moves its row's term between minus and plus one over the row's resultant."""
        return float(2 / self.resultants.values.min())

    def random_digits(self, X: Integers, rows: Integers, bits: SecureBits) -> Integers:
        """Noise on the phases before they are wrapped, or arcs; one scale after another."""
        made = self.device
        scales = self.resultants.scales[rows]
        arcs = scales > made.largest
        digits = np.empty(len(rows), dtype=np.int64)
        digits[arcs] = super().random_digits(X[arcs], rows[arcs], bits)
        noisy = np.flatnonzero(~arcs)
        phases = self.pool.phases(X, noisy, rows[noisy])
        order = np.argsort(scales[noisy], kind="stable")
        values, starts = np.unique(scales[noisy][order], return_index=True)
        # Where all are arcs there is no scale, and yet one part, an empty one.
        for scale, places in zip(values.tolist(), np.split(order, starts[1:])[: len(values)], strict=True):
            phases[places] += DiscreteLaplace(Fraction(1, scale)).sample(bits, len(places))
        digits[noisy] = (phases & ((1 << made.shift) - 1)) >> (made.shift - POSITION_BITS)
        return digits

    def quantizer(self, tally: Tally) -> MetricReportedPhases:
        """Read sums of cosines."""
        return MetricReportedPhases(self.device, self.pool, self.resultants)


class Resultants:
    """Scales of noise and mean cosines of all rows of a pool."""

    def __init__(self, device: MetricPhases, pool: PhasePool) -> None:
        self.device = device
        self.pool = pool

    @cached_property
    def scales(self) -> Integers:
        """Scale B of every row."""
        made = self.device
        scales = np.array(made.scales)
        return by_blocks(
            self.pool.frequencies, lambda part: noise_scales(part, scales, made.radius, made.share, made.steps_apart)
        )

    @cached_property
    def values(self) -> Floats:
        """Resultant of every row, rounding to positions included."""
        made = self.device
        arc = resultant(made.response)
        return np.where(self.scales > made.largest, arc, noise_resultant(self.scales, made.shift) * ROUNDING)


class MetricReportedPhases(ReportedPhases):
    """Cosines of the query's phase against the reported ones, each row over its own resultant."""

    name = "local-metric-phases"
    kind = MetricPhases
    device: MetricPhases

    def __init__(self, device: MetricPhases, pool: PhasePool | None = None, own: Resultants | None = None) -> None:
        super().__init__(device, pool)
        self.resultants = own or Resultants(device, self.pool)
        self._factor = math.ldexp(device.groups, -COSINE_BITS)

    def _rows(self, sums: Floats) -> tuple[Floats, Floats, Floats]:
        """Divide every row by a resultant of its own."""
        answered, cosine_sums, sine_sums = super()._rows(sums)
        return answered, cosine_sums / self.resultants.values, sine_sums / self.resultants.values

    def weights(self, Y: Floats) -> Floats:
        """Weights g(y), dense."""
        return super().weights(Y) / np.repeat(self.resultants.values, self.width)


METRIC_PHASES = MetricPhasesServer.method("phases with noise that hides points within a radius")
