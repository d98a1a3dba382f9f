"""Files of points, and the command line run in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner, Result

from sfumato.cli import app

Run = Callable[..., Result]

QUICK = ("--option", "n_features=40", "--n-hint", "500")


@pytest.fixture
def ledger_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default ledger of this test."""
    path = tmp_path / "ledger" / "ledger.jsonl"
    monkeypatch.setenv("SFUMATO_LEDGER", str(path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return path


@pytest.fixture
def run(ledger_path: Path) -> Run:
    """`run("release", path, ...)` as typed in a shell; an unexpected exception fails the test."""

    def invoke(*arguments: object, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, prog_name="sfumato")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture(scope="session")
def points() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(500, 2))


@pytest.fixture(scope="session")
def files(points: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same points as .csv, .parquet and .npy."""
    folder = tmp_path_factory.mktemp("points")
    paths = {kind: folder / f"points.{kind}" for kind in ("csv", "parquet", "npy")}
    np.savetxt(paths["csv"], points, delimiter=",", header="lon,lat", comments="", fmt="%.17g")
    pa.parquet.write_table(pa.table({"lon": points[:, 0], "lat": points[:, 1]}), paths["parquet"])
    np.save(paths["npy"], points)
    return paths


@pytest.fixture(scope="session")
def released(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of the points, for the commands that read one."""
    path = tmp_path_factory.mktemp("released") / "points.sfm"
    arguments = ["release", files["csv"], "-o", path, "--bandwidth", "1", "--epsilon", "1", "--no-ledger", "--quiet"]
    result = CliRunner().invoke(app, [*map(str, arguments), *QUICK])
    assert result.exit_code == 0, result.output
    return path


def plain(text: str) -> str:
    """Text without its line breaks, which depend on the terminal's width."""
    return " ".join(text.split())
