from __future__ import annotations

import copy
import hashlib
import os
import pickle
import threading
from collections.abc import Callable

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from sfumato.errors import InputError
from sfumato.privacy import process
from sfumato.privacy.bits import SecureBits, next_below
from tests.forks import told_by_a_child, unseen_fork

FALSE_ALARM = 1e-6


def forked_words(bits: SecureBits, count: int, fork: Callable[[], int] = os.fork) -> np.ndarray:
    """Return what a forked child reads from `bits`."""
    return np.frombuffer(told_by_a_child(lambda: bits.words(count).tobytes(), fork), dtype=np.uint64)


@pytest.mark.exact
def test_words_are_the_aes_counter_keystream_of_the_hashed_seed() -> None:
    key = hashlib.sha256(b"integer:7").digest()
    counters = b"".join(block.to_bytes(16, "big") for block in range(3000))
    encrypted = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(counters)
    bits = SecureBits.seeded(7)
    received = np.concatenate([bits.words(count) for count in (0, 1, 2, 510, 1500, 3987)])
    np.testing.assert_array_equal(received, np.frombuffer(encrypted, dtype="<u8"))


@pytest.mark.once
def test_requests_larger_than_a_refill_continue_the_same_stream() -> None:
    whole, parts = SecureBits.seeded("s").words(400_000), SecureBits.seeded("s")
    np.testing.assert_array_equal(whole, np.concatenate([parts.words(399_999), parts.words(1)]))
    assert np.unique(whole).size == whole.size


@pytest.mark.once
def test_seeds_of_different_kind_or_value_give_different_streams() -> None:
    first_words = [int(SecureBits.seeded(seed).words(1)[0]) for seed in (1, 2, -1, "1", b"1", "", b"")]
    assert len(set(first_words)) == len(first_words)
    assert SecureBits.seeded(np.int64(1)).words(1)[0] == first_words[0]


@pytest.mark.once
@pytest.mark.parametrize("seed", [1.0, True, None])
def test_other_seeds_are_refused(seed: object) -> None:
    with pytest.raises(InputError, match="integer, bytes or text"):
        SecureBits.seeded(seed)  # type: ignore[arg-type]


@pytest.mark.once
def test_private_streams_differ_and_say_so() -> None:
    first, second = SecureBits(), SecureBits()
    assert first.private and second.private and first.child(0).private
    assert not np.intersect1d(first.words(1000), second.words(1000)).size
    assert not np.intersect1d(first.child(0).words(1000), first.child(0).words(1000)).size
    seeded = SecureBits.seeded(1)
    assert not seeded.private and not seeded.child(0).private and "NOT PRIVATE" in repr(seeded)


@pytest.mark.once
def test_seeded_children_depend_on_seed_and_index_alone() -> None:
    parent = SecureBits.seeded(5)
    before = parent.child(3).words(100)
    parent.words(1000)
    np.testing.assert_array_equal(before, parent.child(3).words(100))
    streams = [SecureBits.seeded(5), *(parent.child(index) for index in range(20)), parent.child(2).child(3)]
    streams += [SecureBits.seeded(6).child(3)]
    assert len({bits.words(1)[0] for bits in streams}) == len(streams)
    with pytest.raises(InputError, match="0 or more"):
        parent.child(-1)


@pytest.mark.once
def test_key_is_neither_shown_nor_kept() -> None:
    bits = SecureBits()
    bits.words(1)
    assert repr(bits) == "SecureBits(private)"
    kept = [*vars(bits).values(), *vars(bits._keystream).values()]
    assert not any(isinstance(value, bytes) for value in kept)


@pytest.mark.once
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("bits", [SecureBits(), SecureBits.seeded(1)])
def test_streams_cannot_be_duplicated(duplicate: object, bits: SecureBits) -> None:
    with pytest.raises(TypeError, match="would repeat the same noise"):
        duplicate(bits)  # type: ignore[operator]


@pytest.mark.once
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("used_before", [0, 10, 300_000])
@pytest.mark.parametrize("fork", [os.fork, unseen_fork])
def test_forked_child_never_repeats_the_parent(used_before: int, fork: Callable[[], int]) -> None:
    bits = SecureBits()
    earlier = bits.words(used_before)
    first, second = forked_words(bits, 2000, fork), forked_words(bits, 2000, fork)
    later = bits.words(200_000)
    assert first.size == second.size == 2000
    everything = np.concatenate([earlier, first, second, later])
    assert np.unique(everything).size == everything.size


@pytest.mark.once
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_stream_that_does_not_know_its_process_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin of the test before: its children repeat each other and the parent."""
    monkeypatch.setattr("sfumato.privacy.bits.process_mark", lambda: (0, 0, b""))
    bits = SecureBits()
    bits.words(10)
    first, second = forked_words(bits, 100, unseen_fork), forked_words(bits, 100, unseen_fork)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, bits.words(100))


@pytest.mark.once
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("fork", [os.fork, unseen_fork])
def test_forked_child_of_a_busy_parent_is_not_blocked(fork: Callable[[], int]) -> None:
    bits = SecureBits()
    with bits._keystream.lock:  # as if another thread were reading at the moment of the fork
        assert forked_words(bits, 10, fork).size == 10


@pytest.mark.once
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("fork", [os.fork, unseen_fork])
def test_a_child_with_the_id_of_an_ancestor_draws_its_own_key(
    fork: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the first process of a container makes another one: both have the id 1."""
    if fork is os.fork:
        monkeypatch.setattr(process, "_page", None)  # what Python sees is enough where no page is emptied
    elif process._page is None:
        pytest.skip("no page of this system is emptied by a fork")
    bits = SecureBits()
    monkeypatch.setattr(os, "getpid", lambda: 1)
    earlier = bits.words(10)
    forked = [forked_words(bits, 100, fork) for _ in range(2)]
    everything = np.concatenate([earlier, *forked, bits.words(100)])
    assert np.unique(everything).size == everything.size == 310


@pytest.mark.once
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_grandchild_with_the_same_id_draws_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of a child is marked anew, or it would be as empty as that of its own child."""
    if process._page is None:
        pytest.skip("no page of this system is emptied by a fork")
    bits = SecureBits()
    monkeypatch.setattr(os, "getpid", lambda: 1)

    class Forked(SecureBits):
        def words(self, count: int) -> np.ndarray:
            return np.concatenate([bits.words(count), forked_words(bits, count, unseen_fork)])

    everything = forked_words(Forked(), 100, unseen_fork)
    assert np.unique(everything).size == everything.size == 200


@pytest.mark.once
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_seeded_stream_goes_on_in_a_forked_child() -> None:
    bits, reference = SecureBits.seeded(3), SecureBits.seeded(3).words(30)
    np.testing.assert_array_equal(bits.words(10), reference[:10])
    np.testing.assert_array_equal(forked_words(bits, 20), reference[10:])


@pytest.mark.once
def test_threads_that_share_a_stream_never_get_the_same_word() -> None:
    bits, received = SecureBits.seeded(4), []

    def read() -> None:
        received.extend([bits.words(37) for _ in range(2000)])

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = SecureBits.seeded(4).words(4 * 2000 * 37)
    np.testing.assert_array_equal(np.sort(np.concatenate(received)), np.sort(expected))


def test_every_bit_and_byte_is_fair() -> None:
    words = SecureBits.seeded("fair").words(1 << 18)
    ones = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).sum(axis=0)
    # 64 binomial counts; the two-sided normal quantile at FALSE_ALARM / 64.
    limit = stats.norm.isf(FALSE_ALARM / 128) * np.sqrt(words.size / 4)
    assert np.abs(ones - words.size / 2).max() < limit
    assert stats.chisquare(np.bincount(words.view(np.uint8), minlength=256)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("bound", [1, 2, 6, 1000, 3 * 2**60, 2**62])
def test_below_is_uniform(bound: int) -> None:
    values = SecureBits.seeded(bound).below(bound, 200_000)
    assert values.dtype == np.int64 and values.min() >= 0 and values.max() < bound
    cells = min(bound, 1000)
    counts = np.bincount(values // (bound // cells), minlength=cells)
    assert counts.size == cells
    if cells > 1:
        assert stats.chisquare(counts).pvalue > FALSE_ALARM
        skewed = np.bincount(np.minimum(values, bound - 1 - values) // (bound // cells), minlength=cells)
        assert stats.chisquare(skewed).pvalue < FALSE_ALARM


@pytest.mark.parametrize("bound", [3, 10, 3 * 2**60, 2**62, 2**61 + 1])
def test_words_of_the_incomplete_block_are_drawn_again(bound: int) -> None:
    first_refused = 2**64 - 2**64 % bound
    edge = [first_refused - 1, 5] if first_refused == 2**64 else [first_refused, 2**64 - 1, first_refused - 1, 5]
    words = np.array(edge, dtype=np.uint64)
    value, after = next_below(words, 0, np.uint64(bound))
    assert (value, after) == (bound - 1, words.size - 1)
    assert next_below(words, after, np.uint64(bound)) == (5 % bound, words.size)
    assert next_below(words, words.size, np.uint64(bound))[1] > words.size


@pytest.mark.once
@pytest.mark.parametrize("bound", [0, -1, 2**62 + 1])
def test_bounds_out_of_range_are_refused(bound: int) -> None:
    with pytest.raises(InputError, match=r"from 1 to 2\*\*62"):
        SecureBits().below(bound, 1)


@pytest.mark.once
def test_negative_counts_are_refused() -> None:
    for draw in (SecureBits().words, lambda count: SecureBits().below(2, count)):
        with pytest.raises(InputError, match="0 or more"):
            draw(-1)
