"""Hostile files and hostile command lines: they are refused in plain words, and nothing else happens.

`SFUMATO_FUZZ_EXAMPLES` sets how many examples each test tries; `make audit` tries many more than the tests do.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import string
import struct
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from sfumato import PrivateKDE
from sfumato.cli import app
from sfumato.cli import typed as cli_typed
from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import Gaussian, InnerProduct, Laplacian, ShiftInvariant, StableExponential
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.release import Release, from_content
from sfumato.release import format as container
from sfumato.sources import open_source

EXAMPLES = int(os.environ.get("SFUMATO_FUZZ_EXAMPLES", "100"))
MOST_BYTES = 30_000_000

fuzz = settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
rarely = settings(fuzz, max_examples=max(1, EXAMPLES // 5))

POINTS = np.random.default_rng(1).normal(size=(40, 2))
OWN_KERNEL = ShiftInvariant(
    lambda u: np.exp(-np.square(u).sum(axis=-1)),
    lambda stream, count, dimension: 2**0.5 * stream.normals(count * dimension).reshape(dimension, count),
    bandwidth=1.0,
)


def _model(kernel: Any, method: str, delta: float = 0.0, landmarks: Any = None, **options: Any) -> PrivateKDE:
    return PrivateKDE(
        kernel,
        epsilon=1,
        delta=delta,
        method=method,
        bounds=(-3, 3),
        landmarks=landmarks,
        n_hint=40,
        options=options,
        feature_seed=3,
        random_state=1,
    ).fit(POINTS)


def _applies(method: str, delta: float) -> bool:
    request = Request(Gaussian(1.0), 2, Fraction(1), 40, 3, delta, bounds=(-3, 3))
    return METHODS[method].refuse(request) is None


MODELS: dict[str, Callable[[], PrivateKDE]] = {
    **{
        method: partial(_model, Gaussian(1.0), method, delta)
        for method in METHODS
        for delta in (1e-3, 0.0)
        if _applies(method, delta)
    },
    "lsq-rff": lambda: _model(Gaussian(1.0), "lsq-rff", n_features=6, groups=2),
    "fourier": lambda: _model(Laplacian([1.0, 2.0]), "fourier", n_features=6, per_group=3),
    "fourier-gaussian": lambda: _model(StableExponential(1.0, 1.5), "fourier-gaussian", delta=1e-3, n_features=4),
    "grid": lambda: _model(Gaussian(1.0), "grid", spacing=0.8),
    "landmarks": lambda: _model(Gaussian(1.0), "landmarks", landmarks=POINTS[:20], n_features=3),
    "other landmarks": lambda: _model(Laplacian(1.0), "landmarks", 1e-3, POINTS[:20], n_features=2),
    "inner-product": lambda: _model(InnerProduct(2.0), "inner-product", clip=2.5),
    "inner-product-signs": lambda: _model(InnerProduct(2.0), "inner-product-signs", n_features=4),
    "own kernel": lambda: _model(OWN_KERNEL, "fourier", n_features=6, per_group=3),
}


@cache
def content(name: str) -> bytes:
    return bytes(MODELS[name]().release_.to_bytes())


def parts(name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    header, arrays = container.decode(content(name))
    return copy.deepcopy(header), dict(arrays)


def use(release: Release) -> None:
    """What anyone may do with a release that was accepted; none of it may fail."""
    assert release.statement() and repr(release)
    json.dumps(release.describe(), allow_nan=False)
    answers, errors = release.query(np.zeros((2, release.dimension)), return_std=True)
    assert answers.shape == errors.shape == (2,)
    assert from_content(*container.decode(release.to_bytes())).describe() == release.describe()


def refused_or_sound(header: Any, arrays: Any) -> bool:
    """Read a release; tell whether it was refused. Anything but a `ReleaseFileError` fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            release = from_content(header, arrays)
        except ReleaseFileError:
            return True
        use(release)
        return False


@pytest.fixture
def bounded_memory() -> Iterator[None]:
    for name in MODELS:
        assert not refused_or_sound(*parts(name))  # what is compiled and kept on first use does not count
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


in_bounded_memory = pytest.mark.usefixtures("bounded_memory")
names = st.sampled_from(list(MODELS))

evil = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70),
    st.sampled_from([2**31, 2**53, 2**62, 2**63, 2**64, 10**12, 10**30, -(10**12), -(2**63), 10**4000]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.5, 1e308, -1e308, 5e-324, 1e-200, 44.0]),
    st.sampled_from(
        ["", "NaN", "nan", "inf", "1e999", "-1", "0", "1/0", "1/3", "9" * 5000, "clip", "\u0663", "7_0", " 7"]
    ),
    st.sampled_from(["phase", "pair", "gaussian", "custom", "disc", "cube", "discrete-laplace", "grid", "fourier"]),
    st.text(max_size=6),
    st.just([]),
    st.just({}),
    st.lists(st.integers(-5, 5), max_size=4),
    st.lists(st.lists(st.integers(-5, 5), max_size=3), max_size=3),
    st.dictionaries(st.sampled_from(["kernel", "bandwidth", "law", "rate", "value"]), st.integers(-3, 3), max_size=3),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All places inside a JSON document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield (*path, key)
        yield from places(part, (*path, key))


def altered(document: Any, path: tuple[Any, ...], change: str, value: Any) -> None:
    """Replace, remove, duplicate or wrap what is at a place; a place that is gone by now is left alone."""
    *above, key = path
    try:
        for step in above:
            document = document[step]
        if change == "replace":
            document[key] = value
        elif change == "remove":
            del document[key]
        elif change == "extend":
            document[key].append(value) if isinstance(document[key], list) else document[key].update(more=value)
        elif change == "wrap":
            document[key] = [document[key]]
        else:
            document[key] = -document[key]
    except (LookupError, TypeError, AttributeError):
        return


@in_bounded_memory
@fuzz
@given(names, st.data())
def test_altered_headers(name: str, data: st.DataObject) -> None:
    header, arrays = parts(name)
    everywhere = list(places(header))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(everywhere))
        change = data.draw(st.sampled_from(["replace", "replace", "replace", "remove", "extend", "wrap", "negate"]))
        altered(header, path, change, data.draw(evil))
    try:
        file = container.encode(header, arrays)
    except InputError:  # what JSON cannot say cannot be in a file
        return
    refused_or_sound(*container.decode(file))


@pytest.mark.parametrize("name", MODELS)
def test_no_entry_may_be_missing(name: str) -> None:
    for path in places(parts(name)[0]):
        # Parameters are for the record, lists may be shorter, and of an author's own kernel only the name is known.
        if len(path) > 1 and (path[0] in ("parameters", "kernel") or isinstance(path[-1], int)):
            continue
        header, arrays = parts(name)
        altered(header, path, "remove", None)
        assert refused_or_sound(header, arrays), path


@in_bounded_memory
@fuzz
@given(
    names,
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, 3),
    st.binary(max_size=20),
)
def test_altered_bytes_with_a_new_checksum(name: str, edits: list[tuple[int, int]], cut: int, more: bytes) -> None:
    body = bytearray(content(name)[:-32])
    for position, byte in edits:
        body[position % len(body)] = byte
    body = body[: len(body) - cut] + more
    try:
        header, arrays = container.decode(bytes(body + hashlib.sha256(body).digest()))
    except ReleaseFileError:
        return
    refused_or_sound(header, arrays)


arrays_of_any_kind = st.one_of(
    st.builds(lambda size: np.zeros(size, dtype=np.int64), st.integers(0, 20)),
    st.builds(lambda size: np.full(size, 2**63 - 1), st.integers(0, 20)),
    st.builds(lambda rows, columns: np.ones((rows, columns), dtype=np.int64), st.integers(0, 7), st.integers(0, 7)),
    st.builds(lambda rows, columns: np.full((rows, columns), -(2**62)), st.integers(0, 7), st.integers(0, 7)),
    st.builds(lambda size: np.linspace(-1e300, 1e300, size), st.integers(0, 20)),
    st.just(np.array([np.nan, np.inf])),
    st.just(np.array(7)),
)


ARRAYS = ["values", "frequencies", "offsets", "landmarks", "projection", "completion", "reference", "more"]


@in_bounded_memory
@fuzz
@given(names, st.sampled_from(ARRAYS), arrays_of_any_kind, st.booleans())
def test_altered_arrays(name: str, which: str, array: np.ndarray, fingerprint: bool) -> None:
    header, arrays = parts(name)
    arrays[which] = array
    phases = header["quantizer"].get("phases")
    if fingerprint and phases is not None and "frequencies" in arrays and "offsets" in arrays:
        both = [np.ascontiguousarray(arrays[key]).tobytes() for key in ("frequencies", "offsets")]
        phases["fingerprint"] = hashlib.sha256(b"".join(both)).hexdigest()
    refused_or_sound(*container.decode(container.encode(header, arrays)))


@pytest.mark.parametrize("name", MODELS)
def test_what_is_not_altered_is_accepted(name: str) -> None:
    assert not refused_or_sound(*parts(name))


@in_bounded_memory
def test_sizes_that_a_header_only_claims_are_refused_before_anything_is_made() -> None:
    for size in (10**7, 10**12, 2**70):
        for name, place in [
            ("fourier", ("quantizer", "phases", "terms")),
            ("lsq-rff", ("quantizer", "phases", "terms")),
            ("own kernel", ("quantizer", "phases", "terms")),
            ("fourier", ("quantizer", "per_group")),
            ("lsq-rff", ("groups",)),
            ("grid", ("quantizer", "buckets")),
        ]:
            header, arrays = parts(name)
            altered(header, place, "replace", size)
            assert refused_or_sound(header, arrays), (name, place)


@in_bounded_memory
def test_columns_times_features_are_limited() -> None:
    # The frequencies of a file are drawn from its seed: many columns times many features would fill the memory.
    header, _ = parts("lsq-rff")
    columns = terms = 40_000
    phases = header["quantizer"]["phases"]
    phases["terms"], phases["exponents"] = terms, [-10] * columns
    phases["box"].update(lower=[-3.0] * columns, upper=[3.0] * columns)
    header["columns"] = None
    assert refused_or_sound(header, {"values": np.zeros(terms, dtype=np.int64)})


text = st.text(string.digits + "+-.,;=eEinfa_ \t\n\r\"'\0/\\[]{}:\u0663\u00b2" + string.ascii_lowercase, max_size=40)
SOURCE = open_source(POINTS)


def parsed(parse: Callable[..., Any], *typed: Any) -> Any:
    """Result of a parser, None if it refuses; any other exception fails the test."""
    try:
        return parse(*typed)
    except InputError:
        return None


@fuzz
@given(text, st.sampled_from(["trips.csv", "trips.npy", "a.npz:b"]))
@example("9" * 5000, "trips.npy")
@example("\0", "trips.csv")
@example("a\rb", "trips.csv")
@example("x" * 140_000, "trips.csv")
@example('"', "trips.csv")
def test_columns(typed: str, data: str) -> None:
    columns = parsed(cli_typed.parse_columns, typed, data)
    assert columns is None or (columns and all(isinstance(name, str | int) and name != "" for name in columns))


@fuzz
@given(text)
@example("1,,2")
@example("1_0,\u0663")
def test_numbers(typed: str) -> None:
    numbers = parsed(cli_typed.parse_numbers, typed, "--at")
    assert numbers is None or all(isinstance(number, float) for number in numbers)
    assert (parsed(cli_typed.parse_bandwidth, typed) is None) == (numbers is None)


@fuzz
@given(st.lists(text | st.sampled_from(["0,1", "0=0,1", "1=0,1", "0,1;2,3", "nan,inf", "=", ";"]), max_size=3))
def test_bounds(typed: list[str]) -> None:
    bounds = parsed(cli_typed.parse_bounds, typed, SOURCE)
    assert bounds is None or np.asarray(bounds, dtype=np.float64).shape[-1] == 2


@fuzz
@given(st.lists(text | st.just("a=1"), max_size=3))
@example(["a=" + "[" * 3000])
@example(["a=" + "9" * 5000])
@example(["a=NaN"])
def test_options(typed: list[str]) -> None:
    options = parsed(cli_typed.parse_options, typed)
    assert options is None or all(isinstance(name, str) and name for name in options)


FLAGS = "bandwidth epsilon n-hint columns bounds option delta method kernel outside neighbours feature-seed threads no"
flags = st.sampled_from([f"--{flag}" for flag in FLAGS.split()])


@rarely
@given(st.dictionaries(flags, text | st.sampled_from(["1", "0.5", "a,b", "-3,3", "n_features=3", "nan", "1e-400"])))
def test_the_release_command(tmp_path: Path, options: dict[str, str]) -> None:
    data, out = tmp_path / "points.csv", tmp_path / "out.sfm"
    data.write_text("a,b\n1,2\n3,4\n", encoding="utf-8")
    given_options = {"--bandwidth": "1", "--epsilon": "1", "--n-hint": "10", "--option": "n_features=4", **options}
    flat = [part for option in given_options.items() for part in option]
    _ends_cleanly("release", str(data), "-o", str(out), "--force", "--quiet", "--no-ledger", *flat)


@rarely
@given(st.lists(text | st.sampled_from(["0,0", "1e308,1", "nan,0"]), min_size=1, max_size=2), st.booleans())
def test_the_query_command(tmp_path: Path, at: list[str], as_json: bool) -> None:
    (tmp_path / "a.sfm").write_bytes(content("fourier"))
    flat = [part for point in at for part in ("--at", point)]
    _ends_cleanly("query", str(tmp_path / "a.sfm"), *flat, *(["--json"] if as_json else []))


@rarely
@given(st.binary(max_size=200), st.sampled_from(["inspect", "verify", "query"]))
def test_commands_on_damaged_files(tmp_path: Path, tail: bytes, command: str) -> None:
    whole = content("fourier")
    (tmp_path / "a.sfm").write_bytes(whole[: len(whole) - 100] + tail)
    more = ["--at", "0,0"] if command == "query" else []
    assert _ends_cleanly(command, str(tmp_path / "a.sfm"), *more) == 4


def _ends_cleanly(*command: str) -> int:
    result = CliRunner().invoke(app, list(command))
    assert result.exception is None or isinstance(result.exception, SystemExit), (command, result.exception)
    assert result.exit_code in (0, 2, 4), (command, result.output)
    if result.exit_code:
        assert "Traceback" not in result.output
    return int(result.exit_code)


def test_lengths_in_the_first_bytes() -> None:
    whole = content("fourier")
    for length in (0, 1, 2**32, 2**63, 2**64 - 1):
        body = whole[:12] + struct.pack("<Q", length) + whole[20:-32]
        with pytest.raises(ReleaseFileError):
            container.decode(body + hashlib.sha256(body).digest())
