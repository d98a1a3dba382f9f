"""Readers of `vector`: a rotation whose rows are orthogonal, and answers that are linear in the sums."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.kernels import InnerProduct
from sfumato.local import Protocol
from sfumato.local.vector_reader import VectorReader, turned


def test_rows_of_the_rotation_are_orthogonal_and_answers_are_linear() -> None:
    made = Protocol(InnerProduct(), 3, 2, 50, mechanism="vector", seed=1)
    server = made.server()
    signs = turned(server.device, np.eye(3))  # type: ignore[arg-type]
    assert signs @ signs.T == pytest.approx(signs.shape[1] * np.eye(len(signs)))
    reader = server.quantizer(server.tally())
    assert isinstance(reader, VectorReader)
    sums, queries = np.random.default_rng(0).normal(size=reader.size), np.eye(3)
    assert reader.weigh(queries, 2 * sums).total == pytest.approx(2 * reader.weights(queries) @ sums)
