"""Hash families: public random functions whose collision probability is a kernel."""

from __future__ import annotations

from sfumato.quantizers.hashes.base import FamilyCheck, HashFamily, check_family, family_for, register_family
from sfumato.quantizers.hashes.carving import BallCarving, Binning, MinHash
from sfumato.quantizers.hashes.linear import Hyperplanes, PStable, SignedProjections

__all__ = [
    "BallCarving",
    "Binning",
    "FamilyCheck",
    "HashFamily",
    "Hyperplanes",
    "MinHash",
    "PStable",
    "SignedProjections",
    "check_family",
    "family_for",
    "register_family",
]
