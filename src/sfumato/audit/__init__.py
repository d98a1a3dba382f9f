"""Audits of any mechanism: attacks that bound from below what it leaks, and checks of how its noise was calibrated.

Examples
--------
>>> from sfumato.audit import epsilon_lower_bound
>>> epsilon_lower_bound([0.0] * 1000, [0.0] * 1000)
0.0
"""

from __future__ import annotations

from sfumato.audit.case import (
    ATTACKS,
    AUDITS,
    CALIBRATIONS,
    AuditCase,
    AuditResult,
    CalibrationCase,
    Case,
    EpsilonClaim,
    ExactCase,
    MuClaim,
    audit,
    load_library,
    register_audit,
    register_calibrations,
    registered,
)
from sfumato.audit.estimators import epsilon_lower_bound, exact_delta, exact_epsilon, mu_lower_bound
from sfumato.audit.losses import Revealed, log_weights, revealed

__all__ = [
    "ATTACKS",
    "AUDITS",
    "CALIBRATIONS",
    "AuditCase",
    "AuditResult",
    "CalibrationCase",
    "Case",
    "EpsilonClaim",
    "ExactCase",
    "MuClaim",
    "Revealed",
    "audit",
    "epsilon_lower_bound",
    "exact_delta",
    "exact_epsilon",
    "load_library",
    "log_weights",
    "mu_lower_bound",
    "register_audit",
    "register_calibrations",
    "registered",
    "revealed",
]
