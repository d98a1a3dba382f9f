"""`PrivateDistance`: a scikit-learn estimator whose fit releases sums of distances to the records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from sfumato.central.estimator import PrivateEstimator
from sfumato.distances.hats import interval_counts
from sfumato.distances.request import DistanceRequest
from sfumato.engines.threads import Progress
from sfumato.kernels.distance import Distance
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.registry import DISTANCES
from sfumato.methods.request import Request
from sfumato.privacy.ledger import Account
from sfumato.sources import Source


class PrivateDistance(PrivateEstimator):
    """Differentially private sums of distances between any query and the records.

    Parameters
    ----------
    metric : {"l1", "l2", "sqeuclidean", "lpp"}, default="l1"
        ``|x - y|_1``, ``|x - y|_2``, ``|x - y|_2^2`` or ``sum_j |x_j - y_j|^p``.
    p : float, optional
        The power of "lpp", from 1 to 2.
    epsilon : float, str or Fraction
        Total privacy budget of the release.
    delta : float, default=0.0
        0 for pure differential privacy.
    bounds : (lower, upper) or one pair per column
        Public bounds of the points, never read off the data: how far a record can be sets the noise.
    method : str, default="auto"
        "auto" takes the method with the least predicted error; see `sfumato.distances.plan`.
    neighbours : {"add-remove", "replace"}, default="add-remove"
        "add-remove" keeps n private; "replace" treats n as public.
    n_hint : int or "paid"
        A public guess of the number of records (it sets sizes, not answers), or "paid" to buy a noisy count first.
    unit : {"record", "user"}, default="record"
        What is hidden: one record, or all records of one user. Users need ``options={"max_records_per_user": k}``, and
        `fit` their names.
    options : mapping, optional
        What only one method knows, e.g. ``{"levels": 12}``.
    ledger : Account, optional
        ``Ledger(path).account(name)``: spending is checked and recorded there.
    feature_seed : int, optional
        Public seed of projections; drawn at random by default.
    random_state : int, optional
        Seeds the noise and marks the release NOT PRIVATE. For tests only.

    Attributes
    ----------
    release_ : Release
        The public function.
    n_features_in_ : int
        Columns seen in fit.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.random.default_rng(0).random((2000, 2))
    >>> model = PrivateDistance("l1", epsilon=1.0, bounds=(0, 1), n_hint=2000).fit(points)
    >>> sums, errors = model.query([[0.5, 0.5]], return_std=True)
    >>> bool(abs(sums[0] - 1000) < 6 * errors[0] + 20)
    True
    """

    def __init__(
        self,
        metric: str = "l1",
        *,
        p: float | None = None,
        epsilon: Any = None,
        delta: float = 0.0,
        bounds: Any = None,
        method: str = "auto",
        neighbours: str = "add-remove",
        n_hint: int | str | None = None,
        unit: str = "record",
        options: Mapping[str, Any] | None = None,
        ledger: Account | None = None,
        feature_seed: int | None = None,
        random_state: int | None = None,
    ) -> None:
        self.metric = metric
        self.p = p
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.method = method
        self.neighbours = neighbours
        self.n_hint = n_hint
        self.unit = unit
        self.options = options
        self.ledger = ledger
        self.feature_seed = feature_seed
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: object = None,
        *,
        sample_weight: Any = None,
        users: Any = None,
        progress: Progress | None = None,
        threads: int | None = None,
    ) -> PrivateDistance:
        """Release distances to X: an array, data frame, Arrow table, path, source, or iterator of batches.

        All parameters are checked before the ledger is charged; values are never an error (see `Box`).

        Parameters
        ----------
        X : array, frame, table, path, Source or iterator of batches
            The points, one row a record.
        y : ignored
            For scikit-learn's pipelines.
        sample_weight : array of numbers in [0, 1], or the name of a column, optional
            Probability with which each record is kept; see `sfumato.central.contributions`.
        users : array of ids, or the name of a column, optional
            Who each record belongs to; for ``unit="user"``.
        progress : callable, optional
            Told about rows done. For the curator's eyes only.
        threads : int, optional
            Workers of the sum; all available cores by default.
        """
        self._release(X, users, sample_weight, progress, threads)
        return self

    def query(self, Y: ArrayLike, mean: bool = False, return_std: bool = False) -> Any:
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
        return answers(points, return_std=True) if return_std else answers(points)

    def interval_counts(self, lower: ArrayLike, upper: ArrayLike, column: int = 0, return_std: bool = False) -> Any:
        """Numbers of records between pairs of values in one column; see `sfumato.distances.interval_counts`."""
        counts, errors = interval_counts(self.release_, lower, upper, column)
        return (counts, errors) if return_std else counts

    def _request(self, source: Source) -> DistanceRequest:
        return DistanceRequest(kernel=Distance(self.metric, self.p), **self._facts(source.dimension, source.weighted))

    def _mechanism(self, request: Request) -> Mechanism:
        assert isinstance(request, DistanceRequest)
        return DISTANCES.build(self.method, request)
