"""The page on which a person takes part: what servers answer, what they refuse, and that its texts are whole."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.errors import InputError
from sfumato.local import Protocol
from sfumato.public.canonical_json import canonical
from sfumato.services import taking_part
from sfumato.services.admission import IssuerKey
from sfumato.services.collector import CollectorRole
from sfumato.services.issuer import IssuerRole
from sfumato.services.limits import Limits
from sfumato.services.notice import SignedNotice
from sfumato.services.server import Server
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.services.taking_part import TakingPart, languages, origin
from tests.services.conftest import running

PAGE = Path(__file__).parents[2] / "clients" / "js" / "page"
ASKED = {"title": "Places", "question": "Where do you live?", "organiser": "The town", "columns": ["East", "North"]}
NOTICE: dict[str, Any] = {"texts": {"en": ASKED}, "outline": [[[0.1, 0.1], [0.9, 0.2], [0.5, 0.8]]]}


def _asked(address: str, method: str, where: str, headers: Mapping[str, str] | None = None) -> tuple[int, Any, bytes]:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request(method, where, headers=dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def _collector(folder: Path, signed: SignedProtocol, page: TakingPart | None = None) -> Server:
    return Server(CollectorRole(folder, [signed], Limits(rate=1e6, burst=1e6)), every=60.0, taking_part=page)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was built, a script is there."""
    read = taking_part._read
    monkeypatch.setattr(taking_part, "_read", lambda name: b"built" if name == "take-part.js" else read(name))


@pytest.mark.usefixtures("built")
def test_the_page_and_its_files(tmp_path: Path, local_signed: SignedProtocol) -> None:
    page = TakingPart("collector", "https://issuer.example:8004/x")
    with running(_collector(tmp_path / "collector", local_signed, page)) as address:
        status, headers, content = _asked(address, "GET", "/take-part")
        assert status == 200 and headers["content-type"].startswith("text/html")
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "*" not in policy
        assert "connect-src 'self' https://issuer.example:8004;" in policy
        text = content.decode()
        assert "$" not in text and 'data-issuer="https://issuer.example:8004/x"' in text
        assert "style=" not in text and " on" not in re.sub(r">[^<]*<", "><", text)  # nothing inline
        loaded = re.findall(r'(?:src|href)="([^"]*)"', text)
        assert loaded == ["take-part/take-part.css", "take-part/take-part.js"]  # relative: any path, any relay
        for name in (*loaded, *(f"take-part/take-part.{language}.json" for language in languages())):
            status, headers, _ = _asked(address, "GET", f"/{name}")
            assert (status, headers["x-content-type-options"]) == (200, "nosniff")
        assert _asked(address, "GET", "/take-part/take-part.html")[0] == 404
        assert _asked(address, "GET", "/take-part/notice.json")[0] == 404


def test_a_page_that_was_not_built_says_how(
    tmp_path: Path, local_signed: SignedProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking_part, "SCRIPT", "missing.js")
    with running(_collector(tmp_path / "collector", local_signed)) as address:
        status, _, content = _asked(address, "GET", "/take-part")
        assert status == 503 and b"make page" in content
        assert _asked(address, "GET", "/take-part/missing.js")[0] == 404
        assert _asked(address, "GET", "/v1/collections")[0] == 200


@pytest.mark.usefixtures("built")
def test_what_an_operator_passes_cannot_break_out_of_the_page() -> None:
    assert origin("http://[::1]:80/a") == "http://[::1]:80"
    for bad in (
        "issuer.example",
        "ftp://a",
        "https://",
        "https://a b",
        "https://a:x",
        "https://a;script-src *",
        "https://*",
    ):
        with pytest.raises(InputError, match="no address"):
            TakingPart("collector", bad)


def test_a_notice_is_its_organisers(
    tmp_path: Path, local_signed: SignedProtocol, organiser: SigningKey, built: None
) -> None:
    notice = SignedNotice.sign(NOTICE, local_signed, organiser)
    page = TakingPart("collector", notice=notice)
    with running(_collector(tmp_path / "collector", local_signed, page)) as address:
        assert SignedNotice.read(_asked(address, "GET", "/take-part/notice.json")[2], local_signed) == notice
        assert b'data-notice="notice.json"' in _asked(address, "GET", "/take-part")[2]
    with pytest.raises(InputError, match="another key"):
        SignedNotice.sign(NOTICE, local_signed, SigningKey.generate())
    changed = notice.to_bytes().replace(b"Where", b"Why do")
    with pytest.raises(InputError, match="not signed by the organiser"):
        SignedNotice.read(changed, local_signed)
    other = Protocol("l2-lsh", bandwidth=0.5, dimension=2, epsilon=1, participants=9, bounds=(0, 1), seed=8)
    with pytest.raises(InputError, match="another protocol's"):
        SignedNotice.read(notice.to_bytes(), SignedProtocol.sign(other.document, organiser))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"texts": {}, "outline": []}, "no language"),
        ({"texts": {"EN": ASKED}, "outline": []}, "by language"),
        ({"texts": {"en": {**ASKED, "columns": ["one"]}}, "outline": []}, "columns must be a list of 2"),
        ({"texts": {"en": {**ASKED, "title": "a\nb"}}, "outline": []}, "title must be one line"),
        ({"texts": {"en": ASKED}, "outline": [[[0, 0], [1, 1]]]}, r"outline\[0\] must be a list of 3"),
        ({"texts": {"en": ASKED}, "outline": [[[0, 0], [1, 1], [1, "x"]]]}, r"outline\[0\]\[2\]\[1\]"),
        ({"texts": {"en": ASKED}, "outline": [[[0, 0]] * 15_000] * 2}, "simplify"),
        ({"texts": {"en": ASKED}}, "lacks the field 'outline'"),
        ({"texts": {"en": ASKED}, "outline": [], "more": 1}, "not known here"),
    ],
)
def test_a_notice_that_is_none_is_refused(
    wrong: Any, said: str, local_signed: SignedProtocol, organiser: SigningKey
) -> None:
    with pytest.raises(InputError, match=said):
        SignedNotice.sign(wrong, local_signed, organiser)


def test_a_notice_by_command(tmp_path: Path, local_signed: SignedProtocol, organiser: SigningKey) -> None:
    local_signed.save(tmp_path / "p.signed.json")
    organiser.save(tmp_path / "organiser.key")
    (tmp_path / "asked.json").write_text(json.dumps(NOTICE))
    words = ["serve", "notice", "asked.json", "p.signed.json", "--key", "organiser.key", "-o", "notice.json"]
    paths = [str(tmp_path / word) if word.endswith((".json", ".key")) else word for word in words]
    done = CliRunner().invoke(app, paths)
    assert done.exit_code == 0, done.output
    assert json.loads(SignedNotice.load(tmp_path / "notice.json", local_signed).content)["outline"] == NOTICE["outline"]
    (tmp_path / "p.json").write_bytes(canonical(local_signed.document))
    sign = ["serve", "sign", str(tmp_path / "p.json"), "--key", str(tmp_path / "organiser.key"), "-o"]
    for words in (paths[:-1], sign):
        for read in [Path(word) for word in words if Path(word).is_file()]:  # the organiser's key among them
            before = read.read_bytes()
            done = CliRunner().invoke(app, [*words, str(read), "--force"])
            assert done.exit_code == 2 and "stays as it is" in done.output, done.output
            assert read.read_bytes() == before


def test_an_issuer_answers_one_other_origin(tmp_path: Path, local_protocol: Protocol, organiser: SigningKey) -> None:
    key = IssuerKey.generate()
    signed = SignedProtocol.sign(local_protocol.document, organiser, issuer=key.public.text)
    (tmp_path / "invitations.txt").write_text("0" * 64 + "\n")
    role = IssuerRole(tmp_path / "issuer", [signed], [key], tmp_path / "invitations.txt")
    where = f"/v1/collections/{signed.fingerprint}/token"
    asking = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    with running(Server(role, every=60.0, origin="https://shuffler.example/take-part")) as address:
        for site, allowed in (("https://shuffler.example", True), ("https://evil.example", False)):
            status, headers, _ = _asked(address, "OPTIONS", where, {**asking, "origin": site})
            assert (status == 200) == allowed == (headers["access-control-allow-origin"] == site)
        headers = {**asking, "origin": "https://shuffler.example", "access-control-request-headers": "authorization"}
        assert _asked(address, "OPTIONS", "/v1/counts", headers)[0] == 400


def _texts(language: str) -> dict[str, str]:
    file = files("sfumato.services").joinpath("assets", f"take-part.{language}.json")
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found


def test_every_language_has_every_text_with_the_same_places() -> None:
    assert set(languages()) >= {"en", "de"}
    english = _texts("en")
    for language in languages():
        texts = _texts(language)
        assert list(texts) == list(english)
        for name, text in texts.items():
            assert text.strip() == text != ""
            assert sorted(re.findall(r"\{(\w+)\}", text)) == sorted(re.findall(r"\{(\w+)\}", english[name])), name


def test_every_text_is_used_and_every_one_used_is_there() -> None:
    page = files("sfumato.services").joinpath("assets", "take-part.html").read_text(encoding="utf-8")
    script = "".join(file.read_text(encoding="utf-8") for file in PAGE.glob("*.ts"))
    used = set(re.findall(r'data-(?:text|label)="(\w+)"', page)) | set(re.findall(r'"([a-z]\w*[A-Za-z])"', script))
    for kind in re.findall(r'trouble\("(\w+)"', script):
        used |= {f"{kind}Title", f"{kind}Text"}
    used |= {"collector", "collectorText", "shufflerText"}  # of the role that serves the page
    known = set(_texts("en"))
    assert known <= used, f"never said: {sorted(known - used)}"
    asked = set(re.findall(r'say\(\s*"(\w+)"', script)) | set(re.findall(r'data-(?:text|label)="(\w+)"', page))
    assert asked <= known, f"not there: {sorted(asked - known)}"
