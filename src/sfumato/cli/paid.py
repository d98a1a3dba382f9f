"""Make what is paid for and put it on disk, so that no budget is lost without need.

Everything that can be refused is refused first, the output's space is reserved, the sum runs, the ledger is charged,
and only then is noise drawn and the file written. Until the charge an interrupt costs nothing; between the charge and
the last noise it costs the release; once that is made, signals to end wait until it is on disk, and a disk that refuses
it after all is left for another one (`rescued`).
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Protocol, TypeVar

from sfumato.cli.console import complain, err, size_text
from sfumato.errors import InputError, StorageError
from sfumato.paid import rescued
from sfumato.storage import AtomicFile, allow_files

if TYPE_CHECKING:
    from sfumato.central.estimator import PrivateEstimator
    from sfumato.engines import Progress
    from sfumato.privacy.guarantee import Guarantee
    from sfumato.privacy.ledger import Account, Terms
    from sfumato.release import Release
    from sfumato.sources import Source


def wanted_look(look: bool | None) -> bool:
    """Tell whether to look first: as asked for, or where somebody sits at a terminal to be asked."""
    return (sys.stdin is not None and sys.stdin.isatty() and err().is_terminal) if look is None else look


class Made(Protocol):
    """What a run makes: something that a file can hold."""

    def to_bytes(self) -> bytes:
        """Return the file's content."""


Thing = TypeVar("Thing", bound=Made)
Handler = Callable[[int, FrameType | None], object] | int | None
# Of a keyboard, of a machine that shuts down, and of a terminal that closes; Windows has no SIGHUP.
_ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def make_release(
    model: PrivateEstimator,
    source: Source,
    target: Path,
    *,
    look: bool = False,
    force: bool = False,
    threads: int | None = None,
    show: bool = False,
) -> Release:
    """Fit the model, which has a fixed `feature_seed`, and write its release."""
    from sfumato.central.curator import account_of

    def run(progress: Progress | None) -> Release:
        return model.fit(source, progress=progress, threads=threads, look=look).release_

    account = account_of(model.ledger, source)
    return make_file(run, largest_size(model, source), target, source, account, force=force, show=show)


def make_file(
    run: Callable[[Progress | None], Thing],
    size: int,
    target: Path,
    source: Source | None,
    account: Account | None,
    *,
    force: bool,
    show: bool,
) -> Thing:
    """Make something that is paid for and write it, with `size` bytes reserved on disk before the budget is charged.

    Parameters
    ----------
    run : callable
        Sums, charges `account` and draws the noise; it is told how to report progress.
    size : int
        Most bytes that the file can take.
    target, source, force, show
        As in `make_release`.
    account : Account or None
        What `run` charges.
    """

    def runs() -> dict[Path, Thing]:
        if show:
            complain(f"{str(target)!r} will take at most {size_text(size)}")
        with progress_bar(source, show) as progress:
            return {target: run(progress)}

    return make_files(runs, {target: size}, account, force=force)[target]


def make_files(
    run: Callable[[], Mapping[Path, Thing]], sizes: Mapping[Path, int], account: Account | None, *, force: bool
) -> Mapping[Path, Thing]:
    """Make what belongs in several files, all of them reserved on disk before `run` charges the account.

    Each is written whether or not the disk takes the others.
    """
    charged_before = 0 if account is None else len(account.own_charges)
    made: Mapping[Path, Thing] = {}
    with Interrupts() as interrupts:
        try:
            with ExitStack() as stack:
                allow_files(len(sizes))
                files = {path: stack.enter_context(AtomicFile(path, overwrite=force)) for path in sizes}
                for path, size in sizes.items():
                    files[path].reserve(size)
                made = run()
                interrupts.hold()
                kept = [_kept(file, made[path], path, account) for path, file in files.items()]
                if problems := [problem for problem in kept if problem]:
                    raise StorageError("; ".join(problems))
        except (StorageError, InputError) as error:
            if made and isinstance(error, StorageError):  # which says already what became of it
                raise
            lost = _spent_in_vain(account, charged_before)
            nothing = "; nothing was spent" if isinstance(error, StorageError) else ""
            raise type(error)(f"{error}{lost or nothing}") from error
        except KeyboardInterrupt:
            lost = _spent_in_vain(account, charged_before) or " and nothing was spent"
            raise KeyboardInterrupt(f"interrupted; nothing was written{lost}") from None
        except Exception:  # memory or threads that ran out, or a mistake of ours: told besides, whatever it says itself
            if lost := _spent_in_vain(account, charged_before):
                complain(lost.removeprefix("; but "))
            raise
    return made


def _kept(file: AtomicFile, made: Made, path: Path, account: Account | None) -> str:
    """Write what is paid for; return what became of it where that cannot be, nothing if it is where it belongs.

    The disk may refuse, memory may end, or somebody took the name while the sum ran.
    """
    paid = account is not None
    lost = "; what was paid for it stays spent" if paid else ""
    try:
        content = made.to_bytes()
    except MemoryError:
        return f"there is no memory left to write {str(path)!r}{lost}"
    try:
        file.write(content)
        file.commit()
    except (StorageError, InputError) as error:
        return f"{error}{rescued(content, path, paid=paid) or lost}"
    return ""


def charge_collection(account: Account | None, mechanism: str, guarantee: Guarantee) -> None:
    """Charge what a collection promises before it is simulated: whoever holds all points may publish what comes of it.

    A promise that holds within a distance only is charged with its epsilon, and a note that says so. What makes no
    promise is not charged, as nothing that is marked NOT PRIVATE is.
    """
    if account is not None and guarantee.private:
        terms: Terms = {"neighbours": guarantee.neighbours, "unit": guarantee.unit, "note": guarantee.within}
        account.charge(mechanism, guarantee.epsilon, guarantee.delta, **terms)


def longest_size(release: Release) -> int:
    """Most bytes that a release like this one can take: with the longest numbers that there are."""
    import numpy as np

    from sfumato.release import Count

    longest = np.full(len(release.values), 2**62)
    return len(replace(release, values=longest, count=Count(10**18, 1 / 3, public=False)).to_bytes())


def largest_size(model: PrivateEstimator, source: Source) -> int:
    """Most bytes that the model's release can take; known from public facts alone."""
    import numpy as np

    from sfumato.release import Count

    mechanism = model.mechanism(source)
    blank = mechanism.release(np.zeros(mechanism.reader.size, dtype=np.int64), Count(1, 0.0, public=False))
    return longest_size(replace(blank, columns=source.column_names))


@contextmanager
def progress_bar(source: Source | None, show: bool) -> Iterator[Progress | None]:
    """Show rows done, on a terminal only: the true number of rows is private."""
    if not show or not err().is_terminal:
        yield None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Speed(ProgressColumn):
        """Rows per second."""

        def render(self, task: Task) -> Text:
            return Text(speed_text(task.finished_speed or task.speed))

    done = (TextColumn("rows"), BarColumn(), MofNCompleteColumn())
    columns = (*done, Speed(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err(), transient=True) as bar:
        task = bar.add_task("rows", total=None if source is None else source.expected_rows)
        yield lambda rows: bar.advance(task, rows)


def speed_text(rows: float | None) -> str:
    """Say how fast rows are read.

    Examples
    --------
    >>> speed_text(None), speed_text(1234567.0)
    ('', '1,234,567 rows/s')
    """
    return "" if rows is None else f"{rows:,.0f} rows/s"


def _spent_in_vain(account: Account | None, before: int) -> str:
    """Say what this run charged, after so many other charges, for what does not exist; nothing if nothing was."""
    if account is None:
        return ""
    from sfumato.privacy.guarantee import amount_text
    from sfumato.privacy.ledger import basic_composition

    epsilon, delta = basic_composition(account.own_charges[before:])
    if not epsilon:
        return ""
    return (
        f"; but epsilon = {amount_text(epsilon)}, delta = {delta!r} had been charged already and stays spent: noise "
        "may have been drawn, so it cannot be given back"
    )


class Interrupts:
    """Within the ``with`` block, and after `hold`, a signal that ends the process is kept until the end of the block.

    Examples
    --------
    >>> before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    >>> try:
    ...     with Interrupts() as interrupts:
    ...         interrupts.hold()
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("written")
    ... except KeyboardInterrupt as interrupt:
    ...     print(interrupt)
    written
    interrupted; the release had been paid for and was written
    >>> _ = signal.signal(signal.SIGINT, before)
    """

    def __init__(self) -> None:
        self._arrived = 0
        self._previous: dict[int, Handler] = {}

    def hold(self) -> None:
        """Keep signals from here on. Only a process's main thread gets any; elsewhere this does nothing."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _ENDING:
            before = signal.getsignal(number)
            # An ignored one (nohup, a job in the background) ends nothing; one that is not Python's cannot be put back.
            if before is not None and before != signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._keep)

    def _keep(self, number: int, frame: FrameType | None) -> None:
        self._arrived = number

    def __enter__(self) -> Interrupts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if not self._arrived or kind is not None:
            return
        if self._arrived == signal.SIGINT:
            raise KeyboardInterrupt("interrupted; the release had been paid for and was written")
        signal.raise_signal(self._arrived)
