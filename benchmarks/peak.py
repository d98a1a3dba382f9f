"""Run one `sfumato` command (or none: the library's import) in this process and print its peak memory in bytes.

Used by the memory cases, as `python -m benchmarks.peak [release ...]`. The number is the kernel's high-water mark of
this process's own memory; `ru_maxrss` would also count the parent's, from which the process was forked.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import sfumato.central.kde  # noqa: F401 - with all it needs: `import sfumato` alone defers the heavy libraries

STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """Most resident memory of this process so far."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", STATUS.read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{STATUS} does not tell the peak memory")
    return 1024 * int(found.group(1))


def main() -> None:
    """Run the command named by the arguments."""
    if len(sys.argv) > 1:
        from sfumato.cli import app

        app(standalone_mode=False)
    print(peak_bytes())


if __name__ == "__main__":
    main()
