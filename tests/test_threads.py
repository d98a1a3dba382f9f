"""The engine of one machine: BLAS on one thread, and work that is handed over as it is done."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_info

import sfumato
from sfumato import threads
from sfumato.errors import EngineError, StorageError
from sfumato.threads import one_blas_thread, spawned, spread
from tests.forks import told_by_a_child


def told_by(script: str) -> str:
    """What a script prints, which complains of nothing, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(Path(sfumato.__file__).parents[1])}
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert not done.stderr
    return done.stdout


def blas_threads() -> int:
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


@pytest.mark.usefixtures("two_blas_threads")
def test_overlapping_sums_leave_blas_as_it_was() -> None:
    inside, done = threading.Event(), threading.Event()

    def second() -> None:
        with one_blas_thread():
            inside.set()
            done.wait(10)

    with ThreadPoolExecutor(1) as pool:
        with one_blas_thread():
            future = pool.submit(second)
            inside.wait(10)
        assert blas_threads() == 1  # the second one is still in there
        done.set()
        future.result()
    assert blas_threads() == 2


@pytest.mark.usefixtures("two_blas_threads")
def test_a_child_that_is_forked_meanwhile_leaves_blas_as_it_was() -> None:
    inside, done = threading.Event(), threading.Event()

    def other() -> None:
        with one_blas_thread():
            inside.set()
            done.wait(10)

    def used() -> bytes:
        with one_blas_thread():
            within = blas_threads()
        return b"%d then %d" % (within, blas_threads())

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(other)
        inside.wait(10)
        assert told_by_a_child(used) == b"1 then 2"
        with one_blas_thread():
            assert told_by_a_child(used) == b"1 then 1"  # whoever forked is in there too, in the child as well
        done.set()
        future.result()
    assert blas_threads() == 2


def test_a_child_waits_for_no_thread_that_it_does_not_have() -> None:
    held = threading.Event()

    def other() -> None:
        with threads._single:
            held.set()
            time.sleep(0.1)

    def used() -> bytes:
        with one_blas_thread():
            return b"used"

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(other)
        held.wait(10)
        assert told_by_a_child(used) == b"used"
        future.result()


# A query that goes on once the fork holds every lock that it takes before ours; the executor is imported after us.
FORK_BESIDE_A_QUERY = """
import faulthandler, os, threading, time
from sfumato import threads
from concurrent.futures.thread import _global_shutdown_lock

faulthandler.dump_traceback_later(20, exit=True)
queried = threading.Event()

def limit():
    queried.set()
    while not _global_shutdown_lock.locked():
        time.sleep(0.001)
    return threads._aside(lambda: None)

def query():
    with threads.one_blas_thread():
        pass

threads._limit = limit
querying = threading.Thread(target=query)
querying.start()
queried.wait()
child = os.fork()
if not child:
    with threads._single:
        os._exit(0)
querying.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_beside_a_query_waits_for_nothing_that_waits_for_it() -> None:
    assert told_by(FORK_BESIDE_A_QUERY) == "0\n"


# A fork waits for a lock that another thread holds, and is interrupted meanwhile: Python forks where a hook raises.
INTERRUPTED_FORK = """
import os, signal, sys, threading, time
from sfumato.threads import held_over_forks

lock, held, told = threading.RLock(), threading.Event(), []
held_over_forks(lock)

def work():
    with lock:
        held.set()
        while not told:
            time.sleep(0.01)
        time.sleep(0.1)
        told.append(lock._is_owned())

def interrupt(number, frame):
    told.append("interrupted")
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
sys.unraisablehook = lambda given: told.append(given.exc_type.__name__)
working = threading.Thread(target=work)
working.start()
held.wait()
signal.setitimer(signal.ITIMER_REAL, 0.1)
child = os.fork()
if not child:
    with lock:
        os._exit(0)
working.join()
with lock:
    print(told, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_an_interrupted_fork_gives_back_no_lock_of_another_thread() -> None:
    assert told_by(INTERRUPTED_FORK) == "['interrupted', True, 'KeyboardInterrupt'] 0\n"


# One thread's fork has the lock that is taken first and waits for the other one, when another thread forks too.
FORKS_AT_ONCE = """
import os, sys, threading, time
from sfumato.threads import held_over_forks

last, first, told = threading.RLock(), threading.RLock(), []
held_over_forks(last)
held_over_forks(first)
sys.unraisablehook = lambda given: told.append(given.exc_type.__name__)

def fork():
    child = os.fork()
    if not child:
        with last, first:
            os._exit(0)
    told.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

with last:
    forking = [threading.Thread(target=fork) for _ in range(2)]
    for thread in forking:
        thread.start()
        time.sleep(0.2)
for thread in forking:
    thread.join()
print(told, last.acquire(False), first.acquire(False))
"""


def test_threads_that_fork_at_once_hold_the_lock_one_after_another() -> None:
    assert told_by(FORKS_AT_ONCE) == "[0, 0] True True\n"


# A signal arrives while the process is copied: its handler runs before the first step of a hook that is Python's. libc
# raises it in the last hook before the copy, which is the first that was registered, with no step of Python between.
SIGNAL_AT_THE_FORK = """
import ctypes, functools, os, signal, sys
os.register_at_fork(before=functools.partial(ctypes.CDLL(None)["raise"], int(signal.SIGUSR1)))
from sfumato import threads

def interrupt(number, frame):
    raise KeyboardInterrupt

signal.signal(signal.SIGUSR1, interrupt)
sys.unraisablehook = lambda given: None
try:
    child = os.fork()
    if not child:
        os._exit(threads._single._is_owned())
except KeyboardInterrupt:
    pass
print(threads._single._is_owned(), os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_signal_while_a_process_is_copied_leaves_no_lock_behind() -> None:
    assert told_by(SIGNAL_AT_THE_FORK) == "False 0\n"


# A signal arrives before the first step of our hook: the fork goes on without the lock, which another thread has.
SIGNAL_BEFORE_THE_FORK = """
import ctypes, functools, os, signal, sys, threading, time
from sfumato.MODULE import LOCK as lock

held, told = threading.Event(), []
os.register_at_fork(before=functools.partial(ctypes.CDLL(None)["raise"], int(signal.SIGUSR1)))

def work():
    with lock:
        held.set()
        time.sleep(0.2)
        told.append(lock._is_owned())

def interrupt(number, frame):
    raise KeyboardInterrupt

signal.signal(signal.SIGUSR1, interrupt)
sys.unraisablehook = lambda given: None
working = threading.Thread(target=work)
working.start()
held.wait()
child = os.fork()
if not child:
    with lock:
        os._exit(0)
working.join()
with lock:
    print(told, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize(("module", "lock"), [("threads", "_single"), ("central.merging", "STATE")])
def test_a_fork_that_could_not_wait_gives_back_no_lock_of_another_thread(module: str, lock: str) -> None:
    assert told_by(SIGNAL_BEFORE_THE_FORK.replace("MODULE", module).replace("LOCK", lock)) == "[True] 0\n"


def test_what_fails_aside_is_told() -> None:
    with pytest.raises(ZeroDivisionError):
        threads._aside(lambda: 1 // 0)


def test_processes_without_semaphores_or_that_were_ended_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError, match="ended from outside"), spawned(1):
        raise BrokenProcessPool("what a pool says of a worker that was killed")

    def missing(*_: Any, **__: Any) -> Any:
        raise FileNotFoundError(2, "No such file or directory")  # what Python finds where there is no /dev/shm

    monkeypatch.setattr("multiprocessing.synchronize.SemLock.__init__", missing)
    with pytest.raises(EngineError, match="mount /dev/shm, or do with one process"), spawned(1):
        pass


def _refused_by_the_disk() -> None:
    raise StorageError(28, "No space left on device")


@pytest.mark.parametrize(
    "what", ["multiprocessing.synchronize.SemLock.__init__", "multiprocessing.process.BaseProcess.start"]
)
def test_processes_that_cannot_be_started_are_told(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many already, what counts semaphores cannot be started, and a worker cannot."""

    def refused(*_: Any, **__: Any) -> Any:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(what, refused)
    told = r"temporarily unavailable\): start the run again .*, or do with one process"
    with pytest.raises(EngineError, match=told), spawned(1) as pool:
        pool.submit(len, b"")


@pytest.mark.parametrize("alone", [False, True])  # the limit of BLAS is set by a thread too
def test_threads_that_cannot_be_started_are_told(alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    taken: list[int] = []
    if alone:
        monkeypatch.setattr(threads, "_limit", lambda: None)
    else:
        monkeypatch.setattr(threads, "_limit", lambda: threads._aside(lambda: None))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(EngineError, match="no further thread can work here for now"):
            spread([1, 2, 3], lambda item: item, taken.append, workers=2)
    spread([1, 2, 3], lambda item: item, taken.append, workers=2)
    assert sorted(taken) == [1, 2, 3] and not threads._limits


def test_what_a_worker_raises_is_its_own() -> None:
    with pytest.raises(StorageError, match="No space left"), spawned(1) as pool:
        pool.submit(_refused_by_the_disk).result()


def test_work_is_taken_from_the_items_as_it_is_done() -> None:
    begun: list[int] = []

    def items() -> Any:
        for item in range(50):
            begun.append(item)
            yield item

    results: list[int] = []

    def take(result: int) -> None:
        assert len(begun) <= len(results) + 2 + 2
        results.append(result)

    spread(items(), lambda item: item * item, take, workers=2)
    assert sorted(results) == [item * item for item in range(50)]


def test_a_single_item_is_done_by_the_caller() -> None:
    done: list[threading.Thread] = []
    spread([1], lambda item: threading.current_thread(), done.append)
    assert done == [threading.current_thread()]
    spread([], lambda item: item, done.append)
    assert len(done) == 1


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.parametrize("items", [1, 3])
def test_every_task_has_one_blas_thread(items: int) -> None:
    found: list[int] = []
    spread(range(items), lambda item: blas_threads(), found.append)
    assert found == [1] * items and blas_threads() == 2
