"""The door through which a seed may stand in for secret noise: it warns whoever opens it."""

from __future__ import annotations

import sys
import warnings

from sfumato.errors import NotPrivateWarning
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.guarantee import Guarantee


def noise_bits(random_state: int | None) -> SecureBits:
    """Return secret bits, or after a warning those of a seed; every call that takes a seed for its noise asks once.

    Examples
    --------
    >>> noise_bits(None)
    SecureBits(private)
    """
    if random_state is None:
        return SecureBits()
    _warn(
        "NOT PRIVATE: random_state seeds the noise, and whoever knows the seed can subtract it. Leave it out for "
        "anything that is to be published"
    )
    return SecureBits.seeded(random_state)


def warn_unless_private(guarantee: Guarantee) -> None:
    """Warn whoever saves what promises nothing.

    Examples
    --------
    >>> warn_unless_private(Guarantee(trust="central", neighbours="add-remove", unit="record", epsilon=1))
    """
    if not guarantee.private:
        _warn("NOT PRIVATE: the noise of what is saved here came from a seed, or there is none. Do not publish it")


def _warn(text: str) -> None:
    """Warn at the line of code that called the library."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == "sfumato":
        frame, level = frame.f_back, level + 1
    warnings.warn(text, NotPrivateWarning, stacklevel=level)
