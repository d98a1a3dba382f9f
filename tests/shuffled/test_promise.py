"""What a shuffled collection promises: every condition, against either threat."""

from __future__ import annotations

import pytest

from sfumato.shuffled.promise import THREATS
from tests.shuffled.collections_for_tests import small_protocol


@pytest.mark.parametrize("threat", THREATS)
def test_the_promise_states_who_must_be_honest_and_what_is_shuffled(threat: str) -> None:
    promise = small_protocol(8, 4).guarantee(threat)
    assert promise.trust == "shuffled" and promise.epsilon > 0
    assert any(condition.startswith("at least 8 participants follow the protocol") for condition in promise.conditions)
    assert any("shuffled on its own" in condition for condition in promise.conditions)
