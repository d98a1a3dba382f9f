"""Smooth kernels as short sums of exponentials: one structure of Fourier pairs for each term.

Source: the reduction of Backurs et al. (2024) (Theorem 3.3). (1 + h)^-b is within `error` of sum_j a_j exp(-t_j h)
(`kernels.rational`, with the proof), and exp(-t_j h) is a Laplacian, Gaussian or Exponential kernel, for which
`ShardedFourier` has pairs in groups, and `FourierQuantizer` single phases as published. Structures follow one another
in the integers; each draws its own frequencies and, if it has groups, lets the record's coins choose one of them.

Bound of one record: the sum over the structures of what each allows. Noise may differ from structure to structure.

Estimate: sum_j a_j (mean of structure j), so that wide terms, which need few pairs, can have few. Its bias is at most
`error` for every query; its variance is the sum over j of a_j^2 times that of structure j, since all are independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import Rational
from sfumato.kernels.rational import ExponentialSum
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import Many, Nested, Object, Real, Reals, Schema
from sfumato.public.portable import PublicStream
from sfumato.public.ranges import check_reader_cost, check_reader_work
from sfumato.quantizers.base import Bound, Floats, Integers, TermQuantizer
from sfumato.quantizers.box import Box
from sfumato.quantizers.fourier import FourierQuantizer, ShardedFourier
from sfumato.quantizers.phases import NARROWEST_DEFAULT_REACH, WIDEST_DEFAULT_REACH, Phases

MOST_TERMS = 256
Structure = FourierQuantizer | ShardedFourier
STRUCTURES: dict[str, type[Structure]] = {kind.name: kind for kind in (FourierQuantizer, ShardedFourier)}


@dataclass(frozen=True, eq=False)
class ExponentialSums(TermQuantizer):
    """Structures for the terms of a sum of exponentials; draw their frequencies with `draw_terms`.

    Attributes
    ----------
    approximation : ExponentialSum
        Rates, weights and the proven error.
    parts : tuple of FourierQuantizer or ShardedFourier
        One structure for each term, all of one width over one box.
    """

    approximation: ExponentialSum
    parts: tuple[Structure, ...]

    name: ClassVar[str] = "exponential-sums"
    kernels = Rational
    schema = Schema(
        {"quantizer": name},
        box=Nested(Box.from_document),
        rates=Reals(1e-100, 1e100, MOST_TERMS),
        weights=Reals(-1e6, 1e6, MOST_TERMS),
        error=Real(0.0, 1.0),
        structures=Many(Object(), MOST_TERMS, least=1),
    )

    def __post_init__(self) -> None:
        if len(self.parts) != len(self.approximation.rates):
            raise InputError(f"{len(self.approximation.rates)} exponentials need as many structures")
        if any(part.box != self.box or part.width != self.width for part in self.parts):
            raise InputError("the structures of a sum of exponentials must share one box and be of one width")

    @property
    def box(self) -> Box:
        """The box that all structures share."""
        return self.parts[0].box

    @property
    def terms(self) -> int:
        """Number of frequencies of all structures."""
        return sum(self.strata)

    @property
    def strata(self) -> tuple[int, ...]:
        """Frequencies of each structure."""
        return tuple(part.terms for part in self.parts)

    @property
    def width(self) -> int:
        """Coordinates per frequency, the same in all structures."""
        return self.parts[0].width

    @property
    def bound(self) -> Bound:
        """Bounds of one record: one group in every structure."""
        bounds = [part.bound for part in self.parts]
        return Bound(
            l1=sum(bound.l1 for bound in bounds),
            l2_squared=sum(bound.l2_squared for bound in bounds),
            largest=max(bound.largest for bound in bounds),
        )

    @property
    def term_bias(self) -> float:
        """The proven error of the sum of exponentials."""
        return self.approximation.error

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the kept rows, structure after structure; each structure draws the rows' groups in its turn."""
        return np.concatenate([part.encode(rows, coins) for part in self.parts], axis=1)

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows' integers to the sums of every structure."""
        kept = 0
        for part, piece in zip(self.parts, np.split(sums, self._ends), strict=True):
            kept = part.accumulate(rows, piece, coins)
        return kept

    @cached_property
    def _ends(self) -> Integers:
        return self.width * np.cumsum(self.strata)[:-1]

    @cached_property
    def _factors(self) -> list[float]:
        """What a structure's terms count for in the mean over all terms."""
        return [
            weight * self.terms / part.terms
            for weight, part in zip(self.approximation.weights, self.parts, strict=True)
        ]

    def weights(self, Y: Floats) -> Floats:
        """Weights g(y) of every structure."""
        pieces = [part.weights(Y) * factor for part, factor in zip(self.parts, self._factors, strict=True)]
        return np.concatenate(pieces, axis=1)

    def term_values(self, Y: Floats, sums: Floats) -> Floats:
        """Terms of every structure, weighted so that their mean is the answer."""
        pieces = zip(self.parts, np.split(sums, self._ends), self._factors, strict=True)
        return np.concatenate([part.term_values(Y, piece) * factor for part, piece, factor in pieces], axis=1)

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the public description; the box, which all structures share, is written once."""
        made = self.approximation
        structures = []
        for part in self.parts:
            document, _ = part.to_document()
            del document["phases"]["box"]
            structures.append(document)
        return {
            "quantizer": self.name,
            "box": self.box.to_document(),
            "rates": list(made.rates),
            "weights": list(made.weights),
            "error": made.error,
            "structures": structures,
        }, {}

    @classmethod
    def from_fields(cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int) -> Self:
        """Rebuild the structures, each over the box that all share."""
        rates, weights, structures = fields["rates"], fields["weights"], fields["structures"]
        if not len(rates) == len(weights) == len(structures):
            raise ReleaseFileError("a sum of exponentials needs a rate, a weight and a structure for each term")
        kinds = [STRUCTURES.get(str(structure.get("quantizer"))) for structure in structures]
        parts, left = [], size
        check_reader_cost(fields["box"].dimension * size)
        check_terms(kernel, fields["box"].dimension, len(rates))
        for place, (rate, structure, kind) in enumerate(zip(rates, structures, kinds, strict=True)):
            if kind is None or not isinstance(structure.get("phases"), dict):
                raise ReleaseFileError("the structures of a sum of exponentials are Fourier features")
            phases = {**structure["phases"], "box": fields["box"].to_document()}
            read = kind.schema.read({**structure, "phases": phases}, f"quantizer.structures[{place}]")
            parts.append(kind.from_fields(read, {}, kernel.term(rate), left))
            left -= parts[-1].terms
        return cls(ExponentialSum(kernel.power, rates, weights, fields["error"]), tuple(parts))


def check_terms(kernel: Rational, dimension: int, terms: int) -> None:
    """Refuse terms whose bandwidths take a reader too long: a matrix is inverted for each, to have its own bits.

    Examples
    --------
    >>> check_terms(Rational(2.0), dimension=1000, terms=50)
    """
    if len(kernel.scale.shape) == 2:
        check_reader_work(4 * dimension**3 * terms, "a bandwidth that is no matrix, or fewer columns")


def draw_terms(
    kernel: Rational,
    approximation: ExponentialSum,
    dimension: int,
    counts: tuple[int, ...],
    seed: int,
    bounds: Any,
    outside: str,
) -> tuple[Phases, ...]:
    """Draw `counts[j]` frequencies for term j, independently, over one box.

    Parameters
    ----------
    kernel : Rational
        The kernel.
    approximation : ExponentialSum
        Its terms.
    dimension : int
        Columns.
    counts : tuple of int
        Frequencies of each term.
    seed : int
        Public seed.
    bounds, outside
        See `Box`; without bounds, the widest box of 2**17 down to 2**8 bandwidths each way that suits all terms.
    """
    check_terms(kernel, dimension, len(counts))
    seeds = PublicStream(seed, "exponential-sums/terms").words(len(counts)).tolist()
    terms = list(zip(approximation.rates, counts, seeds, strict=True))

    def over(box: Any) -> tuple[Phases, ...]:
        return tuple(
            Phases.draw(kernel.term(rate), dimension, count, term_seed, box, outside)
            for rate, count, term_seed in terms
        )

    if bounds is not None:
        return over(bounds)
    scales = kernel.column_scales(dimension)
    for reach in range(WIDEST_DEFAULT_REACH, NARROWEST_DEFAULT_REACH - 1, -1):
        try:
            return over(Box.centred(scales * 2.0**reach, outside))
        except InputError:
            continue
    raise InputError(
        "this kernel's frequencies are too high for a default box; pass bounds=, one (lower, upper) pair per column"
    )
