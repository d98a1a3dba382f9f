"""What a collector's server takes, in reports a core-second of the server, on loopback, and what an analyzer opens.

Settings: `single` (reports sent one by one over `connections` connections at once), `batched` (reports sent `batch` to
a body), `messages` (opened by the analyzer, and by HPKE alone), `held` (two numbers of reports that a collector keeps
and releases, for its peak memory; their identities come in order, which spares the disk and not the memory).

A server is a process of its own; its processor time is read when it ends. Every report is durable before it is
acknowledged. Loops are bounded by these counts.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.kinds import Measurement, Settings, Unit
from sfumato.local import Protocol

SEED, HELD_AT_ONCE = 1, 50_000
COLUMNS = {
    "count": "reports or messages",
    "core_seconds": "core seconds",
    "per_core_second": "a core-second",
    "ratio": "of HPKE alone",
    "peak_mb": "peak MB",
    "of_fewer": "of the peak with fewer reports",
}


def units(settings: Settings) -> Sequence[Unit]:
    return [{"what": what} for what in ("single", "batched", "opening", "memory")]


def measure(settings: Settings, unit: Unit) -> Iterator[Measurement]:
    what = unit["what"]
    if what == "opening":
        yield from _opening(settings["messages"])
        return
    if what == "memory":
        yield from _memory(settings["held"])
        return
    count = settings[what]
    batch, connections = (1, settings["connections"]) if what == "single" else (settings["batch"], 8)
    seconds = _served(count, batch, connections)
    values = {"count": count, "core_seconds": seconds, "per_core_second": count / seconds}
    yield Measurement(what, values, {"set": "made up", "n": count}, [SEED])


def _protocol() -> Protocol:
    return Protocol("l2-lsh", 2, "1", 10**6, bandwidth=0.25, bounds=(0, 1), seed=SEED)


def _served(count: int, batch: int, connections: int) -> float:
    """Send reports and return the server's processor time."""
    protocol = _protocol()
    reports = _reports(protocol, count)
    with tempfile.TemporaryDirectory() as folder:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        child = os.fork()
        if not child:
            try:
                _serve(protocol, Path(folder), port)
            finally:
                os._exit(0)
        try:
            _wait_for(port)
            before = _spent(child)
            asyncio.run(_send(port, protocol.fingerprint, reports, batch, connections))
            return _spent(child) - before
        finally:
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)


def _spent(process: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wait_for(port: int) -> None:
    for _ in range(6000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise RuntimeError("the server did not start")


def _serve(protocol: Protocol, folder: Path, port: int) -> None:
    import uvicorn

    from sfumato.services.collector import CollectorRole
    from sfumato.services.limits import Limits
    from sfumato.services.running import make_config
    from sfumato.services.server import Server
    from sfumato.services.signing import SignedProtocol, SigningKey

    signed = SignedProtocol.sign(protocol.document, SigningKey.generate())
    role = CollectorRole(folder / "collector", [signed], Limits(rate=1e9, burst=1e9))
    uvicorn.Server(make_config(Server(role, every=3600), "127.0.0.1", port)).run()


def _reports(protocol: Protocol, count: int, first: int | None = None) -> list[bytes]:
    """Make reports up; with identities that follow each other if the first is given."""
    device = protocol.server().device
    generator = np.random.default_rng(SEED)
    table = np.empty((count, 16), dtype=np.uint8)
    table[:, :4] = np.frombuffer(bytes.fromhex(protocol.fingerprint)[:4], dtype=np.uint8)
    table[:, 4:10] = generator.integers(0, 256, (count, 6))
    if first is not None:
        table[:, 4:10] = np.arange(first, first + count, dtype=">u8").view(np.uint8).reshape(count, 8)[:, 2:]
    table[:, 10:12] = generator.integers(0, device.groups, count).astype("<u2").view(np.uint8).reshape(count, 2)
    codes = device.outcomes**device.rows_each
    table[:, 12:] = generator.integers(0, codes, count).astype("<u4").view(np.uint8).reshape(count, 4)
    return [row.tobytes() for row in table]


async def _send(port: int, name: str, reports: list[bytes], batch: int, connections: int) -> None:
    from sfumato.services.wire import FRAMES, framed, path

    bodies = iter([framed(reports[at : at + batch]) for at in range(0, len(reports), batch)])
    head = f"POST {path(name, 0, 'frames')} HTTP/1.1\r\nhost: x\r\ncontent-type: {FRAMES}\r\ncontent-length: "

    async def worker() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for body in bodies:
            writer.write(f"{head}{len(body)}\r\n\r\n".encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in answer.split(b"\r\n", 1)[0], answer
            size = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            fates = await reader.readexactly(int(size.split(b":")[1]))
            assert not any(fates), "a report was refused"
        writer.close()

    await asyncio.gather(*(worker() for _ in range(connections)))


def _opening(messages: int) -> Iterator[Measurement]:
    """Open a batch as the analyzer does, and the same messages by HPKE alone."""
    from sfumato.shuffled import AnalyzerKey, Shuffler
    from sfumato.shuffled import Protocol as Shuffled
    from sfumato.shuffled.messages import read_batch
    from sfumato.shuffled.sealing import _SUITE, MESSAGE_BYTES

    key, people = AnalyzerKey.generate(), messages // 64
    protocol = Shuffled(
        "gaussian",
        bandwidth=1.0,
        dimension=2,
        epsilon=2,
        delta=1e-5,
        participants=people,
        instances=64,
        key=key,
        seed=1,
    )
    with tempfile.TemporaryDirectory() as folder:
        with Shuffler(f"{folder}/inbox", protocol) as mixer:
            mixer.receive(*(protocol.client().messages([0.0, 0.0]) for _ in range(people)))
            mixer.shuffle(f"{folder}/batch")
        sealed = b"".join(read_batch(f"{folder}/batch"))
        info, count = protocol.context().info, len(sealed) // MESSAGE_BYTES
        start = time.process_time()
        for at in range(0, len(sealed), MESSAGE_BYTES):
            _SUITE.decrypt(sealed[at : at + MESSAGE_BYTES], key._key, info=info)
        alone = time.process_time() - start
        start = time.process_time()
        protocol.analyzer(key).analyze(f"{folder}/batch")
        opened = time.process_time() - start
    values = {"count": count, "core_seconds": opened, "per_core_second": count / opened, "ratio": alone / opened}
    yield Measurement("opening", values, {"set": "made up", "n": people}, [SEED])


def _memory(counts: Sequence[int]) -> Iterator[Measurement]:
    """Peak memory of a process that keeps so many reports and releases them."""
    fewer = 0.0
    for count in counts:
        words = [sys.executable, "-m", "benchmarks.kinds.services", str(count)]
        peak = int(subprocess.run(words, check=True, capture_output=True, text=True).stdout) / 1e6
        values = {"count": count, "peak_mb": peak, **({"of_fewer": peak / fewer} if fewer else {})}
        yield Measurement("memory" if fewer else "memory, fewer", values, {"set": "made up", "n": count}, [SEED])
        fewer = peak


def _hold(count: int) -> None:
    from benchmarks.peak import peak_bytes
    from sfumato.services.collector import CollectorRole
    from sfumato.services.signing import SignedProtocol, SigningKey

    protocol = _protocol()
    with tempfile.TemporaryDirectory() as folder:
        role = CollectorRole(
            Path(folder) / "collector", [SignedProtocol.sign(protocol.document, SigningKey.generate())]
        )
        intake = role.intakes[protocol.fingerprint, 0]
        for first in range(0, count, HELD_AT_ONCE):
            assert not any(intake.settle(_reports(protocol, min(HELD_AT_ONCE, count - first), first)))
        assert role.release(protocol.fingerprint).count.value == count
        print(peak_bytes())


if __name__ == "__main__":
    _hold(int(sys.argv[1]))
