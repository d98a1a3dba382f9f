"""What a server answers, as a table: the routes are made from it, and so is the OpenAPI document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from sfumato.services.wire import CODES, PROBLEM
from sfumato.version import __version__

Handler = Callable[[Request], Awaitable[Response]]
JSON, BINARY, HTML, TEXT = "application/json", "application/octet-stream", "text/html", "text/plain"
# Of whatever is shown to people or must not be kept by browsers and proxies.
CAREFUL = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-store"}
_ALWAYS = ("busy", "internal")
_PARAMETERS = {
    "fingerprint": ({"type": "string"}, "The collection: SHA-256 of its document, 64 hexadecimal digits."),
    "group": ({"type": "integer", "minimum": 0}, "Place of the group; 0 where there are no classes."),
}


class Endpoint(NamedTuple):
    """One path and method.

    Attributes
    ----------
    method, path, name : str
        ``{fingerprint}`` and ``{group}`` stand for what they say.
    handler : callable
        Answers.
    about : str
        A sentence.
    gives : str
        Media type of the answer.
    status : int
        Of a success.
    takes : str or None
        Media type of the body.
    codes : tuple of str
        Problems that it may answer, beside those of every path.
    private : bool
        Whether it is for the operator alone.
    headers : tuple of str
        Headers that the request must have.
    """

    method: str
    path: str
    name: str
    handler: Handler
    about: str
    gives: str
    status: int = 200
    takes: str | None = None
    codes: tuple[str, ...] = ()
    private: bool = False
    headers: tuple[str, ...] = ()


def openapi(role: str, endpoints: list[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI document of a server."""
    paths: dict[str, Any] = {}
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"sfumato {role}",
            "version": __version__,
            "description": "See docs/wire.md for the bytes of each body.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Problem": _problem_schema()},
            "securitySchemes": {"operator": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(one: Endpoint) -> dict[str, Any]:
    names = [name for name in _PARAMETERS if f"{{{name}}}" in one.path]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _PARAMETERS[name][0], "description": text}
        for name, text in ((name, _PARAMETERS[name][1]) for name in names)
    ]
    parameters += [
        {"name": name, "in": "header", "required": True, "schema": {"type": "string"}} for name in one.headers
    ]
    made: dict[str, Any] = {
        "operationId": f"{one.method.lower()}-{one.name}" + ("-newest" if "/v1/" not in one.path else ""),
        "summary": one.about,
        "parameters": parameters,
        "responses": _responses(one),
    }
    if one.takes is not None:
        made["requestBody"] = {"required": True, "content": {one.takes: {"schema": _binary(one.takes)}}}
    if one.private:
        made["security"] = [{"operator": []}]
    return made


def _responses(one: Endpoint) -> dict[str, Any]:
    success = {"description": "Done.", "content": {one.gives: {"schema": _binary(one.gives)}}}
    by_status: dict[int, list[str]] = {}
    for code in (*one.codes, *_ALWAYS, *(("not-allowed",) if one.private else ())):
        by_status.setdefault(CODES[code][0], []).append(code)
    problems = {
        str(status): {
            "description": " ".join(f"{code}: {CODES[code][1]}" for code in codes),
            "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status, codes in sorted(by_status.items())
    }
    return {str(one.status): success, **problems}


def _binary(media: str) -> dict[str, Any]:
    return {"type": "object"} if media == JSON else {"type": "string", "format": "binary"}


def _problem_schema() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "type": "object",
        "required": ["type", "title", "status", "code"],
        "properties": {
            "type": text,
            "title": text,
            "status": {"type": "integer"},
            "code": {"type": "string", "enum": sorted(CODES)},
            "detail": text,
        },
    }
