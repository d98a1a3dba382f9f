"""Each role killed under load, and what it must hold afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import sfumato
from sfumato.services.admission import IssuerKey, blind, token_text
from sfumato.services.analyzer import AnalyzerRole
from sfumato.services.collector import CollectorRole
from sfumato.services.issuer import IssuerRole, code_hash, new_codes
from sfumato.services.log import read_log
from sfumato.services.role import Role
from sfumato.services.sending import RefusedError, Route, UnreachableError, send
from sfumato.services.server import Server
from sfumato.services.shuffler import Policy, ShufflerRole
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.services.wire import FRAMES, framed
from sfumato.shuffled import AnalyzerKey
from tests.services.conftest import running
from tests.services.killing import free_port, kill_both, kill_while_sending, send_frames
from tests.services.targets import (
    NOWHERE,
    OPEN_HANDED,
    PEOPLE,
    local_protocol,
    shuffled_collection,
    shuffled_protocol,
    submissions,
)

SENDERS, SECONDS = 2, 600.0


def kill_collector(folder: Path, kills: int) -> int:
    """Kill a collector under load: it holds exactly what was sent, and the release counts it once."""
    protocol = local_protocol()
    signed = SignedProtocol.sign(protocol.document, SigningKey.generate())
    device, name = protocol.client(), protocol.fingerprint

    def role() -> CollectorRole:
        return CollectorRole(folder / "collector", [signed], OPEN_HANDED)

    parts = [[device.report([0.5, 0.5]) for _ in range(40 * (kills + 2))] for _ in range(SENDERS)]
    killed = kill_while_sending(role, send_frames(name), parts, folder, kills, SECONDS)
    after = role()
    store = after.intakes[name, 0].store
    kept = [bytes(row[0]) + bytes(row[1]) for rows in store.blocks(1000) for row in rows]
    sent = {report[4:] for part in parts for report in part}
    assert set(kept) == sent and len(kept) == len(sent) == store.count() == after.release(name).count.value
    store.close()
    return killed


def kill_shuffler(folder: Path, kills: int) -> int:
    """Kill a shuffler under load: it holds every submission once, and can read it."""
    protocol = shuffled_protocol(AnalyzerKey.generate())
    signed = SignedProtocol.sign(protocol.document, SigningKey.generate(), shuffler="00" * 32)
    name = protocol.fingerprint

    def role() -> ShufflerRole:
        return ShufflerRole(folder / "shuffler", [signed], NOWHERE, Policy(participants=10**6), OPEN_HANDED)

    parts = [submissions(protocol, 12 * (kills + 2)) for _ in range(SENDERS)]
    killed = kill_while_sending(role, send_frames(name), parts, folder, kills, SECONDS)
    intake = role().intakes[name, 0]
    rows = [row for block in intake.store.blocks(1000) for row in block]
    kept = sorted(bytes(row[0]) + bytes(row[1]) + intake.opened(*map(bytes, row)) for row in rows)
    assert kept == sorted(content for part in parts for content in part) and intake.store.count() == len(kept)
    intake.store.close()
    return killed


def kill_issuer(folder: Path, kills: int) -> int:
    """Kill an issuer under load: each invitation has one token, the same however often it is asked for."""
    key = IssuerKey.generate()
    signed = SignedProtocol.sign(local_protocol().document, SigningKey.generate(), key.public.text)
    name, codes = signed.fingerprint, new_codes(SENDERS * 4 * (kills + 2))
    (folder / "hashes").write_text("".join(f"{code_hash(code)}\n" for code in codes))
    requests = [framed([code.encode(), blind(token_text(name), key.public).blinded]) for code in codes]
    where, kind = f"/v1/collections/{name}/token", {"content-type": FRAMES}
    answers = {body: key.sign_blindly(body[-key.public.signature_bytes :]) for body in requests}

    def ask(route: Route, bodies: list[bytes]) -> None:
        for body in bodies:
            assert route.ask("POST", where, body, kind) == answers[body]

    def role() -> IssuerRole:
        return IssuerRole(folder / "issuer", [signed], [key], folder / "hashes", OPEN_HANDED)

    killed = kill_while_sending(role, ask, [requests[::2], requests[1::2]], folder, kills, SECONDS)
    with running(Server(role())) as address:
        ask(Route(address), requests)
        for code in codes[:10]:
            other = framed([code.encode(), blind(token_text(name), key.public).blinded])
            try:
                Route(address).ask("POST", where, other, kind)
            except RefusedError:
                continue
            raise AssertionError("an invitation was used twice")
    assert role().counts(name, 0)["used"] == len(codes)
    return killed


def kill_shuffler_and_analyzer(folder: Path, kills: int, seed: int) -> int:
    """Kill both at random moments of receiving, mixing, handing over and opening: everybody counts once."""
    signed, protocol = shuffled_collection(folder)
    name, ports = protocol.fingerprint, {"shuffler": free_port(), "analyzer": free_port()}
    address, waiting = f"http://127.0.0.1:{ports['analyzer']}", submissions(protocol)
    makes: dict[str, Callable[[], Role]] = {
        "shuffler": lambda: ShufflerRole(folder / "shuffler", [signed], address, Policy(participants=PEOPLE)),
        "analyzer": lambda: AnalyzerRole(folder / "analyzer", [signed], [folder / "analyzer.key"]),
    }
    released = folder / "analyzer" / f"{name}-0" / "release.sfm"
    inbox, key = folder / "shuffler" / f"{name}-0" / "inbox.key", folder / "analyzer.key"

    def send_one() -> bool:
        try:
            if waiting:
                send(Route(f"http://127.0.0.1:{ports['shuffler']}", tries=1), name, 0, waiting[0])
                waiting.pop(0)
            return True
        except UnreachableError:
            return False

    def over() -> bool:
        return not (waiting or inbox.exists() or key.exists()) and released.exists()

    killed = kill_both(makes, ports, send_one, over, kills, seed)
    assert sfumato.load(released).count.value == PEOPLE
    after = makes["shuffler"](), makes["analyzer"]()
    for one in after:
        one.step(name, 0)  # what the last kill interrupted is finished
    events = [[entry["event"] for entry in _entries(one)] for one in after]
    assert events == [["opened", "closed", "messages-deleted"], ["opened", "published", "key-deleted"]]
    left = [path.name for one in after for path in one.folder.glob("*-0/*")]
    assert [name for name in left if not name.startswith("items.db")] == ["release.sfm"]
    return killed


def _entries(role: Role) -> list[dict[str, Any]]:
    return read_log(role.log.content(), role.key.public.hex())
