"""What is checked and attacked is what is published: for every method, in every variant, through the estimators.

An estimator's fit is watched where the curator has the exact sums. The mechanism that arrives there must be the one
whose calibration is checked, the sums those of its encoder, and what is published those sums under its law, bit by bit.
Counts are drawn before all other noise, from the same stream: what is expected is drawn in that order too.
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
from sfumato.kernels.unscaled import Distance
from sfumato.learn import DensityClassifier, fitting
from sfumato.methods.method import Mechanism
from sfumato.methods.registry import DISTANCES, METHODS
from sfumato.methods.request import COUNT_SHARE
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.ledger import Ledger
from sfumato.privacy.noise import DiscreteLaplace
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
    bits: SecureBits = field(default_factory=lambda: SecureBits.seeded(SEED))


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Watch the curator, and let it draw its counts and then its noise from one stream of known bits."""
    found, publish, noisy_count = Watched(), curator.publish, curator.noisy_count

    def count_known(kept: int, law: DiscreteLaplace, bits: SecureBits) -> Count:
        return noisy_count(kept, law, found.bits)

    def watch(mechanism: Mechanism, sums: Any, kept: int, seen: int, bits: SecureBits, count: Any = None) -> Release:
        found.mechanisms.append(mechanism)
        found.sums.append(sums.copy())
        found.kept.append(kept)
        found.seen.append(seen)
        return publish(mechanism, sums, kept, seen, found.bits, count)

    for module in (curator, fitting):
        monkeypatch.setattr(module, "publish", watch)
        monkeypatch.setattr(module, "noisy_count", count_known)
    return found


def fitted(built: Built, row: np.ndarray[Any, Any], watched: Watched) -> Release:
    """Release one record through the estimator that a caller would use, with the known bits from their start."""
    watched.bits = SecureBits.seeded(SEED)
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


def expected_count(mechanism: Mechanism, kept: int, seen: int, bits: SecureBits) -> Count:
    """Draw the count by its law; nothing is drawn before it."""
    law = mechanism.count_law
    if law is None:
        public = mechanism.guarantee.neighbours == "replace"
        return Count(max(seen, 1) if public else 1, 0.0, public)
    return Count(max(1, kept + int(law.sample(bits, 1)[0])), law.variance, False)


def expected_values(mechanism: Mechanism, sums: np.ndarray[Any, Any], count: Count, bits: SecureBits) -> Any:
    """Draw the noise that the law says, or what the algorithm makes of the sums, where the counts left the bits."""
    if mechanism.algorithm is not None:
        return mechanism.algorithm(sums, count, bits)
    return sums + mechanism.noise.sample(bits, sums.size)


@pytest.mark.parametrize("method", [*METHODS, *DISTANCES])
def test_the_checked_mechanism_is_what_is_published(method: str, watched: Watched) -> None:
    for subject in SUBJECTS[method]:
        for built in subject.offered():
            quantizer = built.mechanism.encoder
            row = (np.array(quantizer.box.lower) + 0.3 * 2 * quantizer.box.half_widths)[None]
            release = fitted(built, row, watched)
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
            bits = SecureBits.seeded(SEED)
            count = expected_count(mechanism, 1, 1, bits)
            np.testing.assert_array_equal(release.values, expected_values(mechanism, sums, count, bits))
            assert mechanism.count_reader is not None or release.count == count


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
    release = fitted(built, np.zeros((1, 1)), watched)
    bits, law = SecureBits.seeded(SEED), built.mechanism.noise
    # From the same bits two laws draw the same small numbers: with so much less noise two of them once in a million.
    less = replace(law, rate=law.rate * 1000)  # type: ignore[type-var, attr-defined]
    weak = replace(watched.mechanisms[-1], noise=less)
    count = expected_count(weak, 1, 1, bits)
    assert release.count == count
    assert (expected_values(weak, watched.sums[-1], count, bits) != release.values).any()


def test_a_curator_that_draws_the_count_last_would_be_seen(watched: Watched) -> None:
    built = next(SUBJECTS["lsq-rff"][0].offered())
    release = fitted(built, np.zeros((1, 1)), watched)
    bits, mechanism = SecureBits.seeded(SEED), watched.mechanisms[-1]
    assert (expected_values(mechanism, watched.sums[-1], release.count, bits) != release.values).any()


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
    assert release.count.value == 500 + int(law.sample(SecureBits.seeded(SEED), 1)[0])
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
    bits = SecureBits.seeded(SEED)
    counts = [expected_count(mechanism, kept, kept, bits) for kept in watched.kept]
    for sums, count, release in zip(watched.sums, counts, model.releases_.values(), strict=True):
        np.testing.assert_array_equal(release.values, expected_values(mechanism, sums, count, bits))
        assert mechanism.count_reader is not None or release.count == count
