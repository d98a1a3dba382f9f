"""Notebooks: cells share names and a folder of their own, outputs are shown, errors name their cell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handbook.notebook import CellError, as_markdown

TUTORIALS = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.ipynb"))


def notebook(folder: Path, *cells: str) -> Path:
    path = folder / "small.ipynb"
    kinds = ["markdown" if cell.startswith("#") else "code" for cell in cells]
    content = [{"cell_type": kind, "source": [cell]} for kind, cell in zip(kinds, cells, strict=True)]
    path.write_text(json.dumps({"cells": content}))
    return path


def test_outputs_stand_below_their_cells(tmp_path: Path) -> None:
    page = as_markdown(notebook(tmp_path, "# Title", "n = 3\nprint('hello')", "n + 1", "open('file', 'w').close()"))
    assert page.startswith("# Title") and page.index("hello") < page.index("n + 1") < page.index("\n4\n")
    assert not (tmp_path / "file").exists() and not Path("file").exists()


def test_a_figure_is_shown_in_both_schemes_with_its_words(tmp_path: Path) -> None:
    cell = "from matplotlib.figure import Figure\nfigure = Figure()\nfigure.add_subplot().set(title='Trips')\nfigure"
    page = as_markdown(notebook(tmp_path, cell))
    assert 'alt="Figure: Trips" class="only-light"' in page and 'class="only-dark"' in page


def test_a_cell_that_raises_is_named(tmp_path: Path) -> None:
    with pytest.raises(CellError, match=r"small.ipynb, cell 1: ZeroDivisionError"):
        as_markdown(notebook(tmp_path, "n = 0", "1 / n"))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_committed_notebooks_have_no_outputs(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 3 and not any(cell["outputs"] or cell["execution_count"] for cell in code)
