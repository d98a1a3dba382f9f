"""Ctrl-C that can be told to wait while something that has been paid for is written."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Interrupts:
    """Within the ``with`` block, and after `hold`, an interrupt is kept until the end of the block.

    Examples
    --------
    >>> try:
    ...     with Interrupts() as interrupts:
    ...         interrupts.hold()
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("written")
    ... except KeyboardInterrupt as interrupt:
    ...     print(interrupt)
    written
    interrupted; the release had been paid for and was written
    """

    def __init__(self) -> None:
        self._arrived = False
        self._previous: object = None
        self._holding = False

    def hold(self) -> None:
        """Keep interrupts from here on. Only a process's main thread gets any; elsewhere this does nothing."""
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._keep)
            self._holding = True

    def _keep(self, number: int, frame: FrameType | None) -> None:
        self._arrived = True

    def __enter__(self) -> Interrupts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._holding:
            signal.signal(signal.SIGINT, self._previous)  # type: ignore[arg-type]
        if self._arrived and kind is None:
            raise KeyboardInterrupt("interrupted; the release had been paid for and was written")
