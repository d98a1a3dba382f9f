"""Timings that a busy machine disturbs little: CPU time, interleaved repetitions, the least of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def least_cpu_seconds(actions: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Run all actions in turn, `repetitions` times over, and return the least CPU time of each, all threads counted.

    Each action should have run once before: the first run pays for compilation and cold caches.
    """
    least = dict.fromkeys(actions, float("inf"))
    for _ in range(repetitions):
        for name, action in actions.items():
            start = time.process_time()
            action()
            least[name] = min(least[name], time.process_time() - start)
    return least
