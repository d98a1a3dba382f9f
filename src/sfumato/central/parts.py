"""Exact sums of sites that may not pool their rows: each sums on its own, one of them merges and draws the noise once.

A part is what `Curator.run` has before it charges: the integers of one site's rows under a mechanism that all sites
build from the same public request. Integer sums add up, so merged parts are the sums of all rows, bit for bit, and the
release has the noise of one curator. A part is PRIVATE data, as the rows are: whoever sees it sees the records nearly
as well as their owner, and whoever merges is trusted with all of them (where nobody is: `central.merging`).

Guarantee: that of the mechanism, if a record is in one part alone (with users: a person at one site alone). Then adding
or removing it changes one part's sums, and the merged sums, by what the mechanism's bound says. A part has a random
identity and the name of its site, and is merged once: of two with the same identity or site, one would count every
record twice, with noise for once. That a person is at one site nobody here can see: it is a condition of the guarantee.
Every release made of a part is charged in full.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, SupportsIndex

import numpy as np

from sfumato.central.curator import publish
from sfumato.central.estimator import PrivateEstimator
from sfumato.central.merging import STATE, Receipts
from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import kernel_from_document
from sfumato.methods.method import Mechanism
from sfumato.methods.ranking import compare
from sfumato.methods.registry import BOUGHT, DISTANCES, METHODS
from sfumato.methods.request import Request
from sfumato.privacy.bits import noise_bits
from sfumato.privacy.guarantee import exact_epsilon
from sfumato.privacy.ledger import Account
from sfumato.public.arguments import listed
from sfumato.public.codec import Flag, Many, Nested, Optional, Schema, Text, Whole
from sfumato.public.ranges import MOST_COLUMNS, MOST_RECORDS
from sfumato.quantizers.base import Integers
from sfumato.quantizers.box import Box
from sfumato.quantizers.nystrom import PublicSample
from sfumato.release import Count, Release
from sfumato.release import format as container
from sfumato.storage import AtomicFile
from sfumato.threads import one_blas_thread

CONTENT = "exact sums of one site: PRIVATE data, not a release"
# A part that is read builds its mechanism before its sums can be compared with it, in a time that grows with the
# columns: by a method that is named, and by the ranking of all.
MOST_SUMMED_COLUMNS, MOST_RANKED_COLUMNS = 2**12, 2**10
# So many sums are quickly drawn; predictions of few can be off.
LEAST_SUMS = 2**10
SITE_CONDITION = "each record is in the data of one of {} sites, and each person's records are all at one"
_FILE = Schema(
    {"content": CONTENT},
    method=Text(longest=1000),
    request=Nested(lambda document, _: document),
    columns=Optional(Many(Text(longest=10_000), MOST_COLUMNS)),
    sampled=Flag(),
    site=Text(longest=10_000),
    kept=Whole(0, MOST_RECORDS),
    seen=Whole(0, MOST_RECORDS),
    public=Text(longest=64),
    charges=Nested(Receipts.from_document),
)


@dataclass(frozen=True, eq=False)
class Part:
    """The exact sums of one site; PRIVATE.

    Attributes
    ----------
    method : str
        The mechanism's name, or "auto".
    request : Request
        Public facts of the release to be, the same at all sites.
    columns : tuple of str or None
        Names of the columns.
    sampled : bool
        Whether records were chosen by coins.
    site : str
        Whose rows these are: parts of one site are not merged with each other.
    sums, kept, seen
        What the engine returned.
    receipts : Receipts
        The part's identity, and the charges of its releases.

    Examples
    --------
    >>> from sfumato import PrivateKDE
    >>> rows = np.random.default_rng(0).normal(size=(4000, 2))
    >>> model = PrivateKDE(bandwidth=1.0, epsilon=1.0, n_hint=4000, feature_seed=1)
    >>> parts = [Part.of(model, rows[:1000], site="north"), Part.of(model, rows[1000:], site="south")]
    >>> merge_parts(parts).parameters["sites"]
    2
    >>> merge_parts([parts[0], parts[0]])
    Traceback (most recent call last):
    sfumato.errors.InputError: two of the parts ...
    """

    method: str
    request: Request
    columns: tuple[str, ...] | None
    sampled: bool
    site: str
    sums: Integers = field(repr=False)
    kept: int = field(repr=False)
    seen: int = field(repr=False)
    receipts: Receipts = field(default_factory=Receipts, repr=False)

    @classmethod
    def of(cls, model: PrivateEstimator, X: Any, *, site: str | None = None, **fitting: Any) -> Part:
        """Sum a site's rows as `fit` would, and neither charge nor draw noise.

        Parameters
        ----------
        model : PrivateKDE or PrivateDistance
            With the parameters that all sites agreed on, `feature_seed` and a public `n_hint` of all sites among them.
        X : array, frame, table, path or source
            The site's rows.
        site : str, optional
            A name for the data; a random one by default.
        **fitting
            `users`, `sample_weight`, `progress` and `threads`, as in `PrivateKDE.fit`.
        """
        if model.feature_seed is None:
            raise InputError("feature_seed is missing: pass the same public feature_seed= at all sites")
        if model.n_hint == "paid":
            raise InputError("a count cannot be bought before the parts are merged: pass n_hint= as a number")
        if model.random_state is not None:
            raise InputError("random_state has no use in a part, which has no noise; pass it where parts are merged")
        curator, source, request = model.prepared(X, **fitting)
        _check_columns(model.method, request.dimension)
        _check_storable(request)
        if model.method in BOUGHT:
            raise InputError(f"{model.method} buys moments of all records before it sums, which parts cannot do")
        mechanism = _mechanism(model.method, request)
        sums, kept, seen = curator.engine.sum(curator.source, mechanism.encoder, curator.bits, curator.progress)
        name = secrets.token_hex(16) if site is None else site
        sampled = source.weighted or source.keyed
        return cls(model.method, request, source.column_names, sampled, name, sums, kept, seen)

    @cached_property
    def public(self) -> str:
        """SHA-256 of everything public: parts add up if theirs are equal."""
        mechanism = _mechanism(self.method, self.request)
        empty = mechanism.release(np.zeros(mechanism.reader.size, dtype=np.int64), Count(1, 0.0, public=False))
        facts = json.dumps([self.method, _document(self.request), self.columns, self.sampled], sort_keys=True)
        return hashlib.sha256(facts.encode() + empty.to_bytes()).hexdigest()

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the part to a file of mode 0600. It is PRIVATE data: keep and send it as you would the records."""
        with AtomicFile(path, overwrite=overwrite, private=True) as file:
            file.write(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the file's content, checksum included."""
        header = {
            "content": CONTENT,
            "method": self.method,
            "request": _document(self.request),
            "columns": None if self.columns is None else list(self.columns),
            "sampled": self.sampled,
            "site": self.site,
            "kept": self.kept,
            "seen": self.seen,
            "public": self.public,
            "charges": self.receipts.to_document(),
        }
        arrays: dict[str, Any] = {"sums": self.sums}
        if self.request.landmarks is not None:
            arrays["landmarks"] = self.request.landmarks.points
        return container.encode(header, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Part:
        """Read what `save` wrote; what was altered, or made by a version that builds another mechanism, is refused."""
        header, arrays = container.decode(path)
        if header.get("content") != CONTENT:
            raise ReleaseFileError(f"{str(path)!r} is not a part: sfumato.load reads releases")
        with container.read_as("a part"):
            fields = _FILE.read(header)
            stated, charges = fields.pop("public"), fields.pop("charges")
            _check_columns(fields["method"], fields["request"]["dimension"])
            fields["request"] = _request(fields["request"], arrays.get("landmarks"))
            _check_claim(fields["method"], fields["request"], arrays["sums"].size)
            columns = fields.pop("columns")
            part = cls(
                **fields, columns=None if columns is None else tuple(columns), sums=arrays["sums"], receipts=charges
            )
            if part.public != stated:
                raise ReleaseFileError(f"{str(path)!r} was made for another mechanism, by another version or altered")
            _check_sums(part)
        return part

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        # The one door for copy, deepcopy and pickle.
        raise TypeError("a part cannot be copied or pickled: the copy could be released unpaid. Use save and load")


def merge_parts(parts: Sequence[Part], *, ledger: Account | None = None, random_state: int | None = None) -> Release:
    """Add up the parts of all sites, charge once, and draw the noise.

    Parameters
    ----------
    parts : sequence of Part
        Made with the same public parameters, one for each site.
    ledger : Account, optional
        Where the spending is checked and recorded; needed from the second release of a part on.
    random_state : int, optional
        Seeds the noise and marks the release NOT PRIVATE. For tests only.

    Raises
    ------
    InputError
        If public parameters differ, or a part or a site is there twice. Nothing is charged then.
    """
    parts = listed("the parts", parts)
    mechanism, bits = joint_mechanism(parts, private=random_state is None), noise_bits(random_state)
    pay(parts, mechanism, ledger)
    sums = np.asarray(np.sum([part.sums for part in parts], axis=0, dtype=np.int64))
    kept, seen = sum(part.kept for part in parts), sum(part.seen for part in parts)
    release = publish(mechanism, sums, kept, seen, bits)
    return replace(release, columns=parts[0].columns, sampled=parts[0].sampled)


def joint_mechanism(parts: Sequence[Part], private: bool) -> Mechanism:
    """Return the mechanism of parts that belong together; what does not is refused."""
    first, _ = _checked(parts)
    request = replace(first.request, private=private)
    return _of_sites(_mechanism(first.method, request), len(parts))


def pay(parts: Sequence[Part], mechanism: Mechanism, ledger: Account | None) -> None:
    """Charge for a release of parts, or refuse it; noise is drawn after that."""
    receipts = _checked(parts)[1]
    guarantee, (epsilon, loss) = mechanism.guarantee, mechanism.cost(count_is_bought=False)
    with STATE:  # two threads that merge the same parts must not both find them unreleased
        receipts.check(epsilon, ledger)
        charge = None
        if ledger is not None:
            terms = {"neighbours": guarantee.neighbours, "unit": guarantee.unit}
            charge = ledger.charge(mechanism.method, epsilon, guarantee.delta, **terms, loss=loss).id
        receipts.add(charge)


def largest_size(part: Part) -> int:
    """Most bytes that a release made of parts like this one can take."""
    mechanism = _of_sites(_mechanism(part.method, part.request), 10**6)
    values, count = np.full(mechanism.reader.size, 2**62), Count(10**18, 1 / 3, public=False)
    return len(replace(mechanism.release(values, count), columns=part.columns).to_bytes())


def _checked(parts: Sequence[Part]) -> tuple[Part, Receipts]:
    if not parts or not all(isinstance(each, Part) for each in parts):
        raise InputError("there is nothing to merge: pass a list with the part of every site")
    first, receipts = parts[0], Receipts({})
    for part in parts:
        if part.public != first.public:
            raise InputError(
                "the parts have different public parameters: use the same kernel, bounds, epsilon, method, options, "
                "n_hint, columns and feature_seed, and the same version, at all sites"
            )
        if receipts.shards.keys() & part.receipts.shards.keys():
            raise InputError("two of the parts are copies of one: merge every part once")
        receipts.take_in(part.receipts)
    if len({part.site for part in parts}) < len(parts):
        raise InputError(
            "two of the parts are of the same site, so that its records would count twice: merge one part of each, or "
            "give different data different names (site=)"
        )
    return first, receipts


def _of_sites(mechanism: Mechanism, sites: int) -> Mechanism:
    guarantee = mechanism.guarantee
    conditions = (*guarantee.conditions, SITE_CONDITION.format(sites))
    parameters = {**mechanism.parameters, "sites": sites}
    return replace(mechanism, guarantee=replace(guarantee, conditions=conditions), parameters=parameters)


def _mechanism(method: str, request: Request) -> Mechanism:
    with one_blas_thread():  # several round otherwise, and all sites must get the same numbers
        return (DISTANCES if request.of_distances else METHODS).build(method, request)


def _check_columns(method: str, columns: Any) -> None:
    most, hint = (MOST_RANKED_COLUMNS, "; name a method") if method == "auto" else (MOST_SUMMED_COLUMNS, "")
    if not isinstance(columns, int) or columns > most:
        raise InputError(f"a part by the method {method!r} has at most {most} columns, not {columns!r:.40}{hint}")


def _check_claim(method: str, request: Request, sums: int) -> None:
    """Refuse a request whose mechanism has far more sums than the file, before its features are drawn."""
    methods = DISTANCES if request.of_distances else METHODS
    known = [method for method in methods.values() if not method.baseline] if method == "auto" else [methods[method]]
    if compare(known, request)[0].predicted.integers > 2 * max(sums, LEAST_SUMS):
        raise ReleaseFileError(f"the part holds {sums} sums, and its request takes more")


def _check_sums(part: Part) -> None:
    encoder = _mechanism(part.method, part.request).encoder
    fits = part.sums.shape == (encoder.size,) and part.sums.dtype.kind == "i" and part.kept <= part.seen
    # Python's integers, for the product may be beyond 64 bits.
    if not fits or max(map(abs, (int(part.sums.max()), int(part.sums.min())))) > part.kept * encoder.bound.largest:
        raise ReleaseFileError("the sums of the part cannot be those of the records that it holds")


_PLAIN = ("dimension", "n", "feature_seed", "delta", "neighbours", "unit", "weighted")


def _document(request: Request) -> dict[str, Any]:
    bounds = request.bounds
    if isinstance(bounds, Box):
        raise InputError("bounds of a part must be numbers, not a box: pass them as pairs")
    options = {name: str(value) if name == "count_share" else value for name, value in request.options.items()}
    return {
        **{name: getattr(request, name) for name in _PLAIN},
        "epsilon": str(request.epsilon),
        "kernel": request.kernel.to_document(),
        "bounds": None if bounds is None else np.asarray(bounds, dtype=np.float64).tolist(),
        "options": options,
    }


def _request(document: dict[str, Any], landmarks: Any) -> Request:
    return Request(
        **{name: document[name] for name in _PLAIN},
        epsilon=exact_epsilon(document["epsilon"]),
        kernel=kernel_from_document(document["kernel"]),
        bounds=document["bounds"],
        options=document["options"],
        landmarks=None if landmarks is None else PublicSample.stored(landmarks),
    )


def _check_storable(request: Request) -> None:
    """Refuse before anything is read what a file could not hold."""
    container.encode({"request": _document(request)}, {})
    kernel_from_document(request.kernel.to_document())
