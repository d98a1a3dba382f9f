"""The shuffled model: users send anonymous one-bit messages, and only their shuffled union is seen.

`Protocol` is the public document; `Protocol.client`, `Shuffler` and `Protocol.analyzer` are the three roles;
`Protocol.simulate` runs all of them at once.
"""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.shuffled import bitsum
    from sfumato.shuffled.analyzer import Analyzer
    from sfumato.shuffled.client import Client
    from sfumato.shuffled.labels import LabelResponse
    from sfumato.shuffled.messages import Submission
    from sfumato.shuffled.protocol import Protocol
    from sfumato.shuffled.sealing import AnalyzerKey
    from sfumato.shuffled.secure_aggregation import SecureAggregation
    from sfumato.shuffled.shuffler import Shuffler

# What a device agrees to unless its owner says otherwise; never taken from a document. The command line shows it, and
# should not load all that a client needs.
MAX_EPSILON, MAX_DELTA = Fraction(8), 1e-4

# Loaded at first use: bit sums alone need none of the rest.
_NAMES = {
    "Analyzer": "analyzer",
    "AnalyzerKey": "sealing",
    "Client": "client",
    "LabelResponse": "labels",
    "Protocol": "protocol",
    "SecureAggregation": "secure_aggregation",
    "Shuffler": "shuffler",
    "Submission": "messages",
}

__all__ = [
    "Analyzer",
    "AnalyzerKey",
    "Client",
    "LabelResponse",
    "Protocol",
    "SecureAggregation",
    "Shuffler",
    "Submission",
    "bitsum",
]


def __getattr__(name: str) -> Any:
    if name == "bitsum":
        return import_module("sfumato.shuffled.bitsum")
    if name not in _NAMES:
        raise AttributeError(f"module 'sfumato.shuffled' has no attribute {name!r}")
    return getattr(import_module(f"sfumato.shuffled.{_NAMES[name]}"), name)
