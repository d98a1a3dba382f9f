"""What estimators whose fit is a private release share: opening data, public facts, the paid count, and queries."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from sfumato.central.contributions import bounded, thinned
from sfumato.central.curator import Curator
from sfumato.engines.threads import Progress
from sfumato.errors import InputError
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.request import COUNT_SHARE, Request
from sfumato.privacy.bits import SecureBits, noise_bits
from sfumato.privacy.guarantee import NEIGHBOURS, checked_delta
from sfumato.privacy.ledger import Account
from sfumato.privacy.rational import exact_epsilon
from sfumato.public.ranges import MOST_RECORDS
from sfumato.quantizers.base import Floats
from sfumato.release import Release
from sfumato.sources import Source, attach, open_source


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of estimators that release something about their data; subclasses set the parameters named here."""

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
    release_: Release

    @abstractmethod
    def _request(self, source: Source) -> Request:
        """Check the parameters and gather the public facts of the release to be."""

    @abstractmethod
    def _mechanism(self, request: Request) -> Mechanism:
        """Build the mechanism that a request asks for, or refuse."""

    def _release(self, X: Any, users: Any, sample_weight: Any, progress: Progress | None, threads: int | None) -> None:
        """Release X; everything that can be refused is refused before anything is spent."""
        source = _opened(X, users, sample_weight)
        bits = noise_bits(self.random_state)
        request, count = self._request(source), None
        curator = Curator(_counted(source, request, bits), self.ledger, bits, threads, progress)
        if self.n_hint == "paid":
            count = curator.buy_count(request, self._mechanism(request))
            request = replace(request, n=min(count.value, MOST_RECORDS))
        release = curator.run(self._mechanism(request), count)
        self.release_ = replace(release, columns=source.column_names, sampled=source.weighted or source.keyed)
        self.n_features_in_ = source.dimension
        if source.column_names is not None:
            self.feature_names_in_ = np.array(source.column_names, dtype=object)

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


def _opened(X: Any, users: Any, weights: Any) -> Source:
    """Open the points with their users and weights, each from a column of the data or from an array."""
    columns = [name if isinstance(name, str) else None for name in (users, weights)]
    source = open_source(X, key=columns[0], weight=columns[1])
    users, weights = (None if isinstance(values, str) else values for values in (users, weights))
    return source if users is None and weights is None else attach(source, users, weights)


def _counted(source: Source, request: Request, bits: SecureBits) -> Source:
    """Return the records that count: what the weights' coins keep, and of that what the users may contribute."""
    if request.unit == "record" and source.keyed:
        raise InputError(
            "the records come with users, and unit='record' would not protect them: pass unit='user', or no users"
        )
    if request.unit == "user" and not source.keyed:
        raise InputError(
            "unit='user' needs to know whose each record is: pass users=, an array of ids or the name of a column"
        )
    if source.weighted:
        source = thinned(source, bits)
    return bounded(source, request.records_per_user, bits) if source.keyed else source
