"""`FastKDE`: the quantizers of private releases without noise. NOT PRIVATE.

Sums of features take one pass over the points and answer a query in a time that does not depend on their number. The
number of features comes from the wanted error and from P, the mean kernel value between two points, which is measured
on the points themselves: nothing here is private. Fourier pairs have a variance of about P / (2 m), hash counters of P
/ R (`quantizers.fourier`, `quantizers.hashing`). In many columns a projection (`quantizers.projection`) comes first if
it is asked for; half of the wanted squared error is then the projection's.
"""

from __future__ import annotations

import math
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from sfumato.engines import Engine, Threads, engine_of
from sfumato.errors import InputError
from sfumato.kernels import Kernel, ShiftInvariantKernel, get_kernel
from sfumato.kernels.exact import as_points
from sfumato.privacy.bits import SecureBits
from sfumato.public.arguments import checked_seed
from sfumato.public.codec import brief
from sfumato.public.ranges import plain_number
from sfumato.quantizers import FourierQuantizer, HashingQuantizer, ProjectedPoints, Quantizer
from sfumato.quantizers.answer import Known
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import Box
from sfumato.quantizers.hashes import family_for
from sfumato.quantizers.projection import Projection
from sfumato.quantizers.projection_error import columns_for
from sfumato.sources import open_source

PAIRS_SAMPLED = 4096
MOST_FEATURES, FEWEST_FEATURES = 2**17, 16
BATCH = 4096


class FastKDE:
    """Mean kernel values from sums of features, without privacy.

    Parameters
    ----------
    kernel : str or Kernel
        Shift-invariant, or a collision probability.
    bandwidth : optional
        For a kernel given by name.
    error : float
        Wanted root mean square error of one answer.
    project : {None, "dense", "fast"}
        Whether to project the points to fewer columns first.
    quantizer : Quantizer, optional
        Any quantizer of the library, or of your own; `error` and `project` then have no use.
    seed : int
        Seed of the features.
    engine : Engine or str, optional
        Where the sums run.

    Examples
    --------
    >>> points = np.random.default_rng(0).normal(size=(20_000, 8))
    >>> model = FastKDE("gaussian", 3.0, error=0.01).fit(points)
    >>> model
    <FastKDE NOT PRIVATE: Gaussian(bandwidth=3.0), 20000 points, 8 columns, fourier with 1186 features>
    >>> exact = model.kernel.exact_density(points, points[:50])
    >>> bool(np.sqrt(np.mean((model.query(points[:50]) - exact) ** 2)) < 0.015)
    True
    """

    def __init__(
        self,
        kernel: str | Kernel = "gaussian",
        bandwidth: Any = None,
        *,
        error: float = 0.01,
        project: str | None = None,
        quantizer: Quantizer | None = None,
        seed: int = 0,
        engine: Engine | str | None = None,
    ) -> None:
        error = checked_part("error", error)
        if quantizer is not None and not isinstance(quantizer, Quantizer):
            raise InputError(f"quantizer must be a Quantizer of one's own or of the library, got {brief(quantizer)}")
        self.kernel = get_kernel(kernel, bandwidth)
        self.error, self.project, self.engine = error, project, engine
        self.seed = checked_seed(seed, "seed")
        self.quantizer = quantizer
        self._sums: Floats | None = None
        self.count = 0

    def fit(self, X: ArrayLike) -> FastKDE:
        """Sum the features of the points."""
        points = as_points(X, "X")
        if len(points) < 1:
            raise InputError("X holds no rows, so its mean kernel value is not defined")
        if self.quantizer is None:
            self.quantizer = self._drawn(points)
        engine = Threads(batch=BATCH) if self.engine is None else engine_of(self.engine)
        sums, self.count, _ = engine.sum(open_source(points), self.quantizer, SecureBits.seeded(self.seed))
        self._sums = sums.astype(np.float64)
        return self

    @overload
    def query(self, Y: ArrayLike, return_std: Literal[False] = False) -> Floats: ...
    @overload
    def query(self, Y: ArrayLike, return_std: Literal[True]) -> tuple[Floats, Floats]: ...
    def query(self, Y: ArrayLike, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Mean kernel value at each query, with the error bar of the approximation if it is asked for."""
        if self._sums is None or self.quantizer is None:
            raise InputError("call fit with the points first")
        queries = as_points(Y, "Y")
        answer = self.quantizer.read(queries, self._sums, Known(0.0, self.count))
        means = answer.total / self.count
        return (means, np.hypot(answer.standard_error / self.count, answer.bias)) if return_std else means

    def _drawn(self, points: Floats) -> Quantizer:
        """Choose the features from the wanted error and from the points."""
        density, box = self._density(points), box_of(points)
        if self.project is None:
            return self._features(box, self.error, density)
        columns = columns_for(self.kernel, points.shape[1], self.project, density, self.error / math.sqrt(2))
        projection = Projection(box, self.project, columns, self.seed)
        return ProjectedPoints(
            projection, self._features(projection.box, self.error / math.sqrt(2), density), self.kernel
        )

    def _features(self, box: Box, error: float, density: float) -> Quantizer:
        needed = min(max(math.ceil(density / error**2), FEWEST_FEATURES), MOST_FEATURES)
        if isinstance(self.kernel, ShiftInvariantKernel):
            pairs = (needed + 1) // 2
            return FourierQuantizer.draw(self.kernel, box.dimension, pairs, self.seed, layout="pair", bounds=box)
        if family_for(self.kernel) is None:
            raise InputError(f"no features are known for {self.kernel!r}: pass quantizer=")
        return HashingQuantizer.draw(self.kernel, box.dimension, needed, self.seed, bounds=box)

    def _density(self, points: Floats) -> float:
        """Mean kernel value between two points, from a sample of pairs."""
        random = np.random.default_rng(self.seed)
        side = min(len(points), round(math.sqrt(PAIRS_SAMPLED)))
        first, second = (random.choice(len(points), side, replace=False) for _ in range(2))
        return float(np.clip(self.kernel.value(points[first], points[second]).mean(), 1e-4, 1.0))

    def __repr__(self) -> str:
        if self._sums is None or self.quantizer is None:
            return f"<FastKDE NOT PRIVATE: {self.kernel!r}, not fitted>"
        features = f"{self.quantizer.name} with {self.quantizer.terms} features"
        size = f"{self.count} points, {self.quantizer.dimension} columns"
        return f"<FastKDE NOT PRIVATE: {self.kernel!r}, {size}, {features}>"


def checked_part(name: str, value: Any) -> float:
    """Return a number between 0 and 1.

    Examples
    --------
    >>> checked_part("error", 0.01)
    0.01
    """
    value = plain_number(value)
    if not isinstance(value, float) or not 0 < value < 1:
        raise InputError(f"{name} must lie between 0 and 1, got {brief(value)}")
    return value


def box_of(points: Floats) -> Box:
    """Box that holds the points, a little wider: bounds read off the data, as only non-private estimates may."""
    low, high = points.min(axis=0), points.max(axis=0)
    room = np.maximum((high - low) / 16, np.maximum(np.abs(high), 1e-6) * 1e-6)
    return Box(tuple((low - room).tolist()), tuple((high + room).tolist()))
