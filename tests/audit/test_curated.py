"""What is checked and attacked is what is published: for every method, in every variant, through the estimators.

An estimator's fit is watched where the curator has the exact sums. The mechanism that arrives there must be the one
whose calibration is checked, the sums those of its encoder, and what is published those sums under its law, bit by bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.audit import load_library
from sfumato.audit.attacks import run
from sfumato.audit.cases.variants import SUBJECTS, Built
from sfumato.central import curator
from sfumato.central.kde import PrivateKDE
from sfumato.distances import PrivateDistance
from sfumato.kernels.distance import Distance
from sfumato.learn import DensityClassifier, fitting
from sfumato.methods.mechanism import Mechanism
from sfumato.methods.registry import DISTANCES, METHODS
from sfumato.methods.request import COUNT_SHARE
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.ledger import Ledger
from sfumato.release import Count, Release

load_library()

SEED = "what the curator draws"
GROUPS = 64  # draws of coins that show every group of a small mechanism


@dataclass
class Watched:
    """What arrived where the noise is drawn."""

    mechanisms: list[Mechanism] = field(default_factory=list)
    sums: list[np.ndarray[Any, Any]] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Watch the curator, and let it draw its noise from known bits."""
    found, publish = Watched(), curator.publish

    def watch(mechanism: Mechanism, sums: Any, kept: int, seen: int, bits: SecureBits, count: Any = None) -> Release:
        found.mechanisms.append(mechanism)
        found.sums.append(sums.copy())
        found.kept.append(kept)
        found.seen.append(seen)
        return publish(mechanism, sums, kept, seen, SecureBits.seeded(SEED), count)

    monkeypatch.setattr(curator, "publish", watch)
    monkeypatch.setattr(fitting, "publish", watch)
    return found


def fitted(built: Built, row: np.ndarray[Any, Any]) -> Release:
    """Release one record through the estimator that a caller would use."""
    request = built.request
    facts: dict[str, Any] = {
        "epsilon": request.epsilon,
        "delta": request.delta,
        "neighbours": request.neighbours,
        "bounds": request.bounds,
        "n_hint": request.n,
        "unit": request.unit,
        "options": dict(request.options),
        "feature_seed": request.feature_seed,
        "random_state": 1,
        "method": built.subject.method,
    }
    model: PrivateKDE | PrivateDistance
    if isinstance(request.kernel, Distance):
        model = PrivateDistance(metric=request.kernel.metric, p=request.kernel.p, **facts)
    else:
        model = PrivateKDE(request.kernel, landmarks=request.landmarks, **facts)
    users = ["ada"] if request.unit == "user" else None
    return model.fit(row, users=users, sample_weight=[1.0] if request.weighted else None).release_


def expected(mechanism: Mechanism, sums: np.ndarray[Any, Any], kept: int, seen: int) -> tuple[Any, int | None]:
    """Draw what the law says: first the count, then the noise, or what the algorithm makes of the sums."""
    bits, law = SecureBits.seeded(SEED), mechanism.count_law
    public = mechanism.guarantee.neighbours == "replace"
    if law is None:
        count = Count(max(seen, 1) if public else 1, 0.0, public)
    else:
        count = Count(max(1, kept + int(law.sample(bits, 1)[0])), law.variance, False)
    if mechanism.algorithm is not None:
        return mechanism.algorithm(sums, count, bits), count.value
    return sums + mechanism.noise.sample(bits, sums.size), None if mechanism.count_reader else count.value


@pytest.mark.parametrize("method", [*METHODS, *DISTANCES])
def test_the_checked_mechanism_is_what_is_published(method: str, watched: Watched) -> None:
    for subject in SUBJECTS[method]:
        for built in subject.offered():
            quantizer = built.mechanism.encoder
            row = (np.array(quantizer.box.lower) + 0.3 * 2 * quantizer.box.half_widths)[None]
            release = fitted(built, row)
            mechanism, sums = watched.mechanisms[-1], watched.sums[-1]
            promise = replace(mechanism.guarantee, private=True)
            assert (mechanism.noise, mechanism.count_law, promise) == (
                built.mechanism.noise,
                built.mechanism.count_law,
                built.mechanism.guarantee,
            )
            assert mechanism.encoder.to_document()[0] == quantizer.to_document()[0]
            assert watched.kept[-1] == watched.seen[-1] == 1
            every = quantizer.encode(np.repeat(row, GROUPS, axis=0), SecureBits.seeded(0))
            assert (every == sums).all(axis=1).any()
            values, count = expected(mechanism, sums, 1, 1)
            np.testing.assert_array_equal(release.values, values)
            assert count is None or release.count.value == count


@pytest.mark.parametrize("method", [*METHODS, *DISTANCES])
def test_attacks_see_the_sums_under_the_law(method: str) -> None:
    for built in SUBJECTS[method][0].offered():
        mechanism = built.mechanism
        if mechanism.algorithm is not None:
            continue
        row = np.array(mechanism.encoder.box.lower)[None]
        outputs = run(mechanism, row, 3, SecureBits.seeded(SEED))
        bits = SecureBits.seeded(SEED)
        sums = mechanism.encoder.encode(np.repeat(row, 3, axis=0), bits)
        np.testing.assert_array_equal(outputs.values, sums + mechanism.noise.sample(bits, sums.size).reshape(3, -1))
        if mechanism.count_law is not None:
            np.testing.assert_array_equal(outputs.counts, 1 + mechanism.count_law.sample(bits, 3))


def test_a_curator_that_draws_less_noise_would_be_seen(watched: Watched) -> None:
    built = next(SUBJECTS["lsq-rff"][0].offered())
    release = fitted(built, np.zeros((1, 1)))
    law = built.mechanism.noise
    weak = replace(watched.mechanisms[-1], noise=replace(law, rate=law.rate * 2))  # type: ignore[type-var, attr-defined]
    assert (expected(weak, watched.sums[-1], 1, 1)[0] != release.values).any()


@pytest.mark.parametrize("method", ["lsq-rff", "race", "pmw"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_count_that_is_bought_first_is_the_count_that_is_checked(
    method: str, delta: float, watched: Watched, tmp_path: Path
) -> None:
    if delta and method == "lsq-rff":
        method = "fourier-gaussian"
    kernel = "laplacian" if method == "race" else "gaussian"
    account = Ledger(tmp_path / "ledger.jsonl").account("d")
    model = PrivateKDE(
        kernel,
        bandwidth=1.0,
        epsilon=1,
        delta=delta,
        method=method,
        bounds=(-8, 8),
        n_hint="paid",
        options={"spacing": 8.0, "rounds": 1} if method == "pmw" else {},
        ledger=account,
        random_state=1,
    )
    release = model.fit(np.zeros((500, 1))).release_
    law = watched.mechanisms[-1].count_law
    assert law is not None and law.epsilon == COUNT_SHARE
    assert release.count.value == 500 + int(law.sample(SecureBits.seeded(1), 1)[0])
    assert release.count.variance == law.variance
    assert [charge.epsilon for charge in account.charges] == [law.epsilon, 1 - law.epsilon]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("rule", ["highest-density", "squared-distance"])
def test_every_class_is_published_by_the_checked_mechanism(rule: str, delta: float, watched: Watched) -> None:
    model = DensityClassifier(
        epsilon=1, delta=delta, classes=[0, 1, 2], n_hint=300, rule=rule, feature_seed=7, random_state=1
    )
    row = np.array([[0.6, 0.8]])
    model.fit(row, [1])
    mechanism = watched.mechanisms[0]
    assert all(each == mechanism for each in watched.mechanisms) and len(watched.mechanisms) == 3
    assert (watched.kept, watched.seen) == ([0, 1, 0], [0, 1, 0])
    encoded = mechanism.encoder.encode(np.repeat(row, GROUPS, axis=0), SecureBits.seeded(0))
    assert not watched.sums[0].any() and not watched.sums[2].any()
    assert (encoded == watched.sums[1]).all(axis=1).any()
    for sums, kept, release in zip(watched.sums, watched.kept, model.releases_.values(), strict=True):
        np.testing.assert_array_equal(release.values, expected(mechanism, sums, kept, kept)[0])
