"""Fast estimates for those who need no privacy. All of this room is NOT PRIVATE, and says so wherever it is shown.

`FastKDE` uses the quantizers of private releases without noise; `HashingKDE` samples from hash buckets, which gives a
relative error where densities are small.
"""

from __future__ import annotations

from sfumato.fast.features import FastKDE
from sfumato.fast.hashing import HashingKDE

__all__ = ["FastKDE", "HashingKDE"]
