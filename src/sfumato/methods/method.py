"""What the plan and the registry know of a method: how to build it, when it applies, and what it will cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.methods.mechanism import Mechanism
from sfumato.methods.request import Request


@dataclass(frozen=True)
class Prediction:
    """Predicted error and cost of a mechanism, before any data is read.

    Attributes
    ----------
    rmse : float
        Root mean square error of one answer (mean kernel value), the count's part included.
    integers, file_size : int
        Numbers in the release, and most bytes of its file.
    work_per_record, work_per_query : float
        Multiplications for one record (curator) and one query (anyone).
    parameters : mapping
        The sizes chosen.
    """

    rmse: float
    integers: int
    file_size: int
    work_per_record: float
    work_per_query: float
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """One central mechanism under the name people type.

    Attributes
    ----------
    name, summary : str
        The name, and one line for tables.
    options : tuple of str
        Names of the options that are the method's own.
    refuse : callable
        Says why the method does not apply to a request, or returns None.
    predict : callable
        From a request and a mean kernel value P to a `Prediction`.
    build : callable
        From a request to the mechanism; draws the public features.
    baseline : bool
        Whether the method is there to be measured against: plans list it, and "auto" never takes it.
    """

    name: str
    summary: str
    options: tuple[str, ...]
    refuse: Callable[[Request], str | None]
    predict: Callable[[Request, float], Prediction]
    build: Callable[[Request], Mechanism]
    baseline: bool = False
