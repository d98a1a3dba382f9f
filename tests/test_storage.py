"""Atomic files: whole or absent, durable, nothing left behind, and every refusal in plain words."""

from __future__ import annotations

import errno
import os
import re
import resource
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import InputError, StorageError
from sfumato.storage import AtomicFile, read_at_most, storage_errors

REFUSALS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "quota",
    errno.EFBIG: "larger than allowed",
    errno.EROFS: "read-only",
    errno.EACCES: "permission denied",
    errno.EIO: "Input/output error",
}


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def failing(code: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise OSError(code, os.strerror(code))

    return fail


def save(
    path: Path | str,
    content: bytes,
    overwrite: bool = False,
    size: int | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    with AtomicFile(path, overwrite=overwrite) as file:
        if size is not None:
            file.reserve(size)
        meanwhile()
        file.write(content)


def raising(error: type[BaseException]) -> Callable[..., Any]:
    def stop(*_: object) -> Any:
        raise error("stop")

    return stop


@pytest.mark.parametrize("size", [None, 0, 3, 7, 100_000])
@pytest.mark.parametrize("overwrite", [False, True])
def test_writes_exactly_the_content(tmp_path: Path, overwrite: bool, size: int | None) -> None:
    save(tmp_path / "a.sfm", b"content", overwrite, size)
    assert (tmp_path / "a.sfm").read_bytes() == b"content"
    assert names(tmp_path) == ["a.sfm"]


def test_pieces_of_any_bytes_like_kind_follow_each_other(tmp_path: Path) -> None:
    with AtomicFile(str(tmp_path / "a")) as file:
        for piece in (b"one ", b"", bytearray(b"two "), memoryview(b"xthree")[1:]):
            file.write(piece)
    assert (tmp_path / "a").read_bytes() == b"one two three"


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data[:2])))
    save(tmp_path / "a", b"content")
    assert (tmp_path / "a").read_bytes() == b"content"


def test_reader_sees_old_content_until_the_end(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"old")
    with AtomicFile(target, overwrite=True) as file:
        file.write(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"


def test_data_reach_the_disk_before_the_name_and_the_name_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, os.replace

    def watched_fsync(descriptor: int) -> None:
        calls.append("sync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        fsync(descriptor)

    def watched_replace(source: str, target: str) -> None:
        calls.append("replace")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    save(tmp_path / "a", b"content", overwrite=True)
    assert calls == ["sync file", "replace", "sync folder"]


def test_permissions_of_an_old_file_are_kept_and_new_ones_follow_the_umask(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"")
    (tmp_path / "old").chmod(0o640)
    before = os.umask(0o027)
    try:
        save(tmp_path / "old", b"x", overwrite=True)
        save(tmp_path / "new", b"x")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("old", "new")]
    assert modes == [0o640, 0o640]


@pytest.mark.parametrize("exists", [True, False])
def test_links_are_followed(tmp_path: Path, exists: bool) -> None:
    (tmp_path / "real").mkdir()
    if exists:
        (tmp_path / "real" / "a").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real" / "a")
    save(tmp_path / "link", b"new", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "a").read_bytes() == b"new"


def test_refuses_to_overwrite_and_says_what_to_pass(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(InputError, match="overwrite=True"):
        save(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_does_not_overwrite_a_file_that_appears_meanwhile(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="overwrite=True"):
        save(tmp_path / "a", b"mine", meanwhile=lambda: (tmp_path / "a").write_bytes(b"theirs"))
    assert (tmp_path / "a").read_bytes() == b"theirs"
    assert names(tmp_path) == ["a"]


def test_works_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", failing(errno.EPERM))
    save(tmp_path / "a", b"content")
    assert (tmp_path / "a").read_bytes() == b"content"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("name", ["", "a\0b", "folder", "folder/", "missing/"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_refuses_what_names_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, overwrite: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    with pytest.raises(InputError, match="pass "):
        save(name, b"content", overwrite)
    assert names(tmp_path) == ["folder"]


def test_refuses_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        with pytest.raises(InputError, match="socket"):
            save("s", b"content", overwrite=True)


@pytest.mark.parametrize(
    ("name", "problem"),
    [("missing/a", "does not exist; create it"), ("file/a", "not a folder"), ("n" * 300, "too long")],
)
def test_impossible_paths(tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match=problem):
        save(tmp_path / name, b"content")
    assert names(tmp_path) == ["file"]


def test_longest_possible_name(tmp_path: Path) -> None:
    save(tmp_path / ("n" * 255), b"content")
    assert names(tmp_path) == ["n" * 255]


@pytest.mark.parametrize("code", REFUSALS)
@pytest.mark.parametrize("call", ["write", "posix_fallocate", "ftruncate", "fsync", "replace", "close"])
def test_a_refusal_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(code))
        with pytest.raises(StorageError) as caught:
            save(tmp_path / "a", b"new", overwrite=True, size=100)
    assert REFUSALS[code] in str(caught.value) and str(tmp_path / "a") in str(caught.value)
    assert caught.value.errno == code
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_to_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing(code))
        with pytest.raises(StorageError, match=REFUSALS[code]):
            save(tmp_path / "a", b"new")
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_listed_takes_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, the file was there and the error said that it was not; what was paid for was kept a second time."""
    opened, synced = os.open, []

    def closed_to_readers(path: Any, flags: int, *rest: Any) -> int:
        if flags & os.O_DIRECTORY:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opened(path, flags, *rest)

    monkeypatch.setattr(os, "open", closed_to_readers)
    monkeypatch.setattr(os, "sync", lambda: synced.append(True))
    with AtomicFile(tmp_path / "dropped") as file:
        file.write(b"new")
    assert (tmp_path / "dropped").read_bytes() == b"new" and synced


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError, FileNotFoundError])
def test_an_exception_inside_passes_through_and_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error) as caught:
        save(tmp_path / "a", b"new", size=100, meanwhile=raising(error))
    assert not isinstance(caught.value, StorageError)
    assert names(tmp_path) == []


@pytest.mark.parametrize("call", ["fchmod", "write", "fsync", "replace"])
def test_an_interrupt_within_a_call_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, raising(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path / "a", b"new", overwrite=True)
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    for _ in range(20):
        save(tmp_path / "a", b"x", overwrite=True)
        with pytest.raises(InputError):
            save(tmp_path / "a", b"x")
        with pytest.raises(RuntimeError):
            save(tmp_path / "b", b"x", meanwhile=raising(RuntimeError))
        with pytest.raises(StorageError):
            save("/dev/full", b"x")
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize("size", [None, 1 << 20])
def test_a_limit_on_file_sizes(tmp_path: Path, size: int | None) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    spent: list[bool] = []
    try:
        with pytest.raises(StorageError, match="ulimit -f"):
            save(tmp_path / "a", bytes(1 << 20), size=size, meanwhile=lambda: spent.append(True))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert bool(spent) == (size is None)  # with a reservation the limit shows before anything is spent
    assert names(tmp_path) == []


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL, None])
def test_reserves_by_writing_zeros_where_the_system_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None
) -> None:
    if code is None:
        monkeypatch.delattr(os, "posix_fallocate")
    else:
        monkeypatch.setattr(os, "posix_fallocate", failing(code))
    with AtomicFile(tmp_path / "a") as file:
        file.write(b"con")
        file.reserve(3_000_000)
        (temporary,) = tmp_path.iterdir()
        assert temporary.stat().st_size == 3_000_000
        assert temporary.stat().st_blocks * 512 >= 3_000_000
        file.write(b"tent")
    assert (tmp_path / "a").read_bytes() == b"content"


def test_reservation_takes_the_space(tmp_path: Path) -> None:
    with AtomicFile(tmp_path / "a") as file:
        file.reserve(1_000_000)
        file.reserve(10)
        (temporary,) = tmp_path.iterdir()
        assert temporary.stat().st_blocks * 512 >= 1_000_000
    assert (tmp_path / "a").stat().st_size == 0


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_full_device_shows_at_the_reservation_and_at_the_write(overwrite: bool) -> None:
    with pytest.raises(StorageError, match="the disk is full"):
        save("/dev/full", b"", overwrite, size=10)
    with pytest.raises(StorageError, match="the disk is full"):
        save("/dev/full", b"content", overwrite)
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_device_that_takes_everything_stays_a_device() -> None:
    save("/dev/null", b"content", overwrite=True, size=10)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_stream_is_continued_not_replaced(tmp_path: Path) -> None:
    with open(tmp_path / "log", "ab") as log:
        log.write(b"before ")
        log.flush()
        save(f"/dev/fd/{log.fileno()}", b"content")
        os.write(log.fileno(), b" after")
    assert (tmp_path / "log").read_bytes() == b"before content after"


@pytest.mark.parametrize(("name", "descriptor"), [("/dev/stdout", 1), ("/dev/stderr", 2)])
def test_standard_streams(capfd: pytest.CaptureFixture[str], name: str, descriptor: int) -> None:
    save(name, b"content", size=10)
    assert capfd.readouterr()[descriptor - 1] == "content"


def test_a_pipe_whose_reader_left() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        with pytest.raises(StorageError, match=re.escape("the reader at the other end has closed")):
            save(f"/dev/fd/{writer}", b"content")
    finally:
        os.close(writer)


def test_a_named_pipe_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    save(tmp_path / "pipe", b"content", size=10)
    reader.join()
    assert received == [b"content"]


def test_leftovers_of_killed_processes_are_swept_and_nothing_else(tmp_path: Path) -> None:
    from sfumato import storage

    names = {
        "old": ".sfumato-0123456789abcdef.tmp",
        "young": ".sfumato-1123456789abcdef.tmp",
        "living": ".sfumato-2123456789abcdef.tmp",
        "another's name": ".sfumato-notours.tmp",
        "link": ".sfumato-3123456789abcdef.tmp",
    }
    paths = {what: tmp_path / name for what, name in names.items()}
    for what, path in paths.items():
        path.symlink_to(paths["old"]) if what == "link" else path.write_bytes(b"left")
        if what != "young":
            os.utime(path, (1, 1), follow_symlinks=False)
    living = os.open(paths["living"], os.O_RDONLY)
    assert storage._lock(living)
    with AtomicFile(tmp_path / "out") as file:
        file.write(b"content")
    os.close(living)
    assert {what for what, path in paths.items() if not os.path.lexists(path)} == {"old"}


def test_a_temporary_file_in_use_is_never_swept(tmp_path: Path) -> None:
    from sfumato import storage

    with AtomicFile(tmp_path / "out") as file:
        file.write(b"content")
        (temporary,) = tmp_path.glob(".sfumato-*.tmp")
        os.utime(temporary, (1, 1))
        storage._swept.clear()
        storage.sweep(str(tmp_path))
        assert temporary.exists()
    assert (tmp_path / "out").read_bytes() == b"content"


def test_a_device_without_end_is_read_up_to_the_limit(tmp_path: Path) -> None:
    assert read_at_most("/dev/zero", 100) == bytes(101)
    (tmp_path / "whole").write_bytes(b"content")
    assert read_at_most(tmp_path / "whole", 100) == b"content"
    with pytest.raises(StorageError, match="cannot read"):
        read_at_most(tmp_path, 100)


def test_a_file_that_is_not_there_is_no_missing_folder() -> None:
    with pytest.raises(StorageError, match="there is no such file; check the path"), storage_errors("read", "p.json"):
        open("/nowhere/p.json").close()
