"""Devices that answer for few rows of a large public pool: what `rows` and `phases` share.

A payload is the group of rows as 16 bits and one digit for each of its rows, base `outcomes`, as 32 bits, the first
row's digit lowest; both little-endian. The group is drawn independently of the point, so only the digits cost privacy,
epsilon / rows_each each.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.errors import InputError
from sfumato.local.coins import Coins
from sfumato.local.mechanism import Device
from sfumato.privacy.response import check_weights
from sfumato.public.document import plain

GROUP_BYTES, CODE_BYTES = 2, 4
LARGEST_POOL = 1 << 16
LARGEST_COORDINATE = 1 << 52


class PoolDevice(Device):
    """A device that answers for a random group of consecutive rows of a pool, one digit a row.

    Attributes
    ----------
    rows_each, groups : int
        Rows of a group; number of groups.
    reach : int
        Largest coordinate of a point.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.rows_each = positive_integer(self.parameters, "rows_each")
        self.groups = positive_integer(self.parameters, "groups")
        if self.groups * self.rows_each > LARGEST_POOL:
            raise InputError(f"the protocol's pool must have at most {LARGEST_POOL} rows")
        share = self.epsilon / self.rows_each
        self.same, self.other = check_weights(self.parameters.get("same"), self.parameters.get("other"), share)
        domain = self.domain
        self.scales = _scales(self.parameters.get("scales"), domain.dimension)
        self.origin = domain.middle if self.parameters.get("origin") == "middle" else (0.0,) * domain.dimension
        self.reach = max(map(abs, self.lattice(domain.lower) + self.lattice(domain.upper)))
        if self.reach > LARGEST_COORDINATE:
            raise InputError("the protocol's bounds are too wide for its scales")

    @property
    def payload_bytes(self) -> int:
        """A group and a code."""
        return GROUP_BYTES + CODE_BYTES

    @property
    @abstractmethod
    def outcomes(self) -> int:
        """Number of digits of one row."""

    def lattice(self, point: Sequence[float]) -> list[int]:
        """Integers of a clipped point: ``(x - origin) * scale`` in binary64, rounded half to even."""
        return [round((x - o) * s) for x, o, s in zip(point, self.origin, self.scales, strict=True)]

    @abstractmethod
    def digit(self, row: int, X: Sequence[int], coins: Coins) -> int:
        """Random outcome of one row."""

    def encode(self, point: Sequence[float], coins: Coins) -> bytes:
        """Pick a group, answer for each of its rows."""
        X = self.lattice(point)
        group = coins.below(self.groups)
        code = 0
        for i in reversed(range(self.rows_each)):
            code = code * self.outcomes + self.digit(group * self.rows_each + i, X, coins)
        return group.to_bytes(GROUP_BYTES, "little") + code.to_bytes(CODE_BYTES, "little")


def positive_integer(parameters: Mapping[str, Any], name: str) -> int:
    """Read a positive integer of a protocol."""
    value = parameters.get(name)
    if type(value) is not int or value < 1:
        raise InputError(f"the protocol's {name} must be a positive integer, got {value!r}")
    return value


def _scales(values: Any, dimension: int) -> tuple[float, ...]:
    numbers = plain(values)
    if not isinstance(numbers, list) or len(numbers) != dimension:
        raise InputError("the protocol needs one scale for each column")
    if not all(isinstance(number, float) and 0 < number < 2.0**400 for number in numbers):
        raise InputError("the protocol's scales must be positive decimals")
    return tuple(numbers)
