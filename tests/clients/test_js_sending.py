"""The device in TypeScript against Python's servers: reports and submissions, tokens, accounts that both read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra 'server' is not installed")

from sfumato.errors import BudgetError
from sfumato.local import Protocol
from sfumato.local.account import DeviceAccount
from sfumato.services.admission import IssuerKey
from sfumato.services.collector import CollectorRole
from sfumato.services.issuer import IssuerRole, code_hash, new_codes
from sfumato.services.server import Server
from sfumato.services.shuffler import Policy, ShufflerRole
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.shuffled import AnalyzerKey
from sfumato.shuffled import Protocol as Shuffled
from tests.clients.conftest import in_client
from tests.services.conftest import running

SCRIPT = """
import { FileAccount, Route, fetchProtocol, openProtocol, takePart, tookPart } from "./dist/node.js";
const given = JSON.parse(process.argv[1]);
const route = new Route(given.server, { tries: 3 });
const signed = await fetchProtocol(route, given.organiser);
const protocol = await openProtocol(signed);
const account = await FileAccount.open(given.account, "4");
const issuer = given.issuer ? { issuer: new Route(given.issuer), invitation: given.invitation } : {};
const before = await tookPart(account, signed.fingerprint);
const receipts = [];
for (const point of given.points) {
  receipts.push((await takePart({ route, signed, protocol, account, point, ...issuer })).digest);
}
console.log(JSON.stringify({ before, receipts, spent: await account.spent() }));
"""


def take_part(account: Path, server: str, organiser: SigningKey, **more: str) -> dict[str, Any]:
    """Take part twice from two points; the second time must send the first answer again."""
    given = {
        "account": str(account),
        "server": server,
        "organiser": organiser.public.hex(),
        "points": [[0.2, 0.7], [0.9, 0.9]],
    }
    found = json.loads(in_client("node", "--input-type=module", "-e", SCRIPT, json.dumps({**given, **more})))
    assert found["receipts"][0] == found["receipts"][1]
    return dict(found)


@contextmanager
def servers(*roles: Any) -> Iterator[list[str]]:
    with ExitStack() as stack:
        yield [stack.enter_context(running(Server(role))) for role in roles]


def test_a_report_with_a_token(built: Path, tmp_path: Path) -> None:
    organiser, key, codes = SigningKey.generate(), IssuerKey.generate(), new_codes(1)
    protocol = Protocol("l2-lsh", bandwidth=0.5, dimension=2, epsilon=2, participants=100, bounds=(0, 1))
    signed = SignedProtocol.sign(protocol.document, organiser, issuer=key.public.text)
    (tmp_path / "invitations").write_text("".join(f"{code_hash(code)}\n" for code in codes))
    collector = CollectorRole(tmp_path / "collector", [signed])
    issuer = IssuerRole(tmp_path / "issuer", [signed], [key], tmp_path / "invitations")
    with servers(collector, issuer) as (server, admits):
        account = tmp_path / "account.json"
        found = take_part(account, server, organiser, issuer=admits, invitation=codes[0])
        assert not found["before"] and found["spent"] == "2"
        assert take_part(account, server, organiser, issuer=admits, invitation=codes[0])["before"]
        store = collector.intakes[protocol.fingerprint, 0].store
        assert store.count() == 1 and store.refused() == {}
    kept = DeviceAccount(account, 4)  # the same file, by Python
    assert kept.spent == 2 and kept.keeps(protocol.fingerprint) and account.stat().st_mode & 0o777 == 0o600
    kept.charge("another", Fraction(2))
    with pytest.raises(BudgetError):
        kept.charge("a third", Fraction(1, 100))


def test_a_submission(built: Path, tmp_path: Path) -> None:
    organiser = SigningKey.generate()
    protocol = Shuffled(
        "gaussian", bandwidth=0.5, dimension=2, epsilon=2, delta=1e-5, participants=60, bounds=(0, 1), instances=8,
        key=AnalyzerKey.generate(), seed=7,
    )  # fmt: skip
    signed = SignedProtocol.sign(protocol.document, organiser, shuffler="00" * 32)
    role = ShufflerRole(tmp_path / "shuffler", [signed], "http://127.0.0.1:9", Policy(participants=1000))
    with servers(role) as (server,):
        assert take_part(tmp_path / "account.json", server, organiser)["spent"] == "2"
        store = role.intakes[protocol.fingerprint, 0].store
        assert store.count() == 1 and store.refused() == {}
    account = DeviceAccount(tmp_path / "account.json", 4)
    kept = account.remembered(protocol.fingerprint, (), Fraction(2), lambda _: b"")
    assert kept[:2] == bytes(2) and len(kept) == 2 + 32 + 8 * 53  # the group, as `sfumato shuffled send` keeps it
