"""Reports as they arrive: blocks of files that grow, and the set that all orders of arrival lead to."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from sfumato import InputError
from sfumato.local.arrivals import SeenReports, blocks_of, entries_of
from sfumato.local.device import HEADER_BYTES

SIZE = HEADER_BYTES + 2


def _reports(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, SIZE), dtype=np.uint8)


def test_a_file_that_grows_is_read_from_where_it_ended(tmp_path: Path) -> None:
    file, reports = tmp_path / "arrived", _reports(5)
    file.write_bytes(reports[:3].tobytes() + b"half")
    first = list(blocks_of(file, SIZE, 2, {}))
    assert sum(len(block) for block, _, _ in first) == 3
    place = first[-1][1]
    assert place is not None
    file.write_bytes(reports.tobytes())
    again = list(blocks_of(file, SIZE, 2, {place.name: place}))
    assert np.concatenate([block for block, _, _ in again]).tobytes() == reports[3:].tobytes()


def test_a_device_is_refused_and_a_pipe_is_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a device may never end; pass a file or a pipe"):
        next(blocks_of("/dev/zero", SIZE, 2, {}))
    reading, writing = os.pipe()
    os.write(writing, _reports(3).tobytes())
    os.close(writing)
    try:
        blocks = list(blocks_of(f"/dev/fd/{reading}", SIZE, 2, {}))
    finally:
        os.close(reading)
    assert sum(len(block) for block, _, _ in blocks) == 3


def test_items_of_another_length_are_odd_and_others_are_refused() -> None:
    [(block, _, odd)] = blocks_of([bytes(SIZE), b"short"], SIZE, 10, {})
    assert (len(block), odd) == (1, 1)
    with pytest.raises(InputError, match="reports are bytes"):
        list(blocks_of(["text"], SIZE, 10, {}))


def test_a_set_does_not_depend_on_the_order_and_counts_no_contradictions(tmp_path: Path) -> None:
    reports = _reports(40)
    changed = reports[:1].copy()
    changed[0, -1] ^= 1
    sets = []
    for name, order in (("a", [reports[:20], reports[20:], changed]), ("b", [changed, reports[::-1], reports])):
        (tmp_path / name).mkdir()
        seen = SeenReports(tmp_path / name, 2)
        for part in order:
            seen, _ = seen.added(entries_of(part))
        sets.append(np.concatenate(list(seen.counting())))
    assert len(sets[0]) == 39
    assert sorted(map(bytes, sets[0])) == sorted(map(bytes, sets[1]))
