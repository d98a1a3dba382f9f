"""`AnomalyScore`: points where the private density may as well be zero.

The score of a point is the private mean kernel value there in units of its own standard error: how far the release
shows that anybody is near. A point is an outlier if that is less than `level` standard errors. The error is public: it
follows from the noise and from the features. A threshold at a quantile of the training scores, as other detectors set
it, would tell about the private points and would have to be paid for. `share` states what part of points like the
records to call outliers all the same, and estimates its threshold from what is public: the scores of synthetic points
that are drawn from the release itself, or of a public sample that resembles the records. Synthetic points are spread
more widely than the records, by the kernel, so fewer records than stated are called outliers.

With a normal error, a place without records is called an inlier with probability 0.13 % at the default level of 3.
Records themselves are called outliers where their neighbourhood holds fewer than about `level` standard errors times n
of the others: a smaller epsilon makes the crowd that it takes to be normal larger.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.central.curator import Payer
from sfumato.central.estimator import ReleaseEstimator
from sfumato.central.kde import PrivateKDE
from sfumato.deferred import brought_by
from sfumato.engines import Engine, Progress
from sfumato.errors import InputError
from sfumato.kernels import Distance, InnerProduct, Kernel
from sfumato.public.arguments import says
from sfumato.public.codec import brief
from sfumato.public.ranges import LARGEST_NUMBER
from sfumato.quantizers.base import Floats
from sfumato.release import Release
from sfumato.sources import Columns

with brought_by("curator"):
    from sklearn.base import OutlierMixin

OWN = ("level", "share", "public")
SYNTHETIC, SEED = 4000, 0  # synthetic points of a threshold, the same each time


class AnomalyScore(OutlierMixin, ReleaseEstimator):  # type: ignore[misc]
    """Differentially private outlier detection by density.

    Parameters
    ----------
    kernel, bandwidth, columns, epsilon, delta, method, bounds, landmarks, neighbours, n_hint, unit, options, ledger,
    feature_seed, random_state, engine
        As in `PrivateKDE`.
    level : float, default=3.0
        How many standard errors a density must reach for records to be near.
    share : float, optional
        Share of points like the records to call outliers, instead of `level`.
    public : array, optional
        PUBLIC points that resemble the records, on which `share` is estimated; synthetic points by default.

    Attributes
    ----------
    release_ : Release
        The public density.
    guarantee_ : Guarantee
        What is promised to every record, or user.
    offset_ : float
        The threshold: `level`, or what `share` asks for.

    Examples
    --------
    >>> points = np.random.default_rng(0).normal(size=(5000, 2))
    >>> model = AnomalyScore(bandwidth=1.0, epsilon=1.0, bounds=(-8, 8), n_hint=5000, level=5.0).fit(points)
    >>> model.predict([[0.0, 0.5], [6.0, -6.0]])
    array([ 1, -1])
    """

    level: float
    share: float | None
    public: Any

    def __init__(
        self,
        kernel: str | Kernel = "gaussian",
        *,
        bandwidth: Any = None,
        columns: Columns | None = None,
        epsilon: Any = None,
        delta: float = 0.0,
        method: str = "auto",
        bounds: Any = None,
        landmarks: Any = None,
        neighbours: str = "add-remove",
        n_hint: int | str | None = None,
        unit: str = "record",
        level: float = 3.0,
        share: float | None = None,
        public: Any = None,
        options: Mapping[str, Any] | None = None,
        ledger: Payer = None,
        feature_seed: int | None = None,
        random_state: int | None = None,
        engine: Engine | str | None = None,
    ) -> None:
        self._keep(locals())

    def fit(
        self,
        X: Any,
        y: object = None,
        *,
        sample_weight: Any = None,
        users: Any = None,
        progress: Progress | None = None,
        threads: int | None = None,
    ) -> AnomalyScore:
        """Release the density of X and set the threshold; parameters are those of `PrivateKDE.fit`."""
        _check_level(self.level, self.share)
        _check_kernel(self.kernel)
        settings = {name: value for name, value in self.get_params(deep=False).items() if name not in OWN}
        model = PrivateKDE(**settings).fit(
            X, sample_weight=sample_weight, users=users, progress=progress, threads=threads
        )
        return self._fitted(model.release_)

    @classmethod
    def of(
        cls, release: Release, level: float = 3.0, *, share: float | None = None, public: Any = None
    ) -> AnomalyScore:
        """Detect outliers by a release that exists already, of any trust model; it costs no privacy.

        Parameters
        ----------
        release : Release
            A density.
        level : float
            How many standard errors a density must reach.
        share, public
            As in the constructor.
        """
        _check_level(level, share)
        if release.kernel is not None:
            _check_kernel(release.kernel)
        guarantee = release.guarantee
        kernel = "gaussian" if release.kernel is None else release.kernel
        own = {"level": level, "share": share, "public": public}
        return cls(kernel, epsilon=guarantee.epsilon, delta=guarantee.delta, **own)._fitted(release)

    def _fitted(self, release: Release) -> AnomalyScore:
        self._released(release)
        self.offset_ = float(self.level)
        known = None if self.share is None else self._known()
        if known is not None and self.share is not None:
            self.offset_ = float(np.quantile(self._scores(known), self.share))
        return self

    def _known(self) -> Any:
        """Return points like the records that cost nothing: public ones, or synthetic ones; None if neither."""
        if self.public is not None:
            return self.public
        try:
            return self.release_.sample(SYNTHETIC, random_state=SEED)
        except InputError as problem:  # the release is paid for: it must not be lost for want of a threshold
            warnings.warn(
                f"the threshold is level={self.level:g}: pass public=, a public sample ({problem})", stacklevel=4
            )
            return None

    def score_samples(self, X: ArrayLike) -> Floats:
        """Private density of each point over its standard error: the lower, the more abnormal."""
        points = self._queries(X)
        return self._scores(points)

    def _scores(self, points: Any) -> Floats:
        answers, errors = self.release_.query(points, return_std=True)
        return np.divide(answers, errors, out=np.zeros(len(answers)), where=errors > 0)

    def decision_function(self, X: ArrayLike) -> Floats:
        """Score less the threshold: negative for outliers."""
        scores = self.score_samples(X)
        return np.asarray(scores - self.offset_)

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return -1 for outliers and 1 for inliers."""
        return np.where(self.decision_function(X) < 0, -1, 1)


def _check_level(level: Any, share: Any) -> None:
    if share is not None and not (isinstance(share, float) and 0 < share <= 0.5):
        raise InputError(f"share must lie above 0, and be at most 0.5, got {brief(share)}")
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 <= level <= LARGEST_NUMBER:
        raise InputError(f"level must be a number of standard errors, 0 or more; got {brief(level)}")


def _check_kernel(kernel: Any) -> None:
    if isinstance(kernel, Distance | InnerProduct) or says(kernel, "inner-product"):
        raise InputError("outliers are found by a density, which distances and inner products are not: pass a kernel")
