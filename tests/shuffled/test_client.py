"""A device takes part once, within its limits, and draws its class once, also after a restart; keys that are none."""

from __future__ import annotations

import copy
import json
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.errors import BudgetError, InputError, LedgerError
from sfumato.local.account import DeviceAccount
from sfumato.privacy import process
from sfumato.shuffled import LabelResponse, Protocol
from sfumato.shuffled.client import check_before_class
from sfumato.shuffled.sealing import key_document, key_id
from tests.shuffled.collections_for_tests import KEY, client_of, small_protocol

# Points of order 1, 2, 4 and 8 of the curve and its twist, as X25519 reads them, and the same beyond the prime.
_PRIME = 2**255 - 19
_EIGHT = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
LOW_ORDER = [0, 1, _PRIME - 1, _PRIME, _PRIME + 1, *_EIGHT]


class TestAccount:
    def test_a_second_process_is_refused(self, tmp_path: Path) -> None:
        small_protocol().save(tmp_path / "p.json")
        ledger = tmp_path / "account.json"
        client_of(Protocol.load(tmp_path / "p.json"), ledger=ledger, budget=20).messages([0.0])
        assert DeviceAccount(ledger, 20).spent == 4
        again = client_of(Protocol.load(tmp_path / "p.json"), ledger=ledger, budget=20)
        with pytest.raises(InputError, match="this device answered before"):
            again.messages([1.0])
        assert DeviceAccount(ledger, 20).spent == 4

    def test_collections_add_up(self, tmp_path: Path) -> None:
        ledger = tmp_path / "account.json"
        client_of(small_protocol(8), ledger=ledger, budget=9).messages([0.0])
        client_of(small_protocol(9), ledger=ledger, budget=9).messages([0.0])
        with pytest.raises(BudgetError):
            client_of(small_protocol(10), ledger=ledger, budget=9).messages([0.0])
        assert DeviceAccount(ledger, 9).spent == 8

    def test_what_is_refused_costs_nothing(self, tmp_path: Path) -> None:
        ledger = tmp_path / "account.json"
        client = client_of(small_protocol(), ledger=ledger, budget=9)
        with pytest.raises(InputError, match="points must"):
            client.messages([0.0, 1.0])
        assert not ledger.exists()
        client.messages([0.0])

    def test_a_process_that_may_not_seal_pays_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The first processes of two copied containers have one id; there nothing can be sealed."""
        protocol = small_protocol(classes=("a", "b"), label_epsilon=5, threat="model")
        account = DeviceAccount(tmp_path / "account.json", 20)
        client = client_of(protocol, "a", ledger=account.path, budget=20)
        with monkeypatch.context() as patched:
            patched.setattr(process, "_drawing", (os.getpid(), 0, b"another copy"))
            with pytest.raises(InputError, match="started anew"):
                check_before_class(protocol, account, 50, 0.1)  # before the class is paid
            with pytest.raises(InputError, match="started anew"):
                client.messages([0.0])
        assert account.spent == 0
        client.messages([0.0])  # nor was the person locked out

    @pytest.mark.parametrize("options", [{"ledger": "account.json"}, {"budget": 3}])
    def test_an_account_has_a_budget_of_its_own(self, options: dict[str, Any]) -> None:
        with pytest.raises(InputError, match="pass both"):
            client_of(small_protocol(), **options)


def test_two_threads_take_part_once() -> None:
    """Without an account on disk too: the second waits until the first has made its messages, and is refused."""
    client, both = client_of(small_protocol()), threading.Barrier(2)

    class Point:
        def __array__(self, *_: object, **options: object) -> Any:
            with suppress(threading.BrokenBarrierError):
                both.wait(1)  # of two threads that are both past the check
            return np.array([0.0], dtype=object)

    def take_part(_: int) -> bool:
        try:
            return len(client.messages(Point())) > 0
        except InputError as refused:
            return "made already" not in str(refused)

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(take_part, range(2))) == [False, True]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_participant_has_no_copies(duplicate: Any) -> None:
    """A copy that was made before would send a second set of messages."""
    with pytest.raises(TypeError, match="a second set costs more"):
        duplicate(client_of(small_protocol()))


class TestLimits:
    def test_a_truthful_document_that_promises_nothing(self) -> None:
        options: dict[str, Any] = {"bandwidth": 1.0, "dimension": 1, "participants": 8, "instances": 4, "key": KEY}
        protocol = Protocol("gaussian", epsilon="1/1000", delta=0.99, **options)
        with pytest.raises(InputError, match="may fail with probability 0.99, and this device allows 0.0001"):
            protocol.client()
        assert len(protocol.client(max_delta=0.99).messages([0.0])) == 4

    def test_the_class_counts(self) -> None:
        protocol = small_protocol(classes=("a", "b"), label_epsilon=5, threat="model")
        with pytest.raises(InputError, match="costs an epsilon of 9, and this device allows 8"):
            protocol.client("a", max_delta=1e-2)
        assert protocol.client("a", max_epsilon=9, max_delta=1e-2)
        protocol.simulate([[0.0]] * 200, ["a", "b"] * 100)  # no device, no limit


class TestLabels:
    def test_the_answer_is_kept(self, tmp_path: Path) -> None:
        path, classes = tmp_path / "account.json", tuple(range(300))
        first = LabelResponse(classes, 1).answer(7, DeviceAccount(path, 20), "survey")
        for asked in (LabelResponse(classes, 1), LabelResponse(classes[::-1], 1), LabelResponse(classes, 3)):
            for label in (7, 8):
                account = DeviceAccount(path, 20)
                assert asked.price(account, "survey") == 0
                assert asked.answer(label, account, "survey") == first
        assert DeviceAccount(path, 20).spent == 1

    def test_every_collection_asks_anew(self, tmp_path: Path) -> None:
        account, response = DeviceAccount(tmp_path / "account.json", 100), LabelResponse(("a", "b"), 1)
        answers = {response.answer("a", account, f"survey {number}") for number in range(64)}
        assert answers == {"a", "b"}  # by mistake with a probability below 2e-9: the true one has 0.73
        assert account.spent == 64
        LabelResponse(("a", "c"), Fraction(1, 2)).answer("c", account, "survey 1")  # other classes
        assert account.spent == Fraction(129, 2)

    def test_numbers_and_texts_are_different_classes(self, tmp_path: Path) -> None:
        account = DeviceAccount(tmp_path / "account.json", 20)
        LabelResponse((1, 2), 3).answer(1, account, "survey")
        LabelResponse(("1", "2"), 3).answer("1", account, "survey")
        assert account.spent == 6

    def test_an_unknown_class_costs_nothing(self, tmp_path: Path) -> None:
        account = DeviceAccount(tmp_path / "account.json", 20)
        with pytest.raises(InputError, match="is not one of"):
            LabelResponse(("a", "b"), 3).answer("c", account, "survey")
        assert account.spent == 0

    def test_an_account_that_was_altered_is_told(self, tmp_path: Path) -> None:
        account, response = DeviceAccount(tmp_path / "account.json", 20), LabelResponse(("a", "b"), 3)
        account.remembered(response._question("survey"), (), Fraction(0), lambda _: b"\xff\xff")
        with pytest.raises(LedgerError, match="no class of the protocol"):
            response.answer("a", account, "survey")

    def test_over_the_budget(self, tmp_path: Path) -> None:
        with pytest.raises(BudgetError):
            LabelResponse(("a", "b"), 3).answer("a", DeviceAccount(tmp_path / "account.json", 2), "survey")


class TestKeys:
    @pytest.mark.parametrize("number", LOW_ORDER)
    @pytest.mark.parametrize("top", [0, 1 << 255])
    def test_points_of_low_order(self, number: int, top: int) -> None:
        """Whatever is sealed to such a key anybody can open: refused where it is made and where it is read."""
        public = (number | top).to_bytes(32, "little")
        with pytest.raises(InputError, match="anybody can open what is sealed to it"):
            small_protocol().with_key(public)
        with pytest.raises(InputError, match="anybody can open what is sealed to it"):
            key_document(public, None)
        document = json.loads(json.dumps(small_protocol().document))
        document["mechanism"]["key"].update(id=key_id(public), public=public.hex())
        with pytest.raises(InputError, match="anybody can open what is sealed to it"):
            Protocol.from_document(document)

    @pytest.mark.parametrize("key", ["00" * 32, 7, None, bytearray(32)])
    def test_what_is_no_key(self, key: Any) -> None:
        if key is None:
            assert key_document(None, None) is None
            return
        with pytest.raises(InputError, match="key must be an AnalyzerKey or the 32 bytes"):
            key_document(key, None)

    def test_a_key(self) -> None:
        assert key_document(KEY.public, None) == {"id": KEY.id, "public": KEY.public.hex(), "expires": None}
