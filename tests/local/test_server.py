"""Tallies of reports: sums that add up, rows that tell no order; and server halves by their names."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.local.rows_server import RowAnswer
from sfumato.local.server import Records, Sums, server_class
from sfumato.methods.registry import LOCAL
from sfumato.privacy.response import Response


def test_sums_add_at_places_and_give_a_copy() -> None:
    sums = Sums(4)
    sums.add(np.array([1, 1, 3]))
    sums.add(np.array([0, 3]), np.array([5, -2]))
    assert sums.integers().tolist() == [5, 2, 0, -1]
    sums.integers()[:] = 0
    assert sums.integers().tolist() == [5, 2, 0, -1]


def test_records_do_not_tell_in_which_order_they_came() -> None:
    rows = np.random.default_rng(0).integers(-9, 9, (50, 3))
    one, other = Records(3), Records(3)
    one.append(rows)
    for row in rows[::-1]:
        other.append(row[None])
    assert (one.rows() == other.rows()).all()
    assert one.integers().tolist() == one.rows().reshape(-1).tolist()


@pytest.mark.parametrize(("response", "collision"), [(Response(1, 1, 4), 0.0), (Response(9, 1, 4), 1.0)])
def test_answers_that_say_nothing_are_refused(response: Response, collision: float) -> None:
    with pytest.raises(InputError, match="say nothing"):
        RowAnswer(response, collision)


def test_every_local_mechanism_has_a_server_half_of_its_name() -> None:
    assert all(server_class(name).name == name for name in LOCAL)
