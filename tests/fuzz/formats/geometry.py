"""GeoJSON from others: regions in which people are counted, and lines that are drawn over maps."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from tests.fuzz.case import Format, check_numbers
from tests.fuzz.formats.containers import CORPUS
from tests.fuzz.grammar import Grammar
from tests.fuzz.library import InputError, load, parse, people, read_overlay

REGION = {"type": "Polygon", "coordinates": [[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]]]}
REGIONS: list[Any] = [
    REGION,
    {"type": "Feature", "geometry": REGION, "properties": {"name": "centre"}},
    {"type": "MultiPolygon", "coordinates": [REGION["coordinates"], [[[2, 2], [3, 2], [3, 3], [2, 2]]]]},
    {"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": REGION, "properties": None}]},
]


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
        """Write JSON."""
        return json.dumps(content).encode()


class Regions(Shapes):
    """Regions in which people are counted."""

    name = "regions"
    share = 60.0
    shapes: ClassVar[list[Any]] = REGIONS

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """The release that is asked, too."""
        self.release = load(CORPUS / "golden/central/fourier.seeded.sfm")
        return super().make_seeds()

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Count the people in it."""
        try:
            region = json.loads(content)
        except (ValueError, RecursionError):  # the command's matter, which has a format of its own
            return
        found = people(self.release, region)
        check_numbers("people", [found.value, found.std], infinite=True)


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
