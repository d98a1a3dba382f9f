"""How fast clients report, a collector reads and a collection is simulated, on one core.

Settings: `kernels` (tables with `kernel` and `bandwidth`), `epsilon`, `d`, `participants`, `client_reports`,
`file_reports` and `simulated`.

Each row is CPU time of one run in one thread, after a first small run that pays for tables and compilation. Clients
make `client_reports` reports of points of `d` columns. The collector reads a file of `file_reports` reports, with its
state on disk: every report is checked, looked up among those seen, written with the checkpoints, and counted for a
release. Simulated are `simulated` people of `d` columns.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.kinds import Measurement, Settings, Unit
from sfumato.local import Protocol

SEED = 1
WARM_UP = 100
COLUMNS = {
    "mechanism": "mechanism",
    "cpu_seconds": "CPU s",
    "per_second": "a second",
    "bytes": "bytes a report",
}


def units(settings: Settings) -> Sequence[Unit]:
    return list(settings["kernels"])


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    d = settings["d"]
    protocol = Protocol(
        unit["kernel"],
        d,
        settings["epsilon"],
        settings["participants"],
        bandwidth=unit["bandwidth"],
        bounds=(0, 1),
        seed=SEED,
    )
    timed = {
        "client": (settings["client_reports"], _client(protocol, settings["client_reports"])),
        "collector": (settings["file_reports"], _collector(protocol, settings["file_reports"])),
        "simulation": (settings["simulated"], _simulation(protocol, settings["simulated"])),
    }
    for label, (count, seconds) in timed.items():
        values = {
            "mechanism": f"{protocol.mechanism}, {unit['kernel']}",
            "cpu_seconds": seconds,
            "per_second": count / seconds,
            "bytes": protocol.client().report_bytes,
        }
        yield Measurement(label, values, {"set": "uniform", "n": count, "d": d}, [SEED])


def _client(protocol: Protocol, count: int) -> float:
    source, client = random.Random(SEED), protocol.client()
    points = [[source.random() for _ in range(protocol.document["dimension"])] for _ in range(WARM_UP)]

    def run(reports: int) -> None:
        for i in range(reports):
            client.report(points[i % WARM_UP])

    return _seconds(run, count)


def _collector(protocol: Protocol, count: int) -> float:
    device = protocol.server().device
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "reports.bin")

        def run(reports: int) -> None:
            state = Path(folder, f"state-{reports}")
            collector = protocol.collector(state)
            collector.add(path if reports == count else content[: 16 * reports])
            collector.release()

        content = _reports(protocol, device, count)
        path.write_bytes(content)
        return _seconds(run, count)


def _reports(protocol: Protocol, device: object, count: int) -> bytes:
    """Reports with random identities, rows and digits, as clients with any points would send them."""
    groups, codes = device.groups, device.outcomes**device.rows_each  # type: ignore[attr-defined]
    generator = np.random.default_rng(SEED)
    table = np.empty((count, 16), dtype=np.uint8)
    table[:, :4] = np.frombuffer(bytes.fromhex(protocol.fingerprint)[:4], dtype=np.uint8)
    table[:, 4:10] = generator.integers(0, 256, (count, 6))
    table[:, 10:12] = generator.integers(0, groups, count).astype("<u2").view(np.uint8).reshape(count, 2)
    table[:, 12:] = generator.integers(0, codes, count).astype("<u4").view(np.uint8).reshape(count, 4)
    return table.tobytes()


def _simulation(protocol: Protocol, count: int) -> float:
    points = np.random.default_rng(SEED).random((count, protocol.document["dimension"]), dtype=np.float32)

    def run(people: int) -> None:
        protocol.simulate(points[:people], random_state=SEED)

    return _seconds(run, count)


def _seconds(run: Callable[[int], None], count: int) -> float:
    run(WARM_UP)
    start = time.process_time()
    run(count)
    return time.process_time() - start
