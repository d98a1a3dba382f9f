"""A forked process that runs cases under limits and tells its parent through a pipe what it is at.

The use of each case has `Limits.seconds` of processor time, and its making by the fuzzer as much again, after which it
is interrupted; if it cannot be (a loop in compiled code), the parent sees that and ends the process. The process may
have `Limits.megabytes` more address space than when it started, so that a case that wants more gets a `MemoryError`,
and nothing else on the machine suffers.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import resource
import shutil
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from tests.fuzz.case import ACCEPTED, REFUSED, UNMADE, Case, Format, made, signature
from tests.fuzz.library import SfumatoError

START, FINDING, END = "S", "F", "E"
LARGEST_FILE = 1 << 28


@dataclass(frozen=True)
class Limits:
    """What a case may take."""

    seconds: float = 2.0
    megabytes: int = 600


@dataclass
class Summary:
    """What the cases of one process took."""

    cases: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    slowest: float = 0.0
    slowest_case: int = -1
    megabytes: float = 0.0


class OverTime(BaseException):
    """A case used up its time; not an `Exception`, which the library may catch."""


def _interrupt(number: int, frame: Any) -> NoReturn:
    raise OverTime("the time is over")


def limit_memory(megabytes: int) -> None:
    """Let this process grow by so much and no more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def attempt(form: Format[Any], case: Case, folder: Path, limits: Limits) -> tuple[str, float]:
    """Make a case and use it; return what became of it and the processor time of its use, or raise what that raised."""
    began = time.process_time()
    try:
        try:
            name, content = made(form, case)
        except OverTime:  # the fuzzer's own work, of which the library knows nothing
            return UNMADE, 0.0
        began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, limits.seconds)
        form.use(content, name, folder, case.random("use"))
    except SfumatoError:
        return REFUSED, time.process_time() - began
    return ACCEPTED, time.process_time() - began


def timed(form: Format[Any], case: Case, folder: Path, limits: Limits) -> tuple[str, str | None, float]:
    """Run a case; return what became of it, the signature of its failure or None, and the processor time."""
    outcome, problem = "failed", None
    began = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_PROF, limits.seconds)
        try:
            outcome, took = attempt(form, case, folder, limits)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except KeyboardInterrupt:
        raise
    except BaseException as failure:  # whatever it is, it is what we are looking for
        problem, took = signature(failure), time.process_time() - began
    if problem is None and took > limits.seconds:
        problem = "OverTime: in compiled code"
    return outcome, problem, took


def work(form: Format[Any], cases: Iterable[Case], limits: Limits, write: int) -> None:
    """Run cases, and report each start, each failure and the sums."""
    warnings.simplefilter("ignore")
    faulthandler.disable()  # the parent names the case, and a second run of it shows the rest
    signal.signal(signal.SIGPROF, _interrupt)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.freeze()  # what was there before the fork is never garbage
    limit_memory(limits.megabytes)
    outcomes: Counter[str] = Counter()
    summary = Summary()
    folder = Path(tempfile.mkdtemp(prefix="sfumato-fuzz-"))
    tempfile.tempdir = str(folder)  # what the library makes for itself goes there too
    try:
        for case in cases:
            os.write(write, f"{START}{case.number}\n".encode())
            outcome, problem, took = timed(form, case, folder, limits)
            outcomes[outcome] += 1
            summary.cases += 1
            summary.seconds += took
            if took > summary.slowest:
                summary.slowest, summary.slowest_case = took, case.number
            if problem is not None:
                os.write(write, f"{FINDING}{json.dumps([case.number, problem])}\n".encode())
            _clear(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    summary.outcomes = dict(outcomes)
    summary.megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    os.write(write, f"{END}{json.dumps(asdict(summary))}\n".encode())


def _clear(folder: Path) -> None:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


class Child:
    """The parent's side of a forked process.

    Parameters
    ----------
    form : Format
        What the cases are.
    cases : sequence of Case
        What to run.
    limits : Limits
        What each may take.
    """

    def __init__(self, form: Format[Any], cases: list[Case], limits: Limits) -> None:
        self.form, self.cases, self.limits = form, cases, limits
        self.findings: list[tuple[int, str]] = []
        self.summary: Summary | None = None
        self.at, self.begun = -1, 0  # the case that was begun last, and how many were
        self._rest = b""
        self._seen = (-1, 0.0, time.monotonic())
        self.read, write = os.pipe()
        self.process = os.fork()
        if not self.process:
            status = 1
            try:
                os.close(self.read)
                work(form, cases, limits, write)
                status = 0
            finally:
                os._exit(status)
        os.close(write)

    def receive(self) -> bool:
        """Read what came; False at the end of the pipe."""
        content = os.read(self.read, 1 << 16)
        *lines, self._rest = (self._rest + content).split(b"\n")
        for line in lines:
            kind, rest = chr(line[0]), line[1:].decode()
            if kind == START:
                self.at = int(rest)
                self.begun += 1
            elif kind == FINDING:
                number, problem = json.loads(rest)
                self.findings.append((number, problem))
            else:
                self.summary = Summary(**json.loads(rest))
        return bool(content)

    def watch(self) -> None:
        """End the process if its case took much more than it may; `finish` then names the case."""
        used, now = self._used(), time.monotonic()
        at, before, since = self._seen
        if at != self.at:
            self._seen = (self.at, used, now)
        elif used - before > 2 * self.limits.seconds + 1 or now - since > 20 * self.limits.seconds + 20:
            os.kill(self.process, signal.SIGKILL)

    def _used(self) -> float:
        """Processor time so far."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def finish(self) -> list[Case]:
        """Wait for the end; return the cases that are left because one of them took the process with it."""
        os.close(self.read)
        _, status = os.waitpid(self.process, 0)
        if self.summary is not None:
            return []
        code = os.waitstatus_to_exitcode(status)
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        hung = code == -signal.SIGKILL
        self.findings.append((self.at, "OverTime: ended from outside" if hung else f"Crash: {name}"))
        return self.cases[self.begun :]
