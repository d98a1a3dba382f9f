"""`sfumato demo`: every step on made-up data, ending with predicted against actual error and a picture."""

from __future__ import annotations

import io
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.cli import flags
from sfumato.cli.check import print_findings
from sfumato.cli.console import facts, out, print_json, say
from sfumato.cli.flags import flag
from sfumato.cli.ledger import account_document, standing_text
from sfumato.cli.paid import make_release
from sfumato.errors import InputError
from sfumato.storage import AtomicFile, storage_errors

if TYPE_CHECKING:
    from sfumato.central.kde import PrivateKDE
    from sfumato.cli.made_up_points import Comparison
    from sfumato.privacy.ledger import Account
    from sfumato.release import Release

EXAMPLES = "[bold]Example[/]: sfumato demo --output demo"

ROWS, QUERIES = 40_000, 1_000
BANDWIDTH, EPSILON, BUDGET = 0.7, 1, 2
POINTS_SEED, QUERIES_SEED = 1, 2


@dataclass(frozen=True)
class Files:
    """Where the demo puts what it makes; a second run replaces them."""

    folder: Path

    @property
    def points(self) -> Path:
        """The made-up data."""
        return self.folder / "demo-points.csv"

    @property
    def ledger(self) -> Path:
        """The demo's own ledger."""
        return self.folder / "demo-ledger.jsonl"

    @property
    def release(self) -> Path:
        """The private density."""
        return self.folder / "demo.sfm"

    @property
    def picture(self) -> Path:
        """Exact, private, difference."""
        return self.folder / "demo.png"


def demo(
    output: Annotated[Path, flag("Folder for the data, the release and the picture.", "DIR", "-o", "--output")] = Path(
        "demo"
    ),
    as_json: flags.Json = False,
) -> None:
    """Make up 40,000 points, release their density, and compare it with the truth.

    Writes demo-points.csv, demo-ledger.jsonl, demo.sfm and demo.png into DIR; beside the points of an earlier demo
    they are replaced, and a folder with others of these names is refused.
    """
    from sfumato.cli.made_up_points import compare, make_points, picture
    from sfumato.kernels import get_kernel

    files = Files(output)
    points = make_points(ROWS, POINTS_SEED)
    _write_points(files, points)
    show = not as_json
    if show:
        _show_check(files)
    model, account = _model(files)
    release = _release(model, files, show)
    if show:
        _show_release(release, account)
    kernel = get_kernel("gaussian", BANDWIDTH)
    comparison = compare(release, kernel, points, make_points(QUERIES, QUERIES_SEED))
    with AtomicFile(files.picture, overwrite=True) as file:
        file.write(picture(release, points))
    predicted = _predicted_error()
    if as_json:
        print_json(_document(files, release, account, predicted, comparison))
    else:
        _show_comparison(files, predicted, comparison)
        _show_files(files)


def _write_points(files: Files, points: Any) -> None:
    import numpy as np

    from sfumato.cli.made_up_points import COLUMNS

    text = io.BytesIO()
    np.savetxt(text, points, fmt="%.6f", delimiter=",", header=",".join(COLUMNS), comments="")
    _refuse_files_of_others(files, text.getvalue())
    with storage_errors("write", files.folder):
        files.folder.mkdir(parents=True, exist_ok=True)
    with AtomicFile(files.points, overwrite=True) as file:
        file.write(text.getvalue())
    with storage_errors("write", files.folder):
        files.ledger.unlink(missing_ok=True)  # the points are made up: nobody's privacy was spent


def _refuse_files_of_others(files: Files, points: bytes) -> None:
    """Refuse to replace what no demo made: a folder is an earlier demo's if it holds the same points."""
    with storage_errors("read", files.folder):
        known = files.points
        if known.is_file() and known.stat().st_size == len(points) and known.read_bytes() == points:
            return
        found = [path for path in (files.points, files.ledger, files.release, files.picture) if os.path.lexists(path)]
    if found:
        raise InputError(
            f"{str(found[0])!r} is not of this version's demo, and stays as it is: pass another folder as --output, or "
            "delete it"
        )


def _show_check(files: Files) -> None:
    from sfumato.central.survey import survey
    from sfumato.cli.made_up_points import BOUNDS
    from sfumato.quantizers.box import Box
    from sfumato.sources import open_source

    _step(1, "Look at the file, as its curator", f"sfumato check {files.points} --bounds {_pair(BOUNDS)}")
    source = open_source(files.points)
    box = Box.from_bounds(BOUNDS, source.dimension)
    print_findings(survey(source, box), box)


def _model(files: Files) -> tuple[PrivateKDE, Account]:
    from sfumato.central.kde import PrivateKDE
    from sfumato.cli.made_up_points import BOUNDS
    from sfumato.privacy.ledger import Ledger

    account = Ledger(files.ledger).account("demo")
    account.set_budget(BUDGET)
    model = PrivateKDE(
        bandwidth=BANDWIDTH, epsilon=EPSILON, bounds=BOUNDS, n_hint=ROWS, ledger=account, feature_seed=POINTS_SEED
    )
    return model, account


def _release(model: PrivateKDE, files: Files, show: bool) -> Release:
    from sfumato.cli.made_up_points import BOUNDS
    from sfumato.sources import open_source

    if show:
        _step(
            2,
            "Release: bandwidth, epsilon, bounds and the order of magnitude of n come from public knowledge",
            f"sfumato release {files.points} -o {files.release} --bandwidth {BANDWIDTH} --epsilon {EPSILON} "
            f"--n-hint {ROWS} --bounds {_pair(BOUNDS)} --dataset demo --ledger {files.ledger}",
        )
    return make_release(model, open_source(files.points), files.release, force=True, show=show)


def _show_release(release: Release, account: Account) -> None:
    facts([("guarantee", str(release.guarantee)), ("ledger", standing_text(account))])
    say(f"\n{release.statement()}")


def _predicted_error() -> float:
    """Error of an answer as the plan tells it before the release: from public facts alone."""
    from sfumato.cli.made_up_points import BOUNDS, mean_similarity
    from sfumato.methods import plan

    facts = plan(
        n_hint=ROWS,
        dimension=2,
        epsilon=EPSILON,
        bandwidth=BANDWIDTH,
        bounds=BOUNDS,
        density=mean_similarity(BANDWIDTH),
    )
    return facts.error


def _show_comparison(files: Files, predicted: float, comparison: Comparison) -> None:
    from rich.table import Table

    _step(3, "Query: answers come with error bars", f"sfumato query {files.release} --at 5.6,7.2 --at 5,5")
    table = Table("typical error of an answer", "", title=f"{comparison.queries} queries that are not in the data")
    table.add_row("predicted from public facts, before any budget was spent", f"{predicted:.5f}")
    table.add_row("error bars that the release gives", f"{comparison.error_bar:.5f}")
    table.add_row("actual, against the exact kernel sum", f"{comparison.actual:.5f}")
    table.add_section()
    table.add_row("exact answers, on average", f"{comparison.mean_answer:.5f}")
    table.add_row("answers within two error bars of the truth", f"{comparison.within_two:.1%}")
    out().print(table)


def _show_files(files: Files) -> None:
    out().print("\n[bold]Everything is here[/]")
    facts(
        [
            ("picture", f"{files.picture} (exact, private and their difference)"),
            ("release", f"{files.release} (publish this file, and nothing else)"),
            ("points", f"{files.points} (made up; real ones stay with their curator)"),
            ("ledger", str(files.ledger)),
        ]
    )


def _document(
    files: Files, release: Release, account: Account, predicted: float, comparison: Comparison
) -> dict[str, Any]:
    return {
        "points": str(files.points),
        "release": str(files.release),
        "picture": str(files.picture),
        "guarantee": release.guarantee.to_document(),
        "statement": release.statement(),
        "ledger": account_document(account),
        "predicted_error": predicted,
        **asdict(comparison),
    }


def _step(number: int, title: str, command: str) -> None:
    from rich.text import Text

    out().print(Text.assemble(f"\n{number}. ", (title, "bold")))
    out().print(Text(f"$ {command}", style="dim"), soft_wrap=True)


def _pair(bounds: tuple[float, float]) -> str:
    return f"{bounds[0]:g},{bounds[1]:g}"
