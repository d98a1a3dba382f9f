"""What is built is what is meant: wheel and source archive, their metadata, extras, and the versions that are tried."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from itertools import chain
from pathlib import Path

import pytest

import sfumato
from sfumato.deferred import EXTRAS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sfumato"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What a package is called where its module is called otherwise.
PACKAGES = {"dp_accounting": "dp-accounting", "sklearn": "scikit-learn"}
SIDE = ("pyproject.toml", "MANIFEST.in", "LICENSE", "Makefile", "CITATION.cff")
LEFT_BEHIND = ("__pycache__", "*.py[co]", "*.egg-info")


def package(requirement: str) -> str:
    return re.split(r"[\[<>=;! ]", requirement, maxsplit=1)[0].lower()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both archives from a copy, so that nothing that an earlier build left is in them."""
    copy = tmp_path_factory.mktemp("packaging")
    for name in ("src", "benchmarks", "constraints", "deploy", "docs", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
    for name in (*SIDE, *(path.name for path in ROOT.glob("*.md"))):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(copy / "dist"), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return copy / "dist"


def test_the_wheel_holds_every_file_of_the_package(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        found = {name for name in wheel.namelist() if name.startswith("sfumato/")}
    meant = {
        f"sfumato/{path.relative_to(SOURCE).as_posix()}"
        for path in SOURCE.rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".pyo")
    }
    assert found == meant
    assert {"sfumato/py.typed", "sfumato/maps/assets/page.js", "sfumato/maps/assets/page.html"} <= found


def test_the_wheel_says_what_it_is(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        folder = f"sfumato-{sfumato.__version__}.dist-info"
        metadata = Parser().parsestr(wheel.read(f"{folder}/METADATA").decode())
        assert b"sfumato = sfumato.cli:main" in wheel.read(f"{folder}/entry_points.txt")
        assert f"{folder}/licenses/LICENSE" in wheel.namelist()
    assert metadata["License-Expression"] == "Apache-2.0" and metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])


def test_the_source_archive_holds_what_the_makefile_runs(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    for folder in ("tests", "benchmarks", "constraints", "deploy", "docs"):
        files = (path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix not in (".pyc", ".pyo"))
        assert {path.relative_to(ROOT).as_posix() for path in files} <= found
    assert {"CHANGELOG.md", "SECURITY.md", "CITATION.cff", "Makefile", "LICENSE", "MANIFEST.in"} <= found


def test_both_archives_can_be_published(built: Path) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(built.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.count("PASSED") == 2, done.stdout + done.stderr


def test_extras_bring_what_the_code_asks_them_for() -> None:
    light = {package(requirement) for requirement in PROJECT["dependencies"]}
    for extra, (modules, _) in EXTRAS.items():
        brought = {package(requirement) for requirement in PROJECT["optional-dependencies"][extra]}
        asked = {PACKAGES.get(module, module) for module in modules}
        assert asked <= brought and not asked & light


def test_the_extra_all_is_all_of_them() -> None:
    assert PROJECT["optional-dependencies"]["all"] == [f"sfumato[{','.join(sorted(EXTRAS))}]"]


def test_one_version_everywhere() -> None:
    assert re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[0] == sfumato.__version__
    assert f"version: {sfumato.__version__}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize(
    ("file", "extras"), [("lowest.txt", ("curator", "plot", "server", "docs", "dev")), ("lowest-spark.txt", ("spark",))]
)
def test_the_lowest_versions_are_those_that_are_allowed(file: str, extras: tuple[str, ...]) -> None:
    pinned = dict(line.split("==") for line in (ROOT / "constraints" / file).read_text().split())
    light = PROJECT["dependencies"] if file == "lowest.txt" else []
    for requirement in chain(light, *(PROJECT["optional-dependencies"][name] for name in extras)):
        if match := re.match(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)", requirement):
            name, least = match.groups()
            # 3.3 is 3.3.0; a later one would leave those before it untried.
            assert re.sub(r"(\.0)+$", "", pinned[name]) == re.sub(r"(\.0)+$", "", least), name
        else:
            assert requirement.startswith("sfumato["), requirement
