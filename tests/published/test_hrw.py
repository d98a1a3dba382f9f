"""`hrw`: noise with the kernel's covariance, in a batch and one query at a time."""

from __future__ import annotations

import copy
import math
import multiprocessing
import pickle
import threading
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from sfumato import InputError, Ledger, PrivateKDE
from sfumato.kernels import Laplacian
from sfumato.methods.registry import METHODS
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.gaussian import gaussian_multiplier
from sfumato.published.hrw import OnlineQueries
from sfumato.release import Count
from tests.published.requests import BOUNDS, KERNEL, POINTS, QUERIES, TRUTH, N, facts, request


def _model(**arguments: Any) -> PrivateKDE:
    settings = {"bandwidth": 1.0, "epsilon": 1, "delta": 1e-6, "bounds": BOUNDS, "n_hint": N, "random_state": 3}
    return PrivateKDE(**{**settings, **arguments})


def test_noise_has_the_kernels_covariance() -> None:
    mechanism = METHODS.build("hrw", request(**facts("hrw")))
    quantizer, bits = mechanism.encoder, SecureBits.seeded(1)
    zeros = np.zeros(quantizer.size, dtype=np.int64)
    runs = 3000
    noise = np.array(
        [
            quantizer.weigh(QUERIES, mechanism.publish(zeros, Count(N, 0.0, True), bits).astype(float)).total
            for _ in range(runs)
        ]
    )
    spread = gaussian_multiplier(0.95, 1e-6)
    covariance = noise.T @ noise / runs / spread**2
    # Entries of a covariance scatter by at most sqrt(2 / runs): 6 of them for 820 entries.
    assert np.abs(covariance - KERNEL.value(QUERIES, QUERIES)).max() < 6 * math.sqrt(2 / runs)


def test_more_queries_cost_no_more_noise() -> None:
    queries = np.random.default_rng(5).uniform(0, 4, size=(300, 2))
    few, many = (
        METHODS["hrw"].predict(request(delta=1e-6, options={"queries": listed}), 0.05).rmse
        for listed in (queries[:3], queries)
    )
    assert few == many
    independent = METHODS["gaussian-queries"].predict(request(delta=1e-6, options={"queries": queries}), 1e-9)
    assert independent.rmse > 10 * many * 0.9


class TestOnline:
    def test_answers_are_as_good_as_the_batchs(self) -> None:
        """Of known n: squares of the count's noise have so long a tail that 25 sessions would not know it."""
        squares = []
        for seed in range(25):
            session = OnlineQueries(_model(random_state=seed, neighbours="replace"), POINTS, most=12)
            answers = np.array([session.ask(query) for query in QUERIES[:12]])
            squares.append((((answers[:, 0] - TRUTH[:12]) / answers[:, 1]) ** 2).mean())
        # Neighbouring answers share their noise by the kernel, so that the deviation is known; that of 25 sessions
        # would be too small in those whose squares are, once in 2,000.
        shared = KERNEL.value(QUERIES[:12], QUERIES[:12])
        assert abs(np.mean(squares) - 1) < 6.5 * math.sqrt(2 * np.square(shared).mean() / 25)

    def test_a_query_may_depend_on_the_answers_before(self) -> None:
        session = OnlineQueries(_model(), POINTS, most=30)
        place, best = np.array([1.0, 1.0]), -1.0
        for step in (1.0, 1.0, 0.5, 0.5):
            for move in ((0, 0), (step, 0), (-step, 0), (0, step), (0, -step)):
                answer, _ = session.ask(place + move)
                if answer > best:
                    best, top = answer, place + move
            place = top
        truth = KERNEL.exact_density(POINTS, [place, [2.7, 2.2]])
        assert truth[0] > 0.9 * truth[1]

    def test_the_answers_are_a_release_of_the_list(self) -> None:
        session = OnlineQueries(_model(), POINTS, most=5)
        answers = [session.ask(query)[0] for query in QUERIES[:4]]
        release = session.release()
        np.testing.assert_allclose(release.query(QUERIES[:4]), answers, rtol=1e-12)
        assert release.method == "hrw" and release.guarantee.delta == 1e-6
        with pytest.raises(InputError, match="4 queries that it was made for"):
            release.query(QUERIES[4:5])

    def test_asking_again_gives_the_same_answer_and_costs_no_query(self) -> None:
        session = OnlineQueries(_model(), POINTS, most=2)
        first = session.ask([1.0, 2.0])
        assert session.ask([1.0, 2.0]) == first
        session.ask([2.0, 2.0])
        with pytest.raises(InputError, match="answers 2 queries and has done so"):
            session.ask([3.0, 2.0])
        assert session.ask([1.0, 2.0]) == first

    def test_threads_share_the_queries(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two threads meet between the check of the limit and the answer, unless they are kept apart."""
        session, meeting, sums = OnlineQueries(_model(), POINTS, most=1), threading.Barrier(2), OnlineQueries._sums

        def meet(self: OnlineQueries, mechanism: Any) -> Any:
            with suppress(threading.BrokenBarrierError):  # the other one waits for its turn, as it should
                meeting.wait(timeout=0.5)
            return sums(self, mechanism)

        monkeypatch.setattr(OnlineQueries, "_sums", meet)
        answers: list[Any] = []

        def ask(query: Any) -> None:
            try:
                answers.append(session.ask(query))
            except InputError as refusal:
                answers.append(str(refusal))

        threads = [threading.Thread(target=ask, args=(query,)) for query in QUERIES[:2]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(type(answer).__name__ for answer in answers) == ["str", "tuple"]
        assert len(session.release().values) == 1

    def test_a_session_is_not_copied(self) -> None:
        session = OnlineQueries(_model(), POINTS, most=1)
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                copied(session)
        fork = multiprocessing.get_context("fork")
        answers = fork.SimpleQueue()

        def child() -> None:
            try:
                answers.put(session.ask(QUERIES[0]))
            except InputError as refusal:
                answers.put(str(refusal))

        process = fork.Process(target=child)
        process.start()
        process.join()
        assert "a fork copied this session" in answers.get()

    def test_one_pair_of_bounds_is_for_all_columns(self) -> None:
        assert OnlineQueries(_model(bounds=(0, 4)), POINTS).ask([1.0, 2.0])[1] > 0

    @pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
    def test_the_whole_budget_is_charged_when_it_opens(self, neighbours: str) -> None:
        account = Ledger().account("people")
        session = OnlineQueries(_model(ledger=account, neighbours=neighbours), POINTS, most=3)
        assert account.spent[0] == 1
        session.ask([1.0, 1.0])
        assert account.spent[0] == 1
        public = session.release().count.public
        assert public == (neighbours == "replace")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"bounds": None}, "needs bounds="),
            ({"delta": 0.0}, "delta > 0"),
            ({"options": {"rho": 3}}, "unknown option"),
            ({"unit": "user", "options": {"max_records_per_user": 2}}, "single records"),
        ],
    )
    def test_what_does_not_apply_is_refused(self, arguments: dict[str, Any], message: str) -> None:
        account = Ledger().account("people")
        with pytest.raises(InputError, match=message):
            OnlineQueries(_model(ledger=account, **arguments), POINTS)
        assert account.spent[0] == 0

    def test_other_refusals(self) -> None:
        for most in (0, 10**6, 2.5, True):
            with pytest.raises(InputError, match="most must be"):
                OnlineQueries(_model(), POINTS, most=most)
        with pytest.raises(InputError, match="can be read once"):
            OnlineQueries(_model(), iter([POINTS]))
        session = OnlineQueries(_model(kernel=Laplacian(1.0), bandwidth=None), POINTS)
        with pytest.raises(InputError, match="nothing has been asked"):
            session.release()
        for query in ([1.0], [[1.0, np.nan]], np.zeros(3)):
            with pytest.raises(InputError, match="must be 2 finite numbers"):
                session.ask(query)
