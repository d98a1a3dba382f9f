"""The package `clients/js`, installed and built once, where there is Node."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

CLIENT = Path(__file__).parents[2] / "clients" / "js"
LEAST_NODE = 20


@cache
def _missing() -> str | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "node or npm is not installed"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return None if int(version[1:].split(".")[0]) >= LEAST_NODE else f"node {version.strip()} is older than 20"


def in_client(*command: str) -> str:
    """Run a command in the client's folder, without any network but the one that `npm ci` needs once."""
    done = subprocess.run(command, cwd=CLIENT, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def built() -> Path:
    """Install what the lock file names, if that is not there, and build the package and its tests."""
    problem = _missing()
    if problem is not None:
        message = f"THE DEVICE IN TYPESCRIPT IS NOT TESTED: {problem}"
        print(f"\n{message}")
        pytest.skip(message)
    with open(CLIENT / ".lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes may test at a time
        if not (CLIENT / "node_modules" / "esbuild").exists():
            in_client("npm", "ci", "--no-audit", "--no-fund")
        in_client("node", "build.mjs")
        in_client("node", "build.mjs", "--tests")
    return CLIENT / "dist" / "tests"
