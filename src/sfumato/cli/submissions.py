"""People's points and messages as files, for the commands of a shuffled collection."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.arguments import one_column, parse_columns
from sfumato.errors import InputError
from sfumato.storage import AtomicFile, private_folder, storage_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.shuffled import Protocol, Submission


def class_named(made: Protocol, text: str | None) -> Any:
    """Return the protocol's own class that is written like this: a whole number, or text."""
    if made.classes is None or text is None:
        return text
    names = [name for name in made.classes if str(name) == text]
    if len(names) != 1:
        problem = "is not one of" if not names else "names more than one of"
        raise InputError(f"{text!r} {problem} the protocol's classes {list(made.classes)}")
    return names[0]


def reported_class(made: Protocol, label: Any) -> Any:
    """Report a true class: by randomised response where classes are private."""
    if made.classes is None or label is None or made.labels is None:
        return label
    return made.labels.report([label])[0]


def people(
    made: Protocol, data: str, columns: str | None, label_column: str | None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Points of everybody, and the places of their true classes (zeros without classes)."""
    import numpy as np

    from sfumato.sources import open_source
    from sfumato.sources.keys import keys_of

    if (made.classes is None) != (label_column is None):
        raise InputError("--label-column goes with the classes of a protocol: pass it if it has some, and only then")
    source = open_source(
        data, parse_columns(columns, data), key=None if label_column is None else one_column(label_column, data)
    )
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


def write_all(made: Protocol, data: str, columns: str | None, label_column: str | None, folder: Path) -> int:
    """Write a file for each person, with a random name, in a folder for each reported class."""
    points, places = people(made, data, columns, label_column)
    for point, place in zip(points, places.tolist(), strict=True):
        reported = None if made.classes is None else reported_class(made, made.classes[place])
        inner = folder if reported is None else folder / f"class-{made.group(reported)[0]}"
        private_folder(inner)
        write_new(inner / f"{secrets.token_hex(8)}.msg", made.client(reported).messages(point))
    return len(points)


def write_new(path: Path, sent: Submission) -> None:
    """Write one person's identity and messages to a new file."""
    with AtomicFile(path, private=True) as file:
        file.write(sent.to_bytes())


def message_files(paths: list[Path]) -> Iterator[Path]:
    """Give files, and those in folders."""
    for path in paths:
        if path.is_dir():
            yield from sorted(path.glob("*.msg"))
        else:
            yield path


def read_messages(path: Path) -> Submission:
    """Read one person's identity and messages."""
    from sfumato.shuffled import Submission

    if not path.exists():
        raise InputError(f"there is no such file: {str(path)!r}")
    with storage_errors("read", path):
        content = path.read_bytes()
    try:
        return Submission.from_bytes(content)
    except InputError as problem:
        raise InputError(f"{str(path)!r}: {problem}") from None
