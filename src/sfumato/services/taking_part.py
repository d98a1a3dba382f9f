"""The page on which a person takes part, at a collector's or a shuffler's server.

Page, style and texts are in `assets`, one file of texts for each language. The script is the device of `clients/js`
and what draws the page (`clients/js/page`); it holds code of others, so it is not kept with the sources but built by
``make page``. Where it was not built the page says so, and everything else works.

The page asks its own server, and the issuer where there is one; a browser is told to see to that. All addresses are
relative, so that it works under any path and through a relay that forwards requests.

Trust: whoever serves a page can serve another one. A device that is installed once (`sfumato local send`, or an
application with the device in it) does not depend on that.
"""

from __future__ import annotations

import asyncio
import re
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from urllib.parse import urlsplit

from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from sfumato.errors import InputError
from sfumato.services.endpoints import CAREFUL, HTML, Endpoint
from sfumato.services.notice import SignedNotice
from sfumato.services.wire import Problem

PAGE, SCRIPT, STYLE, NOTICE = "take-part.html", "take-part.js", "take-part.css", "notice.json"
_TEXTS = re.compile(r"take-part\.([a-z]{2})\.json")
_KINDS = {"js": "text/javascript", "css": "text/css", "json": "application/json"}
_MISSING = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Not built</title></head><body>
<h1>This page was not built</h1>
<p>Whoever runs this server: its script is built with Node 20 by <code>make page</code> in the sources, before
sfumato is installed from them. Everything else on this server works, and <code>sfumato local send</code> and
<code>sfumato shuffled send</code> take part without the page.</p>
</body></html>
"""


class TakingPart:
    """The page of a server.

    Parameters
    ----------
    role : str
        The server's.
    issuer : str, optional
        Address of who admits devices, where the collection needs that.
    notice : SignedNotice, optional
        What is asked, in the organiser's words.

    Examples
    --------
    >>> page = TakingPart("collector", issuer="https://issuer.example")
    >>> "connect-src 'self' https://issuer.example;" in page.policy
    True
    """

    def __init__(self, role: str, issuer: str | None = None, notice: SignedNotice | None = None) -> None:
        self._notice = notice
        self._values = {
            "role": role,
            "issuer": issuer or "",
            "notice": "" if notice is None else NOTICE,
            "languages": " ".join(languages()),
        }
        beyond = "" if issuer is None else f" {origin(issuer)}"
        self.policy = (
            f"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'{beyond}; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
        )

    def endpoints(self) -> list[Endpoint]:
        """Return the page and the files that it loads."""
        about = "The page on which a person takes part (503: not built)."
        made = [Endpoint("GET", "/take-part", "take-part", self._page, about, HTML, codes=("storage",))]
        names = [SCRIPT, STYLE, *(f"take-part.{language}.json" for language in languages())]
        for name in names if self._notice is None else [*names, NOTICE]:
            kind, about = _KINDS[name.rpartition(".")[2]], "A file of the page."
            made.append(Endpoint("GET", f"/take-part/{name}", name, self._file, about, kind, codes=("unknown-path",)))
        return made

    async def _page(self, request: Request) -> Response:
        script = await asyncio.to_thread(_read, SCRIPT)
        if script is None:
            return HTMLResponse(_MISSING, 503, {"content-security-policy": "default-src 'none'", **CAREFUL})
        values = {name: escape(value) for name, value in self._values.items()}
        content = Template((_read(PAGE) or b"").decode()).substitute(values)
        return HTMLResponse(content, headers={"content-security-policy": self.policy, **CAREFUL})

    async def _file(self, request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        if name == NOTICE and self._notice is not None:
            content: bytes | None = self._notice.to_bytes()
        else:
            content = await asyncio.to_thread(_read, name)
        if content is None:
            raise Problem("unknown-path", "the page's script was not built: make page")
        return Response(content, media_type=_KINDS[name.rpartition(".")[2]], headers=CAREFUL)


@cache
def languages() -> tuple[str, ...]:
    """Return the languages that there are texts in.

    Examples
    --------
    >>> languages()
    ('de', 'en')
    """
    found = (_TEXTS.fullmatch(entry.name) for entry in files("sfumato.services").joinpath("assets").iterdir())
    return tuple(sorted(match[1] for match in found if match))


def _read(name: str) -> bytes | None:
    file = files("sfumato.services").joinpath("assets", name)
    return file.read_bytes() if file.is_file() else None


def origin(address: str) -> str:
    """Return the origin of an address, as browsers name it; raise `InputError` for anything else.

    Examples
    --------
    >>> origin("https://issuer.example:8443/tokens")
    'https://issuer.example:8443'
    """
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not re.fullmatch(r"[a-z0-9.-]+|[0-9a-f:]+", host):
        raise InputError(f"{address!r} is no address of a server such as https://issuer.example:8443")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}" + ("" if port is None else f":{port}")


def page_elsewhere(address: str) -> Middleware:
    """Let the page of another server send to this one; browsers send no cookies along, and no operator's key."""
    return Middleware(
        CORSMiddleware,
        allow_origins=[origin(address)],
        allow_methods=["POST"],
        allow_headers=["content-type"],
        expose_headers=["retry-after"],
    )
