"""Quantizers that read what a collector counted; a release carries the protocol, from which they are rebuilt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ReleaseFileError
from sfumato.local.pool_device import PoolDevice
from sfumato.local.registry import device_for
from sfumato.public.document import check_document
from sfumato.quantizers.answer import Floats
from sfumato.quantizers.base import Integers, TermReader
from sfumato.quantizers.box import Box


class PoolReader(TermReader):
    """Counts of reports, one term for each row of the pool.

    Attributes
    ----------
    device : PoolDevice
        The mechanism's device half, which knows the public functions.
    """

    def __init__(self, device: PoolDevice) -> None:
        self.device = device

    @property
    def box(self) -> Box:
        """The protocol's domain."""
        domain = self.device.domain
        return Box.of(domain)

    @property
    def terms(self) -> int:
        """Rows of the pool."""
        return self.device.groups * self.device.rows_each

    def lattice(self, Y: Floats, farthest: int) -> Integers:
        """Integers of queries, which may lie anywhere."""
        with np.errstate(over="ignore"):
            coordinates = np.rint((Y - np.array(self.device.origin)) * np.array(self.device.scales))
        return np.asarray(np.clip(coordinates, -float(farthest), float(farthest)), dtype=np.int64)

    def steadied(self, terms: Floats, answered: Floats) -> Floats:
        """Take off what a row's number of reports does to its term; the mean of the terms stays as it is.

        People choose rows at random, so rows have unequal numbers of reports. Their sum is fixed, so this is no error
        of the answer, but it would spread the terms, and with them the error bar, by the square of the answer.
        """
        people = answered.sum() / self.device.rows_each
        share = terms.mean(axis=1, keepdims=True) / max(people, 1.0)
        return np.asarray(terms - share * (answered * self.device.groups - people))

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the protocol; everything is drawn again from its seed."""
        return {"quantizer": self.name, "protocol": dict(self.device.document)}, {}

    @classmethod
    def from_document(
        cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], kernel: Any, size: int
    ) -> Self:
        """Rebuild from a release."""
        check_document(document["protocol"], "local", released=True)
        device = device_for(document["protocol"], released=True)
        quantizer = cls(device)  # type: ignore[arg-type]
        if not isinstance(device, PoolDevice) or quantizer.size != size:
            raise ReleaseFileError("the release's protocol does not describe its values")
        return quantizer
