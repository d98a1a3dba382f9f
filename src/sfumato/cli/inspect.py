"""`sfumato inspect` and `verify`: everything public about a release, and whether its file is whole."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli import flags
from sfumato.cli.console import print_json, size_text, tell, warn_of_seed
from sfumato.errors import ReleaseFileError

if TYPE_CHECKING:
    from sfumato.learn import DensityClassifier
    from sfumato.release import Count, Release

EXAMPLES = "[bold]Example[/]: sfumato inspect trips.sfm"
VERIFY_EXAMPLES = "[bold]Example[/]: sfumato verify trips.sfm"

# Half of a 95 % interval in standard deviations for Laplace noise, ln(20) / sqrt(2); Gaussian noise needs less (1.96).
INTERVAL_DEVIATIONS = math.log(20) / math.sqrt(2)


def inspect(release: flags.ReleaseFile, as_json: flags.Json = False) -> None:
    """Show everything that a release, or a classifier, says of itself: guarantee, kernel, method, noise, size."""
    from sfumato.release import Release

    made = _loaded(release)
    if not isinstance(made, Release):
        promise = made.guarantee_
        warn_of_seed(promise, "Do not publish this classifier.")
        tell(
            _classifier_document(made, release),
            _classifier_facts(made, release),
            promise.statement(),
            as_json=as_json,
            made=False,
        )
        return
    warn_of_seed(made.guarantee, "Do not publish this release.")
    tell(_document(made, release), _facts(made, release), made.statement(), as_json=as_json, made=False)


def verify(release: flags.ReleaseFile, as_json: flags.Json = False) -> None:
    """Check that a file is whole and unaltered by accident, and print its guarantee; exit code 4 if it is not.

    Releases and classifiers are read as every other command reads them, with all their checks. The checksum finds
    accidents, not forgers: fetch releases from someone you trust.
    """
    from sfumato.release import Release

    try:
        made = _loaded(release)
    except ReleaseFileError as damage:
        if not as_json:
            raise
        print_json({"release": str(release), "intact": False, "problem": str(damage)})
        raise typer.Exit(damage.exit_code) from damage
    size = release.stat().st_size
    promise = made.guarantee if isinstance(made, Release) else made.guarantee_
    statement = made.statement() if isinstance(made, Release) else promise.statement()
    warn_of_seed(promise, "Do not publish this release.")
    document: dict[str, Any] = {"release": str(release), "intact": True, "bytes": size}
    document |= {"guarantee": promise.to_document(), "statement": statement}
    pairs = [("intact", f"{release} ({size_text(size)})"), ("guarantee", str(promise))]
    tell(document, pairs, statement, as_json=as_json, made=False)


def _loaded(path: Path) -> Release | DensityClassifier:
    """Read a file as what it says that it is."""
    from sfumato.release import load
    from sfumato.release.format import decode

    if "classifier" not in decode(path)[0]:
        return load(path)
    from sfumato.learn import DensityClassifier

    return DensityClassifier.load(path)


def _classifier_document(model: DensityClassifier, path: Path) -> dict[str, Any]:
    return {
        "classifier": str(path),
        "bytes": path.stat().st_size,
        "rule": model.rule_,
        "classes": model.classes_.tolist(),
        "columns": model.n_features_in_,
        "guarantee": model.guarantee_.to_document(),
        "releases": {str(label): release.describe() for label, release in model.releases_.items()},
        "statement": model.guarantee_.statement(),
    }


def _classifier_facts(model: DensityClassifier, path: Path) -> list[tuple[str, str]]:
    return [
        ("classifier", f"{path} ({size_text(path.stat().st_size)})"),
        ("guarantee", str(model.guarantee_)),
        ("rule", model.rule_),
        ("classes", ", ".join(map(str, model.classes_.tolist()))),
        ("columns", str(model.n_features_in_)),
        *(
            (f"class {label} ", f"{release.method}, {release.reader.size} sums")
            for label, release in model.releases_.items()
        ),
    ]


def _document(release: Release, path: Path) -> dict[str, Any]:
    return {
        "release": str(path),
        "bytes": path.stat().st_size,
        **release.describe(),
        "count_interval_95": list(count_interval(release.count)),
        "findings": {name: value if math.isfinite(value) else None for name, value in release.findings().items()},
        "statement": release.statement(),
    }


def count_interval(count: Count) -> tuple[int, int]:
    """Give bounds that hold the true number of records with a probability of at least 95 %."""
    reach = INTERVAL_DEVIATIONS * math.sqrt(count.variance)
    return max(0, math.floor(count.value - reach)), math.ceil(count.value + reach)


def _facts(release: Release, path: Path) -> list[tuple[str, str]]:
    described = release.describe()
    columns = "unnamed" if release.columns is None else ", ".join(release.columns)
    low, high = count_interval(release.count)
    count = f"{release.count.value}, public" if release.count.public else f"{low} to {high} (95 %)"
    return [
        ("release", f"{path} ({size_text(path.stat().st_size)}, {release.reader.size} sums)"),
        ("guarantee", str(release.guarantee)),
        ("kernel", "not in the file" if release.kernel is None else repr(release.kernel)),
        ("method", f"{release.method} ({_listing(release.parameters)})"),
        ("noise", _listing(described["noise"])),
        ("records", count),
        ("columns", f"{columns} ({release.dimension})"),
        ("bounds", _bounds(release)),
        *(("shows", f"{name.replace('_', ' ')} {value:.4g}") for name, value in release.findings().items()),
        ("written by", f"sfumato {release.version}"),
    ]


def _listing(document: Any) -> str:
    return ", ".join(f"{name} = {value}" for name, value in document.items())


def _bounds(release: Release) -> str:
    box = release.reader.box
    pairs = list(dict.fromkeys(zip(box.lower, box.upper, strict=True)))
    shown = "; ".join(f"{low:g} to {high:g}" for low, high in pairs[:8])
    more = f"; and {len(pairs) - 8} more" if len(pairs) > 8 else ""
    return f"{shown}{more} ({'clipped' if box.outside == 'clip' else 'dropped'} outside)"
