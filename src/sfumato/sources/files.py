"""Files by their endings: one of them, a folder of them, or all that a pattern such as ``trips/2024-*.csv`` matches.

Several files are one table, read in the order of their names. They must be of one kind and have the same columns.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sfumato.deferred import require
from sfumato.errors import InputError
from sfumato.privacy.datasets import KINDS, file_and_array, folder_of, identity_of, is_hidden, is_pattern, kind_of
from sfumato.sources.base import Rows, Source, reblock
from sfumato.sources.numpy_files import open_npy, open_npz
from sfumato.sources.remote import Files, Shard
from sfumato.sources.selection import Selection, listing

# Separator of the files of text, which a caller may overrule.
SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
ARROW = (".arrow", ".feather")


def open_paths(
    paths: Sequence[Path], selection: Selection, separator: str | None = None, decimal: str | None = None
) -> Source:
    """Source over what several paths name, one after the other, as if it were one table."""
    return _named(_as_one(paths, [open_path(path, selection, separator, decimal) for path in paths]), paths)


def open_path(path: Path, selection: Selection, separator: str | None = None, decimal: str | None = None) -> Source:
    """Source over what a path names; `separator` and `decimal` are those of text."""
    source = _open_path(path, selection, separator, decimal)
    if not isinstance(source.read, Files):
        shard = WholeFile(str(path.absolute()), selection, separator, decimal)
        source = replace(source, read=Files(shards=lambda: [shard], read=source.read))
    return _named(source, [path])


def _named(source: Source, paths: Sequence[Path]) -> Source:
    """Note which paths a source was opened by."""
    return replace(source, paths=tuple(map(identity_of, paths)))


@dataclass(frozen=True)
class WholeFile:
    """All rows of one file."""

    path: str
    selection: Selection
    separator: str | None = None
    decimal: str | None = None

    @property
    def rows(self) -> None:
        """Not known without reading them."""
        return None

    def pieces(self, rows: int) -> Iterator[Rows]:
        """Open the file and read it."""
        return open_path(Path(self.path), self.selection, self.separator, self.decimal).pieces(rows)


def _open_path(path: Path, selection: Selection, separator: str | None, decimal: str | None) -> Source:
    file, array = file_and_array(path)
    if array is not None or (file.lower().endswith(".npz") and not is_pattern(file)):
        _check_text(None, separator, decimal, str(path))
        _check_file(Path(file))
        return open_npz(Path(file), array, selection)
    files = _files(path)
    kind = _one_kind(files, path)
    _check_text(kind, separator, decimal, str(path))
    if len(files) > 1 and kind != ".parquet":
        return _as_one(files, [open_path(file, selection, separator, decimal) for file in files])
    if kind == ".npy":
        return open_npy(files[0], selection)
    require("curator")  # Arrow reads the others
    if kind == ".parquet" or kind in ARROW:
        from sfumato.sources.table_files import open_ipc, open_parquet

        return open_ipc(files[0], selection) if kind in ARROW else open_parquet(files, selection)
    from sfumato.sources.delimited import TextFormat, open_delimited

    return open_delimited(files[0], selection, text=TextFormat(separator or SEPARATORS[kind], decimal or "."))


def _check_file(path: Path) -> None:
    """Refuse what is no regular file before it is opened: a pipe waits for its writer, and a device has no end."""
    if not os.path.exists(path):  # Path.exists raises where a name is too long for any file
        raise InputError(f"{path}: no such file or folder. Check the path.")
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder, and its name is that of a file. Name the file, or rename the folder.")
    if not os.path.isfile(path):
        raise InputError(
            f"{path} is a pipe or a device, and data are read from files, more than once: write them to a file first."
        )


def _files(path: Path) -> list[Path]:
    """Files that a path names, in the order of their names."""
    if is_pattern(path):
        found = [Path(name) for name in glob.glob(str(path), recursive=True)]
        begin = len(folder_of(path).parts)  # hidden below it is what a folder's account does not look at
        seen = [file for file in found if not any(map(is_hidden, file.parts[begin:]))]
        if not (files := sorted(file for file in seen if file.is_file())):
            raise InputError(
                f"{path}: no file has a name like this, but for hidden ones. Check the pattern."
                if found
                else f"{path}: no file has a name like this. Check the pattern."
            )
        return files
    if not os.path.isdir(path):
        _check_file(path)
        return [path]
    files = sorted(_inside(path))
    # A folder of Parquet may hold notes beside its tables.
    tables = [file for file in files if _kind(file) == ".parquet"] or files
    if not tables:
        raise InputError(f"The folder {path} holds no file of a kind that can be read: {', '.join(KINDS)}.")
    return tables


def _inside(folder: Path) -> Iterator[Path]:
    """Files of a folder and of those in it that are data by their names."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_hidden(name)]
        found = (Path(place, name) for name in names if not is_hidden(name) and kind_of(name))
        yield from (file for file in found if file.is_file())


def _kind(file: Path) -> str | None:
    return kind_of(file.name)


def _one_kind(files: Sequence[Path], path: Path) -> str:
    kinds = {kind for file in files if (kind := _kind(file)) is not None}
    if len(kinds) == 1 and all(map(_kind, files)):
        return kinds.pop()
    if len(files) > 1:
        raise InputError(
            f"{path}: the files are of several kinds, such as {listing([repr(file.name) for file in files], 4)}. "
            f"Pass files of one kind, one of {', '.join(KINDS)}, for example by a pattern such as '*.csv'."
        )
    raise InputError(
        f"{path}: unknown kind of file. Known are {', '.join(KINDS)}, .npz, folders of these, and patterns of their "
        "names; rename or convert the file."
    )


def _check_text(kind: str | None, separator: str | None, decimal: str | None, origin: str) -> None:
    if kind not in SEPARATORS and (separator is not None or decimal is not None):
        name = "decimal" if separator is None else "separator"
        raise InputError(f"{name}= is for files of text ({', '.join(SEPARATORS)}), and {origin} is none. Leave it out.")


def _as_one(files: Sequence[Path], sources: Sequence[Source]) -> Source:
    """Source over several files, of which the first one's columns count."""
    first, *others = sources
    for file, other in zip(files[1:], others, strict=True):
        if (other.dimension, other.column_names) != (first.dimension, first.column_names):
            raise InputError(
                f"{file} has the columns {_names(other)} and {files[0]} has {_names(first)}. "
                "Pass columns= with those that all files have."
            )

    def shards() -> list[Shard]:
        return [shard for source in sources if isinstance(source.read, Files) for shard in source.read.shards()]

    def read(rows: int) -> Iterator[Rows]:
        return reblock((piece for source in sources for piece in source.pieces(rows)), rows)

    lengths = [source.expected_rows for source in sources if source.expected_rows is not None]
    return Source(
        dimension=first.dimension,
        column_names=first.column_names,
        read=Files(shards=shards, read=read),
        expected_rows=sum(lengths) if len(lengths) == len(sources) else None,
        keyed=first.keyed,
        weighted=first.weighted,
        categories=first.categories,
    )


def _names(source: Source) -> str:
    return str(source.dimension) if source.column_names is None else listing(map(repr, source.column_names), 10)
