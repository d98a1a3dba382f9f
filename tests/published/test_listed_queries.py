"""Noise on a list of answers: as many integers as queries, scales that fit, and a list that is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import InputError
from sfumato.published import listed_queries
from tests.published.requests import QUERIES, facts, request


def test_every_query_has_one_integer_and_a_record_moves_each_by_its_kernel_value() -> None:
    made = listed_queries.build_laplace(request(**facts("laplace-queries")))
    assert made.encoder.size == len(QUERIES)
    encoded = made.encoder.encode(QUERIES[:1])[0]
    assert encoded.max() == encoded[0] and np.abs(encoded).sum() <= made.encoder.bound.l1


def test_a_list_is_needed_and_gaussian_noise_needs_delta() -> None:
    assert "queries" in str(listed_queries.refuse_list(request()))
    assert "delta" in str(listed_queries.refuse_no_delta(request()))
    with pytest.raises(InputError):
        listed_queries.listed(request(options={"queries": np.zeros((2, 5))}))


def test_wider_noise_takes_a_coarser_scale() -> None:
    wanted = request(**facts("gaussian-queries"))
    assert listed_queries.fitting_scale(wanted, 1e6) < listed_queries.fitting_scale(wanted, 1.0)
