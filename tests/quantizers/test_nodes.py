"""Nodes of a tensor grid: places by strides, and hashes that spread evenly and repeat."""

from __future__ import annotations

import numpy as np

from sfumato.quantizers.nodes import Nodes


def test_the_last_axis_runs_fastest() -> None:
    nodes = Nodes.kept((3, 4, 5))
    rows, columns, depths = np.split(nodes.keys.astype(np.int64), nodes.starts[1:-1])
    places = rows[:, None, None] + columns[None, :, None] + depths
    assert nodes.size == 60 and places.reshape(-1).tolist() == list(range(60))


def test_hashed_nodes_repeat_for_a_seed_and_differ_for_another() -> None:
    first, again, other = (Nodes.hashed((6, 6), 16, seed) for seed in (1, 1, 2))
    assert (first.keys == again.keys).all() and not (first.keys == other.keys).any()
    assert first.size == 16 and 2 ** (64 - first.shift) == 16
