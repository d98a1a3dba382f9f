"""The ledger: adds up exactly, never overspends, not even in a race, and is never copied."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone

from sfumato.central.curator import account_of
from sfumato.errors import BudgetError, InputError, LedgerError
from sfumato.privacy import journal
from sfumato.privacy.accounting import compose
from sfumato.privacy.ledger import Account, Ledger, default_ledger_path
from sfumato.privacy.loss import Charge, Loss

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "ledger.md"


@pytest.fixture(params=["file", "memory"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.jsonl" if request.param == "file" else None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger of four lines: the version, a budget and two charges."""
    account = Ledger(tmp_path / "ledger.jsonl").account("survey")
    account.set_budget(1, 1e-5)
    account.charge("lsq-rff", 0.25, 1e-6)
    account.charge("race", "1/3", note="größe")
    return tmp_path / "ledger.jsonl"


@pytest.mark.parametrize("first", ["folder", "file"])
def test_a_folder_and_its_file_get_no_two_accounts_at_once(ledger: Ledger, tmp_path: Path, first: str) -> None:
    """Both found no account before either charged: the second is refused under the lock."""
    paths = {"folder": tmp_path / "trips", "file": tmp_path / "trips" / "may.csv"}
    paths["folder"].mkdir()
    paths["file"].write_text("x\n1\n")
    accounts = {name: account_of(ledger, path) for name, path in paths.items()}
    (second,) = set(accounts) - {first}
    accounts[first].charge("count", 1)
    with pytest.raises(InputError, match="a second (one|account) would be a second budget"):
        accounts[second].charge("count", 1)
    accounts[first].charge("lsq-rff", 1)
    assert ledger.datasets == (str(paths[first]),) and accounts[first].spent[0] == 2
    ledger.account("another name").charge("lsq-rff", 1)  # whoever names an account has decided
    assert ledger.account(str(paths[second])).charge("lsq-rff", 1).epsilon == 1


def test_adds_up_exactly_and_spends_to_the_last_bit(ledger: Ledger) -> None:
    account = ledger.account("survey")
    account.set_budget(1, 3e-5)
    for _ in range(3):
        account.charge("m", Fraction(1, 3), 1e-5)  # as binary numbers, three of these make more than 3e-5
    assert account.spent == (1, 3e-5)
    assert account.remaining == (0, 0.0)
    with pytest.raises(BudgetError):
        account.charge("m", 1e-9)
    assert len(account.charges) == 3


@settings(deadline=None)
@given(st.lists(st.decimals("0.001", "1", places=3), max_size=12), st.decimals("0.5", "3", places=1))
def test_never_spends_more_than_the_budget(amounts: list[Any], budget: Any) -> None:
    account = Ledger().account("d")
    account.set_budget(budget)
    total = Fraction(0)
    for amount in amounts:
        fits = total + Fraction(amount) <= Fraction(budget)
        if fits:
            account.charge("m", amount)
            total += Fraction(amount)
        else:
            with pytest.raises(BudgetError) as caught:
                account.charge("m", amount)
            assert (caught.value.requested, caught.value.remaining) == (Fraction(amount), Fraction(budget) - total)
        assert account.spent == (total, 0.0)


def test_refusal_names_both_amounts_and_spends_nothing(ledger: Ledger) -> None:
    account = ledger.account("survey")
    account.set_budget(1, 1e-6)
    account.charge("m", 0.8)
    for refused in (account.check, lambda epsilon: account.charge("m", epsilon)):
        with pytest.raises(BudgetError) as caught:
            refused(0.5)
        message = str(caught.value)
        assert "'survey'" in message and "epsilon = 0.5" in message and "epsilon = 0.2" in message
        assert (caught.value.requested, caught.value.remaining) == (Fraction(1, 2), Fraction(1, 5))
    with pytest.raises(BudgetError, match=r"delta = 2e-06 is requested, and .* delta = 1e-06 remains"):
        account.charge("m", 0.1, 2e-6)
    assert account.spent == (Fraction(4, 5), 0.0)


def test_check_writes_nothing(path: Path) -> None:
    before = path.read_bytes(), path.stat().st_mtime_ns
    Ledger(path).account("survey").check(0.1, 1e-6, neighbours="add-remove", unit="record")
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_without_a_budget_everything_is_recorded(ledger: Ledger) -> None:
    account = ledger.account("survey")
    account.check(1000)
    account.charge("m", 1000)
    account.charge("m", 1000, 0.5)
    assert account.budget is None and account.remaining is None
    assert account.spent == (2000, 0.5)


def test_budget_can_change_but_not_below_what_is_spent(ledger: Ledger) -> None:
    account = ledger.account("survey")
    account.charge("m", 0.5, 1e-6)
    for epsilon, delta in [(0.4, 1e-6), (1, 0.0)]:
        with pytest.raises(InputError, match=r"epsilon = 0.5, delta = 1e-06 is spent already"):
            account.set_budget(epsilon, delta)
    assert account.budget is None
    account.set_budget(2, 1e-3)
    account.set_budget(0.5, 1e-6)
    assert account.budget == (Fraction(1, 2), 1e-6)
    assert account.remaining == (0, 0.0)


def test_accounts_are_separate(ledger: Ledger) -> None:
    ledger.account("a").set_budget(0.1)
    ledger.account("b").charge("m", 5, neighbours="replace", unit="user")
    assert ledger.account("a").spent == (0, 0.0)
    assert ledger.account("a").remaining == (Fraction(1, 10), 0.0)
    assert ledger.datasets == ("a", "b")


@pytest.mark.parametrize("other", [("replace", "record"), ("add-remove", "user")])
def test_one_account_keeps_one_relation_and_unit(ledger: Ledger, other: tuple[str, str]) -> None:
    account = ledger.account("survey")
    account.charge("m", 0.1, neighbours="add-remove", unit="record")
    neighbours, unit = other
    with pytest.raises(LedgerError, match="do not add up"):
        account.check(0.1, neighbours=neighbours, unit=unit)
    with pytest.raises(LedgerError, match="do not add up"):
        account.charge("m", 0.1, neighbours=neighbours, unit=unit)
    assert len(account.charges) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"epsilon": 0}, {"epsilon": -1}, {"epsilon": "x"}, {"delta": 1.0}, {"delta": -0.1}, {"mechanism": ""},
        {"mechanism": "two\nlines"}, {"note": "two\nlines"}, {"note": None}, {"neighbours": "both"}, {"unit": "house"},
    ],
)  # fmt: skip
def test_refuses_bad_charges(ledger: Ledger, arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        ledger.account("d").charge(**({"mechanism": "m", "epsilon": 1} | arguments))
    assert ledger.account("d").charges == ()


@pytest.mark.parametrize("name", ["", " ", "two\nlines", "\ud800", None])
def test_refuses_bad_names(ledger: Ledger, name: Any) -> None:
    with pytest.raises(InputError, match="dataset"):
        ledger.account(name)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("d", "d "),
        ("d", "  d"),
        ("a b", "a   b"),
        ("caf\u00e9", "cafe\u0301"),
        ("d", "\uff44"),  # a full-width letter
        ("office", "o\ufb03ce"),  # a ligature
        ("d", "d\ufe0f"),  # a variation selector, which shows nothing
        ("d", "\u3164d"),  # a letter that shows nothing
        ("(nothing visible)", "\u3164"),
        ("(nothing visible)", "\u3164\u3164"),
    ],
)
def test_names_that_look_alike_are_one_account(ledger: Ledger, name: str, other: str) -> None:
    ledger.account(name).set_budget(1)
    ledger.account(other).charge("m", "3/4")
    with pytest.raises(BudgetError):
        ledger.account(name).charge("m", "1/2")
    assert ledger.datasets == (name,)
    assert ledger.account(other).spent == ledger.account(name).spent == (Fraction(3, 4), 0.0)


@given(st.text(min_size=1, max_size=20))
def test_a_name_has_one_form(name: str) -> None:
    try:
        account = Ledger().account(name)
    except InputError:
        return
    assert Ledger().account(account.dataset).dataset == account.dataset


def test_names_that_look_different_are_different(ledger: Ledger) -> None:
    names = ("d", "D", "e", "d2", "d-2", "d e", "\u0434")
    assert len({ledger.account(name).dataset for name in names}) == len(names)


def test_accounts_that_0_1_0_kept_apart_are_read_as_one(tmp_path: Path) -> None:
    """Its ledger holds "d", "d ", " d" and a full-width d, each with a budget of 2 and a charge of 1/2."""
    old = (Path(__file__).parents[1] / "corpus" / "0.1.0" / "odd_ledger.jsonl").read_bytes()
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(old)
    ledger = Ledger(path)
    assert ledger.datasets == ("a b", "caf\u00e9", "d")
    assert ledger.account("d ").spent == (2, 0.0) and ledger.account("caf\u00e9").spent == (1, 0.0)
    with pytest.raises(BudgetError):
        ledger.account("d").charge("m", "1/100")
    ledger.account("a b").charge("m", "1/2")
    assert path.read_bytes().startswith(old)  # what was written is not rewritten


def test_accounts_of_two_relations_that_were_kept_apart_take_no_more(ledger: Ledger) -> None:
    first = Charge(dataset="d", mechanism="m", epsilon=Fraction(1), neighbours="add-remove", unit="record")
    second = Charge(dataset="d ", mechanism="m", epsilon=Fraction(1), neighbours="replace", unit="record")
    for event in (first, second):
        ledger._journal.append(lambda records, event=event: {**event.to_document(), "dataset": "d"})
    for neighbours in ("add-remove", "replace"):
        with pytest.raises(LedgerError, match="do not add up"):
            ledger.account("d").charge("m", 1, neighbours=neighbours)


@pytest.mark.parametrize("name", ["", "zero\0byte"])
def test_refuses_bad_paths(name: str) -> None:
    with pytest.raises(InputError, match="path"):
        Ledger(name)


def test_a_charge_is_frozen_with_its_own_id(ledger: Ledger) -> None:
    first = ledger.account("d").charge("m", 0.5, note="first")
    second = ledger.account("d").charge("m", 0.5, note="first")
    assert first.id != second.id
    assert ledger.account("d").charges == (first, second)
    with pytest.raises(FrozenInstanceError):
        first.epsilon = Fraction(0)  # type: ignore[misc]


def test_nothing_is_rounded_down(ledger: Ledger) -> None:
    assert ledger.account("d").charge("m", 0.123456789).epsilon == Fraction(123456789, 10**9)


def test_the_file_holds_the_events_and_nothing_else(path: Path) -> None:
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    charge = {"event", "id", "dataset", "mechanism", "epsilon", "delta", "neighbours", "unit", "note", "loss", "sha256"}
    budget = {"event", "dataset", "epsilon", "delta", "rule", "sha256"}
    assert [set(record) for record in records] == [{"event", "version", "sha256"}, budget, charge, charge]
    assert records[3]["epsilon"] == "1/3"
    assert sorted(os.listdir(path.parent)) == ["ledger.jsonl", "ledger.jsonl.lock"]


# Two charges as version 1 wrote them, before there were rules and losses.
VERSION_1 = """\
{"event":"ledger","sha256":"e3dd443cee6f53f4ebc07e76a76a303159504b6a9428606a9716bba6bdd09071","version":1}
{"dataset":"survey","delta":1e-05,"epsilon":"1","event":"budget",\
"sha256":"29548aed4cd4ada67c5ae96ea4b762308127ed5f53658dcf4d8b5a29f2dd6613"}
{"dataset":"survey","delta":1e-06,"epsilon":"1/4","event":"charge","id":"370214b85855e90b5d2bf70ee2033d44",\
"mechanism":"lsq-rff","neighbours":"add-remove","note":"",\
"sha256":"dc7b685638bfbf7a007c24631b3c03c2a9dd2c1cbf62c6536778ed68dc4af074","unit":"record"}
{"dataset":"survey","delta":0.0,"epsilon":"1/3","event":"charge","id":"10622972146a06411521473a98284790",\
"mechanism":"race","neighbours":"add-remove","note":"first look",\
"sha256":"d5ad236e1b104219a203f61f81252e15c56a75351149371b4c6137be43fe59b5","unit":"record"}
"""


def test_ledgers_of_version_1_are_read_and_go_on(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text(VERSION_1)
    account = Ledger(path).account("survey")
    assert (account.rule, account.budget, account.spent) == ("basic", (1, 1e-5), (Fraction(7, 12), 1e-6))
    assert [charge.loss for charge in account.charges] == [None, None]
    with pytest.raises(InputError, match="known by its delta alone"):
        account.set_budget(2, 1e-4, rule="zcdp")
    account.set_budget(2, 1e-4, rule="pld")
    account.charge("fourier-gaussian", 0.5, 1e-6, loss=GAUSSIAN)
    assert path.read_text().startswith(VERSION_1)
    charges = Ledger(path).account("survey").charges
    assert charges[-1].loss == GAUSSIAN
    assert account.spent == (compose(charges, "pld", 1e-4), 1e-4)


GAUSSIAN = Loss(
    pure=(Fraction(1, 40),), mu_squared=Fraction(1, 80), distance=1e-13
)  # covered by epsilon 0.5, delta 1e-6


@pytest.mark.parametrize("rule", ["gdp", "zcdp", "pld"])
def test_a_rule_says_what_is_spent_and_left(ledger: Ledger, rule: str) -> None:
    account = ledger.account("survey")
    account.set_budget("17/20", 1e-6, rule=rule)
    assert (account.rule, account.spent, account.remaining) == (rule, (0, 0.0), (Fraction(17, 20), 1e-6))
    for _ in range(2):
        account.charge("fourier-gaussian", 0.5, 1e-6, loss=GAUSSIAN)
    spent = compose(account.charges, rule, 1e-6)
    assert spent is not None and 0.5 < spent < Fraction(3, 4)
    assert account.spent == (spent, 1e-6)
    assert account.remaining == (Fraction(17, 20) - spent, 0.0)
    assert account.affords(0.5, 1e-6, loss=GAUSSIAN) is (rule != "zcdp")
    assert not account.affords(0.5, 1e-6)  # as much again, of which nothing is known but epsilon and delta
    assert len(account.charges) == 2


def test_refusal_under_a_rule_names_both_amounts(ledger: Ledger) -> None:
    account = ledger.account("survey")
    account.set_budget("4/5", 1e-6, rule="gdp")
    for _ in range(2):
        account.charge("fourier-gaussian", 0.5, 1e-6, loss=GAUSSIAN)
    after = compose([*account.charges, account.charges[0]], "gdp", 1e-6)
    spent, before = account.spent[0], account.charges
    assert after is not None
    with pytest.raises(BudgetError) as caught:
        account.charge("fourier-gaussian", 0.5, 1e-6, loss=GAUSSIAN)
    assert f"with it epsilon = {float(after)} at delta = 1e-06 by rule 'gdp' would be spent" in str(caught.value)
    assert f"against epsilon = {float(spent)} now and a budget of epsilon = 0.8" in str(caught.value)
    assert (caught.value.requested, caught.value.remaining) == (Fraction(1, 2), Fraction(4, 5) - spent)
    with pytest.raises(BudgetError, match="more than any epsilon at delta = 1e-06 by rule 'gdp', because"):
        account.charge("m", 0.5, 1e-3)
    assert account.charges == before


def test_a_rule_can_change_to_one_that_covers_what_is_spent(ledger: Ledger) -> None:
    account = ledger.account("survey")
    for _ in range(3):
        account.charge("fourier-gaussian", 0.5, 1e-6, loss=GAUSSIAN)
    account.set_budget(1, 1e-6, rule="gdp")
    with pytest.raises(InputError, match=r"epsilon = 1.5, delta = 3e-06 is spent already"):
        account.set_budget(1, 1e-6)
    with pytest.raises(InputError, match=r"at delta = 1e-06 by rule 'zcdp' is spent already"):
        account.set_budget("4/5", 1e-6, rule="zcdp")
    assert (account.rule, account.budget) == ("gdp", (1, 1e-6))
    account.set_budget("3/2", 3e-6)
    assert (account.rule, account.spent) == ("basic", (Fraction(3, 2), 3e-6))


@pytest.mark.parametrize(
    ("delta", "rule", "match"), [(1e-6, "magic", "rule must be"), (0.0, "zcdp", "needs delta > 0")]
)
def test_refuses_bad_rules(ledger: Ledger, delta: float, rule: str, match: str) -> None:
    with pytest.raises(InputError, match=match):
        ledger.account("d").set_budget(1, delta, rule=rule)
    assert ledger.datasets == ()


def test_other_objects_see_what_was_spent(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = path.parent / "link"
    link.symlink_to(path)
    monkeypatch.chdir(path.parent)
    others = [Ledger(str(path)), Ledger(link), Ledger("ledger.jsonl")]
    monkeypatch.chdir("/")
    for other in others:
        assert other.path == path.resolve()
        assert other.account("survey").spent == (Fraction(7, 12), 1e-6)
        assert other.account("survey").budget == (1, 1e-5)
    others[1].account("survey").charge("m", "1/12")
    assert link.is_symlink()
    assert others[0].account("survey").spent[0] == Fraction(2, 3)


def test_folders_are_made_and_reading_makes_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a" / "b" / "ledger.jsonl")
    assert ledger.account("d").spent == (0, 0.0)
    assert os.listdir(tmp_path) == []
    ledger.account("d").charge("m", 1)
    assert ledger.account("d").spent == (1, 0.0)


class Estimator(BaseEstimator):
    def __init__(self, ledger: Account | None = None) -> None:
        self.ledger = ledger


def test_copies_are_the_same_budget(ledger: Ledger) -> None:
    account = ledger.account("d")
    for original in (ledger, account):
        assert copy.copy(original) is original
        assert copy.deepcopy(original) is original
    assert clone(Estimator(account)).ledger is account


def test_a_file_is_pickled_as_its_path(path: Path) -> None:
    account = pickle.loads(pickle.dumps(Ledger(path).account("survey")))
    account.charge("m", 0.1)
    assert account.ledger.path == path.resolve()
    assert len(Ledger(path).account("survey").charges) == 3


def test_memory_is_neither_pickled_nor_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Ledger().account("d")
    for value in (account, account.ledger):
        with pytest.raises(TypeError, match="second budget"):
            pickle.dumps(value)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(LedgerError, match="forked"):
        account.charge("m", 1)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SFUMATO_LEDGER": "/data/l.jsonl", "XDG_STATE_HOME": "/state"}, "/data/l.jsonl"),
        ({"XDG_STATE_HOME": "/state"}, "/state/sfumato/ledger.jsonl"),
        ({"XDG_STATE_HOME": "relative"}, "/home/someone/.local/state/sfumato/ledger.jsonl"),
        ({"SFUMATO_LEDGER": "", "XDG_STATE_HOME": ""}, "/home/someone/.local/state/sfumato/ledger.jsonl"),
        ({}, "/home/someone/.local/state/sfumato/ledger.jsonl"),
    ],
)
def test_default_path(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    for name in ("SFUMATO_LEDGER", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert default_ledger_path() == Path(expected)


@pytest.mark.parametrize("chosen", ["ledger.jsonl", "~/ledger.jsonl", "../ledger.jsonl"])
def test_no_folder_has_a_ledger_of_its_own(monkeypatch: pytest.MonkeyPatch, chosen: str) -> None:
    monkeypatch.setenv("SFUMATO_LEDGER", chosen)
    with pytest.raises(LedgerError, match="another ledger, with budgets of its own, in every folder"):
        default_ledger_path()


def test_the_example_in_the_documentation_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    account = Ledger("ledger.jsonl").account("survey 2024")
    with pytest.raises(BudgetError, match=r"epsilon = 0.8, .* epsilon = 0.6"):
        account.check(0.8)
    assert (account.spent, account.remaining) == ((Fraction(2, 5), 0.0), (Fraction(3, 5), 0.0))


def slowly(function: Callable[..., Any]) -> Callable[..., Any]:
    def slow(*arguments: Any) -> Any:
        time.sleep(1e-5)
        return function(*arguments)

    return slow


def test_racing_threads_never_overspend(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.account("d").set_budget(1)
    outcomes: list[bool] = []
    start = threading.Barrier(8)
    monkeypatch.setattr(journal, "_line", slowly(journal._line))  # leave others time between reading and writing

    def race() -> None:
        start.wait()
        for _ in range(3):
            try:
                ledger.account("d").charge("m", 0.1)
                outcomes.append(True)
            except BudgetError:
                outcomes.append(False)

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (outcomes.count(True), outcomes.count(False)) == (10, 14)
    assert ledger.account("d").spent == (1, 0.0)


def run(script: str, path: Path) -> Any:
    """Run a script in a fresh process, where forking is safe, and return the JSON that it prints."""
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


RACE = """
import json, multiprocessing, sys
from sfumato.errors import BudgetError
from sfumato.privacy.ledger import Ledger

def race(start, outcomes):
    account = Ledger(sys.argv[1]).account("d")
    start.wait()
    for _ in range(3):
        try:
            outcomes.put(account.charge("m", 0.1).id)
        except BudgetError:
            outcomes.put(None)

fork = multiprocessing.get_context("fork")
start, outcomes = fork.Barrier(8), fork.Queue()
processes = [fork.Process(target=race, args=(start, outcomes)) for _ in range(8)]
for process in processes:
    process.start()
results = [outcomes.get() for _ in range(24)]
for process in processes:
    process.join()
print(json.dumps(results))
"""


def test_racing_processes_never_overspend(tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger.jsonl").account("d")
    account.set_budget(1)
    account.charge("m", 0.5)
    succeeded = [result for result in run(RACE, tmp_path / "ledger.jsonl") if result is not None]
    assert len(succeeded) == 5
    assert sorted(charge.id for charge in account.charges[1:]) == sorted(succeeded)
    assert account.remaining == (0, 0.0)
