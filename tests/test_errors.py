"""Errors that callers tell apart: by class, by what Python calls them, and by what a refusal holds."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato import errors


@pytest.mark.parametrize(
    ("error", "also"),
    [
        (errors.InputError, ValueError),
        (errors.MissingExtraError, ImportError),
        (errors.ReleaseFileError, ValueError),
        (errors.StorageError, OSError),
    ],
)
def test_an_error_is_the_librarys_and_pythons(error: type[Exception], also: type[Exception]) -> None:
    assert issubclass(error, errors.SfumatoError) and issubclass(error, also)


def test_a_refused_charge_says_what_was_asked_for_and_what_is_left() -> None:
    error = errors.BudgetError("too much", requested=Fraction(1, 2), remaining=Fraction(1, 10))
    assert (str(error), error.requested, error.remaining) == ("too much", Fraction(1, 2), Fraction(1, 10))


def test_warnings_can_be_silenced_one_by_one() -> None:
    kinds = [errors.NotPrivateWarning, errors.OddDataWarning, errors.UnpaidWarning, errors.WaitWarning]
    assert all(issubclass(kind, UserWarning) for kind in kinds)
    assert not any(issubclass(one, other) for one in kinds for other in kinds if one is not other)
