"""Write a file so that a reader sees the old content or the new one, never a part, and never loses it afterwards.

Ledgers and releases are both written this way. The content goes to a temporary file in the folder of the target, is
forced to disk, and takes the target's name in one step; then the folder is forced to disk. Space can be reserved first,
so that a full disk is found before any budget is spent. A process that is killed leaves at worst a hidden file
``.sfumato-*.tmp``. The next file that is written to its folder sweeps it away, once it is a day old: only our own
files, by their names, their owner and the lock that a living process holds on its own.

Streams and devices (``/dev/stdout``, ``/dev/full``, a named pipe) have no old content to keep: they are written to
directly.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

try:
    import fcntl
except ImportError:  # pragma: no cover - a device without locks sweeps nothing
    fcntl = None  # type: ignore[assignment]

from sfumato.errors import InputError, StorageError
from sfumato.owner import OWNER_FILE

Bytes = bytes | bytearray | memoryview

_ADVICE = {
    errno.ENOSPC: "the disk is full; free some space or choose another disk",
    errno.EDQUOT: "your disk quota is used up; free some space or choose another disk",
    errno.EFBIG: "the file would be larger than allowed here; raise the limit (ulimit -f) or choose another disk",
    errno.EROFS: "the disk is read-only; choose another folder",
    errno.EACCES: "permission denied; change the permissions or choose another folder",
    errno.EPERM: "operation not permitted; change the permissions or choose another folder",
    errno.ENOENT: "the folder does not exist; create it first",
    errno.ENOTDIR: "a part of the path is a file, not a folder; correct the path",
    errno.EMFILE: "this process may have no more files open; raise the limit (ulimit -n)",
    errno.EPIPE: "the reader at the other end has closed",
}
STREAM = re.compile(r"/dev/(?:fd/(\d+)|(stdout)|(stderr))")
_NO_RESERVATION = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}  # what file systems without fallocate answer
_NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_ZEROS = bytes(1 << 20)
_LEFTOVER = re.compile(r"\.sfumato-(?:[0-9a-f]{16}\.tmp|[a-z0-9_]{8}\.csv)")  # the latter of `query`
LEFTOVER_SECONDS = 24 * 3600
_OTHER_FILES = 256  # that a process has open besides
_swept: set[str] = set()  # folders, each once in a process: there may be many files in them


@contextmanager
def storage_errors(action: str, path: str | Path) -> Iterator[None]:
    """Turn an `OSError` of the enclosed calls, or text that is none, into a `StorageError` that says what to do.

    Parameters
    ----------
    action : str
        What was tried, such as ``"write"``.
    path : str or Path
        The file as the user knows it.

    Examples
    --------
    >>> with storage_errors("read", "points.csv"):
    ...     raise OSError(errno.EROFS, "unused")
    Traceback (most recent call last):
    sfumato.errors.StorageError: cannot read 'points.csv': the disk is read-only; choose another folder
    """
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        reason = _ADVICE.get(error.errno or 0, error.strerror or str(error))
        if error.errno == errno.ENOENT and action.startswith("read"):
            reason = "there is no such file; check the path"
        failure = StorageError(f"cannot {action} {str(path)!r}: {reason}")
        failure.errno = error.errno
        raise failure from error
    except UnicodeDecodeError as error:
        raise StorageError(f"cannot {action} {str(path)!r}: it is not a text file ({error.encoding})") from None


@contextmanager
def reading(path: str | Path) -> Iterator[BinaryIO]:
    r"""Open a file, pipe or device to read.

    Examples
    --------
    >>> with reading("/dev/zero") as file:
    ...     file.read(3)
    b'\x00\x00\x00'
    """
    name = checked_path("the file to read", path)
    with storage_errors("read", name), open(name, "rb") as file:
        yield file


def read_at_most(path: str | Path, most: int) -> bytes:
    """Read a file, pipe or device, and no more of it than one byte beyond `most`, which tells that it is too large.

    Examples
    --------
    >>> len(read_at_most("/dev/zero", 1000))
    1001
    """
    with reading(path) as file:
        return file.read(most + 1)


def checked_path(what: str, path: Any) -> str:
    """Return the text of a path that a file can have.

    Examples
    --------
    >>> checked_path("the name of the file to write", Path("places.sfm"))
    'places.sfm'
    """
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str):
        raise InputError(f"{what} must be a text or a Path, not of type {type(path).__name__}")
    try:
        possible = bool(name) and b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        raise InputError(f"{what} holds half a character, which no file's name can; pass a path") from None
    if not possible:
        raise InputError(f"{what} is empty or contains a zero byte; pass a path")
    return name


class AtomicFile:
    """A file that appears whole, or not at all, when the ``with`` block ends.

    Parameters
    ----------
    path : str or Path
        The target. A symbolic link is followed: the file that it points to is replaced.
    overwrite : bool
        Whether an existing file may be replaced; its permissions are kept.
    private : bool
        Whether the content is for its owner's eyes: mode 0600, whatever the permissions of an existing file.

    Raises
    ------
    InputError
        If the target is a folder, or exists and `overwrite` is False.
    StorageError
        If the disk refuses. The target is then untouched and the temporary file removed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with AtomicFile(f"{folder}/release.sfm") as file:
    ...         file.reserve(1000)
    ...         file.write(b"content")
    ...     Path(folder, "release.sfm").read_bytes()
    b'content'
    """

    def __init__(self, path: str | Path, overwrite: bool = False, *, private: bool = False) -> None:
        self.path = checked_path("the name of the file to write", path)
        self.overwrite = overwrite
        self.private = private
        self._target = self.path
        self._temporary: str | None = None
        self._descriptor = -1
        self._reserved = 0
        self._written = 0
        self._committed = False

    def __enter__(self) -> AtomicFile:
        with storage_errors("write", self.path):
            try:
                self._open()
            except BaseException:
                self._discard()
                raise
        return self

    def _open(self) -> None:
        stream = STREAM.fullmatch(self.path)
        if stream:
            # Opening the name again would start at the beginning of a file that the shell may be appending to.
            self._descriptor = os.dup(int(stream[1]) if stream[1] else 1 if stream[2] else 2)
            return
        mode = self._existing_mode()
        if mode is not None and not stat.S_ISREG(mode):  # a character device or a named pipe
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY)
            return
        self._target = os.path.realpath(self.path)
        self._temporary = os.path.join(os.path.dirname(self._target), f".sfumato-{secrets.token_hex(8)}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        # Narrow until it is known how wide it may be: what replaces a file of mode 0600 is never readable by others.
        self._descriptor = os.open(self._temporary, flags, 0o666 if mode is None and not self.private else OWNER_FILE)
        _lock(self._descriptor)  # says that somebody lives who needs it, however old it gets
        sweep(os.path.dirname(self._target))
        if mode is not None and not self.private:
            os.fchmod(self._descriptor, stat.S_IMODE(mode))

    def _existing_mode(self) -> int | None:
        """Type and permissions of the target, None if there is none; refuse what must not be replaced."""
        try:
            mode = os.stat(self.path).st_mode
        except FileNotFoundError:
            if self.path.endswith(os.sep):
                raise InputError(f"{self.path!r} names a folder; pass the path of a file") from None
            return None
        if stat.S_ISDIR(mode):
            raise InputError(f"{self.path!r} is a folder; pass the path of a file in it")
        if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)):
            raise InputError(f"{self.path!r} is a disk or a socket; pass the path of a file")
        if stat.S_ISREG(mode) and not self.overwrite:
            raise self._exists()
        return mode

    def _exists(self) -> InputError:
        return InputError(
            f"{self.path!r} exists already; pass another path, or overwrite=True (--force on the command line) to "
            "replace it"
        )

    def reserve(self, size: int) -> None:
        """Claim `size` bytes of disk before anything is written, so that a full disk shows now.

        Parameters
        ----------
        size : int
            An upper bound on what will be written; what is not used is given back. A device cannot reserve: it is
            asked to take zero bytes, which one that takes nothing (``/dev/full``) refuses.
        """
        with storage_errors("write", self.path):
            if self._temporary is None:
                os.write(self._descriptor, b"")
            elif size > self._reserved:
                self._allocate(size)
                self._reserved = size

    def _allocate(self, size: int) -> None:
        allocate: Callable[[int, int, int], None] | None = getattr(os, "posix_fallocate", None)
        if allocate is not None:
            try:
                return allocate(self._descriptor, 0, size)
            except OSError as error:
                if error.errno not in _NO_RESERVATION:
                    raise
        os.lseek(self._descriptor, 0, os.SEEK_END)
        for start in range(os.fstat(self._descriptor).st_size, size, len(_ZEROS)):
            _write_all(self._descriptor, memoryview(_ZEROS)[: size - start])
        os.fsync(self._descriptor)  # file systems that allocate late report a full disk only here
        os.lseek(self._descriptor, self._written, os.SEEK_SET)

    def write(self, data: Bytes) -> None:
        """Append `data`.

        Parameters
        ----------
        data : bytes, bytearray or memoryview
            Written in full, or `StorageError` is raised.
        """
        view = memoryview(data).cast("B")
        with storage_errors("write", self.path):
            _write_all(self._descriptor, view)
        self._written += len(view)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and not self._committed:
                self.commit()
        finally:
            self._discard()

    def commit(self) -> None:
        """Give what was written the target's name now, and not at the end of the block."""
        with storage_errors("write", self.path):
            self._commit()
        self._committed = True

    def _commit(self) -> None:
        if self._temporary is None:
            return self._close()
        os.ftruncate(self._descriptor, self._written)
        os.fsync(self._descriptor)
        self._close()
        if self.overwrite:
            os.replace(self._temporary, self._target)
        else:
            self._link(self._temporary)
        self._temporary = None
        sync_folder(os.path.dirname(self._target))

    def _link(self, temporary: str) -> None:
        """Take the target's name only if nobody took it meanwhile, which ``os.replace`` cannot promise."""
        try:
            os.link(temporary, self._target)
        except FileExistsError:
            raise self._exists() from None
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            os.replace(temporary, self._target)
        else:
            os.unlink(temporary)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)  # some network file systems report a full disk only here

    def _discard(self) -> None:
        """Leave no open descriptor and no temporary file; does nothing after a commit."""
        if self._descriptor >= 0:
            with suppress(OSError):
                self._close()
        if self._temporary is not None:
            with suppress(OSError):
                os.unlink(self._temporary)
            self._temporary = None


def allow_files(number: int) -> None:
    """Let this process have `number` more files open at once, where the system lets it: 1,024 in all is the usual."""
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows has another limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number + _OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if resource.RLIM_INFINITY != soft < wanted:
        with suppress(OSError, ValueError):  # what opens one too many says so
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _lock(descriptor: int) -> bool:
    """Lock a file if nobody has; False also where the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, AttributeError):
        return False
    return True


def sweep(folder: str) -> None:
    """Delete what killed processes of this user left in a folder more than a day ago."""
    if folder in _swept:
        return
    _swept.add(folder)
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries if _LEFTOVER.fullmatch(entry.name)]:
            with suppress(OSError):
                _sweep_one(os.path.join(folder, name))


def _sweep_one(path: str) -> None:
    status = os.lstat(path)
    old = time.time() - status.st_mtime > LEFTOVER_SECONDS
    if not (stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and old):
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if _lock(descriptor):
            os.unlink(path)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, view: memoryview) -> None:
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: str | Path) -> None:
    """Make the new name itself durable; some file systems cannot, and say so with EINVAL."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:  # one in which files may be dropped and not listed: what was written there is whole
        return os.sync()
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)
