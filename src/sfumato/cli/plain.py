"""Values of flags that need no validation: a command that just asks a question reads them itself.

Newer versions of Typer check every flag of a command, those that were left out too, by a library that takes longer to
load than most questions to answer. So what was left out, what is a word, and numbers and paths as people type them are
read here; whatever else was typed is left to Typer, which also refuses it. Older versions have nothing to spare.
"""

from __future__ import annotations

import os
import re
from enum import Enum
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from typer.core import TyperCommand, TyperGroup

WHOLE = re.compile(r"-?[0-9]{1,18}")
NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?(e-?[0-9]{1,2})?")


class PlainCommand(TyperCommand):
    """A command that loads Typer's validation for those values alone that need it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, that of the help included."""
        return _spared(super().get_params(ctx), self.callback)


class PlainGroup(TyperGroup):
    """The same for what stands before a command of a group."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, that of the help included."""
        return _spared(super().get_params(ctx), self.callback)


def _spared(parameters: list[Any], callback: Any) -> list[Any]:
    """Let the parameters of a function read plain values without Typer."""
    hints = {} if callback is None else get_type_hints(callback, include_extras=True)
    for parameter in parameters:
        if hasattr(parameter, "get_runtime_param") and "process_value" not in vars(parameter):
            kind, limited = _declared(hints.get(parameter.name))
            parameter.process_value = partial(_process, parameter, kind, limited, parameter.process_value)
    return parameters


def _declared(hint: Any) -> tuple[Any, bool]:
    """Return the type of a flag's value, and whether its numbers have limits, which Typer checks."""
    kind, *notes = get_args(hint) or (None,)
    kinds = [each for each in get_args(kind) if each is not NoneType] if NoneType in get_args(kind) else [kind]
    limited = any(getattr(note, name, None) is not None for note in notes for name in ("min", "max", "parser"))
    return kinds[0] if len(kinds) == 1 else None, limited


def _process(parameter: Any, kind: Any, limited: bool, checked: Any, context: Any, value: Any) -> Any:
    many = parameter.multiple or parameter.nargs == -1
    if value is None and not parameter.required:
        left_out = () if many else None
        return left_out if parameter.callback is None else parameter.callback(context, parameter, left_out)
    if parameter.callback is not None:
        return checked(context, value)
    if many:
        words = get_origin(kind) is list and isinstance(value, list | tuple) and bool(value)
        plain = words and get_args(kind) == (str,) and all(isinstance(each, str) for each in value)
        return list(value) if plain else checked(context, value)
    found = None if limited or not isinstance(kind, type) else read_plain(kind, value)
    return checked(context, value) if found is None else found


def read_plain(kind: type, value: Any) -> Any:
    """Return a value of the type that a flag declares, or None for what is not plainly one.

    Examples
    --------
    >>> read_plain(int, "12"), read_plain(float, "1e-6"), read_plain(str, "12"), read_plain(int, "12.5")
    (12, 1e-06, '12', None)
    """
    if isinstance(value, kind):
        return value
    if not isinstance(value, str):
        return None
    if kind is int and WHOLE.fullmatch(value):
        return int(value)
    if kind is float and NUMBER.fullmatch(value):
        return float(value)
    if kind is Path and (os.access(value, os.R_OK) or not os.path.lexists(value)):
        return Path(value)
    if issubclass(kind, Enum):
        return next((each for each in kind if each.value == value), None)
    return None
