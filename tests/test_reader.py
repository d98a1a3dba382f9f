"""Who reads releases, and a device, need the package alone: the modules of every extra are hidden, and they work.

What they answer without compiled code, about every release of the corpus, is what the whole installation answers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato.deferred import EXTRAS
from tests.corpus import cases
from tests.corpus.make import GOLDEN, SKETCH, answers

HIDDEN = {name for modules, _ in EXTRAS.values() for name in modules} | {"llvmlite", "pandas", "polars", "duckdb"}
RELEASES = [
    path for path in sorted(GOLDEN.rglob("*.sfm")) if path.parent.name != "classifier" and path != GOLDEN / SKETCH
]
HIDING = f"""
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, *place):
        return None if name.split(".")[0] in {HIDDEN!r} else self.finder.find_spec(name, *place)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
import json
import numpy as np
import sfumato
"""
ANSWERS = """
found, queries = {}, json.load(sys.stdin)
for path in queries["paths"]:
    release = sfumato.load(path)
    asked = np.array(queries["at"][str(release.dimension)])
    parts = (row for part in (release.query, release.total) for row in part(asked, return_std=True))
    found[path] = [float(number) for row in parts for number in row]
print(json.dumps(found))
"""
COMMANDS = """
import contextlib, io
from sfumato.cli import main
told = []
for arguments in json.load(sys.stdin):
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    sys.argv = ["sfumato", *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            told.append([end.code or 0, *(text.buffer.getvalue().decode() for text in (out, err))])
print(json.dumps(told))
"""


def alone(program: str, given: Any, folder: Path) -> Any:
    """Run a program where nothing but the package itself and what it needs can be imported."""
    environment = {**os.environ, "PYTHONPATH": str(Path(sfumato.__file__).parents[1]), "XDG_STATE_HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", HIDING + program],
        input=json.dumps(given), env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_kind_of_release_is_read(tmp_path: Path) -> None:
    at = {str(dimension): cases.queries(dimension).tolist() for dimension in range(1, 65)}
    found = alone(ANSWERS, {"paths": list(map(str, RELEASES)), "at": at}, tmp_path)
    assert len(found) == len(RELEASES) > 90
    for path, numbers in found.items():
        np.testing.assert_allclose(numbers, answers(sfumato.load(path)), rtol=1e-9, atol=1e-12, err_msg=path)


@pytest.fixture(scope="module")
def protocol(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reader") / "protocol.json"
    made = sfumato.local.Protocol(kernel="gaussian", bandwidth=1.0, dimension=2, epsilon=1, participants=1000)
    made.save(path)
    return path


def test_questions_and_devices_run(protocol: Path, tmp_path: Path) -> None:
    release, point = str(GOLDEN / "central/grid.seeded.sfm"), tmp_path / "point.txt"
    point.write_text("0.5 0.25\n")
    np.save(tmp_path / "asked.npy", [[1.0, 2.0]])
    written = tmp_path / "answers.csv"
    found = alone(
        COMMANDS,
        [
            ["query", release, "--at", "1,2"],
            ["query", release, str(tmp_path / "asked.npy"), "-o", str(written)],
            ["inspect", release],
            ["verify", release],
            ["ledger", "show"],
            ["plan", "--dimension", "2", "--epsilon", "1", "--n-hint", "1000", "--bandwidth", "1", "--bounds", "0,10"],
            ["local", "report", str(protocol), "--point", str(point), "-o", str(tmp_path / "report")],
        ],
        tmp_path,
    )
    assert [code for code, _, _ in found] == [0] * 7, found
    assert (tmp_path / "report").stat().st_size > 0
    expected = sfumato.load(release).query([[1.0, 2.0]])[0]
    assert float(np.genfromtxt(written, delimiter=",", names=True)["value"]) == pytest.approx(expected, rel=1e-12)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    points, release = tmp_path / "points.csv", str(GOLDEN / "central/grid.seeded.sfm")
    points.write_text("lon,lat\n1,2\n")
    asked = {
        "curator": ["release", str(points), "-o", str(tmp_path / "x.sfm"), "--bandwidth", "1", "--epsilon", "1",
                    "--n-hint", "1000", "--bounds", "0,10"],
        "plot": ["map", release, "-o", str(tmp_path / "map.png")],
        "server": ["serve", "collector", "--folder", str(tmp_path / "state"), release],
    }  # fmt: skip
    for extra, (code, _, told) in zip(asked, alone(COMMANDS, list(asked.values()), tmp_path), strict=True):
        assert code == 2 and f"pip install 'sfumato[{extra}]'" in " ".join(told.split()), told


@pytest.mark.parametrize("name", ["PrivateKDE", "learn", "bandwidth"])
def test_names_say_what_they_need(name: str, tmp_path: Path) -> None:
    program = f"""
try:
    sfumato.{name}
except ImportError as error:
    print(json.dumps([type(error).__name__, str(error)]))
"""
    kind, told = alone(program, None, tmp_path)
    assert kind == "MissingExtraError" and "pip install 'sfumato[curator]'" in told
