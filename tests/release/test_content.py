"""A release from header and arrays: the same again, and nothing that is read as something else."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import Part, PrivateDistance, PrivateKDE, RaceSketch, ReleaseFileError, local
from sfumato.kernels import L2LSH, Gaussian, Overlap, Product
from sfumato.release import format as container
from sfumato.release import from_content
from sfumato.release.content import load


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    path = tmp_path_factory.mktemp("content") / "points.sfm"
    model = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=100, bounds=(-3, 3), method="grid", random_state=1)
    model.fit(np.random.default_rng(0).normal(size=(100, 1))).release_.save(path)
    header, arrays = container.decode(path.read_bytes())
    assert np.array_equal(load(path).values, from_content(header, arrays).values)
    return header, arrays


def test_categories_beyond_the_columns_are_refused(tmp_path: Path) -> None:
    """Of a reader that asks nothing of the kernel."""
    model = PrivateDistance("sqeuclidean", epsilon=1, n_hint=100, bounds=(0, 1), random_state=1)
    saved = model.fit(np.random.default_rng(0).uniform(size=(100, 2))).release_.save(tmp_path / "points.sfm")
    header, arrays = container.decode(saved.read_bytes())
    kernel = Product(Gaussian(1.0), {5: Overlap(["a", "b"])}).to_document()
    with pytest.raises(ReleaseFileError, match="categories beyond the release's 2 columns"):
        from_content({**header, "kernel": kernel}, arrays)


def test_what_is_private_is_called_so(tmp_path: Path) -> None:
    """A site's part and a raw sketch lie in the same container: the error says what they are and what to do."""
    model = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=100, bounds=(-3, 3), method="grid", feature_seed=1)
    Part.of(model, np.zeros((5, 1))).save(tmp_path / "north.part")
    with pytest.raises(ReleaseFileError, match="a part of one site, .* 'sfumato release --parts'"):
        load(tmp_path / "north.part")
    RaceSketch(L2LSH(1.0), dimension=1, rows=2, width=4, feature_seed=1).save(tmp_path / "raw")
    with pytest.raises(ReleaseFileError, match="a raw sketch, .* sfumato.RaceSketch.load"):
        load(tmp_path / "raw")


def test_a_release_without_sums_is_refused() -> None:
    """Of a reader whose integers are the reports, none of which need be there."""
    protocol = local.Protocol("gaussian", 2, 1, 10, mechanism="gi", bandwidth=0.5, bounds=(0, 1), radius=0.1)
    release = protocol.simulate(np.full((10, 2), 0.5), random_state=1)
    header, arrays = container.decode(release.to_bytes())
    assert len(from_content(header, arrays).values) == 20
    with pytest.raises(ReleaseFileError, match="holds no sums"):
        from_content(header, {**arrays, "values": np.zeros(0, dtype=np.int64)})


@pytest.mark.parametrize("field", ["guarantee", "kernel", "noise", "quantizer", "count"])
def test_a_header_without_a_part_or_with_another_is_refused(content: Any, field: str) -> None:
    header, arrays = content
    for changed in ({key: value for key, value in header.items() if key != field}, {**header, field: 7}):
        with pytest.raises(ReleaseFileError):
            from_content(copy.deepcopy(changed), dict(arrays))
