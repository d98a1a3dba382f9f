"""Tests mirror the tree: every module has its test file in the mirrored place, or stands in a table with its file.

A file tests a module if it imports the module, or takes a name that the module defines from a package above it, as
users do, or calls the method that is named after it (`protocol.client()`). Cases of audits are run by the names that
they register, and commands as they are typed: there it is enough to load the cases, and to have the file.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import sfumato

TESTS, ROOT = Path(__file__).parent, Path(sfumato.__file__).parent
MODULES = sorted(
    path.relative_to(ROOT).with_suffix("").as_posix()
    for path in ROOT.rglob("*.py")
    if path.stem not in ("__init__", "__main__", "version")
)

# Modules that are tested in another place: the test file, why, and the modules.
ELSEWHERE: dict[str, tuple[str, tuple[str, ...]]] = {
    "audit/cases/test_central.py": ("all central cases, as a command too", ("audit/cases/twins", "cli/audit")),
    "audit/cases/test_local.py": ("cases and their twins", ("audit/cases/twins_collected",)),
    "audit/cases/test_local_published.py": ("all exact local cases", ("audit/cases/metric_rows",)),
    "audit/cases/test_published.py": ("cases and their twins", ("audit/cases/twins_published",)),
    "audit/cases/test_twins_calibrations.py": (
        "calibrations are checked together, with their twins",
        ("audit/cases/references", "audit/cases/shuffled_calibrations"),
    ),
    "central/test_landmarks.py": ("cases are run beside what they audit", ("audit/cases/features",)),
    "central/test_covariances.py": ("cases are run beside what they audit", ("audit/cases/prices",)),
    "bandwidth/test_private.py": ("cases are run beside what they audit", ("audit/cases/purchases",)),
    "bandwidth/test_search.py": ("cases are run beside what they audit", ("audit/cases/searches",)),
    "published/local/test_laws.py": ("cases are run beside what they audit", ("audit/cases/reports",)),
    "central/test_sketch.py": ("what is merged is a sketch", ("central/merging",)),
    "distances/test_hat.py": ("a design is judged by its hat", ("distances/design",)),
    "engines/test_base.py": ("engines give the same sums, threads among them", ("engines/threads",)),
    "engines/test_shipping.py": ("what is packed is shipped", ("engines/packing",)),
    "engines/test_spark.py": ("a remote source is an engine's frame", ("sources/remote",)),
    "audit/test_attacks.py": ("what is attacked is what is fitted", ("learn/fitting",)),
    "learn/test_linear.py": ("the rule that its descent serves", ("learn/softmax",)),
    "local/test_metric_phases_server.py": ("halves of one mechanism", ("local/phases_server", "local/pooled")),
    "local/test_metric_rows.py": ("halves of one mechanism", ("local/metric_rows_server",)),
    "local/test_vector.py": ("halves of one mechanism", ("local/vector_server",)),
    "local/test_organiser.py": ("halves of one mechanism", ("local/rows_server",)),
    "local/test_collector.py": ("runs hold what a collector has seen", ("local/runs",)),
    "public/test_rows.py": ("public rows, on devices and in pools", ("local/device", "local/pool")),
    "published/local/test_closeness.py": (
        "sizes and pools of sketches that depend on closeness",
        ("published/local/sketch_design",),
    ),
    "maps/test_sharp.py": ("sharp counts are read off brackets", ("maps/brackets", "published/histogram")),
    "quantizers/test_projection.py": (
        "a projection, its options and its error",
        ("methods/projecting", "quantizers/projection_error", "quantizers/rotation"),
    ),
    "local/test_promises.py": ("documents are checked by devices", ("public/document",)),
    "central/test_race.py": ("beside the default that it is compared with", ("published/as_published",)),
    "published/test_gridded.py": ("shared by the gridded mechanisms", ("published/common",)),
    "published/test_methods.py": ("every published mechanism", ("published/lsq_fgt",)),
    "distances/test_moments.py": ("beside the default that it is compared with", ("published/moments",)),
    "published/test_separable.py": ("the quantizers of these polynomials", ("published/polynomials",)),
    "published/test_trees.py": ("one tree, and trees of columns", ("published/tree",)),
    "quantizers/test_hashing.py": (
        "families through the quantizer that uses them",
        ("quantizers/hashes/counters", "quantizers/hashes/projections"),
    ),
    "quantizers/test_inner_product.py": ("the contract, through a family", ("quantizers/base",)),
    "quantizers/families.py": ("law one is a property of every family", ("quantizers/exponential_sums",)),
    "quantizers/test_fourier.py": ("phases and the features made of them", ("quantizers/cosines", "quantizers/phases")),
    "quantizers/test_grid.py": ("a grid of splines", ("quantizers/splines",)),
    "quantizers/test_landmarks.py": (
        "landmarks, their similarities and what is fitted to them",
        ("quantizers/nystrom", "quantizers/similarities"),
    ),
    "quantizers/test_lattice.py": ("a lattice of the series' modes", ("quantizers/series",)),
    "services/test_shuffled.py": (
        "the roles of one collection, together",
        ("services/analyzer", "services/sending", "services/server", "services/shuffler"),
    ),
    "services/test_vectors.py": (
        "messages of the wire, as vectors",
        ("services/issuer", "services/log", "services/signing", "services/wire"),
    ),
    "services/test_taking_part.py": ("notices stand on the page that asks", ("services/notice", "cli/serve_notice")),
    "services/test_pages.py": ("the status page and the rest", ("services/page",)),
    "services/test_store.py": ("every store by one contract", ("services/postgres", "services/sqlite")),
    "shuffled/bitsum/test_bit_sum.py": (
        "every protocol by one enumeration",
        ("shuffled/bitsum/rr", "shuffled/bitsum/signed", "shuffled/bitsum/unsigned"),
    ),
    "shuffled/bitsum/test_calibration.py": ("the search that calibrates", ("shuffled/bitsum/search",)),
    "shuffled/test_features.py": ("features and their predicted error", ("shuffled/accuracy",)),
    "shuffled/test_groups.py": ("what a group seals", ("shuffled/sealing",)),
    "test_packaging.py": ("extras, as the package declares them", ("deferred",)),
    "cli/test_commands.py": (
        "help of every command; `make collect-demo` runs the demonstration",
        ("cli/console", "cli/flags", "cli/outputs", "cli/serve_demo", "cli/typed"),
    ),
    "cli/test_demo.py": ("the demonstration, and the points that it makes up", ("cli/made_up_points",)),
    "cli/test_engines.py": ("commands on engines and in parts", ("cli/parts",)),
    "cli/test_full_disk.py": ("what was paid for reaches the disk", ("cli/paid",)),
    "cli/test_map.py": ("commands that read maps", ("cli/people",)),
    "cli/test_learning.py": ("commands that learn", ("cli/classify", "cli/select")),
    "services/test_send.py": ("commands beside their servers", ("cli/send", "cli/serve")),
    "test_private_files.py": ("files that only their owner may read", ("cli/submissions", "owner")),
}


def mirrored(module: str) -> Path:
    """Where the tests of a module belong."""
    room, _, name = module.rpartition("/")
    return TESTS / room / f"test_{name}.py"


def defined(module: str) -> set[str]:
    """Names that a module defines."""
    names = set()
    for node in ast.parse((ROOT / f"{module}.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return names


@cache
def imported(path: Path) -> frozenset[tuple[str, str]]:
    """Modules and names that a file takes from the library: ("sfumato.kernels", "Gaussian")."""
    found, local = set(), {}
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {(node.module, alias.name) for alias in node.names}
            local.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
        elif isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
            local.update({alias.name: alias.name for alias in node.names})
    for node in nodes:
        if isinstance(node, ast.Attribute):
            owner = local.get(node.value.id, "") if isinstance(node.value, ast.Name) else ""
            found.add((owner, node.attr))
    return frozenset(found)


def covers(path: Path, module: str) -> bool:
    """Tell whether a file takes something of a module."""
    name, taken_there = "sfumato." + module.replace("/", "."), imported(path)
    if module.startswith("cli/") or (
        module.startswith("audit/cases/") and ("sfumato.audit", "load_library") in taken_there
    ):
        return True
    own, method = defined(module), name.rpartition(".")[2]
    return any(
        source == name
        or f"{source}.{taken}" == name
        or (source and name.startswith(f"{source}.") and taken in own)
        or (not source and taken == method)
        for source, taken in taken_there
    )


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_tests(module: str) -> None:
    path = mirrored(module)
    listed = [file for file, (_, modules) in ELSEWHERE.items() if module in modules]
    if path.exists():
        assert not listed, f"{module} has tests of its own: take it out of the table"
    else:
        assert len(listed) == 1, f"write {path.relative_to(TESTS)}, or name the file that tests {module}"
        path = TESTS / listed[0]
    assert covers(path, module), f"{path.relative_to(TESTS)} takes nothing of {module}"


def test_the_table_names_modules_and_reasons() -> None:
    for file, (why, modules) in ELSEWHERE.items():
        assert (TESTS / file).exists() and why and set(modules) <= set(MODULES), file
