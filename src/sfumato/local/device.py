"""The contract of a local mechanism, device half: a point becomes a short random payload.

A mechanism has two halves, found by its name: devices in this file, servers in `methods.registry.LOCAL`.

- the **device** turns one clipped point into `payload_bytes` bytes, with the standard library only and
  with exact integer probabilities, so that the guarantee holds to the last bit;
- the **server** (`server.Server`) designs the mechanism's parameters from what is public, counts payloads, simulates
  many devices at once, and gives the quantizer that reads the counts.

Both are built from the protocol's document alone: everything that a device needs stands in ``document["mechanism"]``
as integers and texts. Public randomness comes from ``document["seed"]`` through `sfumato.public.rows`.

A document is not believed. `Device.certify` checks that the parameters lie within stated limits and keep the epsilon,
and `Device.guarantee` is the whole promise as it follows from them, to which the document's must be equal.

A report on the wire is the first 4 bytes of the protocol's fingerprint, a random identity of 6 bytes, and the payload.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib import import_module
from typing import Any, ClassVar

from sfumato.errors import InputError, SfumatoError
from sfumato.local.coins import Coins
from sfumato.privacy.guarantee import Guarantee, amount_text, exact_epsilon
from sfumato.public.canonical_json import plain
from sfumato.public.codec import Field, Ratio, Schema, Whole
from sfumato.public.document import PREFIX_BYTES
from sfumato.public.domain import Domain

ID_BYTES = 6
HEADER_BYTES = PREFIX_BYTES + ID_BYTES
MOST_BITS = 62  # of integers among the parameters
WEIGHT = Whole(1, (1 << MOST_BITS) - 1)  # of an outcome
_PUBLISHED = "sfumato.published.local"
# name: module of the device half, its class
_DEVICES: dict[str, tuple[str, str]] = {
    "rows": ("sfumato.local.pooled", "Rows"),
    "phases": ("sfumato.local.pooled", "Phases"),
    "metric-phases": ("sfumato.local.pooled", "MetricPhases"),
    "metric-rows": ("sfumato.local.metric_rows", "MetricRows"),
    "vector": ("sfumato.local.vector", "Vector"),
    "mldp-kde": (f"{_PUBLISHED}.sketch", "MetricSketchDevice"),
    "fkm-lr": (f"{_PUBLISHED}.sketch", "SignsDevice"),
    "fkm-ll": (f"{_PUBLISHED}.sketch", "NoisySignsDevice"),
    "race": (f"{_PUBLISHED}.sketch", "SketchDevice"),
    "dm": (f"{_PUBLISHED}.point", "DuchiDevice"),
    "pm": (f"{_PUBLISHED}.point", "PiecewiseDevice"),
    "sw": (f"{_PUBLISHED}.point", "SquareDevice"),
    "gi": (f"{_PUBLISHED}.point", "PlanarDevice"),
}


class Device(ABC):
    """The part of a mechanism that runs where the point lives.

    Parameters
    ----------
    document : mapping
        A checked protocol, or that of a release, of whatever version.

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
        self.epsilon: Fraction = Ratio().read(document["epsilon"], "epsilon")
        self.seed = bytes.fromhex(document["seed"])

    def read(self, **fields: Field[Any]) -> dict[str, Any]:
        """Return the parameters as fields of stated kinds and ranges; what is unknown or missing is refused by name."""
        return Schema({"name": self.name}, **fields).read(plain(self.parameters), "mechanism")

    @property
    @abstractmethod
    def payload_bytes(self) -> int:
        """Length of every payload."""

    def prepared(self, point: Sequence[float]) -> list[float]:
        """Return the point as it is reported, within the domain; raise `InputError` for what is no point."""
        return self.domain.clip(point)

    def certify(self) -> None:
        """Raise `InputError` unless the parameters are within limits and keep epsilon: organisers are not trusted."""
        if exact_epsilon(self.epsilon) != self.epsilon or str(self.epsilon) != self.document["epsilon"]:
            raise InputError("the protocol's epsilon is no fraction in lowest terms, or has too many digits")
        for name, value in self.parameters.items():
            if type(value) is int and value.bit_length() > MOST_BITS:
                raise InputError(f"the protocol's {name} has more than {MOST_BITS} bits")
        self.domain.check_limits()

    def conditions(self) -> tuple[str, ...]:
        """Return what the guarantee is subject to beside clipping, such as the radius; nothing if it is pure."""
        return ()

    def unchecked(self) -> tuple[str, ...]:
        """Return those of the conditions that are an organiser's word, which no device can check."""
        return ()

    @property
    def within(self) -> str:
        """Which changes of a point epsilon is for; empty where it is for all."""
        return ""

    @property
    def failure(self) -> float:
        """Probability with which the promise may fail, over coins or public randomness."""
        return 0.0

    def guarantee(self) -> Guarantee:
        """Return the promise of one report, all of it."""
        return Guarantee(
            trust="local",
            neighbours="replace",
            unit="record",
            epsilon=self.epsilon,
            n_public=True,
            conditions=(
                self.domain.condition(),
                f"every person reports once (k reports cost k times {amount_text(self.epsilon)})",
                *self.conditions(),
            ),
            private=self.private,
            within=self.within,
        )

    @abstractmethod
    def encode(self, point: Sequence[float], coins: Coins) -> bytes:
        """Randomise one clipped point into a payload."""


def mechanisms() -> tuple[str, ...]:
    """Names of all mechanisms, in the order in which plans list them.

    Examples
    --------
    >>> mechanisms()[0]
    'rows'
    """
    return tuple(_DEVICES)


def device_for(document: Mapping[str, Any], released: bool = False) -> Device:
    """Build the device half that a protocol names.

    Parameters
    ----------
    document : mapping
        A checked protocol.
    released : bool
        Whether it only explains a release. Nobody reports under it, so its promise is not certified again.

    Raises
    ------
    InputError
        For parameters out of which no device can be built, or under which it would not keep epsilon.
    """
    half = device_class(document["mechanism"]["name"])
    try:
        made = half(document)
        if not released:
            made.certify()
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as problem:
        if isinstance(problem, SfumatoError):
            raise
        raise InputError(
            f"the protocol's parameters are damaged ({type(problem).__name__}); ask the organiser for the file again"
        ) from problem
    return made


def device_class(name: str) -> type[Device]:
    """Return the device half of a mechanism."""
    if name not in _DEVICES:
        raise InputError(f"unknown local mechanism {name!r}; known: {', '.join(_DEVICES)}")
    module, class_name = _DEVICES[name]
    found: type[Device] = getattr(import_module(module), class_name)
    return found
