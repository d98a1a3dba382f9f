"""Assertions that hold by luck are listed, others are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.margins import listed

ROUND = """
def test_one():
    lucky, sound = 0.92, 0.5
    assert lucky < 1.0
    assert sound < 1.0 and sound > 0.0
    assert [1] == [1]
"""


def test_a_lucky_assertion_is_listed_and_a_sound_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "test_round.py").write_text(ROUND)
    folder, root = tmp_path / "margins", Path(__file__).parent.parent
    plugin = ["-p", "tests.margins", "-o", "enable_assertion_pass_hook=true", "-p", "no:cacheprovider"]
    settings = {"SFUMATO_TEST_SALT": "1", "SFUMATO_MARGINS": str(folder), "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "pytest", *plugin, "--rootdir", str(tmp_path), "test_round.py"]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, **settings}, check=True, capture_output=True)
    (written,) = folder.iterdir()
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    assert [share for _, _, share in lines] == [0.92, 0.5, 0.0]
    for salt, less in (("2", 0.03), ("3", 0.06)):  # other rounds, in which both moved by as much
        moved = [json.dumps([salt, key, share and share - less]) for _, key, share in lines]
        (folder / f"{salt}.jsonl").write_text("\n".join(moved))
    found = list(listed(folder))
    assert len(found) == 1 and found[0][0] < 4.5
    assert "test_round.py::test_one, line 4" in found[0][1]
