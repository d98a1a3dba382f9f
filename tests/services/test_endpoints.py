"""The OpenAPI document of a table of endpoints: parameters of paths, problems by status, the operator's lock."""

from __future__ import annotations

from typing import Any

from sfumato.services.endpoints import JSON, Endpoint, openapi


async def _handler(request: Any) -> Any:
    raise NotImplementedError


def test_paths_problems_and_locks_are_told() -> None:
    endpoints = [
        Endpoint("GET", "/v1/{fingerprint}/{group}/status", "status", _handler, "Say how it is.", JSON),
        Endpoint("POST", "/v1/close", "close", _handler, "End it.", JSON, takes=JSON, private=True),
    ]
    made = openapi("collector", endpoints)
    status, close = made["paths"]["/v1/{fingerprint}/{group}/status"]["get"], made["paths"]["/v1/close"]["post"]
    assert [parameter["name"] for parameter in status["parameters"]] == ["fingerprint", "group"]
    assert "security" not in status and close["security"] == [{"operator": []}]
    assert "requestBody" in close and "not-allowed" in str(close["responses"])
    assert "busy" in str(status["responses"])
