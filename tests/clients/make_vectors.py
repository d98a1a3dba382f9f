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
ALL: dict[str, Callable[[dict[str, Any] | None], dict[str, Any]]] = {
    "local": local_vectors,
    "shuffled": shuffled_vectors,
}


def written(name: str, stored: dict[str, Any] | None = None) -> str:
    """Return the content of a file, of new documents or of those in the one that is there.

    Designs and calibrations are floating point and may differ in the last digits from machine to machine; what devices
    make of a document may not.
    """
    text = json.dumps(ALL[name](stored), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return text.replace('},{"', '},\n{"') + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in ALL:
        (FOLDER / f"{each}.json").write_text(written(each))
