"""A release from the header and arrays of its file; what is out of place is refused, and nothing else is raised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ReleaseFileError
from sfumato.kernels import Product, kernel_from_document
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.laws import law_from_document
from sfumato.public.ranges import reader_memory
from sfumato.quantizers import quantizer_from_document
from sfumato.release import format as container
from sfumato.release.release import Count, Release

# What lies in the same container and is private, by what its header says of it.
_PRIVATE = {
    "exact sums of one site: PRIVATE data, not a release": "a part of one site, which is PRIVATE and holds no noise: "
    "make a release of the parts of all sites with 'sfumato release --parts', or with sfumato.merge_parts in Python",
    "raw RACE sketch: PRIVATE data, not a release": "a raw sketch, which is PRIVATE and holds no noise: read it with "
    "sfumato.RaceSketch.load, and publish what its release method makes",
}


def load(path: str | Path, max_memory: int | None = None) -> Release:
    """Read a release from a file and check it.

    Parameters
    ----------
    path : str or Path
        A `.sfm` file.
    max_memory : int, optional
        Bytes that its public numbers may take when they are drawn again; 2^29 (537 MB) unless said, because a small
        hostile file can ask for any amount.
    """
    with reader_memory(max_memory):
        return from_content(*container.decode(path))


def from_content(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Release:
    """Rebuild a release from its header and arrays; anything out of place is a `ReleaseFileError`."""
    if "classifier" in header:
        raise ReleaseFileError(
            "the file holds a classifier: read it with sfumato.learn.DensityClassifier.load, or with 'sfumato classify "
            "predict' on the command line"
        )
    with container.read_as("a release"):
        if private := _PRIVATE.get(header.get("content", "")):
            raise ReleaseFileError(f"the file holds {private}")
        release = _rebuild(header, arrays)
        _check_faithful(release, header, arrays)
    return release


def _rebuild(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Release:
    kernel = None if header["kernel"]["kernel"] == "custom" else kernel_from_document(header["kernel"])
    values, columns = arrays["values"], header["columns"]
    if values.dtype.kind != "i" or values.ndim != 1:
        raise ReleaseFileError("the values of a release must be a list of integers")
    reader = quantizer_from_document(header["quantizer"], arrays, kernel, len(values))
    if isinstance(kernel, Product) and not all(place < reader.dimension for place in kernel.places):
        raise ReleaseFileError(f"the kernel has categories beyond the release's {reader.dimension} columns")
    if columns is not None and len(columns) != reader.dimension:
        raise ReleaseFileError(f"the release names {len(columns)} columns and has {reader.dimension}")
    return Release(
        method=str(header["method"]),
        guarantee=Guarantee.from_document(header["guarantee"]),
        kernel=kernel,
        stored_kernel=dict(header["kernel"]),
        reader=reader,
        values=np.asarray(values, dtype=np.int64),
        noise=law_from_document(header["noise"]),
        count=Count.from_document(header["count"], "count"),
        groups=int(header["groups"]),
        parameters=dict(header["parameters"]),
        columns=None if columns is None else tuple(map(str, columns)),
        sampled=bool(header["sampled"]),
        version=str(header["written_by"]).removeprefix("sfumato "),
    )


def _check_faithful(release: Release, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Refuse what was read as something else than it says, such as a number in the place of a text."""
    described = release.describe()
    for name, part in header.items():
        if name in described and json.dumps(described[name], sort_keys=True) != json.dumps(part, sort_keys=True):
            raise ReleaseFileError(f"the entry {name!r} of the release's header is not what a release would write")
    if unknown := set(arrays) - {"values", *release.reader.to_document()[1]}:
        raise ReleaseFileError(f"the release holds an array {min(unknown)!r} that nothing reads")
