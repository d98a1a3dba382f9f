"""Results: one JSON-lines file a case, one row a measurement, with all that is needed to judge and repeat it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import sources
from benchmarks.case import Case
from benchmarks.kinds import Measurement, Unit

FOLDER = Path(__file__).parent / "results"
LIBRARIES = ("sfumato", "numpy", "scipy", "numba", "pyarrow", "opendp")

Row = dict[str, Any]


@cache
def machine() -> dict[str, Any]:
    """Facts about this machine that timings depend on."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "cpu": _cpu_model(),
        "system": f"{platform.system()} {platform.machine()}",
    }


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that do the work."""
    return {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES}


def _cpu_model() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


@dataclass(frozen=True)
class ResultFile:
    """The rows of one case, of both modes."""

    path: Path

    @classmethod
    def of(cls, folder: Path, case: Case) -> ResultFile:
        """Return the file of a case."""
        return cls(folder / f"{case.name}.jsonl")

    def rows(self) -> list[Row]:
        """Read everything, oldest first."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]

    def current(self, case: Case) -> list[Row]:
        """Rows measured in this mode with the case's present settings."""
        return [row for row in self.rows() if row["digest"] == case.digest]

    def shown(self, case: Case) -> list[Row]:
        """Rows to show for this mode: those of the present settings or, before they are measured, the earlier ones."""
        return self.current(case) or [row for row in self.rows() if row["mode"] == case.mode]

    def measured(self, case: Case, unit: Unit) -> bool:
        """Tell whether a unit has been measured, with the same settings; a skipped unit has not."""
        return any(row["unit"] == unit and "skipped" not in row for row in self.current(case))

    def fresh(self, case: Case, unit: Unit) -> bool:
        """Tell whether a unit has been measured, with the same settings and by the code as it is now."""
        rows = [row for row in self.current(case) if row["unit"] == unit and "skipped" not in row]
        return any(not stale(row, case) for row in rows)

    def store(self, case: Case, unit: Unit, measurements: Iterable[Measurement], seconds: float) -> None:
        """Save a unit's rows in place of earlier ones."""
        base = _base(case, unit) | {"seconds": round(seconds, 3)}
        self._replace(case, unit, [base | asdict(measurement) for measurement in measurements])

    def store_skip(self, case: Case, unit: Unit, reason: str) -> None:
        """Note why a unit was skipped; rows measured earlier, where the unit could run, stay."""
        if not self.measured(case, unit):
            self._replace(case, unit, [_base(case, unit) | {"skipped": reason}])

    def _replace(self, case: Case, unit: Unit, rows: list[Row]) -> None:
        """Drop this unit's rows, and this mode's rows of other settings, then append; a crash leaves a whole file."""

        def stays(row: Row) -> bool:
            return bool(row["mode"] != case.mode or (row["digest"] == case.digest and row["unit"] != unit))

        lines = [json.dumps(row) + "\n" for row in [*filter(stays, self.rows()), *rows]]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text("".join(lines), encoding="utf-8")
        temporary.replace(self.path)


def stale(row: Row, case: Case) -> list[str]:
    """Name what has changed since a row was measured, the case's settings or code; nothing where all is as it was."""
    settings = [] if row["digest"] == case.digest else ["the case's settings"]
    return [*settings, *sources.changes(row.get("code"))]


def _base(case: Case, unit: Mapping[str, Any]) -> Row:
    return {
        "case": case.name,
        "kind": case.kind,
        "mode": case.mode,
        "digest": case.digest,
        "unit": dict(unit),
        "command": case.command,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "versions": versions(),
        "commit": sources.commit(),
        "code": sources.loaded(case.kind),
    }
