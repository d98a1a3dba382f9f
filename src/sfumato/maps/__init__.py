"""Maps: pictures, pages, exports, counts and synthetic points made from releases. All of it is post-processing."""

from __future__ import annotations

from sfumato.maps.field import Axis, Field, compare, evaluate
from sfumato.maps.geography import metres
from sfumato.maps.interval import Estimate
from sfumato.maps.regions import people
from sfumato.maps.sampling import sample
from sfumato.maps.sharp import Bracket, sharp_people
from sfumato.maps.views import Dots, project

__all__ = [
    "Axis",
    "Bracket",
    "Dots",
    "Estimate",
    "Field",
    "compare",
    "evaluate",
    "metres",
    "people",
    "project",
    "sample",
    "sharp_people",
]
