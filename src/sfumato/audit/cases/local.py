"""Exact audits of `rows` and `phases`: the law of every payload, for every two of many points.

The devices run as they are, under protocols whose integer weights are small enough for all coins to be listed; the
weights of real protocols differ in size only, and `keeps_epsilon` checks them when a device loads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.audit import Case, register_audit
from sfumato.audit.cases.enumeration import enumerated_case
from sfumato.kernels import L1LSH, L2LSH, Angular, Gaussian, Kernel, Laplacian
from sfumato.local.protocol import Protocol
from sfumato.local.registry import device_for
from sfumato.privacy.response import same_weight

SEED = f"{11:064x}"
POINTS = ((0.0, 0.0), (1.0, 1.0), (1.0, 0.0), (0.5, 0.5), (0.51, 0.5), (0.25, 0.9), (float("nan"), 7.0))
# epsilon / rows_each has to come out, so that the bound is close: e is about 19/7, e^(1/2) about 28/17.
SMALL_OTHER = {1: 7, 2: 17}


def small_protocol(
    kernel: Kernel, mechanism: str, epsilon: int, rows_each: int, groups: int, **options: Any
) -> dict[str, Any]:
    """Return a protocol of two columns whose coins can all be listed."""
    protocol = Protocol(
        kernel,
        dimension=2,
        epsilon=epsilon,
        participants=100,
        mechanism=mechanism,
        bounds=(0, 1),
        options={"rows_each": rows_each, "pool": groups * rows_each, **options},
    )
    document = protocol.document
    other = SMALL_OTHER[rows_each]
    share = device_for(document).epsilon / rows_each
    small = {"same": same_weight(share, other), "other": other}
    mechanism_document: Mapping[str, Any] = document["mechanism"]
    # Whatever a protocol says, its few hash functions are to tell the points apart.
    return document | {"mechanism": {**mechanism_document, **small}, "seed": SEED}


def rows_cases() -> list[Case]:
    """Several hash families, one and two rows each."""
    documents = {
        "l2-lsh, 1 row": small_protocol(L2LSH(0.5), "rows", 1, 1, 3, buckets=4),
        "l1-lsh, 1 row": small_protocol(L1LSH(0.5), "rows", 1, 1, 3, buckets=5),
        "l2-lsh, 2 rows": small_protocol(L2LSH(0.2), "rows", 1, 2, 1, buckets=3),
        "laplacian, 1 row": small_protocol(Laplacian(0.3), "rows", 1, 1, 3, buckets=4),
        "angular, 1 row": small_protocol(Angular(), "rows", 1, 1, 3),
    }
    return [enumerated_case(name, device_for(document), POINTS) for name, document in documents.items()]


def phases_cases() -> list[Case]:
    """Arcs of one row."""
    documents = {
        "gaussian, 1 row": small_protocol(Gaussian(0.3), "phases", 1, 1, 1),
        "laplacian, 1 row": small_protocol(Laplacian(0.1), "phases", 1, 1, 1),
    }
    return [enumerated_case(name, device_for(document), POINTS) for name, document in documents.items()]


register_audit("rows", rows_cases)
register_audit("phases", phases_cases)
