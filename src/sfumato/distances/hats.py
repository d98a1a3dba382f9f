"""`hat` and `hat-gaussian`: the hat structure with Laplace or Gaussian noise, the default for l1, l_p^p and l2.

Source: this library; it replaces the binary tree of appendix B of Backurs et al. (2024), with which it shares the
reduction to columns (Algorithm 4) and the embedding of l2 (Corollary D.2).

Guarantee. `hat` and `projection` bound the integers of one record, `design` splits them. f records differ between
neighbours (add/remove 1, replace 2, times the records of a user).
`hat`: discrete Laplace noise of rate e / (f l1) on every sum is e-DP, in any number of columns (Theorem B.3's part).
`hat-gaussian`: discrete Gaussian noise calibrated to the l2 norm over all columns together, as in
`privacy.gaussian` (the distance from the rounded Gaussian counts only the sums that differ), is (e, delta)-DP
(Theorem B.4's part). A replaced record moves the sums by at most sqrt(2) l2, because no integer is negative. The count
is read off the nodes and costs nothing, or is bought first at e_c, and e = epsilon - e_c.

Error. Unbiased up to the last level (`hat`) and, for l2, up to clipping (`projection`). For d columns of width R the
noise of a sum of l1 distances is 2.27 d^1.5 R / e, and 0.92 c d R with Gaussian noise of multiplier c.

Intervals (`interval_counts`): numbers of records in a column, read off a release of l1 distances for nothing. The sum
of distances f(y) has the slope (records below y) - (records above y), so half of the slope's change from a to b is the
number of records between them. Hats: below level L the structure's f is linear within a cell, and its slope there is
that of the exact f on average over the cell. Level l adds noise of variance V / S_l^2 to a slope, which grows with l,
and the average over a cell misses the count at an end within it by at most half of the cell's records, by 1 / sqrt(12)
of them typically. The level with the least sum of squared noise and miss is used, for records spread evenly. Structures
that hold counts as such (`HoldsCounts`) say them by themselves.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sfumato.distances import design
from sfumato.distances.columns import HoldsCounts, count_reader, distance_method, forecast_by_reading
from sfumato.distances.hat import LARGEST_UNIT, MOST_LEVELS, HatQuantizer
from sfumato.distances.projection import (
    CLIP,
    CLIPS,
    MOST_PROJECTIONS,
    ProjectedQuantizer,
    Projection,
    check_projections,
    clipped_share,
    embedding_error,
    mean_cosine,
)
from sfumato.errors import InputError
from sfumato.kernels.unscaled import Distance
from sfumato.methods.method import Mechanism, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.gaussian import gaussian_multiplier, gaussian_noise, largest_length
from sfumato.privacy.laws import NoiseLaw
from sfumato.privacy.loss import Loss
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.public.codec import brief
from sfumato.public.ranges import check_whole
from sfumato.quantizers.base import Floats, Quantizer
from sfumato.quantizers.box import Box
from sfumato.release import Release

METRICS = ("l1", "l2", "lpp")
OPTIONS = ("levels", "projections", "clip")
TOTAL = 1 << 30  # of the columns' units, under Laplace noise
FEW_PROJECTIONS, MANY_PROJECTIONS = 8, 1024
NEARLY = 1.1  # as good as the best, in squared error


@dataclass(frozen=True)
class Hats(ABC):
    """Hats under one kind of noise, for one request."""

    request: Request

    @abstractmethod
    def noise(self, power: float, lengths: Floats) -> float:
        """Predict the noise of an answer for columns of these widths."""

    @abstractmethod
    def structure(self, metric: Distance, box: Box) -> HatQuantizer:
        """Lay out the structure over a box."""

    @abstractmethod
    def law(self, quantizer: Quantizer) -> tuple[NoiseLaw, Loss | None]:
        """Calibrate the noise, and say what it reveals if more is known than the guarantee says."""

    def levels(self, power: float, bins: int, lengths: Floats) -> int:
        """Read the number of levels from the options, or choose it."""
        best = design.levels_for(power, bins, lengths, self.request.n, self.noise(power, lengths))
        return self.request.size_option("levels", best, MOST_LEVELS)

    def quantizer(self) -> HatQuantizer | ProjectedQuantizer:
        """Lay out the structure that the request's distance needs."""
        request = self.request
        if request.metric.metric != "l2":
            for option in ("projections", "clip"):
                if option in request.options:
                    raise InputError(f"option {option} is for metric='l2'")
            return self.structure(request.metric, request.box)
        projection = Projection(request.box, self.projections, request.feature_seed, self.clip)
        return ProjectedQuantizer(projection, self.structure(Distance("l1"), projection.box))

    @property
    def clip(self) -> float:
        """Where projections are clipped, in half diagonals."""
        value = self.request.options.get("clip", CLIP)
        if isinstance(value, bool) or not isinstance(value, int | float) or not CLIPS[0] <= value <= CLIPS[1]:
            raise InputError(f"option clip must be a number from {CLIPS[0]:g} to {CLIPS[1]:g}, got {brief(value)}")
        return float(value)

    @cached_property
    def projections(self) -> int:
        """Read the number of projections from the options, or take the fewest that are nearly the best."""
        request, dimension = self.request, self.request.dimension
        squared_diagonal = float(np.square(request.lengths).sum())

        def squared_error(count: int) -> float:
            width = self.clip * math.sqrt(squared_diagonal / dimension) / (mean_cosine(dimension) * count)
            embedding = float(embedding_error(dimension, count, True, np.ones(1))[0]) ** 2
            return embedding * request.n**2 * squared_diagonal / 6 + self.noise(1.0, np.full(count, width)) ** 2

        frames = range(dimension, max(dimension, MANY_PROJECTIONS) + 1, dimension)
        few = range(FEW_PROJECTIONS, min(dimension, MANY_PROJECTIONS), FEW_PROJECTIONS)
        errors = {count: squared_error(count) for count in (*few, *frames) if _drawn(dimension, count)}
        best = next(count for count, error in errors.items() if error <= NEARLY * min(errors.values()))
        return request.size_option("projections", best, MOST_PROJECTIONS)


def _drawn(dimension: int, count: int) -> bool:
    """Tell whether every reader draws so many projections."""
    with suppress(InputError):
        check_projections(dimension, count)
        return count <= MOST_PROJECTIONS
    return False


class LaplaceHats(Hats):
    """Hats for pure epsilon."""

    def noise(self, power: float, lengths: Floats) -> float:
        """Predict the noise of an answer."""
        scale = self.request.factor / float(self.request.feature_epsilon)
        return design.laplace_noise(power, lengths, scale)

    def structure(self, metric: Distance, box: Box) -> HatQuantizer:
        """Split epsilon between the columns, and between nodes and levels."""
        power, lengths = metric.power, 2 * box.half_widths
        split = design.laplace_split(power)
        profile = split.profile(self.levels(power, split.bins, lengths))
        units = design.laplace_units(power, lengths, TOTAL)
        return HatQuantizer(metric, box, split.bins, units, profile, self.request.reads_count)

    def law(self, quantizer: Quantizer) -> tuple[NoiseLaw, Loss | None]:
        """Return Laplace noise for the l1 norm."""
        return DiscreteLaplace(self.request.feature_epsilon / (self.request.factor * quantizer.bound.l1)), None


class GaussianHats(Hats):
    """Hats for (epsilon, delta)."""

    @cached_property
    def multiplier(self) -> float:
        """Noise per unit of l2 sensitivity."""
        return gaussian_multiplier(float(self.request.feature_epsilon), self.request.delta)

    @property
    def l2_factor(self) -> float:
        """How far neighbours' sums are apart, in l2 norms of one record."""
        return math.sqrt(self._l2_factor_squared)

    @property
    def _l2_factor_squared(self) -> int:
        return 2 if self.request.neighbours == "replace" else self.request.factor**2

    @property
    def _longest(self) -> float:
        return largest_length(self.l2_factor, float(self.request.feature_epsilon), self.request.delta)

    def noise(self, power: float, lengths: Floats) -> float:
        """Predict the noise of an answer."""
        return design.gaussian_noise(power, lengths, self.multiplier * self.l2_factor)

    def structure(self, metric: Distance, box: Box) -> HatQuantizer:
        """Split the l2 norm between the columns; the hats are free."""
        power, lengths = metric.power, 2 * box.half_widths
        split = design.gaussian_split(power)
        profile = split.profile(self.levels(power, split.bins, lengths))
        length = min(float(LARGEST_UNIT), self._longest)
        units = design.gaussian_units(power, lengths, length)
        return HatQuantizer(metric, box, split.bins, units, profile, self.request.reads_count)

    def law(self, quantizer: Quantizer) -> tuple[NoiseLaw, Loss | None]:
        """Return Gaussian noise for the l2 norm; only the sums that differ count for its distance from the ideal."""
        request, bound = self.request, quantizer.bound
        assert bound.touched is not None
        differing = request.factor * bound.touched
        l2_squared = self._l2_factor_squared * bound.l2_squared
        return gaussian_noise(l2_squared, differing, request.feature_epsilon, request.delta)


def _build(name: str, hats: Hats) -> Mechanism:
    request = hats.request
    request.check_options(*OPTIONS)
    quantizer = hats.quantizer()
    noise, loss = hats.law(quantizer)
    inner = quantizer.inner if isinstance(quantizer, ProjectedQuantizer) else quantizer
    assert isinstance(inner, HatQuantizer)
    sizes = {"levels": inner.levels}
    if isinstance(quantizer, ProjectedQuantizer):
        sizes |= {"projections": quantizer.projection.count}
    return Mechanism.of(
        request,
        name,
        quantizer,
        noise,
        parameters=sizes,
        feature_loss=loss,
        count_reader=count_reader(quantizer, noise) if request.reads_count else None,
    )


def build_laplace(request: Request) -> Mechanism:
    """Build `hat`, which is pure whatever delta allows."""
    return _build(LAPLACE, LaplaceHats(request))


def build_gaussian(request: Request) -> Mechanism:
    """Build `hat-gaussian`."""
    return _build(GAUSSIAN, GaussianHats(request))


def _forecast(request: Request, mechanism: Mechanism) -> Prediction:
    quantizer, clipped = mechanism.encoder, 0.0
    if isinstance(quantizer, ProjectedQuantizer):
        half_diagonal = math.sqrt(float(np.square(request.box.half_widths).sum()))
        clipped = clipped_share(quantizer.projection.clip) * half_diagonal
        quantizer = quantizer.inner
    assert isinstance(quantizer, HatQuantizer)
    return forecast_by_reading(request, mechanism, request.n * (quantizer.worst_bias + clipped))


LAPLACE, GAUSSIAN = "hat", "hat-gaussian"
LAPLACE_METHOD = distance_method(
    LAPLACE,
    "nodes and hats in every column, Laplace noise",
    build_laplace,
    lambda request: _forecast(request, build_laplace(request)),
    METRICS,
    OPTIONS,
    pure=True,
)
GAUSSIAN_METHOD = distance_method(
    GAUSSIAN,
    "nodes and hats in every column, Gaussian noise",
    build_gaussian,
    lambda request: _forecast(request, build_gaussian(request)),
    METRICS,
    OPTIONS,
    approximate=True,
)


MISS = 12**-0.5


def interval_counts(release: Release, lower: ArrayLike, upper: ArrayLike, column: int = 0) -> tuple[Floats, Floats]:
    """Estimate how many records lie between pairs of values in one column.

    Parameters
    ----------
    release : Release
        Of `hat`, `hat-gaussian`, `tree-published` or `tree-consistent`, not for l2.
    lower, upper : array-like
        The ends of the intervals.
    column : int
        The column.

    Returns
    -------
    counts, standard errors : ndarray

    Examples
    --------
    >>> from sfumato.distances import PrivateDistance
    >>> ages = np.random.default_rng(0).integers(18, 78, size=(5000, 1))
    >>> model = PrivateDistance("l1", epsilon=1, bounds=(18, 78), n_hint=5000, random_state=1).fit(ages)
    >>> counts, errors = interval_counts(model.release_, [18, 48], [48, 78])
    >>> bool(np.all(np.abs(counts - 2500) < 5 * errors)), bool(errors.max() < 250)
    (True, True)
    """
    try:
        ends = [np.atleast_1d(np.asarray(values, dtype=np.float64)) for values in (lower, upper)]
    except (TypeError, ValueError, OverflowError):
        raise InputError("lower and upper must be equally many finite numbers") from None
    if ends[0].shape != ends[1].shape or ends[0].ndim != 1 or not np.isfinite(ends).all():
        raise InputError("lower and upper must be equally many finite numbers")
    if (ends[0] > ends[1]).any():
        raise InputError("the lower end of an interval must not be above its upper end")
    quantizer = release.reader
    column = check_whole("column", column, release.dimension - 1, 0)
    sums, noise = release.values.astype(np.float64), release.noise.variance
    if isinstance(quantizer, HatQuantizer):
        return _from_hats(quantizer, sums, noise, release.count.value, ends, column)
    if isinstance(quantizer, HoldsCounts):
        return quantizer.counts_between(sums, noise, ends, column)
    raise InputError(f"releases of {release.method} for {release.kernel!r} do not hold counts of single columns")


def _from_hats(
    hats: HatQuantizer, sums: Floats, noise: float, records: int, ends: list[Floats], column: int
) -> tuple[Floats, Floats]:
    own, scales = sums[hats.part(column)], hats.scales[column].astype(np.float64)
    levels = _best_level(hats, scales, noise, records)
    weights = np.zeros((len(ends[0]), hats.column_size))
    for sign, end in zip((-1.0, 1.0), ends, strict=True):
        y = hats.relative(end, column)
        beyond = np.where(y < 0, 0.0, np.where(y > 1, 1.0, np.nan))
        weights += sign * _below(hats, scales, np.clip(y, 0.0, 1.0), beyond, levels)
    missed = MISS * records / (hats.bins << levels)
    return weights @ own, np.sqrt(noise * np.square(weights).sum(axis=1) + 2 * missed**2)


def _best_level(hats: HatQuantizer, scales: Floats, noise: float, records: int) -> int:
    """Return the number of levels with the least error of one end."""
    added = np.concatenate([[0.0], np.cumsum(noise / (4 * scales[1:] ** 2))])
    misses = MISS * records / (hats.bins * 2.0 ** np.arange(hats.levels + 1))
    return int(np.argmin(added + misses**2))


def _below(hats: HatQuantizer, scales: Floats, y: Floats, beyond: Floats, levels: int) -> Floats:
    """Weights of a column's sums in the number of records below y, half of the slope plus all of them."""
    result = np.zeros((len(y), hats.column_size))
    nodes = np.arange(hats.bins + 1) / hats.bins
    cell = np.minimum(np.floor(y * hats.bins), hats.bins - 1)
    # The slope of |y - node| within the bin that holds y.
    inside = np.where(nodes[None] * hats.bins <= cell[:, None] + 0.25, 1.0, 0.0)
    result[:, : hats.bins + 1] = np.where(np.isnan(beyond)[:, None], inside, beyond[:, None]) / scales[0]
    for level in range(levels):
        cells = hats.bins << level
        place = np.minimum(np.floor(y * cells), cells - 1).astype(np.int64)
        slope = np.where(y * cells - place < 0.5, -0.5, 0.5)  # minus the hat rises, then falls; half of the slope
        result[np.arange(len(y)), 1 + cells + place] = np.where(np.isnan(beyond), slope, 0.0) / scales[1 + level]
    return result
