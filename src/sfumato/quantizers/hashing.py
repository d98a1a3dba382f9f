"""Hashing features: one counter a hash function, for every kernel that is a collision probability.

Source: LSH as a (B, 1, 1) family in Wagner et al. (2023) (3.3, B.2, D.3), the array of RACE in
Coleman and Shrivastava (2021). A record adds `value` to one of W counters of each of R rows: the bucket of the row's
hash function (`hashes`), rehashed to W counters where there are more buckets (`hashes.counters`).

Bound of one record: l1 = R value, l2^2 = R value^2, exactly.

Estimate of one row, S_b its counters, q the exact collision probability of the rehash (1 / W for powers of two):
(S_h(y) - q sum_b S_b) / (1 - q), which for q = 1 / W is (W S_h(y) - sum_b S_b) / (W - 1). A record shares y's counter
with probability k + (1 - k) q, so the estimate is unbiased; it takes the row's own sum, noise included, because the
counter's noise is part of it and partly cancels. Without a rehash q = 0.

Variance of one row per record, over hashes: A + B / (W - 1), where A is the variance of the share of the records in
y's bucket and B the mean of the sum of the squared shares of all other buckets; A + B = P - KDE(y)^2, P the mean
kernel value between two records. Noise of variance v on each counter adds v W / (W - 1) (v without a rehash).

As published (`debias=False`) the counter itself is the estimate: its bias is (1 - k) q.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import Kernel
from sfumato.privacy.bits import SecureBits
from sfumato.public.codec import Digits, Flag, Nested, Schema, Text, Whole
from sfumato.public.portable import LARGEST_SEED, PublicStream
from sfumato.public.ranges import MOST_INTEGERS, check_reader_cost
from sfumato.quantizers.base import Bound, Floats, Integers, Known, TermQuantizer
from sfumato.quantizers.box import Box
from sfumato.quantizers.hashes import HashFamily, family_for
from sfumato.quantizers.hashes.counters import Part, Places, Rehash, count, cut
from sfumato.quantizers.hashes.projections import SpreadStream

BLOCK_INTEGERS = 2**16


@dataclass(frozen=True, eq=False)
class HashingQuantizer(TermQuantizer):
    """Counters of hash functions; build it with `HashingQuantizer.draw`.

    Attributes
    ----------
    family : HashFamily
        R public hash functions.
    rehash : Rehash or None
        Into W counters; None where the family's buckets are few enough to have one each.
    counters : int
        W.
    seed : int
        Public seed of both.
    value : int
        What a record adds to a counter: 1, or more where noise needs a finer grid.
    debias : bool
        Whether rehash collisions are taken off.
    spread : bool
        Whether the hash functions are spread evenly (`hashes.projections`) or independent.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.kernels import L2LSH
    >>> quantizer = HashingQuantizer.draw(L2LSH(0.5), dimension=2, rows=3, seed=7, width=8)
    >>> quantizer.encode(np.zeros((1, 2))).reshape(3, 8).sum(axis=1)
    array([1, 1, 1])
    """

    family: HashFamily
    rehash: Rehash | None
    counters: int
    seed: int
    value: int = 1
    debias: bool = True
    spread: bool = True

    name: ClassVar[str] = "hashing"
    kernels = Kernel
    schema = Schema(
        {"quantizer": name},
        family=Text(longest=100),
        rows=Whole(1, MOST_INTEGERS),
        width=Whole(1, MOST_INTEGERS),
        value=Whole(1, 2**40),
        debias=Flag(),
        spread=Flag(),
        box=Nested(Box.from_document),
        feature_seed=Digits(LARGEST_SEED),
        fingerprint=Text(longest=64),
    )

    @classmethod
    def draw(
        cls,
        kernel: Kernel,
        dimension: int,
        rows: int,
        seed: int,
        *,
        width: int = 64,
        bounds: Any = None,
        outside: str = "clip",
        value: int = 1,
        debias: bool = True,
        spread: bool = True,
    ) -> HashingQuantizer:
        """Draw public hash functions for a kernel.

        Parameters
        ----------
        kernel : Kernel
            A kernel that some family hashes.
        dimension, rows : int
            Columns of a point; number of hash functions.
        seed : int
            Public feature seed.
        width : int
            Counters a row; a family with fewer buckets takes only those.
        bounds, outside
            Public bounds of the points, see `Box`.
        value, debias, spread
            See the class.
        """
        family = family_for(kernel)
        if family is None:
            raise InputError(f"no hash family is known for {kernel!r}; subclass HashFamily and register it")
        if (reason := family.refuse(kernel, dimension, bounds)) is not None:
            raise InputError(reason)
        stream = (SpreadStream if spread else PublicStream)(seed, "hashing/functions")
        functions = family.draw(kernel, rows, dimension, stream, bounds, outside)
        buckets = family.buckets(kernel, dimension, bounds)
        if buckets is not None and buckets <= width:
            return cls(functions, None, buckets, seed, value, debias, spread)
        rehash = Rehash.draw(PublicStream(seed, "hashing/rehash"), rows, functions.length, width)
        return cls(functions, rehash, width, seed, value, debias, spread)

    @property
    def box(self) -> Box:
        """The declared box."""
        return self.family.lattice.box

    @property
    def terms(self) -> int:
        """Number of hash functions, R."""
        return self.family.rows

    @property
    def width(self) -> int:
        """Counters a row, W."""
        return self.counters

    @property
    def bound(self) -> Bound:
        """Bounds of one record, which are attained."""
        rows, value = self.terms, self.value
        return Bound(l1=rows * value, l2_squared=rows * value**2, largest=value, touched=rows)

    @cached_property
    def collision(self) -> float:
        """Probability q with which distinct buckets share a counter."""
        return 0.0 if self.rehash is None else float(self.rehash.collision)

    @property
    def term_bias(self) -> float:
        """What rehash collisions add to an answer at most, where they are not taken off."""
        return 0.0 if self.debias else self.collision

    @cached_property
    def _parts(self) -> list[Part]:
        return cut(self.family, self.rehash, self.width)

    def hashed(self, rows: NDArray[Any]) -> Iterator[tuple[slice, Places]]:
        """Hash rows of points, block by block and part by part.

        Yields
        ------
        part : slice
            Rows of counters; every block of points comes once for each part, in the same order.
        places : ndarray of uint32
            Index of the counter that each kept point adds to in each of these rows.
        """
        for part in self._parts:
            block = max(1, BLOCK_INTEGERS // (part.family.rows * part.family.length))
            space = np.empty((min(block, len(rows)), self.dimension))
            for start in range(0, len(rows), block):
                kept = self.family.lattice.place(rows[start : start + block], space)
                yield part.rows, part.places(part.family.cells(space[:kept]))

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """One-hot rows of counters, times `value`."""
        places: dict[int, list[Places]] = {}
        for part, block in self.hashed(rows):
            places.setdefault(part.start, []).append(block)
        if not places:
            return np.zeros((0, self.size), dtype=np.int64)
        return self._one_hot(np.hstack([np.concatenate(blocks) for blocks in places.values()]), np.int64(self.value))

    def _one_hot(self, places: Places, value: Any) -> NDArray[Any]:
        table = np.zeros((*places.shape, self.width), dtype=type(value))
        np.put_along_axis(table, places[:, :, None], value, axis=2)
        return table.reshape(len(places), self.size)

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the rows to their counters."""
        table, total = sums.reshape(self.terms, self.width), 0
        for part, places in self.hashed(rows):
            count(places, self.value, table[part])
            total += len(places) if part.start == 0 else 0
        return total

    def weights(self, Y: Floats) -> Floats:
        """Weights g(y), dense; `term_values` does without them."""
        chosen = self._one_hot(self._query_places(Y), np.float64(1.0))
        if self.debias:
            chosen = (chosen - self.collision) / (1 - self.collision)
        return np.asarray(chosen / self.value)

    def term_values(self, Y: Floats, sums: Floats) -> Floats:
        """Gather one counter a row, and take off what the rehash adds."""
        table = sums.reshape(self.terms, self.width) / self.value
        terms = table[np.arange(self.terms), self._query_places(Y)]
        if self.debias:
            terms -= self.collision * table.sum(axis=1)
            terms /= 1 - self.collision
        return np.asarray(terms)

    def similarity(self, sums: Floats, known: Known) -> tuple[float, float] | None:
        """Estimate P: two records share a counter with probability k, or by a collision of the rehash."""
        table = sums.reshape(self.terms, self.width) / (self.value * known.count)
        noise = self.width * known.noise_variance / (self.value * known.count) ** 2 + 1 / known.count
        shared = (np.square(table).sum(axis=1) - noise - self.collision) / (1 - self.collision)
        error = float(shared.std(ddof=1)) / math.sqrt(self.terms) if self.terms > 1 else 0.0
        return float(shared.mean()), error

    def _query_places(self, Y: Floats) -> Places:
        block = max(1, BLOCK_INTEGERS // (self.terms * self.family.length))
        whole = Part(slice(0, self.terms), self.family, self.rehash, self.width)
        places = np.empty((len(Y), self.terms), dtype=np.uint32)
        for start in range(0, len(Y), block):
            places[start : start + block] = whole.places(self.family.query_cells(Y[start : start + block]))
        return places

    def count(self, sums: NDArray[Any]) -> float:
        """Mean of the row sums: an unbiased number of records, of variance W v / (R value^2) for noise variance v."""
        return float(np.sum(sums, dtype=np.float64)) / (self.terms * self.value)

    def fingerprint(self) -> str:
        """SHA-256 of the public integers that decide where a point is counted."""
        digest = hashlib.sha256(self.family.name.encode())
        digest.update(np.array([self.terms, self.width, *self.family.lattice.exponents], dtype="<i8").tobytes())
        for array in self.family.parameters() + (() if self.rehash is None else self.rehash.parameters()):
            digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
        return digest.hexdigest()

    def to_document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the public description: everything is drawn again from the seed."""
        document = {
            "quantizer": self.name,
            "family": self.family.name,
            "rows": self.terms,
            "width": self.width,
            "value": self.value,
            "debias": self.debias,
            "spread": self.spread,
            "box": self.box.to_document(),
            "feature_seed": str(self.seed),
            "fingerprint": self.fingerprint(),
        }
        return document, {}

    @classmethod
    def from_fields(
        cls, fields: dict[str, Any], arrays: dict[str, NDArray[Any]], kernel: Any, size: int
    ) -> HashingQuantizer:
        """Draw the hash functions again, and check that they are the ones that the release was made with."""
        rows, width, box = fields["rows"], fields["width"], fields["box"]
        if rows * width != size:
            raise ReleaseFileError(f"the release claims {rows} rows of {width} counters, which its values do not hold")
        family = family_for(kernel)
        if family is None or family.name != fields["family"]:
            raise ReleaseFileError(
                f"the hash family {fields['family']!r} of the release is not known here: import the module that "
                "registers it"
            )
        if (reason := family.refuse(kernel, box.dimension, box)) is not None:
            raise ReleaseFileError(reason)
        check_reader_cost(rows * (family.drawn(kernel, box.dimension, box) + 3))
        quantizer = cls.draw(
            kernel,
            box.dimension,
            rows,
            fields["feature_seed"],
            width=width,
            bounds=box,
            outside=box.outside,
            **{name: fields[name] for name in ("value", "debias", "spread")},
        )
        if quantizer.fingerprint() != fields["fingerprint"]:
            raise ReleaseFileError("the hash functions drawn from the release's seed are not the ones it was made with")
        return quantizer
