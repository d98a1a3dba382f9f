"""Rows in, batches out: arrays, frames, Arrow, files and iterators read in bounded memory, whatever their length.

Two kinds of trouble are kept apart. A wrong *schema* (a missing file, an unknown column, text where numbers are
declared) raises `sfumato.errors.InputError` at opening. A wrong *value* (a null, an unparsable cell, a broken line)
never raises: it becomes NaN, and the curator's declared policy drops that row later. Whether one person's row is odd
must not decide whether a release happens, nor how other rows are read: see `sfumato.sources.cells`.
"""

from __future__ import annotations

from sfumato.sources.base import Source
from sfumato.sources.beside import attach
from sfumato.sources.opening import open_source
from sfumato.sources.selection import Columns, arguments_named, as_declared

__all__ = ["Columns", "Source", "arguments_named", "as_declared", "attach", "open_source"]
