"""Secure random words, the only source of privacy noise.

Source: the keystream of AES-256 in counter mode under a key from the operating system's secure generator, read as
64-bit little-endian words. Guarantee: whoever does not hold the key cannot tell the words from uniform ones without
breaking AES. No word is handed out twice: requests from several threads are served one after the other, a forked
process draws a key of its own, whether or not Python saw the fork, and a stream can be neither copied nor pickled.

A seeded stream runs the same generator under a key that anyone who knows the seed can compute. It is meant for tests
and reproducible experiments; what is sampled from it is NOT PRIVATE, and `SecureBits.private` says so. The door through
which a seed may stand in for secret noise, `noise_bits`, warns whoever opens it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import warnings
from collections.abc import Callable
from numbers import Integral
from typing import TYPE_CHECKING, NoReturn, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.compiled import njit
from sfumato.errors import InputError, NotPrivateWarning
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.process import process_mark
from sfumato.public.codec import brief
from sfumato.public.ranges import plain_number

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

Words: TypeAlias = NDArray[np.uint64]
Integers: TypeAlias = NDArray[np.int64]

LARGEST_BOUND = 2**62
MOST_SEED_BITS = 4096
FIRST_REFILL_BYTES = 1 << 12  # small, so that a stream for a few coins stays cheap; doubled at every refill
LARGEST_REFILL_BYTES = 1 << 20
SMALLEST_CHUNK_WORDS = 16
LARGEST_CHUNK_WORDS = 1 << 16

_ZEROS = memoryview(bytes(LARGEST_REFILL_BYTES))
_NO_WORDS = np.empty(0, dtype=np.uint64)
_ONE = np.uint64(1)
_LAST_WORD = np.uint64(2**64 - 1)


class SecureBits:
    """A stream of secret, uniformly random 64-bit words.

    Examples
    --------
    >>> SecureBits()
    SecureBits(private)
    >>> SecureBits.seeded(7).below(6, 5)
    array([2, 1, 5, 5, 2])
    """

    def __init__(self) -> None:
        self._begin(None)

    @classmethod
    def seeded(cls, seed: SupportsIndex | bytes | str) -> SecureBits:
        """Return a reproducible stream that is NOT PRIVATE.

        The same integer, bytes or text gives the same words on every machine.

        Examples
        --------
        >>> SecureBits.seeded("map").words(2) == SecureBits.seeded("map").words(2)
        array([ True,  True])
        >>> SecureBits.seeded("map")
        SecureBits(seeded: NOT PRIVATE)
        """
        return cls._with_key(hashlib.sha256(_seed_bytes(seed)).digest())

    @classmethod
    def _with_key(cls, key: bytes) -> SecureBits:
        bits = cls.__new__(cls)
        bits._begin(key)
        return bits

    def _begin(self, known_key: bytes | None) -> None:
        self._known_key = known_key  # None if secret: then it is drawn by the keystream and kept nowhere else
        self._keystream = _Keystream(known_key)

    @property
    def private(self) -> bool:
        """Whether the key is secret; False for a seeded stream."""
        return self._known_key is None

    def child(self, index: int) -> SecureBits:
        """Return an independent stream for block `index` of some parallel work.

        A private stream's child has a fresh secret key. A seeded stream's child depends on the seed and the index
        alone, so that the result is the same whichever thread does which block.

        Examples
        --------
        >>> SecureBits.seeded(7).child(3).below(6, 5)
        array([4, 2, 5, 1, 3])
        """
        if index < 0:
            raise InputError(f"The index of a child stream must be 0 or more; got {index}.")
        if self._known_key is None:
            return SecureBits()
        return self._with_key(hashlib.sha256(self._known_key + b"%d" % index).digest())

    def words(self, count: int) -> Words:
        """Return the next `count` words."""
        keystream = self._keystream
        if keystream.process != process_mark():
            # A key of its own, and a lock that is not held by a thread that was left behind in the parent. Threads
            # that come here together may each make one, which is why a keystream carries its own words and lock.
            keystream = self._keystream = keystream.after_fork()
        return keystream.read(_checked_count(count))

    def below(self, bound: int, count: int) -> Integers:
        """Return `count` integers, exactly uniform in [0, bound).

        The bound may be up to 2**62.

        Examples
        --------
        >>> bool((SecureBits().below(10, 1000) < 10).all())
        True
        """
        if not 1 <= bound <= LARGEST_BOUND:
            raise InputError(f"The bound of a uniform integer must be from 1 to 2**62; got {bound}.")
        return self.draw(_fill_below, count, 1.0, np.uint64(bound))

    def draw(
        self, kernel: Callable[..., tuple[int, int]], count: int, words_each: float, *parameters: np.uint64
    ) -> Integers:
        """Return `count` samples that a compiled kernel makes from the words.

        Each sample is a function of the words from where the one before it ended, however the stream is cut into
        chunks. A sample for which the words run out is made again from the same words once more have been drawn:
        to start it from fresh words instead would favour samples that need few.

        ``kernel(words, out, done, *parameters)`` fills ``out[done:]`` as far as the words last, and returns how many
        samples are done and how many words they used. About `words_each` words a sample set the chunks' size and
        nothing else.
        """
        out = np.empty(_checked_count(count), dtype=np.int64)
        pending, done = _NO_WORDS, 0
        while done < count:
            expected = int(words_each * (count - done)) + SMALLEST_CHUNK_WORDS
            pending = np.concatenate([pending, self.words(min(expected, LARGEST_CHUNK_WORDS))])
            done, used = kernel(pending, out, done, *parameters)
            pending = pending[used:]
        return out

    def __repr__(self) -> str:
        return "SecureBits(private)" if self.private else "SecureBits(seeded: NOT PRIVATE)"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        # The one door for copy, deepcopy and pickle.
        raise TypeError(
            "SecureBits cannot be copied or pickled: the copy would repeat the same noise, which could then be "
            "subtracted. Make a new SecureBits() where the noise is drawn, or pass .child(index) to each thread."
        )


class _Keystream:
    """The words of one key in one process."""

    def __init__(self, known_key: bytes | None) -> None:
        self.process = process_mark()
        self.lock = threading.Lock()
        self._known_key = known_key
        self._cipher: CipherContext | None = None
        self._unread: Words = _NO_WORDS
        self._refill_bytes = FIRST_REFILL_BYTES

    def after_fork(self) -> _Keystream:
        """Return a keystream for this process; a seeded one, which has no secrets, goes on from where it stood."""
        made = _Keystream(self._known_key)
        if self._known_key is not None:
            made._cipher, made._unread, made._refill_bytes = self._cipher, self._unread, self._refill_bytes
        return made

    def read(self, count: int) -> Words:
        out = np.empty(count, dtype=np.uint64)
        filled = 0
        with self.lock:
            while filled < count:
                if not self._unread.size:
                    self._refill()
                taken = self._unread[: count - filled]
                self._unread = self._unread[taken.size :]
                out[filled : filled + taken.size] = taken
                filled += taken.size
        return out

    def _refill(self) -> None:
        if self._cipher is None:
            # Every key serves one keystream only, so the counter may start at zero.
            from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

            key = self._known_key or os.urandom(32)
            self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._unread = np.frombuffer(self._cipher.update(_ZEROS[: self._refill_bytes]), dtype="<u8")
        self._refill_bytes = min(2 * self._refill_bytes, LARGEST_REFILL_BYTES)


def noise_bits(random_state: int | None) -> SecureBits:
    """Return secret bits, or after a warning those of a seed; every call that takes a seed for its noise asks once.

    Examples
    --------
    >>> noise_bits(None)
    SecureBits(private)
    """
    if random_state is None:
        return SecureBits()
    _warn(
        "NOT PRIVATE: random_state seeds the noise, and whoever knows the seed can subtract it. Leave it out for "
        "anything that is to be published"
    )
    return SecureBits.seeded(random_state)


def warn_unless_private(guarantee: Guarantee) -> None:
    """Warn whoever saves what promises nothing."""
    if not guarantee.private:
        _warn("NOT PRIVATE: the noise of what is saved here came from a seed, or there is none. Do not publish it")


def _warn(text: str) -> None:
    """Warn at the line of code that called the library."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == "sfumato":
        frame, level = frame.f_back, level + 1
    warnings.warn(text, NotPrivateWarning, stacklevel=level)


def _seed_bytes(seed: SupportsIndex | bytes | str) -> bytes:
    seed = plain_number(seed)
    if isinstance(seed, bytes):
        return b"bytes:" + seed
    if isinstance(seed, str):
        return b"text:" + seed.encode(errors="surrogatepass")
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise InputError(f"A seed must be an integer, bytes or text; got {brief(seed)}.")
    if (whole := int(seed)).bit_length() > MOST_SEED_BITS:
        raise InputError(f"A seed must be an integer of up to {MOST_SEED_BITS} bits; got {brief(seed)}.")
    return b"integer:%d" % whole


def _checked_count(count: int) -> int:
    if count < 0:
        raise InputError(f"The number of random values must be 0 or more; got {count}.")
    return count


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def next_below(words: Words, at: int, bound: np.uint64) -> tuple[np.uint64, int]:
    """Read an integer uniform below `bound` from ``words[at:]``; return it and the position after the last word read.

    A position beyond ``words.size`` means that the words ran out and that the integer means nothing.
    """
    # 2**64 words fall into blocks of `bound`; one from the last, incomplete block is drawn again.
    last_block = _LAST_WORD - (bound - _ONE)
    while at < words.size:
        word = words[at]
        at += 1
        value = word % bound
        if word - value <= last_block:
            return value, at
    return bound - bound, words.size + 1


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _fill_below(words: Words, out: Integers, done: int, bound: np.uint64) -> tuple[int, int]:
    at = 0
    while done < out.size:
        value, end = next_below(words, at, bound)
        if end > words.size:
            break
        out[done] = value
        done += 1
        at = end
    return done, at
