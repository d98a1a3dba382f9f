"""`sfumato local`: collections in which everybody randomises their own point."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from sfumato.cli.arguments import (
    BoundsOption,
    ColumnsOption,
    DataArgument,
    JsonOption,
    parse_bandwidth,
    parse_bounds,
    parse_columns,
    parse_options,
)
from sfumato.cli.console import complain, facts, out, print_json, say, warn
from sfumato.errors import InputError
from sfumato.local.client import MAX_DELTA, MAX_EPSILON

if TYPE_CHECKING:
    from sfumato.local import Protocol
    from sfumato.release import Release

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Collect densities from people who randomise their own points.\n\n"
    "[bold]protocol[/] writes the public parameters, [bold]report[/] runs on each device, [bold]collect[/] counts "
    "the reports, [bold]simulate[/] tries it out.",
)

ProtocolArgument = Annotated[
    Path, typer.Argument(metavar="PROTOCOL", help="A protocol file (.json).", show_default=False)
]
OutputOption = Annotated[Path, typer.Option("-o", "--output", metavar="OUT.sfm", help="The release to write.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]


@app.command(
    epilog="[bold]Example[/]: sfumato local protocol -o p.json --kernel l2-lsh --bandwidth 0.25 --dimension 8 "
    "--epsilon 1 --participants 100000 --bounds 0,1"
)
def protocol(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The protocol file to write.")],
    dimension: Annotated[int, typer.Option(metavar="D", help="Columns of a point.")],
    epsilon: Annotated[str, typer.Option(metavar="E", help="What one report may reveal.")],
    participants: Annotated[int, typer.Option(metavar="N", help="About how many people will report.")],
    kernel: Annotated[str, typer.Option(metavar="NAME", help="gaussian, laplacian, l2-lsh, angular, ...")] = "gaussian",
    bandwidth: Annotated[str | None, typer.Option(metavar="B", help="One length, or one for each column.")] = None,
    bounds: BoundsOption = None,
    mechanism: Annotated[str, typer.Option(metavar="NAME", help="auto takes the least predicted error.")] = "auto",
    radius: Annotated[
        float | None, typer.Option(metavar="R", help="For guarantees that hold within a distance only.")
    ] = None,
    eta: Annotated[
        float | None, typer.Option(metavar="H", help="Probability over the hash functions with which they may fail.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="DATE", help="Devices refuse to report after it, such as 2027-01-31.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="What only one mechanism knows. Repeatable.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Nonce of the public seed; drawn at random by default.")
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the public parameters of a collection, after comparing all mechanisms. No data is read."""
    from sfumato.local import Protocol
    from sfumato.sources import Source

    made = Protocol(
        kernel,
        dimension,
        epsilon,
        participants,
        mechanism=mechanism,
        radius=radius,
        eta=eta,
        bounds=parse_bounds(bounds, Source(dimension, None, lambda rows: iter(()))),
        bandwidth=None if bandwidth is None else parse_bandwidth(bandwidth),
        seed=seed,
        expires=expires,
        options=parse_options(option),
    )
    plan = made.plan()
    made.save(output, overwrite=force)
    if as_json:
        print_json({"protocol": str(output), "fingerprint": made.fingerprint, "mechanism": made.mechanism})
        return
    out.print(str(plan), markup=False, soft_wrap=True)
    facts(
        [
            ("protocol", f"{output} ({made.mechanism}, fingerprint {made.fingerprint[:8]})"),
            ("guarantee", str(_guarantee(made))),
        ]
    )


@app.command(
    epilog="[bold]Examples[/]: echo 0.2 0.7 | sfumato local report p.json --ledger account.json\n\n"
    "sfumato local report p.json --data points.csv -o reports.bin"
)
def report(
    protocol_file: ProtocolArgument,
    point: Annotated[
        str | None, typer.Option(metavar="FILE", help="With your point; standard input by default.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="DATA", help="Instead: a file with one point for each person.")
    ] = None,
    columns: ColumnsOption = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Append the report's bytes to this file.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The device's account, which refuses to overspend.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="E", help="Of the account, over all reports; --max-epsilon by default.")
    ] = None,
    permanent: Annotated[
        bool, typer.Option("--permanent", help="Repeat the report of an unchanged point; needs --ledger.")
    ] = False,
    max_epsilon: Annotated[
        str, typer.Option(metavar="E", help="The most that one report may cost, whatever the protocol says.")
    ] = str(MAX_EPSILON),
    max_delta: Annotated[
        float, typer.Option(metavar="P", help="Largest probability with which the promise may fail.")
    ] = MAX_DELTA,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Agree to a promise that rests on the organiser's word.")
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
    client = Protocol.load(protocol_file).client(
        ledger, budget, permanent, max_epsilon=max_epsilon, max_delta=max_delta, unchecked=unchecked
    )
    points = iter([read_point(point or "-")]) if data is None else _points(data, columns)
    reports = (client.report(one) for one in points)
    if output is None:
        for one in reports:
            typer.echo(one.hex())
        return
    _append(output, reports)


@app.command(
    epilog="[bold]Examples[/]: sfumato local collect p.json reports-*.bin --state counts -o out.sfm\n\n"
    "cat reports.txt | sfumato local collect p.json - --hex -o out.sfm"
)
def collect(
    protocol_file: ProtocolArgument,
    sources: Annotated[list[str], typer.Argument(metavar="REPORTS...", help="Files of reports; - for standard input.")],
    output: OutputOption,
    state: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keeps counts, survives a kill; resumed if it exists.")
    ] = None,
    hexadecimal: Annotated[bool, typer.Option("--hex", help="One report a line, in hexadecimal.")] = False,
    malicious: Annotated[
        int | None, typer.Option(metavar="M", help="Say how far M malicious clients can move an answer.")
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Count reports, refuse what does not belong to the protocol, and release the density."""
    from sfumato.local import Protocol

    _check_output(output, [protocol_file, *(Path(source) for source in sources)], state)
    collector = Protocol.load(protocol_file).collector(state)
    for source in sources:
        collector.add(_reports(source, hexadecimal))
    release = collector.release()
    moved = None if malicious is None else collector.influence(malicious)
    release.save(output, overwrite=force)
    document = {"accepted": collector.reports, "rejected": collector.rejected, "malicious_shift": moved}
    refused = ", ".join(f"{count} {reason}" for reason, count in sorted(collector.rejected.items())) or "none"
    rows = [("accepted", str(collector.reports)), ("refused", refused)]
    if moved is not None:
        rows.append(("malicious", f"{malicious} of them can move an answer by {moved:.3g} at most"))
    _told(release, output, document, rows, as_json)


@app.command(epilog="[bold]Example[/]: sfumato local simulate p.json points.csv -o out.sfm")
def simulate(
    protocol_file: ProtocolArgument,
    data: DataArgument,
    output: OutputOption,
    columns: ColumnsOption = None,
    seed_noise_not_private: Annotated[
        int | None, typer.Option(metavar="N", help="Seed the coins, for tests: the release is marked NOT PRIVATE.")
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Release what a collection from the people in DATA would have given; whoever runs it sees their points."""
    from sfumato.local import Protocol
    from sfumato.sources import open_source

    source = open_source(data, parse_columns(columns, data))
    release = Protocol.load(protocol_file).simulate(source, random_state=seed_noise_not_private)
    release.save(output, overwrite=force)
    _told(release, output, {"people": release.count.value}, [("people", str(release.count.value))], as_json)


def _guarantee(made: Protocol) -> Any:
    from sfumato.privacy.guarantee import Guarantee
    from sfumato.public.document import plain

    return Guarantee.from_document(plain(made.document["guarantee"]))


def _points(data: str, columns: str | None) -> Iterator[list[float]]:
    from sfumato.sources import open_source

    for block in open_source(data, parse_columns(columns, data)).batches():
        yield from block.astype(float).tolist()


def _check_output(output: Path, inputs: list[Path], state: Path | None) -> None:
    """Refuse to write over what is read, which --force does not ask for."""
    written = os.path.realpath(output)
    if written in map(os.path.realpath, inputs):
        raise InputError(f"{str(output)!r} is also an input: choose another file to write")
    if state is not None and os.path.dirname(written) == os.path.realpath(state):
        raise InputError(f"{str(output)!r} is in the state folder: choose a place outside of it")


def _append(output: Path, reports: Iterator[bytes]) -> None:
    """Append reports, all or none of them: half a report would make all that follow slip."""
    import fcntl

    from sfumato.storage import storage_errors

    view = memoryview(b"".join(reports))
    with storage_errors("write", output), open(output, "ab", buffering=0) as file:
        regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        if regular:
            fcntl.flock(file, fcntl.LOCK_EX)  # else another's reports might be cut off with ours
        start = os.fstat(file.fileno()).st_size
        try:
            while view:
                view = view[file.write(view) :]
            if regular:
                os.fsync(file.fileno())
        except OSError:
            if regular:
                file.truncate(start)
            raise


def _reports(source: str, hexadecimal: bool) -> str | BinaryIO | Iterator[bytes]:
    if source != "-" and not Path(source).exists():
        raise InputError(f"cannot read {source!r}: there is no such file")
    if not hexadecimal:
        return sys.stdin.buffer if source == "-" else source
    return _hexadecimal(source)


def _hexadecimal(source: str) -> Iterator[bytes]:
    from sfumato.storage import storage_errors

    with storage_errors("read", source), open(0 if source == "-" else source, "rb", closefd=source != "-") as lines:
        for line in lines:
            try:
                yield bytes.fromhex(line.decode("ascii", "replace").strip())
            except ValueError:
                yield b""  # of no right length: counted as such


def _told(release: Release, output: Path, document: dict[str, Any], rows: list[tuple[str, str]], as_json: bool) -> None:
    if not release.guarantee.private:
        warn("NOT PRIVATE: the coins came from a seed. Do not publish this release.")
    if as_json:
        print_json({"release": str(output), **document, "guarantee": release.guarantee.to_document()})
        return
    facts([("release", str(output)), *rows, ("guarantee", str(release.guarantee))])
    if release.guarantee.private:
        say(f"\n{release.statement()}")
    else:
        complain("nothing is promised")
