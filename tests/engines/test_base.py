"""The door to the data: engines give the same sums, and all callers go through it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato import InputError, Ledger, PrivateDistance, PrivateKDE, RaceSketch, bandwidth
from sfumato.engines import Engine, Progress, Threads, engine_of
from sfumato.engines.base import Summand
from sfumato.kernels import L2LSH, Gaussian
from sfumato.learn import AnomalyScore, DensityClassifier
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers import FourierQuantizer
from sfumato.quantizers.base import Integers
from sfumato.sources import Source, open_source

POINTS = np.random.default_rng(0).normal(size=(3000, 3))


class Parts(Engine):
    """Cuts the source into parts of odd sizes, sums each alone and adds the sums, last part first."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def sum(
        self, source: Source, encoder: Summand, coins: SecureBits | None = None, progress: Progress | None = None
    ) -> tuple[Integers, int, int]:
        parts = []
        for index, batch in enumerate(source.batches(701)):
            sums = np.zeros(encoder.size, dtype=np.int64)
            kept = encoder.accumulate(batch, sums, None if coins is None else coins.child(index))
            parts.append((sums, kept, len(batch)))
            if progress is not None:
                progress(len(batch))
        self.read.append(sum(seen for _, _, seen in parts))
        total = sum((sums for sums, _, _ in reversed(parts)), np.zeros(encoder.size, dtype=np.int64))
        return total, sum(kept for _, kept, _ in parts), self.read[-1]


def test_any_engine_gives_the_same_sums_bit_for_bit() -> None:
    encoder = FourierQuantizer.draw(Gaussian(1.0), 3, 40, 1, layout="pair")
    rows = POINTS.copy()
    rows[5, 1] = np.nan
    whole = encoder.encode(rows)
    for engine in (Threads(1), Threads(3), Parts()):
        sums, kept, seen = engine.sum(open_source(rows), encoder)
        assert np.array_equal(sums, whole.sum(axis=0)) and (kept, seen) == (2999, 3000)
        assert engine.count(open_source(rows)) == 2999


SETTINGS: dict[str, Any] = {"epsilon": 1.0, "random_state": 3, "feature_seed": 1}


@pytest.mark.parametrize(
    "make",
    [
        lambda engine: (
            PrivateKDE(L2LSH(1.0), method="race", n_hint="paid", engine=engine, **SETTINGS).fit(POINTS).release_
        ),
        lambda engine: (
            PrivateKDE(bandwidth=1.0, method="fourier-gaussian", delta=1e-6, n_hint=3000, engine=engine, **SETTINGS)
            .fit(POINTS)
            .release_
        ),
        lambda engine: PrivateDistance(bounds=(-5, 5), n_hint=3000, engine=engine, **SETTINGS).fit(POINTS).release_,
        lambda engine: (
            AnomalyScore(L2LSH(1.0), method="race", n_hint=3000, engine=engine, **SETTINGS).fit(POINTS).release_
        ),
        lambda engine: (
            DensityClassifier(L2LSH(1.0), method="race", classes=[0, 1], n_hint=3000, engine=engine, **SETTINGS)
            .fit(POINTS, (POINTS[:, 0] > 0).astype(int))
            .releases_[1]
        ),
        lambda engine: (
            RaceSketch(L2LSH(1.0), dimension=3, rows=20, width=16, feature_seed=1)
            .add(POINTS, engine=engine)
            .remove(POINTS[:10], engine=engine)
            .release(epsilon=1, random_state=1)
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:NOT PRIVATE")
def test_releases_do_not_depend_on_the_engine(make: Any) -> None:
    parts = Parts()
    assert make(parts).to_bytes() == make(None).to_bytes()
    assert parts.read


@pytest.mark.filterwarnings("ignore:NOT PRIVATE")
@pytest.mark.parametrize("choice", [{"rule": "scott"}, {"target_density": 0.05}])
def test_bandwidths_are_bought_through_the_engine(choice: dict[str, Any]) -> None:
    class Counted(Parts):
        def rows(self, source: Source) -> Any:
            self.read.append(0)
            return super().rows(source)

    engine, asked = Counted(), {"epsilon": 5, "bounds": (-5, 5), "n_hint": 3000, "random_state": 1, **choice}
    bought = bandwidth.private(POINTS, **asked, engine=engine)
    assert bought.bandwidth == bandwidth.private(POINTS, **asked).bandwidth
    assert engine.read


@pytest.mark.filterwarnings("ignore:NOT PRIVATE")
def test_users_and_weights_reach_the_engine_as_records_that_count() -> None:
    seen: list[tuple[int, bool, bool]] = []

    class Choosing(Parts):
        def counted(self, source: Source, limit: int, bits: SecureBits) -> Source:
            seen.append((limit, source.keyed, source.weighted))
            return super().counted(source, limit, bits)

    engine = Choosing()
    model = PrivateKDE(
        L2LSH(1.0),
        method="race",
        n_hint=100,
        unit="user",
        options={"max_records_per_user": 2},
        engine=engine,
        **SETTINGS,
    )
    model.fit(POINTS, users=np.arange(3000) % 50, sample_weight=np.ones(3000))
    assert seen == [(2, True, True)] and engine.read == [100]


def test_an_engine_is_named_or_passed() -> None:
    assert engine_of("threads", 2) == Threads(2)
    with pytest.raises(InputError, match="'threads', 'processes', 'spark' or an Engine"):
        PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=10, engine="abacus").fit(POINTS)
    with pytest.raises(InputError, match="where the engine is made"):
        engine_of(Parts(), 2)
    with pytest.raises(InputError, match="threads must be a positive whole number"):
        Threads(0)


def test_a_failure_ends_the_run_and_nothing_is_charged(tmp_path: Any) -> None:
    class Broken(Parts):
        def sum(self, *arguments: Any, **keywords: Any) -> Any:
            raise OSError("a worker was lost")

    account = Ledger(tmp_path / "ledger").account("points")
    with pytest.raises(OSError, match="worker"):
        PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=10, ledger=account, engine=Broken()).fit(POINTS)
    assert not account.charges
