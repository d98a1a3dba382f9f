"""What can be learned from private densities."""

from __future__ import annotations

from sfumato.learn.classifier import DensityClassifier

__all__ = ["DensityClassifier"]
