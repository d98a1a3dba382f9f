"""Quantizers that are imported when a document names them: each place holds the class that it says."""

from __future__ import annotations

import pytest

import sfumato.quantizers  # noqa: F401  registers those of its own room
from sfumato.errors import InputError
from sfumato.families import QUANTIZERS, Families
from sfumato.quantizers import register_quantizer
from sfumato.quantizers.base import Reader

PLACED = sorted(QUANTIZERS._places)


def test_every_placed_quantizer_is_a_reader_of_that_name() -> None:
    assert len(PLACED) >= 24
    for name in PLACED:
        family = QUANTIZERS.get(name)
        assert issubclass(family, Reader) and family.name == name


@pytest.mark.parametrize("name", ["fourier", "hermite"])  # of the room itself, and of one that builds on it
def test_no_name_is_given_twice(name: str) -> None:
    taken = type("Taken", (Reader,), {"name": name})
    with pytest.raises(InputError, match="choose another name"):
        register_quantizer(taken)


def test_a_family_that_nobody_placed_is_none() -> None:
    families = Families()
    families.add("own", int)
    assert families.get("own") is int and families.get("other") is None and "other" not in families
