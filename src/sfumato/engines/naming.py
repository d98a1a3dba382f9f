"""Which engine runs a sum: the one that the caller names or passes, or the one that the rows are on."""

from __future__ import annotations

from sfumato.engines.base import Engine
from sfumato.engines.threads import Threads
from sfumato.errors import InputError
from sfumato.sources import Source
from sfumato.sources.remote import Frame

NAMES = ("threads", "processes", "spark")


def engine_of(engine: Engine | str | None, threads: int | None = None, source: Source | None = None) -> Engine:
    """Return the engine that a caller names; threads by default, and Spark for a source that is a Spark DataFrame.

    Examples
    --------
    >>> engine_of(None, threads=2)
    Threads(workers=2, batch=65536)
    """
    if engine is None and threads is None and source is not None and isinstance(source.read, Frame):
        engine = "spark"
    if engine is None or engine == "threads":
        return Threads(threads)
    if threads is not None:
        raise InputError("threads is for the engine of this machine: say how many workers where the engine is made")
    if isinstance(engine, Engine):
        return engine
    if engine == "spark":
        from sfumato.engines.spark import SparkEngine

        return SparkEngine()
    if engine == "processes":
        from sfumato.engines.processes import Processes

        return Processes()
    raise InputError(f"engine must be {', '.join(map(repr, NAMES))} or an Engine, got {engine!r}")
