"""Write the vectors that devices in other languages are tested with: `python -m tests.clients.make_vectors`.

Each file holds what the Python devices make of fixed documents, points and coins; `clients/js` reads the same files.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clients.local_vectors import local_vectors
from tests.clients.shuffled_vectors import shuffled_vectors

FOLDER = Path(__file__).parent / "vectors"
ALL: dict[str, Callable[[], dict[str, Any]]] = {"local": local_vectors, "shuffled": shuffled_vectors}


def written(name: str) -> str:
    """Return the content of a file: one line a vector would be long, one value a line would be endless."""
    return json.dumps(ALL[name](), indent=None, sort_keys=True, separators=(",", ":")).replace('},{"', '},\n{"') + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in ALL:
        (FOLDER / f"{each}.json").write_text(written(each))
