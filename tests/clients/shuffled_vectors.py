"""Vectors of shuffled devices: features, plaintexts from fixed coins, sealing, submissions, labels, and refusals."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.kernels import Cauchy, Gaussian, Kernel, Laplacian
from sfumato.privacy.bits import SecureBits
from sfumato.public.canonical_json import exact
from sfumato.quantizers.cosines import PUBLISHED_TABLES, cosine_table
from sfumato.shuffled import AnalyzerKey, Protocol
from sfumato.shuffled import client as clients
from sfumato.shuffled.client import Client
from sfumato.shuffled.labels import LabelResponse
from sfumato.shuffled.messages import Submission
from sfumato.shuffled.sealing import Context
from tests.clients.hpke import sealed
from tests.clients.local_vectors import DROP, changed

POINTS = [[0.0, 0.0], [0.25, 0.5], [1.0, -7.0], [0.1, 0.30000000000000004], [0.9, 1e300]]
MANY = 1000
BOX = {"bounds": (0, 1)}
CLASSES: list[list[Any]] = [[1, 2], ["a", "b", 3], ["ü", "'", '"']]
GIVEN: dict[str, tuple[Kernel, dict[str, Any]]] = {
    "fourier gaussian": (Gaussian(0.5), {"quantizer": "fourier"}),
    "fourier laplacian": (Laplacian([0.5, 1.5]), {"quantizer": "fourier", **BOX}),
    "fourier cauchy": (Cauchy(0.7), {"quantizer": "fourier", "bounds": [(-3, 2), (0, 1)]}),
    "lattice gaussian": (Gaussian(0.3), BOX),
    "lattice laplacian": (Laplacian([0.3, 0.6]), {"bounds": [(-1, 1), (0, 2)], "instances": 24}),
    "public classes": (Gaussian(0.3), {**BOX, "classes": ["a", "ü", 3]}),
    "private classes": (Gaussian(0.3), {**BOX, "classes": ["it's", "b", 7], "label_epsilon": "3/2"}),
    "private classes, model": (Gaussian(0.3), {**BOX, "classes": [1, 2], "label_epsilon": 1, "threat": "model"}),
    "poisson": (Gaussian(0.3), {**BOX, "bitsum": "poisson"}),
    "negative-binomial": (Gaussian(0.3), {**BOX, "bitsum": "negative-binomial"}),
    "3nb": (Gaussian(0.3), {**BOX, "bitsum": "3nb"}),
    "message budget": (Gaussian(0.3), {**BOX, "messages": 4}),
    "message budget, cover": (Gaussian(0.3), {**BOX, "messages": 3, "participants": 400, "instances": 16}),
    "pure": (Gaussian(0.3), {**BOX, "bitsum": "pure", "epsilon": 8, "delta": 0.0, "instances": 2}),
    "published rr": (Gaussian(0.3), {**BOX, "bitsum": "rr-published", "participants": 5000, "epsilon": 4}),
}


def key() -> AnalyzerKey:
    """Return a key that is public, and of no use but this."""
    return AnalyzerKey(_fixed("analyzer", 32))


def _fixed(name: str, size: int) -> bytes:
    return hashlib.shake_256(name.encode()).digest(size)


def _digest(table: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(table, dtype="<i8").data).hexdigest()


def protocols() -> dict[str, Protocol]:
    """One for each kind of features, bit sum and classes."""
    common: dict[str, Any] = {"epsilon": 2, "delta": 1e-5, "participants": 60, "instances": 8, "key": key(), "seed": 7}
    return {name: Protocol(kernel, dimension=2, **{**common, **own}) for name, (kernel, own) in GIVEN.items()}


def shuffled_vectors(stored: dict[str, dict[str, Any]] | None = None) -> dict[str, Any]:
    """All of them, of new documents or of those that are stored."""
    made = protocols() if stored is None else {name: Protocol.from_document(each) for name, each in stored.items()}
    return {
        "points": exact(POINTS),
        "tables": [
            [*name, hashlib.sha256(cosine_table(*name).astype("<i8").data).hexdigest()] for name in PUBLISHED_TABLES
        ],
        "protocols": [_protocol(name, protocol) for name, protocol in made.items()],
        "changed": list(_changed(made)),
        "sealed": [_sealed(number) for number in range(12)],
        "submissions": [_submission(count) for count in (0, 1, 2, 3, 40)],
        "labels": [_labels(classes, epsilon) for classes in CLASSES for epsilon in ("1/2", "1", "5")],
    }


def _protocol(name: str, protocol: Protocol) -> dict[str, Any]:
    label = None if protocol.classes is None else protocol.classes[1]
    points = protocol.features.points(np.array(POINTS))
    return {
        "name": name,
        "document": protocol.document,
        "fingerprint": protocol.fingerprint,
        "statement": protocol.guarantee().statement(),
        "epsilon": str(protocol.guarantee("communication").epsilon),
        "integers": protocol.quantizer.encode(points).tolist(),
        "label": label,
        "group": protocol.group(label)[0],
        "plaintexts": [_plaintexts(protocol, label, point, f"{name} {i}") for i, point in enumerate(POINTS)],
    }


def _plaintexts(protocol: Protocol, label: Any, point: list[float], coins: str) -> list[list[int]] | str:
    """Return what is sealed, in order; of very many messages the digest."""
    found: list[list[int]] = []

    def seal(instances: Any, contents: Any, public: bytes, context: Context) -> list[bytes]:
        found.extend([list(pair) for pair in zip(instances.tolist(), contents.tolist(), strict=True)])
        return []

    with mock.patch.object(clients, "seal", seal):
        Client(protocol, label).messages(point, secure=SecureBits.seeded(coins))
    return found if len(found) < MANY else _digest(found)


def _sealed(number: int) -> dict[str, Any]:
    context = Context(_fixed(f"protocol {number}", 32).hex(), number % 3)
    plaintext = (number * 1000).to_bytes(4, "little") + bytes([number % 2])
    ephemeral = _fixed(f"ephemeral {number}", 32)
    message = sealed(plaintext, key().public, context.info, ephemeral)
    assert key().open(message, context) == (number * 1000, number % 2)
    return {
        "public": key().public.hex(),
        "fingerprint": context.fingerprint,
        "group": context.group,
        "instance": number * 1000,
        "content": number % 2,
        "ephemeral": ephemeral.hex(),
        "message": message.hex(),
    }


def _submission(count: int) -> dict[str, Any]:
    messages = [_fixed(f"message {number}", 53) for number in range(count)]
    made = Submission(messages, _fixed("identity", 16))
    return {
        "identity": made.identity.hex(),
        "messages": [each.hex() for each in messages],
        "bytes": made.to_bytes().hex(),
    }


def _labels(classes: list[Any], epsilon: str) -> dict[str, Any]:
    response = LabelResponse(tuple(classes), Fraction(epsilon))
    codes = [response.report_codes(np.array([1]), SecureBits.seeded(f"label {i}")).tolist()[0] for i in range(8)]
    question = response._question("00" * 32)
    return {"classes": classes, "epsilon": epsilon, "keep": str(response.keep), "codes": codes, "question": question}


def _changed(made: dict[str, Protocol]) -> Iterator[dict[str, Any]]:
    for name, path, value in _CHANGES:
        document = changed(made[name].document, [([str(step) for step in path], value)], reseal=False)
        yield {"protocol": name, "path": path, "value": value, "refused": _refused(document)}

    for name, fields in _GROUP_CHANGES:
        first, *rest = made[name].document["mechanism"]["groups"]
        value = [{**first, **fields}, *rest]
        document = changed(made[name].document, [([_M, "groups"], value)], reseal=False)
        yield {"protocol": name, "path": [_M, "groups"], "value": value, "refused": _refused(document)}


def _refused(document: dict[str, Any]) -> str | None:
    try:
        Protocol.from_document(document).client(label=None)
    except SfumatoError as problem:
        return str(problem)
    return None


_M = "mechanism"
_CHANGES: list[tuple[str, list[Any], Any]] = [
    ("lattice gaussian", ["epsilon"], "1"),
    ("lattice gaussian", ["epsilon"], "60"),
    ("lattice gaussian", ["epsilon"], "2/2"),
    ("lattice gaussian", ["delta"], {"decimal": "9e-06"}),
    ("lattice gaussian", ["delta"], {"decimal": "0.0"}),
    ("lattice gaussian", ["delta"], {"decimal": "1.5"}),
    ("lattice gaussian", ["participants"], 61),
    ("lattice gaussian", ["nonce"], "00" * 32),
    ("lattice gaussian", ["guarantee", "epsilon"], "1"),
    ("lattice gaussian", ["guarantee", "conditions"], []),
    ("lattice gaussian", ["guarantee", "within"], "nothing"),
    ("lattice gaussian", [_M, "name"], "rows"),
    ("lattice gaussian", [_M, "bitsum"], "poisson"),
    ("lattice gaussian", [_M, "bitsum"], "nonsense"),
    ("lattice gaussian", [_M, "instances"], 10),
    ("lattice gaussian", [_M, "instances"], 0),
    ("lattice gaussian", [_M, "instances"], DROP),
    ("lattice gaussian", [_M, "threat"], "none"),
    ("lattice gaussian", [_M, "label_epsilon"], "1"),
    ("lattice gaussian", [_M, "key", "id"], "00" * 8),
    ("lattice gaussian", [_M, "key", "expires"], "tomorrow"),
    ("lattice gaussian", [_M, "key", "public"], "00"),
    ("lattice gaussian", [_M, "groups"], []),
    ("lattice gaussian", ["domain", "upper"], [{"decimal": "1.0"}, {"decimal": "2.0"}]),
    ("lattice gaussian", ["kernel", "kernel"], 5),
    ("lattice gaussian", [_M, "quantizer", "counted"], -1),
    ("lattice gaussian", [_M, "quantizer", "periods"], [{"decimal": "0.5"}, {"decimal": "0.5"}]),
    ("lattice gaussian", [_M, "quantizer", "more"], 1),
    ("lattice gaussian", [_M, "arrays", "modes", "shape"], [8, 1]),
    ("fourier gaussian", [_M, "quantizer", "layout"], "nonsense"),
    ("fourier gaussian", [_M, "quantizer", "table_bits"], 13),
    ("fourier gaussian", [_M, "quantizer", "phases", "fingerprint"], "00" * 32),
    ("fourier gaussian", [_M, "quantizer", "phases", "feature_seed"], "8"),
    ("fourier gaussian", [_M, "quantizer", "phases", "bits"], 51),
    ("fourier gaussian", [_M, "quantizer", "phases", "exponents"], [0]),
    ("private classes", [_M, "label_epsilon"], "2"),
    ("private classes", [_M, "label_epsilon"], None),
    ("poisson", [_M, "bitsum"], "rr"),
    ("message budget", ["epsilon"], "3/2"),
    ("message budget", [_M, "bitsum"], "3nb"),
    ("pure", ["epsilon"], "7"),
    ("pure", ["delta"], {"decimal": "1e-05"}),
    ("pure", [_M, "bitsum"], "3nb"),
]
_PURE = {"rate": "399/100", "drop": "1/30000", "copies": "150", "flood_shape": "18", "flood_rate": "3/250"}
_PURE_CHANGES: list[dict[str, str]] = [
    {},
    {"rate": "4"},
    {"rate": "3999/1000"},
    {"rate": "7/2"},
    {"drop": "1/1000000"},
    {"drop": "1"},
    {"copies": "100"},
    {"copies": "130"},
    {"copies": "135"},
    {"copies": "0"},
    {"copies": "5000"},
    {"copies": "1125899906842624"},
    {"flood_shape": "1"},
    {"flood_shape": "2"},
    {"flood_shape": "4096"},
    {"flood_shape": "4097"},
    {"flood_rate": "1/10"},
    {"flood_rate": "1/1000"},
]
# Fields of the first group: a list has no names, so that the whole of it is changed.
_GROUP_CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("lattice gaussian", {"participants": 59}),
    ("lattice gaussian", {"participants": 0}),
    ("lattice gaussian", {"messages": 7}),
    ("lattice gaussian", {"messages": 9}),
    ("lattice gaussian", {"label": "a"}),
    ("lattice gaussian", {"label": True}),
    ("lattice gaussian", {"bitsum": "nonsense"}),
    ("lattice gaussian", {"parameters": {"flip": "1/2"}}),
    ("lattice gaussian", {"parameters": {"flip": "1/3"}}),
    ("lattice gaussian", {"parameters": {"flip": "1/10"}}),
    ("lattice gaussian", {"parameters": {}}),
    ("poisson", {"messages": 20}),
    ("poisson", {"parameters": {"mean": "10"}}),
    ("negative-binomial", {"parameters": {"shape": "64", "rate": "2"}}),
    ("negative-binomial", {"parameters": {"shape": "064", "rate": "2"}}),
    ("message budget", {"messages": 7}),
    ("message budget", {"messages": 100}),
    ("message budget", {"parameters": {"flip": "1/7", "send": "1/2"}}),
    ("message budget", {"parameters": {"flip": "1/5", "send": "1/2"}}),
    ("message budget", {"parameters": {"flip": "1/5", "send": "1"}}),
    ("message budget", {"parameters": {"flip": "1/5"}}),
    ("message budget", {"bitsum": "rr"}),
    ("message budget, cover", {"messages": 8}),
    ("message budget, cover", {"messages": 16}),
    ("pure", {"messages": 17_000}),
    ("pure", {"messages": 20_000}),
    ("pure", {"bitsum": "3nb"}),
    *(("pure", {"messages": 1_000_000, "parameters": {**_PURE, **fields}}) for fields in _PURE_CHANGES),
    ("3nb", {"parameters": {"rate": "2", "flood_shape": "32", "flood_rate": "1/100"}}),
]
