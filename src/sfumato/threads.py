"""Threads of one process: a task on many items, and BLAS kept to one thread beneath them; and further processes."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from _thread import RLock
    from concurrent.futures import Future, ProcessPoolExecutor

    from threadpoolctl import ThreadpoolController

from sfumato.errors import EngineError
from sfumato.public.ranges import check_whole

Item = TypeVar("Item")
Result = TypeVar("Result")
Given = ParamSpec("Given")
MOST_THREADS = 2**12
_single = threading.RLock()
# One for each caller that wants BLAS on one thread, with the caller's thread; the limits are all the first one's.
_limits: list[tuple[int, Any]] = []
_left: Any = None  # the limit of callers that a fork left behind: it holds in the child, where nobody takes it back


def default_threads() -> int:
    """Count the cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def workers_of(threads: int | None, name: str = "threads") -> int:
    """Check how many workers a caller asks for; as many as there are cores by default.

    Examples
    --------
    >>> workers_of(3)
    3
    """
    return default_threads() if threads is None else check_whole(name, threads, MOST_THREADS)


def spread(
    items: Iterable[Item],
    task: Callable[[Item], Result],
    take: Callable[[Result], None],
    workers: int | None = None,
) -> None:
    """Run a task on every item, on threads, and hand over each result as it is done; one item waits at most.

    A single item is done by the caller: small data are fitted in less time than a thread takes to start.
    """
    from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

    workers = workers_of(workers)
    rest = iter(items)
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:  # which starts no thread before it is given work
        first = list(islice(rest, 2))
        if len(first) == 1:
            return take(task(first[0]))
        pending: set[Future[Result]] = set()
        try:
            for item in chain(first, rest):
                try:
                    pending.add(pool.submit(task, item))
                except RuntimeError as error:  # what a task raises is in its future
                    raise _threadless(error) from error
                if len(pending) > workers:
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    for future in done:
                        take(future.result())
            for future in wait(pending).done:
                take(future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def spawned(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Give processes of this machine, spawned and not forked: they share neither locks nor coins with this one."""
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    class Pool(ProcessPoolExecutor):
        def submit(self, fn: Callable[Given, Result], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Result]:
            try:
                return super().submit(fn, *args, **kwargs)
            except OSError as error:  # of the start of a process: what a task raises is in its future
                raise _unstarted(error) from error

    try:
        pool = Pool(workers, get_context("spawn"))
    except (OSError, ImportError) as error:
        raise _unstarted(error) from error
    with pool:
        try:
            yield pool
        except BrokenProcessPool:
            raise EngineError("one of several processes was ended from outside; start the run again") from None


def _threadless(error: RuntimeError) -> EngineError:
    return EngineError(
        f"no further thread can work here for now ({error}): start the run again when there is room for it"
    )


def _unstarted(error: OSError | ImportError) -> EngineError:
    if isinstance(error, ImportError) or error.errno in (errno.ENOENT, errno.ENOSYS):
        why, fix = f"as there are no semaphores for them ({error})", "mount /dev/shm"
    else:  # there are too many processes, too many open files, or too little memory
        why, fix = f"for now ({error})", "start the run again when the machine has room for them"
    return EngineError(f"no further processes can work here, {why}: {fix}, or do with one process")


@lru_cache(maxsize=1)
def _controller(modules: int) -> ThreadpoolController:
    """Find the loaded BLAS, again only after imports, which may have brought another: it takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread: who owns the threads calls it, and two layers of them cost twice the time.

    The limit is the process's. Callers on several threads share it: the first sets it and the last takes it back. Where
    BLAS has one thread already there is none to set. A child that is forked meanwhile takes it back with its first.
    """
    with _single:
        limit = _limits[0][1] if _limits else _limit()
        mine = threading.get_ident(), limit
        _limits.append(mine)
    try:
        yield
    finally:
        with _single:
            _limits[:] = [one for one in _limits if one is not mine]
            if limit is not None and not _limits:
                _aside(limit.restore_original_limits)


def _limit() -> Any:
    global _left
    if _left is not None:
        limit, _left = _left, None
        return limit
    found = _controller(len(sys.modules))
    if all(library.num_threads == 1 for library in found.lib_controllers):
        return None
    return _aside(lambda: found.limit(limits=1))


def _aside(task: Callable[[], Any]) -> Any:
    """Run on a thread that ends: threadpoolctl lets only the thread that set a limit lift it, as long as it lives.

    No executor: a fork takes its lock too, and waits with it for ours, which whoever is in here holds. For the same
    reason nothing is imported here that takes part in forks, as concurrent.futures and logging do.
    """
    results: list[Any] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(task())
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    try:
        thread.start()
    except RuntimeError as error:
        raise _threadless(error) from error
    thread.join()
    for failure in failures:
        raise failure
    return results[0]


def _after_fork_in_child() -> None:
    """Forget the callers on threads that the child does not have."""
    global _left
    kept = [one for one in _limits if one[0] == threading.get_ident()]
    if _limits and not kept:
        _left = _limits[0][1]
    _limits[:] = kept


def held_over_forks(lock: RLock, in_child: Callable[[], None] = lambda: None) -> None:
    """Let nobody be forked in the middle of a change, with a lock that no thread of the child would give back.

    Python forks also where a hook raises, as the handler of a signal may while a hook waits: this one waits on, and
    afterwards Python tells of the exception. A signal that arrives just before a hook that is Python's ends it before
    its first step. So what gives the lock back is none, and the lock is one that only its owner can give back: not a
    fork that did not get it, for the thread that has it.
    """
    raised: list[BaseException] = []

    def before() -> None:
        held: list[bool] = []  # by this fork: another thread may fork at the same time
        while not held:
            try:
                held.extend(map(lock.acquire, [True]))  # no signal comes between taking the lock and noting it
            except BaseException as problem:
                raised.append(problem)

    def tell() -> None:
        if raised:
            raise raised.pop()

    def after_in_child() -> None:
        raised.clear()
        in_child()

    if hasattr(os, "register_at_fork"):
        as_new = lock._at_fork_reinit  # type: ignore[attr-defined]  # for its owner may be a thread of the parent alone
        os.register_at_fork(before=before, after_in_parent=lock.release, after_in_child=as_new)
        os.register_at_fork(after_in_parent=tell, after_in_child=after_in_child)


held_over_forks(_single, _after_fork_in_child)
