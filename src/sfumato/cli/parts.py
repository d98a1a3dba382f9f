"""`sfumato sum` and `sfumato merge`: sites that may not pool their rows, with a merger who is trusted and without one.

`sum` writes a private part, which ``sfumato release --parts`` merges; `merge` adds up releases with noise of their own.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Annotated

from sfumato.cli import flags
from sfumato.cli import release as releasing
from sfumato.cli.console import size_text, tell
from sfumato.cli.flags import NEEDED, RUN, argument, flag
from sfumato.cli.groups import Choices, Kinds, Reading, Run, grouped
from sfumato.cli.outputs import refuse_inputs
from sfumato.cli.paid import progress_bar
from sfumato.cli.typed import parse_bandwidth
from sfumato.errors import InputError
from sfumato.privacy.datasets import identity_of

EXAMPLES = (
    "[bold]Example[/], at each of two hospitals, and then at the one that merges:\n\n"
    "sfumato sum stays.csv -o north.part --bandwidth 0.5 --epsilon 1 --n-hint 100000 --feature-seed 7\n\n"
    "sfumato release --parts north.part south.part -o stays.sfm --dataset stays"
)
MERGE_EXAMPLES = "[bold]Example[/]: sfumato merge north.sfm south.sfm -o both.sfm"
PartOutput = Annotated[Path | None, flag("The PRIVATE file to write.", "OUT.part", "-o", "--output", panel=NEEDED)]
SeedOption = Annotated[
    int | None, flag("Public seed of the features, the same at all sites.", "N", "--feature-seed", panel=NEEDED)
]
SiteOption = Annotated[
    str | None,
    flag("A name for the data of this site; by default this machine's name and the file's path.", "NAME", panel=RUN),
]
Releases = Annotated[list[Path], argument("Releases of sites, made with the same public parameters.", "RELEASE...")]


@grouped
def sum_rows(
    data: flags.ManyData,
    output: PartOutput = None,
    bandwidth: releasing.BandwidthOption = None,
    epsilon: releasing.EpsilonOption = None,
    n_hint: releasing.HintOption = None,
    feature_seed: SeedOption = None,
    site: SiteOption = None,
    *,
    reading: Reading,
    kinds: Kinds,
    choices: Choices,
    run: Run,
) -> None:
    """Sum the points in DATA for a release together with other sites: a PRIVATE part, without noise, of mode 0600.

    All sites pass the same flags, --n-hint being a public guess of all their rows together. Nothing is charged here:
    every release that is made of the part is.
    """
    target, length = _check_needed(output, bandwidth, epsilon, n_hint, feature_seed)
    refuse_inputs(target, *data, choices.landmarks, *kinds.files)
    model, source = releasing.estimator(
        data,
        reading,
        kinds,
        choices,
        bandwidth=parse_bandwidth(length),
        epsilon=epsilon,
        n_hint=n_hint,
        feature_seed=feature_seed,
        engine=run.where,
    )
    from sfumato.central.parts import Part

    name = f"{platform.node()}:{'|'.join(sorted(map(identity_of, data)))}" if site is None else site
    with progress_bar(source, run.show) as progress:
        part = Part.of(model, source, site=name, progress=progress, threads=run.threads)
    part.save(target, overwrite=run.force)
    size = target.stat().st_size
    pairs = [
        ("part", f"{target} ({size_text(size)}, {len(part.sums)} sums)"),
        ("keep it", "PRIVATE: as secret as the rows; nothing was charged"),
        ("public", part.public),
    ]
    tell({"part": str(target), "bytes": size, "public": part.public}, pairs, as_json=run.as_json, quiet=run.quiet)


def _check_needed(
    output: Path | None, bandwidth: str | None, epsilon: str | None, n_hint: int | None, seed: int | None
) -> tuple[Path, str]:
    for wanted, value, use in (
        ("--bandwidth B", bandwidth, "the length at which two points stop being similar, in the points' units"),
        ("--epsilon E", epsilon, "the privacy budget of the release, such as 1"),
        ("--n-hint N", n_hint, "a public guess of the number of rows of all sites together"),
        ("--feature-seed N", seed, "a public number on which all sites agree"),
        ("-o OUT.part", output, "the file to write"),
    ):
        if value is None:
            raise InputError(f"{wanted} is missing: {use}")
    assert output is not None and bandwidth is not None
    return output, bandwidth


def merge(
    releases: Releases,
    output: flags.Target = None,
    force: flags.ForceRun = False,
    as_json: flags.JsonRun = False,
    quiet: flags.Quiet = False,
) -> None:
    """Add up releases of sites that trust nobody with their sums: each has noise of its own, which adds up too.

    Nothing is charged: every site has paid for its own release.
    """
    if output is None:
        raise InputError("-o OUT.sfm is missing: the file to write")
    refuse_inputs(output, *releases)
    from sfumato.central.merging import merge_releases
    from sfumato.release import load

    made = merge_releases([load(path) for path in releases])
    output = made.save(output, overwrite=force)
    releasing.report(made, output, None, made.guarantee.delta, as_json=as_json, quiet=quiet)
