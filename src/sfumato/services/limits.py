"""What one sender may do: how much, how often, how slowly. Every limit is a number that the operator can change.

Rates are kept as token buckets, one for each address, in bounded memory: the address that was quiet for longest is
forgotten first. Addresses are never written anywhere; of those of IPv6 the first 64 bits count, for whoever has one has
all the others. Behind a relay all senders have one address; the operator then raises its rate
(`Limits.rate`) and counts on tokens, which have a rate of their own.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from sfumato.services.wire import Problem

MOST_ADDRESSES = 100_000
_SMALL = 1 << 16


@dataclass(frozen=True)
class Limits:
    """Numbers that the operator can change.

    Attributes
    ----------
    body : int
        Bytes of a body.
    body_seconds : float
        How long a body may take to arrive.
    head_seconds : float
        How long a connection may take to send the head of a request.
    request_seconds : float
        How long a request may take in all, its answer read.
    rate, burst : float
        Requests of one address a second, in the long run and at once.
    token_rate, token_burst : float
        Requests with one token a second, in the long run and at once.
    connections, connections_each : int
        Open at a time, in all and of one address.
    waiting : int
        Bytes that may wait to be written, and bytes of large bodies that may be on their way.
    """

    body: int = 1 << 24
    body_seconds: float = 30.0
    head_seconds: float = 10.0
    request_seconds: float = 600.0
    rate: float = 50.0
    burst: float = 200.0
    token_rate: float = 0.2
    token_burst: float = 20.0
    connections: int = 2000
    connections_each: int = 256
    waiting: int = 1 << 26


class Rates:
    """Token buckets by address.

    Examples
    --------
    >>> now = [0.0]
    >>> rates = Rates(rate=1.0, burst=2.0, clock=lambda: now[0])
    >>> [rates.wait("a") for _ in range(3)]
    [0.0, 0.0, 1.0]
    >>> now[0] = 1.0
    >>> rates.wait("a")
    0.0
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, address: str) -> float:
        """Take one request; return 0, or how many seconds there is to wait for one."""
        now = self._clock()
        left, then = self._buckets.pop(address, (self._burst, now))
        left = min(self._burst, left + max(now - then, 0.0) * self._rate)
        waiting = 0.0 if left >= 1 else (1 - left) / self._rate
        self._buckets[address] = (left - 1 if left >= 1 else left), now
        if len(self._buckets) > MOST_ADDRESSES:
            self._buckets.popitem(last=False)
        return waiting

    def check(self, address: str) -> None:
        """Raise a `Problem` if an address asks too often."""
        waiting = self.wait(address)
        if waiting:
            raise Problem("busy", retry_after=math.ceil(waiting))


def sender(request: Request) -> str:
    """Return the address that a rate belongs to."""
    host = request.client.host if request.client else ""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    return str(address.ipv4_mapped or address.packed[:8].hex())


class Bodies:
    """Reads bodies whole, within limits: each, and all that are on their way together.

    Parameters
    ----------
    limits : Limits
        What senders may do. Bodies below 64 kB are bounded by the number of connections and always find room, so that a
        few large ones that do not come to an end keep nobody else out.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._large = 0

    async def read(self, request: Request) -> bytes:
        """Return a body."""
        stated = request.headers.get("content-length", "0")
        if not stated.isdecimal() or int(stated) > self._limits.body:
            raise Problem("too-large", f"it may have {self._limits.body} bytes")
        parts, size, counted = [], 0, 0
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                async for part in request.stream():
                    parts.append(part)
                    size += len(part)
                    if size > self._limits.body:
                        raise Problem("too-large", f"it may have {self._limits.body} bytes")
                    if size > _SMALL:
                        self._large, counted = self._large + size - counted, size
                        if self._large > max(self._limits.waiting, self._limits.body):
                            raise Problem("busy", "large bodies wait", retry_after=1)
        except TimeoutError:
            raise Problem("too-slow", f"it may take {self._limits.body_seconds:g} seconds") from None
        finally:
            self._large -= counted
        return b"".join(parts)
