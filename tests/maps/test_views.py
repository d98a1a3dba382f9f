"""Public points laid out in the plane and coloured by a release."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato import InputError, Release
from sfumato.maps import project
from sfumato.maps.views import column_names

PUBLIC = np.random.default_rng(8).normal(size=(60, 5)) + 3.0 * (np.arange(60)[:, None] % 2)


def test_pca_keeps_the_widest_direction_and_values_are_the_releases(many: Release) -> None:
    dots = project(many, PUBLIC, "pca", title="Five")
    values, errors = many.query(PUBLIC, return_std=True)
    assert np.array_equal(dots.values, values)
    assert np.array_equal(dots.errors, errors)
    apart = dots.places[::2, 0].mean() - dots.places[1::2, 0].mean()
    assert abs(apart) == pytest.approx(3 * np.sqrt(5), rel=0.1)  # the two groups lie along the first axis
    assert dots.axes[0].startswith("PCA 1 (")
    assert "60 public points" in dots.caption.view
    assert dots.caption.title == "Five"


def test_tsne_keeps_groups_together_and_repeats(many: Release) -> None:
    dots = project(many, PUBLIC, "tsne")
    again = project(many, PUBLIC, "tsne")
    assert np.allclose(dots.places, again.places)
    distances = np.linalg.norm(dots.places[:, None] - dots.places[None], axis=2) + 1e9 * np.eye(60)
    nearest = distances.argmin(axis=1)
    assert ((nearest - np.arange(60)) % 2 == 0).mean() > 0.9


@pytest.mark.parametrize(
    ("points", "projection", "message"),
    [
        (PUBLIC[:, :4], "pca", "5 columns"),
        (PUBLIC[:2], "pca", "three public points"),
        (np.full((5, 5), np.nan), "pca", "finite"),
        (PUBLIC, "umap", "must be one of 'pca', 'tsne'"),
        (np.zeros((10_001, 5)), "tsne", "takes too long"),
    ],
)
def test_projections_that_cannot_be_are_refused(many: Release, points: Any, projection: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        project(many, points, projection)


def test_one_column_cannot_be_projected(curve: Release) -> None:
    with pytest.raises(InputError, match="two columns"):
        project(curve, np.zeros((5, 1)))


def test_columns_without_names_get_some(many: Release) -> None:
    from dataclasses import replace

    assert column_names(replace(many, columns=None)) == ("x0", "x1", "x2", "x3", "x4")
