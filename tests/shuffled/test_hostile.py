"""Documents and files from anywhere: whatever stands in them, they are read or refused with an error of the library."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sfumato.errors import SfumatoError
from sfumato.kernels import L2LSH, InnerProduct
from sfumato.shuffled import Protocol, Shuffler
from sfumato.shuffled.groups import Group
from sfumato.shuffled.messages import read_batch, read_header
from sfumato.shuffled.sealing import check_key
from tests.shuffled.collections_for_tests import KEY, batch_of, points, small_protocol, submissions

pytestmark = pytest.mark.once

DEEP: Any = "end"
for _ in range(400):
    DEEP = [DEEP]
ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**70, 10**400, "", "x", [], {}, [None], {"decimal": "1"}, DEEP),
    *({"decimal": text} for text in ("0.0", "-1.0", "nan", "inf", "1e308", "5e-324", "0.5")),
    *("0", "-1", "1", "2", "1/2", "1/0", "nan", "1e9", "0.5", "7/3", "1/1000000007", "9" * 1200, "1/" + "9" * 1000),
    *(f"1/{2**k}" for k in (23, 24, 40, 62, 80, 119)),
    *(str(2**k) for k in (10, 20, 50, 60, 99)),
    *("99", "100", "1" * 64, "g" * 64, "2027-13-01T00:00:00Z", "\x1b[2J", "\ud800", "3/8", "49/100"),
]
NUMBERS = st.fractions(min_value=0, max_value=10**6).map(str) | st.integers(-(2**70), 2**70).map(str)
VALUES = st.sampled_from(ODD) | NUMBERS | st.floats() | st.text(max_size=8)


def documents() -> dict[str, dict[str, Any]]:
    facts: dict[str, Any] = {"dimension": 2, "epsilon": 4, "delta": 1e-2, "participants": 8, "key": KEY, "seed": 5}
    made = {name: small_protocol(8, 4, name) for name in ("rr", "poisson", "negative-binomial", "3nb", "pure")}
    made["messages"] = small_protocol(8, 4, messages=2)
    made["classes"] = small_protocol(8, 4, classes=("a", "b"), label_epsilon=2)
    made["hashing"] = Protocol(L2LSH(1.0), instances=16, **facts)
    made["product"] = Protocol(InnerProduct(2.0), **facts)
    made["lattice"] = Protocol("gaussian", bandwidth=0.5, bounds=(0, 1), quantizer="lattice", instances=8, **facts)
    made["landmarks"] = Protocol("gaussian", bandwidth=1.0, landmarks=points(6, 2), instances=4, **facts)
    return {name: protocol.document for name, protocol in made.items()}


@pytest.fixture(scope="module")
def originals() -> dict[str, str]:
    return {name: json.dumps(document) for name, document in documents().items()}


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    protocol = small_protocol(8, 4)
    return batch_of(protocol, submissions(protocol, 8), tmp_path_factory.mktemp("batch")).read_bytes()


def places(node: Any) -> Iterator[tuple[Any, ...]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, part in items:
        yield (name,)
        yield from ((name, *rest) for rest in places(part))


def changed(original: str, place: tuple[Any, ...], value: Any) -> Any:
    document = json.loads(original)
    node = document
    for step in place[:-1]:
        node = node[step]
    node[place[-1]] = value
    return document


def read_or_refused(document: Any) -> bool:
    try:
        Protocol.from_document(document)
    except SfumatoError:
        return False
    return True


NAMES = ("rr", "poisson", "negative-binomial", "3nb", "pure", "messages", "classes", "hashing", "product", "landmarks")
STATE = ("fingerprint", "group", "stage", "bytes", "participants", "batch", "more")
QUIET = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class TestProtocols:
    @QUIET
    @given(name=st.sampled_from(NAMES), place=st.integers(0, 10**6), value=VALUES)
    def test_any_field(self, originals: dict[str, str], name: str, place: int, value: Any) -> None:
        found = list(places(json.loads(originals[name])))
        read_or_refused(changed(originals[name], found[place % len(found)], value))

    @pytest.mark.parametrize("name", NAMES)
    def test_every_field_once(self, originals: dict[str, str], name: str) -> None:
        """Something odd at every place, another at each; the document itself is read."""
        assert read_or_refused(json.loads(originals[name]))
        for number, place in enumerate(places(json.loads(originals[name]))):
            for shift in range(3):
                read_or_refused(changed(originals[name], place, ODD[(7 * number + 19 * shift) % len(ODD)]))

    @pytest.mark.parametrize("name", ["rr", "poisson", "negative-binomial", "3nb", "pure", "messages"])
    def test_parameters_of_bit_sums(self, originals: dict[str, str], name: str) -> None:
        """These decide how long and how large the certificate is."""
        (group,) = json.loads(originals[name])["mechanism"]["groups"]
        for field in ("participants", "messages", *(("parameters", key) for key in group["parameters"])):
            steps = (field,) if isinstance(field, str) else field
            for odd in ODD:
                read_or_refused(changed(originals[name], ("mechanism", "groups", 0, *steps), odd))

    @QUIET
    @given(value=VALUES | st.dictionaries(st.sampled_from(["id", "public", "expires"]), VALUES))
    def test_keys(self, value: Any) -> None:
        try:
            check_key(value)
        except SfumatoError:
            return
        assert value is None

    def test_paths_are_told(self, originals: dict[str, str]) -> None:
        place = ("mechanism", "groups", 0, "parameters", "flip")
        with pytest.raises(SfumatoError, match=r"mechanism.groups\[0\].parameters.flip must be a positive fraction"):
            Protocol.from_document(changed(originals["rr"], place, "1/2"))
        with pytest.raises(SfumatoError, match="group.messages must be a whole number"):
            Group.from_document(json.loads(originals["rr"])["mechanism"]["groups"][0] | {"messages": 0})


class TestFiles:
    @QUIET
    @given(name=st.sampled_from(["fingerprint", "group", "participants", "messages", "more"]), value=VALUES)
    def test_headers(self, batch: bytes, tmp_path: Path, name: str, value: Any) -> None:
        start = len(b"sfumato-batch-1\n")
        size = int.from_bytes(batch[start : start + 4], "little")
        header = json.loads(batch[start + 4 : start + 4 + size]) | {name: value}
        text = json.dumps(header).encode()
        content = batch[:start] + len(text).to_bytes(4, "little") + text + batch[start + 4 + size : -32]
        (tmp_path / "batch").write_bytes(content + hashlib.sha256(content).digest())
        try:
            _ = read_header(tmp_path / "batch").context.info
            assert sum(map(len, read_batch(tmp_path / "batch")))
            small_protocol(8, 4).analyzer(KEY).analyze(tmp_path / "batch")
        except SfumatoError:
            return

    @QUIET
    @given(data=st.data())
    def test_spoilt_batches(self, batch: bytes, tmp_path: Path, data: st.DataObject) -> None:
        content = bytearray(batch)
        for at in data.draw(st.lists(st.integers(0, 200), max_size=5)):
            content[at] = data.draw(st.integers(0, 255))
        (tmp_path / "batch").write_bytes(content[: data.draw(st.integers(0, len(content)))])
        try:
            for _ in read_batch(tmp_path / "batch"):
                pass
        except SfumatoError:
            return

    @QUIET
    @given(
        name=st.sampled_from(["fingerprint", "group", "stage", "bytes", "participants", "batch", "more"]), value=VALUES
    )
    def test_states(self, tmp_path: Path, name: str, value: Any) -> None:
        """A stage with a right checksum that says something odd."""
        protocol, folder = small_protocol(8, 4), tmp_path / "inbox"
        with Shuffler(folder, protocol):
            pass
        state = json.loads((folder / "state.json").read_text())
        original = (folder / "state.json").read_bytes()
        del state["checksum"]
        state[name] = value
        checksum = hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
        (folder / "state.json").write_text(json.dumps({**state, "checksum": checksum}))
        try:
            with Shuffler(folder, protocol) as shuffler:
                assert shuffler.participants == 0
        except SfumatoError:
            pass
        (folder / "state.json").write_bytes(original)

    @QUIET
    @given(content=st.binary(max_size=400), kept=st.integers(0, 600))
    def test_inboxes(self, tmp_path: Path, content: bytes, kept: int) -> None:
        protocol, folder = small_protocol(8, 4), tmp_path / "inbox"
        with Shuffler(folder, protocol) as shuffler:
            if not shuffler.participants:
                shuffler.receive(*submissions(protocol, 2))
        original = (folder / "inbox").read_bytes()
        (folder / "inbox").write_bytes(original[:kept] + content)
        try:
            with Shuffler(folder, protocol) as again:
                assert again.participants in (0, 1, 2)
        except SfumatoError:
            pass
        (folder / "inbox").write_bytes(original)

    def test_a_deep_state(self, tmp_path: Path) -> None:
        with Shuffler(tmp_path / "inbox", small_protocol(8, 4)):
            pass
        (tmp_path / "inbox" / "state.json").write_text("[" * 9000)
        with pytest.raises(SfumatoError, match="is damaged"):
            Shuffler(tmp_path / "inbox", small_protocol(8, 4))


def test_too_little_noise_is_never_certified() -> None:
    """Flips so rare that probabilities vanish: nothing that cannot be computed counts as private."""
    document = small_protocol(8, 4).document
    for power in range(30, 119, 7):
        mutated = changed(json.dumps(document), ("mechanism", "groups", 0, "parameters", "flip"), f"1/{2**power}")
        assert not read_or_refused(mutated)
    assert np.isfinite(small_protocol(8, 4).groups[0].bitsum.variance)
