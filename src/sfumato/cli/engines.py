"""Where the sum of a command runs: `--engine` and `--master`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from sfumato.cli.flags import RUN, flag
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.engines import Engine


class EngineName(StrEnum):
    """Engines, as flags' values."""

    THREADS = "threads"
    PROCESSES = "processes"
    SPARK = "spark"


EngineOption = Annotated[
    EngineName, flag("Where the sum runs; spark needs files that all its workers can open.", panel=RUN)
]
MasterOption = Annotated[
    str | None,
    flag("With --engine spark: its master, such as local[4] or spark://host:7077.", "URL", panel=RUN),
]


def chosen_engine(name: EngineName, master: str | None) -> Engine | str | None:
    """Return the engine that the flags name; Spark starts here, before anything is read."""
    if name is not EngineName.SPARK:
        if master is not None:
            raise InputError("--master is for --engine spark: pass both, or neither")
        return None if name is EngineName.THREADS else name.value
    from sfumato.engines.spark import SparkEngine

    return SparkEngine.start(master)
