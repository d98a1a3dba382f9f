"""The document: what it holds, what is certified when it is read, what it promises."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import L2LSH, InnerProduct
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers import (
    FourierQuantizer,
    HashingQuantizer,
    InnerProductQuantizer,
    InnerProductSigns,
    LatticeQuantizer,
)
from sfumato.shuffled import AnalyzerKey, Protocol
from sfumato.shuffled.features import RotatedLandmarks
from tests.shuffled.collections_for_tests import KEY, client_of, points, small_protocol

SMALL: dict[str, Any] = {"epsilon": 1, "delta": 1e-3, "participants": 50, "seed": 1}


def made(kernel: Any = "gaussian", **options: Any) -> Protocol:
    if kernel == "gaussian":
        options.setdefault("bandwidth", 1.0)
        options.setdefault("instances", 16)
    return Protocol(kernel, **{"dimension": 2, **SMALL, **options})


QUANTIZERS: list[tuple[dict[str, Any], type]] = [
    ({"kernel": "gaussian"}, FourierQuantizer),
    ({"kernel": "inner-product"}, InnerProductQuantizer),
    ({"kernel": "inner-product", "quantizer": "inner-product-signs", "instances": 8}, InnerProductSigns),
    ({"kernel": "gaussian", "landmarks": points(30, 2), "instances": 9}, RotatedLandmarks),
    ({"kernel": L2LSH(1.0), "instances": 64}, HashingQuantizer),
    ({"kernel": "gaussian", "bounds": (-3, 3), "instances": 40}, LatticeQuantizer),
    ({"kernel": "gaussian", "bitsum": "poisson"}, FourierQuantizer),
    ({"kernel": "gaussian", "bitsum": "negative-binomial"}, FourierQuantizer),
    ({"kernel": "gaussian", "bitsum": "3nb"}, FourierQuantizer),
    ({"kernel": "gaussian", "bitsum": "rr", "messages": 8}, FourierQuantizer),
    ({"kernel": "gaussian", "bitsum": "3nb-published"}, FourierQuantizer),
    ({"kernel": "inner-product", "bitsum": "pure", "delta": 0.0, "epsilon": 8}, InnerProductQuantizer),
]


@pytest.mark.once
class TestDocument:
    @pytest.mark.parametrize(("options", "kind"), QUANTIZERS)
    def test_round_trip(self, options: dict[str, Any], kind: type, tmp_path: Path) -> None:
        protocol = made(**options)
        assert isinstance(protocol.quantizer, kind)
        protocol.save(tmp_path / "protocol.json")
        again = Protocol.load(tmp_path / "protocol.json")
        assert again.fingerprint == protocol.fingerprint
        assert again.groups == protocol.groups and again.guarantee() == protocol.guarantee()
        X = points(7, 2)
        bits = [each.features.bits(each.features.points(X), SecureBits.seeded(1)) for each in (protocol, again)]
        assert np.array_equal(bits[0], bits[1])

    def test_everything_public_is_in_it(self) -> None:
        document = made(classes=["a", "b"], label_epsilon=2, key=KEY, key_expires="2099-01-01").document
        mechanism = document["mechanism"]
        assert document["model"] == "shuffled" and document["epsilon"] == "1" and document["participants"] == 50
        assert mechanism["instances"] == 16 and mechanism["bitsum"] == "rr" and mechanism["label_epsilon"] == "2"
        assert mechanism["threat"] == "communication"
        assert mechanism["key"] == {"id": KEY.id, "public": KEY.public.hex(), "expires": "2099-01-01T23:59:59Z"}
        assert [group["label"] for group in mechanism["groups"]] == ["a", "b"]
        assert KEY.private.hex() not in json.dumps(document)

    def test_fingerprints_differ(self) -> None:
        prints = {
            made(**options).fingerprint
            for options in ({}, {"seed": 2}, {"participants": 51}, {"threat": "model"}, {"key": KEY}, {"epsilon": 2})
        }
        assert len(prints) == 6

    def test_random_seeds_differ(self) -> None:
        assert made(seed=None).fingerprint != made(seed=None).fingerprint

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda d: d["mechanism"]["groups"][0]["parameters"].update(flip="1/100"), "does not keep epsilon 1"),
            (lambda d: d["mechanism"]["groups"][0].update(participants=20), "does not keep epsilon 1"),
            (lambda d: d.update(participants=49), "names 49 participants, and its smallest group has 50"),
            (lambda d: d["mechanism"].update(bitsum="pure"), "names the bit sum 'pure', and its groups use rr"),
            (lambda d: d.update(epsilon="1/2"), "does not keep epsilon 0.5"),
            (lambda d: d["guarantee"].update(epsilon="1/2"), "promises something else"),
            (lambda d: d["mechanism"].update(threat="nobody"), "threat must be one of"),
            (lambda d: d["mechanism"]["groups"][0].update(bitsum="new"), "bitsum must be one of"),
            (
                lambda d: d["mechanism"]["groups"][0]["parameters"].update(more="1"),
                "has a field 'more'",
            ),
            (lambda d: d["mechanism"]["groups"][0].pop("label"), "lacks the field 'label'"),
            (lambda d: d["mechanism"]["key"].update(id="00"), "mechanism.key.id must be 16"),
            (lambda d: d["mechanism"]["key"].update(public="zz"), "mechanism.key.public must be 64"),
            (lambda d: d["mechanism"].update(extra=1), "mechanism has a field 'extra'"),
            (lambda d: d["mechanism"].update(instances=18), "describes 16 integers"),
            (lambda d: d["mechanism"].update(instances="16"), "mechanism.instances must be a whole number"),
            (lambda d: d["mechanism"].update(groups=[]), "mechanism.groups must be a list of 1"),
            (lambda d: d["mechanism"]["groups"].append(d["mechanism"]["groups"][0]), "distinct labels"),
            (lambda d: d["mechanism"]["quantizer"].pop("radius"), "does not describe its features"),
            (lambda d: d["domain"]["lower"].__setitem__(0, {"decimal": "-7.0"}), "not those of the protocol"),
            (lambda d: d.update(model="local"), "model 'local'"),
            (
                lambda d: d["mechanism"]["arrays"].update(x={"kind": "<i8", "shape": [2], "base64": "AA=="}),
                "arrays.x",
            ),
        ],
    )
    def test_a_document_is_no_proof(self, change: Callable[[dict[str, Any]], Any], message: str) -> None:
        document = json.loads(json.dumps(made(key=KEY).document))
        change(document)
        with pytest.raises((InputError, ReleaseFileError), match=message):
            Protocol.from_document(document)

    def test_odd_entries_are_refused_in_plain_words(self) -> None:
        """Every entry of the document in turn is replaced by odd values, or left out."""
        original = json.dumps(made(participants=4, instances=4, key=KEY, classes=["a", "b"], label_epsilon=2).document)

        def places(node: Any) -> Iterator[tuple[Any, ...]]:
            items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
            for name, part in items:
                yield (name,)
                yield from ((name, *rest) for rest in places(part))

        refused = 0
        for place in places(json.loads(original)):
            odds: list[Any] = [None, "x", -1, 2**70, [], {}, {"decimal": "1e300"}]
            for odd in odds:
                document = json.loads(original)
                node = document
                for step in place[:-1]:
                    node = node[step]
                node[place[-1]] = odd
                try:
                    Protocol.from_document(document)
                except (InputError, ReleaseFileError):
                    refused += 1
        assert refused > 500

    @pytest.mark.parametrize("place", [0, 1])
    def test_every_class_is_certified(self, place: int) -> None:
        """Classes of the same size: too little noise in any one of them is found."""
        document = json.loads(json.dumps(made(classes=["a", "b"]).document))
        document["mechanism"]["groups"][place]["parameters"]["flip"] = "1/1099511627776"
        with pytest.raises(InputError, match="does not keep epsilon 1"):
            Protocol.from_document(document)

    @pytest.mark.parametrize("dimension", [0, -1, 1.0, True])
    def test_dimension(self, dimension: Any) -> None:
        with pytest.raises(InputError, match="dimension must be a positive whole number"):
            made(dimension=dimension)

    def test_more_noise_than_needed_is_fine(self) -> None:
        document = json.loads(json.dumps(made().document))
        document["mechanism"]["groups"][0]["parameters"]["flip"] = "49/100"
        assert Protocol.from_document(document).groups[0].bitsum.rmse > made().groups[0].bitsum.rmse


@pytest.mark.once
class TestKeys:
    def test_rotation(self) -> None:
        first, key = made(key=KEY, key_expires="2030-01-01"), AnalyzerKey.generate()
        second = first.with_key(key, "2031-01-01")
        assert second.key == key.public and second.fingerprint != first.fingerprint
        assert second.groups == first.groups
        message = client_of(first).messages([0.0, 0.0])[0]
        assert KEY.open(message, first.context()) is not None
        assert KEY.open(message, second.context()) is None and key.open(message, second.context()) is None

    @pytest.mark.parametrize("field", ["expires", "key_expires"])
    def test_expiry(self, field: str) -> None:
        protocol = made(key=KEY, **{field: "2030-01-31"})
        client = client_of(protocol)
        with pytest.raises(InputError, match="has expired"):
            client.messages([0.0, 0.0], now=datetime(2030, 2, 1, tzinfo=UTC))
        assert client.messages([0.0, 0.0], now=datetime(2030, 1, 31, tzinfo=UTC))

    def test_no_key(self) -> None:
        with pytest.raises(InputError, match="no analyzer's key"):
            made().analyzer(KEY)


@pytest.mark.once
class TestGuarantee:
    def test_without_classes(self) -> None:
        promise = made().guarantee()
        assert (promise.trust, promise.neighbours, promise.unit, promise.n_public) == (
            "shuffled",
            "replace",
            "user",
            True,
        )
        assert promise.epsilon == 1 and promise.delta == 1e-3
        text = "; ".join(promise.conditions)
        assert "at least 50 participants follow the protocol" in text and "shuffled on its own" in text
        assert made().guarantee("model") == promise

    def test_private_labels(self) -> None:
        protocol = made(classes=["a", "b"], label_epsilon=3, participants={"a": 50, "b": 60})
        seen, released = protocol.guarantee("communication"), protocol.guarantee("model")
        assert seen.epsilon == 4 and released.epsilon == 1 and seen.delta == released.delta == 1e-3
        assert (
            "this covers a change of point and class; if only the point changes, epsilon = 1 holds" in seen.conditions
        )
        assert any("if the class changes, epsilon = 4 holds" in text for text in released.conditions)
        assert "from 50 to 60, by class," in seen.conditions[0]

    def test_public_labels(self) -> None:
        promise = made(classes=["a", "b"]).guarantee()
        assert promise.epsilon == 1 and "classes are public and not protected" in promise.conditions

    def test_long_records(self) -> None:
        assert "records longer than 2 are scaled down to that length" in made(InnerProduct(2.0)).guarantee().conditions

    @pytest.mark.parametrize("threat", ["communication", "model"])
    def test_releases_carry_the_documents_threat(self, threat: str) -> None:
        protocol = made(classes=["a", "b"], label_epsilon=3, threat=threat)
        releases = protocol.simulate(points(200, 2), ["a", "b"] * 100, random_state=1)
        assert releases["a"].guarantee.epsilon == protocol.guarantee(threat).epsilon
        assert not releases["a"].guarantee.private and releases["a"].parameters["threat"] == threat
        assert protocol.simulate(points(200, 2), ["a", "b"] * 100)["b"].guarantee.private


@pytest.mark.once
class TestChoices:
    def test_groups_of_several_sizes(self) -> None:
        protocol = made(classes=["a", "b"], participants=[50, 200])
        small, large = (group.bitsum for group in protocol.groups)
        assert (small.n, large.n) == (50, 200)
        assert small.parameters["flip"] > large.parameters["flip"]
        assert small.rmse == pytest.approx(large.rmse, rel=0.1)  # the noise on the sum is what privacy needs

    def test_sparse_features_compose_where_two_points_differ(self) -> None:
        """16 counters a row: 2 of them change, so the noise is that of an eighth of the instances."""
        sparse = made(L2LSH(1.0), instances=128)
        assert sparse.features.changed == 16 and sparse.features.instances == 128
        dense = made(instances=16)
        assert sparse.groups[0].bitsum == dense.groups[0].bitsum

    def test_message_budget_is_for_all_instances(self) -> None:
        assert made(messages=4).plan().real_messages == pytest.approx(4)
        assert made(L2LSH(1.0), instances=128, messages=32).plan().real_messages == pytest.approx(32)

    @pytest.mark.parametrize(("n", "expected"), [(100, 64), (10**6, 2048)])
    def test_instances_grow_with_the_participants(self, n: int, expected: int) -> None:
        assert made(participants=n, instances="auto", delta=1e-6).features.instances == expected

    def test_landmarks_by_default_where_there_are_some(self) -> None:
        protocol = made(landmarks=points(30, 2), instances="auto")
        assert isinstance(protocol.quantizer, RotatedLandmarks)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"bitsum": "4nb"}, "bitsum must be one of"),
            ({"quantizer": "grid"}, "quantizer must be 'auto' or one of"),
            ({"quantizer": "inner-product"}, "is for the inner product"),
            ({"quantizer": "landmarks"}, "pass landmarks="),
            ({"kernel": "inner-product", "instances": 7}, "has 2 instances here, not 7"),
            ({"instances": 0}, "instances must be"),
            ({"instances": 15}, "has 14 instances here"),
            ({"label_epsilon": 1}, "pass classes="),
            ({"classes": ["a"], "label_epsilon": 1}, "two classes or more"),
            ({"classes": ["a", "a"]}, "distinct"),
            ({"classes": "ab"}, "public list of classes"),
            ({"classes": [0.5, 1.5]}, "whole number or a text"),
            ({"classes": ["a", "b"], "participants": {"a": 5}}, "a number for each class"),
            ({"classes": ["a", "b"], "participants": [5]}, "a number for each of 2 classes"),
            ({"participants": 0}, "honest participants"),
            ({"delta": 0.0}, "Only 'pure' does without"),
            ({"bitsum": "pure"}, "keeps delta = 0"),
            ({"threat": "friends"}, "threat must be one of"),
            ({"key": b"short"}, "key.public must be 64 lower-case"),
        ],
    )
    def test_refusals(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            made(**options)

    def test_unknown_class(self) -> None:
        with pytest.raises(InputError, match="is not one of the protocol's classes"):
            client_of(small_protocol(8, 4, classes=("a", "b")), "c")
        with pytest.raises(InputError, match="pass label="):
            client_of(small_protocol(8, 4, classes=("a", "b")))


class TestSimulate:
    @pytest.mark.once
    def test_too_few(self) -> None:
        with pytest.raises(InputError, match="49 participants take part and the guarantee needs 50"):
            made().simulate(points(49, 2))
        with pytest.raises(InputError, match="in class 'b'"):
            made(classes=["a", "b"]).simulate(points(99, 2), ["a"] * 50 + ["b"] * 49)

    @pytest.mark.once
    def test_labels(self) -> None:
        with pytest.raises(InputError, match="pass y"):
            made(classes=["a", "b"]).simulate(points(100, 2))
        with pytest.raises(InputError, match="leave out y"):
            made().simulate(points(50, 2), ["a"] * 50)
        with pytest.raises(InputError, match="is not one of"):
            made(classes=["a", "b"]).simulate(points(100, 2), ["a"] * 99 + ["c"])

    @pytest.mark.once
    def test_seeded_runs_repeat(self) -> None:
        first, again = (made().simulate(points(50, 2), random_state=3) for _ in range(2))
        assert np.array_equal(first.values, again.values) and not first.guarantee.private
        assert not np.array_equal(made().simulate(points(50, 2)).values, first.values)

    @pytest.mark.once
    def test_one_draw_of_features_for_all_classes(self) -> None:
        releases = made(classes=["a", "b"]).simulate(points(100, 2), ["a", "b"] * 50)
        assert releases["a"].reader is releases["b"].reader

    @pytest.mark.parametrize("bitsum", ["rr", "poisson", "3nb"])
    def test_more_participants_than_the_noise_was_made_for(self, bitsum: str) -> None:
        """The sums of 90 participants come out right, and their error is what the release says."""
        protocol, X = made(bitsum=bitsum), np.zeros((90, 2))
        exact = 90.0 * protocol.quantizer.encode(X[:1])[0]
        releases = [protocol.simulate(X, random_state=seed) for seed in range(100)]
        errors = np.concatenate([release.values - exact for release in releases])
        rounded = 1 - (exact / (90 * protocol.features.largest)) ** 2
        bits = protocol.groups[0].bitsum.variance * 90 / 50
        expected = np.mean([protocol.features.variance(bits, 90, share) for share in rounded])
        assert np.mean(errors**2) == pytest.approx(expected, rel=0.3)  # 1600 values: a deviation of 5 % at most
        assert abs(errors.mean()) < 5 * np.sqrt(expected / errors.size)
        assert np.mean(errors**2) < releases[0].noise.variance * 1.3


@pytest.mark.once
def test_repr() -> None:
    assert "16 instances, 2 classes; epsilon = 1" in repr(made(classes=["a", "b"]))
    assert made(epsilon=Fraction(1, 2)).document["epsilon"] == "1/2"
