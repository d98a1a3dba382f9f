"""`PrivateKDE`: a scikit-learn estimator whose fit is a private release, and what all such estimators share."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from sfumato.central.curator import Curator
from sfumato.engines import Engine, Progress, engine_of
from sfumato.errors import InputError
from sfumato.kernels import Kernel, Overlap, Product, get_kernel
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.methods.request import COUNT_SHARE, Request
from sfumato.privacy.bits import noise_bits
from sfumato.privacy.guarantee import NEIGHBOURS, checked_delta
from sfumato.privacy.ledger import Account
from sfumato.privacy.rational import exact_epsilon
from sfumato.public.ranges import MOST_RECORDS
from sfumato.quantizers.base import Floats
from sfumato.quantizers.nystrom import PublicSample
from sfumato.release import Release
from sfumato.sources import Source, attach, open_source


class Columned(Protocol):
    """What answers points of known columns: a release, or anything like one."""

    @property
    def dimension(self) -> int:
        """Columns of a point."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Their names."""


class ReleaseEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of estimators that answer from releases: parameters they share, and how queries and columns are checked."""

    kernel: Any
    bandwidth: Any
    method: str
    landmarks: Any
    epsilon: Any
    delta: float
    bounds: Any
    neighbours: str
    n_hint: int | str | None
    unit: str
    options: Mapping[str, Any] | None
    ledger: Account | None
    feature_seed: int | None
    random_state: int | None
    engine: Engine | str | None

    def _keep(self, arguments: Mapping[str, Any]) -> None:
        """Store the constructor's arguments as they are, under their own names, as scikit-learn asks."""
        for name in self._get_param_names():
            setattr(self, name, arguments[name])

    def _columns(self, release: Columned) -> None:
        """Take the columns from what was released."""
        self.n_features_in_ = release.dimension
        if release.columns is not None:
            self.feature_names_in_ = np.array(release.columns, dtype=object)

    def _queries(self, Y: ArrayLike) -> Floats:
        check_is_fitted(self)
        points = validate_data(self, Y, reset=False, accept_sparse=True, dtype=np.float64)
        return np.asarray(points.toarray() if issparse(points) else points)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # rows that are not finite numbers are dropped, as the guarantee says
        tags.input_tags.sparse = True  # made dense batch by batch
        tags.non_deterministic = True
        return tags


class PrivateEstimator(ReleaseEstimator):
    """Base of estimators that release something about their data; subclasses set the parameters named here."""

    release_: Release

    @abstractmethod
    def _request(self, source: Source) -> Request:
        """Check the parameters and gather the public facts of the release to be."""

    @abstractmethod
    def _mechanism(self, request: Request) -> Mechanism:
        """Build the mechanism that a request asks for, or refuse."""

    def fit(
        self,
        X: Any,
        y: object = None,
        *,
        sample_weight: Any = None,
        users: Any = None,
        progress: Progress | None = None,
        threads: int | None = None,
    ) -> Self:
        """Release X: an array, data frame, Arrow table, path, source, or iterator of batches.

        All parameters are checked before the ledger is charged; values are never an error (see `Box`).

        Parameters
        ----------
        X : array, frame, table, path, Source or iterator of batches
            The points, one row a record.
        y : ignored
            For scikit-learn's pipelines.
        sample_weight : array of numbers in [0, 1], or the name of a column, optional
            Probability with which each record is kept, so that answers are weighted means; see
            `sfumato.engines.contributions`.
        users : array of ids, or the name of a column, optional
            Who each record belongs to, in text or numbers; for ``unit="user"``.
        progress : callable, optional
            Told about rows done. For the curator's eyes only.
        threads : int, optional
            Workers of the sum; all available cores by default.
        """
        source = _opened(X, users, sample_weight, self._categories())
        bits = noise_bits(self.random_state)
        request, count = self._request(source), None
        engine = engine_of(self.engine, threads)
        _check_users(source, request)
        counted = source
        if source.weighted or source.keyed:
            counted = engine.counted(source, request.records_per_user, bits)
        curator = Curator(counted, self.ledger, bits, engine, progress)
        if self.n_hint == "paid":
            count = curator.buy_count(request, self._mechanism(request))
            request = replace(request, n=min(count.value, MOST_RECORDS))
        release = curator.run(self._mechanism(request), count)
        self.release_ = replace(release, columns=source.column_names, sampled=source.weighted or source.keyed)
        self._columns(self.release_)
        return self

    def _categories(self) -> dict[Any, Overlap]:
        """Columns that are categories; most estimators know none."""
        return {}

    def _facts(self, dimension: int, weighted: bool) -> dict[str, Any]:
        """Return the facts that every request holds, checked."""
        if self.epsilon is None:
            raise InputError(
                "epsilon is missing: pass epsilon=, the privacy budget of this release (smaller is more private)"
            )
        if self.neighbours not in NEIGHBOURS:
            raise InputError(f"neighbours must be 'add-remove' or 'replace', got {self.neighbours!r}")
        # A count that is bought first has its share, even where a method could do without.
        bought = {"count_share": COUNT_SHARE} if self.n_hint == "paid" else {}
        return {
            "dimension": dimension,
            "epsilon": exact_epsilon(self.epsilon),
            "delta": checked_delta(self.delta),
            "neighbours": self.neighbours,
            "n": self._public_n(),
            "bounds": self.bounds,
            "options": {**bought, **(self.options or {})},
            "feature_seed": secrets.randbits(63) if self.feature_seed is None else int(self.feature_seed),
            "private": self.random_state is None,
            "unit": self.unit,
            "weighted": weighted,
        }

    def _public_n(self) -> int:
        hint = self.n_hint
        if hint == "paid":
            if self.neighbours == "replace":
                raise InputError("n is public under neighbours='replace': pass n_hint as a number")
            return MOST_RECORDS  # stands for n until the count is bought: sizes are at their largest
        if hint is None:
            raise InputError(
                "n_hint is missing: pass n_hint=, a public guess of the number of records (a rough one will do), "
                "or n_hint='paid' to buy a noisy count from the budget first"
            )
        if isinstance(hint, bool) or not isinstance(hint, (int, np.integer)) or not 1 <= hint <= MOST_RECORDS:
            raise InputError(f"n_hint must be a whole number from 1 to {MOST_RECORDS}, or 'paid'; got {hint!r}")
        return int(hint)


def _opened(X: Any, users: Any, weights: Any, categories: Mapping[Any, Overlap]) -> Source:
    """Open the points with their users and weights, each from a column of the data or from an array."""
    if isinstance(X, Source):
        if sorted(map(repr, X.categories.values())) != sorted(map(repr, categories.values())):
            raise InputError("the source was opened with other categories: pass the same to open_source")
        categories = {}
    columns = [name if isinstance(name, str) else None for name in (users, weights)]
    source = open_source(X, key=columns[0], weight=columns[1], categories=categories)
    users, weights = (None if isinstance(values, str) else values for values in (users, weights))
    return source if users is None and weights is None else attach(source, users, weights)


def _placed(categories: Mapping[Any, Overlap], dimension: int) -> dict[int, Overlap]:
    """Give every category a position, the named ones the last that are free: nothing predicted depends on which."""
    free = [place for place in range(dimension) if place not in categories]
    named = [column for column in categories if not isinstance(column, int)]
    if len(named) > len(free) or any(isinstance(column, int) and column >= dimension for column in categories):
        raise InputError(f"categories name more columns than the {dimension} that there are")
    places = dict(zip(named, free[len(free) - len(named) :], strict=True))
    return {places.get(column, column): category for column, category in categories.items()}


def _check_users(source: Source, request: Request) -> None:
    """Refuse users that nothing protects, and a promise to users whom nobody knows."""
    if request.unit == "record" and source.keyed:
        raise InputError(
            "the records come with users, and unit='record' would not protect them: pass unit='user', or no users"
        )
    if request.unit == "user" and not source.keyed:
        raise InputError(
            "unit='user' needs to know whose each record is: pass users=, an array of ids or the name of a column"
        )


class PrivateKDE(DensityMixin, PrivateEstimator):  # type: ignore[misc]
    """Differentially private kernel density estimate.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        What similar means; the Gaussian is exp(-|x - y|^2 / bandwidth^2).
    bandwidth : float, array or matrix, optional
        Needed when the kernel is given by name. Choose it without looking at the private points.
    epsilon : float, str or Fraction
        Total privacy budget of the release, the count included.
    delta : float, default=0.0
        0 for pure differential privacy.
    method : str, default="auto"
        The mechanism's name.
    bounds : (lower, upper) or one pair per column, optional
        Public bounds of the points; never read off the data.
    landmarks : array, frame, table or path, optional
        Public points that resemble the records, for the method "landmarks"; they become part of the release.
    categories : mapping, optional
        Columns that are categories, by name or position, each with its public values (never read off the data): a list,
        or a `kernels.Overlap`, which also says how similar different values are and what happens to values that are not
        in the list. Bandwidth and bounds are then those of the other columns.
    neighbours : {"add-remove", "replace"}, default="add-remove"
        "add-remove" keeps n private; "replace" treats n as public.
    n_hint : int or "paid"
        A public guess of the number of records (it sets sizes, not answers), or "paid" to let the count's share of the
        budget buy it first. With users it is the number of records kept, with weights the sum of the weights.
    unit : {"record", "user"}, default="record"
        What is hidden: one record, or all records of one user. Users need ``options={"max_records_per_user": k}``, and
        `fit` their names.
    options : mapping, optional
        What only one method knows, e.g. ``{"n_features": 500}``.
    ledger : Account, optional
        ``Ledger(path).account(name)``: spending is checked and recorded there. Cloning the estimator shares it.
    feature_seed : int, optional
        Public seed of the features; drawn at random by default.
    random_state : int, optional
        Seeds the noise and marks the release NOT PRIVATE. For tests only.
    engine : Engine or str, optional
        Where the sums run; the threads of this machine by default.

    Attributes
    ----------
    release_ : Release
        The public function.
    n_features_in_ : int
        Columns seen in fit.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.random.default_rng(0).normal(size=(2000, 2))
    >>> model = PrivateKDE(bandwidth=1.0, epsilon=1.0, n_hint=2000).fit(points)
    >>> answers, errors = model.query(np.zeros((1, 2)), return_std=True)
    >>> model.release_.guarantee.epsilon
    Fraction(1, 1)
    >>> rows = [["north", 0.5], ["south", 1.5]] * 1000
    >>> model = PrivateKDE(bandwidth=1.0, epsilon=1.0, n_hint=2000, categories={0: ["north", "south"]}).fit(rows)
    >>> bool(model.query([["north", 0.5]])[0] > model.query([["south", 0.5]])[0])
    True
    """

    def __init__(
        self,
        kernel: str | Kernel = "gaussian",
        *,
        bandwidth: Any = None,
        epsilon: Any = None,
        delta: float = 0.0,
        method: str = "auto",
        bounds: Any = None,
        landmarks: Any = None,
        categories: Mapping[Any, Any] | None = None,
        neighbours: str = "add-remove",
        n_hint: int | str | None = None,
        unit: str = "record",
        options: Mapping[str, Any] | None = None,
        ledger: Account | None = None,
        feature_seed: int | None = None,
        random_state: int | None = None,
        engine: Engine | str | None = None,
    ) -> None:
        self._keep(locals())

    def _queries(self, Y: ArrayLike) -> Any:
        check_is_fitted(self)
        # Rows with categories are mixed: the release reads them.
        return Y if isinstance(self.release_.kernel, Product) else super()._queries(Y)

    def query(self, Y: ArrayLike, return_std: bool = False, read: str = "plain") -> Any:
        """Mean kernel value at each query, not clipped; `return_std=True` adds the standard errors.

        ``read="shrunk"`` has less squared error where noise is large, and a bias: see `Release.query`.
        """
        points = self._queries(Y)
        answers, errors = self.release_.query(points, return_std=True, read=read)
        return (answers, errors) if return_std else answers

    def density(self, Y: ArrayLike, read: str = "plain") -> Floats:
        """Mean kernel value at each query, clipped to [0, 1]; `read` as in `query`."""
        points = self._queries(Y)
        return self.release_.density(points, read)

    def score_samples(self, X: ArrayLike, y: object = None, read: str = "plain") -> Floats:
        """Log of the normalised density at each point, as scikit-learn's KernelDensity gives it."""
        points = self._queries(X)
        return self.release_.log_density(points, read)

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Total log density of X."""
        return float(self.score_samples(X).sum())

    def _request(self, source: Source) -> Request:
        return self.request(source.dimension, source.weighted, source.column_names, source.categories)

    def _categories(self) -> dict[Any, Overlap]:
        if isinstance(self.kernel, Product):
            if self.categories is not None:
                raise InputError("the kernel has its categories: pass categories= with a kernel of numbers")
            return dict(zip(self.kernel.places, self.kernel.categories, strict=True))
        return {column: Overlap.of(values) for column, values in (self.categories or {}).items()}

    def _kernel(self, dimension: int, categories: Mapping[int, Overlap]) -> Kernel:
        """Return the kernel of the numbers, or its product with the categories'."""
        if isinstance(self.kernel, Product):
            return self.kernel
        if categories and len(categories) == dimension:
            return Product(None, categories)
        if isinstance(self.kernel, str) and self.bandwidth is None:
            raise InputError(
                "bandwidth is missing: pass bandwidth=, in the points' units, chosen without looking at the data"
            )
        kernel = get_kernel(self.kernel, self.bandwidth)
        return Product(kernel, categories) if categories else kernel

    def request(
        self,
        dimension: int,
        weighted: bool = False,
        column_names: tuple[str, ...] | None = None,
        categories: Mapping[int, Overlap] | None = None,
    ) -> Request:
        """Check the parameters and gather the public facts of the release to be.

        `categories` are those of the columns by their positions; without them named ones stand in the last columns.
        While the count is still to be bought, n stands at more rows than anyone has: sizes are at their largest.
        """
        facts = self._facts(dimension, weighted)
        if categories is None:
            categories = _placed(self._categories(), dimension)
        kernel = self._kernel(dimension, categories)
        landmarks = None if self.landmarks is None else PublicSample.of(self.landmarks, dimension, column_names)
        return Request(kernel=kernel, landmarks=landmarks, **facts)

    def _mechanism(self, request: Request) -> Mechanism:
        if self.n_hint == "paid" and {"alpha", "eta"} & set(request.options):
            raise InputError("options alpha and eta need a public n: pass n_hint as a number, not 'paid'")
        return METHODS.build(self.method, request)
