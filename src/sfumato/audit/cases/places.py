"""Adversarial records: where a search for the worst change of a mechanism's integers looks.

Corners and edges of the box, its middle, zero, evenly spread places, values far outside, numbers at the ends of the
float range, and rows that are no numbers. Under "replace" pairs are searched: from several records, the one farthest
from it, then the one farthest from that. A record that is dropped adds nothing, which is one of the pair's choices.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from sfumato.audit.losses import norms
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.laws import NoiseLaw
from sfumato.quantizers.base import Encoder, Floats, Integers
from sfumato.quantizers.box import Box

PLACES = 2000
MOST_CORNERS = 8  # columns, of which all corners are listed
STARTS, TURNS = 8, 3
MOST_NUMBERS = 1 << 20  # that are compared at once


def places(box: Box) -> Floats:
    """Return the records to try."""
    dimension, random = box.dimension, np.random.default_rng(7)
    low, high, middle = np.array(box.lower), np.array(box.upper), box.centre
    if dimension <= MOST_CORNERS:
        corners = np.array(list(product((0.0, 0.5, 1.0) if dimension <= 4 else (0.0, 1.0), repeat=dimension)))
    else:
        corners = random.integers(0, 2, (1 << MOST_CORNERS, dimension)).astype(np.float64)
        corners[:3] = [[0.0], [0.5], [1.0]]
    even = np.linspace(0.0, 1.0, PLACES)[:, None] if dimension == 1 else random.random((PLACES, dimension))
    edges = np.where(random.random(even.shape) < 0.5, even, np.rint(even))
    inside = low + np.concatenate([corners, even, edges]) * (high - low)
    odd = np.array([0.0, 1e9, -1e9, 1e300, -1e300, math.nan, math.inf, -math.inf])
    return np.concatenate([inside, middle + 3 * (inside - middle), np.repeat(odd[:, None], dimension, axis=1)])


def worst_change(quantizer: Encoder, law: NoiseLaw, replaced: bool) -> tuple[Integers, int]:
    """Return the change of the sums by one record that the law hides the least, and how many changes were looked at.

    Parameters
    ----------
    quantizer : Encoder
        What encodes the records.
    law : NoiseLaw
        The noise, which says how changes compare.
    replaced : bool
        Whether a record is replaced, not added.
    """
    rows = places(quantizer.box)
    fewer = -(-len(rows) * quantizer.size // MOST_NUMBERS)
    encoded = quantizer.encode(rows[::fewer], SecureBits.seeded(0))
    sizes = norms(law, encoded)
    if not replaced:
        return encoded[int(np.argmax(sizes))], len(encoded)
    choices = np.vstack([encoded, np.zeros_like(encoded[:1])])
    spread = np.linspace(0, len(choices) - 1, STARTS).astype(np.int64)
    best, largest = choices[0] - choices[0], -1.0
    for start in (int(np.argmax(sizes)), *spread.tolist()):
        here = start
        for _ in range(TURNS):
            away = norms(law, choices - choices[here])
            there = int(np.argmax(away))
            if away[there] > largest:
                best, largest = choices[there] - choices[here], float(away[there])
            here = there
    return best, (STARTS + 1) * TURNS * len(choices)
