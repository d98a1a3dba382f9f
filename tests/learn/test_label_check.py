"""Labels beside their classes, for the curator: counts, labels that are none, other capitals."""

from __future__ import annotations

import numpy as np

from sfumato.central.survey import Findings
from sfumato.learn.label_check import add_labels


def test_labels_are_counted_and_odd_ones_are_named() -> None:
    findings = Findings([])
    add_labels(findings, np.zeros((5, 1)), ["cat", "cat", "Dog", "bird", None], ["cat", "dog", "cow"])
    assert findings.labels == {"cat": 2, "dog": 0, "cow": 0}
    text = " | ".join(findings.warnings)
    assert "label that is no class" in text and "'Dog'" in text and "no record has the label 'cow'" in text


def test_labels_that_match_are_not_warned_of() -> None:
    findings = Findings([])
    add_labels(findings, np.zeros((4, 1)), [0, 1, 1, 0], [0, 1])
    assert (findings.labels, findings.warnings) == ({"0": 2, "1": 2}, [])
