"""Counters for an operator's monitoring, in the text format of Prometheus. Nothing in them is about one person.

Counts of participants are facts about a collection that its organiser may not want to show before it ends, and that
would show when somebody took part: `/metrics` is for whoever holds the operator's key.
"""

from __future__ import annotations

from collections import Counter

from sfumato.version import __version__


class Metrics:
    """Counts of what a server did since it started.

    Examples
    --------
    >>> metrics = Metrics("collector")
    >>> metrics.count("requests", path="reports", status="200")
    >>> print(metrics.text({"waiting_bytes": 0}).splitlines()[-1])
    sfumato_waiting_bytes{role="collector"} 0
    """

    def __init__(self, role: str) -> None:
        self._role = role
        self._counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        """Count something."""
        self._counts[name, tuple(sorted(labels.items()))] += by

    def text(self, gauges: dict[str, float]) -> str:
        """Return all counts and the given gauges."""
        lines = [f'sfumato_build_info{{role="{self._role}",version="{__version__}"}} 1']
        for name in sorted({name for name, _ in self._counts}):
            lines.append(f"# TYPE sfumato_{name}_total counter")
            for (other, labels), value in sorted(self._counts.items()):
                if other == name:
                    lines.append(f"sfumato_{name}_total{{{_labels(self._role, labels)}}} {value}")
        for name, gauge in sorted(gauges.items()):
            lines += [f"# TYPE sfumato_{name} gauge", f'sfumato_{name}{{role="{self._role}"}} {gauge:g}']
        return "\n".join(lines) + "\n"


def _labels(role: str, labels: tuple[tuple[str, str], ...]) -> str:
    return ",".join(f'{name}="{value}"' for name, value in (("role", role), *labels))
