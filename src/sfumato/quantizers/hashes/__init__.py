"""Hash families: public random functions whose collision probability is a kernel; one file a family."""

from __future__ import annotations

from sfumato.quantizers.hashes.balls import BallCarving
from sfumato.quantizers.hashes.base import HashFamily, family_for, register_family
from sfumato.quantizers.hashes.binning import Binning
from sfumato.quantizers.hashes.checking import FamilyCheck, check_family
from sfumato.quantizers.hashes.hyperplanes import Hyperplanes
from sfumato.quantizers.hashes.minhash import MinHash
from sfumato.quantizers.hashes.pstable import PStable
from sfumato.quantizers.hashes.signs import SignedProjections

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
