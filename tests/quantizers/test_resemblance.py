"""Resemblance: what the released means say about records and landmarks, and what noise leaves unsaid."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.quantizers.resemblance import Resemblance, can_be_shown


def test_sparse_landmarks_cannot_show_resemblance() -> None:
    assert can_be_shown(spread=1e-4, strength=0.02, rank=10, noise=1e-6, count_share=0.0)
    assert not can_be_shown(spread=1e-4, strength=2e-4, rank=10, noise=1e-6, count_share=0.0)
    assert not can_be_shown(spread=1e-4, strength=0.02, rank=10, noise=1e-3, count_share=0.0)
    assert not can_be_shown(spread=1e-4, strength=0.02, rank=10, noise=1e-6, count_share=0.2)


def test_a_count_that_is_off_by_chance_is_no_residual() -> None:
    """A count 10 % too low raises every mean by a ninth, the residual too; one that is known does not."""
    figures = Resemblance(bias_share=1e-7, residual=0.7, residual_error=0.01, spread=1e-4)
    mean = np.array([0.3, 0.1])
    assert figures.inflation(mean / 0.9, mean, 0.7 / 0.9, 1e-9, 0.05**2, 1e-6) < 2
    assert figures.inflation(mean / 0.9, mean, 0.7 / 0.9, 1e-9, 0.0, 1e-6) == math.inf


@pytest.mark.parametrize("elsewhere", [0.3, 1.0])
def test_a_noisy_count_hides_no_records_from_elsewhere(elsewhere: float) -> None:
    """They raise the residual and lower the mean of the features, which no count does."""
    figures = Resemblance(bias_share=1e-7, residual=0.7, residual_error=0.01, spread=1e-4)
    mean, residual = np.array([0.3, 0.1]) * (1 - elsewhere), elsewhere + 0.7 * (1 - elsewhere)
    assert figures.inflation(mean, np.array([0.3, 0.1]), residual, 1e-9, 0.1**2, 1e-6) == math.inf


def test_a_release_of_noise_alone_has_no_limit() -> None:
    figures = Resemblance(bias_share=1e-7, residual=0.9, residual_error=0.01, spread=0.0)
    assert figures.inflation(np.zeros(3), np.zeros(3), 0.9, 1.0, 0.0) == math.inf
