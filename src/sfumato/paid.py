"""What was paid for reaches a disk: beside another file of its name, or in another place, but never lost."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from sfumato.errors import InputError, StorageError
from sfumato.owner import private_opener
from sfumato.storage import AtomicFile, Bytes


def write_paid(path: str | Path, content: Bytes, overwrite: bool = False) -> Path:
    """Write what was paid for so that it cannot be lost; returns the file that holds it.

    Where another file has the name, the next free one is taken: ``patients-2.sfm`` beside ``patients.sfm``. Where the
    disk refuses, it is kept in the first place that takes it, and the error says where.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [write_paid(f"{folder}/people.sfm", b"paid").name for _ in range(3)]
    ['people.sfm', 'people-2.sfm', 'people-3.sfm']
    """
    target, number = Path(path), 1
    while True:
        try:
            with AtomicFile(target, overwrite=overwrite) as file:
                file.write(content)
            return target
        except StorageError as error:
            raise StorageError(f"{error}{rescued(content, Path(path))}") from error
        except InputError:
            if overwrite or not target.is_file():
                raise
        number += 1
        target = Path(path).with_stem(f"{Path(path).stem}-{number}")


def rescued(content: Bytes, target: Path) -> str:
    """Write what was paid for to the first place that takes it, and say where; nothing if there is none."""
    for folder in dict.fromkeys((target.absolute().parent, Path.cwd(), Path(tempfile.gettempdir()))):
        path = folder / f"{target.name}.rescued-{os.urandom(4).hex()}"
        with suppress(OSError):
            with open(path, "xb", opener=private_opener) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            return f"; it had been paid for and was kept in {str(path)!r}: move it to where it belongs"
        with suppress(OSError):
            path.unlink(missing_ok=True)
    return ""
