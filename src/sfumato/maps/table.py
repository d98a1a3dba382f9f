"""Counts of many regions at once: one row a region, smoothed and sharp, as CSV or GeoJSON.

Every row's interval is for that row; of a hundred rows at 95 % some five miss.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.errors import InputError
from sfumato.maps.interval import LEVEL, Estimate
from sfumato.maps.polygons import features_of
from sfumato.maps.regions import people
from sfumato.maps.sharp import Bracket, refuse_sharp, sharp_people
from sfumato.privacy.guarantee import check_choice
from sfumato.public.shown import shown
from sfumato.release import Release

QUANTITIES = ("counts", "shares")
MOST_REGIONS = 10_000
NAMES = ("name", "NAME", "title", "id")
MEASURES = ("smoothed", "smoothed_std", "smoothed_lower", "smoothed_upper", "sharp", "sharp_lower", "sharp_upper")


@dataclass(frozen=True)
class Counted:
    """What a release, or the difference of two, says of one region.

    Attributes
    ----------
    smoothed : Estimate
        By the share of each record's kernel that lies in the region.
    sharp : Bracket or None
        By where the records are; None where a release cannot tell.
    refused : str
        Why there is no sharp count.
    """

    smoothed: Estimate
    sharp: Bracket | None
    refused: str = ""

    def numbers(self) -> dict[str, float | None]:
        """Return the measures by name, as they stand in tables."""
        smooth, sharp = self.smoothed, self.sharp
        found = (smooth.value, smooth.std, smooth.lower, smooth.upper)
        bracket = (None, None, None) if sharp is None else (sharp.value, sharp.lower, sharp.upper)
        return dict(zip(MEASURES, (*found, *bracket), strict=True))


def count_region(
    release: Release, region: Any, *, minus: Release | None = None, quantity: str = "counts", level: float = LEVEL
) -> Counted:
    """Count the records of a region, smoothed and sharp, in one release or as the difference of two.

    Parameters
    ----------
    release, region, level
        As in `people`.
    minus : Release, optional
        A release whose numbers are subtracted.
    quantity : {"counts", "shares"}
        Numbers of records, or shares of all records of a release. More people may be a smaller share.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import PrivateKDE
    >>> points = np.random.default_rng(0).normal(size=(5000, 2))
    >>> release = PrivateKDE(bandwidth=0.5, epsilon=2, n_hint=5000, bounds=(-4, 4)).fit(points).release_
    >>> found = count_region(release, [(0, 4), (-4, 4)], quantity="shares")
    >>> bool(found.sharp.lower < 0.5 < found.sharp.upper)
    True
    """
    check_choice("quantity", quantity, QUANTITIES)
    releases = [made for made in (release, minus) if made is not None]
    smooth: list[Any] = [people(made, region, level=level) for made in releases]
    sharp: list[Any] = []
    refused = ""
    try:
        for made in releases:
            refuse_sharp(made)
    except InputError as problem:
        refused = str(problem)
    else:
        sharp = [sharp_people(made, region, level=level) for made in releases]
    if quantity == "shares":
        smooth, sharp = (
            [one.shared(made.count) for one, made in zip(found, releases, strict=False)] for found in (smooth, sharp)
        )
    difference = [found[0] - found[1] if len(found) == 2 else found[0] for found in (smooth, sharp) if found]
    return Counted(difference[0], difference[1] if len(difference) == 2 else None, refused)


def count_features(document: Any, count: Any) -> list[tuple[dict[str, Any], Any, Counted]]:
    """Count every feature of a GeoJSON object by `count`: (properties, geometry, what was counted)."""
    features = features_of(document)
    if len(features) > MOST_REGIONS:
        raise InputError(f"a table takes at most {MOST_REGIONS:,} regions, and the file has {len(features):,}")
    return [(properties, geometry, count(geometry)) for properties, geometry in features]


def name_of(properties: dict[str, Any], index: int) -> str:
    """Name of a region: what its properties call it, or its number."""
    return shown(next((properties[key] for key in NAMES if properties.get(key) not in (None, "")), index + 1))


def regions_table(rows: Sequence[tuple[dict[str, Any], Any, Counted]]) -> dict[str, list[Any]]:
    """Columns of a table: the region's name and its measures."""
    table: dict[str, list[Any]] = {"region": [name_of(row[0], index) for index, row in enumerate(rows)]}
    numbers = [counted.numbers() for _, _, counted in rows]
    return table | {name: [row[name] for row in numbers] for name in MEASURES}


def regions_geojson(
    rows: Sequence[tuple[dict[str, Any], Any, Counted]], releases: Sequence[Release], quantity: str, level: float
) -> bytes:
    """Return the regions as they came, with their measures as properties, and the guarantee in the file."""
    features = [
        {"type": "Feature", "geometry": geometry, "properties": {**properties, **_rounded(counted)}}
        for properties, geometry, counted in rows
    ]
    document = {
        "type": "FeatureCollection",
        "guarantee": [shown(release.guarantee) for release in releases],
        "quantity": quantity if len(releases) == 1 else f"difference of {quantity}",
        "interval": level,
        "features": features,
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _rounded(counted: Counted) -> dict[str, float | None]:
    numbers = counted.numbers().items()
    return {name: None if number is None else float(f"{number:.7g}") for name, number in numbers}
