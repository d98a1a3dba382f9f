"""`.sfm` files: a JSON header and arrays. Releases of every method, classifiers, sketches, parts, and commands."""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import typer
from click.testing import CliRunner

from tests.fuzz.case import Format, UnsoundError, check_numbers
from tests.fuzz.grammar import (
    REAL,
    Array,
    Grammar,
    altered_arrays,
    altered_bytes,
    at,
    named,
    odd_name,
    places,
    resized,
    scaled,
)
from tests.fuzz.library import (
    DensityClassifier,
    Part,
    PrivateDistance,
    PrivateKDE,
    RaceSketch,
    Release,
    SfumatoError,
    ShiftInvariantKernel,
    app,
    column_names,
    decode,
    encode,
    evaluate,
    fingerprints,
    from_content,
    largest_size,
    load,
    merge_parts,
    people,
    public_of_part,
    sharp_people,
)

CORPUS = Path(__file__).parents[2] / "corpus"
Content = tuple[Any, dict[str, Array]]
Seed = tuple[str, dict[str, Array]]  # the header as JSON, which is quicker to copy
CLEAR_COUNT = 3  # standard errors from zero, below which error bars are infinite
CHECKSUM_BYTES = 32
CROWD, CROWD_SHARE = 1500, 0.05  # points at once, in this share of the cases
MOST_PRODUCTS = 1 << 26  # of all these points, as the reader says it: larger releases are asked at fewer points
MANY_SHARE = 0.05  # of the alterations of a classifier
MOST_CLASS_NUMBERS = 1 << 18
MOST_DRAWN = 3  # columns of a region or a map
JOINERS = "\u200c\u200d"  # the invisible letters that `shown` lets through


class Container(Format[Any]):
    """Files of the container, with the right checksum, and mostly with the fingerprints that belong to their maps."""

    folders: tuple[str, ...] = ()

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """Read the corpus: what this version makes, and of 0.1.0 what had secret noise."""
        found = []
        for path in sorted(CORPUS.rglob("*.sfm")):
            old = "golden" not in path.parts
            if path.parent.name in self.folders and not (old and path.name.endswith(".seeded.sfm")):
                found.append((path.relative_to(CORPUS).as_posix(), decode(path)))
        self.grammar = Grammar(header for _, (header, _) in found)
        return [(name, (json.dumps(header), arrays)) for name, (header, arrays) in found]

    def copy(self, seed: Any) -> Content:
        """Return a header of its own; arrays are replaced, never written to."""
        return json.loads(seed[0]), dict(seed[1])

    def alter(self, content: Any, random: Random) -> Content:
        """Change the header, an array, or a length in both."""
        header, arrays = content
        kind = random.random()
        if kind < 0.15:
            return header, altered_arrays(arrays, random)
        if kind < 0.22:
            return resized(header, arrays, random)
        if kind < 0.26:
            return scaled(header, arrays, random)
        return self.grammar.alter(header, random), arrays

    def encode(self, content: Any, random: Random) -> bytes:
        """Write the file; what the container cannot hold is refused here."""
        header, arrays = content
        whole = encode(header if isinstance(header, dict) else {"header": header}, arrays)
        if random.random() < 0.7:
            return self._signed(header, arrays, whole)
        return whole

    def _signed(self, header: Any, arrays: dict[str, Array], whole: bytes) -> bytes:
        """State the fingerprints that reading the file computes."""
        stated = [where for where in places(header) if where and where[-1] == "fingerprint"]
        if len(stated) != 1:
            return whole
        with fingerprints() as computed:
            try:
                self.read(whole)
            except SfumatoError:
                if not computed or at(header, stated[0]) == computed[0]:
                    return whole
        if computed:
            at(header, stated[0][:-1])["fingerprint"] = computed[0]
            return encode(header, arrays)
        return whole

    def read(self, whole: bytes) -> Any:
        """Read the bytes as far as fingerprints go; nothing by default."""

    def alter_bytes(self, content: bytes, random: Random) -> bytes:
        """Change bytes, half of the time under a new checksum."""
        if random.random() < 0.5:
            return altered_bytes(content, random)
        body = altered_bytes(content[:-CHECKSUM_BYTES], random)
        return body + hashlib.sha256(body).digest()


def asked(dimension: int, random: Random) -> list[Array]:
    """A few queries: in the middle of the corpus, at zero, far away, and anywhere."""
    far = random.choice([1, -1]) * random.choice(REAL)
    near = np.array([[0.25] * dimension, [0.75] * dimension])
    return [near, np.zeros((1, dimension)), np.repeat([[far], [random.choice([1e60, -1e60])]], dimension, axis=1)]


def crowd(dimension: int, products: int, random: Random) -> Array:
    """Many queries at once, as a map asks them."""
    count = max(min(CROWD, MOST_PRODUCTS // (16 * max(products, dimension, 1))), 2)
    return np.random.default_rng(random.getrandbits(32)).uniform(-1.0, 2.0, size=(count, dimension))


def use_release(release: Release, random: Random) -> None:
    """Do what anyone may do with a release that was accepted."""
    json.dumps(release.describe(), allow_nan=False)
    assert release.statement() and repr(release)
    # Error bars are infinite where the count may be zero, and where one random term says nothing of its own spread.
    single = release.reader.terms < 2
    unclear = single or not release.count.value >= CLEAR_COUNT * math.sqrt(release.count.variance)
    questions = asked(release.dimension, random)
    if random.random() < CROWD_SHARE:
        questions.append(crowd(release.dimension, release.reader.query_products, random))
    for points in questions:
        for name, question, infinite in (("query", release.query, unclear), ("total", release.total, single)):
            try:
                answers, errors = question(points, return_std=True)
            except SfumatoError:
                continue
            check_numbers(name, answers)
            check_numbers(f"{name}'s error", errors, infinite)
            if (errors < 0).any():
                raise UnsoundError(f"{name}'s error is negative")
    with suppress(SfumatoError):  # not every release has a density, which is said and no refusal of the file
        _ask_more(release, random.randrange(6))
    with suppress(SfumatoError):
        _ask_maps(release, random)


def _ask_maps(release: Release, random: Random) -> None:
    """Draw a map or a curve, or count people in a small region, near the middle or where nobody is."""
    kind, others = random.randrange(60), range(release.dimension)
    if kind < 2 and release.dimension <= MOST_DRAWN:
        columns = list(others)[: kind + 1]
        at = {column_names(release)[column]: 0.5 for column in others if column not in columns}
        drawn = evaluate(release, size=random.choice([2, 8, 16]), extent=(0.0, 1.0), columns=columns, at=at)
        check_numbers("map", drawn.values)
        check_numbers("map's error", drawn.errors, infinite=True)
    elif kind in (2, 3) and release.dimension <= MOST_DRAWN and isinstance(release.kernel, ShiftInvariantKernel):
        # So many bandwidths wide: a region of a million bandwidths takes long, which is no news.
        place, wide = random.choice([0.0, 0.5, 0.9, 3.0]), random.choice([0.1, 0.5, 2.0])
        sides = (place, place) + np.array([0.0, wide]) * release.kernel.column_scales(release.dimension)[:, None]
        count = people if kind == 2 else sharp_people
        found = count(release, [tuple(side) for side in sides.tolist()])
        check_numbers(count.__name__, [found.value, found.std, found.lower, found.upper], infinite=True)


def _ask_more(release: Release, part: int) -> None:
    points = np.full((1, release.dimension), 0.25)
    if part == 0:
        check_numbers("bias bound", release.bias_bound(points), infinite=True)
    elif part == 1:
        check_numbers("findings", list(release.findings().values()), infinite=True)
    elif part == 2:
        check_numbers("density", release.density(points))
    elif part == 3:
        check_numbers("log density", release.log_density(points))
    elif part == 4:
        header, _ = decode(release.to_bytes())
        if json.dumps(header, sort_keys=True) != json.dumps(release.describe(), sort_keys=True):
            raise UnsoundError("what is written is not what was read")


class Releases(Container):
    """Releases of every method and trust model."""

    name = "releases"
    share = 450.0
    folders = ("central", "distances", "local", "shuffled", "sketch")

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """Leave out the raw sketch."""
        return [(name, seed) for name, seed in super().make_seeds() if not name.endswith("raw.sfm")]

    def read(self, whole: bytes) -> Any:
        """Read a release from a file in memory."""
        return from_content(*decode(whole))

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Load it and ask."""
        path = folder / "a.sfm"
        path.write_bytes(content)
        use_release(load(path), random)


class Classifiers(Container):
    """Classifiers: several releases in one file."""

    name = "classifiers"
    share = 30.0
    folders = ("classifier",)

    def alter(self, content: Any, random: Random) -> Content:
        """Change the classifier, or give it many classes."""
        header, arrays = content
        if random.random() > MANY_SHARE or not isinstance(header, dict) or "each" not in header:
            return super().alter(content, random)
        count = 1 << random.randrange(2, 13)
        names = [odd_name(random) + str(number) if random.random() < 0.01 else number for number in range(count)]
        each = header["each"] if isinstance(header["each"], list) else []
        header["classifier"] = {**header.get("classifier", {}), "classes": names}
        header["each"] = (each[:1] or [{}]) + (each[1:2] or [{}]) * (count - 1)
        firsts = {name.partition(":")[2]: array for name, array in arrays.items() if name.startswith("1:")}
        if sum(array.size for array in firsts.values()) * count <= MOST_CLASS_NUMBERS:
            more = range(2, count) if random.random() < 0.7 else ()
            arrays |= {f"{number}:{name}": array for number in more for name, array in firsts.items()}
        return header, arrays

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Load it and classify."""
        path = folder / "a.sfm"
        path.write_bytes(content)
        model = DensityClassifier.load(path)
        questions = asked(model.n_features_in_, random)
        if random.random() < CROWD_SHARE:
            questions.append(crowd(model.n_features_in_, len(model.classes_) * model.n_features_in_, random))
        for points in questions:
            try:
                check_numbers("densities", model.densities(points))
                check_numbers("decision", model.decision_function(points))
                assert len(model.predict(points)) == len(points)
                check_numbers("probabilities", model.predict_proba(points))
            except SfumatoError:
                continue
        assert repr(model) and decode(model.to_bytes())


class Sketches(Container):
    """Raw sketches."""

    name = "sketches"
    share = 40.0
    folders = ("sketch",)

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """The raw sketch alone."""
        return [(name, seed) for name, seed in super().make_seeds() if name.endswith("raw.sfm")]

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Load it, add to it, merge it, release it and ask."""
        path = folder / "a.sfm"
        path.write_bytes(content)
        sketch = RaceSketch.load(path)
        assert repr(sketch) and sketch.fingerprint
        kind = random.randrange(3)
        if kind == 0:
            sketch.add(np.full((2, sketch.quantizer.dimension), 0.25))
        elif kind == 1:
            sketch = sketch.merge(RaceSketch.load(path))
        else:
            sketch.save(folder / "b.sfm")
        use_release(sketch.release(epsilon=8, random_state=1), random)


class Parts(Container):
    """Exact sums of one site, under a request that all sites build their mechanism from."""

    name = "parts"
    share = 20.0

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """Sum the rows of two sites by several methods."""
        rows = np.random.default_rng(1).uniform(size=(40, 2))
        wanted: dict[str, Any] = {"epsilon": 4.0, "n_hint": 80, "feature_seed": 1, "bounds": (0, 1)}
        models = {method: PrivateKDE(bandwidth=0.5, method=method, **wanted) for method in ("fourier", "grid")}
        models["lattice"] = PrivateKDE(bandwidth=0.5, method="lattice", delta=1e-5, **wanted)
        models["landmarks"] = PrivateKDE(bandwidth=0.5, method="landmarks", landmarks=rows, **wanted)
        models["distance"] = PrivateDistance(**wanted)
        self.others = {name: Part.of(model, rows, site="south") for name, model in models.items()}
        found = [(name, decode(Part.of(model, rows, site="north").to_bytes())) for name, model in models.items()]
        self.grammar = Grammar(header for _, (header, _) in found)
        return [(name, (json.dumps(header), arrays)) for name, (header, arrays) in found]

    def encode(self, content: Any, random: Random) -> bytes:
        """State the hash of what is public, as a careful liar would."""
        header, arrays = content
        if isinstance(header, dict) and random.random() < 0.8:
            with suppress(Exception):  # refuses or fails: `use` will see that too
                header["public"] = public_of_part(header, arrays)
        return encode(header if isinstance(header, dict) else {"header": header}, arrays)

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Load it, merge it with the other site's or release it alone, and ask."""
        path = folder / "north.sfm"
        path.write_bytes(content)
        part = Part.load(path)
        assert repr(part) and largest_size(part) > 0
        other = replace(self.others[seed], receipts=type(part.receipts)())  # was not released before
        both = [part, other] if part.public == other.public and part.site != other.site else [part]
        use_release(merge_parts(both, random_state=1), random)


class Commands(Releases):
    """Commands on releases and regions: they end cleanly, and nothing of a file reaches the terminal raw."""

    name = "commands"
    share = 15.0

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """A few: commands are slow, and what they call is asked elsewhere."""
        self.program = typer.main.get_command(app)  # once: parsing the signatures takes longer than any command
        return list(super().make_seeds())[::25]

    def alter(self, content: Any, random: Random) -> Content:
        """Change the names in a third of the steps, for they are what is printed."""
        header, arrays = content
        if random.random() < 0.3:
            return named(header, random), arrays
        return super().alter(content, random)

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Run a command."""
        path, region = folder / "a.sfm", folder / "r.geojson"
        command = random.choice(["inspect", "verify", "query", "people"])
        path.write_bytes(content)
        more = {"query": ["--at", "0.25,0.5"], "people": ["--region", str(region)]}.get(command, [])
        if command == "people":
            path.write_bytes(encode(*self.copy(self.seeds[0][1])))
            region.write_bytes(content[20:-CHECKSUM_BYTES])
        result = CliRunner().invoke(
            self.program, [command, str(path), *more, *(["--json"] if random.random() < 0.3 else [])]
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        if result.exit_code not in (0, 2, 4) or "Traceback" in result.output:
            raise UnsoundError(f"{command} ended with {result.exit_code}")
        odd = {letter for letter in result.output if not letter.isprintable() and letter not in "\n\t" + JOINERS}
        if odd:
            kinds = sorted({unicodedata.category(letter) for letter in odd})
            raise UnsoundError(f"{command} prints letters of the kinds {', '.join(kinds)}")
