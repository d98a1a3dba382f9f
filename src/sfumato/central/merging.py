"""Sums from several hands: releases of sites that trust nobody, added up, and receipts of what was paid for.

Every site makes a release of its own with the same public parameters, `feature_seed` and `n_hint` among them. The
integers add up because every encoder's sums do; the noises add up because they are independent. Published methods that
make something else of the sums do not add up. A merger whom the sites trust can do better: `central.parts`.

Guarantee. A record is in one site's table, and that site's noise alone keeps the site's promise, against everyone, the
other sites included: adding their tables is post-processing. So a record's epsilon and delta are its own site's, and
the merged release states the largest. A person with records at several sites is protected by the sum of theirs: where
users are promised something, that each is at one site alone is a condition.

Variance: that of one site's noise, summed over the sites; n sites cost sqrt(n) times the noise of one curator.

Receipts say which releases of a sketch's records were paid for, so that none goes out unpaid. For every shard in a
sketch, by a name drawn at random, the charges of each release of its records. Sketches with records in common share the
lists, so that none of them can be released behind another's back, and the names, so that no record is counted twice.
Whoever calls holds `STATE`.
"""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.errors import BudgetError, InputError
from sfumato.methods.registry import DISTANCES, METHODS
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.laws import SummedNoise, part_variances
from sfumato.privacy.ledger import Account
from sfumato.privacy.process import Mark, process_mark
from sfumato.public.arguments import listed
from sfumato.public.codec import Many, Optional, Text, refuse
from sfumato.quantizers.hashing import HashingQuantizer
from sfumato.release import Count, Release
from sfumato.threads import held_over_forks

# One lock for all sketches and parts: merged ones share their parts' charges, so that whether records were released
# before is a question to all of them at once. It is held while counters and charges change, never while rows are
# hashed.
STATE = threading.RLock()
_UNIQUE_BITS = 40
held_over_forks(STATE)


def merge_releases(releases: Sequence[Release]) -> Release:
    """Add up what several sites released on their own.

    Parameters
    ----------
    releases : sequence of Release
        Made with the same public parameters and neighbouring relation.

    Returns
    -------
    Release
        Of all records together. Its epsilon and delta are the largest of any site.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.kernels import L2LSH
    >>> from sfumato import RaceSketch
    >>> sites = [np.random.default_rng(site).normal(size=(2000, 2)) for site in range(3)]
    >>> shape = {"dimension": 2, "rows": 50, "width": 16, "feature_seed": 1}
    >>> published = [RaceSketch(L2LSH(1.0), **shape).add(points).release(epsilon=1) for points in sites]
    >>> merge_releases(published).parameters["sites"]
    3
    """
    releases = listed("the releases to merge", releases)
    if not releases or not all(isinstance(each, Release) for each in releases):
        raise InputError("there is nothing to merge: pass a list of releases, one at least")
    first: Release = releases[0]
    for release in releases:
        _check_alike(first, release)
    _check_distinct(releases)
    return replace(
        first,
        guarantee=_together([release.guarantee for release in releases]),
        values=np.sum([release.values for release in releases], axis=0, dtype=np.int64),
        noise=SummedNoise(tuple(release.noise for release in releases)),
        count=Count(
            sum(release.count.value for release in releases),
            float(sum(release.count.variance for release in releases)),
            all(release.count.public for release in releases),
        ),
        parameters={**_sizes(first), "sites": len(releases)},
    )


def _check_alike(first: Release, release: Release) -> None:
    method = METHODS.get(release.method) or DISTANCES.get(release.method)
    if not isinstance(release.reader, HashingQuantizer) and (method is None or method.baseline):
        raise InputError(f"only sums with noise add up, and {release.method} may be something else")
    if _public(release) != _public(first):
        raise InputError(
            "the releases have different public parameters: use the same kernel, bounds, rows, width and feature_seed "
            "at all sites, and delta at all or none"
        )
    if release.columns != first.columns or release.groups != first.groups:
        raise InputError("the releases have different columns or groups")
    if isinstance(release.noise, SummedNoise):
        raise InputError("a merged release is among these: merge all sites at once")
    guarantees = first.guarantee, release.guarantee
    if len({(guarantee.neighbours, guarantee.unit) for guarantee in guarantees}) > 1:
        raise InputError("the releases hide different things: use the same neighbours and unit at all sites")


def _check_distinct(releases: Sequence[Release]) -> None:
    """Refuse one release that is given twice: its noise would double, where that of two sites partly cancels out."""
    seen = {(release.count.value, release.values.tobytes()) for release in releases if _is_unique(release)}
    if len(seen) < sum(map(_is_unique, releases)):
        raise InputError(
            "two of the releases have the same noisy values, so that they are one release, or noise of one seed on the "
            "same rows: pass the release of every site once"
        )


def _is_unique(release: Release) -> bool:
    """Tell whether its noise repeats by chance once in 2^40 times at most: not a few integers with hardly any noise.

    One integer with noise of deviation s repeats with a probability of at most 1 / (1 + min(s, s^2)).
    """
    deviation = math.sqrt(min(part_variances(release.noise)))
    return release.values.size * math.log2(1 + min(deviation, deviation**2)) >= _UNIQUE_BITS


def _sizes(release: Release) -> dict[str, Any]:
    if isinstance(release.reader, HashingQuantizer):
        return {"rows": release.reader.terms, "width": release.reader.width}
    return dict(release.parameters)


def _public(release: Release) -> list[Any]:
    """Return what must be the same at all sites."""
    document, arrays = release.reader.to_document()
    stored = {name: array.tolist() for name, array in arrays.items()}
    return [document, stored, release.kernel_document, release.sampled]


def _together(guarantees: Sequence[Guarantee]) -> Guarantee:
    conditions = dict.fromkeys(condition for guarantee in guarantees for condition in guarantee.conditions)
    whole = "record is" if guarantees[0].unit == "record" else "user's records are all"
    sites = f"each {whole} with one of {len(guarantees)} sites, whose own noise protects it against the others too"
    return replace(
        guarantees[0],
        epsilon=max(guarantee.epsilon for guarantee in guarantees),
        delta=max(guarantee.delta for guarantee in guarantees),
        private=all(guarantee.private for guarantee in guarantees),
        conditions=(*conditions, sites),
    )


Charges = dict[str, list[str | None]]
NO_PROCESS: Mark = (-1, 0, b"")


class Receipts:
    """The charges of every shard, None for a release that no ledger knows of.

    Parameters
    ----------
    shards : dict, optional
        Lists of charges by the names of the shards; one new shard by default.
    """

    def __init__(self, shards: Charges | None = None) -> None:
        self.shards = {secrets.token_hex(16): []} if shards is None else shards
        self.process = process_mark()

    def take_in(self, part: Receipts) -> None:
        """Share the lists of another sketch that is merged into this one."""
        if self.shards.keys() & part.shards.keys():
            raise InputError("two of the sketches hold the rows of the same shard; merge every shard once")
        self.shards.update(part.shards)
        if part.process != process_mark():
            self.process = NO_PROCESS  # a fork's copies stay copies, and need a ledger

    def check(self, epsilon: Fraction, ledger: Account | None) -> None:
        """Refuse a release that could be the second one and is not paid for as such."""
        if ledger is not None and not isinstance(ledger, Account):
            raise InputError(
                f"ledger must be an account here, as Ledger(path).account(NAME) is, not {type(ledger).__name__}: these "
                "sums do not say what their data are called"
            )
        if ledger is None and process_mark() != self.process:
            problem = (
                "a fork copied this sketch, and either copy could be released: pass ledger=, an account in a file, or "
                "release it in the process that made it"
            )
            raise BudgetError(problem, requested=epsilon, remaining=Fraction(0))
        before = {charge for charges in self.shards.values() for charge in charges}
        known = set() if ledger is None or not before else {charge.id for charge in ledger.charges}
        if not before <= known:
            problem = (
                "these records were released before: pass ledger=, the account that was charged then, so that both "
                "releases are paid for"
            )
            raise BudgetError(problem, requested=epsilon, remaining=Fraction(0))

    def add(self, charge: str | None) -> None:
        """Note a release of all records."""
        for charges in self.shards.values():
            charges.append(charge)

    def to_document(self) -> dict[str, list[str | None]]:
        """Return the JSON form."""
        return {shard: list(charges) for shard, charges in self.shards.items()}

    @classmethod
    def from_document(cls, document: Any, path: str) -> Receipts:
        """Read back what `to_document` wrote."""
        name, charges = Text(longest=100), Many(Optional(Text(longest=100)), most=2**20)
        if not isinstance(document, dict) or not document:
            raise refuse(path, "an object with the charges of every shard", document)
        return cls({name.read(shard, path): list(charges.read(each, path)) for shard, each in document.items()})
