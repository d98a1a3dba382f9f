"""What a format is to the fuzzer, and what became of a case.

A case is named by its format, a seed and a number, and made from these alone: a seed of the format, a few alterations
(the steps), fix-ups such as checksums, and in some cases alterations of the raw bytes. Leaving out steps makes a
smaller case of the same name.
"""

from __future__ import annotations

import tempfile
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, Generic, TypeVar

import numpy as np

from tests.fuzz.grammar import altered_bytes

T = TypeVar("T")
ACCEPTED, REFUSED, UNMADE = "accepted", "refused", "unmade"
RAW_SHARE = 0.1
MOST_STEPS = 4


class UnsoundError(Exception):
    """What was accepted gave an answer that nobody may be given."""


class Format(ABC, Generic[T]):
    """A kind of file: where cases come from, and what is done with them.

    Attributes
    ----------
    name : str
        On the command line.
    share : float
        Of all cases, relative to the other formats: cheap ones get more, so that a million take half an hour or so of
        two cores.
    """

    name: str
    share: float = 1.0

    @cached_property
    def seeds(self) -> list[tuple[str, T]]:
        """Good files with their names; made once, before processes are forked."""
        return list(self.make_seeds())

    @abstractmethod
    def make_seeds(self) -> Iterable[tuple[str, T]]:
        """Read or make the good files."""

    def warm(self) -> None:
        """Use every seed as it is: none may be refused, and what is compiled on first use is compiled then."""
        assert self.seeds, f"{self.name} has no seeds"
        for name, seed in self.seeds:
            with tempfile.TemporaryDirectory() as folder:
                self.use(self.encode(self.copy(seed), Random(0)), name, Path(folder), Random(name))

    @abstractmethod
    def copy(self, seed: T) -> T:
        """Return what may be altered in place."""

    @abstractmethod
    def alter(self, content: T, random: Random) -> T:
        """Change one thing."""

    @abstractmethod
    def encode(self, content: T, random: Random) -> bytes:
        """Return the file, with checksums that fit it."""

    def alter_bytes(self, content: bytes, random: Random) -> bytes:
        """Change the raw bytes of a file; a format with a checksum at its end may mend it here."""
        return altered_bytes(content, random)

    @abstractmethod
    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Do with a file what anyone may do.

        Refusals are `SfumatoError`; any other exception is a finding. `folder` is empty.
        """


@dataclass(frozen=True)
class Case:
    """One case; `only` names the steps that are kept, all of them by default."""

    format: str
    seed: int
    number: int
    only: tuple[int, ...] | None = None

    def random(self, part: object) -> Random:
        """Return the coins of one part, which do not depend on the other parts."""
        return Random(f"{self.seed}/{self.format}/{self.number}/{part}")

    @property
    def steps(self) -> tuple[int, ...]:
        """All steps that the case has; the first number is the seed's alone, as it is."""
        draw = self.random("steps")
        count = 0 if self.number == 0 else min(1 + int(draw.expovariate(1.0)), MOST_STEPS)
        raw = draw.random() < RAW_SHARE and self.number > 0
        return (*range(count), MOST_STEPS) if raw else tuple(range(count))

    def reproduction(self) -> str:
        """Return the arguments that run this case again."""
        only = "" if self.only is None else f" --only {','.join(map(str, self.only)) or 'none'}"
        return f"--format {self.format} --seed {self.seed} --case {self.number}{only}"


def made(form: Format[Any], case: Case) -> tuple[str, bytes]:
    """Return the seed's name and the content of a case."""
    name, seed = case.random("seed").choice(form.seeds)
    content = form.copy(seed)
    kept = case.steps if case.only is None else case.only
    for step in kept:
        if step < MOST_STEPS:
            content = form.alter(content, case.random(step))
    data = form.encode(content, case.random("encode"))
    return name, form.alter_bytes(data, case.random("raw")) if MOST_STEPS in kept else data


def signature(problem: BaseException) -> str:
    """Return the exception, where in the library it was raised, and its text after a colon."""
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if "sfumato" in Path(frame.filename).parts]
    place = ""
    if frames and not isinstance(problem, UnsoundError):
        parts = Path(frames[-1].filename).parts
        inside = parts[len(parts) - parts[::-1].index("sfumato") :]
        place = f" at {'/'.join(inside)}:{frames[-1].lineno} ({frames[-1].name})"
    return f"{type(problem).__name__}{place}: {str(problem)[:160]!a}"


def check_numbers(what: str, numbers: Any, infinite: bool = False) -> None:
    """Raise `UnsoundError` where a number is NaN, or infinite without leave."""
    values = np.asarray(numbers, dtype=np.float64)
    if np.isnan(values).any():
        raise UnsoundError(f"{what} is NaN")
    if not infinite and np.isinf(values).any():
        raise UnsoundError(f"{what} is infinite")
