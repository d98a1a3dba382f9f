"""Everything that the fuzzers take from the library, in one place, so that a rename costs one line."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

from sfumato import Ledger, PrivateDistance, PrivateKDE, RaceSketch, Release, SfumatoError, load
from sfumato.central.parts import Part, _check_columns, _request, largest_size, merge_parts
from sfumato.cli import app
from sfumato.errors import InputError
from sfumato.kernels import ShiftInvariantKernel
from sfumato.learn import DensityClassifier
from sfumato.local import Protocol as LocalProtocol
from sfumato.local.device import device_for
from sfumato.maps import evaluate, people, regions, sharp_people
from sfumato.maps.overlay import read_overlay
from sfumato.maps.views import column_names
from sfumato.public.canonical_json import canonical, parse
from sfumato.public.document import exact, seed_of
from sfumato.release import from_content
from sfumato.release.format import decode, encode
from sfumato.services.admission import BlindRequest, IssuerKey
from sfumato.services.log import head
from sfumato.services.notice import SignedNotice
from sfumato.services.sending import Route, fetch_protocol, fetch_token, send, token_request
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.services.wire import frames
from sfumato.shuffled import AnalyzerKey, Shuffler, Submission, groups
from sfumato.shuffled import Protocol as ShuffledProtocol
from sfumato.sources import open_source

__all__ = [
    "AnalyzerKey",
    "BlindRequest",
    "DensityClassifier",
    "InputError",
    "IssuerKey",
    "Ledger",
    "LocalProtocol",
    "Part",
    "PrivateDistance",
    "PrivateKDE",
    "RaceSketch",
    "Release",
    "Route",
    "SfumatoError",
    "ShiftInvariantKernel",
    "ShuffledProtocol",
    "Shuffler",
    "SignedNotice",
    "SignedProtocol",
    "SigningKey",
    "Submission",
    "app",
    "canonical",
    "column_names",
    "decode",
    "encode",
    "evaluate",
    "fetch_protocol",
    "fetch_token",
    "fingerprints",
    "frames",
    "from_content",
    "head",
    "largest_size",
    "load",
    "merge_parts",
    "open_source",
    "parse",
    "people",
    "promise",
    "public_of_part",
    "quick_groups",
    "quick_regions",
    "read_overlay",
    "seed_of",
    "send",
    "sharp_people",
    "token_request",
]


def public_of_part(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """Return the hash of what is public of a part with this header."""
    _check_columns(header["method"], header["request"]["dimension"])
    request, columns = _request(header["request"], arrays.get("landmarks")), header["columns"]
    return Part(header["method"], request, columns, header["sampled"], "", arrays["sums"], 0, 0).public


def promise(document: Mapping[str, Any]) -> Any:
    """Return what the device of a local document would promise, whatever the document itself says."""
    return exact(device_for(document).guarantee().to_document())


@contextmanager
def quick_regions() -> Iterator[None]:
    """Refuse regions that the library would count people in for a minute at most, but not in a second."""
    with mock.patch.object(regions, "MOST_PRODUCTS", regions.MOST_PRODUCTS // 120):
        yield


@contextmanager
def quick_groups() -> Iterator[None]:
    """Refuse groups whose noise devices certify for minutes at most, but not in a second."""
    with mock.patch.object(groups, "MOST_CERTIFIED", groups.MOST_CERTIFIED // 64):
        yield


@cache
def _with_fingerprints() -> list[tuple[Any, Any]]:
    """Every map that has a fingerprint, with the method that computes it."""
    return [
        (kind, kind.__dict__["fingerprint"])
        for name, module in list(sys.modules.items())
        if name.startswith("sfumato.quantizers")
        for kind in vars(module).values()
        if isinstance(kind, type) and callable(kind.__dict__.get("fingerprint"))
    ]


@contextmanager
def fingerprints() -> Iterator[list[str]]:
    """Note the fingerprints that maps compute while a file is read: a forger states the right ones."""
    seen: list[str] = []
    found = _with_fingerprints()

    def noting(original: Any) -> Any:
        def fingerprint(self: Any) -> str:
            seen.append(original(self))
            return seen[-1]

        return fingerprint

    for kind, original in found:
        kind.fingerprint = noting(original)
    try:
        yield seen
    finally:
        for kind, original in found:
            kind.fingerprint = original
