"""Counters for an operator: they add up, by label, in the text that monitoring reads."""

from __future__ import annotations

from sfumato.services.metrics import Metrics


def test_counts_add_up_by_their_labels() -> None:
    metrics = Metrics("shuffler")
    for status in ("200", "200", "400"):
        metrics.count("requests", status=status, path="reports")
    metrics.count("kept", by=5)
    lines = metrics.text({"waiting_bytes": 12.0}).splitlines()
    assert 'sfumato_requests_total{role="shuffler",path="reports",status="200"} 2' in lines
    assert 'sfumato_requests_total{role="shuffler",path="reports",status="400"} 1' in lines
    assert 'sfumato_kept_total{role="shuffler"} 5' in lines and lines[-1].endswith(" 12")
    assert sum(line.startswith("# TYPE sfumato_requests_total") for line in lines) == 1
