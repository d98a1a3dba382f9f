"""Work counted in calls: what a test may say of cost, since a clock tells of the machine as well."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def counted_calls(file: str = "") -> Iterator[list[str]]:
    """Collect the names of the functions that this thread calls: all of them, or those of one file in Python.

    Examples
    --------
    >>> with counted_calls() as calls:
    ...     _ = [abs(value) for value in range(3)]
    >>> calls.count("abs")
    3
    """
    calls: list[str] = []

    def note(frame: FrameType, event: str, called: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(file):
            calls.append(frame.f_code.co_name)
        elif event == "c_call" and not file:
            calls.append(called.__name__)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)
