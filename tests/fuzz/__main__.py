"""`python -m tests.fuzz`: fuzz all formats, or run one case again.

python -m tests.fuzz --cases 1000000 --jobs 2 --notes fuzz.jsonl
python -m tests.fuzz --format releases --case 4711 --only 0,2
python -m tests.fuzz --format ledgers --file odd.jsonl
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from random import Random

# One thread each: processes are forked, and memory that threads reserve is no case's.
SINGLE = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
SINGLE |= {"ARROW_IO_THREADS": "1", "MALLOC_ARENA_MAX": "1", "SFUMATO_CACHE": "", "TERM": "dumb"}


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000, help="of all formats together")
    parser.add_argument("--format", action="append", help="fuzz this one alone; several times for several")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="of processor time that a case may take")
    parser.add_argument("--megabytes", type=int, default=600, help="of memory that a case may take")
    parser.add_argument("--notes", type=Path, help="note here what was run; a run that was stopped goes on from it")
    parser.add_argument("--case", type=int, help="run this case of one format here, with its traceback")
    parser.add_argument("--only", help="of that case, these steps")
    parser.add_argument("--keep", type=Path, help="write that case's content to this file")
    parser.add_argument("--file", type=Path, help="use this file as a case of one format")
    asked = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in SINGLE.items()):
        os.execve(sys.executable, [sys.executable, "-m", "tests.fuzz", *sys.argv[1:]], {**os.environ, **SINGLE})
    warnings.simplefilter("ignore")
    return _one(asked) if asked.case is not None or asked.file else _many(asked)


def _one(asked: argparse.Namespace) -> int:
    from tests.fuzz.case import Case, made
    from tests.fuzz.formats import FORMATS

    faulthandler.dump_traceback_later(10 * asked.seconds, exit=True)
    (name,) = asked.format or [""]
    form = FORMATS[name]
    only = None if asked.only is None else tuple(int(step) for step in asked.only.split(",") if step != "none")
    case = Case(name, asked.seed, asked.case or 0, only)
    if asked.file:
        seed, content = form.seeds[0][0], asked.file.read_bytes()
    else:
        seed, content = made(form, case)
    print(f"made from {seed}: {len(content)} bytes, steps {case.steps}")
    if asked.keep:
        asked.keep.write_bytes(content)
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        form.use(content, seed, Path(folder), case.random("use") if asked.case is not None else Random(0))
    print(f"accepted; {time.process_time() - began:.3f} s")
    return 0


def _many(asked: argparse.Namespace) -> int:
    from tests.fuzz.child import Limits
    from tests.fuzz.formats import FORMATS
    from tests.fuzz.runner import fuzz, is_defect, minutes, report, shared, table

    began = time.monotonic()
    formats = [FORMATS[name] for name in asked.format or FORMATS]
    limits = Limits(asked.seconds, asked.megabytes)
    figures = fuzz(formats, shared(formats, asked.cases), asked.seed, asked.jobs, limits, asked.notes)
    print(table(figures))
    for line in report(figures):
        print(line)
    print(f"seed {asked.seed}, {minutes(began)}")
    return int(any(is_defect(failure) for found in figures.values() for failure in found.failures.values()))


if __name__ == "__main__":
    sys.exit(main())
