"""Sfumato releases private densities and similarities: what a crowd looks like, without anyone's outline."""

from sfumato import kernels
from sfumato.errors import BudgetError, InputError, LedgerError, ReleaseFileError, SfumatoError, StorageError
from sfumato.kde import PrivateKDE
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.ledger import Ledger
from sfumato.release import Release, load
from sfumato.version import __version__

__all__ = [
    "BudgetError",
    "Guarantee",
    "InputError",
    "Ledger",
    "LedgerError",
    "PrivateKDE",
    "Release",
    "ReleaseFileError",
    "SfumatoError",
    "StorageError",
    "__version__",
    "kernels",
    "load",
]
