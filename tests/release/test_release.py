from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato import InputError, PrivateKDE, Release, ReleaseFileError
from sfumato.kernels import Distance, Gaussian, ShiftInvariant
from sfumato.privacy.laws import ReportNoise
from sfumato.public.portable import PublicStream
from sfumato.published.moments import PublishedMoments
from sfumato.published.polynomials import BernsteinQuantizer
from sfumato.quantizers import Box
from sfumato.quantizers.base import BLOCK_NUMBERS, Answer
from sfumato.release import format as container

# Nearly as many as are expected, and so many that noise which nobody seeded does not take the count, of scale 40, to
# the half at which a run stops: of 990 for 1000 it did once in 400,000 releases, and there are thirty here.
POINTS = np.random.default_rng(0).normal(size=(1990, 3))
QUERIES = np.random.default_rng(1).normal(size=(50, 3)) * 3


def _release(**arguments: Any) -> Release:
    settings = {"bandwidth": [1.0, 2.0, 0.5], "epsilon": "1/2", "n_hint": 2000}
    return PrivateKDE(**{**settings, **arguments}).fit(POINTS).release_


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "points.sfm"
    _release().save(path)
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"method": "lsq-rff", "options": {"n_features": 60, "groups": 3}},
        {"delta": 1e-6, "options": {"n_features": 40}},
        {"neighbours": "replace", "bounds": (-4, 4)},
        {"kernel": "laplacian"},
        {"random_state": 5},
    ],
    ids=str,
)
def test_a_loaded_release_answers_as_before(arguments: dict[str, Any], tmp_path: Path) -> None:
    release = _release(**arguments)
    release.save(tmp_path / "a.sfm")
    again = sfumato.load(tmp_path / "a.sfm")
    for ours, theirs in zip(
        release.query(QUERIES, return_std=True), again.query(QUERIES, return_std=True), strict=True
    ):
        assert np.array_equal(ours, theirs)
    assert again.describe() == release.describe()
    assert again.guarantee == release.guarantee
    assert repr(again) == repr(release)
    assert again.to_bytes() == release.to_bytes()


def test_the_file_holds_nothing_but_what_is_public(saved: Path) -> None:
    header, arrays = container.decode(saved)
    assert set(arrays) == {"values"}
    assert set(header) == {
        "columns", "count", "groups", "guarantee", "kernel", "method", "noise", "parameters", "quantizer",
        "sampled", "written_by",
    }  # fmt: skip
    assert len(POINTS) not in list(_numbers({**header, "count": None}))  # the published count may be right by chance


def _numbers(part: Any) -> Iterator[float]:
    """All numbers in a document."""
    if isinstance(part, dict | list):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from _numbers(inner)
    elif isinstance(part, int | float):
        yield part


def test_a_users_own_kernel_travels_with_its_frequencies(tmp_path: Path) -> None:
    def profile(differences: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(-(differences**2).sum(axis=-1)))

    def sampler(stream: PublicStream, count: int, dimension: int) -> np.ndarray:
        return np.sqrt(2) * stream.normals(count * dimension).reshape(dimension, count)

    kernel = ShiftInvariant(profile, sampler, 1.0, name="mine")
    release = _release(kernel=kernel, bandwidth=None)
    release.save(tmp_path / "own.sfm")
    again = sfumato.load(tmp_path / "own.sfm")
    assert np.array_equal(again.query(QUERIES), release.query(QUERIES))
    assert "mine" in repr(again)
    with pytest.raises(InputError, match="kernel"):
        again.log_density(QUERIES)


def test_values_cannot_be_changed() -> None:
    release = _release()
    with pytest.raises(ValueError, match="read-only"):
        release.values[0] = 1
    with pytest.raises(AttributeError):
        release.method = "other"  # type: ignore[misc]


def test_density_is_clipped_and_query_is_not() -> None:
    release = _release(epsilon="1/1000")
    answers = release.query(QUERIES)
    assert answers.min() < 0
    assert np.array_equal(release.density(QUERIES), np.clip(answers, 0, 1))


def test_log_density_is_normalised() -> None:
    release = _release(epsilon=200)
    answers, bars = release.query(POINTS[:5], return_std=True)
    expected = np.log(np.maximum(answers, bars)) - release.kernel.log_integral(3)
    assert np.allclose(release.log_density(POINTS[:5]), expected)
    assert np.isfinite(release.log_density(QUERIES * 100)).all()


def test_answers_do_not_depend_on_how_queries_are_blocked() -> None:
    release = _release()
    whole = release.query(np.tile(QUERIES, (40, 1)))
    assert np.allclose(whole.reshape(40, 50), release.query(QUERIES), rtol=0, atol=1e-12)


def test_wide_readers_answer_few_queries_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = BernsteinQuantizer(Gaussian(1.0), Box((0.0,), (1.0,)), degree=2**14 - 1, scale=1000, density=0.02)
    release = replace(_release(), kernel=reader.kernel, reader=reader, values=np.arange(reader.size))
    asked, read = [], BernsteinQuantizer.read

    def noted(self: BernsteinQuantizer, Y: np.ndarray, *known: Any) -> Answer:
        asked.append(len(Y))
        return read(self, Y, *known)

    monkeypatch.setattr(BernsteinQuantizer, "read", noted)
    queries = np.linspace(0, 1, 600)[:, None]
    whole = release.query(queries)
    assert sum(asked) == len(queries) and max(asked) * reader.size <= BLOCK_NUMBERS
    assert np.array_equal(whole[256:512], release.query(queries[256:512]))


def test_errors_that_overflow_are_infinite() -> None:
    reader = PublishedMoments(Box((0.0,), (1e-50,)), (1.0, 1.0))
    parts = {"kernel": Distance("sqeuclidean"), "reader": reader, "values": np.array([5, 100, 10])}
    release = replace(_release(), **parts, noise=ReportNoise(0.0))
    with np.errstate(over="ignore", invalid="ignore"):
        for ask in (release.query, release.total):
            answers, errors = ask(np.array([[1e60]]), return_std=True)
            assert not np.isnan(answers).any() and np.isinf(errors).all()


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (np.zeros((4, 2)), r"shape \(queries, 3\), got \(4, 2\)"),
        (np.zeros(3), r"shape \(queries, 3\), got \(3,\)"),
        ([["a", "b", "c"]], "must be numbers"),
        ([[1.0, np.nan, 0.0]], "finite"),
    ],
)
def test_bad_queries_are_named(queries: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _release().query(queries)


def test_no_queries_give_no_answers() -> None:
    assert _release().query(np.empty((0, 3))).shape == (0,)


def test_the_guarantee_is_in_every_description() -> None:
    release = _release(random_state=1)
    assert "NOT PRIVATE" in repr(release)
    assert "NOT PRIVATE" in release.statement().upper()
    private = _release()
    assert "epsilon = 0.5" in repr(private)
    assert "NOT PRIVATE" not in repr(private)


def test_existing_files_are_not_replaced_unasked(saved: Path) -> None:
    before = saved.read_bytes()
    beside = _release().save(saved)
    assert beside != saved and beside.exists()
    assert saved.read_bytes() == before
    _release().save(saved, overwrite=True)
    assert saved.read_bytes() != before


@pytest.mark.parametrize("cut", [0, 1, 20, 200, -1])
def test_truncated_files_are_refused(saved: Path, cut: int) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[:cut])
    with pytest.raises(ReleaseFileError):
        sfumato.load(saved)


def test_a_changed_byte_is_noticed(saved: Path) -> None:
    content = bytearray(saved.read_bytes())
    content[len(content) // 2] ^= 1
    saved.write_bytes(bytes(content))
    with pytest.raises(ReleaseFileError, match="checksum|damaged|changed"):
        sfumato.load(saved)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("quantizer", "phases", "terms"), 10**13),
        (("quantizer", "phases", "terms"), -1),
        (("quantizer", "radius"), 0),
        (("quantizer", "quantizer"), "wavelet"),
        (("noise", "law"), "gamma"),
        (("kernel", "bandwidth"), -1.0),
        (("guarantee", "epsilon"), "0"),
        (("count", "value"), "many"),
        (("groups",), 0),
    ],
    ids=str,
)
def test_headers_that_lie_are_refused(saved: Path, path: tuple[str, ...], value: Any) -> None:
    header, arrays = container.decode(saved)
    place = header
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    with pytest.raises(ReleaseFileError):
        sfumato.load(_write(saved, container.encode({k: v for k, v in header.items() if k != "arrays"}, arrays)))


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.exact  # no salt reaches the other process
def test_another_process_reads_the_same_answers(saved: Path) -> None:
    program = f"import sfumato, json; print(json.dumps(sfumato.load({str(saved)!r}).query([[0.1, 0.2, 0.3]]).tolist()))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == sfumato.load(saved).query([[0.1, 0.2, 0.3]]).tolist()
