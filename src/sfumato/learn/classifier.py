"""`DensityClassifier`: a point belongs to the class in which its private density is highest, or whose mean is nearest.

Source: the highest density class of Wagner (2025) (3.3) and the squared distances of
Backurs et al. (2024) (section 4); `rules` has the scores, and `collecting` the local and shuffled models.

Guarantee of the central model. A record is a point with its label and counts in the sums of its own class only; labels
outside the public list of classes are dropped. Adding or removing a record changes one class's release, which is
(epsilon, delta)-private, and leaves the law of all others as it was; every class is released, be it empty or not. So
all releases together are (epsilon, delta)-private (parallel composition), and the ledger is charged once. Changing a
record's label takes it out of one class and puts it into another: two steps, hence 2 epsilon (and (1 + e^epsilon)
delta).

All classes share one draw of public features. Where features are random, a draw for each class would give each its own
approximation error, and comparing densities would compare those errors; with one draw they are nearly the same for all
classes and fall out of the comparison.

Priors are the shares of the classes' noisy counts, which are paid for already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sfumato.central.curator import publish
from sfumato.central.kde import PrivateKDE, ReleaseEstimator
from sfumato.engines import Engine, Progress, engine_of
from sfumato.errors import InputError
from sfumato.kernels import InnerProduct, Kernel, get_kernel
from sfumato.learn import collecting, files, rules, squared_distance
from sfumato.learn.labels import ClassSums, LabelledSource, label_conditions, labelled, one_type
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.registry import METHODS
from sfumato.privacy.bits import noise_bits, warn_unless_private
from sfumato.privacy.guarantee import TRUSTS, Guarantee, check_choice
from sfumato.privacy.ledger import Account
from sfumato.quantizers.base import Floats
from sfumato.release import Release
from sfumato.sources import Source
from sfumato.storage import AtomicFile


class DensityClassifier(ClassifierMixin, ReleaseEstimator):  # type: ignore[misc]
    """Differentially private classifier by the highest density or the nearest mean.

    Parameters
    ----------
    kernel : str or Kernel, default="inner-product"
        What similar means. The inner product is for points no longer than its radius, such as normalised embeddings.
    bandwidth : float, array or matrix, optional
        For kernels that need one; for "inner-product" the public radius, 1 by default.
    epsilon, delta, method, bounds, landmarks, options, ledger, feature_seed, random_state, engine
        As in `PrivateKDE`; epsilon is for all classes together.
    classes : sequence, or "observed"
        The public list of classes; records with other labels are dropped. "observed" takes the labels that occur and so
        declares that it is public which ones do.
    n_hint : int
        Public guess of the number of records of all classes together; it sets sizes, not answers.
    rule : {"highest-density", "nearest-mean", "squared-distance"}, default="highest-density"
        What decides, see `sfumato.learn.rules`; the last two are for the inner product. "squared-distance" projects
        and clips records, by the options ``projections`` and ``clip`` or by its own public choice, and has the least
        noise at a small epsilon.
    priors : {"uniform", "private"} or one number per class, default="uniform"
        What densities are multiplied with before they are compared: nothing, the shares of the noisy counts, or public
        numbers in the order of `classes_`.
    trust : {"central", "local", "shuffled"}, default="central"
        Who sees the records: a curator, nobody, or nobody given an honest shuffler. For the last two `fit` simulates a
        collection, see `sfumato.learn.collecting`: epsilon is for a person's point, the option ``label_epsilon``, if
        passed, for their class, and `method` a local mechanism or a bit-sum protocol.

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

    classes: Any
    rule: str
    priors: Any
    trust: str

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
        rule: str = rules.DENSITY,
        priors: Any = "uniform",
        trust: str = "central",
        options: Any = None,
        ledger: Account | None = None,
        feature_seed: int | None = None,
        random_state: int | None = None,
        engine: Engine | str | None = None,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any, *, threads: int | None = None, progress: Progress | None = None) -> DensityClassifier:
        """Release the density of every class.

        All parameters are checked before the ledger is charged; values are never an error.

        Parameters
        ----------
        X, threads, progress
            As in `PrivateKDE.fit`; the points are read once.
        y : array, or str
            The labels, or the name of the column of X that holds them.
        """
        check_choice("trust", self.trust, TRUSTS)
        kernel = get_kernel(self.kernel, self.bandwidth)
        rules.check_rule(self.rule, kernel, self.priors)
        data = labelled(X, y, self.classes)
        rules.check_priors(self.priors, len(data.classes))
        if self.trust != "central":
            releases = collecting.collect(self.trust, kernel, data, self.get_params(deep=False))
        else:
            mechanism = self.mechanism(data.source, len(data.classes))
            releases = self._release(mechanism, data, threads, progress)
        return self._fitted(data.classes, releases, files.BY_LABEL)

    @classmethod
    def of(
        cls,
        releases: Mapping[Any, Release],
        *,
        rule: str = rules.DENSITY,
        priors: Any = "uniform",
        disjoint: bool = False,
    ) -> DensityClassifier:
        """Make a classifier of releases that exist already, one for each class, of any trust model.

        It costs no privacy. What is promised to a record follows from the releases: their epsilons and deltas add up,
        for a record may be in the data of all of them.

        Parameters
        ----------
        releases : mapping
            Each class's release; for rule "squared-distance" those that `fit` makes.
        rule, priors
            As in the class.
        disjoint : bool, default=False
            Declare that no record, or nobody who took part, is in the data of two classes. The weakest promise of the
            classes then holds for all, and the declaration is one of its conditions.

        Examples
        --------
        >>> points = np.random.default_rng(0).normal(size=(1000, 1))
        >>> north, south = (
        ...     PrivateKDE(bandwidth=1.0, epsilon=1, bounds=(-9, 9), n_hint=1000).fit(points + shift).release_
        ...     for shift in (3, -3)
        ... )
        >>> DensityClassifier.of({"north": north, "south": south}).guarantee_.epsilon
        Fraction(2, 1)
        >>> DensityClassifier.of({"north": north, "south": south}, disjoint=True).guarantee_.epsilon
        Fraction(1, 1)
        """
        if not isinstance(disjoint, bool):
            raise InputError(f"disjoint must be True or False, got {disjoint!r}")
        return cls._of(releases, rule, priors, files.DISJOINT if disjoint else files.SHARED)

    @classmethod
    def _of(cls, releases: Mapping[Any, Release], rule: str, priors: Any, together: str) -> DensityClassifier:
        if not releases:
            raise InputError("a classifier needs the release of one class or more")
        classes = one_type(releases)
        parts = [releases[name] for name in classes.tolist()]
        kernel = files.check_together(parts, rule, priors)
        promise = files.common_guarantee([part.guarantee for part in parts], together)
        model = cls(
            kernel,
            epsilon=promise.epsilon,
            delta=promise.delta,
            classes=classes,
            rule=rule,
            priors=priors,
            trust=promise.trust,
        )
        return model._fitted(classes, parts, together)

    def _fitted(self, classes: NDArray[Any], releases: list[Release], together: str) -> DensityClassifier:
        """Take in what is public; `together` says how the promises of the classes make up that of all."""
        self.classes_ = classes
        self.releases_ = dict(zip(classes.tolist(), releases, strict=True))
        self.guarantee_: Guarantee = files.common_guarantee([release.guarantee for release in releases], together)
        self._together = together
        counts = np.array([release.count.value for release in releases], dtype=np.float64)
        self.class_prior_ = counts / counts.sum()
        self._columns(releases[0])
        if self.rule == rules.MEAN:
            self.mean_squares_ = rules.mean_squares(releases, self._radius)
        return self

    def _release(
        self, mechanism: Mechanism, data: LabelledSource, threads: int | None, progress: Progress | None
    ) -> list[Release]:
        """Sum every class, charge once, and then draw the noise of all."""
        bits, engine = noise_bits(self.random_state), engine_of(self.engine, threads)
        guarantee, (epsilon, loss) = mechanism.guarantee, mechanism.cost(count_is_bought=False)
        if self.ledger is not None:
            self.ledger.check(epsilon, guarantee.delta, loss=loss)
        sums = ClassSums(mechanism.encoder, len(data.classes))
        flat, _, _ = engine.sum(data.coded, sums, bits.child(0), progress)
        if self.ledger is not None:
            self.ledger.charge(f"classifier/{mechanism.method}", epsilon, guarantee.delta, loss=loss)
        columns = data.source.column_names
        return [
            replace(publish(mechanism, row[:-1].copy(), int(row[-1]), int(row[-1]), bits), columns=columns)
            for row in flat.reshape(len(data.classes), -1)
        ]

    def mechanism(self, source: Source, classes: int) -> Mechanism:
        """Build the one mechanism that every class is released by; of the source only the columns are looked at."""
        model = PrivateKDE(
            get_kernel(self.kernel, self.bandwidth),
            epsilon=self.epsilon,
            delta=self.delta,
            bounds=self.bounds,
            landmarks=self.landmarks,
            n_hint=_each_class(self.n_hint, classes),
            options=self.options,
            feature_seed=self.feature_seed,
            random_state=self.random_state,
        )
        request = model.request(source.dimension, column_names=source.column_names)
        build = squared_distance.build if self.rule == rules.DISTANCE else METHODS.build
        mechanism = build(self.method, request)
        guarantee = mechanism.guarantee
        conditions = (*guarantee.conditions, *label_conditions(guarantee, self.classes))
        return replace(mechanism, guarantee=replace(guarantee, conditions=conditions))

    @property
    def _radius(self) -> float:
        kernel = get_kernel(self.kernel, self.bandwidth)
        assert isinstance(kernel, InnerProduct)
        return kernel.radius

    def densities(self, X: ArrayLike) -> Floats:
        """Answer of each class's release at each point, shape (points, classes), in the order of `classes_`.

        With rule "squared-distance" they are mean squared distances, else private densities.
        """
        points = self._queries(X)
        return np.column_stack([release.query(points) for release in self.releases_.values()])

    def _scores(self, X: ArrayLike) -> Floats:
        answers = self.densities(X)
        if self.rule == rules.DISTANCE:
            return np.asarray(-answers / self._radius**2)
        if self.rule == rules.MEAN:
            return np.asarray(2 * answers - self.mean_squares_)
        if isinstance(self.priors, str):
            return answers if self.priors == "uniform" else np.asarray(answers * self.class_prior_)
        return np.asarray(answers * np.asarray(self.priors, dtype=np.float64))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class of the highest score."""
        scores = self._scores(X)
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores, shape (points, classes), by the rule; for two classes their difference.

        A score is a density, times its prior where priors were asked for, or minus a squared distance in units of the
        squared radius (for "nearest-mean" up to what all classes share). The difference of two densities is divided by
        the sum of their sizes.
        """
        scores = self._scores(X)
        if scores.shape[1] != 2:
            return scores
        return rules.contrast(scores) if self.rule == rules.DENSITY else np.asarray(scores[:, 1] - scores[:, 0])

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Shares of the classes, which compare them but are not calibrated.

        Shares of density: scores clipped at 0 and divided by their sum, equal where no score is positive. For the other
        rules a class's share falls as exp(-squared distance / radius^2).
        """
        scores = self._scores(X)
        return rules.density_shares(scores) if self.rule == rules.DENSITY else rules.distance_shares(scores)

    def to_bytes(self) -> bytes:
        """Return the content of a classifier's file: the releases of all classes, and the rule."""
        check_is_fitted(self)
        return files.encode(self.classes_, list(self.releases_.values()), self.rule, self.priors, self._together)

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the classifier to one file, atomically: everything in it is public."""
        check_is_fitted(self)
        warn_unless_private(self.guarantee_)
        with AtomicFile(path, overwrite=overwrite) as file:
            file.write(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> DensityClassifier:
        """Read a classifier that `save` wrote, and check it.

        It answers as the saved one does. Of the parameters it has those that the file tells: kernel, epsilon, delta,
        classes, rule and priors.
        """
        content = files.decode(path)
        releases = dict(zip(content.classes.tolist(), content.releases, strict=True))
        return cls._of(releases, content.rule, content.priors, content.together)


def _each_class(hint: Any, classes: int) -> int | None:
    """Share of one class in the public guess of the number of records."""
    if hint is None:
        return None
    if isinstance(hint, bool) or not isinstance(hint, int | np.integer) or hint < 1:
        raise InputError(f"n_hint must be a whole number above 0, the number of records in all; got {hint!r}")
    return max(1, int(hint) // classes)
