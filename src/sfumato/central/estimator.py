"""What all scikit-learn estimators share whose fit is a private release: parameters, columns, queries, and the run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from sfumato.central.curator import Curator, Payer, account_of, warn_of_validation
from sfumato.central.reference import Purchase
from sfumato.central.survey import look_at
from sfumato.deferred import brought_by
from sfumato.engines import Engine, Progress, engine_of
from sfumato.errors import InputError
from sfumato.kernels import Overlap
from sfumato.methods.method import Mechanism
from sfumato.methods.parameters import PAID, Parameters
from sfumato.methods.request import Request
from sfumato.privacy.bits import noise_bits
from sfumato.privacy.guarantee import Guarantee
from sfumato.public.arguments import checked_progress
from sfumato.public.ranges import MOST_RECORDS
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import Box
from sfumato.release import Release
from sfumato.sources import Columns, Source, arguments_named, as_declared, attach, open_source

with brought_by("curator"):
    from sklearn.base import BaseEstimator
    from sklearn.utils import Tags
    from sklearn.utils.validation import check_array, check_is_fitted, validate_data


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
    columns: Columns | None
    method: str
    landmarks: Any
    epsilon: Any
    delta: float
    bounds: Any
    neighbours: str
    n_hint: int | str | None
    unit: str
    options: Mapping[str, Any] | None
    ledger: Payer
    feature_seed: int | None
    random_state: int | None
    engine: Engine | str | None
    release_: Release
    guarantee_: Guarantee

    def _keep(self, arguments: Mapping[str, Any]) -> None:
        """Store the constructor's arguments as they are, under their own names, as scikit-learn asks."""
        for name in self._get_param_names():
            setattr(self, name, arguments[name])

    def _columns(self, release: Columned) -> None:
        """Take the columns from what was released."""
        self.n_features_in_ = release.dimension
        if release.columns is not None:
            self.feature_names_in_ = np.array(release.columns, dtype=object)

    def _released(self, release: Release) -> Self:
        """Take in a release, which is all that a fitted estimator of one release knows."""
        self.release_, self.guarantee_ = release, release.guarantee
        self._columns(release)
        return self

    def _queries(self, Y: ArrayLike) -> Floats:
        check_is_fitted(self)
        if (rows := self._selected(Y)) is not None:
            return np.asarray(check_array(rows, dtype=np.float64))
        try:
            points = validate_data(self, Y, reset=False, accept_sparse=True, dtype=np.float64)
        except OverflowError:
            raise InputError("queries must be numbers that a double holds, one row per query") from None
        return np.asarray(points.toarray() if issparse(points) else points)

    def _selected(self, Y: Any) -> Floats | None:
        """Take the fitted columns out of a frame like the one that was fitted; None where all of it is the queries."""
        there = getattr(Y, "column_names", getattr(Y, "columns", None))
        names = list(getattr(self, "feature_names_in_", ()))
        if there is None or not names or names == list(map(str, there)):
            return None
        if self.columns is None and as_declared(names) == names:
            return None
        return open_source(Y, as_declared(names)).whole()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # rows that are not finite numbers are dropped, as the guarantee says
        tags.input_tags.sparse = True  # made dense batch by batch
        tags.non_deterministic = True
        return tags


class PrivateEstimator(ReleaseEstimator):
    """Base of estimators that release something about their data; subclasses set the parameters named here."""

    def _parameters(self) -> Parameters:
        """Return the parameters that decide the release."""
        return Parameters.of(self.get_params(deep=False))

    def _request(self, source: Source) -> Request:
        """Check the parameters and gather the public facts of the release to be."""
        return self._parameters().request(
            source.dimension, source.weighted, source.column_names, source.categories, source.length_unit
        )

    def mechanism(self, source: Source) -> Mechanism:
        """Build the mechanism that `fit` would run, or refuse; of the source only the columns are looked at.

        Where something is bought first, it is one of the same size.
        """
        request = self._request(source)
        purchase = self._purchase(request, source.repeatable)
        return self._mechanism(request) if purchase is None else purchase.outline()

    @abstractmethod
    def _mechanism(self, request: Request) -> Mechanism:
        """Build the mechanism that a request asks for, or refuse."""

    def _purchase(self, request: Request, repeatable: bool) -> Purchase | None:
        """Return what must be bought before there is a mechanism; None for nearly all methods."""
        return None

    def fit(
        self,
        X: Any,
        y: object = None,
        *,
        sample_weight: Any = None,
        users: Any = None,
        progress: Progress | None = None,
        threads: int | None = None,
        look: bool = False,
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
        look : bool
            Look at the first rows before the charge, for the curator's eyes only, and ask whether to go on where
            something is odd: see `sfumato.central.survey`.

        Raises
        ------
        TooFewError
            If the count, which is bought first, is far below `n_hint`; only the count is charged then.
        """
        warn_of_validation()
        curator, source, request = self.prepared(
            X, sample_weight=sample_weight, users=users, progress=progress, threads=threads
        )
        purchase = self._purchase(request, source.repeatable)
        if look:
            if purchase is None:
                self._mechanism(request)  # what would be refused is refused first
            look_at(source, self._declared_box(source, request), request.kernel)
        count = None
        if self.n_hint == PAID:
            count = curator.buy_count(request, self._mechanism(request))
            request = replace(request, n=min(count.value, MOST_RECORDS))
        if purchase is not None:
            release = curator.run_bought(purchase, request.n)
        else:
            release = curator.run(self._mechanism(request), count, request.n)
        return self._released(replace(release, columns=source.column_names, sampled=source.weighted or source.keyed))

    def _declared_box(self, source: Source, request: Request) -> Box | None:
        """Bounds of the columns that are numbers, where the caller gave some."""
        numbers = source.dimension - len(source.categories)
        return None if request.bounds is None else Box.from_bounds(request.bounds, numbers, request.outside)

    def prepared(
        self,
        X: Any,
        *,
        sample_weight: Any = None,
        users: Any = None,
        progress: Progress | None = None,
        threads: int | None = None,
    ) -> tuple[Curator, Source, Request]:
        """Open the points and check all parameters: the curator of the records that count, the source, the request."""
        source = _opened(X, self.columns, users, sample_weight, self._parameters().overlaps())
        bits, request = noise_bits(self.random_state), self._request(source)
        engine = engine_of(self.engine, threads, source)
        _check_users(source, request)
        counted = source
        if source.weighted or source.keyed:
            counted = engine.counted(source, request.records_per_user, bits)
        return Curator(counted, account_of(self.ledger, X), bits, engine, checked_progress(progress)), source, request


def _opened(X: Any, chosen: Any, users: Any, weights: Any, categories: Mapping[Any, Overlap]) -> Source:
    """Open the points with their users and weights, each from a column of the data or from an array."""
    if isinstance(X, Source):
        if sorted(map(repr, X.categories.values())) != sorted(map(repr, categories.values())):
            raise InputError("the source was opened with other categories: pass the same to open_source")
        categories = {}
    columns = [name if isinstance(name, str) else None for name in (users, weights)]
    with arguments_named(key="users", weight="sample_weight"):
        source = open_source(X, chosen, key=columns[0], weight=columns[1], categories=categories)
    users, weights = (None if isinstance(values, str) else values for values in (users, weights))
    return source if users is None and weights is None else attach(source, users, weights)


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
