"""Noisy sketches of sites that do not trust each other, added up.

Every site releases its own sketch (`RaceSketch.release`, or ``method="race"``) with the same public parameters. The
tables add up because counters do; the noises add up because they are independent.

Guarantee. A record is in one site's table, and that site's noise alone keeps the site's promise, against everyone, the
other sites included: adding their tables is post-processing. So a record's epsilon and delta are its own site's, and
the merged release states the largest. A person with records at several sites is protected by the sum of theirs.

Variance: that of one site's noise, summed over the sites; n sites cost sqrt(n) times the noise of one curator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sfumato.errors import InputError
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.laws import SummedNoise
from sfumato.quantizers.hashing import HashingQuantizer
from sfumato.release import Count, Release


def merge_releases(releases: Sequence[Release]) -> Release:
    """Add up sketches that several sites released on their own.

    Parameters
    ----------
    releases : sequence of Release
        Made by `RaceSketch.release` or ``method="race"`` with the same public parameters and neighbouring relation.

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
    if not releases:
        raise InputError("there is nothing to merge: pass at least one release")
    first = releases[0]
    for release in releases:
        _check_alike(first, release)
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
        parameters={"rows": first.reader.terms, "width": first.reader.width, "sites": len(releases)},
    )


def _check_alike(first: Release, release: Release) -> None:
    if not isinstance(release.reader, HashingQuantizer):
        raise InputError(f"only sketches add up; {release.method} is not one")
    if release.reader.to_document() != first.reader.to_document() or release.kernel != first.kernel:
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


def _together(guarantees: Sequence[Guarantee]) -> Guarantee:
    conditions = dict.fromkeys(condition for guarantee in guarantees for condition in guarantee.conditions)
    sites = f"each record is with one of {len(guarantees)} sites, whose own noise protects it against the others too"
    return replace(
        guarantees[0],
        epsilon=max(guarantee.epsilon for guarantee in guarantees),
        delta=max(guarantee.delta for guarantee in guarantees),
        private=all(guarantee.private for guarantee in guarantees),
        conditions=(*conditions, sites),
    )
