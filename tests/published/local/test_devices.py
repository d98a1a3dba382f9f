"""All published mechanisms from client to release, and devices without anything but the standard library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.kernels import L2LSH, Angular, Gaussian, InnerProduct, Kernel
from sfumato.local import Protocol

LANDMARKS = np.random.default_rng(1).uniform(0, 1, (10, 3))
MECHANISMS: list[tuple[str, Kernel, dict[str, Any]]] = [
    ("mldp-kde", L2LSH(0.5), {}),
    ("fkm-lr", Angular(), {}),
    ("fkm-ll", Angular(), {"rows": 20}),
    ("race", L2LSH(0.5), {"not_private": True, "rows": 20}),
    ("dm", Gaussian(0.5), {}),
    ("pm", Gaussian(0.5), {}),
    ("sw", Gaussian(0.5), {}),
    ("gi", Gaussian(0.5), {}),
    ("metric-phases", Gaussian(0.5), {}),
    ("metric-rows", L2LSH(0.5), {}),
    ("vector", InnerProduct(), {}),
    ("vector", Gaussian(0.5), {"landmarks": LANDMARKS}),
]
BARE = """
import json, sys
HEAVY = {"numpy", "scipy", "numba", "sklearn", "cryptography", "pandas", "pyarrow"}
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in HEAVY:
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
from sfumato.local.client import Client
for path in sys.argv[1:]:
    with open(path) as file:
        Client(json.load(file), not_private=True).report([0.2, 0.4, 0.6])
"""


def protocol(name: str, kernel: Kernel, options: dict[str, Any]) -> Protocol:
    return Protocol(kernel, 3, 2, 50, mechanism=name, radius=0.1, bounds=(0, 1), seed=1, options=options)


@pytest.mark.parametrize(("name", "kernel", "options"), MECHANISMS)
def test_from_client_to_release(name: str, kernel: Kernel, options: dict[str, Any]) -> None:
    made = protocol(name, kernel, options)
    client, points = made.client(not_private=name == "race"), np.random.default_rng(2).uniform(0, 1, (30, 3))
    reports = [client.report(point.tolist()) for point in points]
    assert {len(report) for report in reports} == {client.report_bytes}
    collector = made.collector()
    collector.add([*reports, reports[0], reports[1][:-1]])
    assert collector.reports == 30
    assert sum(collector.rejected.values()) == 2
    answers, errors = collector.release().query(points[:4], return_std=True)
    assert np.isfinite(answers).all()
    assert (errors >= 0).all()


def test_devices_need_the_standard_library_only(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.json" for number in range(len(MECHANISMS))]
    for path, arguments in zip(paths, MECHANISMS, strict=True):
        protocol(*arguments).save(path)
    done = subprocess.run([sys.executable, "-c", BARE, *map(str, paths)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
