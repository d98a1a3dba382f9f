"""What can be learned from private densities."""

from __future__ import annotations

from sfumato.learn.anomaly import AnomalyScore
from sfumato.learn.classifier import DensityClassifier
from sfumato.learn.decoding import Word, decode
from sfumato.learn.selection import Selection, select

__all__ = ["AnomalyScore", "DensityClassifier", "Selection", "Word", "decode", "select"]
