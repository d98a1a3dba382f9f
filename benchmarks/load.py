"""A collector under load that is killed again and again: ``python -m benchmarks.load --minutes 10``.

Two senders at a time send small bodies until each is acknowledged, rounds follow each other for so many minutes, and in
each round the server is killed (SIGKILL) at random moments. In the end the storage must hold exactly what was
acknowledged, each report once, and the release must count them. Loopback only.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from sfumato.local import Protocol
from sfumato.services.collector import CollectorRole
from sfumato.services.limits import Limits
from sfumato.services.signing import SignedProtocol, SigningKey
from tests.services.killing import kill_while_sending, send_frames

SENDERS, REPORTS, KILLS = 2, 1500, 10


def run(minutes: float, folder: Path) -> tuple[int, int, int, int]:
    """Return reports acknowledged, kills, reports lost and reports doubled."""
    protocol = Protocol("l2-lsh", bandwidth=0.5, dimension=2, epsilon=2, participants=1000, bounds=(0, 1), seed=7)
    signed = SignedProtocol.sign(protocol.document, SigningKey.generate())
    device, name = protocol.client(), protocol.fingerprint

    def role() -> CollectorRole:
        return CollectorRole(folder / "collector", [signed], Limits(rate=1e9, burst=1e9))

    end, kills, sent = time.monotonic() + 60 * minutes, 0, set()
    while time.monotonic() < end:
        parts = [[device.report([0.5, 0.5]) for _ in range(REPORTS)] for _ in range(SENDERS)]
        kills += kill_while_sending(role, send_frames(name), parts, folder, KILLS, seconds=600)
        sent |= {report[4:] for part in parts for report in part}  # a round ends when all are acknowledged
    after = role()
    store = after.intakes[name, 0].store
    kept = [bytes(row[0]) + bytes(row[1]) for rows in store.blocks(1000) for row in rows]
    released = int(after.release(name).count.value)
    store.close()
    lost, doubled = len(sent - set(kept)), len(kept) - len(set(kept)) + abs(released - len(kept))
    return len(sent), kills, lost, doubled


def main() -> None:
    """Run it from the command line; a loss is an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        sent, kills, lost, doubled = run(given.minutes, Path(folder))
    spent = (time.monotonic() - began) / 60
    print(f"{sent} reports acknowledged, {kills} kills, {lost} lost, {doubled} doubled, in {spent:.1f} minutes")
    if lost or doubled:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
