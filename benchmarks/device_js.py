"""Reports of the device in TypeScript, read by the collector and the analyzer: ``python -m benchmarks.device_js``.

Node makes so many reports of `rows`, of `phases` and of shuffled randomised response from made-up points
(`clients/js/tests/figures.ts`); Python accepts them, answers from them, and compares with the exact kernel sums and
with the exact law of the digits.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chi2

from sfumato.kernels import L2LSH, Gaussian, Kernel
from sfumato.local import Protocol
from sfumato.local.pooled import Phases, PoolDevice
from sfumato.public.document import save
from sfumato.release import Release
from sfumato.services.wire import frames
from sfumato.shuffled import AnalyzerKey, Shuffler, Submission
from sfumato.shuffled import Protocol as ShuffledProtocol

Points = np.ndarray[Any, Any]
CLIENT = Path(__file__).parents[1] / "clients" / "js"
QUERIES = np.array([[0.3, 0.4], [0.5, 0.5], [0.7, 0.6], [0.2, 0.8], [0.9, 0.1]])
BLOCK = 1 << 15


def made_by_node(document: dict[str, Any], points: Points, folder: Path) -> tuple[list[bytes], dict[str, float]]:
    """Have Node make one report for each point; return them, and how many milliseconds it took."""
    save(document, folder / "protocol.json", overwrite=True)
    points.astype("<f8").tofile(folder / "points")
    command = ["node", str(CLIENT / "dist" / "figures.mjs")]
    arguments = [folder / "protocol.json", folder / "points", len(points), folder / "frames"]
    done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, check=True)
    body = (folder / "frames").read_bytes()
    return _frames(body), json.loads(done.stdout)


def _frames(body: bytes) -> list[bytes]:
    """Cut a body of more frames than a server takes."""
    size = int.from_bytes(body[:4], "little") + 4
    return [frame for at in range(0, len(body), BLOCK * size) for frame in frames(body[at : at + BLOCK * size])]


def local(name: str, kernel: Kernel, points: Points, folder: Path) -> dict[str, Any]:
    """`rows` or `phases`."""
    protocol = Protocol(kernel, 2, epsilon=4, participants=len(points), mechanism=name, bounds=(0, 1))
    reports, times = made_by_node(protocol.document, points, folder)
    collector = protocol.collector()
    receipt = collector.add(reports)
    device = protocol.server().device
    assert isinstance(device, PoolDevice)
    return {
        **_told(name, times, collector.release(), kernel, points),
        "accepted": collector.reports,
        "refused": receipt.rejected,
        "bytes": len(reports[0]),
        **_digits(device, reports, points),
    }


def _digits(device: PoolDevice, reports: list[bytes], points: Points) -> dict[str, Any]:
    """Compare what each row reported, relative to the truth, with its exact law."""
    width = device.inside if isinstance(device, Phases) else 1
    counts = np.zeros(device.outcomes, dtype=np.int64)
    for report, point in zip(reports, points.tolist(), strict=True):
        X = device.lattice(device.prepared(point))
        group, code = int.from_bytes(report[10:12], "little"), int.from_bytes(report[12:16], "little")
        for i in range(device.rows_each):
            row = group * device.rows_each + i
            true = device.position(row, X) - width // 2 if isinstance(device, Phases) else device.hash.bucket(row, X)  # type: ignore[attr-defined]
            counts[(code % device.outcomes - true) % device.outcomes] += 1
            code //= device.outcomes
    weights = np.array([device.same] * width + [device.other] * (device.outcomes - width)) / device.total  # type: ignore[attr-defined]
    expected = counts.sum() * weights
    return _chi_square(float(((counts - expected) ** 2 / expected).sum()), device.outcomes - 1)


def _chi_square(value: float, freedom: int) -> dict[str, Any]:
    return {"chi-square": round(value, 1), "degrees of freedom": freedom, "p": round(float(chi2.sf(value, freedom)), 3)}


def _told(name: str, times: dict[str, float], release: Release, kernel: Kernel, points: Points) -> dict[str, Any]:
    answers, errors = release.query(QUERIES, return_std=True)
    exact = kernel.exact_density(points, QUERIES)
    deviations = [round(float(each), 2) for each in (answers - exact) / errors]
    told = {"ms to open": times["opened"], "ms each": times["each"], "processor ms each": times["processor"]}
    return {"mechanism": name, **told, "deviations": deviations}


def shuffled(points: Points, instances: int, folder: Path) -> dict[str, Any]:
    """Randomised response on a Fourier series."""
    kernel, key, n = Gaussian(0.4), AnalyzerKey.generate(), len(points)
    protocol = ShuffledProtocol(
        kernel, dimension=2, epsilon=2, delta=1e-6, participants=n, bounds=(0, 1), instances=instances, key=key
    )
    reports, times = made_by_node(protocol.document, points, folder)
    with Shuffler(folder / "shuffler", protocol) as shuffler:
        for start in range(0, n, 1000):
            shuffler.receive(*map(Submission.from_bytes, reports[start : start + 1000]))
        shuffler.shuffle(folder / "batch")
        accepted = shuffler.participants
    analyzer = protocol.analyzer(key)
    release = analyzer.analyze(folder / "batch")
    ones = analyzer.counts(folder / "batch")[0].ones
    largest, flip = protocol.features.largest, float(protocol.groups[0].bitsum.flip)  # type: ignore[attr-defined]
    chances = flip + (1 - 2 * flip) * (protocol.quantizer.encode(points) + largest) / (2 * largest)
    value = float(((ones - chances.sum(axis=0)) ** 2 / (chances * (1 - chances)).sum(axis=0)).sum())
    return {
        **_told("shuffled rr", times, release, kernel, points),
        "accepted": accepted,
        "bytes": len(reports[0]),
        "messages": protocol.groups[0].messages,
        **_chi_square(value, instances),
    }


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, default=20_000)
    parser.add_argument("--instances", type=int, default=8)
    parser.add_argument("--only", choices=["rows", "phases", "shuffled"])
    given = parser.parse_args()
    subprocess.run(["node", "build.mjs", "--figures"], cwd=CLIENT, check=True)
    rng = np.random.default_rng()
    points = np.clip(rng.normal([[0.4, 0.5]], 0.15, size=(given.reports, 2)), 0, 1)
    cases: dict[str, Callable[[Path], dict[str, Any]]] = {
        "rows": lambda folder: local("rows", L2LSH(0.4), points, folder),
        "phases": lambda folder: local("phases", Gaussian(0.4), points, folder),
        "shuffled": lambda folder: shuffled(points, given.instances, folder),
    }
    for name, case in cases.items():
        if given.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                print(json.dumps(case(Path(folder))), flush=True)


if __name__ == "__main__":
    main()
