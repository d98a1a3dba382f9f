"""Long runs: fresh pieces are left out, the time budget holds, a second run is refused, audits are recorded."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from textwrap import dedent

import pytest

from benchmarks import audit_full, long, reproduction, sources
from benchmarks.__main__ import main
from benchmarks.case import FOLDER, load_cases
from benchmarks.long import Piece
from benchmarks.page import render

CASE = """
    name = "tiny-oracle"
    kind = "oracle"
    title = "Tiny oracle"
    claim = "Tiny things are exact"
    about = "A tiny case."
    [settings]
    kernel = "gaussian"
    held_out = [50]
    data = [{ set = "mixture", bandwidth = 1.0, n = 300, d = 2 }]
"""


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    cases, results, page = tmp_path / "cases", tmp_path / "results", tmp_path / "page.md"
    cases.mkdir()
    (cases / "tiny-oracle.toml").write_text(dedent(CASE))
    return cases, results, page


def test_a_fresh_case_is_left_out_until_its_code_changes(folders: tuple[Path, Path, Path]) -> None:
    cases, results, page = folders
    assert [piece.name for piece in long.benchmark_pieces(cases, results)] == ["tiny-oracle"]
    assert main(["--full"], cases, results, page) == 0
    assert not long.benchmark_pieces(cases, results)
    assert "**stale**" not in page.read_text().split("## Every claim")[1]

    file = results / "tiny-oracle.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert rows[0]["code"]["sfumato/kernels"] == sources.fingerprint("sfumato/kernels")
    for row in rows:
        row["code"]["sfumato/kernels"] = "another"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [piece.since for piece in long.benchmark_pieces(cases, results)] == [rows[0]["date"]]
    assert main(["--only", "tiny-oracle", "--full"], cases, results, page) == 0  # measured again
    assert not long.benchmark_pieces(cases, results)


def test_stale_rows_are_marked_on_the_page(folders: tuple[Path, Path, Path]) -> None:
    cases, results, page = folders
    main(["--full"], cases, results, page)
    file = results / "tiny-oracle.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    changed = [{**row, "code": {**row["code"], "sfumato/kernels": "another"}} for row in rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in changed))
    text = render(cases, results, page.parent)
    assert "[Tiny things are exact](#tiny-oracle) |  |  | " in text and ", **stale** |" in text
    assert "**Stale**: sfumato/kernels." in text


def test_rows_of_other_settings_are_shown_as_stale(folders: tuple[Path, Path, Path]) -> None:
    cases, results, page = folders
    main(["--full"], cases, results, page)
    (cases / "tiny-oracle.toml").write_text(dedent(CASE).replace("[50]", "[51]"))
    assert "**Stale**: the case's settings." in render(cases, results, page.parent)


def test_comments_do_not_count(tmp_path: Path) -> None:
    before = 'def f():\n    """Say."""\n    return 1\n'
    after = '# why\ndef f():\n    """Say it better.\n\n    At length.\n    """\n\n    return 1\n'
    assert list(sources.code_lines(before)) == list(sources.code_lines(after))
    assert list(sources.code_lines(before)) != list(sources.code_lines(before.replace("return 1", "return 2")))


def test_work_goes_on_after_a_failure_and_stops_when_time_is_over(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut"
    pieces = [Piece("bad", ("-c", "raise SystemExit(3)"), ""), Piece("good", ("-c", "print('done')"), "")]
    assert long.work(pieces, 1, cut) == 1
    assert "done" in capfd.readouterr().out
    endless = Piece("endless", ("-c", "import time; time.sleep(600)"), "")
    later = Piece("later", ("-c", "print('its turn')"), "")
    assert long.work([endless, later], 5 / 3600, cut) == 0
    said = capfd.readouterr().out
    assert "time is over in endless; 2 pieces are left" in said and "its turn" not in said
    assert long.work([Piece("endless", ("-c", "print('at last')"), ""), later], 1, cut) == 0
    said = capfd.readouterr().out
    assert said.index("its turn") < said.index("at last")  # what was cut off comes last


def test_a_second_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / "bench.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert long.start("bench", 1.0, tmp_path) == 2
    assert "a run is under way" in capsys.readouterr().err


def test_audits_are_recorded_and_marked(tmp_path: Path) -> None:
    path, page = tmp_path / "audits.jsonl", tmp_path / "audits.md"
    name = "attack fourier"
    assert audit_full.main(["--only", name, "--trials", "2000"], path, page) == 0
    (row,) = audit_full.read(path).values()
    assert row["trials"] == 2000 and row["fine"] and row["code"]["sfumato/audit"] and row["machine"]["cpu"]
    assert name not in [piece.name for piece in long.audit_pieces(path, trials=2000)]
    assert name in [piece.name for piece in long.audit_pieces(path)]
    assert "**stale**" not in page.read_text().split("| --- |")[-1] and "| not yet |" in page.read_text()
    audit_full.save({**row, "code": {"sfumato/audit": "another"}}, path)
    assert name in [piece.name for piece in long.audit_pieces(path, trials=2000)]
    text = audit_full.render(audit_full.read(path), [name])
    assert "**stale**: sfumato/audit" in text


COUNTED = {"Coleman": (1, 2), "Wagner et al.": (3, 6), "Backurs": (2, 4), "Zhou": (3, 8), "Wagner (2025)": (8, 8)}


def test_every_figure_and_table_of_the_publications_has_a_case_or_a_reason() -> None:
    known = {case.name for case in load_cases(FOLDER, full=True)}
    publications = reproduction.publications()
    assert len(publications) == len(COUNTED)
    for publication in publications:
        tables, figures = next(count for who, count in COUNTED.items() if publication["cited"].startswith(who))
        names = [item["name"] for item in publication["items"]]
        for number in range(1, tables + 1):
            assert f"Table {number}" in names
        for number in range(1, figures + 1):
            assert any(name.startswith(f"Figure {number}") for name in names), (publication["cited"], number)
        for item in publication["items"]:
            assert item.get("cases") or item.get("why"), item
            assert set(item.get("cases", ())) <= known
            assert {pick["case"] for pick in item.get("ours", ())} <= set(item.get("cases", ()))


def test_the_page_of_publications_is_rendered(tmp_path: Path) -> None:
    text = reproduction.render(FOLDER, tmp_path)
    assert text.count("not measured yet") > 20 and "| Figure 8, right |" in text


def test_the_makefile_starts_long_runs() -> None:
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    assert "benchmarks.long bench --hours $(HOURS)" in makefile and "benchmarks.long audit --hours $(HOURS)" in makefile
