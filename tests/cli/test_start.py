"""What a command loads before it answers: nobody should wait for libraries that a question does not need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sfumato

HEAVY = {
    "matplotlib",
    "numba",
    "pandas",
    "pyarrow",
    "pydantic",
    "scipy.optimize",
    "scipy.stats",
    "sklearn",
    "threadpoolctl",
}
# Beyond that, a question about a release needs no SciPy at all, nothing that opens data, and one quantizer; a plan
# transforms a kernel, compares all quantizers, and prints a table, but opens no data and sums nothing.
QUESTIONS = HEAVY | {"cryptography", "rich", "scipy", "sfumato.quantizers.fourier", "sfumato.sources"}
PLANS = HEAVY | {"numpy.ma", "rich._emoji_codes", "scipy.spatial", "sfumato.engines", "sfumato.sources"}
CHILD = """
import json, sys
from sfumato.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("start") / "points.sfm"
    points = np.random.default_rng(0).uniform(0, 10, (500, 2))
    model = sfumato.PrivateKDE(bandwidth=1.0, epsilon=1, bounds=(0, 10), n_hint=500, method="grid").fit(points)
    model.release_.save(path)
    return path


def loaded(*arguments: str, folder: Path) -> set[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(sfumato.__file__).parents[1]), "XDG_STATE_HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "{release}", "--at", "1,2"),
        ("inspect", "{release}"),
        ("verify", "{release}"),
        ("ledger", "show"),
        ("plan", "--dimension", "2", "--epsilon", "1", "--n-hint", "1000", "--bandwidth", "1", "--bounds", "0,10"),
        ("plan", "--dimension", "784", "--epsilon", "1", "--n-hint", "60000", "--bandwidth", "5", "--bounds", "0,1"),
    ],
    ids=lambda arguments: "-".join(arguments[:3:2]),
)
def test_questions_load_nothing_heavy(release: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    given = [text.format(release=release) for text in arguments]
    found = loaded(*given, folder=tmp_path)
    assert not found & {"plan": PLANS, "ledger": HEAVY}.get(given[0], QUESTIONS)
    # Of the commands, that which was asked for, and for a plan those whose flags it takes.
    commands = {name.removeprefix("sfumato.cli.") for name in found if name.startswith("sfumato.cli.")}
    assert not commands & {"audit", "demo", "local", "map", "serve", "shuffled", "start"}


def test_the_package_runs_as_a_module() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(sfumato.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-m", "sfumato", "--version"], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"sfumato {sfumato.__version__}"


@pytest.mark.parametrize(
    ("command", "given", "threads"), [("plan", None, "1"), ("plan", "2", "2"), ("query", None, "")]
)
def test_small_commands_keep_blas_to_one_thread(command: str, given: str | None, threads: str) -> None:
    """Unless somebody says otherwise; a second one waits busily for longer than a plan takes."""
    told = "import atexit, os, sys; from sfumato.cli import main; sys.argv = ['sfumato', *sys.argv[1:]]\n"
    told += "atexit.register(lambda: print('threads', os.environ.get('OPENBLAS_NUM_THREADS', ''))); main()"
    environment = {name: text for name, text in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    environment |= {} if given is None else {"OPENBLAS_NUM_THREADS": given}
    ended = subprocess.run(
        [sys.executable, "-c", told, command, "--help"], env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines()[-1].split() == ["threads", *([threads] if threads else [])]
