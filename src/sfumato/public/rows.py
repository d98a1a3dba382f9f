r"""Public randomness for devices: rows of random integers, any of which is drawn without the ones before it.

The standard library only, and specified so that any language draws the same integers from a seed:

- bytes of row r: SHAKE-256 of ``b"sfumato-rows-1\0" + label (UTF-8) + b"\0" + seed (32 bytes) + r (8 bytes,
  big-endian)``, as many as the row needs, read as little-endian unsigned integers;
- numbers: a 32-bit word ``w`` picks a point between two neighbouring nodes of a law's table,
  ``n[i] + ((n[i+1] - n[i]) * (w mod 2**16) >> 16)`` with ``i = w >> 16`` and ``>>`` rounding down;
- tables: node i of 0 ... 65536 is the integer nearest ``2**bits q(i / 65536)``, q the law's quantile function and
  ``bits`` its `fraction_bits`; the first and the last node, where quantiles may be infinite, take
  ``q(2**-18)`` and ``q(1 - 2**-18)``.

No node lies within 6e-6 of a half, and the formulas here are off by less than 2e-6, so every correct program computes
the same table; `Law.nodes` checks it by its SHA-256 (64-bit little-endian integers).

Approximation: between nodes a number is uniform instead of following its law, and it stays below the quantile at
2**-18. In one column that moves a kernel by less than 10**-4. Over d columns of Cauchy numbers it adds up, to about
1.5e-5 d; designs stop at 1024 columns. `sfumato.published.local.closeness` bounds it by the number of columns, for the
promises that rest on hash functions; all others hold for any numbers, and both sides of a collection use the same ones.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

from sfumato.errors import SfumatoError

INDEX_BITS = 16
STEPS = 1 << INDEX_BITS
END = 2.0**-18
WORD_BYTES, KEY_BYTES = 4, 8


def row_bytes(seed: bytes, label: str, row: int, count: int) -> bytes:
    """Return the first `count` public random bytes of a row.

    Examples
    --------
    >>> row_bytes(bytes(32), "example", 5, 4).hex()
    '0a845c44'
    """
    message = b"sfumato-rows-1\0" + label.encode() + b"\0" + seed + row.to_bytes(8, "big")
    return hashlib.shake_256(message).digest(count)


@dataclass(frozen=True)
class Law:
    """A law of public random numbers, as a table of integers.

    Attributes
    ----------
    name : str
        What it is.
    fraction_bits : int
        Numbers are integers in units of ``2**-fraction_bits``.
    quantile : callable
        q.
    digest : str
        SHA-256 of the nodes.

    Examples
    --------
    >>> NORMAL.nodes[32768], round(NORMAL.nodes[55131] / 2**20, 4)
    (0, 0.9995)
    """

    name: str
    fraction_bits: int
    quantile: Callable[[float], float]
    digest: str

    @cached_property
    def nodes(self) -> array[int]:
        """The table, computed once; refuse to go on with another one than was published."""
        scale = float(1 << self.fraction_bits)
        levels = [END, *(i / STEPS for i in range(1, STEPS)), 1.0 - END]
        nodes = array("q", [round(scale * self.quantile(level)) for level in levels])
        if _digest(nodes) != self.digest:
            raise SfumatoError(
                f"the table of the {self.name} law comes out wrong here, so public randomness would differ from "
                "everyone else's: report this, with the processor and the version of Python"
            )
        return nodes

    @property
    def largest(self) -> int:
        """Largest magnitude of a number, in its units."""
        return max(abs(self.nodes[0]), abs(self.nodes[STEPS]))

    @cached_property
    def _lists(self) -> tuple[list[int], list[int]]:
        """Nodes and the steps between them; lists are quicker to look up than arrays."""
        nodes = list(self.nodes)
        return nodes, [after - before for before, after in itertools.pairwise(nodes)]

    def numbers(self, words: Iterable[int]) -> list[int]:
        """Turn 32-bit words into numbers.

        Examples
        --------
        >>> NORMAL.numbers(array("I", [0, 2**31])) == [NORMAL.nodes[0], 0]
        True
        """
        starts, steps = self._lists
        return [starts[word >> 16] + (steps[word >> 16] * (word & 0xFFFF) >> 16) for word in words]


def _digest(nodes: array[int]) -> str:
    return hashlib.sha256(b"".join(node.to_bytes(8, "little", signed=True) for node in nodes)).hexdigest()


def _cauchy(level: float) -> float:
    # Near the ends the tangent of the complement is exact where tan(pi (level - 1/2)) loses digits.
    if level < 0.25:
        return -1.0 / math.tan(math.pi * level)
    return 1.0 / math.tan(math.pi * (1.0 - level)) if level > 0.75 else math.tan(math.pi * (level - 0.5))


def _laplace(level: float) -> float:
    """Of the density exp(-|x|) / 2."""
    return math.log(2.0 * level) if level < 0.5 else -math.log(2.0 * (1.0 - level))


def _cells(level: float) -> float:
    """Cells per unit length: 1 / w for a width of density w exp(-w), above w with probability (1 + w) exp(-w).

    Newton's method for P(1 / width < 1 / w) = P(width > w) = level, from its right side where w is small.
    """
    w = math.sqrt(2.0 * (1.0 - level)) if level > 0.5 else 1.0 - math.log(level)
    for _ in range(60):
        decay = math.exp(-w)
        excess = (1.0 - level) - (-math.expm1(-w) - w * decay) if level > 0.5 else (1.0 + w) * decay - level
        w += excess / (w * decay)
        if abs(excess) <= 1e-15 * w * w * decay:
            break
    return 1.0 / w


NORMAL = Law("normal", 20, NormalDist().inv_cdf, "a62b041c9de6a306df4adea9d918ccb22d99bfa68086db0ea5dc2e7ae2d90d17")
CAUCHY = Law("Cauchy", 16, _cauchy, "ff71010ff81b28940ded301a07c1cfe40d691ce690e0b342c0432c5fcb11c6df")
LAPLACE = Law("Laplace", 20, _laplace, "954272afcf9b87c57b81f6ad6f70ffa2110d805445210785ab44950b7be4ea74")
CELLS = Law("cell", 16, _cells, "a5eb68a679e51f7da0cb47efe518686fb61b3c522ad1b489aabae518a12d253a")
LAWS = {law.name: law for law in (NORMAL, CAUCHY, LAPLACE, CELLS)}
