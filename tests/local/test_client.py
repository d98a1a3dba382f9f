"""The device path: standard library only, short reports, exact budget."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import BudgetError, InputError, LedgerError
from sfumato.local import Protocol
from sfumato.local.client import MAX_EPSILON, Client
from sfumato.local.coins import Coins

# Only the standard library, and not numpy by the back door.
WITHOUT_NUMPY = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numpy", "numba", "scipy", "cryptography", "pandas", "pyarrow", "rich", "typer"):
            raise ImportError(f"{name} is not on this device")

sys.meta_path.insert(0, Refuse())
from sfumato.local import Protocol
for path in sys.argv[1:]:
    report = Protocol.load(path).client(ledger=path + ".account").report([0.25, float("nan"), 9.0])
    print(report.hex())
"""


def protocol(kernel: str = "l2-lsh", **changes: Any) -> Protocol:
    arguments: dict[str, Any] = {"bandwidth": 0.5, "dimension": 3, "epsilon": 1, "participants": 500}
    arguments |= {"bounds": (0, 1), "seed": 3, **changes}
    return Protocol(kernel, **arguments)


def test_a_device_needs_the_standard_library_only(tmp_path: Path) -> None:
    paths = []
    for kernel in ("l2-lsh", "laplacian", "gaussian", "cauchy", "hat"):
        protocol(kernel).save(tmp_path / f"{kernel}.json")
        paths.append(str(tmp_path / f"{kernel}.json"))
    command = [sys.executable, "-c", WITHOUT_NUMPY, *paths]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    for path, report in zip(paths, output, strict=True):
        assert len(bytes.fromhex(report)) == 16
        assert Protocol.load(path).collector().add([bytes.fromhex(report)]).accepted == 1


@pytest.mark.parametrize("kernel", ["l2-lsh", "gaussian"])
@pytest.mark.parametrize("epsilon", [0.1, 1, 5, 25, 500])
def test_reports_are_short(kernel: str, epsilon: float) -> None:
    made = protocol(kernel, epsilon=epsilon)
    client = made.client(max_epsilon=1000)
    assert client.report_bytes == len(client.report([0, 0, 0])) <= 16


def test_reports_differ_and_carry_the_fingerprint() -> None:
    made = protocol()
    client = made.client()
    reports = {client.report([0.1, 0.2, 0.3]) for _ in range(50)}
    assert len(reports) == 50
    assert {report[:4].hex() for report in reports} == {made.fingerprint[:8]}


@pytest.mark.parametrize("point", [[1, 2], [1, 2, 3, 4], "abc", None, [1, 2, "x"]])
def test_what_is_no_point_is_refused(point: object) -> None:
    with pytest.raises(InputError, match="a point must"):
        protocol().client().report(point)  # type: ignore[arg-type]


def test_odd_values_are_reported_as_the_protocol_says() -> None:
    """Clipped and middle values give the very report of the point that they stand for."""
    document = protocol().document

    def report(point: list[float]) -> bytes:
        return Client(document, coins=Coins.seeded(5)).report(point)

    assert report([-4.0, 7.0, 0.25]) == report([0.0, 1.0, 0.25])
    assert report([-(10**400), 10**400, 0.25]) == report([0.0, 1.0, 0.25])
    assert report([float("nan"), float("inf"), -float("inf")]) == report([0.5, 0.5, 0.5])


def test_expired_protocols_are_not_reported_under() -> None:
    with pytest.raises(InputError, match="expired"):
        protocol(expires="2020-01-01").client().report([0, 0, 0])
    assert protocol(expires="2999-01-01").client().report([0, 0, 0])


def test_the_account_refuses_to_overspend(tmp_path: Path) -> None:
    made = protocol(epsilon="1/3")
    client = made.client(ledger=tmp_path / "account.json", budget=1)
    for _ in range(3):
        client.report([0, 0, 0])
    with pytest.raises(BudgetError, match="nothing was reported"):
        made.client(ledger=tmp_path / "account.json", budget=1).report([0, 0, 0])
    assert client.account is not None and client.account.spent == Fraction(1)
    assert client.reports == 3


def test_the_account_counts_over_protocols(tmp_path: Path) -> None:
    path = tmp_path / "account.json"
    protocol(epsilon=1).client(ledger=path, budget=1.5).report([0, 0, 0])
    with pytest.raises(BudgetError):
        protocol(epsilon=1, seed=4).client(ledger=path, budget=1.5).report([0, 0, 0])
    protocol(epsilon=0.5, seed=4).client(ledger=path, budget=1.5).report([0, 0, 0])


def test_the_budget_is_the_devices_limit_by_default(tmp_path: Path) -> None:
    client = protocol().client(ledger=tmp_path / "account.json", max_epsilon=1)
    client.report([0, 0, 0])
    with pytest.raises(BudgetError):
        client.report([0, 0, 0])


@pytest.mark.parametrize("epsilon", ["1/10", 3])
def test_the_budget_never_comes_from_the_document(tmp_path: Path, epsilon: Any) -> None:
    client = protocol(epsilon=epsilon).client(ledger=tmp_path / "account.json")
    assert client.account is not None and client.account.budget == MAX_EPSILON


def test_a_report_costs_what_the_device_allows_at_most() -> None:
    made = protocol(epsilon="4.5")
    with pytest.raises(InputError, match="epsilon of 4.5, and this device allows 4: pass max_epsilon="):
        made.client()
    assert made.client(max_epsilon="9/2").report([0, 0, 0])
    with pytest.raises(InputError, match="allows 0.5"):
        protocol().client(max_epsilon=0.5)


def test_a_promise_fails_as_often_as_the_device_allows_at_most() -> None:
    made = protocol(mechanism="mldp-kde", radius=0.1, eta=1e-3)
    with pytest.raises(InputError, match="probability 0.001, and this device allows 1e-06: pass max_delta="):
        made.client()
    assert made.client(max_delta=1e-3).report([0, 0, 0])


def test_permanent_reports_are_repeated_and_cost_once(tmp_path: Path) -> None:
    made = protocol()
    client = made.client(ledger=tmp_path / "account.json", budget=2, permanent=True)
    first = client.report([0.1, 0.2, 0.3])
    again = made.client(ledger=tmp_path / "account.json", budget=2, permanent=True).report([0.1, 0.2, 0.3])
    assert first == again
    other = client.report([0.1, 0.2, 0.4])
    assert other != first
    with pytest.raises(BudgetError):
        client.report([0.9, 0.9, 0.9])
    assert client.report([0.1, 0.2, 0.3]) == first
    assert "0.1" not in (tmp_path / "account.json").read_text()


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": "sfumato-device-account", "version": 1}'])
def test_damaged_accounts_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "account.json").write_text(content)
    with pytest.raises(LedgerError, match="damaged"):
        protocol().client(ledger=tmp_path / "account.json").report([0, 0, 0])


def test_a_budget_cannot_be_raised_by_the_way(tmp_path: Path) -> None:
    protocol().client(ledger=tmp_path / "account.json", budget=1).report([0, 0, 0])
    with pytest.raises(LedgerError, match="budget of 1, not 9"):
        protocol().client(ledger=tmp_path / "account.json", budget=9).report([0, 0, 0])


def test_accounts_are_needed_where_something_is_remembered() -> None:
    with pytest.raises(InputError, match="ledger="):
        protocol().client(budget=2)
    with pytest.raises(InputError, match="ledger="):
        protocol().client(permanent=True)


def test_the_account_is_written_before_the_report_is_drawn(tmp_path: Path) -> None:
    class Stop(Exception):  # noqa: N818
        pass

    class NoCoins(Coins):
        def take(self, count: int) -> bytes:
            charged = json.loads((tmp_path / "account.json").read_text())["protocols"]
            assert [charge["reports"] for charge in charged.values()] == [1]
            raise Stop

    client = protocol().client(ledger=tmp_path / "account.json")
    client._coins = NoCoins()
    with pytest.raises(Stop):
        client.report([0, 0, 0])


def test_coins_are_uniform() -> None:
    """Chi-square of 60,000 draws below 6; 5 degrees of freedom exceed 45 with probability 1.4e-8."""
    coins = Coins.seeded(1)
    counts = [0] * 6
    for _ in range(60_000):
        counts[coins.below(6)] += 1
    assert sum((count - 10_000) ** 2 / 10_000 for count in counts) < 45
    assert {coins.below(1) for _ in range(5)} == {0}
    assert max(coins.below(2**70) for _ in range(100)) > 2**64
