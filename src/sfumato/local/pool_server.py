"""What the servers of `rows` and `phases` share: payloads of a group and one digit for each of its rows."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.local.pool_device import GROUP_BYTES, PoolDevice
from sfumato.local.server import Payloads, Server
from sfumato.local.tally import Tally
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.response import Response
from sfumato.quantizers.base import Floats, Integers

MOST_NUMBERS = 1 << 26  # public random numbers of a pool, half a gigabyte: what a server holds


class PoolServer(Server):
    """Counts the digits of reports, row by row."""

    device: PoolDevice

    @property
    def rows(self) -> int:
        """Rows of the pool."""
        return self.device.groups * self.device.rows_each

    @cached_property
    def codes(self) -> int:
        """How many codes a report may hold."""
        return int(self.device.outcomes**self.device.rows_each)

    @abstractmethod
    def add_digits(self, rows: Integers, digits: Integers, tally: Tally) -> None:
        """Add one digit for each of the rows."""

    @abstractmethod
    def random_digits(self, X: Integers, rows: Integers, bits: SecureBits) -> Integers:
        """Randomise the i-th point in the i-th row."""

    def count(self, payloads: Payloads, tally: Tally) -> NDArray[np.bool_]:
        """Split payloads into a group and digits; refuse those out of range."""
        groups = payloads[:, 0].astype(np.int64) | payloads[:, 1].astype(np.int64) << 8
        codes = np.ascontiguousarray(payloads[:, GROUP_BYTES:]).view("<u4")[:, 0].astype(np.int64)
        good = (groups < self.device.groups) & (codes < self.codes)
        groups, codes = groups[good], codes[good]
        for i in range(self.device.rows_each):
            codes, digits = np.divmod(codes, self.device.outcomes)
            self.add_digits(groups * self.device.rows_each + i, digits, tally)
        return good

    def simulate(self, points: Floats, bits: SecureBits, tally: Tally) -> None:
        """Draw groups and digits for many people."""
        made = self.device
        X = np.rint((points - np.array(made.origin)) * np.array(made.scales)).astype(np.int64)
        groups = bits.below(made.groups, len(X))
        for i in range(made.rows_each):
            rows = groups * made.rows_each + i
            self.add_digits(rows, self.random_digits(X, rows, bits), tally)


def pool_groups(request: Request, rows_each: int, largest: int, option: str) -> int:
    """Return the number of groups: one for each person, as far as a report can name them and a server can hold them."""
    wanted = request.options.get(option)
    if wanted is None:
        held = max(1, MOST_NUMBERS // request.dimension)
        return max(1, min(request.n, largest // rows_each, held // rows_each))
    if type(wanted) is not int or not rows_each <= wanted <= largest:
        raise InputError(f"{option} must be an integer from {rows_each} to {largest}, got {wanted!r}")
    return wanted // rows_each


def integer_choices(request: Request, name: str, default: range) -> range | tuple[int]:
    """Return the values that an integer option may take: the caller's, or all."""
    value = request.options.get(name)
    if value is None:
        return default
    if type(value) is not int or value not in default:
        raise InputError(f"{name} must be an integer from {default[0]} to {default[-1]}, got {value!r}")
    return (value,)


def respond(response: Response, starts: Integers, bits: SecureBits) -> Integers:
    """Draw an output for each start, independently: `Response.draw` for many."""
    draws = bits.below(response.total, len(starts))
    inner = response.width * response.same
    steps = np.where(draws < inner, draws // response.same, response.width + (draws - inner) // response.other)
    return np.asarray((starts + steps) % response.outcomes)
