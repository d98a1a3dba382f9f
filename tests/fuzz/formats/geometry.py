"""GeoJSON from others: regions in which people are counted, and lines that are drawn over maps."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np

from tests.fuzz.case import Format, UnsoundError, check_numbers
from tests.fuzz.formats.containers import CORPUS
from tests.fuzz.grammar import Grammar, mapped
from tests.fuzz.library import (
    InputError,
    PrivateKDE,
    Release,
    load,
    parse,
    people,
    quick_regions,
    read_overlay,
    sharp_people,
)

REGION = {"type": "Polygon", "coordinates": [[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]]]}
REGIONS: list[Any] = [
    REGION,
    {"type": "Feature", "geometry": REGION, "properties": {"name": "centre"}},
    {"type": "MultiPolygon", "coordinates": [REGION["coordinates"], [[[2, 2], [3, 2], [3, 3], [2, 2]]]]},
    {"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": REGION, "properties": None}]},
]
MOST_BYTES = 1 << 22


class Shapes(Format[Any]):
    """GeoJSON documents."""

    shapes: ClassVar[list[Any]]

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """A few shapes."""
        self.grammar = Grammar(self.shapes)
        return [(shape["type"], json.dumps(shape)) for shape in self.shapes]

    def copy(self, seed: Any) -> Any:
        """Parse it anew."""
        return json.loads(seed)

    def alter(self, content: Any, random: Random) -> Any:
        """Change the document."""
        return self.grammar.alter(content, random)

    def encode(self, content: Any, random: Random) -> bytes:
        """Write JSON, cut off where so much of it takes seconds by rights."""
        return json.dumps(content).encode()[:MOST_BYTES]


def honest() -> dict[str, Release]:
    """Releases of a crowd that stands in one corner of the bounds, so that most of them is empty."""
    rows = np.random.default_rng(1).normal(size=(400, 2)) * 0.3 - 3
    public: dict[str, Any] = {"bandwidth": 0.5, "n_hint": 400, "feature_seed": 1, "random_state": 1}
    made = {
        method: PrivateKDE(method=method, epsilon=1, bounds=(-5, 5), **public).fit(rows).release_
        for method in ("grid", "histogram", "fourier")
    }
    made["lattice"] = PrivateKDE(method="lattice", epsilon=1, delta=1e-6, bounds=(-5, 5), **public).fit(rows).release_
    made["grid of one column"] = (
        PrivateKDE(method="grid", epsilon=1, bounds=(0, 500), **public).fit(rows[:, :1]).release_
    )
    return made


def ring(random: Random) -> dict[str, Any]:
    """A round outline of many corners."""
    count, radius = 1 << random.randrange(2, 12), random.choice([0.01, 1.0, 4.0])
    middle = random.uniform(-5.0, 5.0)
    turns = [2 * math.pi * corner / count for corner in [*range(count), 0]]
    corners = [[middle + radius * math.cos(turn), middle + radius * math.sin(turn)] for turn in turns]
    return {"type": "Polygon", "coordinates": [corners]}


class Regions(Shapes):
    """Regions in which people are counted, by their kernels and sharply."""

    name = "regions"
    share = 40.0
    shapes: ClassVar[list[Any]] = [*REGIONS, [[0.0, 1.0], [0.0, 1.0]]]  # the last: a pair of bounds for every column

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """Every shape with every release that is asked."""
        self.releases = {"corpus": load(CORPUS / "golden/central/fourier.seeded.sfm"), **honest()}
        self.grammar = Grammar(self.shapes)
        for name, release in self.releases.items():
            for shape in self.shapes if release.dimension == len(self.shapes[-1]) else [self.shapes[-1][:1]]:
                yield name, json.dumps(shape)

    def alter(self, content: Any, random: Random) -> Any:
        """Change the document, make it small and move it away, or take an outline of many corners."""
        kind = random.random()
        if kind < 0.05:
            return ring(random)
        if kind < 0.3:
            place, size = random.uniform(-5.0, 5.0), random.choice([1e-9, 0.01, 0.1, 0.3, 5.0])
            return mapped(content, lambda value: place + size * value if isinstance(value, float) else value)
        return super().alter(content, random)

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Count the people in it."""
        try:
            region = json.loads(content)
        except (ValueError, RecursionError):  # the command's matter, which has a format of its own
            return
        release = self.releases[seed]
        sharply = seed.startswith(("grid", "histogram")) and random.random() < 0.4
        with quick_regions():
            found = (sharp_people if sharply else people)(release, region)
        check_numbers("people", [found.value, found.std, found.lower, found.upper], infinite=True)
        if not found.lower <= found.upper:
            raise UnsoundError("an interval ends before it begins")


LINES: list[Any] = [
    {"type": "LineString", "coordinates": [[0.0, 0.0], [0.5, 0.2], [1.0, 1.0]]},
    {"type": "MultiLineString", "coordinates": [[[0, 0], [1, 1]], [[0.5, 0.5], [0.6, 2.0], [3, 4]]]},
    {"type": "GeometryCollection", "geometries": [REGION, {"type": "Point", "coordinates": [0, 0]}]},
]


class Overlays(Shapes):
    """Lines over a map."""

    name = "overlays"
    share = 60.0
    shapes: ClassVar[list[Any]] = [*LINES, *REGIONS]

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Take them as the command does, or as whoever calls the library may hand them over."""
        try:
            document = parse(content) if random.random() < 0.5 else json.loads(content)
        except (ValueError, RecursionError):
            raise InputError("no document at all") from None
        for line in read_overlay([document], (0.0, 0.0), (1.0, 2.0)):
            check_numbers("a corner", line)
