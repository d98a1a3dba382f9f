"""The contract of a local mechanism, device half: a point becomes a short random payload.

A mechanism has two halves, found by its name in `registry`:

- the **device** (this file) turns one clipped point into `payload_bytes` bytes, with the standard library only and
  with exact integer probabilities, so that the guarantee holds to the last bit;
- the **server** (`server.Server`) designs the mechanism's parameters from what is public, counts payloads, simulates
  many devices at once, and gives the quantizer that reads the counts.

Both are built from the protocol's document alone: everything that a device needs stands in ``document["mechanism"]``
as integers and texts. Public randomness comes from ``document["seed"]`` through `sfumato.public_rows`.

A report on the wire is the first 4 bytes of the protocol's fingerprint, a random identity of 6 bytes, and the payload.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from sfumato.domain import Domain
from sfumato.local.coins import Coins
from sfumato.privacy.guarantee import fraction_from_text
from sfumato.protocol import PREFIX_BYTES

ID_BYTES = 6
HEADER_BYTES = PREFIX_BYTES + ID_BYTES


class Device(ABC):
    """The part of a mechanism that runs where the point lives.

    Parameters
    ----------
    document : mapping
        A checked protocol. Raise `InputError` for parameters that do not keep the promised epsilon: a device does not
        trust the organiser's arithmetic.

    Attributes
    ----------
    name : str
        The mechanism's name.
    document, parameters : mapping
        The protocol, and its field ``"mechanism"``.
    domain : Domain
        Where points live; `encode` gets points that are already clipped.
    epsilon : Fraction
        What is promised.
    seed : bytes
        Public seed.
    private : bool
        Whether reports keep the epsilon; the document is not asked.
    """

    name: ClassVar[str]
    angular: bool = False  # whether points count by their direction, see `prepared`
    private: ClassVar[bool] = True  # a device says by itself whether it keeps any epsilon

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.parameters: Mapping[str, Any] = document["mechanism"]
        self.domain = Domain.from_document(document["domain"])
        self.epsilon: Fraction = fraction_from_text("epsilon", document["epsilon"])
        self.seed = bytes.fromhex(document["seed"])

    @property
    @abstractmethod
    def payload_bytes(self) -> int:
        """Length of every payload."""

    def prepared(self, point: Sequence[float]) -> list[float]:
        """Return the point as it is reported, within the domain; raise `InputError` for what is no point."""
        return self.domain.clip(point)

    def conditions(self) -> tuple[str, ...]:
        """Return the sentences that the protocol's guarantee must contain, such as the radius; none if it is pure."""
        return ()

    @abstractmethod
    def encode(self, point: Sequence[float], coins: Coins) -> bytes:
        """Randomise one clipped point into a payload."""
