"""Protocol documents: one canonical form, clear refusals."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import InputError
from sfumato.local import Protocol
from sfumato.public import document as documents


def made(**changes: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {"bandwidth": 0.5, "dimension": 2, "epsilon": 1, "participants": 50}
    arguments |= {"bounds": (0, 1), "seed": 3, **changes}
    return Protocol("l2-lsh", **arguments).document


def test_layout_and_order_do_not_change_the_fingerprint(tmp_path: Path) -> None:
    document = made()
    documents.save(document, tmp_path / "p.json")
    shuffled = dict(reversed(json.loads((tmp_path / "p.json").read_text()).items()))
    assert documents.fingerprint(shuffled) == documents.fingerprint(document)
    assert documents.load(tmp_path / "p.json", "local") == document


def test_everything_public_changes_the_fingerprint() -> None:
    changes = [{}, {"seed": 4}, {"epsilon": 2}, {"bandwidth": 0.51}, {"bounds": (0, 2)}, {"expires": "2030-01-01"}]
    assert len({documents.fingerprint(made(**change)) for change in changes}) == len(changes)


@pytest.mark.parametrize("value", [0.1, 1e-300, -2.5, 123456789.125, 1 / 3])
def test_decimals_come_back_to_the_bit(value: float) -> None:
    assert documents.plain(json.loads(json.dumps(documents.exact([value])))) == [value]


@pytest.mark.parametrize("text", ["1", "0.10", "nan", "1e400", "", None, "0x1p-3"])
def test_other_texts_are_no_decimals(text: Any) -> None:
    with pytest.raises(InputError, match="not a number as protocols write it"):
        documents.plain({"decimal": text})


def test_floats_are_refused() -> None:
    with pytest.raises(InputError, match="holds no float"):
        documents.canonical({"epsilon": 0.5})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "else"}, "not a protocol"),
        ({"version": 3}, "update sfumato"),
        ({"version": 1}, "ask the organiser for a new one"),
        ({"extra": 1}, "unknown fields"),
        ({"model": "shuffled"}, "not local"),
        ({"nonce": "12"}, "64 lower-case"),
        ({"seed": "12"}, "64 lower-case"),
        ({"dimension": 3}, "another number of columns"),
        ({"participants": 0}, "positive integer"),
        ({"expires": "soon"}, "no UTC time"),
        ({"mechanism": {}}, "does not name"),
        ({"epsilon": 1}, "fraction's text"),
        ({"domain": {"lower": []}}, "damaged"),
    ],
)
def test_damaged_documents_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Protocol.from_document(made() | change)


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": 1, "a": 2}', b"[1]", b"\xff", b"[" * 5000])
def test_files_that_are_none(content: bytes) -> None:
    with pytest.raises(InputError):
        documents.loads(content)


def test_expiry() -> None:
    document = made(expires="2030-01-31")
    assert document["expires"] == "2030-01-31T23:59:59Z"
    assert not documents.expired(document, datetime(2030, 1, 31, 12, tzinfo=UTC))
    assert documents.expired(document, datetime(2030, 2, 1, tzinfo=UTC))
    with pytest.raises(InputError, match="time zone"):
        made(expires=datetime(2030, 1, 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rehash": False}, "need a rehash"),
        ({"buckets": 1}, "mechanism.buckets must be a whole number from 2 to 64"),
        ({"buckets": 65}, "mechanism.buckets must be"),
        ({"family": "own"}, "mechanism.family must be one of"),
        ({"rows_each": 0}, "mechanism.rows_each must be a whole number"),
        ({"rows_each": 50}, "do not keep the epsilon"),
        ({"groups": 10**6}, "mechanism.groups must be"),
        ({"scales": []}, "mechanism.scales must be a list of 2 to 2 values"),
        ({"scales": [{"decimal": "1e+300"}] * 2}, r"mechanism.scales\[0\] must be"),
        ({"point_bits": 99}, "mechanism.point_bits must be"),
        ({"note": 1}, "mechanism has a field 'note' that is not known"),
        ({"power": 2}, "mechanism has a field 'power' that is not known"),
    ],
)
def test_hostile_parameters_are_refused_by_the_device(change: dict[str, Any], message: str) -> None:
    document = made()
    with pytest.raises(InputError, match=message):
        Protocol.from_document(document | {"mechanism": document["mechanism"] | change}).client()


def test_a_promise_must_be_what_is_spent() -> None:
    document = made()
    modest = document | {"guarantee": document["guarantee"] | {"epsilon": "1/2"}}
    with pytest.raises(InputError, match="another 'epsilon'"):
        Protocol.from_document(modest).client()


def test_one_changed_parameter_is_not_accepted_by_the_device() -> None:
    """A device checks the organiser's arithmetic: weights that break the promise are refused."""
    document = made()
    parameters = document["mechanism"]
    for change in ({"same": parameters["same"] + 1}, {"other": parameters["other"] - 1}):
        broken = document | {"mechanism": parameters | change}
        with pytest.raises(InputError, match="do not keep the epsilon"):
            Protocol.from_document(broken).client()
