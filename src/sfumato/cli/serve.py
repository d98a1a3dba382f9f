"""`sfumato serve`: the roles of a collection as servers, and the keys and documents that they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import flags, serve_demo, serve_notice
from sfumato.cli.console import complain, facts, tell
from sfumato.cli.flags import argument, flag
from sfumato.cli.outputs import refuse_inputs
from sfumato.deferred import require
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.services.limits import Limits
    from sfumato.services.role import Role
    from sfumato.services.signing import SignedProtocol
    from sfumato.services.taking_part import TakingPart

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Run a collection's roles as servers, each at an organisation of its own.\n\n"
    "[bold]key[/], [bold]sign[/], [bold]notice[/] and [bold]invite[/] prepare; [bold]collector[/] serves the local "
    "model, [bold]shuffler[/] and [bold]analyzer[/] the shuffled one, [bold]issuer[/] admits devices; [bold]demo[/] "
    "runs them all. Needs the extra 'server': pip install 'sfumato\\[server]'.",
)

_BATCH_SECONDS = 6 * 3600.0  # a batch may be large, and only the shuffler sends one
Signed = Annotated[list[Path], argument("Signed protocols, the newest last.", "SIGNED...")]
Folder = Annotated[Path, flag("The server's own folder: new, empty, or a server's.", "FOLDER")]
Host = Annotated[str, flag("Address to listen on.", "HOST")]
Port = Annotated[int, flag("Port to listen on.", "PORT", min=0, max=65535)]
Database = Annotated[str | None, flag("postgresql://..., shared by several servers; a file by default.", "ADDRESS")]
Certificate = Annotated[Path | None, flag("TLS certificate (PEM).", "FILE")]
TlsKey = Annotated[Path | None, flag("Private key of the certificate.", "FILE")]
Proxy = Annotated[str | None, flag("Address of a proxy whose X-Forwarded-For is believed.", "ADDRESS")]
Rate = Annotated[float, flag("Requests of one address a second, in the long run.", "R", min=0.001)]
Body = Annotated[int, flag("Megabytes of a body.", "MB", min=1)]
Notice = Annotated[Path | None, flag("Signed notice of the newest protocol, for the page /take-part.", "FILE")]
PageIssuer = Annotated[str | None, flag("Address of the issuer's server, for the page /take-part.", "ADDRESS")]

app.command(epilog="[bold]Example[/]: sfumato serve demo -o collect-demo")(serve_demo.demo)
app.command(epilog=serve_notice.EXAMPLE)(serve_notice.notice)


@app.command(epilog="[bold]Example[/]: sfumato serve key -o organiser.key")
def key(
    output: Annotated[Path, flag("The private key; never overwritten.", "FILE", "-o", "--output")],
    issuer: Annotated[bool, flag("An issuer's key, which signs tokens.", None, "--issuer")] = False,
) -> None:
    """Make a private key and print its public half: of an organiser or a server, or of an issuer."""
    from sfumato.services.admission import IssuerKey
    from sfumato.services.signing import SigningKey

    if issuer:
        tokens = IssuerKey.generate()
        tokens.save(output)
        public = tokens.public.text
    else:
        signing = SigningKey.generate()
        signing.save(output)
        public = signing.public.hex()
    tell({}, [("key", f"{output}: keep it secret"), ("public", public)])


@app.command(epilog="[bold]Example[/]: sfumato serve sign p.json --key organiser.key -o p.signed.json")
def sign(
    protocol_file: flags.ProtocolFile,
    output: Annotated[Path, flag("The signed protocol.", "FILE", "-o", "--output")],
    key: Annotated[Path, flag("The organiser's private key.", "FILE")],
    issuer: Annotated[
        str | None, flag("Public key of who admits devices; without one anybody may send.", "HEX")
    ] = None,
    shuffler: Annotated[str | None, flag("Public key of the shuffler's server.", "HEX")] = None,
    force: flags.Force = False,
) -> None:
    """Sign a protocol, so that devices know whose it is."""
    from sfumato.public import document as documents
    from sfumato.services.admission import IssuerPublicKey
    from sfumato.services.signing import SignedProtocol, SigningKey

    refuse_inputs(output, protocol_file, key)
    document = documents.load(protocol_file)
    if document["model"] == "shuffled" and shuffler is None:
        raise InputError("a shuffled collection needs --shuffler, the public key of the server that shuffles")
    if issuer is not None:
        IssuerPublicKey(issuer)
    else:
        complain("warning: anybody may send to this collection, any number of times; --issuer admits each device once")
    made = SignedProtocol.sign(document, SigningKey.load(key), issuer, shuffler)
    made.save(output, overwrite=force)
    tell({}, [("signed", f"{output} (fingerprint {made.fingerprint[:8]})"), ("organiser", made.key)])


@app.command(epilog="[bold]Example[/]: sfumato serve invite 1000 -o codes.txt --hashes invitations.txt")
def invite(
    count: Annotated[int, typer.Argument(metavar="N", min=1, max=10**8, help="How many.")],
    output: Annotated[Path, flag("The codes, one a line, to be handed out.", "FILE", "-o", "--output")],
    hashes: Annotated[Path, flag("Their hashes, for the issuer's server.", "FILE")],
) -> None:
    """Draw invitations, each good for one token."""
    from sfumato.services.issuer import code_hash, new_codes
    from sfumato.storage import AtomicFile

    refuse_inputs(output, hashes)
    codes = new_codes(count)
    with AtomicFile(output, private=True) as first, AtomicFile(hashes, private=True) as second:
        first.write("".join(f"{code}\n" for code in codes).encode())
        second.write("".join(f"{code_hash(code)}\n" for code in codes).encode())
    tell({}, [("codes", str(output)), ("hashes", str(hashes))])


@app.command(epilog="[bold]Example[/]: sfumato serve collector p.signed.json --folder collector --port 8001")
def collector(
    signed: Signed,
    folder: Folder,
    host: Host = "127.0.0.1",
    port: Port = 8001,
    database: Database = None,
    every: Annotated[float, flag("Seconds between two releases.", "S", min=0.1)] = 60.0,
    certificate: Certificate = None,
    tls_key: TlsKey = None,
    proxy: Proxy = None,
    rate: Rate = 50.0,
    body: Body = 16,
    notice: Notice = None,
    page_issuer: PageIssuer = None,
) -> None:
    """Receive reports of the local model and publish what they say."""
    require("server")
    from sfumato.services.collector import CollectorRole

    protocols = _loaded(signed)
    page = _page("collector", protocols, notice, page_issuer)
    made = CollectorRole(folder, protocols, _limits(rate, body), database)
    _run(made, every, host, port, certificate, tls_key, proxy, page)


@app.command(
    epilog="[bold]Example[/]: sfumato serve shuffler p.signed.json --folder shuffler --analyzer https://analyzer:8003 "
    "--close-at 10000"
)
def shuffler(
    signed: Signed,
    folder: Folder,
    analyzer: Annotated[str, flag("Address of the analyzer's server.", "ADDRESS")],
    close_at: Annotated[int | None, flag("Close as soon as so many took part.", "N")] = None,
    close_after: Annotated[float | None, flag("Close after so long, if enough took part.", "SECONDS")] = None,
    host: Host = "127.0.0.1",
    port: Port = 8002,
    database: Database = None,
    certificate: Certificate = None,
    tls_key: TlsKey = None,
    proxy: Proxy = None,
    rate: Rate = 50.0,
    body: Body = 16,
    notice: Notice = None,
    page_issuer: PageIssuer = None,
) -> None:
    """Receive sealed submissions, and hand them over mixed once enough took part."""
    require("server")
    from sfumato.services.shuffler import Policy, ShufflerRole

    if close_at is None and close_after is None:
        raise InputError("say when the collection closes: --close-at N people, or --close-after SECONDS")
    policy = Policy(close_at, close_after)
    protocols = _loaded(signed)
    page = _page("shuffler", protocols, notice, page_issuer)
    made = ShufflerRole(folder, protocols, analyzer, policy, _limits(rate, body), database)
    _run(made, 1.0, host, port, certificate, tls_key, proxy, page)


@app.command(
    epilog="[bold]Example[/]: sfumato serve analyzer p.signed.json --folder analyzer --key analyzer.key --port 8003"
)
def analyzer(
    signed: Signed,
    folder: Folder,
    key: Annotated[list[Path] | None, flag("The analyzer's private keys; deleted when done.", "FILE")] = None,
    workers: Annotated[int, flag("Processes that open messages.", "N", min=1)] = 1,
    host: Host = "127.0.0.1",
    port: Port = 8003,
    certificate: Certificate = None,
    tls_key: TlsKey = None,
    proxy: Proxy = None,
    rate: Rate = 50.0,
) -> None:
    """Receive batches from the shuffler, open them, and publish the release.

    A key is deleted when its collection is published or the key expired, and the public log says so.
    """
    require("server")
    from sfumato.services.analyzer import AnalyzerRole

    patient = replace(_limits(rate, 16), request_seconds=_BATCH_SECONDS)
    made = AnalyzerRole(folder, _loaded(signed), key or [], patient, workers)
    _run(made, 1.0, host, port, certificate, tls_key, proxy)


@app.command(
    epilog="[bold]Example[/]: sfumato serve issuer p.signed.json --folder issuer --key issuer.key "
    "--invitations invitations.txt"
)
def issuer(
    signed: Signed,
    folder: Folder,
    key: Annotated[list[Path], flag("The issuer's private key; one for each collection.", "FILE")],
    invitations: Annotated[Path, flag("Hashes of the invitations, one a line.", "FILE")],
    host: Host = "127.0.0.1",
    port: Port = 8004,
    database: Database = None,
    certificate: Certificate = None,
    tls_key: TlsKey = None,
    proxy: Proxy = None,
    rate: Rate = 50.0,
    page: Annotated[str | None, flag("Address of the server whose page /take-part asks here.", "ADDRESS")] = None,
) -> None:
    """Sign one blinded token for each invitation."""
    require("server")
    from sfumato.services.admission import IssuerKey
    from sfumato.services.issuer import IssuerRole

    keys = [IssuerKey.load(one) for one in key]
    made = IssuerRole(folder, _loaded(signed), keys, invitations, _limits(rate, 1), database)
    _run(made, 60.0, host, port, certificate, tls_key, proxy, origin=page)


@app.command(epilog="[bold]Example[/]: sfumato serve log https://collector.example --compare yesterday.jsonl")
def log(
    address: Annotated[str, argument("The server's address.", "ADDRESS")],
    compare: Annotated[Path | None, flag("A copy of the log, of another day or of somebody else.", "FILE")] = None,
    output: Annotated[Path | None, flag("Keep a copy.", "FILE", "-o", "--output")] = None,
    relay: Annotated[str | None, flag("An HTTP proxy to go through.", "ADDRESS")] = None,
    force: flags.Force = False,
) -> None:
    """Read a server's public log, check it, and compare it with a copy: one server must show one log to everybody.

    The head is a hash of the whole log: two people who read out the same one have seen the same log.
    """
    from sfumato.services.log import head, read_log, same_log
    from sfumato.services.sending import Route, fetch_log
    from sfumato.storage import AtomicFile, storage_errors

    refuse_inputs(output, compare)
    key, content = fetch_log(Route(address, relay))
    entries = read_log(content, key)
    if compare is not None:
        with storage_errors("read", compare):
            copy = read_log(compare.read_bytes(), key)
        if not same_log(entries, copy):
            raise InputError(f"the log differs from {str(compare)!r}: do not take part, and tell the organiser")
    if output is not None:
        with AtomicFile(output, overwrite=force) as file:
            file.write(content)
    facts([("key", key), ("head", head(entries)), ("entries", str(len(entries)))])
    facts([(entry["event"], f"{entry['fingerprint']} {entry['time']}") for entry in entries])


def _loaded(paths: Sequence[Path]) -> list[SignedProtocol]:
    from sfumato.services.signing import SignedProtocol

    return [SignedProtocol.load(path) for path in paths]


def _page(role: str, signed: Sequence[SignedProtocol], notice: Path | None, issuer: str | None) -> TakingPart:
    from sfumato.services.notice import SignedNotice
    from sfumato.services.taking_part import TakingPart

    return TakingPart(role, issuer, None if notice is None else SignedNotice.load(notice, signed[-1]))


def _limits(rate: float, megabytes: int) -> Limits:
    from sfumato.services.limits import Limits

    return Limits(rate=rate, burst=4 * rate, body=megabytes << 20)


def _run(
    role: Role,
    every: float,
    host: str,
    port: int,
    certificate: Path | None,
    key: Path | None,
    proxy: str | None,
    page: TakingPart | None = None,
    origin: str | None = None,
) -> None:
    from sfumato.services.running import run
    from sfumato.services.server import Server

    if (certificate is None) != (key is None):
        raise InputError("--certificate and --tls-key go together")
    if certificate is None and host not in ("127.0.0.1", "::1", "localhost"):
        complain("warning: without --certificate whoever carries the bytes can read them; put a TLS proxy before this")
    pairs: list[tuple[str, Any]] = [
        ("role", role.name),
        ("listens on", f"{host}:{port}"),
        ("key", role.key.public.hex()),
        ("operator", f"{role.folder / 'operator.key'} opens counts and metrics"),
    ]
    facts([(name, str(value)) for name, value in pairs])
    run(Server(role, every, page, origin), host, port, certificate, key, proxy)
