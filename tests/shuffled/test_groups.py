"""Submissions of one size: what a draw that does not fit costs, cover, and how little one client can do."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from sfumato.errors import InputError
from sfumato.kernels import L2LSH
from sfumato.privacy.bits import SecureBits
from sfumato.release import Release
from sfumato.shuffled import Protocol, Shuffler, Submission, groups
from sfumato.shuffled.bitsum import BitSum
from sfumato.shuffled.bitsum.rr import RandomisedResponse, SampledResponse
from sfumato.shuffled.bitsum.signed import Pure, ThreeNegativeBinomials
from sfumato.shuffled.bitsum.unsigned import NegativeBinomialNoise, PoissonNoise
from sfumato.shuffled.groups import SHARE, fewest_messages, overflow
from sfumato.shuffled.messages import Header, write_batch
from sfumato.shuffled.sealing import COVER, MESSAGE_BYTES, seal
from tests.shuffled.collections_for_tests import KEY, batch_of, client_of, opened, small_protocol, submissions

FALSE_ALARM = 1e-6
SIZE = 600  # of laws of message counts that are listed
NAMES = ["rr", "poisson", "negative-binomial", "3nb", "pure", "3nb-published"]
Law = NDArray[np.float64]

BITSUMS: list[BitSum] = [
    RandomisedResponse(20, Fraction(1, 4)),
    SampledResponse(20, Fraction(1, 4), Fraction(1, 3)),
    PoissonNoise(20, Fraction(30)),
    NegativeBinomialNoise(20, 8, Fraction(1, 2)),
    ThreeNegativeBinomials(20, Fraction(1, 2), 6, Fraction(1, 3)),
    Pure(20, Fraction(1, 2), Fraction(1, 50), 3, 5, Fraction(1, 4)),
]


def scaled(law: Law, step: int) -> Law:
    """The law of `step` times a count."""
    made = np.zeros(SIZE)
    made[::step] = law[: -(-SIZE // step)]
    return made


def negative_binomial(shape: float, rate: Fraction) -> Law:
    return np.asarray(stats.nbinom.pmf(np.arange(SIZE), shape, -math.expm1(-float(rate))))


def shifted(law: Law, by: int) -> Law:
    return np.concatenate([np.zeros(by), law])[:SIZE]


def both(first: Law, second: Law) -> Law:
    return np.convolve(first, second)[:SIZE]


def messages_law(bitsum: BitSum, bit: int) -> Law:
    """How many messages a user sends in one instance, from what the protocol says alone."""
    one = np.eye(SIZE)[0]
    match bitsum:
        case RandomisedResponse():
            return shifted(one, 1)
        case SampledResponse():
            send = float(bitsum.send)
            return np.asarray((1 - send) * one + send * shifted(one, 1))
        case PoissonNoise():
            return shifted(np.asarray(stats.poisson.pmf(np.arange(SIZE), float(bitsum.mean) / bitsum.n)), bit)
        case NegativeBinomialNoise():
            return shifted(negative_binomial(bitsum.shape / bitsum.n, bitsum.rate), bit)
        case ThreeNegativeBinomials() | Pure():
            sign = negative_binomial(1 / bitsum.n, bitsum.rate)
            flood = negative_binomial(bitsum.flood_shape / bitsum.n, bitsum.flood_rate)
            noise = both(both(sign, sign), scaled(flood, 2))
            if isinstance(bitsum, ThreeNegativeBinomials):
                return shifted(noise, bit)
            drop = float(bitsum.drop)
            return np.asarray(drop * noise + (1 - drop) * shifted(noise, 2 * bitsum.copies + bit))
    raise AssertionError


def tail(bitsum: BitSum, instances: int, ones: int, messages: int) -> float:
    """Probability that a user's messages in all instances are more than that."""
    parts = [messages_law(bitsum, 1)] * ones + [messages_law(bitsum, 0)] * (instances - ones)
    return float(reduce(both, parts)[messages + 1 :].sum())


@pytest.mark.parametrize("bitsum", BITSUMS, ids=lambda each: type(each).__name__)
class TestOverflow:
    @pytest.mark.parametrize("bit", [0, 1])
    @pytest.mark.once
    def test_moments_are_those_of_the_law(self, bitsum: BitSum, bit: int) -> None:
        law = messages_law(bitsum, bit)
        for tilt in (0.01, 0.5 * min(bitsum.largest_tilt, 1.0)):
            moment = math.log(float((law * np.exp(tilt * np.arange(SIZE))).sum()))
            assert bitsum.message_exponent(tilt, bit) == pytest.approx(moment, rel=1e-9)

    def test_randomisers_follow_the_law(self, bitsum: BitSum) -> None:
        """The mean and the share of zeros of the counts that the randomiser draws, within 6 deviations."""
        bits = np.ones(4000, dtype=np.int64)
        sent = bitsum.randomise(bits, SecureBits.seeded("sizes"))
        drawn, law = sent.ones + sent.zeros, messages_law(bitsum, 1)
        mean = float(law @ np.arange(SIZE))
        deviation = math.sqrt(float(law @ (np.arange(SIZE) - mean) ** 2))
        assert abs(drawn.mean() - mean) <= 6 * deviation / math.sqrt(4000) + 1e-9
        most = np.arange(SIZE)[law > 0][-1] if bitsum.most_messages is not None else SIZE
        assert drawn.max() <= most

    @pytest.mark.parametrize(("instances", "ones"), [(1, 1), (6, 6), (6, 2)])
    @pytest.mark.once
    def test_the_bound_holds_and_is_not_far(self, bitsum: BitSum, instances: int, ones: int) -> None:
        for delta in (1e-2, 1e-6):
            messages = fewest_messages(bitsum, instances, ones, 1.0, delta)
            claimed = overflow(bitsum, instances, ones, messages, 1.0)
            exact = bitsum.n * (1 + math.e) * tail(bitsum, instances, ones, messages)
            assert exact <= claimed <= SHARE * delta
            assert overflow(bitsum, instances, ones, messages - 1, 1.0) > (1 - SHARE) * SHARE * delta
            if claimed:  # Chernoff's bound loses a factor that grows slowly
                assert claimed < 300 * exact


@pytest.mark.once
class TestDrawsAreMadeAgain:
    """Two participants, one instance: all views if draws beyond a number of messages are made again."""

    BITSUM = PoissonNoise(2, Fraction(4))

    def view(self, bit: int, most: int) -> Law:
        """Law of the number of ones of both, the other's bit being 0, each cut at so many messages."""
        laws = []
        for held in (bit, 0):
            law = messages_law(self.BITSUM, held)
            law[most + 1 :] = 0.0
            laws.append(law / law.sum())
        return both(laws[0], laws[1])

    @staticmethod
    def delta(first: Law, second: Law, epsilon: float) -> float:
        return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())

    @pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
    @pytest.mark.parametrize("most", [2, 4, 8, 12, 16])
    def test_the_overflow_pays(self, epsilon: float, most: int) -> None:
        whole = [self.view(bit, SIZE) for bit in (0, 1)]
        cut = [self.view(bit, most) for bit in (0, 1)]
        paid = overflow(self.BITSUM, 1, 1, most, epsilon)
        for one, other in ((0, 1), (1, 0)):
            before = self.delta(whole[one], whole[other], epsilon)
            assert self.delta(cut[one], cut[other], epsilon) <= before + paid + 1e-12

    def test_cutting_is_not_free(self) -> None:
        """The same audit catches a twin that does not pay."""
        whole = self.delta(self.view(0, SIZE), self.view(1, SIZE), 2.0)
        assert self.delta(self.view(0, 2), self.view(1, 2), 2.0) > 2 * whole
        assert overflow(self.BITSUM, 1, 1, 16, 2.0) < 0.1 * whole

    def test_the_client_draws_until_it_fits(self) -> None:
        protocol = small_protocol(8, 4, "poisson")
        client = client_of(protocol)
        # Less than most draws, and no less than the ones of any point.
        client._group = replace(client._group, messages=4)
        sent = client.messages([0.0], secure=SecureBits.seeded(1))
        assert len(sent) == 4 and len(opened(protocol, sent)) <= 4


class TestOneSize:
    @pytest.mark.parametrize("bitsum", NAMES)
    @pytest.mark.once
    def test_everybody_sends_as_many(self, bitsum: str) -> None:
        protocol = small_protocol(4, 2, bitsum)
        sent = [client_of(protocol).messages([x]) for x in (-3.0, 0.0, 3.0, math.nan)]
        assert {len(made.to_bytes()) for made in sent} == {protocol.plan().bytes}
        assert {len(made) for made in sent} == {protocol.groups[0].messages} == {protocol.plan().messages}

    @pytest.mark.once
    def test_with_a_message_budget(self) -> None:
        protocol = small_protocol(100, 64, messages=4.0)
        size = protocol.groups[0].messages
        assert 4 < size < 32
        assert {len(made) for made in submissions(protocol, 30)} == {size}

    def test_the_worst_bits_fit(self) -> None:
        """A point whose bits are all one, against the bits of most points: as many messages, whatever they say."""
        options: dict[str, Any] = {"epsilon": 8, "delta": 1e-5, "participants": 10_000, "key": KEY, "seed": 3}
        protocol = Protocol("gaussian", bandwidth=1.0, dimension=1, instances=64, bitsum="poisson", **options)
        group, bits = protocol.groups[0], np.ones((3000, 64), dtype=np.int64)
        drawn = group.bitsum.randomise(bits, SecureBits.seeded(3)).ones.sum(axis=1)
        assert drawn.min() >= 64 and drawn.max() <= group.messages

    @pytest.mark.once
    def test_sparse_features_need_less(self) -> None:
        """A row of hash counters has one 1: cover is for that many, not for all counters."""
        options: dict[str, Any] = {"epsilon": 4, "delta": 1e-3, "participants": 200, "key": KEY, "seed": 3}
        protocol = Protocol(L2LSH(1.0), dimension=2, instances=64, bitsum="poisson", **options)
        bits = protocol.features.bits(protocol.features.points(np.zeros((1, 2))), SecureBits.seeded(1))
        assert bits.sum() == protocol.features.ones == 4
        assert len(client_of(protocol).messages([0.0, 0.0])) == protocol.groups[0].messages < 64

    def test_cover_has_no_place_of_its_own(self) -> None:
        """The first message is cover as often as any. Alarm at 1e-6."""
        protocol = small_protocol(8, 4, "poisson")
        sent = submissions(protocol, 300)
        said = sum(len(opened(protocol, made)) for made in sent)
        first = sum(KEY.open(made[0], protocol.context()) != COVER for made in sent)
        assert stats.binomtest(first, 300, said / (300 * len(sent[0]))).pvalue > FALSE_ALARM

    @pytest.mark.once
    def test_cover_looks_like_all_others(self) -> None:
        protocol = small_protocol(8, 4, "poisson")
        made = submissions(protocol, 1)[0]
        assert len(set(made)) == len(made) > len(opened(protocol, made))
        assert {len(message) for message in made} == {MESSAGE_BYTES}

    @pytest.mark.once
    def test_too_many_for_anybody(self) -> None:
        protocol = small_protocol(8, 4, "poisson")
        protocol.groups, kept = (replace(protocol.groups[0], messages=2**24 + 1),), protocol.groups
        try:
            with pytest.raises(InputError, match="16777217 messages, more than"):
                client_of(protocol)
        finally:
            protocol.groups = kept


@pytest.mark.once
class TestPromise:
    @pytest.mark.parametrize("bitsum", ["poisson", "negative-binomial", "3nb", "pure"])
    def test_a_document_with_fewer_messages_is_refused(self, bitsum: str) -> None:
        document = json.loads(json.dumps(small_protocol(4, 2, bitsum).document))
        assert Protocol.from_document(document).groups == small_protocol(4, 2, bitsum).groups
        document["mechanism"]["groups"][0]["messages"] -= 1
        text = json.dumps(document["guarantee"]["conditions"])
        number = document["mechanism"]["groups"][0]["messages"]
        assert str(number + 1) in text
        document["guarantee"]["conditions"] = json.loads(text.replace(str(number + 1), str(number)))
        with pytest.raises(InputError, match=f"participants who send {number} messages each; do not take part"):
            Protocol.from_document(document)

    @pytest.mark.parametrize("messages", ["22", 22.0, None, True])
    def test_a_number_that_is_none(self, messages: object) -> None:
        document = json.loads(json.dumps(small_protocol(8, 4, "poisson").document))
        document["mechanism"]["groups"][0]["messages"] = messages
        with pytest.raises(InputError, match=r"groups\[0\].messages must be a whole number|holds no float"):
            Protocol.from_document(document)

    def test_the_guarantee_says_it(self) -> None:
        paid = str(small_protocol(8, 4, "poisson").guarantee().conditions)
        assert "everybody sends 22 messages, cover included" in paid and "a thousandth of delta pays" in paid
        assert "below 2^-128 for all together" in str(small_protocol(4, 2, "pure").guarantee().conditions)
        assert "cover" not in str(small_protocol(8, 4).guarantee().conditions)


def _half_a_unit(release: Release) -> float:
    """Return what whole numbers in place of the sums change at most: half a unit of each."""
    answer, units = release.query([[0.3]])[0], np.eye(len(release.values), dtype=np.int64)
    others = [replace(release, values=release.values + unit).query([[0.3]])[0] for unit in units]
    return float(np.abs(np.array(others) - answer).sum() / 2)


@pytest.mark.once
class TestOneClient:
    """What a client does to a collection of 8 that has others to spare."""

    @pytest.fixture(params=["poisson", "negative-binomial", "3nb"])
    def protocol(self, request: pytest.FixtureRequest) -> Protocol:
        return small_protocol(8, 4, request.param)

    @staticmethod
    def garbage(protocol: Protocol, seed: int) -> Submission:
        content = np.random.default_rng(seed).bytes(protocol.groups[0].messages * MESSAGE_BYTES)
        return Submission(content[start : start + MESSAGE_BYTES] for start in range(0, len(content), MESSAGE_BYTES))

    @pytest.mark.parametrize("count", [0, 60, 5000])
    def test_no_other_number_of_messages_is_taken(self, count: int, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4, "poisson")
        made = seal(np.zeros(count, dtype=int), np.ones(count, dtype=int), protocol.key, protocol.context())
        with Shuffler(tmp_path / "inbox", protocol) as mixer:
            with pytest.raises(InputError, match=f"sends {protocol.groups[0].messages} messages; got {count}"):
                mixer.receive(Submission(made))
            assert mixer.participants == 0

    def test_garbage_counts_by_submission(self, protocol: Protocol, tmp_path: Path) -> None:
        """One garbling client and one to spare: a release. Two, and one to spare: nothing, and the inbox is there."""
        honest = submissions(protocol, 8)
        batch = batch_of(protocol, [*honest, self.garbage(protocol, 1)], tmp_path / "one")
        assert protocol.analyzer(KEY).analyze(batch).count.value == 9
        few = [*honest[:7], self.garbage(protocol, 1), self.garbage(protocol, 2)]
        batch = batch_of(protocol, few, tmp_path / "two")
        size = protocol.groups[0].messages
        with pytest.raises(InputError, match=f"{2 * size} messages do not open .* account for {size} at most"):
            protocol.analyzer(KEY).analyze(batch)
        assert (tmp_path / "two" / "inbox" / "inbox").exists()

    def test_garbage_does_not_move_answers(self, protocol: Protocol, tmp_path: Path) -> None:
        """Answers of 8 people are the same with five garbling clients, and wider error bars say that they are fewer."""
        honest = submissions(protocol, 8)
        alone = protocol.analyzer(KEY).analyze(batch_of(protocol, honest, tmp_path / "alone"))
        spoiled = [*honest, *(self.garbage(protocol, seed) for seed in range(5))]
        beside = protocol.analyzer(KEY).analyze(batch_of(protocol, spoiled, tmp_path / "beside"))
        assert beside.count.value == 13
        allowed = _half_a_unit(alone) + _half_a_unit(beside)
        assert beside.query([[0.3]]) == pytest.approx(alone.query([[0.3]]), abs=allowed)
        assert allowed < 1e-4
        assert beside.noise.variance == pytest.approx(alone.noise.variance * (13 / 8) ** 2)

    def test_an_instance_moves_by_no_more_than_one_submission(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4, "poisson")
        size, honest = protocol.groups[0].messages, submissions(protocol, 8)
        flood = seal(np.zeros(size, dtype=int), np.ones(size, dtype=int), protocol.key, protocol.context())
        alone, _ = protocol.analyzer(KEY).counts(batch_of(protocol, honest, tmp_path / "alone"))
        moved, _ = protocol.analyzer(KEY).counts(batch_of(protocol, [*honest, Submission(flood)], tmp_path / "moved"))
        assert (moved.ones - alone.ones).tolist() == [size, 0, 0, 0]

    def test_what_no_client_says_is_garbage(self, tmp_path: Path) -> None:
        """Where all messages say one, a zero is as good as one that does not open; so is cover with a content."""
        protocol = small_protocol(8, 4, "poisson")
        size, honest = protocol.groups[0].messages, submissions(protocol, 8)
        zeros, ones = np.zeros(size, dtype=int), np.ones(size, dtype=int)
        for instances, contents in ((zeros, zeros), (zeros + COVER[0], ones)):
            odd = Submission(seal(instances, contents, protocol.key, protocol.context()))
            batch = batch_of(protocol, [*honest[:7], odd], tmp_path / str(contents[0]))
            with pytest.raises(InputError, match=f"{size} messages do not open"):
                protocol.analyzer(KEY).analyze(batch)

    def test_more_messages_than_people_send(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4, "poisson")
        content = b"".join(message for made in submissions(protocol, 9) for message in made)
        header = Header(protocol.fingerprint, 0, 8, len(content) // MESSAGE_BYTES)
        write_batch(tmp_path / "batch", header, [content])
        with pytest.raises(InputError, match="more messages than 8 participants send"):
            protocol.analyzer(KEY).analyze(tmp_path / "batch")


@pytest.mark.once
def test_noise_that_takes_too_long_to_certify_is_refused_in_documents_and_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = json.loads(json.dumps(small_protocol().document))
    group = document["mechanism"]["groups"][0]
    group["parameters"]["flip"] = "1/3"
    many = [{**group, "label": place, "participants": 10**9 - place} for place in range(10)]
    document["mechanism"]["groups"] = many  # was: seconds for each
    with pytest.raises(InputError, match="noise of 10 different groups takes too long to certify"):
        Protocol.from_document(document)
    classes = {"classes": ("a", "b", "c"), "label_epsilon": 2}
    assert len(small_protocol(**classes).groups) == 3
    monkeypatch.setattr(groups, "MOST_CERTIFIED", 20)
    assert len(small_protocol(**classes).groups) == 3  # of equal size, which are certified once
    with pytest.raises(InputError, match="same number of participants"):
        small_protocol((8, 9, 10), **classes)  # type: ignore[arg-type]


@pytest.mark.parametrize("bitsum", ["rr", "poisson", "3nb", "pure"])
@pytest.mark.once
def test_cover_without_end_is_refused(bitsum: str) -> None:
    protocol = small_protocol(bitsum=bitsum)
    for times, good in ((1, True), (200, False)):
        document = json.loads(json.dumps(protocol.document))
        group, sent = document["mechanism"]["groups"][0], protocol.groups[0].messages
        group["messages"] = times * sent
        document = json.loads(json.dumps(document).replace(f"sends {sent} messages", f"sends {times * sent} messages"))
        if good:
            assert Protocol.from_document(document).groups == protocol.groups
        else:
            with pytest.raises(InputError, match=f"to send {times * sent} messages, and .* would be enough"):
                Protocol.from_document(document)


def test_a_message_budget_makes_certifying_dearer() -> None:
    """A curve for each number of messages, however few people there are."""
    plain, sampled = RandomisedResponse(60, Fraction(1, 4)), SampledResponse(60, Fraction(1, 4), Fraction(1, 3))
    assert groups.certifying(plain) < 20 < 100 < groups.certifying(sampled)
