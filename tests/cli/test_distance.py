"""`sfumato distance` and `sfumato anomaly`, and what other commands say of missing files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import typer
from typer.testing import CliRunner

import sfumato
from sfumato.cli import app

RUN = CliRunner()


def points(folder: Path, separator: str = ",") -> Path:
    path = folder / "points.csv"
    rows = np.random.default_rng(0).uniform(0, 10, (4000, 2))
    np.savetxt(path, rows, delimiter=separator, header=separator.join(("x", "y")), comments="")
    return path


def test_distances_from_the_command_line(tmp_path: Path) -> None:
    data, made = points(tmp_path, ";"), tmp_path / "distances.sfm"
    needed = ["--bounds", "x=0,10", "--bounds", "y=0,10", "--epsilon", "1", "--n-hint", "4000", "--no-ledger"]
    done = RUN.invoke(
        app, ["distance", str(data), "-o", str(made), "--separator", ";", "--metric", "manhattan", *needed]
    )
    assert done.exit_code == 0, done.output
    release = sfumato.load(made)
    value, error = release.query([[5.0, 5.0]], return_std=True)
    assert abs(value[0] - 5.0) < 6 * error[0] + 0.2  # six deviations: false alarm 2e-9
    assert release.columns == ("x", "y")


def test_outliers_from_the_command_line(tmp_path: Path) -> None:
    data = points(tmp_path)
    made, asked, told = tmp_path / "points.sfm", tmp_path / "asked.csv", tmp_path / "scores.csv"
    model = sfumato.PrivateKDE(
        bandwidth=1.0, columns=["x", "y"], bounds={"y": (0, 40), "x": (0, 40)}, epsilon=1, n_hint=4000
    )
    model.fit(data).release_.save(made)
    asked.write_text("y,name,x\n5,a,5\n39,b,38\n")
    # Noise alone reaches the default level of 3 once in 700 runs; the crowd is at 33.
    done = RUN.invoke(app, ["anomaly", str(made), str(asked), "-o", str(told), "--level", "12"])
    assert done.exit_code == 0, done.output
    with told.open() as file:
        assert [row["outlier"] for row in csv.DictReader(file)] == ["0", "1"]


def test_a_missing_batch_is_named(tmp_path: Path) -> None:
    given = [str(tmp_path / name) for name in ("protocol.json", "batch")]
    done = RUN.invoke(app, ["shuffled", "analyze", *given, "--key", "key", "-o", str(tmp_path / "out.sfm")])
    assert done.exit_code == 2 and "there is no batch" in done.output.replace("\n", "")


def test_the_page_lists_every_command() -> None:
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    group = typer.main.get_command(app)
    for name, command in group.commands.items():
        lines = "".join(line for line in page.splitlines() if line.startswith(f"| `sfumato {name}"))
        assert lines, name
        for inner in getattr(command, "commands", ()):
            assert f"`{inner}`" in lines or f"`sfumato {name} {inner}" in lines, (name, inner)
