"""The device in TypeScript: its own tests in Node and in a browser, on the vectors that Python makes."""

from __future__ import annotations

import json
import shutil
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.clients.conftest import in_client
from tests.clients.make_vectors import ALL, FOLDER, written
from tests.maps.browser import browser, chromium


@pytest.mark.exact
@pytest.mark.parametrize("name", sorted(ALL))
def test_vectors_are_what_the_code_makes(name: str) -> None:
    found = (FOLDER / f"{name}.json").read_text()
    assert json.loads(written(name)) == json.loads(found), "run python -m tests.clients.make_vectors"


def test_in_node(built: Path) -> None:
    said = in_client("node", "--test", "--test-reporter=tap", str(built / "node.test.mjs"))
    assert int(said.split("# pass ")[1].split()[0]) > 300


def test_types_and_lint(built: Path) -> None:
    in_client("npx", "--no-install", "tsc", "--noEmit")
    in_client("npx", "--no-install", "eslint", ".")


@pytest.mark.skipif(chromium() is None, reason="THE DEVICE IN TYPESCRIPT IS NOT TESTED IN A BROWSER: no chromium")
def test_in_a_browser(built: Path, tmp_path: Path) -> None:
    """The same checks, on a page of its own origin: WebCrypto wants a secure one, and a local server is that."""
    (tmp_path / "index.html").write_text(
        '<!doctype html><meta charset="utf-8"><script type="module" src="page.mjs"></script>'
    )
    shutil.copy(built / "page.mjs", tmp_path / "page.mjs")

    class Quiet(SimpleHTTPRequestHandler):
        extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}  # noqa: RUF012

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, directory=str(tmp_path), **named)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        with browser(tmp_path / "profile") as page:
            page.visit(f"http://localhost:{server.server_port}/index.html")
            page.run("sfumatoChecks().then((found) => { globalThis.found = found }, String) && null")
            found = None
            while found is None:  # in turns, so that no single answer takes long
                found = page.run("new Promise((done) => setTimeout(() => done(globalThis.found ?? null), 500))")
    finally:
        server.shutdown()
    assert found["failed"] == []
    assert found["passed"] > 300
