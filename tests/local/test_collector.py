"""The collector: refuses what does not belong, counts the rest exactly, survives a kill, merges shards."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato
from sfumato.errors import InputError
from sfumato.local import Protocol, collector, runs
from sfumato.local.client import Client
from sfumato.local.coins import Coins
from sfumato.local.collector import Collector

pytestmark = pytest.mark.once  # counts are exact, whatever the reports say

PEOPLE = 300


def protocol(kernel: str = "l2-lsh", **changes: Any) -> Protocol:
    arguments: dict[str, Any] = {"bandwidth": 0.5, "dimension": 2, "epsilon": 3, "participants": PEOPLE}
    arguments |= {"bounds": (0, 1), "seed": 3, **changes}
    return Protocol(kernel, **arguments)


def reports_of(made: Protocol, count: int = PEOPLE, seed: int = 1) -> list[bytes]:
    client = Client(made.document, coins=Coins.seeded(seed))
    points = np.random.default_rng(seed).random((count, 2)).tolist()
    return [client.report(point) for point in points]


MADE = protocol()
REPORTS = reports_of(MADE)


def tallied(one: Collector) -> list[int]:
    integers: list[int] = one._tally.integers().tolist()
    return integers


def expected(made: Protocol, reports: list[bytes]) -> list[int]:
    """Counts of `rows` by the format as documented, one report at a time."""
    device: Any = made.server().device
    counts = [0] * (device.groups * device.rows_each * device.outcomes)
    for report in reports:
        group, code = int.from_bytes(report[10:12], "little"), int.from_bytes(report[12:16], "little")
        for i in range(device.rows_each):
            code, digit = divmod(code, device.outcomes)
            counts[(group * device.rows_each + i) * device.outcomes + digit] += 1
    return counts


def by_the_rules(items: list[bytes]) -> tuple[list[bytes], dict[str, int]]:
    """Return the reports of MADE that count, and the refusals by reason: a function of the multiset of all."""
    device: Any = MADE.server().device
    rejected: Counter[str] = Counter()
    under: dict[bytes, list[bytes]] = {}
    for item in items:
        group, code = int.from_bytes(item[10:12], "little"), int.from_bytes(item[12:16], "little")
        if len(item) != 16:
            rejected["length"] += 1
        elif item[:4] != bytes.fromhex(MADE.fingerprint)[:4]:
            rejected["foreign"] += 1
        elif group >= device.groups or code >= device.outcomes**device.rows_each:
            rejected["range"] += 1
        else:
            under.setdefault(item[4:10], []).append(item)
    rejected["duplicate"] = sum(len(reports) - 1 for reports in under.values())
    rejected["conflict"] = sum(len(set(reports)) > 1 for reports in under.values())
    return [reports[0] for reports in under.values() if len(set(reports)) == 1], dict(+rejected)


@pytest.mark.parametrize("rows_each", [1, 3])
def test_counts_are_exact(rows_each: int) -> None:
    made = protocol(options={"rows_each": rows_each})
    reports = reports_of(made)
    one = made.collector()
    assert one.add(reports).accepted == PEOPLE
    assert tallied(one) == expected(made, reports)


@pytest.mark.parametrize("form", ["iterator", "bytes", "file", "stream", "blocks"])
def test_every_source_gives_the_same(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"".join(REPORTS)
    (tmp_path / "reports.bin").write_bytes(content)
    source: Any = {
        "iterator": iter(REPORTS),
        "bytes": content,
        "file": tmp_path / "reports.bin",
        "stream": io.BytesIO(content),
        "blocks": str(tmp_path / "reports.bin"),
    }[form]
    if form == "blocks":
        monkeypatch.setattr(collector, "BLOCK_REPORTS", 7)
    one = MADE.collector()
    assert one.add(source).accepted == PEOPLE
    assert tallied(one) == expected(MADE, REPORTS)


def test_refusals_are_counted_by_reason() -> None:
    good = REPORTS[:50]
    foreign = reports_of(protocol(seed=4), 5)
    device: Any = MADE.server().device
    out_of_range = [
        REPORTS[50][:10] + device.groups.to_bytes(2, "little") + bytes(4),
        REPORTS[51][:12] + (device.outcomes**device.rows_each).to_bytes(4, "little"),
    ]
    lengths = [REPORTS[52][:15], REPORTS[52] + b"\0", b""]
    one = MADE.collector()
    assert good[3][10:] != bytes(6)  # of the two that differ under one identity neither counts
    receipt = one.add([*good, *foreign, *out_of_range, *lengths, *good[:7], good[3][:10] + bytes(6)])
    assert receipt.accepted == 49
    assert receipt.rejected == {"foreign": 5, "range": 2, "length": 3, "duplicate": 8, "conflict": 1}
    assert one.rejected == receipt.rejected
    assert tallied(one) == expected(MADE, good[:3] + good[4:])
    assert one.release().parameters["rejected"] == receipt.rejected


def test_replays_across_calls_and_blocks_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "BLOCK_REPORTS", 16)
    one = MADE.collector()
    for _ in range(3):
        one.add(REPORTS)
    assert one.reports == PEOPLE
    assert one.rejected == {"duplicate": 2 * PEOPLE}
    assert tallied(one) == expected(MADE, REPORTS)


def test_a_truncated_file_loses_its_last_report_only(tmp_path: Path) -> None:
    path = tmp_path / "reports.bin"
    path.write_bytes(b"".join(REPORTS)[:-5])
    one = MADE.collector()
    assert one.add(path).rejected == {"length": 1}
    path.write_bytes(b"".join(REPORTS))  # the rest arrived
    assert one.add(path).accepted == 1
    assert tallied(one) == expected(MADE, REPORTS)


@st.composite
def mangled(draw: st.DrawFn) -> list[bytes]:
    """Good reports with bits flipped, cut, doubled, lengthened, or replaced by anything."""
    items: list[bytes] = []
    for index in draw(st.lists(st.integers(0, PEOPLE - 1), max_size=12)):
        report = REPORTS[index]
        action = draw(st.integers(0, 5))
        if action == 1:
            report = report[: draw(st.integers(0, 15))]
        elif action == 2:
            place = draw(st.integers(0, 127))
            report = (int.from_bytes(report, "big") ^ 1 << place).to_bytes(16, "big")
        elif action == 3:
            items.append(report)
        elif action == 4:
            report = draw(st.binary(max_size=40))
        elif action == 5:
            report = report[:10] + draw(st.binary(min_size=6, max_size=6))
        items.append(report)
    return items


@settings(max_examples=60, deadline=None)
@given(mangled())
def test_hostile_reports_never_crash_and_never_change_a_count(items: list[bytes]) -> None:
    """What counts is what a slow reading of the rules lets count, and everything else is counted as refused."""
    device: Any = MADE.server().device
    one = MADE.collector()
    receipt = one.add(items)
    good, rejected = by_the_rules(items)
    assert (receipt.accepted, receipt.rejected) == (len(good), rejected)
    assert receipt.accepted + sum(receipt.rejected.values()) == len(items)
    assert tallied(one) == expected(MADE, good)
    blob = MADE.collector()
    blob.add(b"".join(items))  # as a file whose records slipped: whatever comes out, it does not crash
    assert sum(tallied(blob)) == blob.reports * device.rows_each


def test_state_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "BLOCK_REPORTS", 32)
    with MADE.collector(tmp_path / "state") as first:
        first.add(REPORTS[:100])
    one = MADE.collector(tmp_path / "state")
    assert one.reports == 100
    receipt = one.add(REPORTS)
    assert (receipt.accepted, receipt.rejected) == (PEOPLE - 100, {"duplicate": 100})
    assert tallied(one) == expected(MADE, REPORTS)
    one.close()
    with pytest.raises(InputError, match="another protocol"):
        protocol(seed=4).collector(tmp_path / "state")


def test_a_changed_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "reports.bin"
    path.write_bytes(b"".join(REPORTS[:100]))
    one = MADE.collector()
    one.add(path)
    path.write_bytes(b"".join(REPORTS[100:]))
    assert one.add(path).accepted == PEOPLE - 100


def test_shards_merge_in_any_order() -> None:
    shards = [MADE.collector() for _ in range(3)]
    for index, shard in enumerate(shards):
        shard.add(REPORTS[index::3])
    shards[0].add([b"rubbish"])
    shards[2].merge(shards[0])
    shards[2].merge(shards[1])
    assert shards[2].reports == PEOPLE
    assert shards[2].rejected == {"length": 1}
    assert tallied(shards[2]) == expected(MADE, REPORTS)
    assert shards[2].add(REPORTS[:10]).rejected == {"duplicate": 10}
    again = shards[2].merge(shards[1])
    assert (again.accepted, again.rejected) == (0, {"duplicate": len(REPORTS[1::3])})
    assert tallied(shards[2]) == expected(MADE, REPORTS)
    with pytest.raises(InputError, match="different protocols"):
        shards[2].merge(protocol(seed=4).collector())


def test_a_report_sent_to_two_shards_counts_once() -> None:
    first, second = MADE.collector(), MADE.collector()
    first.add(REPORTS[:100])
    second.add(REPORTS[99:])
    receipt = first.merge(second)
    assert (receipt.accepted, receipt.rejected) == (PEOPLE - 100, {"duplicate": 1})
    assert tallied(first) == expected(MADE, REPORTS)
    other = REPORTS[5][:10] + REPORTS[6][10:]
    assert other != REPORTS[5]
    third = MADE.collector()
    third.add([other])
    receipt = first.merge(third)
    assert (receipt.accepted, receipt.rejected) == (-1, {"duplicate": 1, "conflict": 1})
    assert tallied(first) == expected(MADE, REPORTS[:5] + REPORTS[6:])


@pytest.mark.parametrize("trial", range(12))
def test_neither_order_nor_division_shows(trial: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any order of arrival, any calls, any shards and any order of merging them give what the rules say of the set."""
    random = Random(trial)
    monkeypatch.setattr(collector, "BLOCK_REPORTS", random.choice([3, 50]))
    monkeypatch.setattr(runs, "PAGE_BYTES", 14 * random.choice([1, 2, 5]))
    monkeypatch.setattr(runs, "CHUNK_BYTES", 14 * random.choice([1, 6, 40]))
    identities = [REPORTS[index][4:10] for index in range(12)]
    items = [REPORTS[0][:4] + random.choice(identities) + random.choice(REPORTS[:3])[10:] for _ in range(20)]
    items += [*random.choices(REPORTS[20:50], k=30), b"short", bytes(16), REPORTS[3][:10] + b"\xff" * 6]
    good, rejected = by_the_rules(items)
    assert rejected.keys() == {"length", "foreign", "range", "duplicate", "conflict"}
    for _ in range(4):
        random.shuffle(items)
        shards = [MADE.collector() for _ in range(random.randint(1, 4))]
        for shard in shards:
            shard.add([])
        for start in range(0, len(items), 9):
            random.choice(shards).add(items[start : start + 9])
        while len(shards) > 1:  # a random tree of merges
            random.shuffle(shards)
            shards[0].merge(shards.pop())
        assert (shards[0].reports, shards[0].rejected) == (len(good), rejected)
        assert tallied(shards[0]) == expected(MADE, good)


def test_influence_is_attained_and_never_exceeded() -> None:
    """The worst reports against the best ones, at one query."""
    made = protocol()
    server: Any = made.server()
    device = server.device
    query = np.array([[0.3, 0.6]])
    bucket = int(server.pool.table(server.quantizer(server.tally()).lattice(query, 2**40))[0, 0])
    head = REPORTS[0][:4]

    def answer(bucket: int) -> float:
        one = made.collector()
        lies = [head + bytes([i, 1, 2, 3, 4, 5]) + bytes(2) + bucket.to_bytes(4, "little") for i in range(20)]
        one.add([*REPORTS[: PEOPLE - 20], *lies])
        assert one.reports == PEOPLE
        largest = one.influence(20)
        assert largest == pytest.approx(20 * server.answer.range / PEOPLE)
        return float(one.release().query(query)[0])

    assert device.rows_each == 1
    shift = answer(bucket) - answer((bucket + 1) % device.outcomes)
    assert shift == pytest.approx(20 * server.answer.range / PEOPLE)


def test_nothing_to_release_yet() -> None:
    one = MADE.collector()
    with pytest.raises(InputError, match="no report"):
        one.release()
    with pytest.raises(InputError, match="no report"):
        one.influence(1)


@pytest.mark.parametrize("source", [5, [1, 2], io.StringIO("text"), ["text"]])
def test_other_sources_are_refused(source: Any) -> None:
    with pytest.raises(InputError):
        MADE.collector().add(source)


@pytest.mark.parametrize("kernel", ["l2-lsh", "gaussian"])
def test_releases_are_saved_and_read(kernel: str, tmp_path: Path) -> None:
    made = protocol(kernel)
    one = made.collector()
    one.add(reports_of(made))
    release = one.release()
    release.save(tmp_path / "r.sfm")
    queries = np.random.default_rng(2).random((5, 2))
    again = sfumato.load(tmp_path / "r.sfm")
    assert np.array_equal(again.query(queries), release.query(queries))
    assert again.guarantee == release.guarantee
    assert again.count.value == PEOPLE and again.count.public
    assert "collector" in again.statement()
    weights = release.reader.weights(queries) @ release.values / release.reader.terms / PEOPLE
    assert weights == pytest.approx(release.query(queries))


def test_one_collector_at_a_time_works_in_a_folder(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with MADE.collector(state) as one:
        with pytest.raises(InputError, match="another collector works in"):
            MADE.collector(state)
        assert one.add(REPORTS[:10]).accepted == 10
    with pytest.raises(InputError, match="closed"):
        one.add(REPORTS[10:])
    with pytest.raises(InputError, match="closed"):
        one.merge(MADE.collector())
    assert one.release().count.value == 10
    for _ in range(2):  # a collector that nobody holds any more gives the folder free
        assert MADE.collector(state).reports == 10


def test_collectors_leave_no_open_files() -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("counts descriptors as Linux shows them")
    MADE.collector().add(REPORTS[:10])
    before = len(list(descriptors.iterdir()))
    for _ in range(5):
        MADE.collector().add(REPORTS[:10])
    assert len(list(descriptors.iterdir())) == before


def test_half_a_report_is_refused_once(tmp_path: Path) -> None:
    path, content = tmp_path / "reports.bin", b"".join(REPORTS)
    path.write_bytes(content[: 16 * 100 + 5])
    for _ in range(3):
        with MADE.collector(tmp_path / "state") as one:
            one.add(path)
            one.add(path)
            assert (one.reports, one.rejected) == (100, {"length": 1})
    path.write_bytes(content[: 16 * 200 + 7])  # the rest arrived, and another half
    for _ in range(2):
        with MADE.collector(tmp_path / "state") as one:
            one.add(path)
            assert (one.reports, one.rejected) == (200, {"length": 2})
