"""What can go wrong, named so that a caller (and the command line's exit code) can tell the cases apart."""

from __future__ import annotations

from fractions import Fraction


class SfumatoError(Exception):
    """Base of every error that the library raises on purpose; its text names the problem and the fix."""

    exit_code = 1


class InputError(SfumatoError, ValueError):
    """A parameter, column, type or dimension is wrong; nothing was spent."""

    exit_code = 2


class MissingExtraError(InputError, ImportError):
    """Something was asked for that needs an extra of the package, which is not installed; nothing was spent."""


class BudgetError(SfumatoError):
    """The ledger refuses: the requested spending does not fit in what is left."""

    exit_code = 3

    def __init__(self, message: str, requested: Fraction, remaining: Fraction) -> None:
        super().__init__(message)
        self.requested = requested
        self.remaining = remaining


class TooFewError(SfumatoError):
    """A paid count is far below what was expected: the run stopped there, and only the count was charged."""

    exit_code = 6


class LedgerError(SfumatoError):
    """The ledger's file is damaged, of a newer version, or kept under another neighbouring relation."""

    exit_code = 3


class ReleaseFileError(SfumatoError, ValueError):
    """A release file is truncated, tampered with, of a newer version, or not a release at all."""

    exit_code = 4


class NotPrivateWarning(UserWarning):
    """Noise comes from a seed, or there is none: what is made or saved protects nobody."""


class StorageError(SfumatoError, OSError):
    """The disk refused: full, read-only, or a limit on file sizes."""

    exit_code = 5


class EngineError(SfumatoError):
    """Workers elsewhere failed, or none could be reached; nothing was spent for the sum that they were asked for."""

    exit_code = 7


class OddDataWarning(UserWarning):
    """Told to the curator alone: the data look wrong, which must not decide whether a release happens."""


class UnpaidWarning(UserWarning):
    """Something is computed from points that may be private, and no guarantee covers it."""


class WaitWarning(UserWarning):
    """Something takes longer than a caller may expect, because another process is in the way."""
