"""`sfumato local send` and `sfumato shuffled send`: take part in a collection over the network, once.

The answer is drawn once and kept in the device's account before anything leaves; running the command again sends the
same answer again.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sfumato.cli import flags
from sfumato.cli.console import tell
from sfumato.cli.flags import argument, flag
from sfumato.errors import InputError, LedgerError
from sfumato.local.client import MAX_DELTA, MAX_EPSILON
from sfumato.shuffled import MAX_DELTA as MAX_SHUFFLED_DELTA
from sfumato.shuffled import MAX_EPSILON as MAX_SHUFFLED_EPSILON
from sfumato.storage import storage_errors

if TYPE_CHECKING:
    from sfumato.local.account import DeviceAccount
    from sfumato.services.sending import Route
    from sfumato.services.signing import SignedProtocol

LOCAL_EXAMPLE = (
    "[bold]Example[/]: echo 0.2 0.7 | sfumato local send https://collector.example --organiser HEX "
    "--ledger account.json"
)
SHUFFLED_EXAMPLE = (
    "[bold]Example[/]: echo 0.2 0.7 | sfumato shuffled send https://shuffler.example --organiser HEX "
    "--ledger account.json"
)
_GROUP_BYTES = 2  # before the messages in the account: the group that they are sealed for
Address = Annotated[str, argument("The server's address.", "ADDRESS")]
Organiser = Annotated[str, flag("The organiser's public key, known from elsewhere.", "HEX")]
Account = Annotated[Path, flag("The device's account, which keeps the answer.", "PATH", "--ledger")]
Budget = Annotated[str | None, flag("Of the account, over all collections; --max-epsilon by default.", "E")]
Relay = Annotated[str | None, flag("An HTTP proxy, so that the server does not see your address.", "ADDRESS")]
LogAddress = Annotated[str | None, flag("Another way to the server's log, to compare.", "ADDRESS", "--log")]
IssuerAddress = Annotated[str | None, flag("Address of who admits devices.", "ADDRESS", "--issuer")]
Code = Annotated[Path | None, flag("File with your invitation.", "FILE", "--invitation")]


def send_report(
    address: Address,
    organiser: Organiser,
    ledger: Account,
    point: flags.Point = None,
    budget: Budget = None,
    max_epsilon: Annotated[str, flag("The most that a report may cost, whatever the protocol says.", "E")] = str(
        MAX_EPSILON
    ),
    max_delta: flags.MaxDelta = MAX_DELTA,
    relay: Relay = None,
    log: LogAddress = None,
    issuer: IssuerAddress = None,
    invitation: Code = None,
    as_json: flags.Json = False,
) -> None:
    """Report your point to a collector's server, once; run it again to send the same report again.

    The point, one number for each column, comes from standard input or a file.
    """
    from sfumato.local import Protocol
    from sfumato.local.account import DeviceAccount
    from sfumato.local.client import read_point

    route, signed = _fetched(address, organiser, relay, log)
    client = Protocol.from_document(signed.document).client(max_epsilon=max_epsilon, max_delta=max_delta)
    account = DeviceAccount(ledger, max_epsilon if budget is None else budget)
    # Asked for now: whoever types it should not keep others waiting for the account.
    values = [] if account.keeps(signed.fingerprint) else read_point(point or "-")

    def fresh(_: Sequence[float]) -> bytes:
        return client.report(values)

    token = _token(signed, account, issuer, relay, invitation)
    content = account.remembered(signed.fingerprint, (), Fraction(signed.document["epsilon"]), fresh)
    _deliver(route, signed, 0, content, token, as_json)


def send_messages(
    address: Address,
    organiser: Organiser,
    ledger: Account,
    point: flags.Point = None,
    label_file: Annotated[Path | None, flag("File with your class, where there are classes.", "FILE")] = None,
    budget: Budget = None,
    max_epsilon: Annotated[str, flag("The most that taking part may cost, whatever the protocol says.", "E")] = str(
        MAX_SHUFFLED_EPSILON
    ),
    max_delta: flags.MaxDelta = MAX_SHUFFLED_DELTA,
    relay: Relay = None,
    log: LogAddress = None,
    issuer: IssuerAddress = None,
    invitation: Code = None,
    as_json: flags.Json = False,
) -> None:
    """Send your sealed messages to a shuffler's server, once; run it again to send the same messages again.

    The point, one number for each column, comes from standard input or a file.
    """
    from sfumato.cli.submissions import own_class, reported_class
    from sfumato.local.account import DeviceAccount
    from sfumato.local.client import read_point
    from sfumato.shuffled import Protocol
    from sfumato.shuffled.client import check_before_class

    route, signed = _fetched(address, organiser, relay, log)
    made = Protocol.from_document(signed.document)
    account = DeviceAccount(ledger, max_epsilon if budget is None else budget)
    own, answered = own_class(made, None, label_file), account.keeps(made.fingerprint)
    if not answered:
        check_before_class(made, account, max_epsilon, max_delta)
    reported = reported_class(made, own, account)
    client = None if answered else made.client(reported, max_epsilon=max_epsilon, max_delta=max_delta)
    values = [] if answered else read_point(point or "-")

    def fresh(_: Sequence[float]) -> bytes:
        if client is None:  # it keeps something else under this protocol
            raise LedgerError(f"{str(account.path)!r} keeps no messages of this command: it was altered")
        messages = client.messages(values).to_bytes()
        return made.group(reported)[0].to_bytes(_GROUP_BYTES) + messages

    token = _token(signed, account, issuer, relay, invitation)
    kept = account.remembered(made.fingerprint, (), made.promise.budget.epsilon, fresh)
    group = int.from_bytes(kept[:_GROUP_BYTES])
    if len(kept) <= _GROUP_BYTES:
        raise InputError("this device's messages were written to a file before: send those, a second set costs more")
    if group >= len(made.groups):
        raise LedgerError(f"{str(account.path)!r} keeps messages for no group of the protocol: it was altered")
    if reported is not None and made.group(reported)[0] != group:
        label = made.groups[group].label
        raise InputError(f"this device answered as {label!r}, and its answer is kept: name that class, or none")
    _deliver(route, signed, group, kept[_GROUP_BYTES:], token, as_json)


def _fetched(address: str, organiser: str, relay: str | None, log: str | None) -> tuple[Route, SignedProtocol]:
    from sfumato.services.sending import Route, fetch_protocol
    from sfumato.shuffled.sealing import Hexadecimal

    # What is no key at all is a slip of the pen, and no reason to suspect the server.
    key = Hexadecimal(64).read(organiser.strip().lower(), "--organiser")
    route = Route(address, relay)
    return route, fetch_protocol(route, key, None if log is None else Route(log, relay))


def _token(
    signed: SignedProtocol, account: DeviceAccount, issuer: str | None, relay: str | None, invitation: Path | None
) -> bytes:
    """Return what admits this device: nothing in an open collection, else one token, kept from the first time on."""
    from sfumato.services.admission import BlindRequest
    from sfumato.services.sending import Route, fetch_token, token_request

    if signed.issuer is None:
        return b""
    if issuer is None or invitation is None:
        raise InputError("the collection admits by invitation: pass --issuer ADDRESS and --invitation FILE")
    with storage_errors("read", invitation):
        code = invitation.read_text(encoding="ascii").strip()
    way = Route(issuer, relay)
    asked, question = f"token-request {signed.fingerprint}", f"token {signed.fingerprint}"
    drawn = account.remembered(asked, (), Fraction(0), lambda _: token_request(signed).to_bytes())
    kept = BlindRequest.from_bytes(drawn)
    return account.remembered(question, (), Fraction(0), lambda _: fetch_token(way, signed, code, kept))


def _deliver(route: Route, signed: SignedProtocol, group: int, content: bytes, token: bytes, as_json: bool) -> None:
    """Send what is on disk."""
    from sfumato.services.sending import send

    send(route, signed.fingerprint, group, content, token)
    told = {"sent": signed.fingerprint, "bytes": len(content), "acknowledged": True}
    pairs = [("sent", f"{len(content)} bytes to {route.address}, and acknowledged"), ("again", "sends the same bytes")]
    tell(told, pairs, as_json=as_json)
