"""`sfumato local`: collections in which everybody randomises their own point."""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from sfumato.cli import flags, send
from sfumato.cli.console import complain, done, out, tell, warn_of_seed
from sfumato.cli.flags import flag
from sfumato.cli.ledger import account_to_charge, spending
from sfumato.cli.outputs import refuse_inputs, refuse_unkept
from sfumato.cli.paid import charge_collection, longest_size, make_files
from sfumato.cli.typed import parse_bandwidth, parse_columns, parse_options, read_bounds
from sfumato.errors import InputError, StorageError
from sfumato.local.client import MAX_DELTA, MAX_EPSILON
from sfumato.locks import lock_file
from sfumato.paid import rescued_report
from sfumato.public.document import prefix
from sfumato.storage import storage_errors

if TYPE_CHECKING:
    from sfumato.local import Protocol
    from sfumato.local.client import Client
    from sfumato.privacy.guarantee import Guarantee
    from sfumato.release import Release
    from sfumato.sources import Source

HEX_BYTES = 32  # two reports begin so by chance in one of 1e34 files
LONGEST_LINE = 1 << 24  # of hexadecimal digits; a longer one is several, none of them a report

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Collect densities from people who randomise their own points.\n\n"
    "[bold]protocol[/] writes the public parameters, [bold]report[/] runs on each device, [bold]collect[/] counts "
    "the reports, [bold]simulate[/] tries it out.",
)


@app.command(
    epilog="[bold]Example[/]: sfumato local protocol -o p.json --kernel l2-lsh --bandwidth 0.25 --dimension 8 "
    "--epsilon 1 --participants 100000 --bounds 0,1"
)
def protocol(
    output: flags.ProtocolOutput,
    dimension: Annotated[int, flag("Columns of a point.", "D")],
    epsilon: Annotated[str, flag("What one report may reveal.", "E")],
    participants: Annotated[int, flag("About how many people will report.", "N")],
    kernel: Annotated[str, flag("gaussian, laplacian, l2-lsh, angular, ...", "NAME")] = "gaussian",
    bandwidth: Annotated[str | None, flag("One length, or one for each column.", "B")] = None,
    bounds: flags.Bounds = None,
    mechanism: Annotated[str, flag("auto takes the least predicted error.", "NAME")] = "auto",
    radius: Annotated[float | None, flag("For guarantees that hold within a distance only.", "R")] = None,
    eta: Annotated[float | None, flag("Probability over the hash functions with which they may fail.", "H")] = None,
    expires: Annotated[str | None, flag("Devices refuse to report after it, such as 2027-01-31.", "DATE")] = None,
    option: Annotated[list[str] | None, flag("What only one mechanism knows. Repeatable.", "NAME=VALUE")] = None,
    seed: Annotated[int | None, flag("Nonce of the public seed; drawn at random by default.", "N")] = None,
    force: flags.Force = False,
    as_json: flags.Json = False,
) -> None:
    """Write the public parameters of a collection, after comparing all mechanisms. No data is read."""
    from sfumato.local import Protocol

    made = Protocol(
        kernel,
        dimension,
        epsilon,
        participants,
        mechanism=mechanism,
        radius=radius,
        eta=eta,
        bounds=read_bounds(bounds, map(str, range(dimension))),
        bandwidth=None if bandwidth is None else parse_bandwidth(bandwidth),
        seed=seed,
        expires=expires,
        options=parse_options(option),
    )
    plan = made.plan()
    made.save(output, overwrite=force)
    document = {"protocol": str(output), "fingerprint": made.fingerprint, "mechanism": made.mechanism}
    pairs = [
        ("protocol", f"{output} ({made.mechanism}, fingerprint {made.fingerprint[:8]})"),
        ("guarantee", str(_guarantee(made))),
    ]
    if not as_json:
        with done(pairs):
            out().print(str(plan), markup=False, soft_wrap=True)
    tell(document, pairs, as_json=as_json)


@app.command(
    epilog="[bold]Examples[/]: echo 0.2 0.7 | sfumato local report p.json --ledger account.json\n\n"
    "sfumato local report p.json --data points.csv -o reports.bin"
)
def report(
    protocol_file: flags.ProtocolFile,
    point: flags.Point = None,
    data: Annotated[str | None, flag("Instead: a file with one point for each person.", "DATA")] = None,
    columns: flags.Columns = None,
    output: Annotated[Path | None, flag("Append the report's bytes to this file.", "FILE", "-o", "--output")] = None,
    ledger: Annotated[Path | None, flag("The device's account, which refuses to overspend.", "PATH")] = None,
    budget: Annotated[str | None, flag("Of the account, over all reports; --max-epsilon by default.", "E")] = None,
    permanent: Annotated[
        bool, flag("Repeat the report of an unchanged point; needs --ledger.", None, "--permanent")
    ] = False,
    max_epsilon: Annotated[str, flag("The most that one report may cost, whatever the protocol says.", "E")] = str(
        MAX_EPSILON
    ),
    max_delta: flags.MaxDelta = MAX_DELTA,
    unchecked: Annotated[
        bool, flag("Agree to a promise that rests on the organiser's word.", None, "--unchecked")
    ] = False,
) -> None:
    """Randomise a point into a report, which may be sent to anybody. Prints it in hexadecimal.

    The point, one number for each column, comes from standard input or a file: what stands on a command line is seen
    by every user of the machine. A device without this command line runs: python -m sfumato.local PROTOCOL
    """
    from sfumato.local import Protocol
    from sfumato.local.client import read_point

    if point is not None and data is not None:
        raise InputError("pass either --point, a file with one point, or --data")
    if data is not None and ledger is not None:
        raise InputError("--ledger is the account of one device, and --data holds the points of many")
    point = "-" if point is None and data is None else point
    refuse_inputs(output, protocol_file, point, data, ledger)
    client = Protocol.load(protocol_file).client(
        ledger, budget, permanent, max_epsilon=max_epsilon, max_delta=max_delta, unchecked=unchecked
    )
    points = iter([read_point(point)]) if point is not None else _points(str(data), columns)
    reports = (client.report(one) for one in points)
    if output is None:
        return _print(reports, paid=ledger is not None)
    if output.is_file():  # before anything is paid for
        with _opened(output, client):
            pass
    content = b"".join(reports)
    try:
        _append(output, content, client)
    except (StorageError, InputError) as error:  # of input where another run spoilt the file meanwhile
        lost = "; nothing was written or spent" if ledger is None else _printed(content)
        raise StorageError(f"{error}{lost}") from error


@app.command(
    epilog="[bold]Examples[/]: sfumato local collect p.json reports-*.bin --state counts -o out.sfm\n\n"
    "cat reports.txt | sfumato local collect p.json - --hex -o out.sfm"
)
def collect(
    protocol_file: flags.ProtocolFile,
    sources: Annotated[list[str], typer.Argument(metavar="REPORTS...", help="Files of reports; - for standard input.")],
    output: flags.Output,
    state: Annotated[Path | None, flag("Keeps counts, survives a kill; resumed if it exists.", "FOLDER")] = None,
    hexadecimal: Annotated[bool, flag("One report a line, in hexadecimal.", None, "--hex")] = False,
    malicious: Annotated[int | None, flag("Say how far M malicious clients can move an answer.", "M")] = None,
    force: flags.Force = False,
    as_json: flags.Json = False,
) -> None:
    """Count reports, refuse what does not belong to the protocol, and release the density."""
    from sfumato.local import Protocol

    refuse_inputs(output, protocol_file, *sources)
    if state is not None and os.path.dirname(os.path.realpath(output)) == os.path.realpath(state):
        raise InputError(f"{str(output)!r} is in the state folder: choose a place outside of it")
    collector = Protocol.load(protocol_file).collector(state)
    with storage_errors("keep what was counted in", state or tempfile.gettempdir()):
        for source in sources:
            collector.add(_reports(source, hexadecimal))
        release = collector.release()
    moved = None if malicious is None else collector.influence(malicious)
    output = release.save(output, overwrite=force)
    document = {"accepted": collector.reports, "rejected": collector.rejected, "malicious_shift": moved}
    refused = ", ".join(f"{count} {reason}" for reason, count in sorted(collector.rejected.items())) or "none"
    rows = [("accepted", str(collector.reports)), ("refused", refused)]
    if moved is not None:
        rows.append(("malicious", f"{malicious} of them can move an answer by {moved:.3g} at most"))
    _told(release, output, document, rows, as_json)


@app.command(epilog="[bold]Example[/]: sfumato local simulate p.json points.csv -o out.sfm")
def simulate(
    protocol_file: flags.ProtocolFile,
    data: flags.Data,
    output: flags.Output,
    columns: flags.Columns = None,
    dataset: flags.Dataset = None,
    ledger: flags.CuratorsLedger = None,
    no_ledger: flags.NoLedger = False,
    seed_noise_not_private: flags.CoinsSeed = None,
    force: flags.Force = False,
    as_json: flags.Json = False,
) -> None:
    """Release what a collection from the people in DATA would have given; whoever runs it sees their points.

    It spends what one report promises, as a release does, and the ledger keeps count.
    """
    from sfumato.local import Protocol
    from sfumato.local.organiser import blank
    from sfumato.sources import open_source

    account = account_to_charge(data, dataset, ledger, no_ledger, seed_noise_not_private)
    refuse_inputs(output, protocol_file, data, None if account is None else account.ledger.path)
    refuse_unkept(output)
    made, source = Protocol.load(protocol_file), open_source(data, parse_columns(columns, data))
    people = _checked_people(made, source)

    def run() -> dict[Path, Release]:
        charge_collection(account, made.mechanism, _guarantee(made))
        return {output: made.simulate(source, random_state=seed_noise_not_private)}

    release = make_files(run, {output: longest_size(blank(made, people))}, account, force=force)[output]
    book, standing = spending(account)
    document = {"people": release.count.value, "ledger": book}
    _told(release, output, document, [("people", str(release.count.value))], as_json, [("ledger", standing)])


def _checked_people(made: Protocol, source: Source) -> int:
    """Refuse before the charge what a simulation refuses, rows that cannot be read too; return the number of people."""
    columns = made.document["dimension"]
    if source.dimension != columns:
        raise InputError(f"the protocol has {columns} columns, the points {source.dimension}")
    people = sum(len(block) for block in source.batches())
    if not people:
        raise InputError("there is nobody in the data, so there is nothing to release")
    return people


def _guarantee(made: Protocol) -> Guarantee:
    from sfumato.privacy.guarantee import Guarantee
    from sfumato.public.document import plain

    return Guarantee.from_document(plain(made.document["guarantee"]))


def _points(data: str, columns: str | None) -> Iterator[list[float]]:
    from sfumato.sources import open_source

    for block in open_source(data, parse_columns(columns, data)).batches():
        yield from block.astype(float).tolist()


def _print(reports: Iterator[bytes], paid: bool) -> None:
    """Print reports in hexadecimal; one that was paid for and cannot be printed is kept elsewhere."""
    for report in reports:
        try:
            with storage_errors("write", "standard output"):
                typer.echo(report.hex())
        except StorageError as error:
            if not paid:
                raise
            raise StorageError(f"{error}{rescued_report(report)}") from error


def _printed(report: bytes) -> str:
    """Print a report that was paid for and that its file did not take, or keep it elsewhere, and say which."""
    try:
        typer.echo(report.hex())
    except OSError:
        return rescued_report(report)
    return "; the report had been paid for and was printed in hexadecimal instead"


@contextmanager
def _opened(output: Path, client: Client) -> Iterator[BinaryIO]:
    """Open what reports are appended to; a file is locked, for another run may be in the middle of one, and checked."""
    stream = output.exists() and not output.is_file()  # of which nothing can be read, and which waits for its reader
    with storage_errors("write", output), open(output, "ab" if stream else "a+b", buffering=0) as file:
        if not stream:
            lock_file(file.fileno(), output, "another's reports might be cut off; choose a local disk (-o)", wait=True)
            _refuse_others(file, output, client)
        yield file


def _refuse_others(file: BinaryIO, output: Path, client: Client) -> None:
    """Refuse a file that holds something else than whole reports of this protocol.

    It may be somebody's own; and after a part of a report, which a kill may leave, all that follows would slip.
    """
    own = prefix(client.document)
    file.seek(0)
    if not own.startswith(file.read(len(own))):
        raise InputError(
            f"{str(output)!r} is no file of this protocol's reports, and stays as it is: choose a new file"
        )
    whole, rest = divmod(os.fstat(file.fileno()).st_size, client.report_bytes)
    if rest:
        raise InputError(
            f"{str(output)!r} ends in a part of a report, as a killed run leaves it: choose a new file, or cut it off "
            f"with truncate -s {whole * client.report_bytes} {shlex.quote(str(output))}"
        )


def _append(output: Path, reports: bytes, client: Client) -> None:
    """Append reports, all or none of them: half a report would make all that follow slip."""
    view = memoryview(reports)
    with _opened(output, client) as file:
        status = os.fstat(file.fileno())
        regular = stat.S_ISREG(status.st_mode)
        try:
            while view:
                view = view[file.write(view) :]
            if regular:
                os.fsync(file.fileno())
        except OSError:
            if regular:
                file.truncate(status.st_size)
            raise


def _reports(source: str, hexadecimal: bool) -> str | BinaryIO | Iterator[bytes]:
    if source != "-" and not Path(source).exists():
        raise InputError(f"cannot read {source!r}: there is no such file")
    if hexadecimal:
        return _hexadecimal(source)
    with storage_errors("read", source):
        if source == "-":
            start = sys.stdin.buffer.peek(HEX_BYTES) if hasattr(sys.stdin.buffer, "peek") else b""
        elif stat.S_ISREG(os.stat(source).st_mode):  # a pipe gives its bytes once
            with open(source, "rb") as file:
                start = file.read(HEX_BYTES)
        else:
            start = b""
    if len(start) >= HEX_BYTES and re.fullmatch(rb"[0-9a-fA-F\r\n]+", start[:HEX_BYTES]):
        raise InputError(f"the reports of {source!r} are written in hexadecimal: pass --hex")
    return sys.stdin.buffer if source == "-" else source


def _hexadecimal(source: str) -> Iterator[bytes]:
    from sfumato.local.arrivals import refuse_devices

    if source != "-":
        refuse_devices(source)
    with storage_errors("read", source), open(0 if source == "-" else source, "rb", closefd=source != "-") as lines:
        while line := lines.readline(LONGEST_LINE):
            try:
                yield bytes.fromhex(line.decode("ascii", "replace").strip())
            except ValueError:
                yield b""  # of no right length: counted as such


def _told(
    release: Release,
    output: Path,
    document: dict[str, Any],
    rows: list[tuple[str, str]],
    as_json: bool,
    last: Sequence[tuple[str, str]] = (),
) -> None:
    guarantee = release.guarantee
    warn_of_seed(guarantee, "Do not publish this release.", "the coins")
    pairs = [("release", str(output)), *rows, ("guarantee", str(guarantee)), *last]
    document = {"release": str(output), **document, "guarantee": guarantee.to_document()}
    tell(document, pairs, release.statement() if guarantee.private else "", as_json=as_json)
    if not (as_json or guarantee.private):
        complain("nothing is promised")


app.command("send", epilog=send.LOCAL_EXAMPLE)(send.send_report)
