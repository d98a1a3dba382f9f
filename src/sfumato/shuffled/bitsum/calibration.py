"""Calibrate a bit-sum protocol: the least noise for which all instances together keep (epsilon, delta).

By default the noise is found numerically on the exact laws of what the analyzer sees (`curves`, `composition`), so that
the claimed delta is certified: an upper bound that covers every neighbouring pair of inputs, tails, steps and rounding.
Parameters are rounded to what is sampled exactly before they are certified. Neighbours differ in one user's data, and
`n` is public.

Calibrations are remembered on disk, so that a protocol found once is only certified the next time. A file holds
parameters, never a promise: what is read is certified again, so that a file that someone tampered with may cost
accuracy or messages, but no privacy. It lies in the folder that ``SFUMATO_CACHE`` names, by default in ``sfumato`` in
the user's cache folder (``XDG_CACHE_HOME``, by default ``~/.cache``); an empty ``SFUMATO_CACHE`` turns it off. A folder
that cannot be used is the same as none.

Calibrations as published: closed formulas, for comparison and for the pure guarantee.

Source: T. Wagner, "Learning from End User Data with Shuffled Differential Privacy over Kernel Densities", 2025, and the
protocols it takes up. `rr-published` and `3nb-published` split (epsilon, delta) over the instances by advanced
composition, half of delta for the composition and half for the instances, and use the formulas of Cheu et al. 2019
(Lemma 4.8, two regimes) and Ghazi et al. 2020 in each. The latter leave the constant of the
flood's rate open; here it is halved from 1 until the exact curve of one instance keeps (epsilon0, delta0). `pure` has
the parameters of Ghazi et al. 2023 for noise and dropped bits, with rho in (0, 1/2] and q below 1, which circulating
code exceeds; copies and flood are the cheapest that meet the proven condition of `sfumato.shuffled.bitsum.signed`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from sfumato.errors import InputError, SfumatoError
from sfumato.owner import user_folder
from sfumato.privacy.guarantee import check_choice, exact_epsilon, exact_positive
from sfumato.public.canonical_json import parse
from sfumato.public.codec import brief
from sfumato.public.ranges import LARGEST_NUMBER, check_budget, plain_number
from sfumato.shuffled.bitsum.bit_sum import (
    BitSum,
    ComposableBitSum,
    Floats,
    chance_above,
    checked_participants,
    rate_below,
)
from sfumato.shuffled.bitsum.rr import RandomisedResponse, SampledResponse
from sfumato.shuffled.bitsum.search import Search
from sfumato.shuffled.bitsum.signed import Pure, ThreeNegativeBinomials
from sfumato.shuffled.bitsum.unsigned import NegativeBinomialNoise, PoissonNoise
from sfumato.storage import AtomicFile
from sfumato.version import __version__

LARGEST_RHO = Fraction(1, 2)
_SHAPES = np.unique(np.geomspace(2, 3000, 24).astype(np.int64))
_RATES = np.geomspace(0.1, 1000, 30)  # of the flood, in units of epsilon - epsilon'
_NODES = 400
_MOST_ATTEMPTS = 500


def advanced_composition(instances: int, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the (epsilon0, delta0) of one instance by advanced composition."""
    spread = math.sqrt(2 * instances * math.log(2 / delta))

    def excess(epsilon0: float) -> float:
        return epsilon0 * math.expm1(epsilon0) * instances + epsilon0 * spread - epsilon

    return float(brentq(excess, 0.0, epsilon / spread, xtol=1e-15)), delta / (2 * instances)


def published_response(n: int, instances: int, epsilon: float, delta: float) -> RandomisedResponse:
    """Return randomised response with the flips of Cheu et al."""
    epsilon0, delta0 = advanced_composition(instances, epsilon, delta)
    needed = math.log(4 / delta0)
    if epsilon0 >= math.sqrt(192 * needed / n):
        random_messages = 64 * needed / epsilon0**2
    else:
        random_messages = n - epsilon0 * n**1.5 / math.sqrt(432 * needed)
    return RandomisedResponse(n, chance_above(random_messages / (2 * n)))


def published_three_nb(n: int, instances: int, epsilon: float, delta: float) -> ThreeNegativeBinomials:
    """Return 3NB with 0.99 epsilon0 for the noise and the flood of Ghazi et al."""
    epsilon0, delta0 = advanced_composition(instances, epsilon, delta)
    rate = 0.99 * epsilon0
    shape = math.ceil(3 * (1 + math.log(2 / delta0) + rate))
    flood_rate = epsilon0 / (epsilon0 + math.log(1 / delta0))
    while True:
        protocol = ThreeNegativeBinomials(n, rate_below(rate), shape, rate_below(flood_rate))
        if protocol.pair(1e-6 * delta0).orders(np.array([epsilon0])).max() <= delta0:
            return protocol
        flood_rate /= 2


def published_pure(n: int, instances: int, epsilon: Fraction, rho: Fraction) -> Pure:
    """Return the pure protocol with epsilon / instances for each instance."""
    if not 0 < rho <= LARGEST_RHO:
        raise InputError(f"rho must lie above 0 and not above 1/2; got {rho}.")
    share = epsilon / instances
    rate = rate_below(float(share - rho / 100 * min(share, Fraction(1))))
    drop = float(rho) / (20 * n * math.sinh(float(share) / 2) ** 2)
    if drop >= 1:
        raise InputError(
            f"The pure protocol would leave out every bit: epsilon {float(epsilon):g} over {instances} instances is "
            f"{float(share):.2g} each, too little for {n} participants (q = {drop:.2g} must stay below 1). "
            "Take a larger epsilon, fewer instances, more participants or a smaller rho."
        )
    shape, flood_rate, copies = _cheapest_flood(n, float(share), float(share - rate), drop)
    for more in range(_MOST_ATTEMPTS):  # the nodes of the search are not all there are
        protocol = Pure(
            n, rate, chance_above(drop), copies + more * max(1, copies // 1000), shape, rate_below(flood_rate)
        )
        if protocol.is_private(share):
            return protocol
    raise _no_flood(n, float(share))


def _cheapest_flood(n: int, epsilon: float, slack: float, drop: float) -> tuple[int, float, int]:
    """Shape and rate of the flood and number of copies with about the fewest messages."""
    best, cost = None, math.inf
    for shape in _SHAPES:
        for rate in slack * _RATES:
            copies = _fewest_copies(epsilon, slack, drop, int(shape), float(rate))
            if copies is not None and copies + shape / (rate * n) < cost:
                best, cost = (int(shape), float(rate), copies), copies + shape / (rate * n)
    if best is None:
        raise _no_flood(n, epsilon)
    return best


def _no_flood(n: int, epsilon: float) -> InputError:
    return InputError(
        f"no flood was found that makes an instance private at epsilon {epsilon:.2g} with {n} participants; "
        "take a larger epsilon or fewer instances"
    )


def _fewest_copies(epsilon: float, slack: float, drop: float, shape: int, rate: float) -> int | None:
    """Fewest copies for which the condition of the pure protocol holds at some nodes; None if none do."""
    last = math.ceil((shape - 1) / math.expm1(slack + rate))
    nodes = np.unique(np.concatenate([np.arange(min(last, 50) + 1), np.linspace(0, last, _NODES).astype(np.int64)]))
    left = 1 - math.exp(slack + rate) * nodes / np.maximum(nodes + (shape - 1.0), 1.0)
    needed = np.log(np.maximum(left, 1e-300)) - math.log(math.expm1(epsilon) * drop / (1 - drop))

    def rise(copies: int) -> Floats:
        log_ratio = gammaln(nodes + copies + shape) - gammaln(nodes + copies + 1.0)
        return np.asarray(log_ratio - gammaln(nodes + shape) + gammaln(nodes + 1.0) - rate * copies)

    low, high = 0, int((shape - 1) / rate) - last  # beyond the mode the flood falls
    if high < 1 or np.any(needed > rise(high)):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if np.all(needed <= rise(middle)) else (middle, high)
    return high


NAMES = ("rr", "poisson", "negative-binomial", "3nb", "pure", "rr-published", "3nb-published")
LARGEST_INSTANCES = 10**6
LARGEST_EPSILON = 50
SMALLEST_DELTA = 1e-15
_LARGEST_FILE = 4096

_PUBLISHED: dict[str, Callable[[int, int, float, float], ComposableBitSum]] = {
    "rr-published": published_response,
    "3nb-published": published_three_nb,
}
_EXACT: dict[str, Callable[[Search], ComposableBitSum]] = {
    "rr": Search.response,
    "poisson": Search.poisson,
    "negative-binomial": Search.negative_binomial,
    "3nb": Search.three_nb,
}
KINDS: dict[str, type[BitSum]] = {
    "rr": RandomisedResponse,
    "sampled-rr": SampledResponse,
    "poisson": PoissonNoise,
    "negative-binomial": NegativeBinomialNoise,
    "3nb": ThreeNegativeBinomials,
    "pure": Pure,
}


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A calibrated protocol and what it costs.

    Attributes
    ----------
    name : str
        What was asked for.
    protocol : BitSum
        The protocol of one instance: randomizer and analyzer.
    instances : int
        How many instances run, each with coins of its own.
    epsilon : Fraction
        The guarantee for all instances together.
    delta : float
        Certified; never above what was asked for. Published calibrations have what was asked for.
    """

    name: str
    protocol: BitSum
    instances: int
    epsilon: Fraction
    delta: float

    @property
    def n(self) -> int:
        """Honest participants, at least."""
        return self.protocol.n

    @property
    def rmse(self) -> float:
        """Root mean square error of one sum of bits, for the worst bits."""
        return self.protocol.rmse

    @property
    def messages(self) -> float:
        """Expected messages of one user in all instances, if all bits are 1; less if some are 0."""
        return self.instances * self.protocol.messages(1.0)

    @property
    def bits(self) -> float:
        """Expected bits of one user: each message has its content and the number of its instance."""
        return self.messages * (self.protocol.message_bits + math.ceil(math.log2(self.instances)))

    @property
    def parameters(self) -> dict[str, Fraction | int]:
        """What defines the protocol besides `n`."""
        return self.protocol.parameters


def calibrate(
    name: str,
    *,
    n: int,
    instances: int,
    epsilon: int | float | str | Decimal | Fraction,
    delta: float | None = 0.0,
    messages: float | None = None,
    rho: float | str | Fraction = LARGEST_RHO,
) -> Calibration:
    """Return a protocol for sums of bits with the least noise that keeps a guarantee.

    Parameters
    ----------
    name : {"rr", "poisson", "negative-binomial", "3nb", "pure", "rr-published", "3nb-published"}
        The protocol; the published ones have the noise of their publications' formulas.
    n : int
        Participants who follow the protocol, at least.
    instances : int
        Sums of bits, one bit of every participant in each.
    epsilon : number
        For all instances together.
    delta : float
        For all instances together; 0 or None for "pure" and positive for all others.
    messages : float, optional
        For "rr": messages that a user may send in all instances, on average; the rest of the instances is left out at
        random.
    rho : number
        For "pure", above 0 and at most 1/2: a smaller one leaves out fewer bits and sends more messages.

    Raises
    ------
    InputError
        If a parameter is not allowed, or no noise is enough.

    Examples
    --------
    >>> response = calibrate("rr", n=1000, instances=16, epsilon=1, delta=1e-5)
    >>> round(response.rmse, 1), response.messages, response.delta <= 1e-5
    (15.3, 16.0, True)
    >>> round(calibrate("pure", n=1000, instances=1, epsilon=1).rmse, 2)
    1.4
    """
    check_choice("bitsum", name, NAMES)
    n, instances = checked_participants(n), plain_number(instances)
    if isinstance(instances, bool) or not isinstance(instances, int) or not 1 <= instances <= LARGEST_INSTANCES:
        raise InputError(f"instances must be an int from 1 to 10**6; got {brief(instances)}.")
    exact = exact_epsilon(epsilon)
    if exact > LARGEST_EPSILON:
        raise InputError(f"epsilon must be at most {LARGEST_EPSILON} for a bit-sum protocol; got {float(exact):g}.")
    if messages is not None and name != "rr":
        raise InputError(f"Only 'rr' has a message budget; leave out messages for {name!r}.")
    check_budget(exact, 0.0)
    delta = 0.0 if delta is None else delta
    check_delta(name, delta)
    if name == "pure":
        protocol = published_pure(n, instances, exact, exact_positive(rho, "rho", 1))
        return Calibration(name=name, protocol=protocol, instances=instances, epsilon=exact, delta=0.0)
    send = None if messages is None else _send_chance(messages, instances)
    return _calibrated(name, n, instances, exact, float(delta), send)


def check_delta(name: str, delta: float) -> None:
    """Refuse a delta that a protocol cannot keep, or does not need."""
    if name == "pure":
        delta = plain_number(delta)
        if not isinstance(delta, int | float) or delta:
            raise InputError(
                f"'pure' keeps delta = 0; got {brief(delta)}. Leave delta out, or choose another protocol."
            )
    elif isinstance(delta, bool) or not isinstance(delta, int | float) or not SMALLEST_DELTA <= delta < 1:
        raise InputError(
            f"delta must lie between {SMALLEST_DELTA:g} and 1 for {name!r}; got {brief(delta)}. "
            "Only 'pure' does without."
        )


def checked_messages(messages: Any) -> float:
    """Return a message budget, a positive number."""
    messages = plain_number(messages)
    if isinstance(messages, bool) or not isinstance(messages, int | float) or not 0 < messages <= LARGEST_NUMBER:
        raise InputError(f"messages must be a positive number; got {brief(messages)}.")
    return float(messages)


def _send_chance(messages: float, instances: int) -> Fraction | None:
    messages = checked_messages(messages)
    return rate_below(messages / instances) if messages < instances else None


@lru_cache(maxsize=256)
def _calibrated(
    name: str, n: int, instances: int, epsilon: Fraction, delta: float, send: Fraction | None
) -> Calibration:
    search = Search(n, instances, float(epsilon), delta)
    if name in _PUBLISHED:
        published = _PUBLISHED[name](n, instances, float(epsilon), delta)
        if search.certify(published) > delta:
            raise InputError(f"the published formula of {name!r} does not reach here; use {name.split('-')[0]!r}")
        return Calibration(name=name, protocol=published, instances=instances, epsilon=epsilon, delta=delta)
    path = _path(name, n, instances, epsilon, delta, send)
    protocol = _remembered("sampled-rr" if send is not None else name, n, path)
    certified = math.inf if protocol is None else search.certify(protocol)
    if protocol is None or certified > delta:
        protocol = _EXACT[name](search) if send is None else search.sampled_response(send)
        certified = search.certify(protocol)
        _remember(protocol, path)
    return Calibration(name=name, protocol=protocol, instances=instances, epsilon=epsilon, delta=certified)


def _path(*question: object) -> Path | None:
    """Return where the answer to a question is kept, if anywhere; another version asks another question."""
    chosen = os.environ.get("SFUMATO_CACHE")
    if chosen == "":
        return None
    text = "|".join(map(repr, (__version__, *question)))
    user = user_folder("XDG_CACHE_HOME", ".cache")
    folder = Path(chosen) if chosen else user and user / "sfumato"
    return folder and folder / f"bitsum-{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def _remembered(kind: str, n: int, path: Path | None) -> ComposableBitSum | None:
    """Return the protocol that is kept, None if there is none that can be read."""
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            document = parse(file.read(_LARGEST_FILE))
        made = KINDS[kind](n=n, **KINDS[kind].schema.read(document))  # type: ignore[call-arg]
    except (OSError, ValueError, RecursionError):
        return None
    assert isinstance(made, ComposableBitSum)
    return made


def _remember(protocol: ComposableBitSum, path: Path | None) -> None:
    """Keep a protocol's parameters, if there is a folder for it."""
    if path is None:
        return
    with suppress(OSError, SfumatoError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with AtomicFile(path, overwrite=True) as file:
            file.write(json.dumps(protocol.schema.write(protocol)).encode())
