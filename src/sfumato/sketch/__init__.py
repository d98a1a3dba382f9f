"""Streaming sketches: raw ones that are exact and private, and released ones that add up."""

from __future__ import annotations

from sfumato.sketch.merging import merge_releases
from sfumato.sketch.raw import RaceSketch

__all__ = ["RaceSketch", "merge_releases"]
