"""`hrw`: Gaussian process noise on the answers to a given list of queries, or to one query after another.

Source: R. Hall, A. Rinaldo, L. Wasserman, "Differential Privacy for Functions and Functional Data", JMLR 14, 2013;
appendix C.3 of Wagner et al. (2023). Answers get Gaussian noise whose covariance is the kernel itself; its size
does not depend on the number of queries. Corrected: sums instead of means, the count is paid for, the constant is
calibrated exactly, and the noise is integer: it is added in the coordinates of `queries.WhitenedQueries`, in which
the covariance is the identity, and reaches the answers through the Cholesky factor L, K_YY = L L'.

Guarantee, batch. A record's m integers have l2 norm at most s by a hard clamp (2 s when a record is replaced), whatever
the queries. Discrete Gaussian noise, calibrated as in `privacy.gaussian`, makes the coordinates (e_f,
delta)-DP; the answers follow from them. The count at e_c composes to (epsilon, delta).

Guarantee, one at a time. Coordinate j depends on the first j queries only, so it can be published before the next query
is known, and a query may depend on all earlier answers. Let q_j be what the record in question adds to coordinate j:
it is known once the earlier outputs are, and sum_j q_j^2 <= s^2 however the queries were chosen. With continuous noise
the log likelihood ratio is sum_j (q_j G_j / sigma^2 + q_j^2 / (2 sigma^2)), and with one more coordinate of q^2 = s^2 -
sum_j q_j^2 that nobody sees, it is exactly the normal variable of a single answer of sensitivity s: a sum of
independent normals whose weights are chosen as it goes, and whose squares add up to a constant, is normal with that
variance. So the batch's calibration holds, and rounding is post-processing. Exact discrete noise in place of rounded
noise changes the law of the noise of all coordinates together by the total variation t of `privacy.gaussian`,
and so the law of the whole exchange by at most t; t is taken for the most queries that may be asked.

Error of one answer: (c f / n)^2 of noise at every query, and the count.

A session (`OnlineQueries`) answers queries as they come, under one (epsilon, delta) for all of them. The whole budget
is charged when it opens; afterwards it answers up to `most` queries, each of which may depend on all earlier answers.
Each new query reads the data once. Threads may share a session and are answered one after another; it cannot be copied,
nor used in a forked process, where either copy would answer `most` queries.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from sfumato.errors import InputError
from sfumato.methods.method import Mechanism, Method, Prediction
from sfumato.methods.request import Request
from sfumato.privacy.bits import noise_bits
from sfumato.privacy.gaussian import gaussian_multiplier
from sfumato.privacy.process import process_mark
from sfumato.public.codec import brief
from sfumato.public.ranges import LARGEST_LENGTH
from sfumato.published.common import dense_prediction, public_box
from sfumato.published.listed_queries import (
    OPTIONS,
    fitting_scale,
    gaussian_noise,
    listed,
    records_box,
    refuse_list,
    refuse_no_delta,
)
from sfumato.published.queries import MOST_QUERIES, WhitenedQueries, check_whitened
from sfumato.quantizers.base import Floats, Integers
from sfumato.quantizers.portable_kernels import refuse_kernel
from sfumato.release import Count, Release

if TYPE_CHECKING:
    from sfumato.central.kde import PrivateKDE

NAME = "hrw"


def refuse(request: Request) -> str | None:
    """Why this method does not apply."""
    return refuse_list(request) or refuse_no_delta(request)


def _queries(request: Request) -> Floats:
    queries = listed(request)
    if len(queries) > MOST_QUERIES:
        raise InputError(
            f"{len(queries)} queries take {len(queries) ** 2 / 2:.2g} multiplications for each record; "
            f"at most {MOST_QUERIES} are allowed"
        )
    check_whitened(len(queries))
    return queries


def predict(request: Request, density: float) -> Prediction:
    """Predict error and cost."""
    size = len(_queries(request))
    multiplier = gaussian_multiplier(float(request.feature_epsilon), request.delta)
    variance = (multiplier * request.factor / request.n) ** 2
    work = size * request.dimension + size**2 / 2
    return dense_prediction(request, variance, size, work, {}, density, query_work=size)


def build(request: Request) -> Mechanism:
    """Build the mechanism for the request's queries."""
    return mechanism(request, _queries(request))


def mechanism(request: Request, queries: Floats, most: int = 0) -> Mechanism:
    """Build the mechanism for these queries, of `most` that may come."""
    scale = fitting_scale(request, float(request.factor))
    most = max(most, len(queries))
    quantizer = WhitenedQueries(request.kernel, records_box(request, queries), queries, scale, most)
    noise, loss = gaussian_noise(request, request.factor**2 * quantizer.bound.l2_squared, most)
    return Mechanism.of(
        request,
        NAME,
        quantizer,
        noise,
        parameters={
            "queries": len(queries),
            "noise_multiplier": _multiplier(noise.sigma, quantizer),
        },
        feature_loss=loss,
    )


def _multiplier(sigma: int, quantizer: WhitenedQueries) -> float:
    return sigma / math.sqrt(quantizer.bound.l2_squared)


METHOD = Method(NAME, "Gaussian process noise on a list of answers", OPTIONS, refuse, predict, build, baseline=True)


class OnlineQueries:
    """Answers queries one at a time with Gaussian process noise.

    Parameters
    ----------
    model : PrivateKDE
        Kernel, bandwidth, epsilon, delta > 0, bounds, n_hint, neighbours, ledger and seeds; its method is not used.
    X : array, frame, table, path or Source
        The points; they are read once for every query.
    most : int
        Most queries of the session.

    Examples
    --------
    >>> from sfumato import PrivateKDE
    >>> model = PrivateKDE(bandwidth=1.0, epsilon=1, delta=1e-6, bounds=(-5, 5), n_hint=1000)
    >>> session = OnlineQueries(model, np.random.default_rng(0).normal(size=(1000, 1)), most=10)
    >>> answer, error = session.ask([0.5])
    >>> abs(answer - 0.52) < 6 * error < 0.3
    True
    """

    def __init__(self, model: PrivateKDE, X: Any, most: int = 100) -> None:
        # What opens data is loaded here: a plan asks this file what the method costs.
        from sfumato.central.curator import Curator, account_of
        from sfumato.engines import engine_of
        from sfumato.sources import open_source

        source = open_source(X, model.columns)
        if not source.repeatable:
            raise InputError("a session reads the data for every query, and this source can be read once")
        if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_QUERIES:
            raise InputError(f"most must be a whole number from 1 to {MOST_QUERIES}, got {brief(most)}")
        check_whitened(most)
        self.request = model.request(source.dimension, column_names=source.column_names, length_unit=source.length_unit)
        if self.request.bounds is None:
            raise InputError("a session needs bounds=: it cannot know how far away its queries will be")
        if self.request.unit != "record" or source.weighted or source.keyed:
            raise InputError("a session protects single records without weights: pass unit='record' and plain points")
        reason = refuse_kernel(self.request.kernel) or refuse_no_delta(self.request)
        if reason is not None:
            raise InputError(f"hrw does not apply: {reason}")
        self.request.check_options()
        self.most = most
        self._answered: list[tuple[Floats, int]] = []
        self._lock, self._process = threading.Lock(), process_mark()
        bits = noise_bits(model.random_state)
        self._curator = Curator(source, account_of(model.ledger, X), bits, engine_of(model.engine, source=source))
        self._count = self._open()

    def ask(self, query: ArrayLike) -> tuple[float, float]:
        """Answer one query: the mean kernel value there, and its standard error.

        A query that was asked before gets the same answer again.

        Raises
        ------
        InputError
            If the query is not a point, or the session is at its end.
        """
        point = np.asarray(query, dtype=np.float64).reshape(-1)
        if point.shape != (self.request.dimension,) or not (np.abs(point) <= LARGEST_LENGTH).all():
            raise InputError(
                f"a query must be {self.request.dimension} finite numbers within {LARGEST_LENGTH:g} of 0, not "
                f"{brief(query)}"
            )
        if process_mark() != self._process:
            raise InputError(
                "a fork copied this session, and only the process that opened it may ask: open another one"
            )
        with self._lock:
            if not any(np.array_equal(point, asked) for asked, _ in self._answered):
                if len(self._answered) == self.most:
                    raise InputError(f"this session answers {self.most} queries and has done so; open another one")
                self._publish(point)
        answers, errors = self.release().query(point[None], return_std=True)
        return float(answers[0]), float(errors[0])

    def release(self) -> Release:
        """Return all answers so far as a release of a list of queries."""
        answered = self._answered
        if not answered:
            raise InputError("nothing has been asked yet")
        values = np.array([value for _, value in answered], dtype=np.int64)
        return self._mechanism([asked for asked, _ in answered]).release(values, self._count)

    def _open(self) -> Count:
        """Charge the whole budget and buy the count."""
        from sfumato.engines.base import Presence

        mechanism = self._mechanism([np.array(public_box(self.request).lower)])
        curator, relation = self._curator, self.request.neighbours
        count = None if mechanism.count_law is None else curator.buy_count(self.request, mechanism)
        if curator.account is not None:
            epsilon, loss = mechanism.cost(count_is_bought=True)
            curator.account.charge(NAME, epsilon, self.request.delta, neighbours=relation, loss=loss)
        rows = curator.engine.sum(curator.source, Presence())[2] if count is None else 0
        return count or Count(max(rows, 1), 0.0, public=True)

    def _publish(self, point: Floats) -> None:
        """Add one coordinate and its noise; the coordinates before it stay as they were published."""
        mechanism = self._mechanism([*(asked for asked, _ in self._answered), point])
        noise = mechanism.noise.sample(self._curator.bits, 1)
        # One assignment: an interrupt before it publishes nothing, and readers see whole lists.
        self._answered = [*self._answered, (point, int(self._sums(mechanism)[-1] + noise[0]))]

    def _sums(self, mechanism: Mechanism) -> Integers:
        curator = self._curator
        return curator.engine.sum(curator.source, mechanism.encoder, curator.bits)[0]

    def _mechanism(self, queries: list[Floats]) -> Mechanism:
        return mechanism(self.request, np.array(queries), self.most)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        # The one door for copy, deepcopy and pickle.
        raise TypeError("a session cannot be copied or pickled: the copy would answer as many queries again, unpaid")
