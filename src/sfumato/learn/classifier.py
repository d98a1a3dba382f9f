"""`DensityClassifier`: the class of the nearest mean, of the highest private density, or of a linear classifier.

Source: the highest density class of Wagner (2025) (3.3) and the squared distances of
Backurs et al. (2024) (section 4); `rules` has the scores, `linear` the gradient steps, `fitting` the curator's run, and
`collecting` the local and shuffled models.

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

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.central.curator import Payer, account_of, warn_of_validation
from sfumato.central.estimator import ReleaseEstimator
from sfumato.central.survey import FIRST_ROWS, check_readable, go_on, survey
from sfumato.deferred import brought_by
from sfumato.engines import Engine, Progress, engine_of
from sfumato.errors import InputError
from sfumato.kernels import InnerProduct, Kernel, get_kernel
from sfumato.learn import collecting, files, fitting, rules
from sfumato.learn.label_check import add_labels
from sfumato.learn.labels import LabelledSource, labelled, one_type
from sfumato.learn.softmax import LinearModel
from sfumato.methods.method import Mechanism
from sfumato.methods.parameters import bounds_in_order
from sfumato.privacy.bits import noise_bits, warn_unless_private
from sfumato.privacy.guarantee import TRUSTS, check_choice
from sfumato.public.arguments import checked_progress, says
from sfumato.public.codec import brief
from sfumato.quantizers.base import Floats
from sfumato.quantizers.box import Box
from sfumato.release import Release
from sfumato.release.saving import saved
from sfumato.sources import Columns, Source

with brought_by("curator"):
    from sklearn.base import ClassifierMixin
    from sklearn.utils.validation import check_is_fitted


class DensityClassifier(ClassifierMixin, ReleaseEstimator):  # type: ignore[misc]
    """Differentially private classifier: nearest mean, highest density, or linear.

    Parameters
    ----------
    kernel : str or Kernel, default="inner-product"
        What similar means. The inner product is for points no longer than its radius, such as normalised embeddings.
    bandwidth : float, array or matrix, optional
        For kernels that need one; for "inner-product" the public radius, 1 by default.
    columns, epsilon, delta, method, bounds, landmarks, options, ledger, feature_seed, random_state, engine
        As in `PrivateKDE`; epsilon is for all classes together.
    classes : sequence, or "observed"
        The public list of classes; records with other labels are dropped. "observed" takes the labels that occur and so
        declares that it is public which ones do.
    n_hint : int
        Public guess of the number of records of all classes together; it sets sizes, not answers.
    rule : {"auto", "highest-density", "nearest-mean", "squared-distance", "linear"}, default="auto"
        What decides, see `sfumato.learn.rules`; the last three are for the inner product, and so "auto" takes
        "nearest-mean" for it, or "linear" where delta > 0, and "highest-density" for other kernels. "squared-distance"
        projects and clips records, by the options ``projections`` and ``clip`` or by its own public choice. "linear"
        trains a files classifier by noisy gradient steps, with everything chosen from public facts; it reads the
        records once for every step.
    center : {"auto", "none", "private"} or one number per column, default="auto"
        What is taken off all points, for the inner product: nothing, a mean that a part of the budget buys, or a public
        point. "auto" buys one for rule "linear" alone.
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
    rule_ : str
        The rule that decides.
    center_ : ndarray or None
        What is taken off points.
    linear_ : LinearModel or None
        The public weights, for rule "linear", which has no releases and no priors.

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
    center: Any
    center_: Floats | None
    linear_: LinearModel | None
    priors: Any
    trust: str

    def __init__(
        self,
        kernel: str | Kernel = "inner-product",
        *,
        bandwidth: Any = None,
        columns: Columns | None = None,
        epsilon: Any = None,
        delta: float = 0.0,
        classes: Any = None,
        n_hint: int | None = None,
        method: str = "auto",
        bounds: Any = None,
        landmarks: Any = None,
        rule: str = rules.AUTO,
        center: Any = fitting.AUTO,
        priors: Any = "uniform",
        trust: str = "central",
        options: Any = None,
        ledger: Payer = None,
        feature_seed: int | None = None,
        random_state: int | None = None,
        engine: Engine | str | None = None,
    ) -> None:
        self._keep(locals())

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        threads: int | None = None,
        progress: Progress | None = None,
        look: bool = False,
    ) -> DensityClassifier:
        """Release the density of every class.

        All parameters are checked before the ledger is charged; values are never an error.

        Parameters
        ----------
        X, threads, progress, look
            As in `PrivateKDE.fit`; the points are read once. A look also compares the labels with the classes.
        y : array, or str
            The labels, or the name of the column of X that holds them.
        """
        warn_of_validation()
        check_choice("trust", self.trust, TRUSTS)
        kernel = get_kernel(self.kernel, self.bandwidth)
        settings = self.get_params(deep=False) | {"ledger": account_of(self.ledger, X)}
        if not says(self.rule, rules.AUTO):
            rules.check_rule(self.rule, kernel, self.priors)
        data = labelled(X, y, self.classes, self.columns)
        settings["bounds"] = bounds_in_order(self.bounds, data.source.column_names, data.source.dimension)
        rules.check_priors(self.priors, len(data.classes))
        rule = fitting.rule_of(settings, data.source, len(data.classes))
        if look:
            self._look(data, X, y)
        if self.trust != "central":
            fitting.checked_center(self.center, kernel, self.trust, data.source.dimension)
            releases = collecting.collect(self.trust, kernel, data, settings)
            return self._fitted(data.classes, releases, files.BY_LABEL, rule)
        bits, engine = noise_bits(self.random_state), engine_of(self.engine, threads, data.coded)
        run = fitting.Fitting(settings, data, rule, bits, engine, checked_progress(progress))
        if rule == rules.LINEAR:
            return self._trained(data.classes, run.linear())
        center = fitting.checked_center(self.center, kernel, self.trust, data.source.dimension)
        releases, taken = run.releases(center)
        return self._fitted(data.classes, releases, files.BY_LABEL, rule, taken)

    def _look(self, data: LabelledSource, X: Any, y: Any) -> None:
        """Show the curator what is odd about points and labels, and ask."""
        check_readable(data.source)
        box = None if self.bounds is None else Box.from_bounds(self.bounds, data.source.dimension)
        findings = survey(data.source, box, get_kernel(self.kernel, self.bandwidth), FIRST_ROWS)
        add_labels(findings, X, y, data.classes.tolist(), FIRST_ROWS)
        go_on(findings)

    @classmethod
    def of(
        cls,
        releases: Mapping[Any, Release],
        *,
        rule: str = rules.AUTO,
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
        >>> from sfumato import PrivateKDE
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
            raise InputError(f"disjoint must be True or False, got {brief(disjoint)}")
        return cls._of(releases, rule, priors, files.DISJOINT if disjoint else files.SHARED)

    @classmethod
    def _of(
        cls, releases: Mapping[Any, Release], rule: str, priors: Any, together: str, center: Floats | None = None
    ) -> DensityClassifier:
        if not releases:
            raise InputError("a classifier needs the release of one class or more")
        classes = one_type(releases)
        parts = [releases[name] for name in classes.tolist()]
        rule = files.rule_of(rule, parts[0], priors)
        kernel = files.check_together(parts, rule, priors)
        promise = files.common_guarantee([part.guarantee for part in parts], together)
        model = cls(
            kernel,
            epsilon=promise.epsilon,
            delta=promise.delta,
            classes=classes,
            rule=rule,
            center=fitting.NONE if center is None else center,
            priors=priors,
            trust=promise.trust,
        )
        return model._fitted(classes, parts, together, rule, center)

    def _fitted(
        self, classes: NDArray[Any], releases: Sequence[Release], together: str, rule: str, center: Floats | None = None
    ) -> DensityClassifier:
        """Take in what is public; `together` says how the promises of the classes make up that of all."""
        self.classes_, self.rule_, self.center_, self.linear_ = classes, rule, center, None
        self.releases_ = dict(zip(classes.tolist(), releases, strict=True))
        self.guarantee_ = files.common_guarantee([release.guarantee for release in releases], together)
        self._together = together
        counts = np.array([release.count.value for release in releases], dtype=np.float64)
        self.class_prior_ = counts / counts.sum()
        self._columns(releases[0])
        kernel = files.check_together(releases, rule, self.priors)
        self._radius = kernel.radius if isinstance(kernel, InnerProduct) else 1.0
        if rule == rules.MEAN:
            self.mean_squares_ = rules.mean_squares(releases, self._radius)
        return self

    def _trained(self, classes: NDArray[Any], linear: LinearModel) -> DensityClassifier:
        """Take in a linear classifier."""
        self.classes_, self.rule_, self.center_, self.linear_ = classes, rules.LINEAR, linear.features.center, linear
        self.releases_, self.guarantee_, self._together = {}, linear.guarantee, files.BY_LABEL
        self._columns(linear)
        return self

    def mechanism(self, source: Source, classes: int) -> Mechanism:
        """Build the one mechanism that every class is released by; of the source only the columns are looked at."""
        settings = self.get_params(deep=False)
        kernel = get_kernel(self.kernel, self.bandwidth)
        center = fitting.checked_center(self.center, kernel, self.trust, source.dimension)
        return fitting.class_mechanism(settings, source, classes, fitting.rule_of(settings, source, classes), center)

    def densities(self, X: ArrayLike) -> Floats:
        """Answer of each class's release at each point, shape (points, classes), in the order of `classes_`.

        With rule "squared-distance" they are mean squared distances, else private densities (of points without the
        centre, where one is taken off). Rule "linear" has none.
        """
        points = self._queries(X)
        if self.rule_ == rules.LINEAR:
            raise InputError("rule 'linear' has scores and no densities: pass rule='nearest-mean' to release densities")
        points = points if self.center_ is None else points - self.center_
        return np.column_stack([release.query(points) for release in self.releases_.values()])

    @property
    def _linear_model(self) -> LinearModel | None:
        check_is_fitted(self)
        return self.linear_

    def score_errors(self, X: ArrayLike) -> Floats:
        """Return the standard deviation that noise adds to a score of each point, at most; for rule "linear"."""
        points = self._queries(X)
        if self.linear_ is None:
            raise InputError(f"rule {self.rule_!r} has releases with error bars: ask releases_[class].query")
        return self.linear_.errors(points)

    def _scores(self, X: ArrayLike) -> Floats:
        if self._linear_model is not None:
            return self._linear_model.scores(self._queries(X))
        answers = self.densities(X)
        if self.rule_ == rules.DISTANCE:
            return np.asarray(-answers / self._radius**2)
        if self.rule_ == rules.MEAN:
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
        the sum of their sizes. Scores of a linear classifier are logits.
        """
        scores = self._scores(X)
        if scores.shape[1] != 2:
            return scores
        return rules.contrast(scores) if self.rule_ == rules.DENSITY else np.asarray(scores[:, 1] - scores[:, 0])

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Shares of the classes, which compare them but are not calibrated.

        Shares of density: scores clipped at 0 and divided by their sum, equal where no score is positive. For the other
        rules a class's share falls as exp(-squared distance / radius^2), or is the files of the logits.
        """
        scores = self._scores(X)
        return rules.density_shares(scores) if self.rule_ == rules.DENSITY else rules.distance_shares(scores)

    def to_bytes(self) -> bytes:
        """Return the content of a classifier's file: the releases of all classes, and the rule."""
        if self._linear_model is not None:
            return files.encode_linear(self.classes_, self._linear_model)
        releases = list(self.releases_.values())
        return files.encode(self.classes_, releases, self.rule_, self.priors, self._together, self.center_)

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write the classifier, of which everything is public, to one file, and return its path; see `Release.save`."""
        check_is_fitted(self)
        warn_unless_private(self.guarantee_)
        return saved(path, self.to_bytes(), overwrite)

    @classmethod
    def load(cls, path: str | Path, max_memory: int | None = None) -> DensityClassifier:
        """Read a classifier that `save` wrote, and check it.

        It answers as the saved one does. Of the parameters it has those that the file tells: kernel, epsilon, delta,
        classes, rule and priors. `max_memory` is that of `sfumato.load`, for all classes together.
        """
        content = files.decode(path, max_memory)
        if content.linear is not None:
            promise, center = content.linear.guarantee, content.linear.features.center
            model = cls(
                InnerProduct(),
                epsilon=promise.epsilon,
                delta=promise.delta,
                classes=content.classes,
                rule=content.rule,
                center=center,
            )
            return model._trained(content.classes, content.linear)
        releases = dict(zip(content.classes.tolist(), content.releases, strict=True))
        return cls._of(releases, content.rule, content.priors, content.together, content.center)
