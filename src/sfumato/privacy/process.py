"""Which process this is, for what no fork may copy: noise, and budgets that live in memory.

A process id is not enough. Python does not see the forks of compiled libraries, and the first processes of two
containers both have the id 1. So a mark holds the id, the number of forks that Python saw, and random bytes on a page
that Linux empties in every child, however it was forked.

OpenSSL, by which keys of RSA and the ephemeral ones of sealed messages are drawn, goes by the id alone, and cannot be
told: what it would draw in such a copy is refused (`check_openssl`).
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
from typing import TypeAlias

from sfumato.errors import InputError

Mark: TypeAlias = tuple[int, int, bytes]

MARK_BYTES = 16
WIPE_ON_FORK = 18  # of Linux's madvise; Python has no name for it
NO_ADVICE = 12345  # which a system that looks at all refuses
LONGEST_WAIT = 1.0  # seconds for another thread that marks the page

_forks = 0  # how many lie between this process and the first, as far as Python saw them
_marking = threading.Lock()


def process_mark() -> Mark:
    """Return what no other process has.

    Examples
    --------
    >>> process_mark() == process_mark()
    True
    """
    if _page is None:
        return os.getpid(), _forks, b""
    if not any(_page[:MARK_BYTES]):
        _mark(_page)
    return os.getpid(), _forks, _page[:MARK_BYTES]


def _mark(page: mmap.mmap) -> None:
    """Write random bytes once: two threads that did it at the same time would each take the other's for a fork.

    A lock that a thread of the parent held at the fork is free for nobody, so nobody waits for it long.
    """
    fresh = os.urandom(MARK_BYTES)
    held = _marking.acquire(timeout=LONGEST_WAIT)
    try:
        if not any(page[:MARK_BYTES]):
            page[:MARK_BYTES] = fresh
    finally:
        if held:
            _marking.release()


def check_openssl() -> None:
    """Raise `InputError` where OpenSSL would draw what another process drew or will draw; ask before it draws.

    It takes fresh randomness wherever the process id is not the one that it saw last.

    Examples
    --------
    >>> check_openssl()
    """
    global _drawing
    mark = process_mark()
    if mark != _drawing and mark[0] == _drawing[0]:
        raise InputError(
            "this process is a copy of another one of the same id, and OpenSSL, which cannot tell them apart, would "
            "draw the same keys in both: do this in a process that was started anew"
        )
    _drawing = mark


def _emptied_by_forks() -> mmap.mmap | None:
    """Return a page that the system empties in every child; None where no system does that."""
    if sys.platform != "linux":
        return None
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page.madvise(WIPE_ON_FORK)
    except OSError:  # before Linux 4.14
        return None
    try:
        page.madvise(NO_ADVICE)
    except OSError:
        return page
    return None  # an emulator that accepts any advice and follows none


def _after_fork_in_child() -> None:
    global _forks
    _forks += 1
    process_mark()


_page = _emptied_by_forks()
_drawing = process_mark()  # the process in which OpenSSL was last asked
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork_in_child)
