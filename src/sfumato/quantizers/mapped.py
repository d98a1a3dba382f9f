"""Quantizers behind a public map of the points: projections to fewer columns, and columns on circles and spheres.

Points and queries are mapped, then encoded and read as they are. The bounds of the inner quantizer hold for every
image, so the guarantee is its own. What the map moves answers by is a part of the bias.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.privacy.bits import SecureBits
from sfumato.privacy.laws import NoiseLaw
from sfumato.quantizers.answer import Answer, Combined, Floats, Known
from sfumato.quantizers.base import Bound, Integers, Quantizer
from sfumato.quantizers.box import Box


class Mapped(Quantizer):
    """An inner quantizer of images; subclasses say how records and queries are mapped, and what that moves."""

    inner: Any

    @abstractmethod
    def place(self, rows: NDArray[Any]) -> Floats:
        """Images of records, each from its own row alone."""

    @abstractmethod
    def apply(self, Y: Floats) -> Floats:
        """Images of queries, which may lie anywhere."""

    @abstractmethod
    def moved(self, Y: Floats, answer: Answer, sums: Floats, known: Known) -> Floats:
        """Typical size of what the map moves an answer by, per record."""

    @property
    def terms(self) -> int:
        """Draws of the inner quantizer."""
        return int(self.inner.terms)

    @property
    def width(self) -> int:
        """Coordinates of one of them."""
        return int(self.inner.width)

    @property
    def query_numbers(self) -> int:
        """What the inner quantizer takes, or the query itself."""
        return max(int(self.inner.query_numbers), self.dimension)

    @property
    def bound(self) -> Bound:
        """Bounds of the inner quantizer, which hold for every image."""
        found: Bound = self.inner.bound
        return found

    def encode(self, rows: NDArray[Any], coins: SecureBits | None = None) -> Integers:
        """Integers of the images of the kept rows."""
        return np.asarray(self.inner.encode(self.place(rows), coins))

    def accumulate(self, rows: NDArray[Any], sums: Integers, coins: SecureBits | None = None) -> int:
        """Add the images' integers to `sums`."""
        return int(self.inner.accumulate(self.place(rows), sums, coins))

    def weights(self, Y: Floats) -> Floats:
        """Weights of the inner quantizer at the images."""
        return np.asarray(self.inner.weights(self.apply(Y)))

    def read(self, Y: Floats, sums: Floats, known: Known) -> Answer:
        """Read the inner quantizer at the images."""
        answer: Answer = self.inner.read(self.apply(Y), sums, known)
        return replace(answer, bias=np.hypot(answer.bias, self.moved(Y, answer, sums, known)))

    def combined(self, Y: Floats, coefficients: Floats, sums: Floats, known: Known) -> Combined:
        """Combine answers of the inner quantizer."""
        found: Combined = self.inner.combined(self.apply(Y), coefficients, sums, known)
        return found

    def error_paths(
        self, Y: Floats, sums: Floats, noise: NoiseLaw, groups: int, draws: int, seed: int
    ) -> Floats | None:
        """Simulate the errors of the inner quantizer."""
        paths: Floats | None = self.inner.error_paths(self.apply(Y), sums, noise, groups, draws, seed)
        return paths


class Projected(Mapped):
    """Images under a projection, which knows the box of the points, `place` and `apply`."""

    projection: Any

    @property
    def box(self) -> Box:
        """The box of the points."""
        bounds: Box = self.projection.bounds
        return bounds

    def place(self, rows: NDArray[Any]) -> Floats:
        """Images of records."""
        return np.asarray(self.projection.place(rows))

    def apply(self, Y: Floats) -> Floats:
        """Images of queries."""
        return np.asarray(self.projection.apply(Y))
