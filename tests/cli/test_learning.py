"""`sfumato classify`, `decode` and `select`: the library's answers, one charge, and what they refuse."""

from __future__ import annotations

import io
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato.learn import DensityClassifier, decode, select

from .conftest import Run, plain

CLASSES = ["east", "north", "west"]
RANDOM = np.random.default_rng(1)
LABELS = np.array(CLASSES)[np.arange(900) % 3]
MIDDLES = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])[np.arange(900) % 3]
POINTS = MIDDLES + 0.3 * RANDOM.normal(size=(900, 2))
POINTS /= np.linalg.norm(POINTS, axis=1, keepdims=True)
ARGUMENTS = ("--columns", "x,y", "--label-column", "side", "--classes", "west,east,north", "--n-hint", 900)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labelled points, a vocabulary with its words, and a pool."""
    folder = tmp_path_factory.mktemp("learning")
    table = pa.table({"x": POINTS[:, 0], "y": POINTS[:, 1], "side": LABELS, "note": ["-"] * 900})
    pq.write_table(table, folder / "points.parquet")
    pyarrow.csv.write_csv(table, folder / "points.csv")
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    words = pa.table({"word": [f"at {i}h" for i in range(24)], "x": np.cos(angles), "y": np.sin(angles)})
    pq.write_table(words, folder / "words.parquet")
    pyarrow.csv.write_csv(words, folder / "words.csv")
    np.save(folder / "words.npy", np.column_stack([np.cos(angles), np.sin(angles)]))
    (folder / "words.txt").write_text("\n".join(f"at {i}h" for i in range(24)))
    pool = RANDOM.normal(size=(3000, 2))
    rows = {"id": [f"row {i}" for i in range(3000)], "x": pool[:, 0], "y": pool[:, 1]}
    pq.write_table(pa.table(rows), folder / "pool.parquet", row_group_size=500)
    return folder


@pytest.fixture(scope="module")
def classifier(folder: Path) -> Path:
    model = DensityClassifier(epsilon=5, classes=CLASSES, n_hint=900, random_state=1, feature_seed=1)
    model.fit(pa.table({"x": POINTS[:, 0], "y": POINTS[:, 1]}), LABELS).save(folder / "sides.sfm")
    model.releases_["east"].save(folder / "east.sfm")
    return folder / "sides.sfm"


def table(text: str) -> pa.Table:
    return pyarrow.csv.read_csv(io.BytesIO(text.encode()))


class TestClassify:
    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    def test_fit_is_the_librarys_and_charges_once(self, run: Run, folder: Path, tmp_path: Path, kind: str) -> None:
        target = tmp_path / "sides.sfm"
        result = run("classify", "fit", folder / f"points.{kind}", "-o", target, *ARGUMENTS, "--epsilon", 2)
        assert result.exit_code == 0, result.output
        model = DensityClassifier.load(target)
        assert list(model.classes_) == CLASSES and model.guarantee_.epsilon == 2 and model.guarantee_.private
        assert (model.predict(POINTS) == LABELS).mean() > 0.9
        assert str(model.guarantee_) in plain(result.stdout)
        spent = json.loads(run("ledger", "show", folder / f"points.{kind}", "--json").stdout)
        charged = [(charge["mechanism"], Fraction(charge["epsilon"])) for charge in spent["charges"]]
        assert charged == [("classifier/count", Fraction(1, 10)), ("classifier/inner-product", Fraction(19, 10))]

    def test_every_option_reaches_the_classifier(self, run: Run, folder: Path, tmp_path: Path) -> None:
        seeds = ("--feature-seed", 4, "--seed-noise-not-private", 3)
        options = ("--rule", "squared-distance", "--option", "clip=1", "--bandwidth", 2, "--delta", 1e-6)
        target = tmp_path / "sides.sfm"
        result = run(
            "classify", "fit", folder / "points.parquet", "-o", target, *ARGUMENTS, "--epsilon", 1, *seeds, *options,
            "--json",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        expected = DensityClassifier(
            epsilon=1, delta=1e-6, classes=CLASSES, n_hint=900, bandwidth=2.0, rule="squared-distance",
            options={"clip": 1}, feature_seed=4, random_state=3,
        ).fit(pa.table({"x": POINTS[:, 0], "y": POINTS[:, 1]}), LABELS)  # fmt: skip
        assert target.read_bytes() == expected.to_bytes()
        document = json.loads(result.stdout)
        assert document["rule"] == "squared-distance" and set(document["classes"]) == set(CLASSES)
        assert document["guarantee"]["private"] is False and "NOT PRIVATE" in result.stderr
        assert document["ledger"] is None

    @pytest.mark.parametrize("center", ["auto", "none", "0.1,0"])
    def test_a_linear_classifier_is_fitted_and_has_no_densities(
        self, run: Run, folder: Path, tmp_path: Path, center: str
    ) -> None:
        target, data = tmp_path / "sides.sfm", folder / "points.csv"
        budget = ("--epsilon", 1, "--delta", 1e-6, "--rule", "linear", "--center", center)
        result = run("classify", "fit", data, "-o", target, *ARGUMENTS, *budget, "--json")
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        assert document["rule"] == "linear" and set(document["classes"]) == set(CLASSES)
        assert (DensityClassifier.load(target).predict(POINTS) == LABELS).mean() > 0.9
        answers = json.loads(run("classify", "predict", target, data, "--columns", "x,y", "--json").stdout)
        assert np.mean(np.array(answers["class"]) == LABELS) > 0.9
        spent = json.loads(run("ledger", "show", data, "--json").stdout)
        assert [charge["mechanism"] for charge in spent["charges"]] == ["classifier/linear"]

    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    def test_predict_is_the_librarys(self, run: Run, folder: Path, classifier: Path, tmp_path: Path, kind: str) -> None:
        target = tmp_path / f"answers.{kind}"
        arguments = ("classify", "predict", classifier, folder / "points.parquet", "--columns", "x,y", "--shares")
        assert run(*arguments, "-o", target).exit_code == 0
        read = pq.read_table(target) if kind == "parquet" else pyarrow.csv.read_csv(target)
        model = DensityClassifier.load(classifier)
        frame = pa.table({"x": POINTS[:, 0], "y": POINTS[:, 1]}).to_pandas()
        assert read["class"].to_pylist() == model.predict(frame).tolist()
        shares = np.column_stack([read[f"share {name}"].to_numpy() for name in CLASSES])
        assert np.allclose(shares, model.predict_proba(frame))

    def test_a_point_that_is_no_number_has_no_class(self, run: Run, classifier: Path, tmp_path: Path) -> None:
        (tmp_path / "two.csv").write_text("x,y\n1,0\n,1\n")
        document = json.loads(run("classify", "predict", classifier, tmp_path / "two.csv", "--json").stdout)
        assert document["class"] == ["east", None]
        result = run("classify", "predict", classifier, tmp_path / "two.csv")
        assert table(result.stdout)["class"].to_pylist()[0] == "east"

    @pytest.mark.parametrize("flag", ["--label-column", "--classes", "--n-hint"])
    def test_what_is_missing_is_named(self, run: Run, folder: Path, tmp_path: Path, flag: str) -> None:
        place = ARGUMENTS.index(flag)
        rest = [*ARGUMENTS[:place], *ARGUMENTS[place + 2 :]]
        result = run("classify", "fit", folder / "points.csv", "-o", tmp_path / "s.sfm", *rest, "--epsilon", 1)
        assert result.exit_code == 2 and f"{flag}" in plain(result.stderr) and "is missing" in result.stderr
        assert not list(tmp_path.glob("*.sfm"))

    @pytest.mark.parametrize(
        ("extra", "message"),
        [
            (["--epsilon", "0"], "epsilon must be"),
            ([], "--epsilon E is missing"),
            (
                ["--epsilon", "1", "--rule", "nearest-mean", "--kernel", "gaussian", "--bandwidth", "1"],
                "compares means",
            ),
            (["--epsilon", "1", "--priors", "private", "--rule", "squared-distance"], "priors are for rule"),
            (["--epsilon", "1", "--label-column", "town"], "no column 'town'"),
            (["--epsilon", "1", "--classes", "a,,b"], "--classes must be names"),
        ],
    )
    def test_refusals_cost_nothing(
        self, run: Run, folder: Path, tmp_path: Path, extra: list[str], message: str, ledger_path: Path
    ) -> None:
        result = run("classify", "fit", folder / "points.csv", "-o", tmp_path / "s.sfm", *ARGUMENTS, *extra)
        assert result.exit_code == 2 and message in plain(result.stderr)
        assert not (tmp_path / "s.sfm").exists() and not ledger_path.exists()

    def test_a_file_that_is_no_classifier_is_refused(self, run: Run, folder: Path, classifier: Path) -> None:
        result = run("classify", "predict", folder / "east.sfm", folder / "points.csv")
        assert result.exit_code == 4 and "no classifier" in result.stderr
        result = run("query", classifier, "--at", "1,0")
        assert result.exit_code == 4 and "holds a classifier" in plain(result.stderr)

    def test_what_keeps_nothing_is_refused_before_the_charge(self, run: Run, folder: Path, ledger_path: Path) -> None:
        result = run("classify", "fit", folder / "points.csv", "-o", "/dev/full", *ARGUMENTS, "--epsilon", 1)
        assert result.exit_code == 2 and "keeps nothing of what is paid for" in plain(result.stderr)
        assert not ledger_path.exists()


class TestDecode:
    @pytest.mark.parametrize(
        "words",
        [
            ("words.parquet", "--word-column", "word"),
            ("words.csv", "--word-column", "word"),
            ("words.npy", "--words", "words.txt"),
        ],
    )
    def test_words_are_the_librarys(self, run: Run, folder: Path, classifier: Path, words: tuple[str, ...]) -> None:
        files = [folder / part if "." in part else part for part in words]
        document = json.loads(run("decode", classifier, *files, "--top", 3, "--json").stdout)
        texts = (folder / "words.txt").read_text().splitlines()
        for name, release in DensityClassifier.load(classifier).releases_.items():
            expected = decode(release, folder / "words.npy", texts, top=3)
            assert [word["word"] for word in document["words"][name]] == [word.word for word in expected]
            assert [word["std"] for word in document["words"][name]] == [word.std for word in expected]

    def test_one_class_or_one_release_on_the_screen(self, run: Run, folder: Path, classifier: Path) -> None:
        words = (folder / "words.parquet", "--word-column", "word", "--top", 2)
        chosen = run("decode", classifier, *words, "--class", "east").stdout
        assert "east" in chosen and "north" not in chosen and "at 0h" in chosen
        lines = run("decode", folder / "east.sfm", *words).stdout.splitlines()
        assert lines[-1].split()[:2] == chosen.splitlines()[-1].split()[:2]

    def test_noise_is_marked(self, run: Run, folder: Path, tmp_path: Path) -> None:
        model = DensityClassifier(epsilon="0.05", classes=["a"], n_hint=900, random_state=1)
        model.fit(POINTS, ["a"] * 900).releases_["a"].save(tmp_path / "a.sfm")
        result = run("decode", tmp_path / "a.sfm", folder / "words.parquet", "--word-column", "word")
        assert result.stdout.count("may be noise") == 10

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["words.parquet"], "the words are missing"),
            (["words.npy", "--word-column", "0"], "pass --words"),
            (["words.parquet", "--word-column", "term"], "no column 'term'"),
            (["words.npy", "--words", "none.txt"], "there is no file"),
            (["words.parquet", "--word-column", "word", "--class", "south"], "no class 'south'"),
        ],
    )
    def test_refusals(
        self, run: Run, folder: Path, classifier: Path, arguments: list[str], message: str, monkeypatch: Any
    ) -> None:
        monkeypatch.chdir(folder)
        result = run("decode", classifier, *arguments)
        assert result.exit_code == 2 and message in plain(result.stderr)


class TestSelect:
    @pytest.mark.parametrize("size", [("-k", 30), ("--share", 0.01)])
    def test_rows_are_the_librarys(self, run: Run, folder: Path, size: tuple[Any, ...], tmp_path: Path) -> None:
        self.released(folder)
        expected = select(sfumato.load(folder / "crowd.sfm"), folder / "pool.parquet", 30, columns=["x", "y"])
        result = run("select", folder / "crowd.sfm", folder / "pool.parquet", "--columns", "x,y", *size)
        assert result.exit_code == 0, result.output
        rows = table(result.stdout)
        assert rows["position"].to_pylist() == expected.positions.tolist()
        assert np.allclose(rows["score"].to_numpy(), expected.scores)

    def released(self, folder: Path) -> None:
        path = folder / "crowd.sfm"
        if not path.exists():
            model = sfumato.PrivateKDE(bandwidth=1.0, epsilon=2, n_hint=900, random_state=1, feature_seed=1)
            model.fit(POINTS).release_.save(path)

    def test_chosen_rows_are_copied_with_their_scores(self, run: Run, folder: Path, tmp_path: Path) -> None:
        self.released(folder)
        arguments = ("select", folder / "crowd.sfm", folder / "pool.parquet", "--columns", "x,y", "-k", 50)
        document = json.loads(run(*arguments, "--json").stdout)
        result = run(*arguments, "--rows", "-o", tmp_path / "chosen.parquet")
        assert result.exit_code == 0, result.output
        rows = pq.read_table(tmp_path / "chosen.parquet")
        assert rows.column_names == ["id", "x", "y", "score"]
        scores = dict(zip(document["position"], document["score"], strict=True))
        assert rows["id"].to_pylist() == [f"row {i}" for i in sorted(scores)]
        assert rows["score"].to_pylist() == [scores[i] for i in sorted(scores)]

    def test_samples_follow_the_seed_and_classes_can_be_chosen(self, run: Run, folder: Path, classifier: Path) -> None:
        pool = (folder / "pool.parquet", "--columns", "x,y", "-k", 20, "--json")
        first, second, other = (
            json.loads(run("select", classifier, *pool, "--class", "west", "--sample", "--seed", seed).stdout)
            for seed in (1, 1, 2)
        )
        assert first == second and first["position"] != other["position"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["pool.parquet"], "how many rows?"),
            (["pool.parquet", "-k", "5", "--share", "0.1"], "one of them"),
            (["pool.parquet", "--share", "1.5"], "--share must lie between 0 and 1"),
            (["pool.parquet", "-k", "5", "--columns", "x,y"], "pass --class with one of east, north, west"),
            (["pool.parquet", "-k", "5", "--columns", "x", "--class", "east"], "1 columns and the release has 2"),
            (["words.csv", "-k", "5", "--rows", "-o", "out.csv"], "--rows copies rows of a .parquet pool"),
            (["pool.parquet", "-k", "5", "-o", "out.npy"], ".csv or .parquet"),
        ],
    )
    def test_refusals(
        self, run: Run, folder: Path, classifier: Path, arguments: list[str], message: str, monkeypatch: Any
    ) -> None:
        monkeypatch.chdir(folder)
        result = run("select", classifier, *arguments)
        assert result.exit_code == 2 and message in plain(result.stderr)


def test_messages_name_flags_that_there_are(run: Run, folder: Path, tmp_path: Path, released: Path) -> None:
    data, semicolons = folder / "points.csv", tmp_path / "semicolons.csv"
    semicolons.write_text("x;y\n1,5;2,5\n")
    fit = ("classify", "fit", data, "-o", tmp_path / "no.sfm", *ARGUMENTS, "--epsilon", 1)
    assert "Pass --label-column with these" in plain(run(*fit, "--label-column", "none").stderr)
    check = ("check", data, "--classes", "east,west", "--label-column", "none")
    assert "Pass --label-column with these" in plain(run(*check).stderr)
    decoded = run("decode", released, data, "--word-column", "none")
    assert "Pass --word-column with these" in plain(decoded.stderr) and "damaged" not in decoded.stderr
    told = plain(run("select", released, semicolons, "-k", 1).stderr)
    assert "(This command has no --separator and no --decimal.)" in told
    assert "This command has no" not in run("query", released, semicolons).stderr
    pools = (tmp_path / "*.parquet", tmp_path / "folder.parquet")
    pools[1].mkdir()
    pq.write_table(pa.table({"x": [0.0], "y": [1.0]}), pools[1] / "one.parquet")
    for pool in pools:
        result = run("select", released, pool, "-k", 1, "--rows", "-o", tmp_path / "rows.parquet")
        assert "--rows copies rows of a .parquet pool to a file: pass one such file" in plain(result.stderr)


def test_public_points_are_read_with_the_marks_of_the_records(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"{number % 10},5;{number % 5},25\n" for number in range(400))
    (tmp_path / "points.csv").write_text(f"x;y\n{rows}")
    (tmp_path / "commas.csv").write_text("x,y\n" + "1.5,2.5\n4.5,0.5\n" * 4)
    marks = ("--separator", ";", "--decimal", ",", "--bounds", "0,10", "--bandwidth", 2, "--method", "landmarks")
    for number, public in enumerate(("points.csv", "commas.csv")):
        out = tmp_path / f"out{number}.sfm"
        terms = ("--epsilon", 1, "--n-hint", 400, "--landmarks", tmp_path / public, "-o", out, "--no-ledger")
        result = run("release", tmp_path / "points.csv", *marks, *terms)
        assert result.exit_code == 0, result.output


def test_too_little_memory_is_an_error(
    run: Run, released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def large(*points: object) -> None:
        raise MemoryError

    monkeypatch.setattr("sfumato.maps.sampling.quality", large)
    result = run("sample", released, "-k", 10, "--extent", "-3,3", "-o", tmp_path / "points.csv")
    assert result.exit_code == 1 and "not enough memory" in result.stderr


def test_columns_are_found_by_their_names(run: Run, tmp_path: Path) -> None:
    """Points with the release's columns in another order are the same points; other names are told of."""
    points = np.random.default_rng(0).normal([3.0, 7.0], 0.5, size=(900, 2))
    model = sfumato.PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=900, bounds=(0, 10)).fit(
        pa.table(dict(zip("xy", points.T, strict=True)))
    )
    model.release_.save(tmp_path / "points.sfm")
    (tmp_path / "pool.csv").write_text("y,x\n7,3\n3,7\n")
    (tmp_path / "other.csv").write_text("a,b\n7,3\n3,7\n")
    (tmp_path / "words.txt").write_text("here\nthere\n")
    for name, first in (("pool.csv", 0), ("other.csv", 1)):
        told = run("select", tmp_path / "points.sfm", tmp_path / name, "-k", 1)
        assert told.stdout.splitlines()[1].startswith(f"{first},")
        assert ("stand for x, y, in this order" in told.stderr) == bool(first)
        words = ("--words", tmp_path / "words.txt", "--json")
        best = json.loads(run("decode", tmp_path / "points.sfm", tmp_path / name, *words).stdout)["words"][0]
        assert best["word"] == ("here", "there")[first]
