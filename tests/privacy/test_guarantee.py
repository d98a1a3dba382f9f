"""The guarantee: valid, never stronger in print than in truth, readable, and the same after a trip through JSON."""

from __future__ import annotations

import json
import math
import re
from dataclasses import FrozenInstanceError, replace
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import InputError
from sfumato.privacy.guarantee import Guarantee, added, amount_text, checked_delta, promised_epsilon
from sfumato.public.codec import Ratio

CENTRAL = Guarantee(trust="central", neighbours="add-remove", unit="record", epsilon=Fraction(1, 2))
USERS = Guarantee(
    trust="shuffled",
    neighbours="replace",
    unit="user",
    epsilon=Fraction(1),
    delta=1e-6,
    n_public=True,
    conditions=("90 % of participants are honest", "points outside the radius 2 are clipped"),
)

epsilons = st.fractions(min_value=Fraction(1, 10**9), max_value=1000, max_denominator=10**12)
texts = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1)


@st.composite
def guarantees(draw: st.DrawFn) -> Guarantee:
    neighbours = draw(st.sampled_from(["add-remove", "replace"]))
    return Guarantee(
        trust=draw(st.sampled_from(["central", "local", "shuffled"])),
        neighbours=neighbours,
        unit=draw(st.sampled_from(["record", "user"])),
        epsilon=draw(epsilons),
        delta=draw(st.floats(0, 1, exclude_max=True)),
        n_public=neighbours == "replace",
        conditions=tuple(draw(st.lists(texts, max_size=3))),
        private=draw(st.booleans()),
    )


@pytest.mark.parametrize(
    ("guarantee", "line"),
    [
        (CENTRAL, "epsilon = 0.5 (pure), central, add/remove one record, n private"),
        (
            replace(CENTRAL, private=False),
            "NOT PRIVATE (seeded noise, or none): epsilon = 0.5 (pure), central, add/remove one record, n private",
        ),
        (
            USERS,
            "epsilon = 1, delta = 1e-06, shuffled, replace one user, n public, provided: "
            "90 % of participants are honest; points outside the radius 2 are clipped",
        ),
    ],
)
def test_one_line(guarantee: Guarantee, line: str) -> None:
    assert str(guarantee) == line


@settings(deadline=None)
@given(guarantees())
def test_one_line_has_no_line_break(guarantee: Guarantee) -> None:
    assert len(str(guarantee).splitlines()) == 1


@settings(deadline=None)
@given(guarantees())
def test_round_trip_through_json(guarantee: Guarantee) -> None:
    assert Guarantee.from_document(json.loads(json.dumps(guarantee.to_document()))) == guarantee


def test_is_a_value() -> None:
    assert hash(replace(USERS)) == hash(USERS)
    assert replace(USERS, epsilon=Fraction(2)) != USERS
    with pytest.raises(FrozenInstanceError):
        USERS.epsilon = Fraction(2)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"trust": "cloud"}, "trust must be one of 'central', 'local', 'shuffled'"),
        ({"neighbours": "add"}, "neighbours must be one of"),
        ({"unit": ["record"]}, "unit must be one of"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": None}, "epsilon"),
        ({"epsilon": Fraction(1, 2**4000)}, "more than a thousand digits"),
        ({"delta": 1.0}, "0 <= delta < 1"),
        ({"delta": -1e-9}, "0 <= delta < 1"),
        ({"delta": math.nan}, "0 <= delta < 1"),
        ({"delta": True}, "0 <= delta < 1"),
        ({"delta": "0"}, "0 <= delta < 1"),
        ({"private": 1}, "private must be True or False"),
        ({"n_public": None}, "n_public must be True or False"),
        ({"conditions": "clipped"}, "conditions must be a tuple"),
        ({"conditions": ("",)}, "one line of printable text"),
        ({"conditions": ("two\nlines",)}, "one line of printable text"),
        ({"conditions": (3,)}, "one line of printable text"),
        ({"n_public": True}, 'pass neighbours="replace"'),
        ({"neighbours": "replace"}, "pass n_public=True"),
    ],
)
def test_refuses(change: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=re.escape(problem)):
        replace(CENTRAL, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": "1e999999999"},
        {"epsilon": "1/0"},
        {"epsilon": "0"},
        {"epsilon": "-1"},
        {"epsilon": "0.5"},
        {"epsilon": "9" * 2000},
        {"epsilon": 0.5},
        {"epsilon": None},
        {"delta": None},
        {"conditions": None},
        {"surprise": 1},
    ],
)
def test_refuses_documents(change: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Guarantee.from_document(CENTRAL.to_document() | change)


@pytest.mark.parametrize("name", sorted(CENTRAL.to_document()))
def test_refuses_documents_with_a_missing_field(name: str) -> None:
    document = CENTRAL.to_document()
    del document[name]
    with pytest.raises(InputError, match="lacks the field|must be an object"):
        Guarantee.from_document(document)


@pytest.mark.parametrize("document", [None, [], "guarantee", 3])
def test_refuses_what_is_no_document(document: object) -> None:
    with pytest.raises(InputError, match="lacks the field|must be an object"):
        Guarantee.from_document(document)  # type: ignore[arg-type]


def test_statement_for_a_curator_and_records() -> None:
    statement = CENTRAL.statement()
    assert "at most a factor of 1.649 (e to the power epsilon, with epsilon = 0.5)" in statement
    assert "about one record is limited: if that record had been left out" in statement
    assert "no exceptions (delta = 0)" in statement
    assert "number of records is private" in statement
    assert "with k records, the factor is taken to the power k" in statement
    assert "trusted curator" in statement
    assert "the epsilons add up" in statement
    assert "NOT PRIVATE" not in statement
    assert "provided that" not in statement


def test_statement_for_users_with_conditions() -> None:
    statement = USERS.statement()
    assert "at most a factor of 2.719" in statement
    assert "one person, with all of their records, is limited: if that person's records had held other" in statement
    assert "fail with a probability of at most delta = 1e-06" in statement
    assert "number of people is public and is not protected" in statement
    assert "honest shuffler" in statement
    assert all(condition in statement for condition in USERS.conditions)
    assert "power k" not in statement


def test_statement_of_seeded_noise_begins_with_the_warning() -> None:
    assert replace(CENTRAL, private=False).statement().startswith("NOT PRIVATE: the noise came from a seed")


def test_statement_of_a_meaningless_epsilon_says_so() -> None:
    assert "promises almost nothing" in replace(CENTRAL, epsilon=Fraction(1000)).statement()


@settings(deadline=None)
@given(st.fractions(min_value=Fraction(1, 1000), max_value=20, max_denominator=10**6))
def test_printed_factor_is_never_too_small(epsilon: Fraction) -> None:
    match = re.search(r"a factor of ([0-9.]+) \(e", replace(CENTRAL, epsilon=epsilon).statement())
    assert match is not None
    printed = float(match[1])
    assert math.exp(epsilon) <= printed <= math.exp(epsilon) * 1.0011


@settings(deadline=None)
@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**7))
def test_amounts_are_exact_or_rounded_to_the_safe_side(amount: Fraction) -> None:
    up, down = amount_text(amount), amount_text(amount, ROUND_FLOOR)
    if up.startswith("about"):
        low, high = Fraction(Decimal(down.split()[1])), Fraction(Decimal(up.split()[1]))
        assert low < amount < high
        assert high - low <= amount / 10**4
    else:
        assert Fraction(up) == Fraction(down) == amount


def test_sums_are_exact_or_rounded_up() -> None:
    """Never down, and never to a number that Python refuses to write (4,300 digits)."""
    assert added(Fraction(1, prime) for prime in range(2, 100)) == sum(Fraction(1, prime) for prime in range(2, 100))
    long = [Fraction(1, 10**1050 + number) for number in range(1, 41)]
    total, exact = added(long), sum(long)
    assert exact <= total <= exact + Fraction(40, 2**8191)
    assert len(str(Fraction(999, 10**1083) - total)) < 2 * 4300
    assert amount_text(total) == amount_text(exact) == "about 4E-1049"


def test_numbers_too_long_to_write_are_refused() -> None:
    for value in (10**5000, -(10**5000), Fraction(10**5000), Fraction(1, 10**5000), "1/" + "9" * 5000):
        with pytest.raises(InputError, match="epsilon"):
            promised_epsilon(value)
    with pytest.raises(InputError, match="delta must be .* too many digits"):
        checked_delta(10**5000)


@pytest.mark.parametrize("value", [0.123456789, "0.123456789", Decimal("0.123456789"), np.float64(0.123456789)])
def test_a_promise_is_not_rounded(value: object) -> None:
    assert promised_epsilon(value) == Fraction(123456789, 10**9)  # type: ignore[arg-type]


@settings(deadline=None)
@given(epsilons)
def test_fractions_survive_as_promises_and_as_text(epsilon: Fraction) -> None:
    assert promised_epsilon(epsilon) == epsilon
    assert Ratio().read(str(epsilon), "epsilon") == epsilon


def test_a_promise_about_close_points_says_so_everywhere() -> None:
    close = replace(CENTRAL, within="points within 0.1 of each other")
    assert str(close).endswith("n private, for points within 0.1 of each other only")
    statement = close.statement()
    assert "The limit is for points within 0.1 of each other only; between others, more may show." in statement
    assert "no exceptions" not in statement
    assert Guarantee.from_document(close.to_document()) == close
    assert "within" not in CENTRAL.to_document()
    with pytest.raises(InputError, match="within must be one line"):
        replace(CENTRAL, within="two\nlines")
