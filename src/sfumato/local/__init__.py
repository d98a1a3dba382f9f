"""The local model: users randomise on their own devices, and nobody else ever sees their points.

Names are loaded at first use, because a device has the standard library only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.local.client import Client
    from sfumato.local.collector import Collector
    from sfumato.local.protocol import Protocol

_NAMES = {
    "Client": "sfumato.local.client",
    "Collector": "sfumato.local.collector",
    "Protocol": "sfumato.local.protocol",
}

__all__ = ["Client", "Collector", "Protocol"]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'sfumato.local' has no attribute {name!r}")
    return getattr(import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return __all__
