"""Where the sum runs: `Engine` is the one door to the data, `Threads` the engine of one machine."""

from sfumato.engines.base import Engine, Progress
from sfumato.engines.threads import Threads, engine_of

__all__ = ["Engine", "Progress", "Threads", "engine_of"]
