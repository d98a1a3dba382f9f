"""`sfumato inspect` and `sfumato verify`: what they tell, and that damage is found."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import sfumato
from sfumato.errors import ReleaseFileError
from sfumato.release.format import decode, encode

from .conftest import QUICK, Run, plain


def test_inspect_tells_everything_public(run: Run, released: Path) -> None:
    result = run("inspect", released)
    assert result.exit_code == 0
    release, text = sfumato.load(released), plain(result.stdout)
    for fact in (str(release.guarantee), repr(release.kernel), release.method, "lon, lat", plain(release.statement())):
        assert fact in text


def test_inspect_json_is_the_description_with_the_counts_interval(run: Run, released: Path) -> None:
    document = json.loads(run("inspect", released, "--json").stdout)
    description = sfumato.load(released).describe()
    assert {name: document[name] for name in description} == json.loads(json.dumps(description))
    low, high = document["count_interval_95"]
    # Laplace noise exceeds ln(20) / sqrt(2) = 2.118 standard deviations with a probability of 5 %.
    assert 0 <= low < description["count"]["value"] < high
    assert (high - low) / 2 == pytest.approx(2.118 * description["count"]["variance"] ** 0.5, abs=1)


def test_verify_says_intact_and_the_guarantee(run: Run, released: Path) -> None:
    text = plain(run("verify", released).stdout)
    assert text.startswith("intact")
    assert str(sfumato.load(released).guarantee) in text
    document = json.loads(run("verify", released, "--json").stdout)
    assert document["intact"] is True
    assert document["bytes"] == released.stat().st_size


def damaged(content: bytes, how: str) -> bytes:
    if how == "flipped":
        return content[:-100] + bytes([content[-100] ^ 1]) + content[-99:]
    if how == "cut":
        return content[:-50]
    if how == "newer":
        return content[:8] + (99).to_bytes(4, "little") + content[12:]
    return b"lon,lat\n1,2\n"


@pytest.mark.parametrize("command", ["verify", "inspect", "query"])
@pytest.mark.parametrize(
    ("how", "message"),
    [("flipped", "damaged"), ("cut", "damaged"), ("newer", "newer version"), ("another kind", "not a release")],
)
def test_damage_is_exit_code_4(run: Run, released: Path, tmp_path: Path, command: str, how: str, message: str) -> None:
    path = tmp_path / "bad.sfm"
    path.write_bytes(damaged(released.read_bytes(), how))
    result = run(command, path, *(["--at", "0,0"] if command == "query" else []))
    assert result.exit_code == 4
    assert message in plain(result.stderr)
    assert result.stdout == ""


def test_verify_json_tells_damage_too(run: Run, released: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.sfm"
    path.write_bytes(damaged(released.read_bytes(), "cut"))
    result = run("verify", path, "--json")
    assert result.exit_code == 4
    document = json.loads(result.stdout)
    assert document["intact"] is False
    assert "damaged" in document["problem"]


def altered(header: dict[str, Any], where: str, value: Any) -> dict[str, Any]:
    """Set one entry by its path."""
    made = copy.deepcopy(header)
    *path, last = where.split(".")
    inner = made
    for name in path:
        inner = inner[name]
    inner[last] = value
    return made


HOSTILE: list[tuple[str, Any]] = [
    ("quantizer.phases.terms", 2**27),
    ("quantizer.phases.bits", 0),
    ("quantizer.phases.exponents", []),
    ("quantizer.phases.fingerprint", "0" * 64),
    ("quantizer.phases.box", {"lower": [], "upper": [], "outside": "clip", "declared": True}),
    ("kernel.bandwidth", 1e308),
    ("noise", {"law": "none"}),
    ("groups", 0),
    ("count.variance", -1.0),
    ("guarantee.epsilon", "1/0"),
    ("columns", ["lon"]),
    ("columns", []),
]


@pytest.mark.parametrize(("where", "value"), HOSTILE)
def test_verify_refuses_what_load_refuses(run: Run, released: Path, tmp_path: Path, where: str, value: Any) -> None:
    """The checksum is right, and a header says something impossible: no command takes it for a release."""
    header, arrays = decode(released)
    path = tmp_path / "hostile.sfm"
    path.write_bytes(encode(altered(header, where, value), arrays))
    with pytest.raises(ReleaseFileError) as refused:
        sfumato.load(path)
    result = run("verify", path, "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout) == {"release": str(path), "intact": False, "problem": str(refused.value)}


@pytest.mark.parametrize("command", ["verify", "inspect"])
def test_a_missing_file_is_wrong_input(run: Run, tmp_path: Path, command: str) -> None:
    result = run(command, tmp_path / "none.sfm")
    assert result.exit_code == 2
    assert "there is no file" in plain(result.stderr)


@pytest.mark.parametrize("command", ["verify", "inspect", "query"])
def test_a_seeded_release_is_called_not_private(run: Run, files: dict[str, Path], tmp_path: Path, command: str) -> None:
    path = tmp_path / "seeded.sfm"
    flags = ("--bandwidth", "1", "--epsilon", "1", "--seed-noise-not-private", "1", *QUICK)
    run("release", files["csv"], "-o", path, *flags)
    result = run(command, path, *(["--at", "0,0"] if command == "query" else []))
    assert result.exit_code == 0
    assert "NOT PRIVATE" in result.stderr


CLASSIFIERS = sorted((Path(__file__).parents[1] / "corpus/golden/classifier").glob("*.sfm"))


@pytest.mark.parametrize("path", CLASSIFIERS, ids=lambda path: path.stem)
def test_classifiers_are_inspected_and_verified(run: Run, path: Path, tmp_path: Path) -> None:
    assert "classes" in plain(run("inspect", path).stdout)
    document = json.loads(run("inspect", path, "--json").stdout)
    assert document["classes"] and document["guarantee"]["epsilon"]
    assert json.loads(run("verify", path, "--json").stdout)["intact"] is True
    header, arrays = decode(path)
    header["classifier"]["rule"] = "no rule"
    (tmp_path / "odd.sfm").write_bytes(encode(header, arrays))
    assert run("verify", tmp_path / "odd.sfm").exit_code == 4
