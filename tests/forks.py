"""Forks that Python does not see, and what their children are refused."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from sfumato.errors import SfumatoError
from sfumato.privacy import process


def unseen_fork() -> int:
    """Fork so that the library has not counted it in the child, as if a compiled library had.

    Python itself must see it: a child of several threads may otherwise wait for ever for the interpreter's lock, which
    a thread that it does not have was about to take.
    """
    counted = process._forks
    child = os.fork()
    if child == 0:
        process._forks = counted
    return child


def told_by_a_child(act: Callable[[], bytes], fork: Callable[[], int] = unseen_fork) -> bytes:
    """Return what a forked child makes; nothing if it fails or is blocked for 20 seconds."""
    read_end, write_end = os.pipe()
    child = fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        try:
            os.write(write_end, act())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return told


def refused_in_a_child(act: Callable[[], object]) -> bool:
    """Tell whether a child is refused by one of our errors; nothing else may go wrong there."""

    def tried() -> bytes:
        try:
            act()
        except SfumatoError:
            return b"refused"
        return b"done"

    told = told_by_a_child(tried)
    assert told in (b"refused", b"done")
    return told == b"refused"
