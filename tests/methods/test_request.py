"""A request: what the count costs, what options may be, and what limits leave."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from sfumato import InputError
from sfumato.kernels import Distance, Gaussian
from sfumato.methods.request import COUNT_SHARE, Limits, Request

PLAIN = Request(Gaussian(1.0), dimension=4, epsilon=Fraction(1), n=1000)


def test_the_count_has_its_share_and_the_features_the_rest() -> None:
    assert PLAIN.count_epsilon == COUNT_SHARE and PLAIN.feature_epsilon == 1 - COUNT_SHARE
    assert PLAIN.with_options(count_share=0.5).count_epsilon == Fraction(1, 2)
    assert replace(PLAIN, neighbours="replace").count_epsilon == 0
    assert replace(PLAIN, kernel=Distance("l1")).reads_count


def test_replacing_and_users_multiply_what_may_change() -> None:
    assert (PLAIN.factor, replace(PLAIN, neighbours="replace").factor) == (1, 2)
    assert replace(PLAIN, unit="user", options={"max_records_per_user": 3}).factor == 3


def test_without_delta_it_is_pure() -> None:
    assert replace(PLAIN, delta=1e-6).pure() == PLAIN and PLAIN.pure() is PLAIN


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dimension": 0}, "dimension must be"),
        ({"n": 1.5}, "n_hint must be"),
        ({"kernel": Gaussian(1e-60)}, "bandwidth must lie between"),
        ({"unit": "user"}, "max_records_per_user"),
        ({"options": {"max_records_per_user": 2}}, "is for users"),
        ({"weighted": True, "neighbours": "replace"}, "weights need"),
        ({"kernel": Distance("l1"), "options": {"density": 0.1}}, "distances have none"),
    ],
)
def test_facts_that_contradict_each_other_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(PLAIN, **changed)


def test_limits_are_kept_to_the_last_feature() -> None:
    limited = replace(PLAIN, limits=Limits(file_size=50_000.0, work_per_query=4000.0))
    most = limited.most_terms(width=2)
    assert limited.file_size(most, width=2) <= 50_000 and most * limited.dimension <= 4000
    assert limited.size_option("n_features", best=10**6, most=most) == most
    with pytest.raises(InputError, match="budgets for time and space allow"):
        limited.with_options(n_features=most + 1).size_option("n_features", 1, most)
    assert "no room" in str(replace(PLAIN, limits=Limits(file_size=10.0)).too_tight(width=2))
