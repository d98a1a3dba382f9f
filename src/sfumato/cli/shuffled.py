"""`sfumato shuffled`: collections of anonymous one-bit messages, one command for each role."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import flags, send
from sfumato.cli.console import complain, err, tell, warn_of_seed
from sfumato.cli.flags import argument, flag
from sfumato.cli.ledger import account_to_charge, spending
from sfumato.cli.outputs import refuse_existing, refuse_inputs, refuse_unkept
from sfumato.cli.paid import charge_collection, longest_size, make_files
from sfumato.cli.submissions import (
    check_people,
    class_named,
    message_files,
    own_class,
    people,
    reported_class,
    take_all,
    write_all,
)
from sfumato.cli.typed import parse_bandwidth, read_bounds
from sfumato.errors import InputError, StorageError
from sfumato.paid import rescued
from sfumato.shuffled import MAX_DELTA, MAX_EPSILON
from sfumato.storage import AtomicFile, storage_errors

if TYPE_CHECKING:
    from sfumato.local.account import DeviceAccount
    from sfumato.release import Release
    from sfumato.shuffled import Protocol

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Collect densities from anonymous one-bit messages, with nearly the accuracy of a trusted curator.\n\n"
    "[bold]protocol[/] writes the public parameters and the analyzer's key, [bold]messages[/] runs on each device, "
    "[bold]shuffle[/] mixes what the devices sent, [bold]analyze[/] counts it, [bold]forget[/] deletes what the "
    "shuffler holds; [bold]simulate[/] does all at once.",
)

LabelOption = Annotated[str | None, flag("The reported class, where there are classes.", "CLASS", "--label")]
LabelColumnOption = Annotated[str | None, flag("The column of the true classes, where there are classes.", "NAME")]
StateOption = Annotated[
    Path | None, flag("Where messages wait: new, empty or a shuffler's; survives a kill.", "FOLDER")
]
ForceOption = Annotated[bool, flag("Replace existing files.", None, "--force")]
ParticipantsOption = Annotated[str, flag("Honest people at least, or N,N,... by class.", "N")]
BitsumOption = Annotated[str, flag("rr, poisson, negative-binomial, 3nb, pure, *-published.", "NAME")]
QuantizerOption = Annotated[
    str, flag("lattice, fourier, inner-product, inner-product-signs, landmarks, hashing.", "NAME")
]
LabelEpsilonOption = Annotated[str | None, flag("Of the reported class; without it classes are public.", "E")]
MessagesOption = Annotated[float | None, flag("With rr: messages of a person, on average.", "M", "--messages")]


@app.command(
    epilog="[bold]Example[/]: sfumato shuffled protocol -o p.json --new-key analyzer.key --kernel inner-product "
    "--dimension 384 --epsilon 1 --delta 1e-6 --participants 5000"
)
def protocol(
    output: flags.ProtocolOutput,
    dimension: Annotated[int, flag("Columns of a point.", "D")],
    epsilon: Annotated[str, flag("What the messages of one person may reveal.", "E")],
    participants: ParticipantsOption,
    delta: Annotated[float, flag("Above 0, except for --bitsum pure.", "D")] = 0.0,
    kernel: Annotated[str, flag("gaussian, inner-product, l2-lsh, ...", "NAME")] = "gaussian",
    bandwidth: Annotated[str | None, flag("One length, or one for each column.", "B")] = None,
    bounds: flags.Bounds = None,
    bitsum: BitsumOption = "rr",
    instances: Annotated[str, flag("Bits of one person; auto chooses.", "I")] = "auto",
    quantizer: QuantizerOption = "auto",
    landmarks: Annotated[str | None, flag("A file of public points.", "PUBLIC")] = None,
    classes: Annotated[str | None, flag("The public list of classes.", "A,B,...")] = None,
    label_epsilon: LabelEpsilonOption = None,
    messages_each: MessagesOption = None,
    threat: Annotated[str, flag("communication, or model.", "NAME")] = "communication",
    new_key: Annotated[Path | None, flag("Write a new private key here.", "FILE")] = None,
    public_key: Annotated[str | None, flag("Instead: the analyzer's public key.", "HEX")] = None,
    key_expires: Annotated[str | None, flag("Devices stop using the key.", "DATE")] = None,
    expires: Annotated[str | None, flag("Devices stop sending.", "DATE")] = None,
    seed: Annotated[int | None, flag("Public seed; drawn at random by default.", "N")] = None,
    force: ForceOption = False,
    as_json: flags.Json = False,
) -> None:
    """Write the public parameters of a collection, with exactly calibrated noise. No data is read."""
    from sfumato.shuffled import AnalyzerKey, Protocol
    from sfumato.sources import open_source

    if new_key is not None and public_key is not None:
        raise InputError("pass --new-key or --public-key, not both")
    refuse_inputs(output, new_key, landmarks)
    key: Any = AnalyzerKey.generate() if new_key is not None else _public_key(public_key)
    made = Protocol(
        kernel,
        dimension=dimension,
        epsilon=epsilon,
        delta=delta,
        participants=_numbers(participants),
        bandwidth=None if bandwidth is None else parse_bandwidth(bandwidth),
        bounds=read_bounds(bounds, map(str, range(dimension))),
        bitsum=bitsum,
        instances=instances if instances == "auto" else _whole(instances, "--instances"),
        quantizer=quantizer,
        landmarks=None if landmarks is None else open_source(landmarks),
        classes=None if classes is None else [name.strip() for name in classes.split(",")],
        label_epsilon=label_epsilon,
        messages=messages_each,
        threat=threat,
        key=key,
        key_expires=key_expires,
        expires=expires,
        seed=seed,
    )
    _write_protocol(made, output, force, key, new_key)
    _told_protocol(made, output, new_key, as_json)


def _write_protocol(made: Protocol, output: Path, force: bool, key: Any, new_key: Path | None) -> None:
    """Write the protocol and, if it has a new one, its private key: both or none."""
    refuse_existing(output, force)
    if new_key is None:
        return made.save(output, overwrite=force)
    key.save(new_key)  # first, and to a new file only: a protocol whose key is lost must not be published
    try:
        made.save(output, overwrite=force)
    except BaseException:
        with storage_errors("remove the private key, whose protocol could not be written,", new_key):
            if not _holds(output, made):  # a disk may fail after the file has its name
                new_key.unlink(missing_ok=True)
        raise


def _holds(output: Path, made: Protocol) -> bool:
    """Tell whether a file is this protocol; where that cannot be told, it may be."""
    from sfumato.shuffled import Protocol

    try:
        return Protocol.load(output).fingerprint == made.fingerprint
    except InputError:
        return False
    except StorageError as error:
        return error.errno != errno.ENOENT


def _told_protocol(made: Protocol, output: Path, new_key: Path | None, as_json: bool) -> None:
    plan = made.plan()
    document = {"protocol": str(output), "fingerprint": made.fingerprint, "plan": plan.to_document()}
    pairs = [
        ("protocol", f"{output} ({made.bitsum}, fingerprint {made.fingerprint[:8]})"),
        *([("key", f"{new_key}: keep it secret, and delete it when the collection is over")] if new_key else []),
        *plan.facts(),
        ("guarantee", str(made.guarantee())),
    ]
    tell(document | {"guarantee": made.guarantee().to_document()}, pairs, as_json=as_json)


@app.command(
    epilog="[bold]Examples[/]: echo 0.2 0.7 | sfumato shuffled messages p.json -o mine.msg\n\n"
    "sfumato shuffled messages p.json --data points.csv -o sent"
)
def messages(
    protocol_file: flags.ProtocolFile,
    output: Annotated[Path, flag("The file of one person; with --data a folder.", "PATH", "-o", "--output")],
    point: flags.Point = None,
    label: Annotated[str | None, flag("Your true class, where classes are public.", "CLASS")] = None,
    label_file: Annotated[
        Path | None, flag("With your true class; reported by randomised response if private.", "FILE")
    ] = None,
    data: Annotated[str | None, flag("Instead: a file with a point a person.", "DATA")] = None,
    ledger: Annotated[Path | None, flag("The device's account, which refuses to take part twice.", "PATH")] = None,
    budget: Annotated[str | None, flag("Of the account, over all collections; goes with --ledger.", "E")] = None,
    max_epsilon: Annotated[str, flag("The most that taking part may cost, whatever the protocol says.", "E")] = str(
        MAX_EPSILON
    ),
    max_delta: flags.MaxDelta = MAX_DELTA,
    columns: flags.Columns = None,
    label_column: LabelColumnOption = None,
    as_json: flags.Json = False,
) -> None:
    """Turn a point into sealed messages, all of which go to the shuffler of the reported class, once.

    The point, one number for each column, comes from standard input or a file, and so does a private class: what stands
    on a command line is seen by every user of the machine. With --data nothing limits what taking part costs.

    Send a person's messages over a connection that hides who they are from everybody but the shuffler.
    """
    from sfumato.shuffled import Protocol
    from sfumato.shuffled.client import account_of

    if point is not None and data is not None:
        raise InputError("pass either --point, a file with one point, or --data")
    if data is not None and ledger is not None:
        raise InputError("--ledger is the account of one device, and --data holds the points of many")
    point = "-" if point is None and data is None else point
    refuse_inputs(output, protocol_file, point, label_file, data, ledger)
    made = Protocol.load(protocol_file)
    if data is None:
        limits = {"max_epsilon": max_epsilon, "max_delta": max_delta}
        own = own_class(made, label, label_file)
        reported = _write_own(made, output, str(point), own, account_of(ledger, budget), limits)
        told: dict[str, Any] = {"messages": str(output), "reported": reported}
    else:
        told = {"folder": str(output), "people": write_all(made, data, columns, label_column, output)}
    tell(told, [(name, str(value)) for name, value in told.items() if value is not None], as_json=as_json)


def _write_own(
    made: Protocol, output: Path, point: str, own: Any, account: DeviceAccount | None, limits: dict[str, Any]
) -> Any:
    """Write a device's messages and return the reported class; what is refused, or cannot be written, costs nothing."""
    from sfumato.local.client import read_point
    from sfumato.shuffled import Client
    from sfumato.shuffled.client import check_before_class

    values, content = read_point(point), b""
    made.features.points([values])
    try:
        with AtomicFile(output, private=True) as file:
            file.reserve(2 * round(made.plan().bytes))
            check_before_class(made, account, limits["max_epsilon"], limits["max_delta"])
            reported = reported_class(made, own, account)
            content = Client(made, reported, account, **limits).messages(values).to_bytes()
            file.write(content)
    except (StorageError, InputError) as error:
        if isinstance(error, InputError) and not content:
            raise
        raise StorageError(f"{error}{rescued(content, output) if content else '; nothing was spent'}") from error
    return reported


@app.command(epilog="[bold]Example[/]: sfumato shuffled shuffle p.json sent/*.msg --state inbox -o batch")
def shuffle(
    protocol_file: flags.ProtocolFile,
    submissions: Annotated[
        list[Path] | None, typer.Argument(metavar="MESSAGES...", help="Files of people's messages, or folders of them.")
    ] = None,
    state: StateOption = None,
    output: Annotated[Path | None, flag("Close, and write the shuffled batch.", "BATCH", "-o", "--output")] = None,
    label: LabelOption = None,
    memory: Annotated[int, flag("Megabytes to use.", "MB", min=1)] = 256,
    force: ForceOption = False,
    as_json: flags.Json = False,
) -> None:
    """Take in messages, and, with -o, mix them once enough people have sent theirs.

    Without -o more messages can come later. With -o nobody else is let in: an interrupted shuffle is simply run again,
    and so is one whose batch was lost or refused. What is no submission of this protocol is refused, the rest taken.
    """
    from sfumato.shuffled import Protocol, Shuffler
    from sfumato.shuffled.messages import read_header

    files = list(message_files(submissions or []))
    refuse_inputs(output, protocol_file, *files, *(submissions or []))
    made = Protocol.load(protocol_file)
    name = class_named(made, label)
    with Shuffler(_given(state), made, name, memory=memory * 2**20) as mixer:
        refused = take_all(mixer, files, made.group(name)[1].messages)
        count = mixer.participants
        if output is not None:
            mixer.shuffle(output, overwrite=force)
    told: dict[str, Any] = {"people": count, "needed": made.group(name)[1].participants, "refused": refused}
    if output is not None:
        told |= {"batch": str(output), "messages": read_header(output).messages}
    tell(told, [(name, str(value)) for name, value in told.items()], as_json=as_json)


@app.command(epilog="[bold]Example[/]: sfumato shuffled analyze p.json batch --key analyzer.key -o out.sfm")
def analyze(
    protocol_file: flags.ProtocolFile,
    batch: Annotated[Path, argument("What the shuffler wrote.", "BATCH")],
    key: Annotated[Path, flag("The analyzer's private key.", "FILE")],
    output: flags.Output,
    label: LabelOption = None,
    workers: Annotated[int, flag("Processes that open messages.", "N", min=1)] = 1,
    force: ForceOption = False,
    as_json: flags.Json = False,
) -> None:
    """Open a batch, refuse it if too few took part or messages were altered, and release the density."""
    from rich.progress import Progress

    from sfumato.shuffled import AnalyzerKey, Protocol

    refuse_inputs(output, protocol_file, batch, key)
    if not batch.exists():
        raise InputError(f"there is no batch {str(batch)!r}: 'sfumato shuffled shuffle' writes it; check the path")
    made = Protocol.load(protocol_file)
    analyzer, name = made.analyzer(AnalyzerKey.load(key)), class_named(made, label)
    with Progress(console=err(), transient=True, disable=as_json or not err().is_terminal) as bar:
        task = bar.add_task("opening messages", total=None)
        release = analyzer.analyze(
            batch, name, workers=workers, progress=lambda done, total: bar.update(task, completed=done, total=total)
        )
    _told({release.save(output, overwrite=force): release}, as_json)


@app.command(epilog="[bold]Example[/]: sfumato shuffled forget p.json --state inbox")
def forget(protocol_file: flags.ProtocolFile, state: StateOption = None, label: LabelOption = None) -> None:
    """Delete the messages that the shuffler holds, once the analyzer has its release.

    Until then the batch can be made again; afterwards it cannot.
    """
    from sfumato.shuffled import Protocol, Shuffler

    made = Protocol.load(protocol_file)
    with Shuffler(_given(state), made, class_named(made, label)) as mixer:
        mixer.forget()
    tell({}, [("forgotten", f"the messages in {state}")])


@app.command(epilog="[bold]Example[/]: sfumato shuffled simulate p.json points.csv -o out.sfm")
def simulate(
    protocol_file: flags.ProtocolFile,
    data: flags.Data,
    output: Annotated[Path, flag("The release; with classes a folder for all of them.", "OUT", "-o", "--output")],
    columns: flags.Columns = None,
    label_column: LabelColumnOption = None,
    unmix: Annotated[bool, flag("Undo the randomised classes, at the price of noise.", None, "--unmix")] = False,
    dataset: flags.Dataset = None,
    ledger: flags.CuratorsLedger = None,
    no_ledger: flags.NoLedger = False,
    seed_noise_not_private: flags.CoinsSeed = None,
    force: ForceOption = False,
    as_json: flags.Json = False,
) -> None:
    """Release what a collection from the people in DATA would have given; whoever runs it sees their points.

    It spends what taking part promises, as a release does, and the ledger keeps count.
    """
    from sfumato.shuffled import Protocol
    from sfumato.shuffled.analyzer import METHOD, blank

    account = account_to_charge(data, dataset, ledger, no_ledger, seed_noise_not_private)
    read = (protocol_file, data, None if account is None else account.ledger.path)
    refuse_inputs(output, *read)
    refuse_unkept(output)
    made = Protocol.load(protocol_file)
    written = [output / f"class-{place}.sfm" for place in range(len(made.classes or ()))]
    for path in written:
        refuse_inputs(path, *read)
        refuse_unkept(path)
    if unmix and made.labels is None:
        raise InputError("--unmix undoes randomised classes, and this protocol has none: leave it out")
    points, places = people(made, data, columns, label_column)
    check_people(made, points, places)
    labels = None if made.classes is None else [made.classes[place] for place in places.tolist()]
    if made.classes is not None:
        with storage_errors("write", output):
            output.mkdir(parents=True, exist_ok=True)

    def saved(found: Any) -> dict[Path, Release]:
        found = made.unmix(found) if unmix else found
        return {path: found[name] for path, name in zip(written, made.classes or (), strict=True)} or {output: found}

    def run() -> dict[Path, Release]:
        charge_collection(account, METHOD, made.guarantee())
        return saved(made.simulate(points, labels, random_state=seed_noise_not_private))

    sizes = {path: longest_size(release) for path, release in saved(blank(made)).items()}
    _told(dict(make_files(run, sizes, account, force=force)), as_json, spending(account))


def _given(state: Path | None) -> Path:
    if state is None:
        raise InputError("--state FOLDER is missing: where messages wait until there are enough")
    return state


def _public_key(text: str | None) -> bytes | None:
    try:
        return None if text is None else bytes.fromhex(text)
    except ValueError:
        raise InputError(f"--public-key must be 64 hexadecimal digits, got {text!r}") from None


def _whole(text: str, flag: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(f"{flag} must be a whole number, got {text!r}") from None


def _numbers(text: str) -> int | list[int]:
    numbers = [_whole(part, "--participants") for part in text.split(",")]
    return numbers[0] if len(numbers) == 1 else numbers


def _told(releases: dict[Path, Release], as_json: bool, spent: tuple[dict[str, Any] | None, str] | None = None) -> None:
    first, made, pairs = next(iter(releases.values())), [], []
    warn_of_seed(first.guarantee, "Do not publish this.", "the coins")
    for path, release in releases.items():
        name, count = release.parameters.get("class"), release.count.value
        made.append({"release": str(path), "class": name, "people": count})
        which = "" if "class" not in release.parameters else f", class {name}"
        pairs.append(("release", f"{path} ({count} people{which})"))
    pairs.append(("guarantee", str(first.guarantee)))
    document: dict[str, Any] = {"releases": made, "guarantee": first.guarantee.to_document()}
    if spent is not None:
        document["ledger"], standing = spent
        pairs.append(("ledger", standing))
    tell(document, pairs, first.statement() if first.guarantee.private else "", as_json=as_json)
    if not (as_json or first.guarantee.private):
        complain("nothing is promised")


app.command("send", epilog=send.SHUFFLED_EXAMPLE)(send.send_messages)
