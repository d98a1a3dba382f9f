"""Batches of files whose offsets lie are refused, and a dictionary that batches share is looked at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import InputError
from sfumato.sources import open_source
from sfumato.sources.soundness import Soundness, is_list

VIEWS = [name for name in ("list_view", "large_list_view") if hasattr(pa, name)]


def lists(kind: str, offset: int) -> pa.RecordBatch:
    """Three lists of three numbers each, the second of which starts at an offset of its own."""
    width = np.int64 if kind.startswith("large") else np.int32
    parts = [np.array(part, width) for part in ([0, offset, 3], [3, 3, 3])]
    numbers = pa.array(np.arange(9.0))
    buffers = [None, *map(pa.py_buffer, parts)]
    return pa.record_batch(
        {"e": pa.Array.from_buffers(getattr(pa, kind)(pa.float64()), 3, buffers, children=[numbers])}
    )


@pytest.mark.parametrize("kind", VIEWS)
def test_views_of_lists_outside_of_their_values_are_refused(kind: str) -> None:
    assert is_list(lists(kind, 0).schema.field("e").type)
    Soundness().check(lists(kind, 6), [])
    for offset in (7, -1, 1_900_000_000):
        with pytest.raises(pa.ArrowInvalid):
            Soundness().check(lists(kind, offset), [])


def text(offsets: list[int]) -> pa.Array:
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(np.array(offsets, np.int32)), pa.py_buffer(b"ab"))


def named(dictionary: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), dictionary)})


def test_a_shared_dictionary_is_looked_at_once() -> None:
    shared, sound = text([0, 1, 2]), Soundness()
    sound.check(named(shared), ["k"])
    first = sound._sound["k"]
    for _ in range(3):
        sound.check(named(shared), ["k"])
    assert sound._sound["k"] is first


def test_another_dictionary_is_looked_at_again() -> None:
    sound, damaged = Soundness(), text([0, 1, 1_000_000, 2])
    sound.check(named(text([0, 1, 2])), ["k"])
    with pytest.raises(pa.ArrowInvalid):
        sound.check(named(damaged), ["k"])
    sound.check(named(damaged.slice(0, 1)), ["k"])  # of the same memory, and only what is sound of it
    with pytest.raises(pa.ArrowInvalid):
        sound.check(named(damaged), ["k"])


@pytest.mark.parametrize("kind", VIEWS)
def test_such_a_file_is_refused_and_the_process_goes_on(kind: str, tmp_path: Path) -> None:
    batch = lists(kind, 7)
    with pa.ipc.new_file(str(tmp_path / "views.arrow"), batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(InputError, match="views.arrow"):
        open_source(tmp_path / "views.arrow", columns=["e[3]"]).whole()
