"""What the analyzer refuses: too few, foreign, altered and copied messages, damaged files; and what it survives."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import sfumato
from sfumato.errors import InputError, ReleaseFileError
from sfumato.privacy.bits import SecureBits
from sfumato.shuffled import AnalyzerKey, Protocol, Submission
from sfumato.shuffled.messages import Header, read_batch, read_header, write_batch
from sfumato.shuffled.sealing import MESSAGE_BYTES, Context, seal
from tests.shuffled.collections_for_tests import KEY, batch_of, small_protocol, submissions

pytestmark = pytest.mark.once  # batches as others write them, whatever the numbers in them


def written(path: Path, protocol: Protocol, participants: int, sent: Sequence[Sequence[bytes]]) -> Path:
    """A batch as somebody else may have written it."""
    content = b"".join(message for messages in sent for message in messages)
    header = Header(protocol.fingerprint, 0, participants, len(content) // MESSAGE_BYTES)
    write_batch(path, header, [content], overwrite=True)
    return path


def flip_a_bit(message: bytes, place: int) -> bytes:
    return message[:place] + bytes([message[place] ^ 1]) + message[place + 1 :]


class TestNumbers:
    def test_fewer_than_n(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        batch = written(tmp_path / "batch", protocol, 7, submissions(protocol, 7))
        with pytest.raises(InputError, match="holds 7 participants and the guarantee needs 8; it stays closed"):
            protocol.analyzer(KEY).analyze(batch)

    def test_a_header_that_claims_more_than_there_are(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        batch = written(tmp_path / "batch", protocol, 8, submissions(protocol, 7))
        with pytest.raises(InputError, match="7 participants may be left in an instance"):
            protocol.analyzer(KEY).analyze(batch)

    def test_more_than_n(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        release = protocol.analyzer(KEY).analyze(batch_of(protocol, submissions(protocol, 11), tmp_path))
        assert release.count.value == 11
        assert release.noise.variance == pytest.approx(
            protocol.features.variance(protocol.groups[0].bitsum.variance * 11 / 8, 11)
        )


class TestMessages:
    @pytest.mark.parametrize("place", [0, 31, 32, 36, 40, MESSAGE_BYTES - 1])
    def test_an_altered_message(self, place: int, tmp_path: Path) -> None:
        """With nobody to spare the batch is refused; with one to spare the message is left out."""
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 9)
        sent[0] = Submission([flip_a_bit(sent[0][0], place), *sent[0][1:]])
        with pytest.raises(InputError, match="1 messages do not open"):
            protocol.analyzer(KEY).analyze(written(tmp_path / "batch", protocol, 8, sent[:8]))
        counts, participants = protocol.analyzer(KEY).counts(written(tmp_path / "batch", protocol, 9, sent))
        assert participants == 9
        assert sorted((counts.ones + counts.zeros).tolist()) == [8, 9, 9, 9]
        assert protocol.analyzer(KEY).analyze(tmp_path / "batch").count.value == 9

    @pytest.mark.parametrize(
        "other",
        [
            lambda: small_protocol(9, 4),  # another document
            lambda: small_protocol(8, 4, classes=("a", "b")),
            lambda: small_protocol(8, 4).with_key(KEY, "2099-01-01"),
        ],
    )
    def test_foreign_messages(self, other: Callable[[], Protocol], tmp_path: Path) -> None:
        protocol, foreign = small_protocol(8, 4), other()
        label = None if foreign.classes is None else "a"
        sent = [*submissions(protocol, 7), submissions(foreign, 1, label)[0]]
        with pytest.raises(InputError, match="4 messages do not open"):
            protocol.analyzer(KEY).analyze(written(tmp_path / "batch", protocol, 8, sent))

    def test_messages_for_another_class(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4, classes=("a", "b"))
        batch = batch_of(protocol, submissions(protocol, 8, "a"), tmp_path, "a")
        with pytest.raises(InputError, match="another protocol or class"):
            protocol.analyzer(KEY).analyze(batch, "b")
        assert protocol.analyzer(KEY).analyze(batch, "a").parameters["class"] == "a"

    @pytest.mark.parametrize(("instance", "content"), [(4, 1), (0, 2)])
    def test_contents_that_no_client_sends(self, instance: int, content: int, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 8)
        made = seal(np.array([instance]), np.array([content]), KEY.public, Context(protocol.fingerprint, 0))
        sent[0] = Submission([*made, *sent[0][1:]])
        with pytest.raises(InputError, match="1 messages do not open"):
            protocol.analyzer(KEY).analyze(written(tmp_path / "batch", protocol, 8, sent))

    def test_copies(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        sent = submissions(protocol, 9)
        sent[8] = sent[0]
        with pytest.raises(InputError, match="copies of a message"):
            protocol.analyzer(KEY).analyze(written(tmp_path / "batch", protocol, 9, sent))

    def test_one_garbling_participant_does_not_stop_the_others(self, tmp_path: Path) -> None:
        protocol = small_protocol(8, 4)
        garbage = Submission(SecureBits.seeded(number).words(7).tobytes()[:MESSAGE_BYTES] for number in range(4))
        release = protocol.analyzer(KEY).analyze(batch_of(protocol, [*submissions(protocol, 8), garbage], tmp_path))
        assert release.count.value == 9


class TestFiles:
    @pytest.fixture
    def batch(self, tmp_path: Path) -> Path:
        return batch_of(small_protocol(8, 4), submissions(small_protocol(8, 4), 8), tmp_path)

    @pytest.mark.parametrize("kept", [0, 10, 100, -1])
    def test_cut_off(self, batch: Path, kept: int) -> None:
        batch.write_bytes(batch.read_bytes()[:kept])
        with pytest.raises(ReleaseFileError, match="batch"):
            small_protocol(8, 4).analyzer(KEY).analyze(batch)

    def test_an_accident(self, batch: Path) -> None:
        content = batch.read_bytes()
        batch.write_bytes(flip_a_bit(content, len(content) - 40))
        with pytest.raises(ReleaseFileError, match="checksum"):
            small_protocol(8, 4).analyzer(KEY).analyze(batch)

    def test_a_header_that_is_none(self, batch: Path) -> None:
        content = batch.read_bytes()
        batch.write_bytes(content.replace(b'"participants": 8', b'"participants":"8'))
        with pytest.raises(ReleaseFileError, match="header cannot be read"):
            read_header(batch)

    def test_a_deep_header(self, batch: Path) -> None:
        text = b"[" * 4096
        batch.write_bytes(b"sfumato-batch-1\n" + len(text).to_bytes(4, "little") + text)
        with pytest.raises(ReleaseFileError, match="header cannot be read"):
            read_header(batch)

    def test_blocks(self, tmp_path: Path) -> None:
        content = np.random.default_rng(0).bytes(40_000 * MESSAGE_BYTES)
        write_batch(tmp_path / "long", Header("00" * 32, 0, 5, 40_000), [content])
        assert b"".join(read_batch(tmp_path / "long")) == content


class TestKeys:
    def test_another_key(self) -> None:
        with pytest.raises(InputError, match="does not belong to the protocol"):
            small_protocol(8, 4).analyzer(AnalyzerKey.generate())

    def test_saved(self, tmp_path: Path) -> None:
        KEY.save(tmp_path / "key")
        assert AnalyzerKey.load(tmp_path / "key").public == KEY.public
        assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
        with pytest.raises(InputError, match="never overwritten"):
            KEY.save(tmp_path / "key")
        (tmp_path / "other").write_text("no key")
        with pytest.raises(InputError, match="holds no X25519 private key"):
            AnalyzerKey.load(tmp_path / "other")

    def test_a_key_of_an_unknown_algorithm(self, tmp_path: Path) -> None:
        KEY.save(tmp_path / "key")
        first, *body, last = (tmp_path / "key").read_text().splitlines()
        content = base64.b64decode("".join(body)).replace(bytes([43, 101, 110]), bytes([43, 101, 99]))  # 1.3.101.99
        (tmp_path / "odd").write_text(f"{first}\n{base64.b64encode(content).decode()}\n{last}\n")
        with pytest.raises(InputError, match="holds no X25519 private key"):
            AnalyzerKey.load(tmp_path / "odd")

    def test_the_secret_does_not_show(self) -> None:
        assert KEY.private.hex() not in repr(KEY) and KEY.id in repr(KEY)


def test_workers_agree(tmp_path: Path) -> None:
    protocol = small_protocol(8, 4)
    batch = batch_of(protocol, submissions(protocol, 8), tmp_path)
    seen: list[tuple[int, int]] = []
    one = protocol.analyzer(KEY).counts(batch, progress=lambda *at: seen.append(at))[0]
    two = protocol.analyzer(KEY).counts(batch, workers=2)[0]
    assert np.array_equal(one, two) and seen == [(32, 32)]


def test_release_file(tmp_path: Path) -> None:
    protocol = small_protocol(8, 4)
    release = protocol.analyzer(KEY).analyze(batch_of(protocol, submissions(protocol, 8), tmp_path))
    release.save(tmp_path / "release.sfm")
    again = sfumato.load(tmp_path / "release.sfm")
    assert np.array_equal(again.query([[0.3]]), release.query([[0.3]]))
    assert again.guarantee == release.guarantee
    assert "honest shuffler" in again.statement()
