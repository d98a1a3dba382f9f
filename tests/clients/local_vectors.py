"""Vectors of the local devices: whole reports from fixed coins, and what is refused with which words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.kernels import L1LSH, L2LSH, Angular, Cauchy, Gaussian, Hat, InnerProduct, Jaccard, Kernel, Laplacian
from sfumato.local import Protocol
from sfumato.local.client import Client
from sfumato.local.coins import Coins
from sfumato.privacy.guarantee import Guarantee, amount_text, promised_epsilon
from sfumato.public.canonical_json import exact, plain
from sfumato.public.document import fingerprint, sealed

POINTS = [[0.0, 0.0, 0.0], [0.25, 0.5, 0.75], [1.0, -7.0, 1e300], [0.1, 0.9, 0.30000000000000004], [0.5, 0.4, 0.3]]
ROUNDS = 3
LANDMARKS = [[0.1 * i, 0.2, 0.5 - 0.05 * i] for i in range(6)]
PLAIN: dict[str, tuple[str, Kernel]] = {
    "rows l2": ("rows", L2LSH(0.25)),
    "rows l1": ("rows", L1LSH([0.25, 0.5, 1.0])),
    "rows laplacian": ("rows", Laplacian(0.3)),
    "rows hat": ("rows", Hat(0.6)),
    "rows angular": ("rows", Angular()),
    "rows angular cubed": ("rows", Angular(3)),
    "rows jaccard": ("rows", Jaccard()),
    "phases gaussian": ("phases", Gaussian(0.25)),
    "phases laplacian": ("phases", Laplacian(0.3)),
    "phases cauchy": ("phases", Cauchy([0.2, 0.4, 0.8])),
    "metric-phases gaussian": ("metric-phases", Gaussian(0.5)),
    "metric-phases laplacian": ("metric-phases", Laplacian(0.5)),
    "metric-rows l2": ("metric-rows", L2LSH(0.5)),
    "metric-rows l1": ("metric-rows", L1LSH(0.5)),
    "vector inner product": ("vector", InnerProduct()),
    "vector landmarks": ("vector", Gaussian(0.5)),
    "vector landmarks laplacian": ("vector", Laplacian(0.5)),
    "vector landmarks cauchy": ("vector", Cauchy(0.5)),
}
Change = tuple[list[str], Any]
DROP = "(left out)"


def documents() -> dict[str, dict[str, Any]]:
    """One protocol for each mechanism and family."""
    made = {name: _document(*pair) for name, pair in PLAIN.items()}
    made["rows at epsilon 12"] = _document("rows", L2LSH(0.25), epsilon=12)
    made["rows at epsilon 1/3"] = _document("rows", L2LSH(0.25), epsilon="1/3", expires="2999-12-31")
    made["phases at epsilon 12"] = _document("phases", Gaussian(0.25), epsilon=12)
    made["vector coordinate"] = _document("vector", InnerProduct(), epsilon="1/4")
    made["metric-phases of arcs"] = _document("metric-phases", Gaussian(0.1), epsilon="1/2", radius=0.5)
    return made


def _document(mechanism: str, kernel: Kernel, **changes: Any) -> dict[str, Any]:
    bounds = None if isinstance(kernel, Angular | Jaccard) else (0, 1)
    options = {"landmarks": LANDMARKS} if mechanism == "vector" and not isinstance(kernel, InnerProduct) else None
    radius = 0.05 if mechanism.startswith("metric") else None
    given = {"epsilon": 2, "participants": 1000, "radius": radius, "bounds": bounds, "seed": 2**255 + 19}
    return Protocol(kernel, 3, mechanism=mechanism, options=options, **{**given, **changes}).document


def local_vectors() -> dict[str, Any]:
    """All of them."""
    made = documents()
    return {
        "points": exact(POINTS),
        "protocols": [
            {
                "name": name,
                "document": document,
                "fingerprint": fingerprint(document),
                "statement": Guarantee.from_document(plain(document["guarantee"])).statement(),
                "reports": _reports(name, document),
            }
            for name, document in made.items()
        ],
        "changed": list(_changed(made)),
        "limited": list(_limited(made)),
        "amounts": [[text, amount_text(promised_epsilon(text))] for text in _AMOUNTS],
        "texts": [[text, _parsed(text)] for text in _TEXTS],
    }


def _reports(name: str, document: dict[str, Any]) -> list[list[str]]:
    """One list a point, from coins that are named after both."""
    return [
        [
            Client(document, coins=Coins.seeded(f"{name} {place} {number}"), max_epsilon=12).report(point).hex()
            for number in range(ROUNDS)
        ]
        for place, point in enumerate(POINTS)
    ]


def changed(document: dict[str, Any], changes: list[Change], reseal: bool) -> dict[str, Any]:
    """Change a document by paths; the other suite does the same."""
    made = json.loads(json.dumps(document))
    for path, value in changes:
        part = made
        for step in path[:-1]:
            part = part[step]
        if value == DROP:
            del part[path[-1]]
        else:
            part[path[-1]] = value
    return sealed(made) if reseal else made


def _changed(made: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for name, path, value in _CHANGES:
        for reseal in (True, False) if len(path) > 1 else (True,):
            document = changed(made[name], [(path, value)], reseal)
            yield {
                "protocol": name,
                "path": path,
                "value": value,
                "reseal": reseal,
                "refused": _refused(document, max_epsilon=12),
            }


def _limited(made: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for name, most in [("rows l2", "1"), ("rows l2", "19/10"), ("rows l2", "2"), ("rows at epsilon 12", "4")]:
        yield {"protocol": name, "max_epsilon": most, "refused": _refused(made[name], max_epsilon=most)}


def _refused(document: dict[str, Any], **limits: Any) -> str | None:
    try:
        Client(document, **limits)
    except SfumatoError as problem:
        return str(problem)
    return None


def _parsed(text: str) -> str | None:
    from sfumato.public.canonical_json import canonical, parse

    try:
        return canonical(parse(text)).decode()
    except SfumatoError as problem:
        return f"refused: {problem}"


_TEXTS = [
    '{"b": [1, true, null], "a": {"\\u00e9": "\\n\\ud83d\\ude00"}}',
    '{"a": 123456789012345678901234567890}',
    '{"a": 1, "a": 2}',
    '{"\U0001f600": 1, "\uffff": 2, "z": 3}',
    '{"a": 0.5}',
    '{"a": 1e400}',
    '{"a": NaN}',
    '{"a": -Infinity}',
    '{"__proto__": 1, "constructor": 2}',
    "[" * 33 + "]" * 33,
    "[" * 31 + "]" * 31,
    " [ ] ",
    '"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0001\x7f"',
    str(2**1023),
    str(2**1023 - 1),
]
_AMOUNTS = ["1", "0.5", "1/3", "2/7", "0.000001", "0.0000001", "100", "12.3456789", "1000/999999", "123456789/987654"]
_GUARANTEE = "guarantee"
_MECHANISM = "mechanism"
_CHANGES: list[tuple[str, list[str], Any]] = [
    # The shared fields.
    *(("rows l2", [field], DROP) for field in ("format", "version", "nonce", "kernel", "expires", "domain")),
    ("rows l2", ["format"], "else"),
    ("rows l2", ["extra"], 1),
    ("rows l2", ["version"], 1),
    ("rows l2", ["version"], 3),
    ("rows l2", ["version"], True),
    ("rows l2", ["model"], "shuffled"),
    ("rows l2", ["model"], "central"),
    ("rows l2", ["dimension"], 0),
    ("rows l2", ["dimension"], 2),
    ("rows l2", ["dimension"], "3"),
    ("rows l2", ["participants"], 2**40),
    ("rows l2", ["participants"], None),
    ("rows l2", ["nonce"], "12"),
    ("rows l2", ["nonce"], "A" * 64),
    ("rows l2", ["kernel"], []),
    ("rows l2", ["guarantee"], "strong"),
    ("rows l2", ["mechanism"], None),
    ("rows l2", ["mechanism"], {}),
    ("rows l2", ["epsilon"], 2),
    ("rows l2", ["epsilon"], "4/2"),
    ("rows l2", ["epsilon"], "2.0"),
    ("rows l2", ["epsilon"], "0"),
    ("rows l2", ["epsilon"], "3"),
    ("rows l2", ["epsilon"], "1"),
    ("rows l2", ["epsilon"], "2000"),
    ("rows l2", ["epsilon"], "20000001/10000000"),
    ("rows l2", ["epsilon"], "9" * 300),
    ("rows l2", ["delta"], 0),
    ("rows l2", ["delta"], {"decimal": "0.1"}),
    ("rows l2", ["delta"], {"decimal": "1e-9"}),
    ("rows l2", ["expires"], "2027-01-31"),
    ("rows l2", ["expires"], "2027-02-30T00:00:00Z"),
    ("rows l2", ["expires"], 2027),
    ("rows l2", ["domain", "outside"], "drop"),
    ("rows l2", ["domain", "declared"], False),
    ("rows l2", ["domain", "declared"], 1),
    ("rows l2", ["domain", "lower"], []),
    ("rows l2", ["domain", "lower"], [{"decimal": "0.0"}, {"decimal": "0.0"}, {"decimal": "1.0"}]),
    ("rows l2", ["domain", "lower"], [{"decimal": "0.0"}, {"decimal": "0.0"}, {"decimal": "0.00"}]),
    ("rows l2", ["domain", "lower"], [{"decimal": "0.0"}, {"decimal": "0.0"}, 0]),
    ("rows l2", ["domain", "upper"], [{"decimal": "1.0"}, {"decimal": "1e+51"}, {"decimal": "1.0"}]),
    ("rows l2", ["domain", "upper"], [{"decimal": "1.0"}, {"decimal": "1e-51"}, {"decimal": "1.0"}]),
    ("rows l2", ["domain", "upper"], [{"decimal": "1.0"}, {"decimal": "1e+20"}, {"decimal": "1.0"}]),
    # Lies about the promise.
    *(
        ("rows l2", [_GUARANTEE, field], value)
        for field, value in [
            ("trust", "central"),
            ("neighbours", "add-remove"),
            ("unit", "user"),
            ("epsilon", "1/2"),
            ("delta", {"decimal": "0.1"}),
            ("delta", None),
            ("n_public", False),
            ("n_public", 1),
            ("within", "points within 0.9 of each other"),
            ("private", "yes"),
            ("conditions", []),
            ("conditions", DROP),
            ("note", "nobody keeps reports"),
            ("note", "é ☃ 😀" * 60),
        ]
    ),
    ("metric-phases gaussian", [_GUARANTEE, "within"], "points within 0.06 of each other"),
    ("metric-phases gaussian", [_GUARANTEE, "within"], DROP),
    # Parameters that do not keep it, or mean nothing.
    ("rows l2", [_MECHANISM, "name"], "nonsense"),
    ("rows l2", [_MECHANISM, "name"], "phases"),
    ("rows l2", [_MECHANISM, "same"], 10**9),
    ("rows l2", [_MECHANISM, "same"], 7748023),  # one more than e^2 allows, for other = 2^20
    ("rows l2", [_MECHANISM, "same"], 0),
    ("rows l2", [_MECHANISM, "same"], "5"),
    ("rows l2", [_MECHANISM, "other"], 0),
    ("rows l2", [_MECHANISM, "other"], 2**62),
    ("rows l2", [_MECHANISM, "groups"], 0),
    ("rows l2", [_MECHANISM, "groups"], 2**16 + 1),
    ("rows l2", [_MECHANISM, "rows_each"], 2),
    ("rows l2", [_MECHANISM, "rows_each"], 2**16),
    ("rows l2", [_MECHANISM, "buckets"], 65),
    ("rows l2", [_MECHANISM, "buckets"], 1),
    ("rows l2", [_MECHANISM, "rehash"], False),
    ("rows l2", [_MECHANISM, "rehash"], 0),
    ("rows l2", [_MECHANISM, "family"], "grid"),
    ("rows l2", [_MECHANISM, "family"], "nonsense"),
    ("rows l2", [_MECHANISM, "family"], DROP),
    ("rows l2", [_MECHANISM, "law"], "laplace"),
    ("rows l2", [_MECHANISM, "origin"], "corner"),
    ("rows l2", [_MECHANISM, "scales"], []),
    ("rows l2", [_MECHANISM, "scales"], [{"decimal": "0.0"}] * 3),
    ("rows l2", [_MECHANISM, "scales"], [{"decimal": "1e+30"}] * 3),
    ("rows l2", [_MECHANISM, "scales"], [{"decimal": "1e+200"}] * 3),
    ("rows l2", [_MECHANISM, "point_bits"], 31),
    ("rows l2", [_MECHANISM, "more"], 2**63),
    ("rows angular cubed", [_MECHANISM, "power"], 2),
    ("rows angular cubed", [_MECHANISM, "power"], 33),
    ("rows angular", [_MECHANISM, "rehash"], True),
    ("phases gaussian", [_MECHANISM, "inside"], 2),
    ("phases gaussian", [_MECHANISM, "inside"], 256),
    ("phases gaussian", [_MECHANISM, "law"], "nonsense"),
    ("phases gaussian", [_MECHANISM, "law"], "cauchy"),
    ("phases gaussian", [_MECHANISM, "point_bits"], 0),
    ("phases gaussian", [_MECHANISM, "rows_each"], 5),
    ("metric-phases gaussian", [_MECHANISM, "radius"], {"decimal": "0.06"}),
    ("metric-phases gaussian", [_MECHANISM, "radius"], {"decimal": "1e-07"}),
    ("metric-phases gaussian", [_MECHANISM, "radius"], {"decimal": "-1.0"}),
    ("metric-phases gaussian", [_MECHANISM, "radius"], "0.05"),
    ("metric-phases gaussian", [_MECHANISM, "largest"], -1),
    ("metric-rows l2", [_MECHANISM, "least"], 0),
    ("metric-rows l2", [_MECHANISM, "radius"], {"decimal": "1e-08"}),
    ("metric-rows l2", [_MECHANISM, "family"], "minhash"),
    ("vector inner product", [_MECHANISM, "randomiser"], "nonsense"),
    ("vector inner product", [_MECHANISM, "randomiser"], "coordinate"),
    ("vector inner product", [_MECHANISM, "likely"], 129),
    ("vector inner product", [_MECHANISM, "same"], 2**61),
    ("vector inner product", [_MECHANISM, "gain"], {"decimal": "0.0"}),
    ("vector inner product", ["kernel", "radius"], {"decimal": "0.0"}),
    ("vector landmarks", [_MECHANISM, "landmarks"], []),
    ("vector landmarks", [_MECHANISM, "projection"], [[{"decimal": "0.0"}]]),
    ("vector landmarks", [_MECHANISM, "bias"], {"decimal": "-0.5"}),
    ("vector landmarks", ["kernel", "kernel"], "nonsense"),
    ("vector landmarks", ["kernel", "bandwidth"], {"decimal": "0.0"}),
    ("vector coordinate", [_MECHANISM, "range"], 0),
]
