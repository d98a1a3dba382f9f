"""Sums of bits from anonymous messages: protocols, exact calibration, and what they cost.

`calibrate` finds the least noise of a protocol for a number of instances; docs/shuffled-bitsums.md explains and proves.
"""

from sfumato.shuffled.bitsum.bit_sum import BitSum, Counts
from sfumato.shuffled.bitsum.calibration import NAMES, Calibration, calibrate
from sfumato.shuffled.bitsum.search import central_gaussian_rmse

__all__ = ["NAMES", "BitSum", "Calibration", "Counts", "calibrate", "central_gaussian_rmse"]
