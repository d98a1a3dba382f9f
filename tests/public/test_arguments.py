"""Arguments of any type: what is right is returned, and all else is refused with a short message of ours."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.public.arguments import (
    checked_entropy,
    checked_mapping,
    checked_options,
    checked_progress,
    checked_seed,
    listed,
    says,
)
from sfumato.public.portable import LARGEST_SEED


def test_what_is_accepted_is_returned() -> None:
    assert checked_seed(np.int64(3)) == 3 and checked_seed(LARGEST_SEED) == LARGEST_SEED
    assert checked_mapping("kinds", None) == {} and checked_options({"a": 1}) == {"a": 1}
    assert listed("columns", np.arange(2)) == [0, 1]
    assert says("auto", "auto") and not says(np.array(["auto"]), "auto")
    assert checked_progress(None) is None and checked_progress(print) is print
    assert checked_entropy(None) is None and checked_entropy(np.array([1, 2])) == checked_entropy(range(1, 3)) == [1, 2]


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (checked_seed, 7.0, "feature_seed must be a whole number"),
        (checked_seed, LARGEST_SEED + 1, "feature_seed must be a whole number"),
        (checked_entropy, "seven", "random_state must be a whole number"),
        (checked_entropy, [[1]], "random_state must be a whole number"),
        (checked_options, {0: 1}, "options have names"),
        (checked_options, [1], "options must be a mapping"),
        (checked_progress, True, "progress must be a function"),
        (lambda value: listed("columns", value), 5, "columns must be a list, got 5"),
        (lambda value: listed("columns", value, 3), itertools.count(), "columns must be a list of at most 3"),
    ],
)
def test_all_else_is_refused(check: Any, value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check(value)


def test_lists_are_read_no_further_than_allowed() -> None:
    endless = itertools.count()
    with pytest.raises(InputError):
        listed("columns", endless, 3)
    assert next(endless) == 4
