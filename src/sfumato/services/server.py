"""How servers are reached: paths, limits, problems, health and metrics, the same for every role (Starlette, uvicorn).

Logs are lines of JSON with the path's kind, status and milliseconds. They hold no address, no identity, no token, no
content and no fingerprint: nothing that could be tied to a person. Whoever keeps them adds the time, or does not.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sfumato.errors import InputError, ReleaseFileError, SfumatoError, StorageError
from sfumato.release import load
from sfumato.services.analyzer import AnalyzerRole
from sfumato.services.endpoints import BINARY, CAREFUL, HTML, JSON, TEXT, Endpoint, Handler, openapi
from sfumato.services.issuer import IssuerRole
from sfumato.services.limits import Bodies, Rates, sender
from sfumato.services.metrics import Metrics
from sfumato.services.page import POLICY, status_page
from sfumato.services.role import OWN, Role
from sfumato.services.signing import Ticket
from sfumato.services.taking_part import TakingPart, page_elsewhere
from sfumato.services.wire import BATCH, CHECKSUM, FRAMES, PROBLEM, RECEIPT, ROOT, SIGNATURE, Problem, frames
from sfumato.storage import storage_errors

LINES = "application/jsonl"
_BODY = ("frames", "too-large", "too-slow", "media-type")
_KEPT = ("storage", "full")
_FULL = {errno.ENOSPC, errno.EDQUOT}
_DIGITS = 9
_MOST_WAIT = 60.0
log = logging.getLogger("sfumato.services")
_FAILURES = 3  # of its own, after which a server says that it is not ready


class Server:
    """A role behind HTTP; `app` is what an ASGI server runs.

    Parameters
    ----------
    role : Role
        What it does.
    every : float
        Seconds between two looks at what is due.
    taking_part : TakingPart, optional
        The page for people, where they send; one without notice and issuer by default.
    origin : str, optional
        Of a page on another server that browsers may ask from, such as ``https://shuffler.example``.
    """

    def __init__(
        self, role: Role, every: float = 1.0, taking_part: TakingPart | None = None, origin: str | None = None
    ) -> None:
        self.role = role
        self.metrics = Metrics(role.name)
        self._every = every
        self._taking_part = taking_part or TakingPart(role.name)
        self._rates = Rates(role.limits.rate, role.limits.burst)
        self._failures = 0
        self._bodies = Bodies(role.limits)
        self._pages: dict[Path, tuple[int, bytes]] = {}
        self._drawing = asyncio.Lock()
        # Routes are tried one after another: what devices send by the thousand comes first.
        ordered = sorted(self.endpoints(), key=lambda one: one.takes is None)
        self.app = Starlette(
            routes=[Route(one.path, self._guarded(one), methods=[one.method]) for one in ordered],
            middleware=[] if origin is None else [page_elsewhere(origin)],
            lifespan=self._lifespan,
            exception_handlers={HTTPException: _unknown},  # type: ignore[dict-item]
        )

    def endpoints(self) -> list[Endpoint]:
        """Return everything there is at this role's server."""
        one, none = f"{ROOT}/collections/{{fingerprint}}", ("unknown-path",)
        codes: tuple[str, ...]
        group = f"{one}/{{group}}"
        made = [
            Endpoint("GET", "/", "page", self._front, "The status page.", HTML),
            Endpoint("GET", "/openapi.json", "openapi", self._openapi, "This document.", JSON),
            Endpoint("GET", f"{ROOT}/collections", "collections", self._collections, "The collections.", JSON),
            Endpoint("GET", f"{one}/protocol", "protocol", self._protocol, "A signed document.", JSON, codes=none),
            Endpoint("GET", f"{ROOT}/log", "log", self._log, "The public log.", LINES, codes=_KEPT),
            Endpoint("GET", f"{group}/status", "status", self._status, "Where a group stands.", JSON, codes=none),
            Endpoint("GET", f"{ROOT}/counts", "counts", self._counts, "Counts.", JSON, codes=_KEPT, private=True),
            Endpoint("GET", "/healthz", "health", self._health, "Whether the process lives.", JSON),
            Endpoint("GET", "/readyz", "ready", self._ready, "Whether it works (503: not).", JSON, codes=("storage",)),
            Endpoint("GET", "/metrics", "metrics", self._metrics, "For Prometheus.", TEXT, private=True),
        ]
        if self.role.intakes:
            about, codes = "Send reports or submissions.", (*_BODY, *_KEPT, *none)
            made.append(Endpoint("POST", f"{group}/frames", "frames", self._frames, about, RECEIPT, 200, FRAMES, codes))
            made += self._taking_part.endpoints()
        if isinstance(self.role, AnalyzerRole):
            about, codes = "Hand a batch over.", ("closed", "batch", *_BODY[1:], *_KEPT, *none)
            headers = ("content-length", CHECKSUM, SIGNATURE)
            where = f"{group}/batch"
            made.append(Endpoint("PUT", where, "batch", self._batch, about, JSON, 202, BATCH, codes, False, headers))
        if isinstance(self.role, IssuerRole):
            about, codes = "Have a token signed.", ("closed", "token", *_BODY, *_KEPT, *none)
            made.append(Endpoint("POST", f"{one}/token", "token", self._token, about, BINARY, 200, FRAMES, codes))
        else:
            codes = ("not-ready", "unknown-path")
            for where in (group, ""):
                release, picture = f"{where}/release.sfm", f"{where}/map.html"
                made.append(Endpoint("GET", release, "release", self._release, "The release.", BINARY, codes=codes))
                made.append(Endpoint("GET", picture, "map", self._map, "Its map, a page.", HTML, codes=codes))
        return made

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        stopping = asyncio.Event()
        task = asyncio.create_task(self._ticking(stopping))
        yield
        stopping.set()
        await task  # what is being done is finished
        await self.role.close()

    async def _ticking(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            try:
                await self.role.tick()
                self._failures = 0
            except SfumatoError as problem:  # another server that is away, say, is no failure of this one
                self._failures = self._failures + 1 if isinstance(problem, OWN) else 0
                _write({"event": "tick", "problem": type(problem).__name__, "text": str(problem)})
            except Exception:
                self._failures += 1
                log.exception("defect")
            wait = min(self._every * 2 ** min(self._failures, 10), max(self._every, _MOST_WAIT))
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), wait)

    def _guarded(self, endpoint: Endpoint) -> Handler:
        async def guarded(request: Request) -> Response:
            began = time.perf_counter()
            try:
                self._rates.check(sender(request))
                self._authorise(endpoint, request)
                response = await endpoint.handler(request)
            except Problem as problem:
                response = _problem(problem)
            except StorageError as problem:
                response = _problem(Problem("full" if problem.errno in _FULL else "storage", retry_after=5))
            except ClientDisconnect:
                response = _problem(Problem("too-slow", "the connection was lost"))
            except Exception:
                log.exception("defect")
                response = _problem(Problem("internal"))
            if _has_body(request) and (endpoint.takes is None or response.status_code >= 400):
                response.headers["connection"] = "close"  # what is left of the body is not waited for
            self.metrics.count("requests", path=endpoint.name, status=str(response.status_code))
            spent = round(1000 * (time.perf_counter() - began), 1)
            entry = {"event": "request", "path": endpoint.name, "status": response.status_code, "milliseconds": spent}
            _write(entry)
            return response

        return guarded

    def _authorise(self, endpoint: Endpoint, request: Request) -> None:
        if endpoint.private and not self.role.is_operator(request.headers.get("authorization", "")):
            raise Problem("not-allowed")
        if endpoint.takes is not None and request.headers.get("content-type") != endpoint.takes:
            raise Problem("media-type", f"send {endpoint.takes}")

    def _fingerprint(self, request: Request) -> str:
        return str(request.path_params.get("fingerprint", self.role.newest))

    def _group(self, request: Request) -> int:
        text = str(request.path_params.get("group", 0))
        if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
            raise Problem("unknown-path", "a group is a number")
        return int(text)

    async def _frames(self, request: Request) -> Response:
        intake = self.role.intake(self._fingerprint(request), self._group(request))
        answer, fates = await intake.take(await self._bodies.read(request))
        for fate, count in fates.items():
            self.metrics.count("frames", count, fate=fate.name.lower())
        return Response(answer, media_type=RECEIPT)

    async def _batch(self, request: Request) -> Response:
        assert isinstance(self.role, AnalyzerRole)
        where = self._fingerprint(request), self._group(request)
        self.role.release_path(*where)
        size = request.headers.get("content-length", "")
        if not (size.isascii() and size.isdecimal()):
            raise Problem("batch", "say its length in content-length")
        ticket = Ticket(request.headers.get(CHECKSUM, ""), int(size), request.headers.get(SIGNATURE, ""))
        return JSONResponse(await self.role.take(*where, ticket, request.stream()), status_code=202)

    async def _token(self, request: Request) -> Response:
        assert isinstance(self.role, IssuerRole)
        parts = frames(await self._bodies.read(request))
        if len(parts) != 2:
            raise Problem("frames", "send two: the invitation and the blinded message")
        return Response(await self.role.sign(self._fingerprint(request), *parts), media_type=BINARY)

    async def _front(self, request: Request) -> Response:
        groups = [
            {**await asyncio.to_thread(self.role.status, name, group), "issuer": self.role.signed[name].issuer}
            for name, group in self.role.places()
        ]
        content = status_page(self.role.name, self.role.key.public.hex(), groups)
        return HTMLResponse(content, headers={"content-security-policy": POLICY, **CAREFUL})

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(openapi(self.role.name, self.endpoints()))

    async def _collections(self, request: Request) -> Response:
        names = [{"fingerprint": name, "groups": self.role.groups(name)} for name in self.role.signed]
        return JSONResponse({"role": self.role.name, "key": self.role.key.public.hex(), "collections": names})

    async def _protocol(self, request: Request) -> Response:
        signed = self.role.signed.get(self._fingerprint(request))
        if signed is None:
            raise Problem("unknown-path", "this server does not take part in that collection")
        return Response(signed.to_bytes(), media_type=JSON)

    async def _log(self, request: Request) -> Response:
        return Response(await asyncio.to_thread(self.role.log.content), media_type=LINES)

    async def _status(self, request: Request) -> Response:
        found = await asyncio.to_thread(self.role.status, self._fingerprint(request), self._group(request))
        return JSONResponse(found)

    async def _counts(self, request: Request) -> Response:
        groups = [await asyncio.to_thread(self.role.counts, *place) for place in self.role.places()]
        return JSONResponse({"groups": groups}, headers=CAREFUL)

    async def _released(self, request: Request) -> Path:
        path = self.role.release_path(self._fingerprint(request), self._group(request))
        if not path.exists():
            raise Problem("not-ready")
        return path

    async def _release(self, request: Request) -> Response:
        path = await self._released(request)
        with storage_errors("read", path):
            content = await asyncio.to_thread(path.read_bytes)  # whole: a new one may replace it meanwhile
        headers = {"content-disposition": 'attachment; filename="release.sfm"', **CAREFUL}
        return Response(content, media_type=BINARY, headers=headers)

    async def _map(self, request: Request) -> Response:
        path = await self._released(request)
        async with self._drawing:  # one at a time, and each once
            written = path.stat().st_mtime_ns
            known = self._pages.get(path)
            if known is None or known[0] != written:
                try:
                    known = self._pages[path] = written, await asyncio.to_thread(_drawn, path)
                except InputError as problem:
                    raise Problem("not-ready", f"there is no map of it: {problem}") from None
                except ReleaseFileError as problem:
                    raise StorageError(f"the published release {str(path)!r} is damaged: {problem}") from problem
        return HTMLResponse(known[1], headers=CAREFUL)

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"alive": True})

    async def _ready(self, request: Request) -> Response:
        ready = self._failures < _FAILURES
        return JSONResponse({"ready": ready}, status_code=200 if ready else 503)

    async def _metrics(self, request: Request) -> Response:
        waiting = sum(intake.commits.waiting for intake in self.role.intakes.values())
        transactions = sum(intake.commits.transactions for intake in self.role.intakes.values())
        gauges: dict[str, float] = {"waiting_bytes": waiting, "transactions": transactions}
        return PlainTextResponse(self.metrics.text(gauges))


def _drawn(path: Path) -> bytes:
    from sfumato.maps import evaluate
    from sfumato.maps.page import page

    return page([evaluate(load(path))])


def _has_body(request: Request) -> bool:
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


async def _unknown(request: Request, error: HTTPException) -> Response:
    answer = _problem(Problem("method" if error.status_code == 405 else "unknown-path"))
    if _has_body(request):
        answer.headers["connection"] = "close"
    return answer


def _problem(problem: Problem) -> Response:
    return Response(problem.body(), problem.status, problem.headers(), PROBLEM)


def _write(entry: dict[str, Any]) -> None:
    if log.isEnabledFor(logging.INFO):
        log.info(json.dumps(entry, sort_keys=True))
