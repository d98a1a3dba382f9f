"""Notebooks as pages: every cell is run when the site is built, so that what a page shows is what the code does.

The files in docs/tutorials are ordinary notebooks without outputs. Cells share one namespace and an empty folder of
their own; a cell that raises stops the build.
"""

from __future__ import annotations

import ast
import base64
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matplotlib.figure import Figure

from benchmarks.figures import dark, svg

Names = dict[str, Any]


class CellError(Exception):
    """A cell raised; the text names the notebook and the cell."""


def as_markdown(path: Path) -> str:
    """Run a notebook and return it as a page, outputs and figures included."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts: list[str] = []
    with _folder_of_its_own():
        names: Names = {"__name__": "notebook"}
        for number, cell in enumerate(cells):
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                parts.append(source)
                continue
            try:
                printed, last = run_cell(source, names)
            except Exception as error:
                raise CellError(f"{path.name}, cell {number}: {type(error).__name__}: {error}") from error
            parts += [f"```python\n{source}\n```", *_shown(printed, last)]
    return "\n\n".join(parts) + "\n"


def run_cell(source: str, names: Names) -> tuple[str, Any]:
    """Run one cell and return what it printed and the value of its last line, None where that is no expression.

    >>> run_cell("n = 3; print(n)\\nn + 1", {})
    ('3\\n', 4)
    """
    tree = ast.parse(source)
    final = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(ast.Expression(final.value), "cell", "eval"), names) if final is not None else None
    return printed.getvalue(), value


@contextmanager
def _folder_of_its_own() -> Iterator[None]:
    before, ledger = Path.cwd(), os.environ.get("SFUMATO_LEDGER")
    with TemporaryDirectory() as folder:
        os.environ["SFUMATO_LEDGER"] = str(Path(folder) / "ledger.jsonl")
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
            os.environ.pop("SFUMATO_LEDGER")
            if ledger is not None:
                os.environ["SFUMATO_LEDGER"] = ledger


def _shown(printed: str, last: Any) -> list[str]:
    if isinstance(last, Figure):
        picture = svg(last)
        alt = f"Figure: {', '.join(_words(last)) or 'no titles'}"
        return [*_block(printed), _image(picture, "only-light", alt), _image(dark(picture), "only-dark", alt)]
    return _block(printed if last is None else f"{printed}{last!r}\n")


def _block(text: str) -> list[str]:
    return [f'```text title="output"\n{text.rstrip()}\n```'] if text.strip() else []


def _words(figure: Figure) -> list[str]:
    """Titles and axes, for those who cannot see the figure."""
    found = [figure.get_suptitle()]
    for axes in figure.axes:
        found += [axes.get_title(), axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel()]
    return list(dict.fromkeys(filter(None, found)))


def _image(content: bytes, scheme: str, alt: str) -> str:
    data = base64.b64encode(content).decode()
    return f'<img alt="{alt.replace(chr(34), chr(39))}" class="{scheme}" src="data:image/svg+xml;base64,{data}">'
