"""Write the test vectors: `python -m tests.local.vectors.write`. Whoever ports a device compares with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sfumato.kernels import L1LSH, L2LSH, Angular, Cauchy, Gaussian, Hat, Jaccard, Kernel, Laplacian
from sfumato.local import Protocol
from sfumato.local.device import device_for
from sfumato.local.pooled import Phases, Rows
from sfumato.public.document import canonical, fingerprint
from sfumato.public.rows import LAWS, row_bytes

PATH = Path(__file__).with_name("devices.json")
WORDS = [0, 1, 65535, 65536, 2**31, 2**31 + 12345, 3_000_000_000, 2**32 - 1]
POINTS = [[0.0, 0.0, 0.0], [0.25, 0.5, 0.75], [1.0, 1.0, 1.0], [0.1, 0.9, 0.30000000000000004]]
ROWS = [0, 1, 77, 999]
KERNELS: list[tuple[Kernel, str]] = [
    *((kernel, "rows") for kernel in (L2LSH(0.25), L1LSH([0.25, 0.5, 1.0]), Laplacian(0.3), Hat(0.6))),
    *((kernel, "rows") for kernel in (Angular(), Angular(3), Jaccard())),
    *((kernel, "phases") for kernel in (Gaussian(0.25), Laplacian(0.3), Cauchy([0.2, 0.4, 0.8]))),
]


def device_vector(kernel: Kernel, mechanism: str) -> dict[str, Any]:
    """One protocol with the integers of some points in some rows."""
    bounds = None if isinstance(kernel, Angular | Jaccard) else (0, 1)
    protocol = Protocol(kernel, 3, 2, 1000, mechanism=mechanism, bounds=bounds, seed=2**255 + 19)
    device = device_for(protocol.document)
    assert isinstance(device, Rows | Phases)
    lattices = [device.lattice(device.domain.clip(point)) for point in POINTS]
    places = [[place(device, row, X) for row in ROWS] for X in lattices]
    return {
        "protocol": protocol.document,
        "canonical_length": len(canonical(protocol.document)),
        "fingerprint": fingerprint(protocol.document),
        "lattice": lattices,
        "places": places,
    }


def place(device: Rows | Phases, row: int, X: list[int]) -> int:
    """True bucket or position."""
    return device.hash.bucket(row, X) if isinstance(device, Rows) else device.position(row, X)


def vectors() -> dict[str, Any]:
    """All vectors, as this version computes them."""
    return {
        "row_bytes": {"seed": "ab" * 32, "label": "vector", "row": 5, "bytes": _row_bytes()},
        "words": WORDS,
        "numbers": {name: law.numbers(WORDS) for name, law in sorted(LAWS.items())},
        "points": POINTS,
        "rows": ROWS,
        "devices": [device_vector(kernel, mechanism) for kernel, mechanism in KERNELS],
    }


def _row_bytes() -> str:
    return row_bytes(bytes.fromhex("ab" * 32), "vector", 5, 40).hex()


if __name__ == "__main__":
    PATH.write_text(json.dumps(vectors(), indent=1, sort_keys=True) + "\n")
