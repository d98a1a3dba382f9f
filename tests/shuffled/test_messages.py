"""Client, shuffler and analyzer together, against the exact law and against the simulation."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from sfumato.errors import InputError, ReleaseFileError
from sfumato.privacy.bits import SecureBits
from sfumato.shuffled import Protocol, Shuffler, messages
from sfumato.shuffled.analyzer import sampled_counts
from sfumato.shuffled.bitsum import Counts
from sfumato.shuffled.bitsum.rr import RandomisedResponse
from sfumato.shuffled.messages import Header, Submission, read_batch, read_header, write_batch
from sfumato.shuffled.sealing import MESSAGE_BYTES
from tests.shuffled.collections_for_tests import KEY, batch_of, client_of, opened, points, small_protocol, submissions

FALSE_ALARM = 1e-6
PEOPLE = 150


def chances(protocol: Protocol, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability of every bit before the bit sum randomises it."""
    features = protocol.features
    return (features.quantizer.encode(X) / features.largest + 1) / 2


def chi_squares(ones: NDArray[np.int64], chance: NDArray[np.float64]) -> float:
    """p-value, both sides, of the squared deviations of the counts from their law."""
    deviations = (ones - chance.sum(axis=0)) / np.sqrt((chance * (1 - chance)).sum(axis=0))
    tail = stats.chi2.cdf(float((deviations**2).sum()), ones.size)
    return 2 * float(min(tail, 1 - tail))


def _collection(participants: int) -> Protocol:
    secret: dict[str, Any] = {"epsilon": 1, "delta": 1e-5, "participants": participants}
    return Protocol("gaussian", bandwidth=1.0, dimension=3, instances=64, key=KEY, seed=2, **secret)


@pytest.fixture(scope="module")
def protocol() -> Protocol:
    return _collection(PEOPLE)


@pytest.fixture(scope="module")
def simulated() -> Protocol:
    """Of more people, whose bits are flipped less: nobody seals their messages."""
    return _collection(500)


@pytest.fixture(scope="module")
def counted(protocol: Protocol, tmp_path_factory: pytest.TempPathFactory) -> Counts:
    folder, secure = tmp_path_factory.mktemp("collection"), SecureBits.seeded(1)
    with Shuffler(folder / "inbox", protocol, memory=1 << 20) as shuffler:
        shuffler.receive(*(client_of(protocol).messages(x, secure=secure) for x in points(PEOPLE, 3)))
        shuffler.shuffle(folder / "batch", secure=secure)
    counts, participants = protocol.analyzer(KEY).counts(folder / "batch")
    assert participants == PEOPLE
    return counts


class TestLaw:
    """64 instances, every message sealed, shuffled on disk and opened."""

    def test_messages_follow_the_exact_law(self, protocol: Protocol, counted: Counts) -> None:
        bitsum = protocol.groups[0].bitsum
        assert isinstance(bitsum, RandomisedResponse)
        flip, chance = float(bitsum.flip), chances(protocol, points(PEOPLE, 3))
        assert (counted.ones + counted.zeros == PEOPLE).all()
        assert chi_squares(counted.ones, chance * (1 - flip) + (1 - chance) * flip) > FALSE_ALARM

    def test_the_simulation_follows_the_same_law(self, simulated: Protocol) -> None:
        group, X = simulated.groups[0], points(500, 3)
        bitsum = group.bitsum
        assert isinstance(bitsum, RandomisedResponse)
        flip, chance = float(bitsum.flip), chances(simulated, X)
        law = chance * (1 - flip) + (1 - chance) * flip
        counts = [sampled_counts(simulated, group, X, SecureBits.seeded(seed)).ones for seed in range(20)]
        assert chi_squares(np.concatenate(counts), np.tile(law, 20)) > FALSE_ALARM

    @pytest.mark.parametrize("broken", [False, True])
    def test_a_twin_without_rounding_is_caught(self, simulated: Protocol, broken: bool) -> None:
        """Everybody at one point, whose coordinates lie between the two that bits can say."""
        group, X = simulated.groups[0], np.zeros((500, 3))
        bitsum = group.bitsum
        assert isinstance(bitsum, RandomisedResponse)
        flip, chance = float(bitsum.flip), chances(simulated, X)
        law = chance * (1 - flip) + (1 - chance) * flip
        counts = sampled_counts(simulated, group, X, SecureBits.seeded(1))
        if broken:
            counts = bitsum.totals((chance > 0.5).sum(axis=0), SecureBits.seeded(1))
        assert (chi_squares(counts.ones, law) < FALSE_ALARM) == broken

    def test_release(self, protocol: Protocol, counted: Counts) -> None:
        from sfumato.shuffled.analyzer import release_from

        release = release_from(protocol, protocol.groups[0], counted, PEOPLE)
        X, Y = points(PEOPLE, 3), points(40, 3, seed=1)
        exact = protocol.kernel.exact_density(X, Y)
        answers, errors = release.query(Y, return_std=True)
        assert release.guarantee.private and release.count.value == PEOPLE
        assert np.sqrt(np.mean((answers - exact) ** 2)) < 3 * protocol.plan().accuracy.rmse
        # Answers go together: in 300 collections this root was 1.01, and its logarithm's deviation .19.
        assert np.sqrt(np.mean(((answers - exact) / errors) ** 2)) < 2.6


@pytest.mark.parametrize("bitsum", ["rr", "poisson", "negative-binomial", "3nb"])
def test_every_bit_sum_goes_through_messages(bitsum: str, tmp_path: Path) -> None:
    """Participants whose bits are all known: the estimate must match their sum within its error."""
    people = 12 if bitsum == "3nb" else 40  # who send hundreds of messages each
    protocol = small_protocol(people, 4, bitsum)
    sent = submissions(protocol, people)
    assert {len(message) for messages in sent for message in messages} == {MESSAGE_BYTES}
    counts, participants = protocol.analyzer(KEY).counts(batch_of(protocol, sent, tmp_path))
    group = protocol.groups[0]
    expected = chances(protocol, np.arange(people)[:, None] / 10)
    error = np.sqrt((expected * (1 - expected)).sum(axis=0) + group.bitsum.variance)
    deviations = (group.bitsum.estimate(counts, participants) - expected.sum(axis=0)) / error
    assert np.abs(deviations).max() < (10 if bitsum == "3nb" else 7)  # whose noise is Laplace's: 7 once in 10,000 runs


def test_message_budget(tmp_path: Path) -> None:
    protocol = small_protocol(40, 16, "rr", messages=8)
    sent = submissions(protocol, 40)
    total = sum(len(opened(protocol, messages)) for messages in sent)
    assert stats.binomtest(total, 640, 0.5).pvalue > FALSE_ALARM
    counts, _ = protocol.analyzer(KEY).counts(batch_of(protocol, sent, tmp_path))
    assert counts.ones.sum() + counts.zeros.sum() == total


def test_pure_sends_what_it_says(tmp_path: Path) -> None:
    protocol = small_protocol(2, 2, "pure")
    sent = submissions(protocol, 6)
    predicted, said = protocol.plan().real_messages, [len(opened(protocol, messages)) for messages in sent]
    assert abs(np.mean(said) - predicted) < 0.5 * predicted  # 141, and 30 is the deviation of one: 5.8 of the mean's
    assert {len(messages) for messages in sent} == {protocol.plan().messages}
    counts, _ = protocol.analyzer(KEY).counts(batch_of(protocol, sent, tmp_path))
    assert counts.ones.sum() + counts.zeros.sum() == sum(said)


class TestClient:
    def test_places_say_nothing(self) -> None:
        """The first message is of any instance with the same probability."""
        protocol = small_protocol(8, 4)
        first = [KEY.open(messages[0], protocol.context()) for messages in submissions(protocol, 400)]
        counts = np.bincount([opened[0] for opened in first if opened is not None], minlength=4)
        assert stats.chisquare(counts).pvalue > FALSE_ALARM

    @pytest.mark.once
    def test_equal_points_send_different_messages(self) -> None:
        protocol = small_protocol()
        sent = [client_of(protocol).messages([0.0], secure=SecureBits.seeded(1)) for _ in range(2)]
        assert len({*sent[0], *sent[1]}) == 8

    @pytest.mark.once
    def test_odd_values_are_reported_like_others(self) -> None:
        protocol = small_protocol()
        for odd in (np.nan, np.inf, 1e300):
            assert len(client_of(protocol).messages([odd])) == 4

    @pytest.mark.once
    def test_once(self) -> None:
        client = client_of(small_protocol())
        client.messages([0.0])
        with pytest.raises(InputError, match="second set costs more"):
            client.messages([0.0])

    @pytest.mark.parametrize("point", [[1.0, 2.0], ["x"], []])
    @pytest.mark.once
    def test_what_is_no_point(self, point: list[object]) -> None:
        with pytest.raises(InputError, match="points must"):
            client_of(small_protocol()).messages(point)

    @pytest.mark.once
    def test_no_key(self) -> None:
        protocol = Protocol(
            "gaussian", bandwidth=1.0, dimension=1, epsilon=4, delta=1e-2, participants=8, instances=4, seed=5
        )
        with pytest.raises(InputError, match="no analyzer's key"):
            client_of(protocol).messages([0.0])


@pytest.mark.once
def test_submissions_and_batches_are_read_back_and_damage_is_noticed(tmp_path: Path) -> None:
    sent = Submission([bytes([number]) * MESSAGE_BYTES for number in range(3)])
    assert Submission.from_bytes(sent.to_bytes()) == sent and len(sent) == 3
    header = Header("0" * 64, 0, 1, 3)
    write_batch(tmp_path / "batch", header, [b"".join(sent)])
    assert read_header(tmp_path / "batch") == header
    assert b"".join(read_batch(tmp_path / "batch")) == b"".join(sent)
    content = bytearray((tmp_path / "batch").read_bytes())
    content[-1] ^= 1
    (tmp_path / "batch").write_bytes(content)
    with pytest.raises(ReleaseFileError):
        list(read_batch(tmp_path / "batch"))


@pytest.mark.once
def test_a_batch_that_is_cut_off_while_it_is_read_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be read for ever otherwise."""
    monkeypatch.setattr(messages, "BLOCK_MESSAGES", 1)
    path, count = tmp_path / "batch", 1000
    write_batch(path, Header("0" * 64, 0, 1, count), [bytes(count * MESSAGE_BYTES)])
    blocks = read_batch(path)
    next(blocks)
    os.truncate(path, 200)
    with pytest.raises(ReleaseFileError, match="cut off while it was read"):
        list(islice(blocks, 2 * count))
