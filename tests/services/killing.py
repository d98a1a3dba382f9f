"""Servers that are killed again and again while devices send: a measurement of what is lost and what is doubled.

Used by the tests with a few kills, by `tests.services.attack` and the benchmark with many. Everything runs in forks of
this process, so that a kill takes away nothing else; loops are bounded in count and time, on loopback.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import uvicorn

from sfumato.services.role import Role
from sfumato.services.running import make_config
from sfumato.services.sending import Route, UnreachableError
from sfumato.services.server import Server
from sfumato.services.wire import FRAMES, Fate, framed, path, read_receipt

Send = Callable[[Route, list[bytes]], None]


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def forked(job: Callable[[], None]) -> int:
    """Run a job in a fork, and return its process."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        job()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def serve(make_role: Callable[[], Role], port: int) -> None:
    """Serve until killed."""
    uvicorn.Server(make_config(Server(make_role(), every=0.2), "127.0.0.1", port)).run()


def send_frames(name: str) -> Send:
    """Return what sends frames to a collector or shuffler, and asks for a receipt that says they are held."""

    def send(route: Route, contents: list[bytes]) -> None:
        answer = route.ask("POST", path(name, 0, "frames"), framed(contents), {"content-type": FRAMES})
        assert all(fate is Fate.HELD for fate in read_receipt(answer, len(contents)))

    return send


def send_all(port: int, send: Send, contents: list[bytes], log: Path, seed: int, seconds: float) -> None:
    """Send contents, a few at a time, until each is acknowledged; log what was, each before the next is sent."""
    coins, end = random.Random(seed), time.monotonic() + seconds
    with open(log, "wb", buffering=0) as acknowledged:
        at = 0
        while at < len(contents):
            size = coins.randint(1, 5)
            body = contents[at : at + size]
            try:
                send(Route(f"http://127.0.0.1:{port}", tries=1), body)
            except UnreachableError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
                continue
            acknowledged.write(b"".join(body))
            at += size


def kill_while_sending(
    make_role: Callable[[], Role], send: Send, parts: list[list[bytes]], folder: Path, kills: int, seconds: float
) -> int:
    """Kill a server so often while devices send parts; returns how often it was killed with senders at work.

    A kill waits until a further share of the reports is acknowledged, and then for a random moment: on a slow machine
    as on a fast one every kill comes while there is something left to send.
    """
    port, coins, done = free_port(), random.Random(0), 0
    logs = [folder / f"log-{number}" for number in range(len(parts))]
    whole = sum(len(content) for part in parts for content in part)
    for log in logs:
        log.write_bytes(b"")
    senders = [
        forked(lambda number=number, part=part: send_all(port, send, part, logs[number], number, seconds))  # type: ignore[misc]
        for number, part in enumerate(parts)
    ]
    alive, server = set(senders), 0
    try:
        while alive:
            server = forked(lambda: serve(make_role, port))
            wait_for(port)
            due = whole * (done + 1) / (kills + 2)
            while alive and (done == kills or sum(log.stat().st_size for log in logs) < due):
                for child in list(alive):
                    found, status = os.waitpid(child, os.WNOHANG)
                    if found:
                        alive.discard(child)
                        assert os.waitstatus_to_exitcode(status) == 0, "a sender failed"
                time.sleep(0.01)
            time.sleep(coins.uniform(0.0, 0.02))
            server = _killed(server)
            done += bool(alive)
    finally:
        for child in {server, *alive} - {0}:
            _killed(child)
    return done


def kill_both(
    makes: Mapping[str, Callable[[], Role]],
    ports: Mapping[str, int],
    send: Callable[[], bool],
    over: Callable[[], bool],
    kills: int,
    seed: int,
) -> int:
    """Kill one of several servers at random moments, so often at most, while `send` sends and until it is `over`.

    Parameters
    ----------
    makes, ports
        Each server's role, and where it listens.
    send : callable
        Sends something if there is anything left, and says whether it was acknowledged.
    over : callable
        Whether everything has come to its end.
    kills, seed : int
        How many, and of the moments.
    """
    coins, living, done, end = random.Random(seed), dict[str, int](), 0, time.monotonic() + 600
    try:
        while not over():
            assert time.monotonic() < end, "it did not come to an end"
            for role in makes:
                if role not in living:
                    living[role] = forked(lambda role=role: serve(makes[role], ports[role]))  # type: ignore[misc]
            pause = time.monotonic() + coins.uniform(0.02, 0.5)
            while time.monotonic() < pause:
                time.sleep(0.01 if send() else 0.02)
            if done < kills:
                _killed(living.pop(coins.choice(sorted(living))))
                done += 1
    finally:
        for child in living.values():
            _killed(child)
    return done


def _killed(child: int) -> int:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 0


def wait_for(port: int) -> None:
    for _ in range(6000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise AssertionError("the server did not start")
