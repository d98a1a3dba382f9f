"""`DensityClassifier`: a point belongs to the class in which its private density is highest.

Source: the highest density class of 004_eaf068975622a871.txt (3.3), here from central releases. With the inner product
it is the nearest class mean.

Guarantee. A record is a point with its label and counts in the sums of its own class only; labels outside the public
list of classes are dropped. Adding or removing a record changes one class's release, which is (epsilon, delta)-private,
and leaves the law of all others as it was; every class is released, be it empty or not. So all releases together are
(epsilon, delta)-private (parallel composition), and the ledger is charged once. Changing a record's label takes it out
of one class and puts it into another: two steps, hence 2 epsilon (and (1 + e^epsilon) delta).

All classes share one draw of public features. Where features are random, a draw for each class would give each its own
approximation error, and comparing densities would compare those errors; with one draw they are nearly the same for all
classes and fall out of the comparison.

Priors are the shares of the classes' noisy counts, which are paid for already.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from sfumato.central import registry
from sfumato.central.curator import Curator
from sfumato.central.mechanism import Mechanism
from sfumato.engines.threads import stream_sum
from sfumato.errors import InputError
from sfumato.kde import PrivateKDE
from sfumato.kernels import Kernel, get_kernel
from sfumato.learn.labels import Codes, checked_labels, class_codes, label_conditions, public_classes, rows_of_class
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.ledger import Account
from sfumato.quantizers.base import Floats
from sfumato.release import Release
from sfumato.sources import Source, open_source

PRIORS = ("uniform", "private")


class DensityClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Differentially private classifier by the highest density.

    Parameters
    ----------
    kernel : str or Kernel, default="inner-product"
        What similar means. The inner product is for points no longer than its radius, such as normalised embeddings.
    bandwidth : float, array or matrix, optional
        For kernels that need one; for "inner-product" the public radius, 1 by default.
    epsilon, delta, method, bounds, landmarks, options, ledger, feature_seed, random_state
        As in `PrivateKDE`; epsilon is for all classes together.
    classes : sequence, or "observed"
        The public list of classes; records with other labels are dropped. "observed" takes the labels that occur and so
        declares that it is public which ones do.
    n_hint : int
        Public guess of the number of records of all classes together; it sets sizes, not answers.
    priors : {"uniform", "private"} or one number per class, default="uniform"
        What densities are multiplied with before they are compared: nothing, the shares of the noisy counts, or public
        numbers in the order of `classes_`.
    trust : {"central"}, default="central"
        Who sees the records.

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    releases_ : dict
        Each class's public density.
    class_prior_ : ndarray
        Shares of the classes' noisy counts.
    guarantee_ : Guarantee
        What is promised to every record, label included.

    Examples
    --------
    >>> points = np.random.default_rng(0).normal(size=(2000, 3))
    >>> points /= np.linalg.norm(points, axis=1, keepdims=True)
    >>> labels = np.where(points[:, 0] > 0, "east", "west")
    >>> model = DensityClassifier(epsilon=1, classes=["east", "west"], n_hint=2000).fit(points, labels)
    >>> model.predict([[0.9, 0.1, 0.0], [-0.9, 0.0, 0.1]])
    array(['east', 'west'], dtype='<U4')
    """

    def __init__(
        self,
        kernel: str | Kernel = "inner-product",
        *,
        bandwidth: Any = None,
        epsilon: Any = None,
        delta: float = 0.0,
        classes: Any = None,
        n_hint: int | None = None,
        method: str = "auto",
        bounds: Any = None,
        landmarks: Any = None,
        priors: Any = "uniform",
        trust: str = "central",
        options: Any = None,
        ledger: Account | None = None,
        feature_seed: int | None = None,
        random_state: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.n_hint = n_hint
        self.method = method
        self.bounds = bounds
        self.landmarks = landmarks
        self.priors = priors
        self.trust = trust
        self.options = options
        self.ledger = ledger
        self.feature_seed = feature_seed
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, threads: int | None = None) -> DensityClassifier:
        """Release the density of every class.

        All parameters are checked before the ledger is charged; values are never an error.

        Parameters
        ----------
        X : array, frame, table, path or Source
            The points, one row a record; read once for each class.
        y : array
            The labels.
        threads : int, optional
            Workers of the sums; all available cores by default.
        """
        if self.trust != "central":
            raise InputError(f"trust must be 'central', got {self.trust!r}")
        source = open_source(X)
        if not source.repeatable:
            raise InputError("the points are read once for each class: pass an array, a table or a file, no iterator")
        labels = checked_labels(y)
        classes = public_classes(self.classes, labels)
        _check_priors(self.priors, len(classes))
        codes = class_codes(labels, classes)
        mechanism = self._mechanism(source, len(classes))
        releases = self._release(mechanism, source, codes, len(classes), threads)
        self.classes_ = classes
        self.releases_ = dict(zip(classes.tolist(), releases, strict=True))
        self.guarantee_ = mechanism.guarantee
        counts = np.array([release.count.value for release in self.releases_.values()], dtype=np.float64)
        self.class_prior_ = counts / counts.sum()
        self.n_features_in_ = source.dimension
        if source.column_names is not None:
            self.feature_names_in_ = np.array(source.column_names, dtype=object)
        return self

    def _release(
        self, mechanism: Mechanism, source: Source, codes: Codes, count: int, threads: int | None
    ) -> list[Release]:
        """Sum every class, charge once, and then draw the noise of all."""
        bits = SecureBits() if self.random_state is None else SecureBits.seeded(self.random_state)
        guarantee, (epsilon, loss) = mechanism.guarantee, mechanism.cost(count_is_bought=False)
        if self.ledger is not None:
            self.ledger.check(epsilon, guarantee.delta, loss=loss)
        sums = []
        for code in range(count):
            rows = rows_of_class(source, codes, code)
            sums.append(stream_sum(rows, mechanism.quantizer, coins=bits.child(code), threads=threads))
        if self.ledger is not None:
            self.ledger.charge(f"classifier/{mechanism.method}", epsilon, guarantee.delta, loss=loss)
        curator = Curator(source, None, bits)
        return [replace(curator.publish(mechanism, *each), columns=source.column_names) for each in sums]

    def _mechanism(self, source: Source, classes: int) -> Mechanism:
        """Build the one mechanism that every class is released by."""
        if isinstance(self.n_hint, str):
            raise InputError("n_hint must be a number here: pass a public guess of the number of records in all")
        model = PrivateKDE(
            get_kernel(self.kernel, self.bandwidth),
            epsilon=self.epsilon,
            delta=self.delta,
            bounds=self.bounds,
            landmarks=self.landmarks,
            n_hint=self.n_hint if self.n_hint is None else max(1, self.n_hint // classes),
            options=self.options,
            feature_seed=self.feature_seed,
            random_state=self.random_state,
        )
        request = model.request(source.dimension, column_names=source.column_names)
        mechanism = registry.build(self.method, request)
        guarantee = mechanism.guarantee
        conditions = (*guarantee.conditions, *label_conditions(guarantee, self.classes))
        return replace(mechanism, guarantee=replace(guarantee, conditions=conditions))

    def densities(self, X: ArrayLike) -> Floats:
        """Private density of each point in each class, shape (points, classes), in the order of `classes_`."""
        check_is_fitted(self)
        points = validate_data(self, X, reset=False, accept_sparse=True, dtype=np.float64)
        points = np.asarray(points.toarray() if issparse(points) else points)
        return np.column_stack([release.query(points) for release in self.releases_.values()])

    def _scores(self, X: ArrayLike) -> Floats:
        densities = self.densities(X)
        if isinstance(self.priors, str):
            return densities if self.priors == "uniform" else np.asarray(densities * self.class_prior_)
        return np.asarray(densities * np.asarray(self.priors, dtype=np.float64))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class of the highest density, times its prior where priors were asked for."""
        scores = self._scores(X)
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores, shape (points, classes); for two classes the difference of their scores over the sum of their sizes.

        A score is a density, times its prior where priors were asked for.
        """
        scores = self._scores(X)
        return _contrast(scores) if scores.shape[1] == 2 else scores

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Scores clipped at 0 and divided by their sum; equal shares where no score is positive.

        These are shares of density, which compare classes but are not calibrated.
        """
        scores = self._scores(X)
        if scores.shape[1] == 2:
            second = (1 + _contrast(scores)) / 2  # the same share where both are positive
            return np.column_stack([1 - second, second])
        scores = np.maximum(scores, 0.0)
        totals = scores.sum(axis=1, keepdims=True)
        shares = np.divide(scores, totals, out=np.full_like(scores, 1 / scores.shape[1]), where=totals > 0)
        return np.asarray(shares)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # rows that are not finite numbers are dropped, as the guarantee says
        tags.input_tags.sparse = True
        tags.non_deterministic = True
        return tags


def _contrast(scores: Floats) -> Floats:
    """Difference of two scores over the sum of their absolute values, from -1 to 1."""
    sizes = np.abs(scores).sum(axis=1)
    return np.asarray(np.divide(scores[:, 1] - scores[:, 0], sizes, out=np.zeros(len(scores)), where=sizes > 0))


def _check_priors(priors: Any, classes: int) -> None:
    if isinstance(priors, str):
        if priors not in PRIORS:
            raise InputError(f"priors must be 'uniform', 'private' or one number per class, got {priors!r}")
        return
    numbers = np.asarray(priors, dtype=np.float64)
    if numbers.shape != (classes,) or not (np.isfinite(numbers) & (numbers >= 0)).all():
        raise InputError(f"priors must be {classes} numbers that are not negative, one per class; got {priors!r}")
