"""`sfumato serve demo`: every role of two collections as processes on this machine, and devices that take part.

Devices of the first collection report to a collector, which anybody may. Those of the second are admitted by tokens,
and their messages go through a shuffler to an analyzer. All addresses are loopback; everything ends with the command.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.cli.console import facts, say
from sfumato.cli.flags import flag
from sfumato.errors import InputError, SfumatoError, StorageError
from sfumato.storage import AtomicFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.services.sending import Route

_SEED, _SENDERS, _PATIENCE = 1, 16, 300.0
_RATE = "1000000"  # all devices have one address here


def demo(
    output: Annotated[Path, flag("Folder for keys, servers, releases and maps; a new one.", "DIR", "-o", "--output")],
    devices: Annotated[int, flag("Devices that report to the collector.", "N", min=10)] = 10_000,
    people: Annotated[int, flag("Devices that send through the shuffler.", "N", min=10)] = 200,
) -> None:
    """Run all roles on this machine, send to them as simulated devices, and fetch releases and maps."""
    if output.exists():
        raise InputError(f"{str(output)!r} exists already; choose a new folder")
    output.mkdir(mode=0o700, parents=True)
    points = _points(max(devices, people))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the servers end too
    with ExitStack() as stack:
        _local(stack, output, points[:devices])
        _shuffled(stack, output, points[:people])
    facts([(name, str(output / name)) for name in ("local.sfm", "local.html", "shuffled.sfm", "shuffled.html")])


def _points(count: int) -> NDArray[Any]:
    """Draw two villages on the unit square."""
    import numpy as np

    generator = np.random.default_rng(_SEED)
    centres = np.array([[0.3, 0.35], [0.7, 0.65]])[generator.integers(0, 2, count)]
    return np.clip(centres + 0.08 * generator.standard_normal((count, 2)), 0, 1)


def _sfumato(folder: Path, *words: str) -> None:
    """Run a command of ours, and show it as one would type it."""
    say(f"$ sfumato {' '.join(words)}")
    done = subprocess.run(_command(words), cwd=folder, capture_output=True, text=True)
    if done.returncode:
        kind = StorageError if done.returncode == StorageError.exit_code else SfumatoError
        raise kind(f"sfumato {words[0]} {words[1]} failed: {done.stderr.strip()}")


def _command(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-c", "from sfumato.cli import main; main()", *words]


@contextmanager
def _serving(folder: Path, *words: str) -> Iterator[str]:
    """Run a server while the block lasts, and give its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = (*words, "--port", str(port), "--rate", _RATE)
    say(f"$ sfumato {' '.join(words)} &")
    with open(folder / f"{words[1]}.log", "ab") as written:
        process = subprocess.Popen(_command(words), cwd=folder, stdout=written, stderr=written)
    try:
        _wait(lambda: _listens(port) or process.poll() is not None, words[1])
        if process.poll() is not None:
            kind = StorageError if process.poll() == StorageError.exit_code else SfumatoError
            raise kind(f"the {words[1]} did not start: see {folder / (words[1] + '.log')}")
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _wait(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise SfumatoError(f"the {what} took more than {_PATIENCE:g} seconds")
        time.sleep(0.1)


def _each(job: Callable[[int], None], numbers: Iterable[int]) -> None:
    """Do a job for many devices, some at a time."""
    with ThreadPoolExecutor(_SENDERS) as pool:
        for _ in pool.map(job, numbers):
            pass


def _local(stack: ExitStack, folder: Path, points: NDArray[Any]) -> None:
    from sfumato.local import Protocol
    from sfumato.services.sending import Route, fetch_protocol, send
    from sfumato.services.signing import SigningKey

    _sfumato(folder, *f"local protocol -o local.json --kernel l2-lsh --bandwidth 0.2 --dimension 2 --epsilon 4 "
             f"--participants {len(points)} --bounds 0,1".split())  # fmt: skip
    _sfumato(folder, *["serve", "key", "-o", "organiser.key"])
    _sfumato(folder, *["serve", "sign", "local.json", "--key", "organiser.key", "-o", "local.signed.json"])
    words = ["serve", "collector", "local.signed.json", "--folder", "collector", "--every", "1"]
    route = Route(stack.enter_context(_serving(folder, *words)))
    organiser = SigningKey.load(folder / "organiser.key").public.hex()
    signed = fetch_protocol(route, organiser)
    device = Protocol.from_document(signed.document).client()
    began = time.monotonic()
    _each(lambda number: send(route, signed.fingerprint, 0, device.report(points[number])), range(len(points)))
    say(f"{len(points)} devices reported in {time.monotonic() - began:.0f} seconds")
    _fetch(route, folder / "local", len(points))


def _shuffled(stack: ExitStack, folder: Path, points: NDArray[Any]) -> None:
    from sfumato.services.sending import Route, fetch_protocol, fetch_token, send, token_request
    from sfumato.services.signing import SigningKey
    from sfumato.shuffled import Protocol

    os.mkdir(folder / "shuffler", mode=0o700)
    _sfumato(folder, *f"shuffled protocol -o shuffled.json --new-key analyzer.key --bandwidth 0.2 --dimension 2 "
             f"--epsilon 4 --delta 1e-4 --participants {len(points)} --bounds 0,1 --instances 64".split())  # fmt: skip
    _sfumato(folder, *["serve", "key", "-o", "shuffler/server.key"])
    _sfumato(folder, *["serve", "key", "-o", "issuer.key", "--issuer"])
    shuffler = SigningKey.load(folder / "shuffler" / "server.key").public.hex()
    _sfumato(folder, "serve", "sign", "shuffled.json", "--key", "organiser.key", "--shuffler", shuffler,
             "--issuer", _public(folder / "issuer.key"), "-o", "shuffled.signed.json")  # fmt: skip
    _sfumato(folder, "serve", "invite", str(len(points)), "-o", "codes.txt", "--hashes", "invitations.txt")
    serving = (
        "serve issuer shuffled.signed.json --folder issuer --key issuer.key --invitations invitations.txt",
        "serve analyzer shuffled.signed.json --folder analyzer --key analyzer.key",
    )
    issuer, analyzer = (stack.enter_context(_serving(folder, *words.split())) for words in serving)
    way = Route(issuer)
    words = f"serve shuffler shuffled.signed.json --folder shuffler --analyzer {analyzer} --close-at {len(points)}"
    route = Route(stack.enter_context(_serving(folder, *words.split())))
    signed = fetch_protocol(route, SigningKey.load(folder / "organiser.key").public.hex())
    protocol, codes = Protocol.from_document(signed.document), (folder / "codes.txt").read_text().split()

    def take_part(number: int) -> None:
        token = fetch_token(way, signed, codes[number], token_request(signed))
        messages = protocol.client(max_delta=1e-4).messages(points[number])
        send(route, signed.fingerprint, 0, messages.to_bytes(), token)

    began = time.monotonic()
    _each(take_part, range(len(points)))
    say(f"{len(points)} devices were admitted and sent in {time.monotonic() - began:.0f} seconds")
    _fetch(Route(analyzer), folder / "shuffled", len(points))


def _public(key: Path) -> str:
    from sfumato.services.admission import IssuerKey

    return IssuerKey.load(key).public.text


def _fetch(route: Route, target: Path, count: int) -> None:
    """Fetch release and map once all are counted."""
    from sfumato.release import load
    from sfumato.services.sending import RefusedError

    release = target.with_suffix(".sfm")

    def complete() -> bool:
        try:
            content = route.ask("GET", "/release.sfm")
        except RefusedError:
            return False
        _write(release, content)
        return int(load(release).count.value) == count

    _wait(complete, "release")
    _write(target.with_suffix(".html"), route.ask("GET", "/map.html"))
    say(f"{release}: {load(release).guarantee}")


def _write(path: Path, content: bytes) -> None:
    with AtomicFile(path, overwrite=True) as file:
        file.write(content)
