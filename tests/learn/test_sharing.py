"""Classes of one file share their reader, and a few bytes of it cannot stand for much work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import InputError, ReleaseFileError
from sfumato.kernels import Gaussian
from sfumato.learn import DensityClassifier, sharing
from sfumato.quantizers import phases
from sfumato.release import content as release_content
from sfumato.release import format as container

from .conftest import CLASSES, texts

POINTS, LABELS = texts(600, 1)
SEEDED: dict[str, Any] = {"epsilon": 1, "n_hint": 600, "random_state": 3, "feature_seed": 4}
FOURIER: dict[str, Any] = {
    "kernel": Gaussian(1.0),
    "method": "fourier",
    "options": {"n_features": 200},
    "bounds": (-1, 1),
}
Change = Callable[[dict[str, Any], dict[str, Any]], None]


@pytest.fixture(scope="module")
def content() -> bytes:
    return DensityClassifier(**SEEDED, **FOURIER, classes=CLASSES).fit(POINTS, LABELS).to_bytes()


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many frequencies were drawn, each time."""
    found: list[int] = []
    draw = phases._draw_turns

    def counting(kernel: Any, dimension: int, terms: int, seed: int) -> Any:
        found.append(terms)
        return draw(kernel, dimension, terms, seed)

    monkeypatch.setattr(phases, "_draw_turns", counting)
    return found


def load(content: bytes, folder: Path, change: Change, **arguments: Any) -> DensityClassifier:
    header, arrays = container.decode(content)
    change(header, arrays)
    (folder / "altered.sfm").write_bytes(container.encode(header, arrays))
    return DensityClassifier.load(folder / "altered.sfm", **arguments)


def repeated(classes: int, part: dict[str, Any]) -> Change:
    """A file of which a few bytes each are all that is said of its classes."""

    def change(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        header["classifier"]["classes"] = list(range(classes))
        header["each"] = [{}, *[part] * (classes - 1)]
        for name in [name for name in arrays if not name.startswith("0:")]:
            del arrays[name]

    return change


def unchanged(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    pass


def test_classes_of_one_fit_have_one_reader_and_their_own_sums(
    content: bytes, tmp_path: Path, drawn: list[int]
) -> None:
    releases = list(load(content, tmp_path, unchanged).releases_.values())
    assert drawn == [200] and len({id(release.reader) for release in releases}) == 1
    assert len({release.values.tobytes() for release in releases}) == len(CLASSES)


def test_many_classes_load_back(tmp_path: Path, drawn: list[int]) -> None:
    labels = np.arange(len(POINTS)) % 300
    model = DensityClassifier(**SEEDED, **FOURIER, classes=range(300)).fit(POINTS, labels)
    model.save(tmp_path / "many.sfm")
    drawn.clear()
    loaded = DensityClassifier.load(tmp_path / "many.sfm")
    assert drawn == [200] and loaded.to_bytes() == model.to_bytes()


def test_classes_that_say_nothing_of_their_own_share_even_the_sums(
    content: bytes, tmp_path: Path, drawn: list[int]
) -> None:
    releases = list(load(content, tmp_path, repeated(50, {})).releases_.values())
    assert drawn == [200] and all(np.shares_memory(release.values, releases[0].values) for release in releases)


@pytest.mark.parametrize("part", [{}, {"unknown": 1}], ids=["shared reader", "own reader"])
def test_many_classes_in_few_bytes_are_refused_before_anything_is_drawn(
    content: bytes, tmp_path: Path, drawn: list[int], part: dict[str, Any]
) -> None:
    with pytest.raises(ReleaseFileError, match="MB, and 537 are allowed; pass max_memory="):
        load(content, tmp_path, repeated(10_000, part))
    assert not drawn


def test_readers_of_classes_share_what_is_allowed(content: bytes, tmp_path: Path, drawn: list[int]) -> None:
    """One reader of 200 frequencies takes 34 x 200 numbers of 24 bytes: 163 kB."""
    assert load(content, tmp_path, unchanged, max_memory=200_000).predict(POINTS[:1]).size
    own = repeated(4, {"unknown": 1})
    assert load(content, tmp_path, own, max_memory=700_000).predict(POINTS[:1]).size
    drawn.clear()
    with pytest.raises(ReleaseFileError, match="one of 4 that share what max_memory allows.*takes about 0 MB"):
        load(content, tmp_path, own, max_memory=600_000)
    assert not drawn


def test_classes_that_differ_in_what_is_not_read_have_one_reader_and_kernel(
    content: bytes, tmp_path: Path, drawn: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels: list[Any] = []
    build = release_content.kernel_from_document
    monkeypatch.setattr(release_content, "kernel_from_document", lambda part: kernels.append(part) or build(part))
    part = {"sampled": True, "written_by": "sfumato 0.2.0", "noise": {"law": "discrete-laplace", "rate": "1/10"}}
    releases = list(load(content, tmp_path, repeated(50, part)).releases_.values())
    assert drawn == [200] and len(kernels) == 1 and len({id(release.reader) for release in releases}) == 1
    assert [release.sampled for release in releases[:3]] == [False, True, True]
    assert releases[1].noise.to_document() == part["noise"] and releases[1].version == "0.2.0"


def test_numbers_of_the_header_that_classes_read_again_are_counted() -> None:
    header = {"kernel": {"kernel": "gaussian", "bandwidth": [[1, 0], [0, 1]]}, "columns": ["a", "b"], "count": {}}
    each = [{}, {"quantizer": {}}, {"kernel": {}}, {"sampled": True}]
    assert sharing._read_again(header, each, [0, 1, 2]) == 7 + 2


def test_one_prediction_takes_no_more_products_than_are_stated(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    products = 400 * len(CLASSES)
    monkeypatch.setattr(sharing, "MOST_PRODUCTS", products)
    load(content, tmp_path, unchanged)
    monkeypatch.setattr(sharing, "MOST_PRODUCTS", products - 1)
    with pytest.raises(ReleaseFileError, match="3 classes takes 1.2e.03 products"):
        load(content, tmp_path, unchanged)


def test_names_of_arrays_are_not_multiplied_by_classes(content: bytes, tmp_path: Path) -> None:
    def change(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        repeated(1000, {})(header, arrays)
        arrays |= {f"0:{name}": np.zeros(1) for name in range(1000)}

    with pytest.raises(ReleaseFileError, match="class 0: the release holds an array '0' that nothing reads"):
        load(content, tmp_path, change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header, arrays: header.update(each={"a": {}, "b": {}, "c": {}}), "in which entries it differs"),
        (lambda header, arrays: header.update(each=[{}, [], {}]), "in which entries it differs"),
        (lambda header, arrays: header["each"][1].update(parameters=[["a", 1]]), "'law'.*entry 'parameters'"),
        (
            lambda header, arrays: header["each"][1].update(count={"value": 5, "variance": 1, "public": False}),
            "'law'.*entry 'count'",
        ),
        (lambda header, arrays: arrays.update({"1:values": np.zeros(400)}), "'law'.*'values' of 400 numbers"),
        (lambda header, arrays: arrays.update({"1:values": arrays["0:values"][:-1]}), "'law'.*'values' of 400 numbers"),
        (lambda header, arrays: arrays.update({"01:values": arrays["0:values"]}), "'01:values' that nothing reads"),
    ],
)
def test_a_class_that_is_not_as_it_was_written_is_refused(
    content: bytes, tmp_path: Path, change: Change, message: str
) -> None:
    with pytest.raises(ReleaseFileError, match=message):
        load(content, tmp_path, change)


def test_the_memory_that_is_allowed_is_a_number(content: bytes, tmp_path: Path) -> None:
    with pytest.raises((InputError, ReleaseFileError), match="max_memory"):
        load(content, tmp_path, unchanged, max_memory=0)
