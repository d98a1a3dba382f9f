"""A classifier's file: it answers as the saved one, and whatever is wrong with it is said."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato import InputError, PrivateKDE, ReleaseFileError
from sfumato.kernels import Gaussian
from sfumato.learn import DensityClassifier, files
from sfumato.privacy.guarantee import Guarantee
from sfumato.release import format as container

from .conftest import CLASSES, texts

POINTS, LABELS = texts(1500, 1)
TESTS, _ = texts(100, 2)
SEEDED: dict[str, Any] = {"epsilon": 1, "classes": CLASSES, "n_hint": 1500, "random_state": 3, "feature_seed": 4}


@pytest.fixture(scope="module")
def content() -> bytes:
    return DensityClassifier(**SEEDED, rule="highest-density").fit(POINTS, LABELS).to_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"priors": "private"},
        {"priors": [0.2, 0.3, 0.5], "kernel": Gaussian(1.0), "delta": 1e-6},
        {"rule": "nearest-mean", "bandwidth": 1.5},
        {"center": "private", "delta": 1e-6, "rule": "nearest-mean"},
        {"center": POINTS.mean(axis=0), "bounds": (-1, 1)},
        {"rule": "linear", "delta": 1e-6},
        {"rule": "linear", "delta": 1e-6, "center": "none", "bounds": (-0.5, 0.5), "options": {"steps": 3}},
        {"rule": "squared-distance", "options": {"projections": 12}},
        {"kernel": Gaussian(1.0), "landmarks": texts(60, 9)[0], "options": {"n_features": 8}},
    ],
    ids=[
        "plain",
        "private priors",
        "gaussian",
        "nearest-mean",
        "bought centre",
        "public centre",
        "linear",
        "linear, no centre",
        "squared-distance",
        "landmarks",
    ],
)
def test_a_loaded_classifier_answers_as_the_saved_one(arguments: dict[str, Any], tmp_path: Path) -> None:
    model = DensityClassifier(**{**SEEDED, **arguments}).fit(POINTS, LABELS)
    model.save(tmp_path / "texts.sfm")
    loaded = DensityClassifier.load(tmp_path / "texts.sfm")
    assert np.array_equal(loaded.decision_function(TESTS), model.decision_function(TESTS))
    assert np.array_equal(loaded.predict_proba(TESTS), model.predict_proba(TESTS))
    assert np.array_equal(loaded.predict(TESTS), model.predict(TESTS))
    assert loaded.guarantee_ == model.guarantee_ and loaded.rule_ == loaded.rule == model.rule_
    assert loaded.to_bytes() == model.to_bytes()


def test_shared_features_are_stored_once(tmp_path: Path) -> None:
    settings = {**SEEDED, "kernel": Gaussian(1.0), "landmarks": texts(200, 9)[0], "options": {"n_features": 8}}
    model = DensityClassifier(**settings).fit(POINTS, LABELS)
    assert len(model.to_bytes()) < 1.2 * len(model.releases_["art"].to_bytes())


@pytest.mark.parametrize("labels", [[1, 2], [0.5, 1.5], [False, True], ["b", "a"]])
def test_classes_keep_their_type(labels: list[Any], tmp_path: Path) -> None:
    codes = np.array(labels)[np.arange(1500) % 2]
    model = DensityClassifier(**{**SEEDED, "classes": labels}).fit(POINTS, codes)
    model.save(tmp_path / "texts.sfm")
    assert DensityClassifier.load(tmp_path / "texts.sfm").predict(TESTS).dtype == model.predict(TESTS).dtype


def test_a_name_that_is_taken_is_kept_and_the_next_one_used(tmp_path: Path) -> None:
    model = DensityClassifier(**SEEDED).fit(POINTS, LABELS)
    model.save(tmp_path / "texts.sfm")
    with pytest.warns(UserWarning, match="exists already"):
        assert model.save(tmp_path / "texts.sfm") == tmp_path / "texts-2.sfm"
    assert model.save(tmp_path / "texts.sfm", overwrite=True) == tmp_path / "texts.sfm"


def test_releases_and_classifiers_are_told_apart(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "texts.sfm").write_bytes(content)
    DensityClassifier.load(tmp_path / "texts.sfm").releases_["art"].save(tmp_path / "art.sfm")
    with pytest.raises(ReleaseFileError, match="no classifier: read it with sfumato.load"):
        DensityClassifier.load(tmp_path / "art.sfm")
    with pytest.raises(ReleaseFileError, match="holds a classifier: read it with sfumato.learn.DensityClassifier.load"):
        sfumato.load(tmp_path / "texts.sfm")


def altered(content: bytes, change: Any) -> bytes:
    header, arrays = container.decode(content)
    change(header, arrays)
    return container.encode(header, arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header, arrays: header["classifier"].update(rule="magic"), "rule must be one of"),
        (lambda header, arrays: header["classifier"].update(rule="squared-distance"), "reads projected squares"),
        (lambda header, arrays: header["classifier"].update(priors=[1.0]), "priors must be 3 numbers"),
        (lambda header, arrays: header["classifier"].update(together="magic"), "together must be one of"),
        (lambda header, arrays: header["classifier"].update(classes=["art", "law"]), "one release for each"),
        (lambda header, arrays: header["classifier"].update(classes=["law", "art", "sea"]), "in their order"),
        (lambda header, arrays: header["classifier"].update(classes=[None, "a", "b"]), "text or numbers"),
        (lambda header, arrays: header["classifier"].pop("classes"), "does not describe a classifier"),
        (lambda header, arrays: header["each"].append({}), "one release for each"),
        (lambda header, arrays: header["each"][1].update(count={"value": "1"}), "does not describe a release"),
        (lambda header, arrays: arrays.update({"7:values": arrays["0:values"]}), "'7:values' that nothing reads"),
        (lambda header, arrays: arrays.update({"0:values": arrays["0:values"][:-1]}), "30 columns and holds 29 sums"),
        (lambda header, arrays: arrays.pop("0:values"), "class .art.: the header does not describe a release"),
    ],
)
def test_a_file_that_is_no_classifier_is_refused(content: bytes, tmp_path: Path, change: Any, message: str) -> None:
    (tmp_path / "texts.sfm").write_bytes(altered(content, change))
    with pytest.raises(ReleaseFileError, match=message):
        DensityClassifier.load(tmp_path / "texts.sfm")


def test_every_cut_and_every_flipped_byte_is_found(content: bytes, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    for _ in range(60):
        position = int(random.integers(len(content)))
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(random.integers(8))
        for data in (bytes(damaged), content[:position]):
            (tmp_path / "texts.sfm").write_bytes(data)
            with pytest.raises(ReleaseFileError):
                DensityClassifier.load(tmp_path / "texts.sfm")


def test_the_weakest_promise_of_the_classes_is_stated() -> None:
    model = DensityClassifier(**{**SEEDED, "random_state": None}).fit(POINTS, LABELS)
    weak = DensityClassifier(**{**SEEDED, "epsilon": 50}).fit(POINTS, LABELS)
    mixed = {**model.releases_, CLASSES[1]: weak.releases_[CLASSES[1]]}
    made = DensityClassifier.of(mixed, disjoint=True)
    assert made.guarantee_.epsilon == 50 and not made.guarantee_.private
    assert "the weakest of them is stated" in made.guarantee_.conditions[-1]


def test_promises_add_up_unless_the_records_are_declared_disjoint(tmp_path: Path) -> None:
    """Two releases of the same records: what is promised to a record is what both together cost."""
    settings: dict[str, Any] = {"bandwidth": 1.0, "epsilon": 1, "delta": 1e-6, "n_hint": 1500, "bounds": (-2, 2)}
    settings["method"] = "fourier-gaussian"  # which spends its delta
    releases = {name: PrivateKDE(**settings).fit(POINTS[:, :2]).release_ for name in ("first", "second")}
    shared, disjoint = DensityClassifier.of(releases), DensityClassifier.of(releases, disjoint=True)
    assert (shared.guarantee_.epsilon, shared.guarantee_.delta) == (2, 2e-6)
    assert "a record may be in the data of all 2 classes, whose promises add up" in shared.guarantee_.conditions
    assert (disjoint.guarantee_.epsilon, disjoint.guarantee_.delta) == (1, 1e-6)
    assert "as declared by whoever put the releases together" in disjoint.guarantee_.conditions[-1]
    for number, model in enumerate((shared, disjoint)):
        assert model.epsilon == model.guarantee_.epsilon and model.guarantee_.private
        model.save(tmp_path / f"{number}.sfm")
        assert DensityClassifier.load(tmp_path / f"{number}.sfm").guarantee_ == model.guarantee_
    with pytest.raises(InputError, match="disjoint must be True or False"):
        DensityClassifier.of(releases, disjoint="yes")  # type: ignore[arg-type]


def test_a_promise_too_large_to_be_stated_is_refused() -> None:
    releases = DensityClassifier(**{**SEEDED, "epsilon": 400}).fit(POINTS, LABELS).releases_
    assert DensityClassifier.of(releases, disjoint=True).guarantee_.epsilon == 400
    with pytest.raises(InputError, match="add up to epsilon = 1200.*disjoint=True"):
        DensityClassifier.of(releases)


def test_releases_of_one_fit_are_not_taken_for_disjoint_unasked() -> None:
    model = DensityClassifier(**SEEDED).fit(POINTS, LABELS)
    assert model.guarantee_.epsilon == 1 and DensityClassifier.of(model.releases_).guarantee_.epsilon == 3


def test_files_of_the_first_version_promise_what_they_can(content: bytes, tmp_path: Path) -> None:
    """They do not say how promises make up one: `fit` is known by its conditions, others add up."""
    first = altered(content, lambda header, arrays: header["classifier"].pop("together"))
    (tmp_path / "fitted.sfm").write_bytes(first)
    loaded = DensityClassifier.load(tmp_path / "fitted.sfm")
    assert loaded.guarantee_ == DensityClassifier(**SEEDED).fit(POINTS, LABELS).guarantee_

    def put_together(header: Any, arrays: Any) -> None:
        header["classifier"].pop("together")
        header["release"]["guarantee"]["conditions"] = []

    (tmp_path / "other.sfm").write_bytes(altered(content, put_together))
    assert DensityClassifier.load(tmp_path / "other.sfm").guarantee_.epsilon == 3


def test_promises_about_different_changes_are_not_mixed() -> None:
    releases = DensityClassifier(**SEEDED).fit(POINTS, LABELS).releases_
    other = releases[CLASSES[1]]
    near = replace(other, guarantee=replace(other.guarantee, within="points within a distance of 0.1"))
    for disjoint in (False, True):
        with pytest.raises(InputError, match="the same changes"):
            DensityClassifier.of({**releases, CLASSES[1]: near}, disjoint=disjoint)


def test_promises_of_different_kinds_are_not_mixed() -> None:
    releases = DensityClassifier(**SEEDED).fit(POINTS, LABELS).releases_
    other = releases[CLASSES[0]]
    public = replace(other, guarantee=replace(other.guarantee, neighbours="replace", n_public=True))
    with pytest.raises(InputError, match="one trust model, unit and neighbouring relation"):
        DensityClassifier.of({**releases, CLASSES[0]: public})


def test_promises_of_classes_add_up_unless_a_record_is_in_one_of_them() -> None:
    parts = [
        Guarantee(trust="central", neighbours="add-remove", unit="record", epsilon=Fraction(each)) for each in (1, 2)
    ]
    assert files.common_guarantee(parts, files.SHARED).epsilon == 3
    assert files.common_guarantee(parts, files.BY_LABEL).epsilon == 2
    assert files.common_guarantee(parts[:1], files.SHARED) == parts[0]
    other = Guarantee(trust="local", neighbours="replace", unit="record", epsilon=Fraction(1), n_public=True)
    with pytest.raises(InputError, match="one trust model"):
        files.common_guarantee([parts[0], other], files.SHARED)
