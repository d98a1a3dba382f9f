"""`PrivateKDE`: a scikit-learn estimator whose fit is a private release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, cast, overload

from numpy.typing import ArrayLike

from sfumato.central.curator import Payer, warn_of_score
from sfumato.central.estimator import PrivateEstimator
from sfumato.central.reference import Purchase
from sfumato.deferred import brought_by
from sfumato.engines import Engine
from sfumato.errors import InputError
from sfumato.kernels import Kernel, Overlap, Product
from sfumato.methods.method import Mechanism
from sfumato.methods.parameters import PAID
from sfumato.methods.ranking import choose
from sfumato.methods.registry import BOUGHT, METHODS, offered
from sfumato.methods.request import Request
from sfumato.public.arguments import says
from sfumato.quantizers.base import Floats
from sfumato.sources import Columns

with brought_by("curator"):
    from sklearn.base import DensityMixin
    from sklearn.utils.validation import check_is_fitted


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
    bandwidth_metres : float, optional
        Instead of `bandwidth`, for two columns of longitude and latitude in degrees: a length in metres.
    latitude : float, optional
        The public latitude at which metres become degrees; the middle of the bounds by default.
    columns : list of str or int, optional
        Columns of the data that make up a point, in this order, by name or position; all of them by default.
    bounds : (lower, upper), one pair per column, or a mapping of columns to pairs, optional
        Public bounds of the points; never read off the data.
    landmarks : array, frame, table or path, optional
        Public points that resemble the records, for the method "landmarks"; they become part of the release.
    categories : mapping, optional
        Columns that are categories, by name or position, each with its public values (never read off the data): a list,
        or a `kernels.Overlap`, which also says how similar different values are and what happens to values that are not
        in the list. Bandwidth and bounds are then those of the other columns.
    kinds : mapping, optional
        Columns that close on themselves, by name or position: `kernels.Circle` for hours, weekdays and angles, and for
        a pair (latitude, longitude) `kernels.Sphere`. Bounds of these columns do not count.
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
    ledger : Account or path, optional
        ``Ledger(path).account(name)``: spending is checked and recorded there. Cloning the estimator shares it. Of a
        path the account is that of the file that is fitted, as on the command line, and one for all data in memory.
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
    guarantee_ : Guarantee
        What is promised to every record, or user.
    n_features_in_ : int
        Columns seen in fit.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.random.default_rng(0).normal(size=(2000, 2))
    >>> model = PrivateKDE(bandwidth=1.0, epsilon=1.0, n_hint=2000).fit(points)
    >>> answers, errors = model.query(np.zeros((1, 2)), return_std=True)
    >>> model.guarantee_.epsilon
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
        bandwidth_metres: float | None = None,
        latitude: float | None = None,
        columns: Columns | None = None,
        epsilon: Any = None,
        delta: float = 0.0,
        method: str = "auto",
        bounds: Any = None,
        landmarks: Any = None,
        categories: Mapping[Any, Any] | None = None,
        kinds: Mapping[Any, Any] | None = None,
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

    def _queries(self, Y: ArrayLike) -> Any:
        check_is_fitted(self)
        # Rows with categories are mixed: the release reads them.
        return Y if isinstance(self.release_.kernel, Product) else super()._queries(Y)

    @overload
    def query(self, Y: ArrayLike, return_std: Literal[False] = False, read: str = "plain") -> Floats: ...
    @overload
    def query(self, Y: ArrayLike, return_std: Literal[True], read: str = "plain") -> tuple[Floats, Floats]: ...
    @overload
    def query(self, Y: ArrayLike, return_std: bool, read: str = "plain") -> Floats | tuple[Floats, Floats]: ...
    def query(self, Y: ArrayLike, return_std: bool = False, read: str = "plain") -> Floats | tuple[Floats, Floats]:
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
        """Total log density of X, which must be public: a score of private points is a leak that nothing pays for."""
        warn_of_score()
        return float(self.score_samples(X).sum())

    def sample(self, n_samples: int = 1, random_state: int | None = None) -> Floats:
        """Draw synthetic points from the release, as scikit-learn's KernelDensity does; see `Release.sample`."""
        check_is_fitted(self)
        return self.release_.sample(n_samples, random_state=random_state)

    def request(
        self,
        dimension: int,
        weighted: bool = False,
        column_names: tuple[str, ...] | None = None,
        categories: Mapping[int, Overlap] | None = None,
        length_unit: str | None = None,
    ) -> Request:
        """Check the parameters and gather the public facts of the release to be; see `Parameters.request`."""
        return self._parameters().request(dimension, weighted, column_names, categories, length_unit)

    def _purchase(self, request: Request, repeatable: bool) -> Purchase | None:
        """Buy moments first for "reference", or where "auto" predicts the least error for it."""
        name, unspent = self.method, 0.0
        if says(name, "auto"):
            readable = repeatable and self.n_hint != PAID
            if not readable or all(method.reason(request) is not None for method in BOUGHT.values()):
                return None
            row = choose(offered(request), request)
            name, unspent = row.method, request.delta if row.unspent_delta else 0.0
        if not isinstance(name, str) or name not in BOUGHT:
            return None
        if self.n_hint == PAID:
            raise InputError(f"{name} buys moments with a public n: pass n_hint as a number, not 'paid'")
        method = BOUGHT[name]
        if (reason := method.reason(request)) is not None:
            raise InputError(f"{name} does not apply: {reason}")
        return replace(cast(Purchase, method.built(request.pure() if unspent else request)), unspent=unspent)

    def _mechanism(self, request: Request) -> Mechanism:
        if isinstance(self.method, str) and self.method in BOUGHT:
            raise InputError(f"{self.method} buys moments first, of all records in one run: use fit, or another method")
        if self.n_hint == PAID and {"alpha", "eta"} & set(request.options):
            raise InputError("options alpha and eta need a public n: pass n_hint as a number, not 'paid'")
        return METHODS.build(self.method, request)
