"""`sfumato inspect`: everything public about a release."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.arguments import JsonOption, ReleaseArgument
from sfumato.cli.console import facts, print_json, say, size_text, warn

if TYPE_CHECKING:
    from sfumato.release import Count, Release

EXAMPLES = "[bold]Example[/]: sfumato inspect trips.sfm"

# Half of a 95 % interval in standard deviations for Laplace noise, ln(20) / sqrt(2); Gaussian noise needs less (1.96).
INTERVAL_DEVIATIONS = math.log(20) / math.sqrt(2)


def inspect(release: ReleaseArgument, as_json: JsonOption = False) -> None:
    """Show everything that a release says about itself: guarantee, kernel, method, noise, count and size."""
    from sfumato.release import load

    made = load(release)
    if as_json:
        print_json(_document(made, release))
        return
    if not made.guarantee.private:
        warn("NOT PRIVATE: the noise came from a seed. Do not publish this release.")
    facts(_facts(made, release))
    say(f"\n{made.statement()}")


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
