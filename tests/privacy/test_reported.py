"""Noise that participants added: a value with a variance, which nobody here can draw."""

from __future__ import annotations

import pytest

from sfumato.errors import InputError
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.laws import law_from_document
from sfumato.privacy.reported import ReportNoise


def test_document_round_trip() -> None:
    assert law_from_document(ReportNoise(2.5).to_document()) == ReportNoise(2.5)


def test_it_cannot_be_drawn() -> None:
    with pytest.raises(InputError, match="on their own devices"):
        ReportNoise(1.0).sample(SecureBits(), 1)


@pytest.mark.parametrize("variance", [-1.0, float("inf"), float("nan"), True, "1"])
def test_bad_variances_are_refused(variance: object) -> None:
    with pytest.raises(InputError, match="variance"):
        ReportNoise(variance)  # type: ignore[arg-type]


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(InputError, match="exactly the fields"):
        law_from_document({"law": "reported", "variance": 1.0, "sigma": 1.0})
