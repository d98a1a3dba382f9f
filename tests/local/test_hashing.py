"""Hash functions on a device: cells by hand, buckets in range, and what a protocol may not say."""

from __future__ import annotations

from array import array

import pytest

from sfumato import InputError
from sfumato.local.hashing import FAMILIES, MinHash, Signs, little_endian, row_hash

SEED = bytes(range(32))
GIVEN = {
    "p-stable": {"law": "normal"},
    "grid": {"random_widths": True},
    "signs": {"power": 3},
    "minhash": {},
}


def _given(family: str) -> dict[str, object]:
    return {"family": family, "buckets": 8, "rehash": family != "signs", "point_bits": 10, **GIVEN[family]}


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_buckets_are_in_range_repeat_and_depend_on_the_row(family: str) -> None:
    hashes, point = row_hash(_given(family), SEED, 3), [700, -300, 55]
    buckets = [hashes.bucket(row, point) for row in range(64)]
    assert buckets == [hashes.bucket(row, point) for row in range(64)]
    assert set(buckets) <= set(range(8)) and len(set(buckets)) > 1


def test_the_first_member_in_the_order_is_the_cell() -> None:
    hashes = row_hash(_given("minhash"), SEED, 3)
    assert isinstance(hashes, MinHash)
    words = array("I", [9, 5, 7])
    assert [hashes.cell(words, members)[0] for members in ([1, 1, 1], [1, 0, 1], [0, 0, 0])] == [1, 2, 3]


def test_opposite_points_lie_on_opposite_sides() -> None:
    hashes = row_hash(_given("signs"), SEED, 3)
    assert isinstance(hashes, Signs)
    words = hashes.drawn(4)[1]
    assert hashes.cell(words, [5, -9, 2])[0] ^ hashes.cell(words, [-5, 9, -2])[0] == 7


def test_words_are_little_endian_everywhere() -> None:
    assert little_endian(bytes([1, 0, 0, 0, 0, 1, 0, 0])).tolist() == [1, 256]


@pytest.mark.parametrize("wrong", [{"family": "sha"}, {"buckets": 65}, {"power": 4}, {"buckets": "8"}])
def test_a_protocol_that_says_something_else_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        row_hash({**_given("signs"), **wrong}, SEED, 3)
