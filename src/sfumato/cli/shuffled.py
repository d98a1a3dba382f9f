"""`sfumato shuffled`: collections of anonymous one-bit messages, one command for each role."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.arguments import (
    BoundsOption,
    ColumnsOption,
    DataArgument,
    JsonOption,
    parse_bandwidth,
    parse_bounds,
)
from sfumato.cli.console import complain, err, facts, print_json, say, size_text, warn
from sfumato.cli.submissions import (
    class_named,
    message_files,
    own_class,
    people,
    refuse_inputs,
    reported_class,
    take_all,
    write_all,
)
from sfumato.errors import InputError
from sfumato.shuffled.limits import MAX_DELTA, MAX_EPSILON
from sfumato.storage import AtomicFile

if TYPE_CHECKING:
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

ProtocolArgument = Annotated[
    Path, typer.Argument(metavar="PROTOCOL", help="A protocol file (.json).", show_default=False)
]
LabelOption = Annotated[
    str | None, typer.Option("--label", metavar="CLASS", help="The reported class, where there are classes.")
]
LabelColumnOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="The column of the true classes, where there are classes.")
]
StateOption = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Where messages wait: new, empty or a shuffler's; survives a kill."),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace existing files.")]


@app.command(
    epilog="[bold]Example[/]: sfumato shuffled protocol -o p.json --new-key analyzer.key --kernel inner-product "
    "--dimension 384 --epsilon 1 --delta 1e-6 --participants 5000"
)
def protocol(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The protocol file to write.")],
    dimension: Annotated[int, typer.Option(metavar="D", help="Columns of a point.")],
    epsilon: Annotated[str, typer.Option(metavar="E", help="What the messages of one person may reveal.")],
    participants: Annotated[str, typer.Option(metavar="N", help="Honest people at least, or N,N,... by class.")],
    delta: Annotated[float, typer.Option(metavar="D", help="Above 0, except for --bitsum pure.")] = 0.0,
    kernel: Annotated[str, typer.Option(metavar="NAME", help="gaussian, inner-product, l2-lsh, ...")] = "gaussian",
    bandwidth: Annotated[str | None, typer.Option(metavar="B", help="One length, or one for each column.")] = None,
    bounds: BoundsOption = None,
    bitsum: Annotated[
        str, typer.Option(metavar="NAME", help="rr, poisson, negative-binomial, 3nb, pure, *-published.")
    ] = "rr",
    instances: Annotated[str, typer.Option(metavar="I", help="Bits of one person; auto chooses.")] = "auto",
    quantizer: Annotated[
        str, typer.Option(metavar="NAME", help="fourier, inner-product, inner-product-signs, landmarks, hashing.")
    ] = "auto",
    landmarks: Annotated[str | None, typer.Option(metavar="PUBLIC", help="A file of public points.")] = None,
    classes: Annotated[str | None, typer.Option(metavar="A,B,...", help="The public list of classes.")] = None,
    label_epsilon: Annotated[
        str | None, typer.Option(metavar="E", help="Of the reported class; without it classes are public.")
    ] = None,
    messages_each: Annotated[
        float | None, typer.Option("--messages", metavar="M", help="With rr: messages of a person, on average.")
    ] = None,
    threat: Annotated[str, typer.Option(metavar="NAME", help="communication, or model.")] = "communication",
    new_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a new private key here.")] = None,
    public_key: Annotated[str | None, typer.Option(metavar="HEX", help="Instead: the analyzer's public key.")] = None,
    key_expires: Annotated[str | None, typer.Option(metavar="DATE", help="Devices stop using the key.")] = None,
    expires: Annotated[str | None, typer.Option(metavar="DATE", help="Devices stop sending.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Public seed; drawn at random by default.")] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the public parameters of a collection, with exactly calibrated noise. No data is read."""
    from sfumato.shuffled import AnalyzerKey, Protocol
    from sfumato.sources import Source, open_source

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
        bounds=parse_bounds(bounds, Source(dimension, None, lambda rows: iter(()))),
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
    if new_key is not None:
        key.save(new_key)
    made.save(output, overwrite=force)
    _told_protocol(made, output, new_key, as_json)


def _told_protocol(made: Protocol, output: Path, new_key: Path | None, as_json: bool) -> None:
    plan = made.plan()
    if as_json:
        document = {"protocol": str(output), "fingerprint": made.fingerprint, "plan": plan.to_document()}
        print_json(document | {"guarantee": made.guarantee().to_document()})
        return
    sent, error = size_text(round(plan.bytes)), plan.accuracy
    facts(
        [
            ("protocol", f"{output} ({made.bitsum}, fingerprint {made.fingerprint[:8]})"),
            *([("key", f"{new_key}: keep it secret, and delete it when the collection is over")] if new_key else []),
            ("sends", f"{plan.messages:,.0f} messages a person, {sent} sealed; {plan.instances} instances"),
            ("error", f"about {error.rmse:.2g} of a mean similarity (the published bound is {error.published:.2g})"),
            ("guarantee", str(made.guarantee())),
        ]
    )


@app.command(
    epilog="[bold]Examples[/]: echo 0.2 0.7 | sfumato shuffled messages p.json -o mine.msg\n\n"
    "sfumato shuffled messages p.json --data points.csv -o sent"
)
def messages(
    protocol_file: ProtocolArgument,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="PATH", help="The file of one person; with --data a folder.")
    ],
    point: Annotated[
        str | None, typer.Option(metavar="FILE", help="With your point; standard input by default.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="CLASS", help="Your true class, where classes are public.")
    ] = None,
    label_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With your true class; reported by randomised response if private."),
    ] = None,
    data: Annotated[str | None, typer.Option(metavar="DATA", help="Instead: a file with a point a person.")] = None,
    ledger: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The device's account, which refuses to take part twice.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="E", help="Of the account, over all collections; goes with --ledger.")
    ] = None,
    max_epsilon: Annotated[
        str, typer.Option(metavar="E", help="The most that taking part may cost, whatever the protocol says.")
    ] = str(MAX_EPSILON),
    max_delta: Annotated[
        float, typer.Option(metavar="P", help="Largest probability with which the promise may fail.")
    ] = MAX_DELTA,
    columns: ColumnsOption = None,
    label_column: LabelColumnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Turn a point into sealed messages, all of which go to the shuffler of the reported class, once.

    The point, one number for each column, comes from standard input or a file, and so does a private class: what stands
    on a command line is seen by every user of the machine. With --data nothing limits what taking part costs.

    Send a person's messages over a connection that hides who they are from everybody but the shuffler.
    """
    from sfumato.local.own_point import read_point
    from sfumato.shuffled import Client, Protocol
    from sfumato.shuffled.limits import account_of, check_before_class

    if point is not None and data is not None:
        raise InputError("pass either --point, a file with one point, or --data")
    if data is not None and ledger is not None:
        raise InputError("--ledger is the account of one device, and --data holds the points of many")
    made = Protocol.load(protocol_file)
    if data is None:
        account, own = account_of(ledger, budget), own_class(made, label, label_file)
        values = read_point(point or "-")
        made.features.points([values])  # what is refused, or cannot be written, costs nothing
        limits: dict[str, Any] = {"max_epsilon": max_epsilon, "max_delta": max_delta}
        with AtomicFile(output, private=True) as file:
            check_before_class(made, account, max_epsilon, max_delta)
            reported = reported_class(made, own, account)
            file.write(Client(made, reported, account, **limits).messages(values).to_bytes())
        told: dict[str, Any] = {"messages": str(output), "reported": reported}
    else:
        told = {"folder": str(output), "people": write_all(made, data, columns, label_column, output)}
    if as_json:
        print_json(told)
    else:
        facts([(name, str(value)) for name, value in told.items() if value is not None])


@app.command(epilog="[bold]Example[/]: sfumato shuffled shuffle p.json sent/*.msg --state inbox -o batch")
def shuffle(
    protocol_file: ProtocolArgument,
    submissions: Annotated[
        list[Path] | None, typer.Argument(metavar="MESSAGES...", help="Files of people's messages, or folders of them.")
    ] = None,
    state: StateOption = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="BATCH", help="Close, and write the shuffled batch.")
    ] = None,
    label: LabelOption = None,
    memory: Annotated[int, typer.Option(metavar="MB", help="Megabytes to use.", min=1)] = 256,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Take in messages, and, with -o, mix them once enough people have sent theirs.

    Without -o more messages can come later. With -o nobody else is let in: an interrupted shuffle is simply run again,
    and so is one whose batch was lost or refused. What is no submission of this protocol is refused, the rest taken.
    """
    from sfumato.shuffled import Protocol, Shuffler
    from sfumato.shuffled.messages import read_header

    files = list(message_files(submissions or []))
    if output is not None:
        refuse_inputs(output, protocol_file, *files)
    made = Protocol.load(protocol_file)
    name = class_named(made, label)
    with Shuffler(_given(state), made, name, memory=memory * 2**20) as mixer:
        refused = take_all(mixer, files)
        count = mixer.participants
        if output is not None:
            mixer.shuffle(output, overwrite=force)
    told: dict[str, Any] = {"people": count, "needed": made.group(name)[1].participants, "refused": refused}
    if output is not None:
        told |= {"batch": str(output), "messages": read_header(output).messages}
    if as_json:
        print_json(told)
    else:
        facts([(name, str(value)) for name, value in told.items()])


@app.command(epilog="[bold]Example[/]: sfumato shuffled analyze p.json batch --key analyzer.key -o out.sfm")
def analyze(
    protocol_file: ProtocolArgument,
    batch: Annotated[Path, typer.Argument(metavar="BATCH", help="What the shuffler wrote.", show_default=False)],
    key: Annotated[Path, typer.Option(metavar="FILE", help="The analyzer's private key.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT.sfm", help="The release to write.")],
    label: LabelOption = None,
    workers: Annotated[int, typer.Option(metavar="N", min=1, help="Processes that open messages.")] = 1,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Open a batch, refuse it if too few took part or messages were altered, and release the density."""
    from rich.progress import Progress

    from sfumato.shuffled import AnalyzerKey, Protocol

    refuse_inputs(output, protocol_file, batch, key)
    made = Protocol.load(protocol_file)
    analyzer, name = made.analyzer(AnalyzerKey.load(key)), class_named(made, label)
    with Progress(console=err, transient=True, disable=as_json or not err.is_terminal) as bar:
        task = bar.add_task("opening messages", total=None)
        release = analyzer.analyze(
            batch, name, workers=workers, progress=lambda done, total: bar.update(task, completed=done, total=total)
        )
    release.save(output, overwrite=force)
    _told({output: release}, as_json)


@app.command(epilog="[bold]Example[/]: sfumato shuffled forget p.json --state inbox")
def forget(protocol_file: ProtocolArgument, state: StateOption = None, label: LabelOption = None) -> None:
    """Delete the messages that the shuffler holds, once the analyzer has its release.

    Until then the batch can be made again; afterwards it cannot.
    """
    from sfumato.shuffled import Protocol, Shuffler

    made = Protocol.load(protocol_file)
    with Shuffler(_given(state), made, class_named(made, label)) as mixer:
        mixer.forget()
    facts([("forgotten", f"the messages in {state}")])


@app.command(epilog="[bold]Example[/]: sfumato shuffled simulate p.json points.csv -o out.sfm")
def simulate(
    protocol_file: ProtocolArgument,
    data: DataArgument,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT", help="The release; with classes a folder for all of them.")
    ],
    columns: ColumnsOption = None,
    label_column: LabelColumnOption = None,
    unmix: Annotated[bool, typer.Option("--unmix", help="Undo the randomised classes, at the price of noise.")] = False,
    seed_noise_not_private: Annotated[
        int | None, typer.Option(metavar="N", help="Seed the coins, for tests: the release is marked NOT PRIVATE.")
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Release what a collection from the people in DATA would have given; whoever runs it sees their points."""
    from sfumato.shuffled import Protocol

    refuse_inputs(output, protocol_file, data)
    made = Protocol.load(protocol_file)
    if unmix and made.labels is None:
        raise InputError("--unmix undoes randomised classes, and this protocol has none: leave it out")
    points, places = people(made, data, columns, label_column)
    labels = None if made.classes is None else [made.classes[place] for place in places.tolist()]
    found = made.simulate(points, labels, random_state=seed_noise_not_private)
    if made.classes is None:
        found.save(output, overwrite=force)
        return _told({output: found}, as_json)
    releases = made.unmix(found) if unmix else found
    output.mkdir(parents=True, exist_ok=True)
    paths = {output / f"class-{place}.sfm": releases[name] for place, name in enumerate(made.classes)}
    for path, release in paths.items():
        release.save(path, overwrite=force)
    _told(paths, as_json)


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


def _told(releases: dict[Path, Release], as_json: bool) -> None:
    first = next(iter(releases.values()))
    if not first.guarantee.private:
        warn("NOT PRIVATE: the coins came from a seed. Do not publish this.")
    if as_json:
        made = [
            {"release": str(path), "class": release.parameters.get("class"), "people": release.count.value}
            for path, release in releases.items()
        ]
        return print_json({"releases": made, "guarantee": first.guarantee.to_document()})
    for path, release in releases.items():
        which = "" if "class" not in release.parameters else f", class {release.parameters['class']}"
        facts([("release", f"{path} ({release.count.value} people{which})")])
    facts([("guarantee", str(first.guarantee))])
    if first.guarantee.private:
        say(f"\n{first.statement()}")
    else:
        complain("nothing is promised")
