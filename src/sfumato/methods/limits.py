"""Budgets for time and space, and how many features they leave room for.

Costs are counted in multiplications and bytes, which do not depend on the machine. A file's size is an upper bound:
eight bytes an integer, plus the header. Frequencies take space only when a kernel cannot be rebuilt from its document.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from sfumato.kernels import Kernel

INTEGER_BYTES = 8
# The fixed part of a header with its checksum, and one column's bounds, grid and name; both measured, with room.
HEADER_BYTES, COLUMN_BYTES = 2500, 128
MOST_TERMS = 2**40


@dataclass(frozen=True)
class Limits:
    """What a release may cost; infinite unless said.

    Attributes
    ----------
    work_per_record, work_per_query : float
        Multiplications for one record (curator) and for one query (anyone).
    file_size : float
        Bytes of the release file.
    """

    work_per_record: float = math.inf
    work_per_query: float = math.inf
    file_size: float = math.inf

    def most_terms(self, kernel: Kernel, dimension: int, width: int) -> int:
        """Most features of `width` integers that the file and a query have room for."""
        room = (self.file_size - header_size(kernel, dimension)) / term_size(kernel, dimension, width)
        return _whole(min(room, self.work_per_query / dimension))

    def most_terms_of_a_record(self, dimension: int) -> int:
        """Most features that one record may touch."""
        return _whole(self.work_per_record / dimension)


def header_size(kernel: Kernel, dimension: int) -> int:
    """Most bytes of a release file that are not features, for column names of up to 32 letters."""
    return HEADER_BYTES + COLUMN_BYTES * dimension + len(json.dumps(kernel.to_document()))


def term_size(kernel: Kernel, dimension: int, width: int) -> int:
    """Most bytes of one feature: its sums, and its frequency and offset when they have to be stored."""
    return INTEGER_BYTES * (width if kernel.portable else width + dimension + 1)


def _whole(value: float) -> int:
    return max(0, math.floor(min(value, MOST_TERMS)))
