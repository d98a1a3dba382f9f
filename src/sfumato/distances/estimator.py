"""`PrivateDistance`: a scikit-learn estimator whose fit releases sums of distances to the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, overload

from numpy.typing import ArrayLike

from sfumato.central.curator import Payer
from sfumato.central.estimator import PrivateEstimator
from sfumato.distances.hats import interval_counts
from sfumato.engines import Engine
from sfumato.kernels.unscaled import Distance
from sfumato.methods.method import Mechanism
from sfumato.methods.parameters import Parameters
from sfumato.methods.registry import DISTANCES
from sfumato.methods.request import Request
from sfumato.quantizers.base import Floats
from sfumato.sources import Columns


class PrivateDistance(PrivateEstimator):
    """Differentially private sums of distances between any query and the records.

    Parameters
    ----------
    metric : {"l1", "l2", "sqeuclidean", "lpp"}, default="l1"
        ``|x - y|_1``, ``|x - y|_2``, ``|x - y|_2^2`` or ``sum_j |x_j - y_j|^p``. "manhattan" and "cityblock" are other
        names of "l1", and "euclidean" of "l2".
    p : float, optional
        The power of "lpp", from 1 to 2.
    bounds : (lower, upper), one pair per column, or a mapping of columns to pairs
        Public bounds of the points, never read off the data: how far a record can be sets the noise.
    method : str, default="auto"
        "auto" takes the method with the least predicted error; see `sfumato.distances.plan`.
    columns, epsilon, delta, neighbours, n_hint, unit, options, ledger, feature_seed, random_state, engine
        As in `PrivateKDE`.

    Attributes
    ----------
    release_, guarantee_, n_features_in_
        As in `PrivateKDE`.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.random.default_rng(0).random((2000, 2))
    >>> model = PrivateDistance("l1", epsilon=1.0, bounds=(0, 1), n_hint=2000).fit(points)
    >>> sums, errors = model.query([[0.5, 0.5]], return_std=True)
    >>> bool(abs(sums[0] - 1000) < 6 * errors[0] + 20)
    True
    """

    metric: str
    p: float | None

    def __init__(
        self,
        metric: str = "l1",
        *,
        p: float | None = None,
        columns: Columns | None = None,
        epsilon: Any = None,
        delta: float = 0.0,
        bounds: Any = None,
        method: str = "auto",
        neighbours: str = "add-remove",
        n_hint: int | str | None = None,
        unit: str = "record",
        options: Mapping[str, Any] | None = None,
        ledger: Payer = None,
        feature_seed: int | None = None,
        random_state: int | None = None,
        engine: Engine | str | None = None,
    ) -> None:
        self._keep(locals())

    @overload
    def query(self, Y: ArrayLike, mean: bool = False, return_std: Literal[False] = False) -> Floats: ...
    @overload
    def query(self, Y: ArrayLike, mean: bool = False, *, return_std: Literal[True]) -> tuple[Floats, Floats]: ...
    @overload
    def query(self, Y: ArrayLike, mean: bool, return_std: bool) -> Floats | tuple[Floats, Floats]: ...
    def query(self, Y: ArrayLike, mean: bool = False, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Sum of the distances between each query and the records.

        Parameters
        ----------
        Y : array-like, shape (queries, columns)
            Query points, anywhere.
        mean : bool
            Return the mean distance instead: the sum over the published number of records.
        return_std : bool
            Also return the standard errors.
        """
        points = self._queries(Y)
        answers = self.release_.query if mean else self.release_.total
        values, errors = answers(points, return_std=True)
        return (values, errors) if return_std else values

    def interval_counts(self, lower: ArrayLike, upper: ArrayLike, column: int = 0, return_std: bool = False) -> Any:
        """Numbers of records between pairs of values in one column; see `sfumato.distances.interval_counts`."""
        counts, errors = interval_counts(self.release_, lower, upper, column)
        return (counts, errors) if return_std else counts

    def _parameters(self) -> Parameters:
        return replace(super()._parameters(), kernel=Distance(self.metric, self.p))

    def _mechanism(self, request: Request) -> Mechanism:
        return DISTANCES.build(self.method, request)
