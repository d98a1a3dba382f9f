"""Every mechanism is audited, keeps its claim by a bound that comes close to it, and its broken twins are caught."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import typer
from scipy import stats
from typer.testing import CliRunner

from sfumato.audit import ATTACKS, AuditCase, EpsilonClaim, attacks, audit, load_library
from sfumato.audit import case as cases
from sfumato.audit.attacks import (
    CentralCase,
    Outputs,
    at_small_scale,
    displacement,
    exact_case,
    extremes,
    features,
    possible_sums,
    run,
)
from sfumato.audit.cases import central as audits
from sfumato.audit.cases.twins import LOW, TWINS, Twin, with_less_noise
from sfumato.central.curator import Curator
from sfumato.cli import audit as command
from sfumato.engines import Threads
from sfumato.errors import InputError
from sfumato.methods.registry import METHODS
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers import ShardedFourier
from sfumato.sources import open_source
from tests.audit.calibration_checks import check_audit

load_library()

TRIALS = 100_000
FALSE_ALARM = 1e-6

# How much of the claim a bound must show: what is not named here asks for a mistake that is not there.
CLOSE = {
    "count": {"0 or 1 records": 0.92, "exact": 1.0},
    "exponential-sums": {
        "0 or 1 records, 3 features": 0.65,
        "1 or 2 records, 6 features": 0.65,
        "a record or its opposite, 3 features": 0.7,
    },
    "exponential-sums-published": {
        "0 or 1 records, 3 features": 0.78,
        "a record or its opposite, 6 features": 0.6,
    },
    "projection": {
        "0 or 1 records, dense, 2 columns to 1": 0.78,
        "0 or 1 records, fast, 2 columns to 1": 0.85,
        "8 or 9 records, dense, 2 columns to 1": 0.78,
    },
    "fourier": {
        "0 or 1 records, 1 feature": 0.8,
        "1 or 2 records, 3 features": 0.8,
        "a record or its opposite, 1 feature": 0.85,
        "0 or 1 records, 2 features in 2 groups": 0.7,
        "exact, radius 4, 1 feature, add-remove": 0.999,
        "exact, radius 4, 1 feature, replace": 0.999,
        "exact, radius 4, 2 features in 2 groups, add-remove": 0.999,
    },
    "fourier-gaussian": {
        "0 or 1 records, 2 features": 0.7,
        "a record or its opposite, 2 features": 0.8,
        "0 or 1 records, 2 features in 2 groups": 0.5,
        "exact, radius 4, 1 feature, replace": 0.75,
        "exact, radius 3, 2 features in 2 groups, add-remove": 0.48,
    },
    "lattice": {
        "a record or its opposite, 1 feature": 0.75,
        "0 or 1 records, 1 feature": 0.75,
        "1 or 2 records, 1 feature": 0.74,
    },
    "grid": {
        "0 or 1 records, 1 feature": 0.85,
        "1 or 2 records, 1 feature": 0.75,
        "a record or its opposite, 1 feature": 0.83,
    },
    "cells": {
        "0 or 1 records, 1 feature": 0.85,
        "1 or 2 records, 1 feature": 0.8,
        "a record or its opposite, 1 feature": 0.83,
    },
    "race": {
        "0 or 1 records, 1 feature": 0.8,
        "1 or 2 records, 2 features": 0.75,
        "0 or 1 records, 2 features": 0.7,
        "a record or its opposite, 1 feature": 0.8,
        "exact, radius 1, 2 features, add-remove": 1.0,
        "exact, radius 1, 2 features, replace": 1.0,
    },
    "race-published": {
        "0 or 1 records, 1 feature": 0.8,
        "a record or its opposite, 1 feature": 0.8,
        "exact, radius 1, 2 features, add-remove": 1.0,
        "exact, radius 1, 2 features, replace": 1.0,
    },
    "lsq-rff": {
        "0 or 1 records, 1 feature": 0.85,
        "1 or 2 records, 2 features": 0.83,
        "a record or its opposite, 2 features": 0.83,
        "exact, radius 4, 2 features, add-remove": 0.75,
        "exact, radius 4, 2 features, replace": 0.75,
    },
}


def test_every_mechanism_has_an_audit() -> None:
    missing = {*METHODS, audits.COUNT} - set(ATTACKS)
    assert not missing, f"register audits of {sorted(missing)} in sfumato.audit.cases.central"
    assert all(ATTACKS[name]() for name in METHODS)


# Distances, learners, devices and bit sums run theirs in their own tests.
HERE = sorted({*METHODS, audits.COUNT, "projection", "users"})


@pytest.mark.parametrize("mechanism", HERE)
def test_claims_hold_by_bounds_that_come_close(mechanism: str) -> None:
    close = dict(CLOSE.get(mechanism, {}))
    for case in ATTACKS[mechanism]():
        check_audit(case, TRIALS, f"{mechanism} {case.name}", close.pop(case.name, 0.0) * (1 - 1e-9))
    assert not close, "cases that are gone"


@pytest.mark.exact
@pytest.mark.parametrize(
    "twin", [twin for twin in TWINS if twin.mechanism in HERE], ids=lambda twin: f"{twin.mechanism}: {twin.mistake}"
)
def test_broken_twins_are_caught(twin: Twin) -> None:
    result = audit(twin.case(), TRIALS, bits=SecureBits.seeded(f"{twin.mechanism} {twin.mistake}"))
    assert not result.holds, result


def test_twins_of_every_kind_are_there() -> None:
    mistakes = {name: {twin.mistake for twin in TWINS if twin.mechanism == name} for name in audits.CENTRAL_CASES}
    assert {"fourier", "fourier-gaussian", "grid", "lsq-rff", "count"} <= set(mistakes)
    assert all("noise 30 % low" in named for named in mistakes.values())
    everything = " ".join(mistake for named in mistakes.values() for mistake in named)
    for kind in ("off by one", "floating-point", "positional", "truncated", "empty groups", "not paid"):
        assert kind in everything


CURATED: dict[str, CentralCase] = {
    "lsq-rff": audits.lsq_rff_cases()["second"],
    "fourier": audits.fourier_cases()["groups"],
    "fourier-gaussian": audits.gaussian_cases()["opposites"],
    "lattice": audits.lattice_cases()["second"],
}


@pytest.mark.parametrize("name", CURATED)
def test_the_audited_outputs_are_those_of_the_curator(name: str) -> None:
    case, runs = CURATED[name], 1000
    curator = Curator(open_source(case.inside), None, SecureBits.seeded("curator"), Threads(1))
    releases = [curator.run(case.mechanism) for _ in range(runs)]
    values = np.stack([release.values for release in releases])
    published = np.array([release.count.value for release in releases])
    drawn = run(case.mechanism, case.inside, 100_000, SecureBits.seeded("audit"))
    counts = np.maximum(published, 1) if drawn.counts is None else np.maximum(drawn.counts, 1)

    def p_value(outputs: Outputs) -> float:
        statistics = [case.statistic(replace(each, counts=None)) for each in (Outputs(values, None), outputs)]
        return float(stats.ks_2samp(*statistics).pvalue)

    assert p_value(drawn) > FALSE_ALARM
    assert stats.ks_2samp(published, counts).pvalue > FALSE_ALARM
    mechanism = replace(case.mechanism, noise=with_less_noise(case.mechanism.noise))
    assert p_value(run(mechanism, case.outside, 100_000, SecureBits.seeded("other"))) < FALSE_ALARM


class TestParts:
    @pytest.mark.exact
    def test_extremes_reach_the_bounds(self) -> None:
        for case in (*audits.lsq_rff_cases().values(), *audits.gaussian_cases().values()):
            quantizer = case.mechanism.encoder
            row, opposite = (quantizer.encode(each, SecureBits.seeded(1))[0] for each in extremes(quantizer))
            if quantizer.width == 1:
                assert np.abs(row).sum() > 0.99 * quantizer.bound.l1
            change = np.square(row - opposite).sum()
            assert change > 0.9 * 4 * quantizer.bound.l2_squared

    def test_features_are_what_the_coins_choose_from(self) -> None:
        quantizer = audits.fourier_cases()["groups"].mechanism.encoder
        assert isinstance(quantizer, ShardedFourier) and quantizer.groups == 2
        rows = np.linspace(-3, 3, 40)[:, None]
        whole = features(quantizer, rows).reshape(40, 2, 2)
        assert (whole != 0).any(axis=2).all()
        encoded = quantizer.encode(rows, SecureBits.seeded(2)).reshape(40, 2, 2)
        chosen = (encoded != 0).any(axis=2)
        assert (chosen.sum(axis=1) == 1).all() and chosen.any(axis=0).all()
        np.testing.assert_array_equal(encoded[chosen], whole[chosen])

    def test_possible_sums_are_all_that_coins_give(self) -> None:
        quantizer = audits.fourier_cases()["groups"].mechanism.encoder
        rows = np.array([[0.3], [1.2]])
        drawn = attacks.encoded_sums(quantizer, rows, 200, SecureBits.seeded(3))
        expected = {tuple(sums) for sums in possible_sums(quantizer, rows).tolist()}
        assert len(expected) == 4
        assert {tuple(sums) for sums in drawn.tolist()} == expected

    def test_sums_of_many_runs_are_those_of_the_engine(self) -> None:
        quantizer = audits.lsq_rff_cases()["second"].mechanism.encoder
        rows = np.array([[0.3], [1.2], [-4.0]])
        sums = np.zeros(quantizer.size, dtype=np.int64)
        assert quantizer.accumulate(rows, sums) == 3
        many = attacks.encoded_sums(quantizer, rows, 5, SecureBits.seeded(1))
        np.testing.assert_array_equal(many, np.tile(sums, (5, 1)))
        assert not attacks.encoded_sums(quantizer, rows[:0], 5, SecureBits.seeded(1)).any()

    @pytest.mark.parametrize(
        ("value", "digits"), [(0, 0), (7, 0), (-4096, 0), (0.5, 1), (-6.25, 2), (2**20 + 2**-32, 32), (2.0**-60, 60)]
    )
    def test_low_bits(self, value: float, digits: int) -> None:
        assert attacks.low_bits(Outputs(np.array([[value, 3.0]]), None)) == digits

    def test_runs_come_in_portions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(attacks, "RUNS_AT_ONCE", 300)
        inside, outside = audits.lsq_rff_cases()["one more"].sample(1000, SecureBits.seeded(1))
        assert inside.shape == outside.shape == (1000,)
        assert np.unique(inside[:300]).tolist() != np.unique(inside[300:600]).tolist()

    def test_what_does_not_apply_is_refused(self) -> None:
        lsq, grid = audits.lsq_rff_cases()["second"], audits.grid_cases()["one more"]
        with pytest.raises(InputError, match="no groups"):
            displacement(lsq.mechanism, lsq.inside, lsq.outside)
        with pytest.raises(InputError, match="cannot be scaled"):
            at_small_scale(grid.mechanism)
        sharded = audits.small_mechanism("fourier", 1, "replace", n_features=2, per_group=1)
        with pytest.raises(InputError, match="one group"):
            exact_case(at_small_scale(sharded), 2).log_probabilities()

    def test_less_noise_is_30_percent_less(self) -> None:
        for case in CURATED.values():
            ratio = with_less_noise(case.mechanism.noise).variance / case.mechanism.noise.variance
            assert ratio == pytest.approx(float(LOW) ** 2, rel=0.01)


class TestCommand:
    def invoke(self, *arguments: str) -> Any:
        app = typer.Typer()
        app.command()(command.audit)
        return CliRunner().invoke(app, list(arguments))

    def test_prints_a_table(self) -> None:
        result = self.invoke("count", "--trials", "1000")
        assert result.exit_code == 0
        assert "mechanism" in result.output and "leaks at" in result.output
        assert "2,000" in result.output and result.output.count("holds") == 2

    def test_prints_json(self) -> None:
        result = self.invoke("count", "lsq-rff", "--trials", "500", "--json")
        assert result.exit_code == 0
        documents = json.loads(result.output)
        assert [document["mechanism"] for document in documents].count("count") == 2
        assert {document["verdict"] for document in documents} == {"holds"}
        assert documents[0]["claim"] == {"epsilon": 1, "delta": 0} and documents[0]["samples"] == 1000

    def test_a_broken_mechanism_ends_with_1(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def tells_all(trials: int, bits: SecureBits) -> tuple[np.ndarray, np.ndarray]:
            return np.ones(trials), np.zeros(trials)

        broken = AuditCase("in or out", EpsilonClaim(1.0), tells_all)
        monkeypatch.setattr(cases, "AUDITS", {"mine": lambda: [broken], "good": lambda: []})
        result = self.invoke("--trials", "1000")
        assert result.exit_code == 1
        assert "BROKEN" in result.output and "1 of 1 audits leak more" in result.output
        assert self.invoke("good", "--trials", "1000").exit_code == 0

    def test_an_unknown_mechanism_is_refused(self) -> None:
        result = self.invoke("nothing")
        assert isinstance(result.exception, InputError) and "known are" in str(result.exception)
