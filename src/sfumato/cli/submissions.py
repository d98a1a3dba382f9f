"""People's points and messages as files, for the commands of a shuffled collection."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.console import warn
from sfumato.cli.typed import one_column, parse_columns
from sfumato.errors import InputError, StorageError
from sfumato.owner import private_folder
from sfumato.storage import AtomicFile, storage_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.local.account import DeviceAccount
    from sfumato.shuffled import Protocol, Shuffler, Submission


def class_named(made: Protocol, text: str | None) -> Any:
    """Return the protocol's own class that is written like this: a whole number, or text."""
    if made.classes is None or text is None:
        return text
    names = [name for name in made.classes if str(name) == text]
    if len(names) != 1:
        problem = "is not one of" if not names else "names more than one of"
        raise InputError(f"{text!r} {problem} the protocol's classes {list(made.classes)}")
    return names[0]


def own_class(made: Protocol, label: str | None, file: Path | None) -> Any:
    """Return a person's true class, which a command line may show only where classes are public."""
    if label is not None and (file is not None or made.labels is not None):
        raise InputError(
            "classes are private here, and command lines are not: pass --label-file, a file with your class"
        )
    if file is not None:
        with storage_errors("read", file):
            label = file.read_text(encoding="utf-8").strip()
    return class_named(made, label)


def reported_class(made: Protocol, label: Any, account: DeviceAccount | None = None) -> Any:
    """Report a true class: by randomised response where classes are private, one answer if there is an account."""
    if made.classes is None or label is None or made.labels is None:
        return label
    return made.labels.report([label])[0] if account is None else made.labels.answer(label, account, made.fingerprint)


def people(
    made: Protocol, data: str, columns: str | None, label_column: str | None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Points of everybody, and the places of their true classes (zeros without classes)."""
    import numpy as np

    from sfumato.sources import arguments_named, open_source
    from sfumato.sources.keys import keys_of

    if (made.classes is None) != (label_column is None):
        raise InputError("--label-column goes with the classes of a protocol: pass it if it has some, and only then")
    with arguments_named(key="--label-column"):
        source = open_source(data, parse_columns(columns, data), key=one_column(label_column, data))
    if made.classes is None:
        points = source.whole()
        return points, np.zeros(len(points), dtype=np.int64)
    blocks, places, names = [np.empty((0, source.dimension))], [np.empty(0, dtype=np.int64)], keys_of(made.classes)
    for block, keys in source.keyed_batches():
        known = (keys[:, None] == names[None]).all(axis=2)
        if not known.any(axis=1).all():
            raise InputError(f"{data!r} names a class that is not one of the protocol's {list(made.classes)}")
        blocks.append(np.asarray(block, dtype=np.float64))
        places.append(known.argmax(axis=1))
    return np.concatenate(blocks), np.concatenate(places)


def check_people(made: Protocol, points: NDArray[np.float64], places: NDArray[np.int64]) -> None:
    """Refuse before the charge what a simulation refuses; how many report a private class is chance, and paid for."""
    import numpy as np

    made.features.points(points)
    needed = [group.participants for group in made.groups]
    there = np.bincount(places, minlength=len(needed)).tolist()
    if made.labels is not None:
        needed, there = [sum(needed)], [len(points)]
    for least, found in zip(needed, there, strict=True):
        if found < least:
            raise InputError(
                f"{found} participants take part{' in a class' if len(needed) > 1 else ''} and the guarantee needs "
                f"{least}: pass more points, or a protocol for fewer participants"
            )


def write_all(made: Protocol, data: str, columns: str | None, label_column: str | None, folder: Path) -> int:
    """Write a file for each person, with a random name, in a folder for each reported class; or none for anybody.

    Whoever holds the points of many is no device, and has no limit but what the protocol says. What is left of a run
    that fails would be counted beside what the next one writes.
    """
    points, places = people(made, data, columns, label_column)
    promise = made.guarantee("communication")
    limits: dict[str, Any] = {"max_epsilon": promise.epsilon, "max_delta": promise.delta}
    written: list[Path] = []
    try:
        for point, place in zip(points, places.tolist(), strict=True):
            reported = None if made.classes is None else reported_class(made, made.classes[place])
            inner = folder if reported is None else folder / f"class-{made.group(reported)[0]}"
            private_folder(inner)
            target = inner / f"{secrets.token_hex(8)}.msg"
            written.append(target)
            with AtomicFile(target, private=True) as file:
                file.write(made.client(reported, **limits).messages(point).to_bytes())
    except BaseException as error:
        if left := _not_removed(written):
            raise StorageError(
                f"{error or 'stopped'}; messages of {left} people could not be removed from {str(folder)!r} and would "
                "be counted again: delete it, and begin in a new folder"
            ) from error
        raise
    return len(points)


def _not_removed(files: list[Path]) -> int:
    """Delete files; tell how many stay."""
    left = 0
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError:
            left += 1
    return left


def message_files(paths: list[Path]) -> Iterator[Path]:
    """Give files, and those in folders."""
    for path in paths:
        if path.is_dir():
            yield from sorted(path.glob("*.msg"))
        elif path.exists():
            yield path
        else:
            raise InputError(f"there is no such file: {str(path)!r}")


def take_all(mixer: Shuffler, files: list[Path], messages: int) -> int:
    """Let a shuffler take submissions of so many messages; return how many it refused, which are told one by one.

    Nobody's file may keep out those of others.
    """
    problems = []
    for path in files:
        try:
            submission = read_messages(path, messages)
        except (InputError, StorageError) as problem:
            problems.append(f"{str(path)!r}: {problem}")
            continue
        try:
            mixer.receive(submission)
        except InputError as problem:
            problems.append(f"{str(path)!r}: {problem}")
    if problems and len(problems) == len(files):
        raise InputError(problems[0])
    for text in problems:
        warn(f"refused {text}")
    return len(problems)


def read_messages(path: Path, messages: int) -> Submission:
    """Read one person's identity and messages."""
    from sfumato.shuffled import Submission
    from sfumato.shuffled.messages import HEAD_BYTES
    from sfumato.shuffled.sealing import MESSAGE_BYTES

    most = HEAD_BYTES + messages * MESSAGE_BYTES
    with storage_errors("read", path):
        if path.exists() and (not path.is_file() or path.stat().st_size > most):  # opening a pipe would wait
            raise InputError(f"it is no file of at most {most} bytes, as a submission of this protocol is")
        return Submission.from_bytes(path.read_bytes())
