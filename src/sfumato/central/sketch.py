"""`RaceSketch`: a one-pass summary of a stream, mergeable and exact until it is released.

A raw sketch is a table of counters (`quantizers.hashing`). Rows are added as they come and removed as exactly as they
came; sketches of shards with the same public parameters add up to the sketch of all rows, bit for bit. It is private
data: whoever sees it sees the records nearly as well as their owner. `release` adds the noise (`central.race`, with
the proof) and is charged like any other release; a sketch refuses to be released again, itself or as part of another
sketch, unless the ledger that holds the first charge takes the second one too.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn, Self, SupportsIndex

import numpy as np

from sfumato.central import race
from sfumato.central.curator import publish
from sfumato.central.merging import STATE, Receipts
from sfumato.engines import Engine, engine_of
from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import Kernel, get_kernel, kernel_from_document
from sfumato.methods.method import Mechanism
from sfumato.methods.request import Request, check_kernel
from sfumato.privacy.bits import noise_bits
from sfumato.privacy.guarantee import NEIGHBOURS, check_choice, checked_delta, exact_epsilon
from sfumato.privacy.ledger import Account, Epsilon
from sfumato.public.arguments import checked_seed
from sfumato.public.codec import Nested, Schema, Whole, brief
from sfumato.public.ranges import LARGEST_OPTION, MOST_COLUMNS, check_size, check_whole, plain_number
from sfumato.quantizers.base import Integers
from sfumato.quantizers.hashing import HashingQuantizer
from sfumato.release import Release
from sfumato.release import format as container
from sfumato.sources import open_source
from sfumato.storage import AtomicFile

RAW = "raw RACE sketch: PRIVATE data, not a release"
_FILE = Schema(
    {"content": RAW},
    kernel=Nested(lambda document, _: kernel_from_document(document)),
    quantizer=Nested(lambda document, _: document),
    kept=Whole(0, 2**62),
    seen=Whole(0, 2**62),
    charges=Nested(Receipts.from_document),
)


class RaceSketch:
    """Counters of a stream under public hash functions; private until released.

    Parameters
    ----------
    kernel : str or Kernel
        A kernel that is a collision probability.
    dimension : int
        Columns of a point.
    rows, width : int
        Hash functions, and counters for each; `RaceSketch.planned` chooses them.
    bandwidth : float, array or matrix, optional
        For a kernel given by name.
    bounds, outside
        Public bounds of the points, see `Box`.
    feature_seed : int, optional
        Public seed of the hash functions, the same for all shards; drawn at random by default.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.kernels import L2LSH
    >>> points = np.random.default_rng(0).normal(size=(3000, 2))
    >>> shards = [RaceSketch(L2LSH(1.0), dimension=2, rows=50, width=16, feature_seed=1) for _ in range(2)]
    >>> whole = shards[0].add(points[:2000]).merge(shards[1].add(points[2000:]))
    >>> release = whole.remove(points[:10]).release(epsilon=1)
    >>> whole.release(epsilon=1)
    Traceback (most recent call last):
    sfumato.errors.BudgetError: these records were released before: ...
    """

    def __init__(
        self,
        kernel: str | Kernel,
        *,
        dimension: int,
        rows: int,
        width: int = 256,
        bandwidth: Any = None,
        bounds: Any = None,
        outside: str = "clip",
        feature_seed: int | None = None,
    ) -> None:
        seed = secrets.randbits(63) if feature_seed is None else checked_seed(feature_seed)
        self.kernel = get_kernel(kernel, bandwidth)
        check_kernel(self.kernel)
        dimension = check_whole("dimension", dimension, MOST_COLUMNS)
        rows, width = check_whole("rows", rows, LARGEST_OPTION), check_whole("width", width, LARGEST_OPTION)
        check_size(rows * width)
        quantizer = HashingQuantizer.draw(
            self.kernel, dimension, rows, seed, width=width, bounds=bounds, outside=outside
        )
        self._begin(quantizer)

    def _begin(self, quantizer: HashingQuantizer) -> None:
        self.quantizer = quantizer
        self._counters = np.zeros(quantizer.size, dtype=np.int64)
        self._kept = self._seen = 0
        self._receipts = Receipts()

    @classmethod
    def planned(
        cls,
        kernel: str | Kernel,
        *,
        dimension: int,
        n_hint: int,
        epsilon: Epsilon,
        delta: float = 0.0,
        neighbours: str = "add-remove",
        bandwidth: Any = None,
        bounds: Any = None,
        outside: str = "clip",
        density: float | None = None,
        feature_seed: int | None = None,
    ) -> Self:
        """Make an empty sketch whose sizes suit a release of `n_hint` records at this budget.

        Parameters are those of the class and, for the release to be, of `PrivateKDE`; `density` is the mean kernel
        value between two records, if it is public.
        """
        request = Request(
            kernel=get_kernel(kernel, bandwidth),
            dimension=dimension,
            epsilon=exact_epsilon(epsilon),
            delta=delta,
            neighbours=neighbours,
            n=n_hint,
            feature_seed=0,
            bounds=bounds,
            options={"own_count": False, **({} if density is None else {"density": density})},
        )
        if (reason := race.refuse(request)) is not None:
            raise InputError(f"a sketch does not apply: {reason}")
        sizes = race.choose_sizes(request)
        return cls(
            request.kernel,
            dimension=dimension,
            rows=sizes.rows,
            width=sizes.width,
            bounds=bounds,
            outside=outside,
            feature_seed=feature_seed,
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all public parameters: sketches add up if theirs are equal."""
        document = [self.kernel.to_document(), self.quantizer.to_document()[0]]
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    def add(self, X: Any, threads: int | None = None, engine: Engine | str | None = None) -> Self:
        """Add rows: an array, data frame, Arrow table, path, source, or iterator of batches."""
        counters, kept, seen = self._sum(X, engine, threads)
        with STATE:
            self._counters += counters
            self._kept, self._seen = self._kept + kept, self._seen + seen
        return self

    def remove(self, X: Any, threads: int | None = None, engine: Engine | str | None = None) -> Self:
        """Remove rows that were added before, as if they had never been there.

        Raises
        ------
        InputError
            If a counter would fall below zero: some of the rows were never added. Nothing is removed then.
        """
        counters, kept, seen = self._sum(X, engine, threads)
        with STATE:
            if (counters > self._counters).any() or seen > self._seen:
                raise InputError("some of these rows are not in the sketch; nothing was removed")
            self._counters -= counters
            self._kept, self._seen = self._kept - kept, self._seen - seen
        return self

    def _sum(self, X: Any, engine: Engine | str | None, threads: int | None) -> tuple[Integers, int, int]:
        source = open_source(X)
        if source.dimension != self.quantizer.dimension:
            raise InputError(f"the sketch is of {self.quantizer.dimension} columns, the rows have {source.dimension}")
        return engine_of(engine, threads, source).sum(source, self.quantizer)

    def merge(self, *others: RaceSketch) -> RaceSketch:
        """Return the sketch of all rows together; the parts stay as they are.

        Raises
        ------
        InputError
            If public parameters differ, or if two of the sketches hold the rows of one shard: every record would count
            twice, with noise for once.
        """
        merged = RaceSketch.__new__(RaceSketch)
        merged.kernel = self.kernel
        merged._begin(self.quantizer)
        merged._receipts = Receipts({})
        for part in (self, *others):
            if not isinstance(part, RaceSketch):
                raise InputError(f"a sketch is merged with sketches, got {brief(part)}")
            if part.fingerprint != self.fingerprint:
                raise InputError(
                    "the sketches have different public parameters: make all shards with the same kernel, bounds, "
                    "rows, width and feature_seed"
                )
            with STATE:
                merged._receipts.take_in(part._receipts)
                merged._counters += part._counters
                merged._kept, merged._seen = merged._kept + part._kept, merged._seen + part._seen
        return merged

    def release(
        self,
        *,
        epsilon: Epsilon,
        delta: float = 0.0,
        neighbours: str = "add-remove",
        own_count: bool = False,
        ledger: Account | None = None,
        random_state: int | None = None,
    ) -> Release:
        """Publish the sketch with noise.

        Parameters
        ----------
        epsilon, delta, neighbours
            The budget and the neighbouring relation, as in `PrivateKDE`.
        own_count : bool
            Read the count off the counters, which costs nothing and suits narrow tables; a twentieth of epsilon buys
            it otherwise.
        ledger : Account, optional
            Where the spending is checked and recorded. Needed from the second release of the same records on.
        random_state : int, optional
            Seeds the noise and marks the release NOT PRIVATE. For tests only.

        Raises
        ------
        BudgetError
            If the records were released before and `ledger` does not hold the charge for it, or if it is overdrawn.
        """
        check_choice("neighbours", neighbours, NEIGHBOURS)
        own_count = plain_number(own_count)
        if not isinstance(own_count, bool):
            raise InputError(f"own_count must be True or False, got {brief(own_count)}")
        terms = exact_epsilon(epsilon), checked_delta(delta), neighbours, own_count
        bits, mechanism = noise_bits(random_state), self._mechanism(*terms, random_state is None)
        cost, loss = mechanism.cost(count_is_bought=False)
        with STATE:
            self._receipts.check(cost, ledger)
            charge = None
            if ledger is not None:
                relation = {"neighbours": neighbours, "unit": "record"}
                charge = ledger.charge(mechanism.method, cost, mechanism.guarantee.delta, **relation, loss=loss).id
            self._receipts.add(charge)
            counters, kept, seen = self._counters.copy(), self._kept, self._seen
        sums = counters * mechanism.encoder.bound.largest
        return publish(mechanism, sums, kept, seen, bits)

    def _mechanism(self, epsilon: Fraction, delta: float, neighbours: str, own_count: bool, private: bool) -> Mechanism:
        request = Request(
            kernel=self.kernel,
            dimension=self.quantizer.dimension,
            epsilon=epsilon,
            delta=delta,
            neighbours=neighbours,
            n=1,  # sets sizes, which are given here
            feature_seed=self.quantizer.seed,
            options={"own_count": own_count},
            private=private,
        )
        quantizer = self.quantizer
        terms = race.Terms(request, quantizer.rehash is not None, own_count and neighbours == "add-remove")
        mechanism = race.assemble(request, race.Sizes(quantizer.terms, quantizer.width, 1, terms), quantizer)
        sizes = {"rows": quantizer.terms, "width": quantizer.width, "own_count": terms.own_count}
        return replace(mechanism, parameters=sizes)

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the raw counters to a file. They are PRIVATE data: keep the file as you keep the records."""
        quantizer, arrays = self.quantizer.to_document()
        with STATE:
            header = {
                "content": RAW,
                "kernel": self.kernel.to_document(),
                "quantizer": quantizer,
                "kept": self._kept,
                "seen": self._seen,
                "charges": self._receipts.to_document(),
            }
            arrays["counters"] = self._counters.copy()
        with AtomicFile(path, overwrite=overwrite, private=True) as file:
            file.write(container.encode(header, arrays))

    @classmethod
    def load(cls, path: str | Path) -> RaceSketch:
        """Read what `save` wrote. The copy and the original do not know of each other's releases: use a ledger."""
        header, arrays = container.decode(path)
        if header.get("content") != RAW:
            raise ReleaseFileError(f"{str(path)!r} is not a raw sketch; sfumato.load reads releases")
        sketch = cls.__new__(cls)
        with container.read_as("a raw sketch"):
            fields = _FILE.read(header)
            sketch.kernel, counters = fields["kernel"], arrays["counters"]
            check_kernel(sketch.kernel)
            sketch._begin(HashingQuantizer.from_document(fields["quantizer"], arrays, sketch.kernel, len(counters)))
            sketch._kept, sketch._seen, sketch._receipts = fields["kept"], fields["seen"], fields["charges"]
            hashed = counters.reshape(sketch.quantizer.terms, sketch.quantizer.width)
            # Every record that was kept is in one counter of every row.
            if counters.dtype.kind != "i" or (hashed < 0).any() or (hashed.sum(axis=1) != sketch._kept).any():
                raise ReleaseFileError("the counters of the sketch do not add up to the records that it holds")
            if sketch.quantizer.value != 1:
                # `release` multiplies by what its noise is made for: rows that are added here would count for more.
                raise ReleaseFileError("a raw sketch counts a record as 1")
            if sketch._kept > sketch._seen:
                raise ReleaseFileError("the sketch holds more records than were added")
            sketch._counters += counters
        return sketch

    def __repr__(self) -> str:
        shape = f"{self.quantizer.terms} rows of {self.quantizer.width} counters"
        return f"<RaceSketch of {self.kernel!r}, {self.quantizer.dimension} columns, {shape}; raw: PRIVATE>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        # The one door for copy, deepcopy and pickle.
        raise TypeError(
            "a raw sketch cannot be copied or pickled: the copy could be released unpaid. Use merge, or save and load"
        )
